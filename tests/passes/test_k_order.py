"""The order along K of fragments that are computed from units: everybody reads whole units."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from xdsl_spirv import targets
from xdsl_spirv.passes.schedule.k_order import KOrder, inner_axis, k_order, orders_of
from xdsl_spirv.targets import Fragment

KNOWN = [
    pytest.param(fragment, sizes, id=f"{name}-{fragment.use}{fragment.rows}-{fragment.lanes}")
    for name in targets.names()
    for fragment in targets.load(name).component_map
    if fragment.use != "Acc"
    for sizes in ((16,), (2, 16), (32,))
]


def places_of(order: KOrder) -> np.ndarray:
    """The place in a group of each element."""
    numbers = np.arange(order.group)
    return sum((numbers >> bit & 1) * weight for bit, weight in enumerate(order.weights))


def positions(names: tuple[str, ...], number: int, axis: str) -> int:
    """The bits of a position along an axis that a number has."""
    return sum(
        (number >> bit & 1) << int(name[1:]) for bit, name in enumerate(names) if name[0] == axis
    )


@pytest.mark.parametrize(("fragment", "sizes"), KNOWN)
def test_invocations_read_units_in_order(fragment: Fragment, sizes: tuple[int, ...]) -> None:
    """All of a unit, or the same part of each run of its innermost loop."""
    axis = inner_axis(fragment)
    outer = "r" if axis == "c" else "c"
    depth = fragment.columns if fragment.use == "A" else fragment.rows
    unit, inner = prod(sizes), sizes[-1]
    for order in orders_of(fragment, sizes):
        places = places_of(order)
        assert sorted(places) == list(range(order.group))
        assert (places[: order.run] == np.arange(order.run)).all()
        element = np.argsort(places)
        part = inner // order.split
        expected = [first + n for first in range(0, unit, inner) for n in range(part)]
        for lane in range(fragment.lanes):
            read: dict[int, list[int]] = {}
            for step in range(order.group // depth):
                for component in range(1 << len(fragment.component)):
                    line = positions(fragment.component, component, outer)
                    place = positions(fragment.lane, lane, axis)
                    place += positions(fragment.component, component, axis)
                    read.setdefault(line, []).append(int(element[step * depth + place]))
            for numbers in read.values():
                begin = numbers[0] // unit * unit + numbers[0] % inner // part * part
                assert numbers == [begin + n for n in expected]


def test_the_largest_groups_that_divide_a_tile() -> None:
    (fragment,) = [
        fragment
        for fragment in targets.load("nvidia-h200").component_map
        if (fragment.use, fragment.rows, fragment.columns) == ("B", 16, 16)
    ]
    orders = {depth: k_order(fragment, (2, 16), depth) for depth in (256, 128, 64, 32, 16)}
    groups = {depth: order and order.group for depth, order in orders.items()}
    assert groups == {256: 128, 128: 128, 64: 64, 32: 32, 16: None}
    assert k_order(fragment, (24,), 96) is None
    whole, half = orders[128], orders[64]
    assert whole is not None
    assert half is not None
    assert whole.pieces() == [(0, 1, 1), (1, 4, 8), (5, 2, 2)]
    assert half.pieces() == [(0, 1, 1), (1, 2, 8), (3, 1, 2), (4, 1, 32), (5, 1, 4)]
