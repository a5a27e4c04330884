"""
What is known of a value before the program runs: whether it is zero, and whether it is the same in
every run, as constants are, arguments that are weights, and what is computed of them alone.
"""

from __future__ import annotations

from math import copysign

from xdsl.dialects import arith
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.dialects.tensor import CollapseShapeOp, ConcatOp, ExpandShapeOp
from xdsl.ir import Block, BlockArgument, SSAValue

from xdsl_spirv.dialects.program import value_of
from xdsl_spirv.dialects.schedule import DispatchOp


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


def is_weight(value: SSAValue) -> bool:
    """Whether a value of a dispatch, or of a host function, is the same in every run."""
    waiting, known = [value], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in known:
            continue
        known.add(value)
        owner = value.owner
        if isinstance(owner, CollapseShapeOp | ExpandShapeOp):
            waiting.append(owner.operands[0])
        elif isinstance(owner, ConcatOp | DispatchOp):
            # What only weights decide is computed once.
            waiting += owner.operands
        elif not isinstance(owner, Block):
            if not isinstance(owner, ConstantOp):
                return False
        else:
            assert isinstance(value, BlockArgument)
            parent = owner.parent_op()
            if isinstance(parent, DispatchOp):
                waiting.append(parent.inputs[value.index])
            elif not isinstance(parent, FuncOp) or value_of(parent, value.index) is None:
                return False
    return True
