"""The sizes and types of an operand's tile follow from its layout, vector and padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import AffineMapAttr, VectorType, bf16, f16, f32, i8, i16, i32
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import PackingAttr, StagedAttr
from xdsl_spirv.passes.analysis.layout import Axis, Layout
from xdsl_spirv.passes.schedule.tiles import (
    PackedTile,
    StagedTile,
    column_walk,
    k_axis_of,
    packed_layout,
    staged_tile,
    vector_type,
    widest_vector,
)

ALONG_K = Layout(0, ((), (Axis(6, 64),), (Axis(64, 1),)))
ACROSS_K = Layout(0, ((), (Axis(96, 1),), (Axis(64, 96),)))
"""96 rows of 64 elements, stored by columns."""
VECTORS = StagedAttr(padding=8, vector=4, buffers=2)


def pack(fragment: tuple[int, int], tile: tuple[int, int]) -> PackingAttr:
    """Packs 3 matrices of 12 x 10 elements."""
    map = AffineMapAttr(AffineMap.identity(3))
    return PackingAttr("A", fragment, tile, map, (3, 12, 10), (1, 1, 1))


@pytest.mark.parametrize(
    ("element", "count", "expected"),
    [
        (f32, 1, f32),
        (i8, 2, VectorType(i8, [2])),
        (f16, 4, VectorType(f16, [4])),
        (f16, 8, VectorType(i32, [4])),
        (i8, 16, VectorType(i32, [4])),
        (i8, 8, VectorType(i32, [2])),
    ],
)
def test_vectors_of_more_than_four_elements_consist_of_words(
    element: Attribute, count: int, expected: Attribute
):
    assert vector_type(element, count) == expected


def test_columns_lie_along_k_unless_only_the_other_axis_is_contiguous():
    column = Layout(0, ((), (Axis(6, 1),), (Axis(1, 1),)))
    apart = Layout(0, ((), (Axis(6, 2),), (Axis(4, 12),)))
    assert [k_axis_of(at) for at in (ALONG_K, ACROSS_K, column, apart)] == [1, 0, 1, 1]
    assert [column_walk(axis) for axis in (0, 1)] == [1, 2]


@pytest.mark.parametrize(
    ("size", "rows", "most", "expected"),
    [
        (2, (64,), 16, 8),
        (2, (64, 12), 16, 4),
        (2, (64, 6), 16, 2),
        (2, (7,), 16, 1),
        (1, (64,), 16, 16),
        (1, (64,), 8, 8),
        (1, (6,), 16, 1),
        (4, (64,), 16, 4),
        (4, (64,), 2, 2),
        (8, (64,), 16, 2),
        (8, (3,), 16, 1),
    ],
)
def test_the_widest_vector_has_4_to_16_bytes_and_divides_all_rows(
    size: int, rows: tuple[int, ...], most: int, expected: int
):
    assert widest_vector(size, *rows, most=most) == expected


def test_a_tile_has_rows_of_contiguous_elements_and_padding():
    tile = staged_tile(VECTORS, f16, (32, 96), (16, 64), ACROSS_K)
    assert (tile.k_axis, tile.shape, tile.extent) == (0, (16, 32), (64, 96))
    assert (tile.row_vectors, tile.vectors, tile.pieces, tile.stride) == (8, 128, 128, 10)
    assert tile.workgroup_bytes == 2 * 16 * (32 + 8) * 2
    assert (tile.moved_type, tile.source_type) == (VectorType(f16, [4]),) * 2
    assert tile.piece_type == tile.moved_type
    assert tile.stored_type == f16
    assert not tile.reads_ahead
    turned = staged_tile(VECTORS, f16, (3, 6), (16, 64), ALONG_K)
    assert (turned.k_axis, turned.shape, turned.extent) == (1, (3, 16), (6, 64))
    assert turned.run == 64
    assert staged_tile(StagedAttr(ahead=1), f16, (3, 6), (16, 64), ALONG_K).reads_ahead


def test_a_tile_is_guarded_on_axes_that_it_does_not_divide():
    def guard(outer: int, inner: int, beyond: tuple[bool, bool] = (False, False)):
        given = (4, outer), (8, inner)
        return staged_tile(VECTORS, f16, *given, ALONG_K, beyond=beyond).guarded

    assert guard(12, 64) == (False, False)
    assert guard(13, 64) == (True, False)
    assert guard(12, 65) == (False, True)
    assert guard(12, 64, (True, False)) == (True, False)
    assert guard(12, 64, (False, True)) == (False, True)


def test_bfloat16_may_be_copied_as_integers():
    tile = staged_tile(VECTORS, bf16, (4, 12), (8, 64), ALONG_K)
    assert tile.moved_type == VectorType(bf16, [4])
    assert replace(tile, as_bits=True).moved_type == VectorType(i16, [4])


def test_dot_products_copy_words_along_k_and_gather_them_if_k_is_not_contiguous():
    path = StagedAttr(vector=8)
    tile = staged_tile(path, i8, (4, 12), (16, 64), ALONG_K, packed=True)
    assert (tile.moved_type, tile.source_type, tile.gathered) == (VectorType(i32, [2]),) * 2 + (
        False,
    )
    gathered = staged_tile(path, i8, (4, 96), (16, 64), ACROSS_K, packed=True)
    assert (gathered.k_axis, gathered.gathered) == (1, True)
    assert (gathered.moved_type, gathered.source_type) == (VectorType(i32, [2]), i8)
    # Addresses count single elements if these are gathered, else vectors.
    assert gathered.moved_layout == ACROSS_K
    assert tile.moved_layout == Layout(0, ((), (Axis(6, 8),), (Axis(8, 1),)))
    assert not staged_tile(path, i8, (4, 96), (16, 64), ACROSS_K).gathered


def test_a_packed_tile_is_read_as_the_words_of_an_invocation():
    packing = pack((8, 8), (16, 8))
    tile = PackedTile(packing, f16, 8)
    assert (tile.components, tile.words, tile.workgroup_bytes) == (8, 4, 0)
    assert PackedTile(packing, i8, 32).components == 2
    assert replace(tile, element_type=f32).words == 8
    staged = StagedTile((2, 64), (2, 128), 1, packed_layout(packing), f16, 0, 8, packing=packing)
    assert staged.in_fragments
    assert not replace(staged, packing=pack((1, 5), (4, 5))).in_fragments
    assert not replace(staged, packing=None).in_fragments


def test_fragments_follow_each_other_along_m_and_panels_along_their_rows():
    fragments, panels = pack((8, 8), (16, 8)), pack((1, 5), (4, 5))
    # Three matrices of 16 x 16 elements with zeros: two fragments each way
    assert fragments.shape == (3, 2, 2, 64)
    expected = ((Axis(3, 256),), (Axis(128, 1),), (Axis(2, 128),))
    assert packed_layout(fragments) == Layout(0, expected)
    # Each of two panels has 12 rows of 5 elements.
    assert panels.shape == (3, 2, 12, 5)
    expected = ((Axis(3, 120),), (Axis(12, 5),), (Axis(2, 60), Axis(5, 1)))
    assert packed_layout(panels) == Layout(0, expected)
    single = PackingAttr("A", (8, 8), (8, 8), panels.map, (1, 8, 8), (1, 1, 1))
    assert packed_layout(single) == Layout(0, ((), (Axis(64, 1),), ()))
