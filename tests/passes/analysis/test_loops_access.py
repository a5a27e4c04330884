"""The loops along which a kernel reads and writes adjacent elements in memory are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from xdsl_spirv.dialects.schedule.symbolic_sizes import Extent, Size, symbol
from xdsl_spirv.passes.analysis.loops_access import (
    crossing,
    fast_axes,
    fast_loops,
    is_run,
    tile_grid,
)
from xdsl_spirv.passes.analysis.loops_arrays import Computed
from xdsl_spirv.passes.analysis.loops_nests import Nest, nests_of
from xdsl_spirv.passes.analysis.loops_reader import results_of_operations
from xdsl_spirv.runtime.modules import parse_text

MODULE = parse_text(Path(__file__).with_name("loops_nests.mlir").read_text())
FUNCTIONS = {op.sym_name.data: op for op in MODULE.ops if isinstance(op, FuncOp)}


def nest_of(name: str) -> Nest:
    ops = list(FUNCTIONS[name].body.block.ops)
    _, results = results_of_operations(ops[:-1], ops[-1].operands)
    (nest,) = nests_of(results)
    return nest


def rows() -> Size:
    """Returns a size that is known at run time only."""
    value = Block(arg_types=[TensorType(f32, [DYNAMIC_INDEX, 8])]).args[0]
    return symbol(Extent(value, 0))


def test_reads_run_along_the_last_dimension_of_large_inputs():
    """Inputs with fewer elements than the given limit do not count."""
    array = nest_of("turned").results[0][0]
    assert isinstance(array, Computed)
    assert fast_loops(array.loops, 2048) == {0}
    assert fast_loops(array.loops, 2049) == set()
    assert fast_axes(array, 2048) == {0}
    assert fast_loops(array.loops, 32) == {0}
    assert fast_axes(nest_of("straight").results[0][0], 2048) == {1}


def test_neighbours_are_followed_through_slices_paddings_and_reshapes():
    assert fast_axes(nest_of("through_reshapes").results[0][0], 100) == {0}


@pytest.mark.parametrize(
    ("name", "tile", "expected"),
    [
        ("turned", 32, ((0,), 1)),
        ("straight", 32, None),
        ("turned_bits", 32, None),
        ("row_sums", 1, None),
        ("turned_images", 8, ((2,), 3)),
        ("turned_images", 16, ((1, 2), 3)),
        ("turned_images", 17, ((0, 1, 2), 3)),
        ("turned_images", 64, ((0, 1, 2), 3)),
        ("through_reshapes", 1, ((0,), 1)),
        ("turned_and_straight", 32, None),
        ("turned_bytes", 32, ((0,), 1)),
    ],
)
def test_a_nest_crosses_if_it_reads_and_writes_along_other_dimensions(
    name: str, tile: int, expected: object
):
    """Short dimensions of the reads are joined until they fill a tile."""
    assert crossing(nest_of(name), tile) == expected


def test_a_grid_covers_the_nest_with_tiles():
    assert tile_grid(nest_of("turned_images"), ((1, 2), 3), 32) == [3, 1, 2]
    assert tile_grid(nest_of("turned"), ((0,), 1), 24) == [2, 3]


def test_vectors_take_a_part_of_a_row_or_whole_rows():
    assert is_run([5, 8], 4)
    assert is_run([8], 8)
    assert not is_run([8, 6], 4)
    assert is_run([4, 2], 8)
    assert is_run([6, 2], 4)
    assert not is_run([3, 2], 4)
    assert not is_run([8, 3], 4)
    assert not is_run([2], 4)
    assert not is_run([8, 1], 4), "the elements of a column are not one row"
    assert is_run([rows(), 8], 4)
    assert not is_run([rows(), 2], 4), "the number of rows may be odd"
    assert not is_run([8, rows()], 4)
    assert is_run([8, rows() * 4], 4)
