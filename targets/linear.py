"""
Linear maps from the bits of a number to places, which describe where components of matrices lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Place = tuple[int, ...]
"""A number for each axis: (row, column)."""


@dataclass(frozen=True)
class Linear:
    """
    A place for each number below a power of two: the sum of the places of its bits that are 1.

    `bits` has the place of each bit, the lowest first. No two of them share a bit of an axis, so
    that a sum is also an exclusive or.
    """

    bits: tuple[Place, ...]
    axes: int = 2

    @property
    def size(self) -> int:
        """The count of numbers."""
        return 1 << len(self.bits)

    def at(self, number: int) -> Place:
        """Returns the place of a number: the sum of its bits' places."""
        own = [bit for position, bit in enumerate(self.bits) if number >> position & 1]
        return tuple(sum(bit[axis] for bit in own) for axis in range(self.axes))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The places of all numbers in order."""
        return tuple(map(self.at, range(self.size)))

    def bits_along(self, axis: int) -> list[tuple[int, int]]:
        """Returns the bits that move the place along an axis, each with its distance."""
        return [(bit, place[axis]) for bit, place in enumerate(self.bits) if place[axis]]

    def values(self, axis: int) -> list[int]:
        """Returns the distinct coordinates of all places along an axis, sorted."""
        return sorted({place[axis] for place in self.places})

    def groups(self, axis: int) -> dict[int, list[int]]:
        """Groups the numbers by their place along an axis, in order."""
        groups: dict[int, list[int]] = {value: [] for value in self.values(axis)}
        for number, place in enumerate(self.places):
            groups[place[axis]].append(number)
        return groups

    def then(self, axis: int, weights: Mapping[int, int]) -> Linear:
        """Maps each bit's distance along an axis through `weights`; 0 if it has no entry."""
        return Linear(
            tuple(
                (*place[:axis], weights.get(place[axis], 0), *place[axis + 1 :])
                for place in self.bits
            ),
            self.axes,
        )

    def run(self, axis: int) -> int:
        """
        Length of runs: within each aligned run of that many numbers, places are neighbours along an
        axis.
        """
        width = 1
        for place in self.bits:
            if place[axis] != width or sum(place) != width:
                break
            width *= 2
        return width
