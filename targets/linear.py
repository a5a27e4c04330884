"""
Represents linear maps from the bits of an index to coordinates. An example is the position of a
component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Place = tuple[int, ...]
"""The coordinates of an index, one for each axis: (row, column)."""


@dataclass(frozen=True)
class Linear:
    """
    Maps each index below a power of two to coordinates.

    `bits` has the coordinates that each bit of the index adds, the lowest bit first. The
    coordinates of an index are the sum over its set bits. No two bits add the same power of two on
    an axis, so that the sum equals an exclusive or.
    """

    bits: tuple[Place, ...]
    axes: int = 2

    @property
    def size(self) -> int:
        """Number of indices that the map accepts."""
        return 1 << len(self.bits)

    def at(self, number: int) -> Place:
        """Returns the coordinates of an index."""
        own = [bit for position, bit in enumerate(self.bits) if number >> position & 1]
        return tuple(sum(bit[axis] for bit in own) for axis in range(self.axes))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The coordinates of all indices, in order."""
        return tuple(map(self.at, range(self.size)))

    def bits_along(self, axis: int) -> list[tuple[int, int]]:
        """
        Returns the number of each bit that changes the coordinate along an axis, and the step that
        it adds.
        """
        return [(bit, place[axis]) for bit, place in enumerate(self.bits) if place[axis]]

    def values(self, axis: int) -> list[int]:
        """Returns the distinct coordinates along an axis, sorted."""
        return sorted({place[axis] for place in self.places})

    def groups(self, axis: int) -> dict[int, list[int]]:
        """Maps each coordinate along an axis to the indices with that coordinate."""
        groups: dict[int, list[int]] = {value: [] for value in self.values(axis)}
        for number, place in enumerate(self.places):
            groups[place[axis]].append(number)
        return groups

    def then(self, axis: int, weights: Mapping[int, int]) -> Linear:
        """
        Returns a map with other steps: the step that a bit adds along an axis becomes
        `weights[step]`. A step that `weights` lacks becomes 0.
        """
        return Linear(
            tuple(
                (*place[:axis], weights.get(place[axis], 0), *place[axis + 1 :])
                for place in self.bits
            ),
            self.axes,
        )

    def run(self, axis: int) -> int:
        """
        Returns the largest width for which every aligned block of `width` indices has consecutive
        coordinates along an axis.
        """
        width = 1
        for place in self.bits:
            if place[axis] != width or sum(place) != width:
                break
            width *= 2
        return width
