"""
Compares two pieces of IR, including the types of values.

xDSL's `is_structurally_equivalent` does not compare types. A pull request to xDSL would add this.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, Region


def is_same(one: Operation | Region, other: Operation | Region) -> bool:
    """True if two operations or regions are equal. Ignores names and locations."""
    return one.is_structurally_equivalent(other) and all(
        _types(first) == _types(second)
        for first, second in zip(one.walk(), other.walk(), strict=True)
    )


def _types(op: Operation) -> list[Attribute]:
    arguments = [arg for region in op.regions for block in region.blocks for arg in block.args]
    return [value.type for value in (*op.results, *arguments)]
