"""
Orders elements along K for invocations that dequantize fragments of packed weights.

A unit is the elements that an invocation dequantizes at a time. The invocations that share a row
of A, or a column of B, hold different positions along K of each fragment. Each of them reads one
whole unit, and takes the unit's next elements for each instruction:

    NVIDIA, 16 along K       four invocations hold positions 2 p, 2 p + 1, 2 p + 8, 2 p + 9
    instruction s            elements 4 s ... 4 s + 3 of units p = 0 ... 3
    element e of unit p      position 16 (e / 4) + 2 p + 8 (e % 2) + e / 2 % 2 of the K tile

A single mask of a 32-bit word leaves its first and third bytes, each in one half of the word. These
two elements therefore become neighbours in a fragment.

If a K tile is too short for one unit per invocation, several invocations share the iterations of a
unit's innermost loop. A sum does not depend on the order of its terms. The other operand is brought
into the same order when it is staged. All sizes are powers of two, so an order is a permutation of
index bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl_spirv.passes.analysis.unpacking import VECTOR
from xdsl_spirv.targets import Fragment
from xdsl_spirv.targets.linear import Linear


@dataclass(frozen=True)
class KOrder:
    """
    Maps the index of an element along K to its position in the K tile.

    The elements are divided into groups, each shared by `parts` invocations. In each group, an
    invocation dequantizes one unit of elements together (or one of `split` parts of a unit). Each
    fragment has `count` elements of the unit.
    """

    places: Linear
    parts: int
    count: int
    split: int = 1

    @property
    def group(self) -> int:
        """Number of elements in a group."""
        return self.places.size

    def place(self, number: int) -> int:
        """Returns the position of element `number` (of the first group) in the K tile."""
        return self.places.at(number)[0]

    @cached_property
    def elements(self) -> tuple[int, ...]:
        """
        Maps an invocation's component of a fragment to an index among the `count` elements of the
        unit.
        """
        if self.count < 4:
            return (*range(self.count),)
        return tuple(n & ~3 | (n & 1) << 1 | n >> 1 & 1 for n in range(self.count))

    def runs(self, count: int) -> list[list[int]]:
        """Splits the first `count` elements into the longest runs of consecutive positions."""
        numbers = sorted(range(count), key=self.place)
        size = count
        while size > 1:
            runs = [numbers[first : first + size] for first in range(0, count, size)]
            places = [list(map(self.place, run)) for run in runs]
            if all(p[0] % size == 0 and p == [*range(p[0], p[0] + size)] for p in places):
                return runs
            size //= 2
        return [[number] for number in numbers]


def inner_axis(fragment: Fragment) -> int:
    """Returns the fragment's axis along K: 1 (columns) for A, 0 (rows) for B."""
    return int(fragment.use == "A")


def k_order(fragment: Fragment, sizes: Sequence[int], depth: int) -> KOrder | None:
    """
    Returns the order with the largest groups that divide a K tile of `depth` elements.

    `sizes` are the loop sizes of a unit (see `KOrder`). Returns None if no order exists.
    """
    orders = orders_of(fragment, sizes)
    return next((order for order in orders if depth % order.group == 0), None)


def orders_of(fragment: Fragment, sizes: Sequence[int]) -> Iterator[KOrder]:
    """Yields each `KOrder` for units whose loops have `sizes`, in ascending order of `split`."""
    axis = inner_axis(fragment)
    unit_size, inner = prod(sizes), sizes[-1]
    depth = fragment.columns if fragment.use == "A" else fragment.rows
    own = [place for _, place in fragment.component.bits_along(axis)]
    parts = [place for _, place in fragment.lane.bits_along(axis)]
    own[:2] = reversed(own[:2])
    count = 1 << len(own)
    if unit_size & (unit_size - 1) or inner & (inner - 1) or sum(own) + sum(parts) != depth - 1:
        return
    for bits in range(len(parts) + 1):
        share, within = unit_size >> bits, inner >> bits
        if share < count or within < VECTOR:
            return
        steps = [depth << n for n in range((share // count).bit_length() - 1)]
        shared = [*own, *steps]
        low = within.bit_length() - 1
        weights = [*shared[:low], *parts[:bits], *shared[low:], *parts[bits:]]
        places = Linear(tuple((weight,) for weight in weights), 1)
        yield KOrder(places, 1 << len(parts), count, 1 << bits)
