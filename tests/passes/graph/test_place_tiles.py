"""
`place-tiles` derives a launch's tiles from the elements that workgroups store, or changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any, cast

import numpy as np
import pytest

from xdsl_spirv import parse
from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.host.tiles import grid_of, run_program
from xdsl_spirv.passes.graph.place_tiles import placed_programs
from xdsl_spirv.passes.graph.raise_tiles import raise_program
from xdsl_spirv.passes.graph.tile_nodes import NotRaised

ROWS, COLUMNS, INNER, TILE = 12, 16, 8, 4
"""Sizes for which C has 3 x 4 tiles."""

PRODUCT = """
tile.program @product {{
^bb0(%a: !tile.view<96xf32>, %b: !tile.view<128xf32>, %c: !tile.view<{size}xf32>, %s: f32):
  %p = tile.program_id 0
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %4 = arith.constant 4 : index
  %8 = arith.constant 8 : index
  %11 = arith.constant 11 : index
  %12 = arith.constant 12 : index
  %16 = arith.constant 16 : index
  %factor = arith.constant {factor} : index
  {place}
  %row = arith.muli %i, %step : index
  %column = arith.muli %j, %4 : index
  %zero = tile.full %s : f32 -> !tile.tile<4x4xf32>
  %from = arith.muli %row, %8 : index
  %sum = scf.for %k = %0 to %2 step %1 iter_args(%t = %zero) -> (!tile.tile<4x4xf32>) {{
    %k4 = arith.muli %k, %4 : index
    %y0 = arith.muli %k4, %16 : index
    %y1 = arith.addi %y0, %column : index
    %va = tile.view_of %a[%from] sizes[%4, %8] strides[%8, %1]
      : !tile.view<96xf32> -> !tile.view<?x?xf32>
    %vb = tile.view_of %b[%y1] sizes[%4, %4] strides[%16, %1]
      : !tile.view<128xf32> -> !tile.view<?x?xf32>
    %x = tile.load %va[%0, %k4] : !tile.view<?x?xf32> -> !tile.tile<4x4xf32>
    %y = tile.load %vb[%0, %0] : !tile.view<?x?xf32> -> !tile.tile<4x4xf32>
    %u = tile.mma %x, %y, %t
      : !tile.tile<4x4xf32>, !tile.tile<4x4xf32>, !tile.tile<4x4xf32> -> !tile.tile<4x4xf32>
    scf.yield %u : !tile.tile<4x4xf32>
  }}
  %z0 = arith.muli %row, %16 : index
  %z1 = arith.addi %z0, %column : index
  %vc = tile.view_of %c[%z1] sizes[%4, %4] strides[%16, %1]
    : !tile.view<{size}xf32> -> !tile.view<?x?xf32>
  tile.store %sum, %vc[%0, %0] : !tile.tile<4x4xf32>, !tile.view<?x?xf32>
}}
"""

ROW_BY_ROW = "%i = arith.divsi %q, %4 : index\n%j = arith.remsi %q, %4 : index\n"
WHOLE = "%step = arith.addi %4, %0 : index\n"
PLAIN = "%q = arith.addi %p, %0 : index\n" + ROW_BY_ROW
GROUPED = """
  %g = arith.divsi %p, %8 : index
  %first = arith.muli %g, %2 : index
  %left = arith.subi %3, %first : index
  %rows = arith.minsi %left, %2 : index
  %in = arith.remsi %p, %8 : index
  %within = arith.remsi %in, %rows : index
  %i = arith.addi %first, %within : index
  %j = arith.divsi %in, %rows : index
"""
PERMUTED = f"""
  %m = arith.muli %p, %factor : index
  %q = arith.remsi %m, %12 : index
{ROW_BY_ROW}"""


def programs(place: str, factor: int = 1, size: int = 192, grid: int = 12) -> list[tile.ProgramOp]:
    module = parse(PRODUCT.format(place=place, factor=factor, size=size))
    program = cast(tile.ProgramOp, module.body.block.first_op)
    return list(placed_programs(program, (grid, 1, 1), {3: 0.0}))


def cause(place: str, **options: Any) -> str:
    with pytest.raises(NotRaised) as caught:
        programs(place, **options)
    return str(caught.value)


def check_product(program: tile.ProgramOp) -> None:
    """Checks that the program's own grid computes the product with whole tiles."""
    semantics.load()
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((12, 8), (8, 16)))
    c = np.zeros((12, 16), np.float32)
    views: Mapping[int, tuple[int, ...]] = {n: x.shape for n, x in enumerate((a, b, c))}
    assert {n: tile.view_of(v).shape for n, v in enumerate(program.body.block.args)} == views
    run_program(program, [a, b, c], grid_of(program, dict(views)))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("place", [PLAIN, GROUPED], ids=["row by row", "in groups of two rows"])
def test_the_tiles_of_a_product_are_rows_and_columns(place: str):
    made, *_ = programs(place + WHOLE)
    check_product(made)
    raise_program(made)


@pytest.mark.parametrize("factor", [*range(12), -1])
def test_tiles_are_derived_unless_workgroups_overlap(factor: int):
    place = PERMUTED + WHOLE
    if factor == -1:
        place = "%q = arith.subi %11, %p : index\n" + ROW_BY_ROW + WHOLE
    if gcd(factor, 12) > 1:
        assert cause(place, factor=factor) == "two workgroups store to the same element"
    else:
        made, *_ = programs(place, factor)
        check_product(made)


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ("do not cover a buffer", {"place": PLAIN + "%step = arith.addi %2, %0 : index\n"}),
        ("do not cover a buffer", {"place": PLAIN + "%step = arith.addi %8, %0 : index\n"}),
        ("do not cover a buffer", {"place": PLAIN + WHOLE, "grid": 8}),
        ("do not cover a buffer", {"place": PLAIN + WHOLE, "size": 256}),
        ("regular grid", {"place": PLAIN + WHOLE, "grid": 11}),
        ("more than", {"place": PLAIN + WHOLE, "grid": 1 << 25}),
    ],
    ids=["tiles overlap", "rows are left out", "rows are missing", "the buffer is larger",
         "a tile is missing", "there are too many"],
)  # fmt: skip
def test_a_launch_that_does_not_store_every_element_once_is_unchanged(
    said: str, options: dict[str, Any]
):
    assert said in cause(**options)
