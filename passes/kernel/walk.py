"""
From the number that counts through a walk to a place in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.kernel.builder import Condition, Index, KernelBuilder
from xdsl_spirv.passes.schedule.layout import Layout, Walk


@dataclass(frozen=True)
class Spot:
    """What walks contribute: to the address, and to each guarded coordinate."""

    offset: Index
    coordinates: tuple[Index, ...]

    def plus(self, b: KernelBuilder, other: Spot) -> Spot:
        return Spot(
            b.plus(self.offset, other.offset),
            tuple(map(b.plus, self.coordinates, other.coordinates)),
        )

    def inside(self, b: KernelBuilder, layout: Layout) -> Condition:
        """
        Whether every guarded coordinate lies inside its dimension.

        A coordinate below 0 is a large number without a sign.
        """
        condition: Condition = None
        for coordinate, guard in zip(self.coordinates, layout.guards, strict=True):
            condition = b.both(condition, b.below(coordinate, guard.size))
        return condition


def origin(layout: Layout) -> Spot:
    """Where all walks begin."""
    return Spot(layout.start, tuple(guard.start for guard in layout.guards))


def spot(b: KernelBuilder, walk: Walk, number: Index, guards: int, ahead: Index = 0) -> Spot:
    """
    Where the `number`-th element of a walk lies, relative to the walk's begin.

    `ahead` is added to the last axis: it must not carry the number beyond that axis.
    """
    offset: Index = 0
    coordinates: list[Index] = [0] * guards
    for position in reversed(range(len(walk))):
        axis = walk[position]
        index = number if position == 0 else b.remainder(number, axis.size)
        number = b.divided(number, axis.size) if position else 0
        if position == len(walk) - 1:
            index = b.plus(index, ahead)
        offset = b.plus(offset, b.times(index, axis.stride))
        for i, step in enumerate(axis.steps):
            coordinates[i] = b.plus(coordinates[i], b.times(index, step))
    return Spot(offset, tuple(coordinates))
