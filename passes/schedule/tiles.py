"""
Describes an operand's tile between memory and multiplication.

A tile goes through Workgroup memory, is packed in global memory, or is dequantized from packed
weights. Its sizes and types follow from the operand's layout and its path in the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import IntegerType, VectorType, i32
from xdsl.ir import Attribute

from xdsl_spirv.dialects.schedule import PackingAttr, StagedAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_multiple
from xdsl_spirv.passes.analysis.contraction import Prologue, element_type
from xdsl_spirv.passes.analysis.layout import Axis, Layout
from xdsl_spirv.targets import Fragment

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.unpacking import Units, Unpacking
    from xdsl_spirv.passes.schedule.k_order import KOrder


def vector_type(element_type: Attribute, count: int) -> Attribute:
    """
    Returns the type of `count` elements in one access. SPIR-V vectors have at most 4 components.

    >>> from xdsl.dialects.builtin import f16
    >>> print(vector_type(f16, 4), vector_type(f16, 8))
    vector<4xf16> vector<4xi32>
    """
    if count == 1:
        return element_type
    if count <= 4:
        return VectorType(element_type, [count])
    words = count * bit_width(element_type) // 32
    return VectorType(i32, [words]) if words > 1 else IntegerType(32)


WORD_BYTES = 4

BATCH, OUTER, INNER = range(3)
"""Indices of an operand layout's walks (groups of loops) along the batch, M or N, and K."""

ROWS, COLUMNS = 1, 2
"""Indices of the result layout's walks (groups of loops) along M and N. `BATCH` comes first."""


class OperandTile:
    """A tile of one operand: two axes, one of them along K."""

    element_type: Attribute
    shape: tuple[int, int]
    extent: tuple[Size, Size]
    beyond = (False, False)
    """For each axis: True if a whole tile may lie outside of the operand."""

    @property
    def element_bytes(self) -> int:
        return bit_width(self.element_type) // 8

    @property
    def guarded(self) -> tuple[bool, bool]:
        """For each axis: True if a tile may exceed the operand."""
        (first, second), axes = self.beyond, zip(self.extent, self.shape, strict=True)
        rest_of_first, rest_of_second = (not is_multiple(*axis) for axis in axes)
        return first or rest_of_first, second or rest_of_second


