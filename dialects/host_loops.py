"""Moves what no iteration of a host function's loop changes before the loop."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter


def hoist(loop: scf.ForOp) -> None:
    """Move what no iteration changes before the loop."""
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
    """
    Whether a value belongs to the loop's own block; a value inside one of its operations does not.
    """
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent_block()
    return block is loop.body.block
