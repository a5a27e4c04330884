"""
What an operation reads, its regions included.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.ir.region_utils import iter_used_values_defined_above


def operands_of(op: Operation) -> list[SSAValue]:
    """The operands of an operation, and the values that its regions use and do not define."""
    if not op.regions:
        return list(op.operands)
    captured = (v for region in op.regions for v in iter_used_values_defined_above(region))
    return list(dict.fromkeys((*op.operands, *captured)))
