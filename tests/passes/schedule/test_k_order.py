"""The order in which K is summed lets every invocation load adjacent packed weights together."""

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


def places_of(order: KOrder) -> list[int]:
    """Returns the position of each element in a group."""
    return [order.place(number) for number in range(order.group)]


@pytest.mark.parametrize(("fragment", "sizes"), KNOWN)
def test_invocations_read_units_in_order(fragment: Fragment, sizes: tuple[int, ...]) -> None:
    axis = inner_axis(fragment)
    depth = fragment.columns if fragment.use == "A" else fragment.rows
    unit, inner = prod(sizes), sizes[-1]
    for order in orders_of(fragment, sizes):
        places = places_of(order)
        assert sorted(places) == list(range(order.group))
        element = np.argsort(places)
        part = inner // order.split
        numbers = [first + n for first in range(0, unit, inner) for n in range(part)]
        steps = range(0, len(numbers), order.count)
        expected = [numbers[step + n] for step in steps for n in order.elements]
        for lane in range(fragment.lanes):
            read: dict[int, list[int]] = {}
            for step in range(order.group // depth):
                for component in range(fragment.component.size):
                    line = fragment.component.at(component)[1 - axis]
                    place = fragment.position(lane, component)[axis]
                    read.setdefault(line, []).append(int(element[step * depth + place]))
            for held in read.values():
                begin = held[0] // unit * unit + held[0] % inner // part * part
                assert held == [begin + n for n in expected]


def test_groups_are_the_largest_that_divide_a_tile() -> None:
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
    assert [weight for (weight,) in whole.places.bits] == [8, 1, 16, 32, 64, 2, 4]
    assert [weight for (weight,) in half.places.bits] == [8, 1, 16, 2, 32, 4]
    assert whole.runs(8) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert whole.runs(2) == [[0], [1]]
