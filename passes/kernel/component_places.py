"""
Where an invocation's components of a fragment lie, on a target that says so (CM-18).

Bits of the invocation's number and of the component's are bits of the row or column, so a place is
a number of the invocation plus a number of the component.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.targets import Fragment


def component_places(fragment: Fragment) -> list[tuple[int, int]]:
    """Returns the row and column of each component, relative to the invocation's own."""
    places: list[tuple[int, int]] = []
    for number in range(1 << len(fragment.component)):
        names = [name for bit, name in enumerate(fragment.component) if number >> bit & 1]
        row, column = (sum(1 << int(n[1:]) for n in names if n[0] == axis) for axis in "rc")
        places.append((row, column))
    return places


def components_by_row(fragment: Fragment) -> list[list[int]]:
    """The components of each row of which an invocation has some, and the rows in order."""
    rows = [row for row, _ in component_places(fragment)]
    return [[i for i, row in enumerate(rows) if row == own] for own in sorted(set(rows))]


def rows_of_components(fragment: Fragment) -> list[int]:
    """Returns the rows in which an invocation has components, relative to its own, in order."""
    return sorted({row for row, _ in component_places(fragment)})


def lanes_of_row(fragment: Fragment) -> list[int]:
    """The distances of invocations that share a row: bits of their number that are a column's."""
    return [1 << bit for bit, name in enumerate(fragment.lane) if name[0] == "c"]


def bits_of_lane(fragment: Fragment, axis: str) -> list[tuple[int, int]]:
    """Bits of the invocation's number that are bits of a row ("r") or column ("c"), and which."""
    return [(bit, int(name[1:])) for bit, name in enumerate(fragment.lane) if name[0] == axis]


def lane_places(b: KernelEmitter, fragment: Fragment, lane: SSAValue) -> tuple[Index, Index]:
    """Returns the row and the column that an invocation's number adds."""
    row, column = (number_of_bits(b, lane, bits_of_lane(fragment, axis)) for axis in "rc")
    return row, column


def number_of_bits(b: KernelEmitter, lane: SSAValue, bits: Sequence[tuple[int, int]]) -> Index:
    """The number that has bits of the lane's number, moved; neighbours are moved as one."""
    total: Index = 0
    while bits:
        (first, place), count = bits[0], 1
        while count < len(bits) and bits[count] == (first + count, place + count):
            count += 1
        number = b.remainder(b.divided(lane, 1 << first), 1 << count)
        total = b.plus(total, b.times(number, 1 << place))
        bits = bits[count:]
    return total
