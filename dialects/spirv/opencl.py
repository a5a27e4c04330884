"""
OpenCL.std: the extended instructions for mathematics that MLIR has, and printf.

The syntax is MLIR's. The other instructions of the set are carried without being typed.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    Predicate,
    TernaryOperation,
    UnaryOperation,
    Value,
    is_ieee_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.types import PointerType

INTEGER: tuple[Predicate, str] = (is_integer, "integer")
FLOAT: tuple[Predicate, str] = (is_ieee_float, "floating-point")


def _check(op: Operation, kind: tuple[Predicate, str]) -> None:
    types = [o.type for o in op.operands]
    if kind is FLOAT:
        rules.bf_09_no_arithmetic(types)
    require(op, types, *kind)


class CLUnary(UnaryOperation, ABC):
    """A function of one value, component by component."""

    KIND: ClassVar[tuple[Predicate, str]] = FLOAT
    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand"}

    def verify_(self) -> None:
        _check(self, self.KIND)


class CLBinary(BinaryOperation, ABC):
    """A function of two values, component by component."""

    KIND: ClassVar[tuple[Predicate, str]] = FLOAT
    FIELDS: ClassVar[Mapping[str, str]] = {"x": "operand_1", "y": "operand_2"}

    def verify_(self) -> None:
        _check(self, self.KIND)


class CLTernary(TernaryOperation, ABC):
    """A function of three values, component by component."""

    def verify_(self) -> None:
        _check(self, FLOAT)


@irdl_op_definition
class CLAcosOp(CLUnary):
    """Arc cosine."""

    name = "spirv.CL.acos"


@irdl_op_definition
class CLAcoshOp(CLUnary):
    """Hyperbolic arc cosine."""

    name = "spirv.CL.acosh"


@irdl_op_definition
class CLAsinOp(CLUnary):
    """Arc sine."""

    name = "spirv.CL.asin"


@irdl_op_definition
class CLAsinhOp(CLUnary):
    """Hyperbolic arc sine."""

    name = "spirv.CL.asinh"


@irdl_op_definition
class CLAtanOp(CLUnary):
    """Arc tangent."""

    name = "spirv.CL.atan"


@irdl_op_definition
class CLAtanhOp(CLUnary):
    """Hyperbolic arc tangent."""

    name = "spirv.CL.atanh"


@irdl_op_definition
class CLCeilOp(CLUnary):
    """Rounds toward infinity."""

    name = "spirv.CL.ceil"


@irdl_op_definition
class CLCosOp(CLUnary):
    """Cosine."""

    name = "spirv.CL.cos"


@irdl_op_definition
class CLCoshOp(CLUnary):
    """Hyperbolic cosine."""

    name = "spirv.CL.cosh"


@irdl_op_definition
class CLErfOp(CLUnary):
    """Error function."""

    name = "spirv.CL.erf"


@irdl_op_definition
class CLExpOp(CLUnary):
    """e to the power of x."""

    name = "spirv.CL.exp"


@irdl_op_definition
class CLFabsOp(CLUnary):
    """Absolute value."""

    name = "spirv.CL.fabs"


@irdl_op_definition
class CLFloorOp(CLUnary):
    """Rounds toward minus infinity."""

    name = "spirv.CL.floor"


@irdl_op_definition
class CLLogOp(CLUnary):
    """Natural logarithm."""

    name = "spirv.CL.log"


@irdl_op_definition
class CLRintOp(CLUnary):
    """Nearest whole number; halves to even."""

    name = "spirv.CL.rint"


@irdl_op_definition
class CLRoundOp(CLUnary):
    """Nearest whole number; halves away from zero."""

    name = "spirv.CL.round"


@irdl_op_definition
class CLRsqrtOp(CLUnary):
    """One over the square root."""

    name = "spirv.CL.rsqrt"


@irdl_op_definition
class CLSinOp(CLUnary):
    """Sine."""

    name = "spirv.CL.sin"


@irdl_op_definition
class CLSinhOp(CLUnary):
    """Hyperbolic sine."""

    name = "spirv.CL.sinh"


@irdl_op_definition
class CLSqrtOp(CLUnary):
    """Square root."""

    name = "spirv.CL.sqrt"


@irdl_op_definition
class CLTanOp(CLUnary):
    """Tangent."""

    name = "spirv.CL.tan"


@irdl_op_definition
class CLTanhOp(CLUnary):
    """Hyperbolic tangent."""

    name = "spirv.CL.tanh"


@irdl_op_definition
class CLSAbsOp(CLUnary):
    """Absolute value, unsigned."""

    name = "spirv.CL.s_abs"
    KIND: ClassVar[tuple[Predicate, str]] = INTEGER


@irdl_op_definition
class CLAtan2Op(CLBinary):
    """Arc tangent of y / x."""

    name = "spirv.CL.atan2"
    FIELDS: ClassVar[Mapping[str, str]] = {"y": "operand_1", "x": "operand_2"}


@irdl_op_definition
class CLFmaxOp(CLBinary):
    """The greater."""

    name = "spirv.CL.fmax"


@irdl_op_definition
class CLFminOp(CLBinary):
    """The lesser."""

    name = "spirv.CL.fmin"


@irdl_op_definition
class CLPowOp(CLBinary):
    """x to the power of y."""

    name = "spirv.CL.pow"


@irdl_op_definition
class CLSMaxOp(CLBinary):
    """The greater, signed."""

    name = "spirv.CL.s_max"
    KIND: ClassVar[tuple[Predicate, str]] = INTEGER


@irdl_op_definition
class CLSMinOp(CLBinary):
    """The lesser, signed."""

    name = "spirv.CL.s_min"
    KIND: ClassVar[tuple[Predicate, str]] = INTEGER


@irdl_op_definition
class CLUMaxOp(CLBinary):
    """The greater, unsigned."""

    name = "spirv.CL.u_max"
    KIND: ClassVar[tuple[Predicate, str]] = INTEGER


@irdl_op_definition
class CLUMinOp(CLBinary):
    """The lesser, unsigned."""

    name = "spirv.CL.u_min"
    KIND: ClassVar[tuple[Predicate, str]] = INTEGER


@irdl_op_definition
class CLFmaOp(CLTernary):
    """a * b + c, rounded once."""

    name = "spirv.CL.fma"
    FIELDS: ClassVar[Mapping[str, str]] = {"a": "x", "b": "y", "c": "z"}


@irdl_op_definition
class CLMixOp(CLTernary):
    """x + (y - x) * a."""

    name = "spirv.CL.mix"
    FIELDS: ClassVar[Mapping[str, str]] = {"a": "z"}


@irdl_op_definition
class CLPrintfOp(SPIRVOp):
    """
    Prints values as a constant string says.

    `spirv.CL.printf %format %a, %b : !spirv.ptr<i8, UniformConstant>, f32, i32 -> i32`.
    """

    name = "spirv.CL.printf"
    FIELDS: ClassVar[Mapping[str, str]] = {"additional_arguments": "arguments"}
    format = operand_def(PointerType)
    arguments = var_operand_def()
    result = result_def()
    assembly_format = (
        "$format ($arguments^)? attr-dict `:` type($format) (`,` type($arguments)^)? "
        "`->` type($result)"
    )

    def __init__(self, format: Value, arguments: Sequence[Value] = ()):
        values = [SSAValue.get(argument) for argument in arguments]
        super().__init__(operands=[format, values], result_types=[i32])

    def verify_(self) -> None:
        type_ = self.format.type
        assert isinstance(type_, PointerType)  # the operand's constraint
        if type_.storage_class.data is not StorageClass.UniformConstant:
            raise VerifyException(f"{self.name}: the format is in UniformConstant, not {type_}")
        if self.result.type != i32:
            raise VerifyException(f"{self.name} gives i32, not {self.result.type}")
