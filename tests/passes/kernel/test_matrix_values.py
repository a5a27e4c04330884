"""
Component positions, layouts and index code agree with the target files.

Covers: schedule/attention.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint

from xdsl_spirv import targets
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.component_maps import USES, positions
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import lane_places, moved_bits
from xdsl_spirv.passes.schedule.attention import Deal
from xdsl_spirv.targets import Fragment, TargetError
from xdsl_spirv.targets.linear import Linear

FOLDER = Path(targets.__file__).parent
WIDTHS = {8: np.int8, 16: np.float16, 32: np.float32}
KNOWN = [
    pytest.param(name, number, id=f"{name}-{known.use}-{known.rows}x{known.columns}-{known.lanes}")
    for name in targets.names()
    for number, known in enumerate(targets.load(name).component_map)
]


def fragment_of(name: str, number: int) -> Fragment:
    return targets.load(name).component_map[number]


def emitter() -> KernelEmitter:
    return KernelEmitter(InsertPoint.at_start(Block()))


def place_of(names: list[str], number: int) -> tuple[int, int]:
    """Returns the (row, column) of a component number, by the target file's names of its bits."""
    row = column = 0
    for bit, name in enumerate(names):
        if number >> bit & 1 and name != "-":
            row += (1 << int(name[1:])) * (name[0] == "r")
            column += (1 << int(name[1:])) * (name[0] == "c")
    return row, column


@pytest.mark.parametrize(("name", "number"), KNOWN)
def test_positions_agree_with_target_file_and_interpreter(name: str, number: int):
    known = fragment_of(name, number)
    data = json.loads((FOLDER / f"{name}.json").read_text())
    listed = data["component_map"]["fragments"][number]
    form = CooperativeMatrix(
        np.dtype(WIDTHS[known.component_bits[0]]),
        known.rows,
        known.columns,
        Scope.Subgroup,
        next(use for use, written in USES.items() if written == known.use),
    )
    lanes, components = np.arange(known.lanes)[:, None], np.arange(known.component.size)
    interpreted = positions(str(FOLDER / f"{name}.json"), form, known.lanes, lanes, components)
    for lane, component in product(range(known.lanes), range(known.component.size)):
        own = place_of(listed["lane"], lane), place_of(listed["component"], component)
        expected = tuple(np.add(*own).tolist())
        assert known.position(lane, component) == expected
        assert divmod(int(interpreted[lane, component]), known.columns) == expected


@pytest.mark.parametrize(("name", "number"), KNOWN)
def test_index_code_computes_the_position_of_a_lane(name: str, number: int):
    known, b = fragment_of(name, number), emitter()
    for lane in range(known.lanes):
        own = [moved_bits(b, lane, known.lane.bits_along(axis)) for axis in (0, 1)]
        assert tuple(own) == known.lane.at(lane)
        assert lane_places(b, known, lane) == known.lane.at(lane)  # pyright: ignore


LONG = pytest.mark.long


@pytest.mark.parametrize("vector", [8, pytest.param(4, marks=LONG), pytest.param(2, marks=LONG)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("name", "number"), KNOWN)
def test_a_deal_gives_each_element_once_and_neighbours_to_each_lane(
    name: str, number: int, axis: int, vector: int
):
    known = fragment_of(name, number)
    copies = 1 << known.lane.bits.count((0, 0))
    deal = Deal(known, axis, vector, 64)
    if vector % deal.share or deal.count * len(known.component.places) > 512:
        return
    held: Counter[tuple[int, int]] = Counter()
    for lane in range(known.lanes):
        elements: dict[int, list[int]] = {}
        for fragment, component in product(range(deal.count), range(known.component.size)):
            place = known.position(lane, component)
            element = deal.element(fragment, place[axis])
            held[place[1 - axis], element] += 1
            elements.setdefault(place[1 - axis], []).append(element)
        for of_row in elements.values():
            runs = np.sort(of_row).reshape(-1, vector)
            assert (runs == runs[:, :1] + np.arange(vector)).all()
            assert (runs[:, 0] % vector == 0).all()
    rows = (known.rows, known.columns)[1 - axis]
    assert held.keys() == set(
        product(range(rows), range(deal.blocks * deal.block_vectors * vector))
    )
    assert set(held.values()) == {copies}


@pytest.mark.parametrize("size", [32, 96, 160, 192, 256])
@pytest.mark.parametrize(("vector", "axis", "paired"), [(8, 0, False), (4, 1, True)])
def test_rows_in_workgroup_memory_lie_in_different_banks(
    size: int, vector: int, axis: int, paired: bool
):
    known = targets.load("nvidia-h200").fragment("B", (16, 16), 16)
    assert known is not None
    deal = Deal(known, axis, vector, size, paired)
    order, width = deal.tile_rows, size // vector
    places = [order.place(row, column) for row, column in product(range(16), range(width))]
    assert len(set(places)) == len(places)
    assert max(places) < 16 * order.stride
    assert order.stride == width
    b = emitter()
    for block in range(deal.blocks):
        banks: set[int] = set()
        for lane in range(8):
            row = moved_bits(b, lane, deal.lane.bits_along(1 - deal.axis))
            column = moved_bits(
                b, lane, deal.lane.bits_along(deal.axis), block * deal.block_vectors
            )
            assert isinstance(row, int)
            assert isinstance(column, int)
            banks.add(order.place(row, column) % 8)
        assert len(banks) == 8


def test_adjacent_bits_move_in_one_instruction():
    bits = Linear(((8,), (1,), (16,), (32,), (64,), (2,), (4,)), 1)
    assert [moved_bits(emitter(), number, bits.bits_along(0), 1 << 8) for number in range(128)] == [
        (1 << 8) + bits.at(number)[0] for number in range(128)
    ]
    assert bits.run(0) == 1
    assert Linear(((0, 1), (0, 2), (1, 0))).run(1) == 4
    assert Linear(((0, 1), (1, 0), (0, 2))).groups(0) == {0: [0, 1, 4, 5], 1: [2, 3, 6, 7]}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"lane": ["c0", "c1", "r0"]}, "has the bit 'r0' twice"),
        ({"lane": ["c0", "c1"]}, "lane has bits for 4 lanes, but lanes is 8"),
        ({"lane": ["c0", "c1", "x1"]}, "has 'x1': write r2 for bit 2 of the row"),
    ],
)
def test_an_invalid_component_map_is_refused(
    tmp_path: Path, changed: dict[str, list[str]], problem: str
):
    data = json.loads((FOLDER / "lavapipe.json").read_text())
    fragments = data["component_map"]["fragments"]
    assert (fragments[0]["lanes"], fragments[0]["component"][0]) == (8, "r0")
    fragments[0] |= changed
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    with pytest.raises(TargetError, match=problem):
        targets.load(str(path))