@dataclass(frozen=True)
class StagedTile(OperandTile):
    """
    An operand's tile in Workgroup memory: rows of contiguous elements.

    The tile has `shape` rows and columns. The operand has `extent` rows and columns. `k_axis` is
    the axis along K: 1 (columns, usual for A) or 0 (rows, usual for B). `layout` is the operand's
    layout in global memory, with walks (groups of loops) `BATCH`, `OUTER`, `INNER`.
    """

    shape: tuple[int, int]
    extent: tuple[Size, Size]
    k_axis: int
    layout: Layout
    element_type: Attribute
    padding: int
    vector: int
    as_bits: bool = False
    """True if elements are copied as integers: bfloat16 that is multiplied in another type."""
    packed: bool = False
    """True if four 8-bit elements along K form a word, for dot products."""
    prologue: Prologue = ()
    """Elementwise operations between load and store in Workgroup memory, the last one first."""
    fill: int = 0
    """Padding value around the operand."""
    buffers: int = 1
    """Number of the tile's buffers in Workgroup memory."""
    packing: PackingAttr | None = None
    """Packing of the operand in panels or fragments; None if it is not packed."""
    unpacking: Unpacking | None = None
    """Dequantization of the elements, if the operand is packed weights."""
    reads_ahead: bool = False
    """True if fragments are loaded one tile ahead."""
    order: KOrder | None = None
    """Order along K in Workgroup memory, if the other operand's fragments require one."""
    beyond: tuple[bool, bool] = (False, False)
    """For rows and for columns: True if a whole tile may lie outside of the operand."""

    @property
    def in_fragments(self) -> bool:
        """True if the operand is packed in fragments. Each tile row is one K step."""
        return self.packing is not None and not self.packing.is_panels

    @property
    def moved_type(self) -> Attribute:
        """Type of one vector that an invocation copies."""
        element = self.element_type
        bits = IntegerType(bit_width(element)) if self.as_bits else element
        if self.packed:
            return vector_type(i32, self.vector * self.element_bytes // WORD_BYTES)
        return vector_type(bits, self.vector)

    @property
    def piece_type(self) -> Attribute:
        """Element type of the tile's Workgroup memory."""
        return self.moved_type if self.order is None else vector_type(self.element_type, self.piece)

    @property
    def gathered(self) -> bool:
        """True if a vector is built from single elements."""
        return self.packed and self.run % self.vector != 0

    @property
    def source_type(self) -> Attribute:
        """Type of one load from global memory."""
        if self.prologue:
            return vector_type(self.stored_type, 1 if self.gathered else self.vector)
        return self.element_type if self.gathered else self.moved_type

    @property
    def stored_type(self) -> Attribute:
        """Element type of the operand in global memory."""
        if not self.prologue:
            return self.element_type
        return element_type(self.prologue[-1].inputs[0])

    @property
    def moved_layout(self) -> Layout:
        """Layout of the operand, in units of one load."""
        width = 1 if self.gathered else self.vector
        return self.layout.in_vectors(column_walk(self.k_axis), width)

    @property
    def run(self) -> int:
        """Largest number of contiguous, aligned elements of a row in global memory."""
        return self.layout.run(column_walk(self.k_axis))

    @property
    def row_vectors(self) -> int:
        """Number of vectors in a row of the tile, without padding."""
        return self.shape[1] // self.vector

    @property
    def piece(self) -> int:
        """Number of a vector's elements that are contiguous in Workgroup memory."""
        return self.vector if self.order is None else len(self.order.runs(self.vector)[0])

    @property
    def stride(self) -> int:
        """Distance between rows in Workgroup memory, in groups of `piece` elements."""
        return (self.shape[1] + self.padding) // self.piece

    @property
    def vectors(self) -> int:
        return self.shape[0] * self.row_vectors

    @property
    def pieces(self) -> int:
        """Number of copies that fill the tile, each of a vector or of a unit of packed weights."""
        if self.unpacking is None:
            return self.vectors
        return ceil_div(self.shape[0] * self.shape[1], self.unpacking.size)

    @property
    def workgroup_bytes(self) -> int:
        return self.buffers * self.shape[0] * (self.shape[1] + self.padding) * self.element_bytes


@dataclass(frozen=True)
class UnitTile(OperandTile):
    """
    A tile of an operand whose fragments invocations compute in registers, unit by unit.

    A unit has the elements along K that an invocation reads together, from rows or from planes
    (tensors of packed weights). `shape` is the tile's size and `extent` the operand's size, along M
    or N and along K. `order` is the order of elements along K; None if component positions are
    unknown or units do not fit the tile.
    """

    unpacking: Units
    shape: tuple[int, int]
    extent: tuple[Size, Size]
    element_type: Attribute
    fragment: Fragment | None
    order: KOrder | None
    ahead: int = 0
    """If not 0, the planes of a K tile are loaded while the previous K tile is multiplied."""
    in_panels: bool = False
    """True if planes are packed into panels (see `packed_layout`) before the kernel reads them."""

    workgroup_bytes = 0
    k_axis = 1
    packing = None

    def panels(self) -> list[tuple[int, int]]:
        """
        Returns the planes that are packed into panels: for each, its number among the operand's
        planes, and the length of a panel's row in elements of the plane.
        """
        if self.order is None or self.order.split > 1:
            return []
        planes = enumerate(self.unpacking.planes)
        units = self.order.group // self.unpacking.size
        depths = ((number, plane.panel_depth(units)) for number, plane in planes)
        return [(number, depth) for number, depth in depths if depth is not None]


@dataclass(frozen=True)
class PackedTile(OperandTile):
    """
    A tile of an operand that is packed in fragments in global memory.

    An invocation's components of a fragment are contiguous and loaded as 32-bit words.
    """

    packing: PackingAttr
    element_type: Attribute
    subgroup_size: int
    ahead: int = 0
    """Number of instructions along K by which fragments are read ahead."""

    workgroup_bytes = 0
    k_axis = 1

    @property
    def components(self) -> int:
        """Number of a fragment's elements in one invocation."""
        return prod(self.packing.fragment_sizes) // self.subgroup_size

    @property
    def words(self) -> int:
        """Number of 32-bit words of an invocation's components."""
        return self.components * self.element_bytes // WORD_BYTES


Tile: TypeAlias = StagedTile | PackedTile | UnitTile


def k_axis_of(layout: Layout) -> int:
    """Returns the tile axis along K: 0 if only M or N is contiguous in the operand, else 1."""
    return 0 if layout.is_contiguous(OUTER) and not layout.is_contiguous(INNER) else 1


def column_walk(k_axis: int) -> int:
    """Returns the index of the layout's walk (group of loops) along the rows of a tile."""
    return INNER if k_axis == 1 else OUTER


def widest_vector(bytes: int, *rows: int, most: int = 16) -> int:
    """
    Returns the most elements of `bytes` in a vector of 4, 8 or 16 bytes that divides all rows.

    Returns 1 if there is no such vector of at most `most` elements.
    """
    widths = (v for v in (16, 8, 4, 2) if v <= most and v * bytes in (4, 8, 16))
    return next((v for v in widths if all(row % v == 0 for row in rows)), 1)


def staged_tile(
    path: StagedAttr,
    element_type: Attribute,
    outer: tuple[int, Size],
    inner: tuple[int, Size],
    layout: Layout,
    **more: Any,
) -> StagedTile:
    """
    Builds a staged tile.

    `outer` and `inner` are (tile size, operand size) along M or N, and along K. `more` are other
    fields.
    """
    k_axis = 1 if more.get("packed") else k_axis_of(layout)
    rows, columns = (inner, outer) if k_axis == 0 else (outer, inner)
    (height, rows_extent), (width, columns_extent) = rows, columns
    return StagedTile(
        (height, width),
        (rows_extent, columns_extent),
        k_axis,
        layout,
        element_type,
        path.padding.data,
        path.vector.data,
        buffers=path.buffers.data,
        reads_ahead=path.ahead.data > 0,
        **more,
    )


def packed_layout(packing: PackingAttr) -> Layout:
    """
    Returns the layout of a packed operand, including zero padding.

    A panel has the elements of one K tile, in row-major order. A row has the panels, or the
    fragments, of one step along K. The walk along M or N counts the elements of all fragments in a
    row.
    """
    batch, steps, count, elements = packing.shape
    row = count * elements
    outer, inner = [Axis(row, 1)], [Axis(steps, row)]
    if packing.is_panels:
        outer, inner = [Axis(count, elements)], [*inner, Axis(elements, 1)]
    walks = [Axis(batch, steps * row)], outer, inner
    return Layout(0, tuple(tuple(axis for axis in walk if axis.size != 1) for walk in walks))
