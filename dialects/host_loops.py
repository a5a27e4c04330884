"""
Evaluates constants such as the bounds of loops in host functions, and hoists loop-invariant
operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}


def number_of(value: SSAValue) -> int | None:
    """
    Returns the number of a scalar constant, or of a comparison of constants. Returns None for other
    values.
    """
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    if isinstance(owner, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[owner.predicate.value.data]
        sides = number_of(owner.lhs), number_of(owner.rhs)
        if name in COMPARISONS and sides[0] is not None and sides[1] is not None:
            return int(COMPARISONS[name](sides[0], sides[1]))
    return None


def hoist(loop: scf.ForOp) -> None:
    """Hoists loop-invariant operations out of the loop."""
    for op in list(loop.body.block.ops):
        pure = op.name.startswith(("arith.", "tensor.", "math.", "cf.assert")) or (
            isinstance(op, LinalgStructuredOperation) and bool(op.results)
        )
        if pure and not any(
            _inside(value, loop) for inner in op.walk() for value in inner.operands
        ):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(loop))


def _inside(value: SSAValue, loop: scf.ForOp) -> bool:
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    return block is loop.body.block
