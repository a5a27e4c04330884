"""
What xDSL 0.74 does not verify: that a value is made before it is used, and loops are counted.

A module whose operation reads its own result, or one further down, verifies in xDSL; passes that
follow values then never end. So does a `linalg.index` of a loop that is not there. The pull
request: MLIR's dominance verification, and a verifier of `linalg.index`.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import IndexOp
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import VerifyException


def verify_order(op: Operation) -> None:
    """Raises `VerifyException` for a function with a value that is used before it is made."""
    for function in op.walk():
        if isinstance(function, FuncOp):
            for block in function.body.blocks:
                _verify(block, set(), set())


def _verify(block: Block, made: set[Operation], around: set[Block]) -> None:
    """`made` are the operations that stand before in this block and in those `around` it."""
    around = around | {block}
    for op in block.ops:
        for operand in op.operands:
            owner = operand.owner
            late = isinstance(owner, Operation) and owner.parent_block() in around
            if late and owner not in made:
                name = f" %{operand.name_hint}" if operand.name_hint else ""
                raise VerifyException(f"{op.name!r} uses the value{name} before it is made")
        if isinstance(op, IndexOp):
            _verify_index(op)
        for region in op.regions:
            for inner in region.blocks:
                _verify(inner, made, around)
        made.add(op)


def _verify_index(op: IndexOp) -> None:
    loops = op.parent_op()
    if isinstance(loops, LinalgStructuredOperation):
        count = len(loops.get_iterator_types())
        if not 0 <= op.dim.value.data < count:
            raise VerifyException(f"'linalg.index' {op.dim.value.data} of {count} loops")
