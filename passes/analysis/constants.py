"""
What is known of a value before the program runs.
"""

from __future__ import annotations

from math import copysign

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import BlockArgument, SSAValue


def is_zero(value: SSAValue) -> bool:
    """Whether a tensor or scalar is known to be (positive) zero everywhere."""
    match value.owner:
        case FillOp() as fill:
            return is_zero(fill.inputs[0])
        case GenericOp() as generic if (yielded := _broadcast(generic)) is not None:
            return is_zero(yielded)
        case _:
            pass
    if not isinstance(value.owner, arith.ConstantOp):
        return False
    match value.owner.value:
        case IntegerAttr(value=number):
            return number.data == 0
        case FloatAttr(value=number):
            return number.data == 0.0 and copysign(1.0, number.data) > 0
        case DenseIntOrFPElementsAttr() as dense:
            return not any(dense.data.data)
        case _:
            return False


def _broadcast(op: GenericOp) -> SSAValue | None:
    """The value that a `linalg.generic` fills its only result with: an input or from outside."""
    last = op.body.block.last_op
    if last is None or len(op.results) != 1 or last is not op.body.block.first_op:
        return None
    value = last.operands[0]
    if isinstance(value, BlockArgument) and value.owner is op.body.block:
        return op.inputs[value.index] if value.index < len(op.inputs) else None
    return value
