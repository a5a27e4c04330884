"""
The integers of a tile program are computed for every workgroup, and written as sums of digits of
the workgroup's index.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import cast

import numpy as np
import pytest

from xdsl_spirv import parse
from xdsl_spirv.dialects import tile
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.passes.graph.program_numbers import MOST, Digits, Numbers, constant
from xdsl_spirv.passes.graph.tile_nodes import NotRaised

PROGRAM = """
tile.program @numbers {
^bb0(%a: !tile.view<12x7xf32>, %n: index):
  %x = tile.program_id 0
  %y = tile.program_id 1
  %0 = arith.constant 0 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %10 = arith.constant 10 : index
  %y10 = arith.muli %y, %10 : index
  %xy = arith.addi %y10, %x : index
  %size = tile.size %a 1 : !tile.view<12x7xf32>
  %bad = arith.divsi %x, %0 : index
  %worse = arith.addi %bad, %0 : index
  scf.for %i = %x to %size step %2 {
    %sum = arith.addi %i, %xy : index
    scf.for %j = %0 to %3 step %2 {
      %both = arith.addi %sum, %j : index
    }
    scf.for %k = %0 to %i step %2 {
      %unknown = arith.addi %k, %i : index
    }
  }
}
"""
GRID = (2, 3, 1)


def numbers(grid: Sequence[int] = GRID) -> tuple[Numbers, dict[str, Array]]:
    """Returns the integers of `PROGRAM` as one object, and as arrays by name."""
    semantics.load()
    program = cast(tile.ProgramOp, parse(PROGRAM).body.block.first_op)
    made = Numbers(program, grid, {1: 5})
    return made, {value.name_hint or "": held for value, held in made.known.items()}


def test_scalars_are_known_in_every_workgroup():
    """Workgroups are counted along the first axis of the grid first."""
    _, named = numbers()
    ids = list(product(range(3), range(2)))
    assert named["x"].ravel().tolist() == [x for _, x in ids]
    assert named["y"].ravel().tolist() == [y for y, _ in ids]
    assert named["xy"].ravel().tolist() == [10 * y + x for y, x in ids]
    assert constant(named["size"]) == 7
    assert constant(named["n"]) == 5
    assert constant(named["x"]) is None
    assert constant(None) is None


def test_loops_have_an_axis_each():
    """A loop from x to 7 in steps of 2 has four iterations in the first workgroup."""
    made, named = numbers()
    both = np.broadcast_to(named["both"], (6, 4, 2, 1))
    for group, (y, x) in enumerate(product(range(3), range(2))):
        for i, j in product(range(4), range(2)):
            assert both[group, i, j, 0] == x + 2 * i + 10 * y + x + 2 * j
    trips = {value.name_hint: trips for value, trips in made.trips.items()}
    assert trips["i"].ravel().tolist() == [4, 3] * 3
    assert trips["j"].ravel().tolist() == [2]


def test_undefined_numbers_are_not_known():
    """
    A division by 0 has no value, and neither has the index of a loop whose end depends on another
    loop.
    """
    _, named = numbers()
    assert {"bad", "worse", "k", "unknown"}.isdisjoint(named)


def test_too_many_iterations_are_refused():
    with pytest.raises(NotRaised, match="there are more than 16777216 iterations"):
        numbers((MOST, 2, 1))


def split(pivot: Sequence[int], *others: Sequence[int]) -> Digits:
    """
    Returns the digits of a launch whose workgroup n stores to element `pivot[n]`.

    `others` are further integers, one per workgroup, that the digits must express.
    """
    made, _ = numbers((len(pivot), 1, 1))
    arrays = [np.array(held).reshape(-1, 1, 1, 1) for held in (pivot, *others)]
    return Digits(made, arrays[0], arrays[1:])


def test_tiles_in_any_order_are_rows_and_columns():
    """Three rows of four tiles, where a row has 100 elements and a tile 8."""
    places = [100 * row + 8 * column for row, column in product(range(3), range(4))]
    order = np.random.default_rng(1).permutation(12)
    pivot = [places[n] for n in order]
    rows = np.array([int(n) // 4 for n in order])
    digits = split(pivot, rows.tolist())
    assert digits.digits == 2
    assert [digits.counts[0], digits.counts[1]] == [4, 3]
    place = np.array(pivot).reshape(-1, 1, 1, 1)
    assert digits.split(place) == {None: 0, 0: 8, 1: 100}
    assert digits.split(place * 2 + 5) == {None: 5, 0: 16, 1: 200}
    assert digits.split(rows.reshape(-1, 1, 1, 1)) == {None: 0, 1: 1}
    assert digits.split((rows * rows).reshape(-1, 1, 1, 1)) is None
    assert digits.split(np.full((1, 1, 1, 1), 9)) == {None: 9}


def test_another_value_may_cut_a_row():
    """
    The tiles are contiguous, so that one digit suffices. A second integer that counts pairs of
    tiles needs another digit.
    """
    assert split([0, 4, 8, 12]).digits == 1
    digits = split([0, 4, 8, 12], [0, 0, 1, 1])
    assert [digits.counts[0], digits.counts[1]] == [2, 2]


@pytest.mark.parametrize(
    ("pivot", "others", "reason"),
    [
        ([0, 4, 4, 8], [], "two workgroups store to the same element"),
        ([0, 4, 8, 100, 104, 108, 200], [], "do not form a regular grid"),
        (list(range(6)), [[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1]], "do not form a regular grid"),
    ],
)
def test_other_launches_have_no_digits(
    pivot: Sequence[int], others: Sequence[Sequence[int]], reason: str
):
    with pytest.raises(NotRaised, match=reason):
        split(pivot, *others)
