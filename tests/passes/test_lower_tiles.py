"""The kernels of tile programs compute what whole tiles do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

NUMBERED = """tile.program @numbered {
^bb0(%y: !tile.view<SIZExi32>):
  %i, %j = tile.place %y tile [1, 1] axes [0, 1] group 2 : !tile.view<SIZExi32> -> index, index
  %x = tile.program_id 0
  %z = tile.program_id 1
  %ten = arith.constant 10 : index
  %tens = arith.muli %z, %ten : index
  %sum = arith.addi %tens, %x : index
  %n = arith.index_cast %sum : index to i32
  %t = tile.full %n : i32 -> !tile.tile<1x1xi32>
  tile.store %t, %y[%i, %j] : !tile.tile<1x1xi32>, !tile.view<SIZExi32>
}"""


@pytest.mark.parametrize("size", ["4x3", "5x3"])
def test_groups_of_tiles_are_covered_in_the_order_of_whole_tiles(
    size: str, validate: Callable[..., None]
):
    passes = "lower-tiles{target=lavapipe},kernel-to-spirv,spirv-update-vce"
    validate(NUMBERED.replace("SIZE", size), passes, inputs=1)
