"""A schedule's memory, grid and copies on a target follow from its tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from xdsl_spirv.passes.schedule.pipeline import IN_TURN, ONE_TILE, READ_AHEAD, TWO_BUFFERS
from xdsl_spirv.passes.schedule.tiles import StagedTile
from xdsl_spirv.targets import load

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

LAVAPIPE = load("lavapipe")
STAGED = "a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 4>"


def test_tiles_in_workgroup_memory(plan_product: PlanProduct):
    made = plan_product("matrices", "16, 16, 32", "2, 1", STAGED)
    assert list(made.problems()) == []
    assert made.grid == (2, 3, 1), "columns first"
    assert made.invocations == 2 * 8
    a, b = made.staged
    # A is contiguous along K, B along N: staged rows of B are its columns.
    assert (a.shape, a.k_axis, a.stride) == ((16, 32), 1, (32 + 8) // 8)
    assert (b.shape, b.k_axis, b.stride) == ((32, 16), 0, (16 + 8) // 4)
    assert (a.workgroup_bytes, b.workgroup_bytes) == (16 * 40 * 2, 32 * 24 * 2)
    assert (a.run, b.run) == (64, 32), "as far as elements are neighbours in memory"
    assert (made.moves(a), made.moves(b)) == (16 * 4 // 16, 32 * 4 // 16)
    assert (str(a.moved_type), str(b.moved_type)) == ("vector<4xi32>", "vector<4xf16>")
    assert a.guarded == b.guarded == (False, False)
    assert made.result.scratch_shape is None, "whole fragments are stored where they belong"
    assert made.workgroup_bytes == a.workgroup_bytes + b.workgroup_bytes
    # Two result fragments, and one fragment of A and two of B in each of four K steps.
    assert made.fragment_bytes == 2 * 64 * 4 + 4 * (64 + 2 * 64) * 2


@pytest.mark.parametrize(
    ("depth", "rest", "expected"),
    [
        (64, "", ONE_TILE),
        (32, "", IN_TURN),
        (32, ", stages = 2", READ_AHEAD),
    ],
)
def test_stages_of_the_loop(depth: int, rest: str, expected: object, plan_product: PlanProduct):
    assert plan_product("matrices", f"16, 16, {depth}", "1, 1", STAGED + rest).pipeline == expected


def test_two_buffers_take_turns(plan_product: PlanProduct):
    twice = "a = staged<vector = 8, buffers = 2>, b = staged<vector = 4, buffers = 2>, stages = 2"
    made = plan_product("matrices", "16, 16, 16", "1, 1", twice)
    assert made.pipeline == TWO_BUFFERS
    assert made.staged[0].workgroup_bytes == 2 * 16 * 16 * 2
    assert made.waiting_bytes == sum(
        made.moves(tile) * tile.vector * tile.element_bytes for tile in made.staged
    )


def test_edges_are_guarded_and_pass_through_scratch(plan_product: PlanProduct):
    made = plan_product(
        "bytes", "8, 8, 8", "1, 1", "a = staged<vector = 8>, b = staged<vector = 8>"
    )
    a, b = made.staged
    assert isinstance(a, StagedTile)
    assert a.guarded == (True, False)
    assert b.guarded == (True, False)
    assert made.result.scratch_shape == (8, 8)
    assert made.result.scratch_bytes == 8 * 8 * 4


def test_partial_sums_of_slices(plan_product: PlanProduct):
    made = plan_product("matrices", "16, 16, 64", "1, 1, 4", STAGED)
    assert made.slice_depth == 16
    assert made.sums is not None
    count, rows, columns = made.sums.shape
    assert (rows, columns) == (8, 8)
    assert count == 3 * made.sums.fragments
    assert made.schedule.fragments[0] * made.schedule.fragments[1] % made.sums.fragments == 0
    assert made.workgroup_bytes <= LAVAPIPE.workgroup_memory_bytes
