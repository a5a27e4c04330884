"""Evaluates an instruction on constants by its name, for OpSpecConstantOp in IR and in binaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_spirv.dialects.spirv.base import instruction_of
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.folding import Foldable, Number


@cache
def operations_by_instruction() -> Mapping[str, type[Operation]]:
    """Maps the name of a core instruction to the class of its operation."""
    from xdsl_spirv.dialects.spirv import OPERATIONS

    named = ((instruction_of(cls), cls) for cls in OPERATIONS)
    return {name: cls for (extended_set, name), cls in named if extended_set is None}


def evaluate(instruction: str, operands: Sequence[Number], result: Attribute) -> Number | None:
    """
    Returns the result of an instruction on scalar constants. Returns None if it cannot be
    evaluated.
    """
    cls = operations_by_instruction().get(instruction)
    if cls is None or not issubclass(cls, Foldable):
        return None
    if len(operands) != len(cls.get_irdl_definition().operands):
        return None
    values = [ConstantOp(number).result for number in operands]
    op = cls.create(operands=values, result_types=[result])
    value = op.evaluate(operands)
    if isinstance(value, SSAValue):
        value = ConstantLike.get_constant_value(value)
    return value if isinstance(value, IntegerAttr | FloatAttr) else None
