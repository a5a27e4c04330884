"""
What an operation reads, its regions included; operations whose results nobody reads are erased.

xDSL's own dead-code elimination keeps what it does not know to be pure, and of `linalg` and most of
`tensor` it knows nothing; the passes here know which of the operations that they met are.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import tensor
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.region_utils import iter_used_values_defined_above
from xdsl.traits import is_side_effect_free


def operands_of(op: Operation) -> list[SSAValue]:
    """The operands of an operation, and the values that its regions use and do not define."""
    if not op.regions:
        return list(op.operands)
    captured = (v for region in op.regions for v in iter_used_values_defined_above(region))
    return list(dict.fromkeys((*op.operands, *captured)))


def erase_unused(op: Operation) -> bool:
    """Erase an operation in a block whose results nobody uses; returns whether that is so."""
    block = op.parent_block()
    if block is None or any(result.first_use for result in op.results):
        return False
    block.erase_op(op)
    return True


def erase_unused_ops(block: Block, may_go: Callable[[Operation], bool]) -> None:
    """Erase the operations with results that nobody uses and that may go, users before makers."""
    for op in reversed(list(block.ops)):
        if op.results and may_go(op):
            erase_unused(op)


def erase_dead(value: SSAValue) -> None:
    """Erase what computed a value that nobody uses, and what only that used."""
    op = value.owner
    known = isinstance(op, LinalgStructuredOperation | BroadcastOp | tensor.PadOp)
    if isinstance(op, Operation) and (known or is_side_effect_free(op)):
        operands = list(op.operands)
        if erase_unused(op):
            for operand in operands:
                erase_dead(operand)
