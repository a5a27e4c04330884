"""
Operations of `arith` and `math` that models contain and xDSL 0.74 lacks.

Until xDSL has them (a pull request of a class each) the universe puts them into its dialects.
"""

from __future__ import annotations

import sys
from abc import ABC

from xdsl.dialects.arith import FastMathFlagsAttr, FloatingPointLikeBinaryOperation
from xdsl.dialects.builtin import AnyFloatConstr, IndexType, IntegerType, ShapedType, i1
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.upstream.on_demand import operations_of


@irdl_op_definition
class RemfOp(FloatingPointLikeBinaryOperation):
    """The remainder of a division toward 0, with the dividend's sign."""

    name = "arith.remf"
    traits = traits_def(Pure())


def _scalar(type: Attribute) -> Attribute:
    return type.get_element_type() if isinstance(type, ShapedType) else type  # pyright: ignore


@irdl_op_definition
class IndexCastUIOp(IRDLOperation):
    """Casts between `index` and an integer, without sign."""

    name = "arith.index_castui"
    input = operand_def()
    result = result_def()
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"
    traits = traits_def(Pure())

    def __init__(self, input: SSAValue | Operation, target_type: Attribute):
        super().__init__(operands=[input], result_types=[target_type])

    def verify_(self) -> None:
        kinds = {type(_scalar(value.type)) for value in (self.input, self.result)}
        if kinds != {IndexType, IntegerType}:
            raise VerifyException(
                f"arith.index_castui converts between index and an integer, not {self.input.type} "
                f"to {self.result.type}"
            )


class FloatClassOperation(IRDLOperation, ABC):
    """A question about a float."""

    operand = operand_def(AnyFloatConstr)
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def(i1)
    assembly_format = "$operand (`fastmath` `` $fastmath^)? attr-dict `:` type($operand)"
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation):
        super().__init__(
            operands=[operand],
            properties={"fastmath": FastMathFlagsAttr("none")},
            result_types=[i1],
        )


@irdl_op_definition
class IsNaNOp(FloatClassOperation):
    """Whether it is not a number."""

    name = "math.isnan"


@irdl_op_definition
class IsInfOp(FloatClassOperation):
    """Whether it is infinite."""

    name = "math.isinf"


@irdl_op_definition
class IsFiniteOp(FloatClassOperation):
    """Whether it is a finite number."""

    name = "math.isfinite"


OPERATIONS = operations_of([sys.modules[__name__]])


def extensions_of(dialect: str) -> list[type[Operation]]:
    """The operations above that belong to `arith` or `math`."""
    return [op for op in OPERATIONS if op.name.startswith(f"{dialect}.")]


def extend(dialect: Dialect) -> Dialect:
    """Returns `arith` or `math` with the operations that it lacks."""
    known = {op.name for op in dialect.operations}
    new = [op for op in extensions_of(dialect.name) if op.name not in known]
    interfaces = list(dialect._interfaces)  # pyright: ignore[reportPrivateUsage]
    return Dialect(dialect.name, [*dialect.operations, *new], list(dialect.attributes), interfaces)
