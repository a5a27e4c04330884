"""
The order of elements along K where invocations compute fragments from units of packed numbers.

The invocations that share a row of A, or a column of B, hold different places along K of each
fragment. So that each of them reads whole units, it takes one unit of as many neighbours, and of
that the next few elements for each instruction:

    NVIDIA, 16 along K       four invocations hold places 2 p, 2 p + 1, 2 p + 8, 2 p + 9
    instruction s            elements 4 s ... 4 s + 3 of units p = 0 ... 3
    element e of unit p      place 16 (e / 4) + 2 p + e % 2 + 8 (e / 2 % 2) of the K tile

A K tile that is shorter than so many units gives each of them a part of one: as many of the unit's
innermost loop. A sum does not depend on the order; the other operand is brought into the same one
on its way through Workgroup memory. All sizes are powers of two, so that an order moves the bits of
a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl_spirv.passes.analysis.unpacking import VECTOR
from xdsl_spirv.targets import Fragment


@dataclass(frozen=True)
class KOrder:
    """
    `weights` says what each bit of an element's number along K, the lowest first, adds to its
    place.

    It is an order of groups of elements that `parts` invocations share: each has a unit, or one of
    `split` parts of it, `count` elements in a fragment, for each of its rows or columns.
    """

    weights: tuple[int, ...]
    parts: int
    count: int
    split: int = 1

    @property
    def group(self) -> int:
        """Elements of a group."""
        return 1 << len(self.weights)

    @property
    def run(self) -> int:
        """Neighbours that stay neighbours."""
        bits = next((n for n, w in enumerate(self.weights) if w != 1 << n), len(self.weights))
        return 1 << bits

    def pieces(self) -> list[tuple[int, int, int]]:
        """(first bit, bits, weight of the first) of the bits that move together."""
        pieces: list[tuple[int, int, int]] = []
        for bit, weight in enumerate(self.weights):
            if pieces and weight == pieces[-1][2] << pieces[-1][1]:
                first, bits, lowest = pieces[-1]
                pieces[-1] = first, bits + 1, lowest
            else:
                pieces.append((bit, 1, weight))
        return pieces


def inner_axis(fragment: Fragment) -> str:
    """The letter of a fragment's positions along K."""
    return "c" if fragment.use == "A" else "r"


def k_order(fragment: Fragment, sizes: Sequence[int], depth: int) -> KOrder | None:
    """
    The order for a K tile of units whose loops have these sizes, the one of the largest groups.

    None where units are not fit for it, or groups do not divide the tile.
    """
    orders = orders_of(fragment, sizes)
    return next((order for order in orders if depth % order.group == 0), None)


def orders_of(fragment: Fragment, sizes: Sequence[int]) -> Iterator[KOrder]:
    """The orders for units whose loops have these sizes, that of the largest groups first."""
    axis = inner_axis(fragment)
    unit, inner = prod(sizes), sizes[-1]
    depth = fragment.columns if fragment.use == "A" else fragment.rows
    own = [1 << int(name[1:]) for name in fragment.component if name[0] == axis]
    parts = [1 << int(name[1:]) for name in fragment.lane if name[0] == axis]
    count = 1 << len(own)
    if unit & (unit - 1) or inner & (inner - 1) or sum(own) + sum(parts) != depth - 1:
        return
    for bits in range(len(parts) + 1):
        share, within = unit >> bits, inner >> bits
        if share < count or within < VECTOR:
            return
        steps = [depth << n for n in range((share // count).bit_length() - 1)]
        shared = [*own, *steps]
        low = within.bit_length() - 1
        weights = [*shared[:low], *parts[:bits], *shared[low:], *parts[bits:]]
        yield KOrder((*weights,), 1 << len(parts), count, 1 << bits)
