"""
Kernels that are lowered from tile programs give the results of operations on whole tiles.

Covers: kernel/tile_code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.tiles import run_program
from xdsl_spirv.runtime.modules import parse_text

if TYPE_CHECKING:
    from tests.passes.conftest import Validate

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
def test_groups_of_tiles_are_covered_in_the_order_of_whole_tiles(size: str, validate: Validate):
    passes = "lower-tiles{target=lavapipe},kernel-to-spirv,spirv-update-vce"
    validate(NUMBERED.replace("SIZE", size), passes, inputs=1)


BEYOND = """tile.program @beyond {
^bb0(%x: !tile.view<8xf32>, %y: !tile.view<4xf32>):
  %i = tile.place %y tile [4] axes [0] : !tile.view<4xf32> -> index
  %zero = arith.constant 0 : index
  %three = arith.constant 3 : index
  %one = arith.constant 1 : index
  %part = tile.view_of %x[%one] sizes [%three] strides [%one]
    : !tile.view<8xf32> -> !tile.view<?xf32>
  %n = tile.range : !tile.tile<4xi32>
  %t = tile.gather %part[%n] : !tile.view<?xf32>, !tile.tile<4xi32> -> !tile.tile<4xf32>
  tile.store %t, %y[%i] : !tile.tile<4xf32>, !tile.view<4xf32>
}"""


def test_a_number_beyond_its_view_is_refused_where_the_buffer_goes_on():
    (program,) = parse_text(BEYOND).body.block.ops
    assert isinstance(program, tile.ProgramOp)
    semantics.load()
    with pytest.raises(
        InterpreterError, match="element 3 of a view of x is used, but the view has only 3"
    ):
        run_program(program, [np.ones(8, np.float32), np.zeros(4, np.float32)], (1, 1, 1))
