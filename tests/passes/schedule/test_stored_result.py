"""The layout determines how a result is stored, and where slices of K exchange partial sums."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from xdsl_spirv.passes.analysis.layout import Axis, Layout
from xdsl_spirv.passes.schedule.stored_result import (
    PartialSums,
    StoredResult,
    begins_at_multiples,
    moves_together,
    row_stride,
)

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct

ROWS = Layout(0, ((), (Axis(6, 32),), (Axis(32, 1),)))
TURNED = Layout(0, ((), (Axis(6, 1),), (Axis(32, 6),)))
STAGED = "a = staged<vector = 8>, b = staged<vector = 8>"
SINGLE = "a = staged<>, b = staged<>"


def test_the_row_stride_is_that_of_a_row_major_matrix():
    assert row_stride(ROWS) == 32
    assert row_stride(TURNED) is None
    split = (Axis(2, 90), Axis(3, 32))
    assert row_stride(Layout(0, ((), split, (Axis(32, 1),)))) is None
    assert row_stride(Layout(0, ((), (Axis(6, 32),), split))) is None
    assert row_stride(Layout(0, ((), (), (Axis(32, 1),)))) == 32, "a single row"
    assert row_stride(Layout(0, ((), (Axis(6, 5),), ()))) == 5, "a single column"
    assert row_stride(Layout(0, ((), (), ()))) == 1


def test_rows_begin_at_multiples_if_all_steps_are_multiples():
    assert begins_at_multiples(ROWS, 32)
    assert not begins_at_multiples(ROWS, 64)
    assert begins_at_multiples(replace(ROWS, start=8), 8)
    assert not begins_at_multiples(replace(ROWS, start=4), 8)
    batch = Layout(0, ((Axis(3, 196),), *ROWS.walks[1:]))
    assert begins_at_multiples(batch, 4)
    assert not begins_at_multiples(batch, 8)
    assert not begins_at_multiples(TURNED, 1)


def test_vectors_of_a_row_are_moved_together_where_every_row_begins_at_one():
    assert moves_together(ROWS, 4, 4)
    assert not moves_together(ROWS, 4, 8), "more than 16 bytes"
    assert not moves_together(Layout(0, ((), (Axis(6, 33),), (Axis(33, 1),))), 4, 2)
    assert not moves_together(Layout(0, ((), (Axis(6, 32),), (Axis(30, 1),))), 4, 4)
    assert not moves_together(Layout(0, ((), (Axis(6, 4),), ())), 4, 2), "a single column"
    assert not moves_together(TURNED, 4, 2)
    assert moves_together(TURNED, 4, 1)


def plan_result(
    plan_product: PlanProduct, operation: str, tile: str, subgroups: str, result: str
) -> StoredResult:
    rest = f"{SINGLE}, result = {result}"
    return plan_product(operation, tile, subgroups, rest).result


@pytest.mark.parametrize(
    ("operation", "tile", "result", "scratch"),
    [
        ("matrices", "16, 16, 16", "fragments", None),
        # The tile exceeds 32 columns, but every fragment is inside of the result.
        ("matrices", "16, 64, 16", "fragments", None),
        ("uneven", "16, 8, 16", "fragments", (16, 8)),
        ("uneven", "16, 8, 16", "rows", None),
        ("uneven", "16, 8, 16", "components", None),
        ("uneven", "16, 8, 16", "elements", None),
    ],
)
def test_only_fragments_at_the_edge_need_scratch_memory(
    operation: str,
    tile: str,
    result: str,
    scratch: tuple[int, int] | None,
    plan_product: PlanProduct,
):
    stored = plan_result(plan_product, operation, tile, "2, 1", result)
    assert stored.scratch_shape == scratch
    assert stored.scratch_bytes == (0 if scratch is None else 16 * 8 * 4)
    assert stored.stored_directly
    assert stored.whole_fragments == (operation == "matrices")
    assert stored.whole_tiles == (tile == "16, 16, 16")
    assert stored.stores_rows == (result == "rows")
    assert stored.stores_elements == (result == "elements")
    assert (stored.component_places is None) == (result != "components")
    if result != "rows":
        assert stored.workgroup_bytes == stored.scratch_bytes


def test_rows_of_fragments_pass_through_memory_with_a_padded_vector(plan_product: PlanProduct):
    """Each of four subgroups stores rows of 32 elements of f32 as eight vectors."""
    stored = plan_result(plan_product, "matrices", "32, 64, 16", "2, 2", "rows")
    assert stored.strip_width == 4
    assert stored.strip_shape == (4 * 8, 8 + 1)
    assert stored.workgroup_bytes == 4 * 8 * 9 * 16
    assert stored.scratch_bytes == 0


@pytest.mark.parametrize(
    ("operation", "shape", "widths"),
    [
        # Width of an invocation's vectors, of one store, and of elements stored together
        ("matrices", "8x4", (4, 4, 4)),
        ("matrices", "8x2", (2, 2, 2)),
        ("matrices", "8x1", (1, 1, 1)),
        # Rows of seven columns begin anywhere.
        ("batches", "2x4", (4, 1, 1)),
        # B is contiguous along K, so that neighbours along N are in different rows.
        ("bytes", "2x4", (1, 1, 1)),
    ],
)
def test_invocations_store_the_widest_vectors_that_rows_allow(
    operation: str, shape: str, widths: tuple[int, int, int], plan_product: PlanProduct
):
    m, n = map(int, shape.split("x"))
    tile, instruction = f"{4 * m}, {2 * n}, 8", f"fma {shape}x1"
    stored = plan_product(operation, tile, "1, 1", SINGLE, instruction).result
    assert (stored.width, stored.vector, stored.stored_width) == widths
    assert stored.fragment == (m, n)
    assert stored.scratch_shape is None


def plan_sums(plan_product: PlanProduct, rest: str, room: int, subgroups: str) -> PartialSums:
    """Returns the sums of 32 x 32 results: 16 fragments of 256 bytes."""
    sums = plan_product("matrices", "32, 32, 64", subgroups, rest).sums
    assert sums is not None
    return replace(sums, room=room)


def test_slices_exchange_as_many_fragments_as_fit_and_divide_their_number(
    plan_product: PlanProduct,
):
    def fragments(room: int, subgroups: str = "1, 1, 4") -> int:
        sums = plan_sums(plan_product, "a = direct, b = direct", room, subgroups)
        assert sums.tile is None
        others = 3 * (2 if subgroups.startswith("2") else 1)
        assert sums.shape == (others * sums.fragments, 8, 8)
        assert sums.workgroup_bytes == others * sums.fragments * 256
        return sums.fragments

    # The last of four slices stores nothing: three fragments are in memory for each.
    assert fragments(48 * 256) == 16
    assert fragments(100 * 256) == 16
    assert fragments(48 * 256 - 1) == 8
    assert fragments(24 * 256) == 8
    assert fragments(23 * 256) == 4
    assert fragments(0) == 1, "at least one, whatever the room"
    # Two subgroups along M have eight fragments each.
    assert fragments(48 * 256, "2, 1, 4") == 8
    assert fragments(47 * 256, "2, 1, 4") == 4


def test_slices_complete_the_parts_of_a_result_together(plan_product: PlanProduct):
    sums = replace(plan_sums(plan_product, "a = direct, b = direct", 0, "1, 1, 4"), parts=2)
    assert sums.fragments == 2
    assert replace(sums, room=12 * 256).fragments == 4
    assert replace(sums, room=9 * 256).fragments == 2
    assert replace(sums, room=12 * 256, parts=8).fragments == 8


def test_sums_overwrite_a_tile_that_holds_more_of_them_than_free_memory(plan_product: PlanProduct):
    """A tile of 4096 bytes holds the sums of three slices for four fragments."""

    def tile(rest: str, room: int) -> int | None:
        sums = plan_sums(plan_product, rest, room, "1, 1, 4")
        assert (sums.workgroup_bytes == 0) == (sums.tile is not None)
        return sums.tile

    assert tile(STAGED, 0) == 0
    assert tile(STAGED, 4 * 3 * 256) is None
    assert tile(STAGED, 4 * 3 * 256 - 1) == 0
    assert plan_sums(plan_product, STAGED, 0, "1, 1, 4").fragments == 4
    assert tile("a = direct, b = staged<vector = 8>", 0) == 1
    assert tile("a = staged<vector = 1>, b = staged<vector = 8>", 0) == 1, "half words"
    assert tile("a = staged<vector = 1>, b = direct", 0) is None
    # A sum takes one of two buffers only.
    twice = STAGED.replace("8", "8, buffers = 2") + ", stages = 2"
    assert plan_sums(plan_product, twice, 0, "1, 1, 4").fragments == 4
