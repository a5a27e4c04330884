"""
OpenCL.std: the extended instructions for mathematics that MLIR has, and printf.

The syntax is MLIR's. The other instructions of the set are represented by `spirv.Raw`.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import i32
from xdsl.irdl import operand_def, result_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryOperation,
    Predicate,
    TernaryOperation,
    UnaryOperation,
    is_ieee_float,
    is_integer,
    require,
)
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.types import PointerType

INTEGER: tuple[Predicate, str] = (is_integer, "integer")
FLOAT: tuple[Predicate, str] = (is_ieee_float, "floating-point")


class CLFunction(SPIRVOp, ABC):
    """An OpenCL.std function. `KIND` gives the type of components: floats or integers."""

    KIND: ClassVar[tuple[Predicate, str]] = FLOAT

    def verify_(self) -> None:
        types = [o.type for o in self.operands]
        if self.KIND is FLOAT:
            rules.bf_09_no_arithmetic(types)
        require(self, types, *self.KIND)


class CLUnary(CLFunction, UnaryOperation, ABC):
    """An elementwise function of one value."""


class CLBinary(CLFunction, BinaryOperation, ABC):
    """An elementwise function of two values."""


class CLTernary(CLFunction, TernaryOperation, ABC):
    """An elementwise function of three values."""


# fmt: off
class CLAcosOp(CLUnary, name="spirv.CL.acos"): """Arc cosine."""
class CLAcoshOp(CLUnary, name="spirv.CL.acosh"): """Hyperbolic arc cosine."""
class CLAsinOp(CLUnary, name="spirv.CL.asin"): """Arc sine."""
class CLAsinhOp(CLUnary, name="spirv.CL.asinh"): """Hyperbolic arc sine."""
class CLAtanOp(CLUnary, name="spirv.CL.atan"): """Arc tangent."""
class CLAtanhOp(CLUnary, name="spirv.CL.atanh"): """Hyperbolic arc tangent."""
class CLCeilOp(CLUnary, name="spirv.CL.ceil"): """Rounds toward infinity."""
class CLCosOp(CLUnary, name="spirv.CL.cos"): """Cosine."""
class CLCoshOp(CLUnary, name="spirv.CL.cosh"): """Hyperbolic cosine."""
class CLErfOp(CLUnary, name="spirv.CL.erf"): """Error function."""
class CLExpOp(CLUnary, name="spirv.CL.exp"): """e to the power of x."""
class CLFabsOp(CLUnary, name="spirv.CL.fabs"): """Absolute value."""
class CLFloorOp(CLUnary, name="spirv.CL.floor"): """Rounds toward minus infinity."""
class CLLogOp(CLUnary, name="spirv.CL.log"): """Natural logarithm."""
class CLRintOp(CLUnary, name="spirv.CL.rint"): """Rounds to the nearest integer, halves to even."""
class CLRoundOp(CLUnary, name="spirv.CL.round"): """Rounds to an integer, halves away from 0."""
class CLRsqrtOp(CLUnary, name="spirv.CL.rsqrt"): """One over the square root."""
class CLSinOp(CLUnary, name="spirv.CL.sin"): """Sine."""
class CLSinhOp(CLUnary, name="spirv.CL.sinh"): """Hyperbolic sine."""
class CLSqrtOp(CLUnary, name="spirv.CL.sqrt"): """Square root."""
class CLTanOp(CLUnary, name="spirv.CL.tan"): """Tangent."""
class CLTanhOp(CLUnary, name="spirv.CL.tanh"): """Hyperbolic tangent."""
class CLSAbsOp(CLUnary, name="spirv.CL.s_abs", kind=INTEGER): """Absolute value, as unsigned."""
class CLAtan2Op(CLBinary, name="spirv.CL.atan2"):
    """Angle of the point (x, y)."""
class CLFmaxOp(CLBinary, name="spirv.CL.fmax"): """Maximum of floats."""
class CLFminOp(CLBinary, name="spirv.CL.fmin"): """Minimum of floats."""
class CLPowOp(CLBinary, name="spirv.CL.pow"): """x to the power of y."""
class CLSMaxOp(CLBinary, name="spirv.CL.s_max", kind=INTEGER): """Maximum of signed integers."""
class CLSMinOp(CLBinary, name="spirv.CL.s_min", kind=INTEGER): """Minimum of signed integers."""
class CLUMaxOp(CLBinary, name="spirv.CL.u_max", kind=INTEGER): """Maximum of unsigned integers."""
class CLUMinOp(CLBinary, name="spirv.CL.u_min", kind=INTEGER): """Minimum of unsigned integers."""
class CLFmaOp(CLTernary, name="spirv.CL.fma"):
    """a * b + c, rounded once."""
class CLMixOp(CLTernary, name="spirv.CL.mix"): """x + (y - x) * a."""
# fmt: on


class CLPrintfOp(SPIRVOp, name="spirv.CL.printf", result=i32):
    """
    Prints values by a constant format string.

    `spirv.CL.printf %format %a, %b : !spirv.ptr<i8, UniformConstant>, f32, i32 -> i32`.
    """

    format = operand_def(PointerType)
    arguments = var_operand_def()
    result = result_def()
    assembly_format = (
        "$format ($arguments^)? attr-dict `:` type($format) (`,` type($arguments)^)? "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        type_ = self.format.type
        assert isinstance(type_, PointerType)  # the operand's constraint
        if type_.storage_class.data is not StorageClass.UniformConstant:
            raise VerifyException(
                f"{self.name}: the format must be a pointer into UniformConstant, not {type_}"
            )
        if self.result.type != i32:
            raise VerifyException(f"{self.name} must return i32, not {self.result.type}")
