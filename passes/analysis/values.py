"""
Answers questions about values: operands, zeros, weights. Also erases unused operations.

xDSL's dead-code elimination does not erase operations that are not marked as pure, such as most of
`linalg` and `tensor`. The functions here know which ones are pure.
"""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

from xdsl.dialects import arith, tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp, FillOp, GenericOp, IndexOp, YieldOp
from xdsl.dialects.tensor import CollapseShapeOp, ConcatOp, ExpandShapeOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.region_utils import iter_used_values_defined_above
from xdsl.traits import is_side_effect_free

from xdsl_spirv.dialects.program import value_of
from xdsl_spirv.dialects.schedule import DispatchOp

MAKERS = (tensor.EmptyOp, FillOp)
"""Operations without cost, because each reader recomputes the result."""


def operands_of(op: Operation) -> list[SSAValue]:
    """Returns the operands of an operation, and the outside values that its regions use."""
    if not op.regions:
        return list(op.operands)
    captured = (v for region in op.regions for v in iter_used_values_defined_above(region))
    return list(dict.fromkeys((*op.operands, *captured)))


def erase_unused(op: Operation) -> bool:
    """Erases an operation if its results are unused; returns True if it was erased."""
    block = op.parent_block()
    if block is None or any(result.first_use for result in op.results):
        return False
    block.erase_op(op)
    return True


def erase_unused_ops(block: Block, may_go: Callable[[Operation], bool]) -> None:
    """Erases unused operations for which `may_go` holds, users before producers."""
    for op in reversed(list(block.ops)):
        if op.results and may_go(op):
            erase_unused(op)


def erase_dead(value: SSAValue) -> None:
    """Erases the producer of an unused value, then producers that became unused."""
    op = value.owner
    known = isinstance(op, LinalgStructuredOperation | BroadcastOp | tensor.PadOp)
    if isinstance(op, Operation) and (known or is_side_effect_free(op)):
        operands = list(op.operands)
        if erase_unused(op):
            for operand in operands:
                erase_dead(operand)


def is_zero(value: SSAValue) -> bool:
    """True if a tensor or scalar is known to be +0 everywhere."""
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
    last = op.body.block.last_op
    if last is None or len(op.results) != 1 or last is not op.body.block.first_op:
        return None
    value = last.operands[0]
    if isinstance(value, BlockArgument) and value.owner is op.body.block:
        return op.inputs[value.index] if value.index < len(op.inputs) else None
    return value


PLACES = (IndexOp, arith.CmpiOp, arith.SelectOp, YieldOp)
"""
Operations that may be in the body of a `linalg.generic` that only selects elements by their
indices.
"""


def _moves(op: GenericOp) -> bool:
    return bool(op.inputs) and all(isinstance(inner, PLACES) for inner in op.body.block.ops)


def is_weight(value: SSAValue) -> bool:
    """
    True if a value depends only on weights and constants, so that every run has an equal value.
    """
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
            # Results of a dispatch that depend only on weights are computed once.
            waiting += owner.operands
        elif isinstance(owner, GenericOp) and _moves(owner):
            waiting += owner.inputs
        elif isinstance(owner, tensor.InsertSliceOp) and isinstance(owner.dest.owner, MAKERS):
            waiting.append(owner.source)
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
