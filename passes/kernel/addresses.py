"""
From the number that counts through a walk to a place in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.layout import Layout, Walk
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter


@dataclass(frozen=True)
class Address:
    """
    The offsets that walks add to the address and to each guarded coordinate.

    The address is `base` + `constant`, kept apart so that what several places share is computed
    once and the rest is an immediate of the load.
    """

    base: Index
    constant: Size
    coordinates: tuple[Index, ...]

    def plus(self, b: KernelEmitter, other: Address) -> Address:
        return Address(
            b.plus(self.base, other.base),
            self.constant + other.constant,
            tuple(map(b.plus, self.coordinates, other.coordinates)),
        )

    def offset(self, b: KernelEmitter) -> Index:
        return b.plus(self.base, self.constant)

    def inside(self, b: KernelEmitter, layout: Layout) -> Condition:
        """
        Whether every guarded coordinate lies inside its dimension.

        A coordinate below 0 is a large number without a sign.
        """
        condition: Condition = True
        for coordinate, guard in zip(self.coordinates, layout.guards, strict=True):
            condition = b.both(condition, b.below(coordinate, guard.size))
        return condition


def origin(layout: Layout) -> Address:
    """The address at which all walks begin."""
    return Address(0, layout.start, tuple(guard.start for guard in layout.guards))


def address_along(
    b: KernelEmitter, walk: Walk, number: Index, guards: int, ahead: Index = 0, constant: int = 0
) -> Address:
    """
    The address of the element `number` + `constant` of a walk, relative to the walk's begin.

    `ahead` is added to the last axis: it must not carry the number beyond that axis.
    """
    if len(walk) > 1 or guards:
        number, constant = b.plus(number, constant), 0
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
    return Address(offset, constant * walk[0].stride if walk else 0, tuple(coordinates))
