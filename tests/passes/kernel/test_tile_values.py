"""A tile has the same elements in every layout, in matrices and in Workgroup memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import FloatAttr, MemRefType, f32
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv import targets
from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.tile import types
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.matrix_values import SHARED
from xdsl_spirv.passes.kernel.tile_code import Layout, Schedule, TileEmitter, matrices
from xdsl_spirv.passes.kernel.tile_values import (
    Box,
    Held,
    Lazy,
    Moved,
    Stored,
    TileValue,
    View,
    corner_of,
    guarded_load,
    in_matrices,
    reshape,
    spots_of,
)
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from tests.passes.conftest import Code, WriteCode

TARGET = targets.load("nvidia-h200")
UNKNOWN = replace(TARGET, component_map=())
"""A target that does not say which components of a matrix an invocation holds."""
NUMBERS = np.arange(1024, dtype=np.float32)
OUTSIDE = FloatAttr(-1.0, f32)


def tile_type(*shape: int) -> types.TileType:
    return types.tile_type(shape, f32)


def box(
    b: TileEmitter,
    memory: SSAValue,
    *shape: int,
    firsts: tuple[Index, ...] = (0, 0),
    sizes: tuple[int, ...] = (32, 32),
    strides: tuple[int, ...] = (32, 1),
    offset: int = 0,
    outside: FloatAttr | None = None,
    written: bool = False,
) -> Box:
    view = View(memory, offset, sizes, strides, written)
    return Box(b, tile_type(*shape), view, firsts, outside, outside is not None)


def hold(value: TileValue) -> Held:
    layout = value.layout
    return Held(value.b, value.type, layout, value.in_home(layout))


class Read:
    """Reads the tile that `make` returns in a layout, in an interpreted kernel."""

    type: types.TileType
    layout: Layout

    def __init__(
        self,
        write_code: WriteCode,
        make: Callable[[TileEmitter, SSAValue], TileValue],
        layout: Layout | None = None,
        grid: tuple[int, int] = (1, 1),
        target: Target = TARGET,
    ):
        schedule, invocations = Schedule(target, grid), grid[0] * grid[1] * target.subgroup_size

        def write(b: TileEmitter, memory: SSAValue) -> list[SSAValue]:
            value = make(b, memory)
            self.type, self.layout = value.type, layout or b.schedule.spread(value.type.shape)
            return [value.at(spot) for spot in spots_of(self.layout)]

        def emitter(point: InsertPoint) -> TileEmitter:
            return TileEmitter(point.block, schedule)

        types = [MemRefType(f32, [len(NUMBERS)])]
        self.code: Code = write_code(types, write, emitter, invocations=invocations)
        results = np.array(self.code.run(NUMBERS.copy(), target="nvidia-h200"))
        places = tuple(np.moveaxis(places_of(self.layout, invocations), -1, 0))
        self.tile = np.full(self.type.shape, np.nan, np.float32)
        self.tile[places] = results
        np.testing.assert_array_equal(self.tile[places], results, "equal elements are equal")


def places_of(layout: Layout, invocations: int) -> Array:
    """Returns the place of each register in each invocation: registers x invocations x axes."""
    number = np.arange(invocations)[:, None]
    places = sum((number >> n & 1) * np.array(bit) for n, bit in enumerate(layout.lanes))
    subgroup = number >> len(layout.lanes)
    for count, step in layout.groups:
        places = places + subgroup % count * np.array(step)
        subgroup = subgroup // count
    return np.array(layout.registers)[:, None] + places


def count_up(*shape: int) -> Array:
    return NUMBERS.reshape(32, 32)[tuple(map(slice, shape))]


@pytest.mark.parametrize("written", [False, True])
def test_a_box_has_the_views_elements_and_a_constant_outside(written: bool, write_code: WriteCode):
    read = Read(
        write_code,
        lambda b, m: box(
            b,
            m,
            4,
            8,
            firsts=(1, 2),
            sizes=(4, 7),
            strides=(7, 3),
            offset=5,
            outside=OUTSIDE,
            written=written,
        ),
    )
    row, column = np.ogrid[1:5, 2:10]
    inside = (row < 4) & (column < 7)
    np.testing.assert_array_equal(read.tile, np.where(inside, 5 + row * 7 + column * 3, -1))


def test_a_box_inside_of_its_view_is_read_without_a_guard(write_code: WriteCode):
    read = Read(write_code, lambda b, m: box(b, m, 4, 8, firsts=(28, 24)))
    np.testing.assert_array_equal(read.tile, count_up(32, 32)[28:, 24:])
    assert read.code.count(arith.SelectOp, arith.CmpiOp) == 0


def test_a_box_of_fewer_axes_lies_along_the_views_last_axes(write_code: WriteCode):
    read = Read(write_code, lambda b, m: box(b, m, 32, firsts=(3, 0)))
    np.testing.assert_array_equal(read.tile, count_up(32, 32)[3])


def test_a_load_outside_of_the_view_is_a_constant_and_no_access(write_code: WriteCode):
    def write(b: TileEmitter, memory: SSAValue) -> list[SSAValue]:
        view = View(memory, 0, (4,), (1,), False)
        return [guarded_load(b, view, 2000, False, value) for value in (OUTSIDE, None)]

    def emitter(point: InsertPoint) -> TileEmitter:
        return TileEmitter(point.block, Schedule(TARGET, (1, 1)))

    code = write_code([MemRefType(f32, [1024])], write, emitter)
    assert code.run(NUMBERS.copy(), target="nvidia-h200") == [-1, 0]


@pytest.mark.parametrize("written", [False, True])
def test_only_an_element_that_is_never_written_is_loaded_once(written: bool):
    b, memory = emit()
    view = View(memory, 0, (1024,), (1,), written)
    first, second = (guarded_load(b, view, 3, True, None) for _ in range(2))
    assert (first is not second) == written


@pytest.mark.parametrize("grid", [(1, 1), (2, 1)])
def test_a_held_tile_is_read_in_another_layout_through_memory(
    grid: tuple[int, int], write_code: WriteCode
):
    turned = Schedule(TARGET, grid).spread((8, 16)).select_axes((1, 0))
    read = Read(write_code, lambda b, m: hold(box(b, m, 16, 8)), turned, grid)
    np.testing.assert_array_equal(read.tile, count_up(16, 8))
    counts = [read.code.count(kind) for kind in (memref.AllocOp, gpu.BarrierOp)]
    assert counts == [1, 1], "all registers are read after one exchange"


def test_a_held_tile_is_read_in_its_own_layout_from_registers(write_code: WriteCode):
    read = Read(write_code, lambda b, m: hold(box(b, m, 16, 8)))
    np.testing.assert_array_equal(read.tile, count_up(16, 8))
    assert read.code.count(memref.AllocOp) == 0


def test_exchanges_of_equal_tiles_share_their_memory(write_code: WriteCode):
    turned = Schedule(TARGET, (1, 1)).spread((8, 16)).select_axes((1, 0))

    def both(b: TileEmitter, memory: SSAValue) -> TileValue:
        first, second = hold(box(b, memory, 16, 8)), hold(box(b, memory, 16, 8, firsts=(16, 8)))
        kind = arith.AddfOp
        return Lazy(b, first.type, lambda s: b.add(kind(first.at(s), second.at(s))))

    read = Read(write_code, both, turned)
    np.testing.assert_array_equal(read.tile, count_up(16, 8) + count_up(32, 16)[16:, 8:])
    assert read.code.count(memref.AllocOp) == 1
    assert read.code.count(gpu.BarrierOp) == 3


@pytest.mark.parametrize(
    ("axes", "shape"),
    [((1, 0), (8, 16)), ((None, 1), (4, 8)), ((0, None), (16, 4)), ((0, 2), (16, 1, 8))],
)
def test_a_moved_tile_reads_its_source_along_its_axes(
    axes: tuple[int | None, ...], shape: tuple[int, ...], write_code: WriteCode
):
    sizes = [1 if axis is None else shape[axis] for axis in axes]

    def move(b: TileEmitter, memory: SSAValue) -> TileValue:
        return Moved(box(b, memory, *sizes), tile_type(*shape), axes, None)

    expected = count_up(*sizes)
    if axes == (1, 0):
        expected = expected.T
    if len(shape) == 3:
        expected = expected[:, None]
    read = Read(write_code, move)
    np.testing.assert_array_equal(read.tile, np.broadcast_to(expected, shape))


@pytest.mark.parametrize("shape", [(96,), (2, 3, 16)])
def test_a_reshape_keeps_the_order_of_elements(shape: tuple[int, ...], write_code: WriteCode):
    read = Read(write_code, lambda b, m: reshape(box(b, m, 12, 8), tile_type(*shape)))
    np.testing.assert_array_equal(read.tile, count_up(12, 8).reshape(shape))
    assert read.code.count(gpu.BarrierOp) == 1


@pytest.mark.parametrize(
    ("target", "grid"), [(TARGET, (2, 1)), (UNKNOWN, (1, 2))], ids=["known", "unknown"]
)
def test_a_tile_in_matrices_keeps_its_elements(
    target: Target, grid: tuple[int, int], write_code: WriteCode
):
    home = matrices(target, "Acc", (32, 32), (16, 16), grid, 32)

    def in_home(b: TileEmitter, memory: SSAValue) -> TileValue:
        value = box(b, memory, 32, 32)
        return Held(b, value.type, home, in_matrices(value, home))

    read = Read(write_code, in_home, grid=grid, target=target)
    np.testing.assert_array_equal(read.tile, count_up(32, 32))
    assert read.code.count(memref.AllocOp) == 1
    barriers = 3 if home.layout is None else 1
    assert read.code.count(gpu.BarrierOp) == barriers
    kinds = spv.CooperativeMatrixLoadOp, spv.CooperativeMatrixStoreOp
    moves = [op for op in read.code.operations if isinstance(op, kinds)]
    assert moves
    assert all(op.memory_operand and SHARED in op.memory_operand.data for op in moves)


def test_components_of_matrices_are_read_without_memory(write_code: WriteCode):
    home = matrices(TARGET, "Acc", (32, 16), (16, 16), (1, 1), 32)

    def in_home(b: TileEmitter, memory: SSAValue) -> TileValue:
        value = box(b, memory, 32, 16)
        result = Held(b, value.type, home, value.in_home(home))
        assert in_matrices(result, home) is result.values
        return result

    read = Read(write_code, in_home, home.layout)
    np.testing.assert_array_equal(read.tile, count_up(32, 16))
    assert read.code.count(memref.AllocOp) == 0


@pytest.mark.parametrize(("pad", "turned"), [(4, False), (0, True), (4, True)])
def test_matrices_are_loaded_from_a_stored_tile_or_its_transpose(
    pad: int, turned: bool, write_code: WriteCode
):
    home = matrices(UNKNOWN, "Acc", (16, 32), (16, 16), (1, 1), 32)

    def load(b: TileEmitter, memory: SSAValue) -> TileValue:
        place = Stored(box(b, memory, *((32, 16) if turned else (16, 32))), pad).fill()
        b.will_read(place.memory)
        values = [place.matrix(home, number, turned) for number in home.numbers]
        return Held(b, tile_type(16, 32), home, values)

    read = Read(write_code, load, target=UNKNOWN)
    np.testing.assert_array_equal(read.tile, count_up(32, 16).T if turned else count_up(16, 32))


def test_matrices_of_a_constant_are_one_constant(write_code: WriteCode):
    home = matrices(TARGET, "Acc", (32, 32), (16, 16), (1, 1), 32)

    def splat(b: TileEmitter, memory: SSAValue) -> TileValue:
        value = Lazy(b, tile_type(32, 32), lambda _: b.constant(OUTSIDE), splat=OUTSIDE)
        values = in_matrices(value, home)
        assert len(values) == 4
        assert len(set(values)) == 1
        return Held(b, value.type, home, values)

    assert (Read(write_code, splat, home.layout).tile == -1).all()


def emit() -> tuple[TileEmitter, SSAValue]:
    block = Block(arg_types=[MemRefType(f32, [1024])])
    return TileEmitter(block, Schedule(TARGET, (2, 2))), block.args[0]


@pytest.mark.parametrize(("use", "lone"), [("A", (48, 0)), ("B", (0, 32)), ("Acc", (48, 32))])
def test_the_corner_of_a_matrix_adds_the_subgroups_place_to_its_own(
    use: str, lone: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    b, _ = emit()
    tiles = {"A": (96, 16), "B": (16, 64), "Acc": (96, 64)}
    home = matrices(TARGET, use, tiles[use], (16, 16), (2, 2), 16)
    for number in range(4):
        monkeypatch.setattr(b, "subgroup_id", lambda _, n=number: n)
        step = number // 2 * lone[0], number % 2 * lone[1]
        assert corner_of(b, home, (2, 1)) == [step[0] + 32, step[1] + 16]


@pytest.mark.parametrize(
    ("firsts", "shape", "inside"),
    [
        ((31, 0), (32,), True),
        ((0, 1), (32,), False),
        ((16, 16), (16, 16), True),
        ((17, 17), (1, 16), False),
        ((17, 16), (16, 16), False),
    ],
)
def test_a_box_is_inside_if_its_last_element_is(
    firsts: tuple[int, int], shape: tuple[int, ...], inside: bool
):
    b, memory = emit()
    assert box(b, memory, *shape, firsts=firsts).is_inside() == inside
    unknown = View(memory, 0, (memory, 32), (32, 1), False)
    assert not Box(b, tile_type(*shape), unknown, (0, 0), None, False).is_inside()


@pytest.mark.parametrize(
    ("strides", "offset", "expected"),
    [
        ((32, 1), 0, 32),
        ((32, 2), 0, None),
        ((1, 32), 0, None),
        ((33, 1), 0, None),
        ((32, 1), 1, None),
        ((1,), 0, None),
    ],
)
def test_cooperative_loads_need_aligned_contiguous_rows(
    strides: tuple[int, ...], offset: int, expected: int | None
):
    b, memory = emit()
    rank = len(strides)
    value = box(
        b,
        memory,
        *(16, 16)[:rank],
        firsts=(0,) * rank,
        sizes=(32,) * rank,
        strides=strides,
        offset=offset,
    )
    assert value.matrix_stride(16) == expected


def test_a_read_element_is_computed_once():
    b, memory = emit()
    value = box(b, memory, 16, 16)
    spot = spots_of(value.layout)[0]
    assert value.at(spot) is value.at(spot)
