"""
Compares two pieces of IR, types of values included.

xDSL's `is_structurally_equivalent` does not compare types. The pull request: it does.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, Region


def is_same(one: Operation | Region, other: Operation | Region) -> bool:
    """True if two operations, or two regions, are equal; names and locations do not count."""
    return one.is_structurally_equivalent(other) and all(
        _types(first) == _types(second)
        for first, second in zip(one.walk(), other.walk(), strict=True)
    )


def _types(op: Operation) -> list[Attribute]:
    """Types of an operation's results and of its blocks' arguments."""
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [value.type for value in (*op.results, *arguments)]
