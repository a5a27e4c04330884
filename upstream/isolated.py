"""
Checks isolation from above in one walk.

xDSL's trait walks from every operand up to the isolated operation, once for each level of nesting.
A pull request to xDSL would collect the owners of all operands in `IsolatedFromAbove.verify`, and
check each owner once.
"""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.traits import IsolatedFromAbove


class Isolated(IsolatedFromAbove):
    """A replacement of xDSL's trait `IsolatedFromAbove` that visits every operation once."""

    def verify(self, op: Operation) -> None:
        inside: set[int] = set()
        owners: set[int] = set()
        regions = list(op.regions)
        while regions:
            for block in regions.pop().blocks:
                inside.add(id(block))
                for child in block.ops:
                    inside.add(id(child))
                    for operand in child._operands:  # pyright: ignore[reportPrivateUsage]
                        owners.add(id(operand.owner))
                    if child.regions and not child.has_trait(IsolatedFromAbove):
                        regions += child.regions
        if not owners <= inside:
            super().verify(op)
