"""
Describes the layout of an operand's tile on its way to the multiplication.

Through Workgroup memory, packed in global memory, or computed from packed planes: sizes and types
that more than one pass needs, computed from the operand's layout and its path in the schedule.
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
    from xdsl_spirv.passes.analysis.unpacking import Unpacking
    from xdsl_spirv.passes.schedule.k_order import KOrder


def vector_type(element_type: Attribute, count: int) -> Attribute:
    """
    The type of `count` elements moved as one: SPIR-V vectors have at most 4 components.

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
"""The walks of an operand's layout: batch, its M or N, and K."""

ROWS, COLUMNS = 1, 2
"""The walks of the result's layout after its batch: M and N."""


class OperandTile:
    """A tile of one operand, on its way to the multiplication."""

    element_type: Attribute

    @property
    def element_bytes(self) -> int:
        return bit_width(self.element_type) // 8


@dataclass(frozen=True)
class StagedTile(OperandTile):
    """
    One operand's tile as it lies in Workgroup memory: rows of elements that lie side by side.

    `shape` is the tile's (rows, columns), `extent` how many of both the whole operand has.
    `k_axis` says which of the two is K: 1 (columns) as A usually lies, 0 (rows) as B does.
    `layout` is the operand's in global memory; its walks are `BATCH`, `OUTER`, `INNER`.
    """

    shape: tuple[int, int]
    extent: tuple[Size, Size]
    k_axis: int
    layout: Layout
    element_type: Attribute
    padding: int
    vector: int
    as_bits: bool = False
    """True if elements are moved as integers: bfloat16 that no instruction multiplies."""
    packed: bool = False
    """Whether elements along K are words in Workgroup memory: four 8-bit ones, for dot products."""
    prologue: Prologue = ()
    """The operations on every element on its way to Workgroup memory, last operation first."""
    fill: int = 0
    """The fill around the operand in memory where it is padded."""
    buffers: int = 1
    """Copies of the tile in Workgroup memory, which take turns."""
    packing: PackingAttr | None = None
    """The panels or fragments that the operand lies in, if it does not lie in its own rows."""
    unpacking: Unpacking | None = None
    """The computation of its elements from packed planes on their way, if there is one."""
    reads_ahead: bool = False
    """Whether the fragments of a tile are loaded before the tile before is multiplied."""
    order: KOrder | None = None
    """The order along K in Workgroup memory, if it is that of the other operand's fragments."""
    beyond: tuple[bool, bool] = (False, False)
    """For rows and for columns, True if whole tiles may lie outside the operand."""

    @property
    def in_fragments(self) -> bool:
        """
        True if the tile lies in fragments: a row has the consecutive fragments of one step along K.
        """
        return self.packing is not None and not self.packing.is_panels

    @property
    def moved_type(self) -> Attribute:
        """The type of the value that an invocation moves at once."""
        element = self.element_type
        bits = IntegerType(bit_width(element)) if self.as_bits else element
        if self.packed:
            return vector_type(i32, self.vector * self.element_bytes // WORD_BYTES)
        return vector_type(bits, self.vector)

    @property
    def piece_type(self) -> Attribute:
        """The type of a value in Workgroup memory."""
        return self.moved_type if self.order is None else vector_type(self.element_type, self.piece)

    @property
    def gathered(self) -> bool:
        """True if a moved vector is built from single elements."""
        return self.packed and self.run % self.vector != 0

    @property
    def source_type(self) -> Attribute:
        """The type of the value that one load reads."""
        if self.prologue:
            return vector_type(self.stored_type, 1 if self.gathered else self.vector)
        return self.element_type if self.gathered else self.moved_type

    @property
    def stored_type(self) -> Attribute:
        """The type of the operand's elements in global memory."""
        if not self.prologue:
            return self.element_type
        return element_type(self.prologue[-1].inputs[0])

    @property
    def moved_layout(self) -> Layout:
        """The operand's layout in units of one load."""
        width = 1 if self.gathered else self.vector
        return self.layout.in_vectors(column_walk(self.k_axis), width)

    @property
    def run(self) -> int:
        """Elements of a row that lie side by side in global memory wherever a vector may begin."""
        return self.layout.run(column_walk(self.k_axis))

    @property
    def row_vectors(self) -> int:
        """Vectors in a row of the tile, without its padding."""
        return self.shape[1] // self.vector

    @property
    def piece(self) -> int:
        """The number of a vector's elements that are consecutive in Workgroup memory."""
        return self.vector if self.order is None else len(self.order.runs(self.vector)[0])

    @property
    def stride(self) -> int:
        """Pieces from one row to the next in Workgroup memory."""
        return (self.shape[1] + self.padding) // self.piece

    @property
    def vectors(self) -> int:
        return self.shape[0] * self.row_vectors

    @property
    def pieces(self) -> int:
        """The number of separately moved pieces: vectors, or units of packed numbers."""
        if self.unpacking is None:
            return self.vectors
        return ceil_div(self.shape[0] * self.shape[1], self.unpacking.size)

    @property
    def workgroup_bytes(self) -> int:
        return self.buffers * self.shape[0] * (self.shape[1] + self.padding) * self.element_bytes

    @property
    def guarded(self) -> tuple[bool, bool]:
        """For rows and for columns, True if a tile may reach beyond the operand."""
        rows, columns = zip(self.extent, self.shape, strict=True)
        beyond_rows, beyond_columns = self.beyond
        return beyond_rows or not is_multiple(*rows), beyond_columns or not is_multiple(*columns)


@dataclass(frozen=True)
class UnpackedTile(OperandTile):
    """
    One operand whose fragments invocations compute from packed planes.

    `shape` is the tile's along M or N, and along K; `extent` how many of both the operand has.
    `order` is that of its elements along K; None where the target does not say where components
    lie, or units do not fit the tile.
    """

    unpacking: Unpacking
    shape: tuple[int, int]
    extent: tuple[Size, Size]
    element_type: Attribute
    fragment: Fragment | None
    order: KOrder | None
    ahead: int = 0
    """If not 0, planes are read a K tile before they are multiplied."""

    workgroup_bytes = 0
    k_axis = 1
    packing = None

    @property
    def guarded(self) -> tuple[bool, bool]:
        """For M or N, and for K, True if a tile may reach beyond the operand."""
        outer, inner = zip(self.extent, self.shape, strict=True)
        return not is_multiple(*outer), not is_multiple(*inner)


@dataclass(frozen=True)
class PackedTile(OperandTile):
    """
    One operand that is read from global memory in fragments, as the device holds them.

    An invocation's share of a fragment lies side by side, moved as 32-bit words.
    """

    packing: PackingAttr
    element_type: Attribute
    subgroup_size: int
    ahead: int = 0
    """Instructions along K by which fragments are read before they are multiplied."""

    workgroup_bytes = 0
    k_axis = 1

    @property
    def components(self) -> int:
        """Elements of a fragment that an invocation holds."""
        return prod(self.packing.fragment_sizes) // self.subgroup_size

    @property
    def words(self) -> int:
        """32-bit words of an invocation's share."""
        return self.components * self.element_bytes // WORD_BYTES


Tile: TypeAlias = StagedTile | PackedTile | UnpackedTile


def k_axis_of(layout: Layout) -> int:
    """Returns the axis of a tile that is K. Rows lie along K if K is contiguous or no axis is."""
    return 0 if layout.is_contiguous(OUTER) and not layout.is_contiguous(INNER) else 1


def column_walk(k_axis: int) -> int:
    """Returns the walk along a tile's rows."""
    return INNER if k_axis == 1 else OUTER


def staged_tile(
    path: StagedAttr,
    element_type: Attribute,
    outer: tuple[int, Size],
    inner: tuple[int, Size],
    layout: Layout,
    **more: Any,
) -> StagedTile:
    """
    `outer` and `inner` are (tile, extent) of the operand's M or N, and of K; `more` are other
    fields of the tile.
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


def panel_layout(packing: PackingAttr) -> Layout:
    """Returns where the elements of an operand in panels lie, zeros around it included."""
    batch, panels, rows, depth = packing.shape
    axes = (
        (Axis(batch, panels * rows * depth),),
        (Axis(rows, depth),),
        (Axis(panels, rows * depth), Axis(depth, 1)),
    )
    walks = [tuple(axis for axis in walk if axis.size != 1) for walk in axes]
    return Layout(0, tuple(walks))


def fragment_layout(packing: PackingAttr) -> Layout:
    """
    Returns where an operand in fragments lies: the fragments of a step along K are a row, elements
    in their order.
    """
    batch, steps, count, elements = packing.shape
    row = count * elements
    axes = ((Axis(batch, steps * row),), (Axis(row, 1),), (Axis(steps, row),))
    walks = [tuple(axis for axis in walk if axis.size != 1) for walk in axes]
    return Layout(0, tuple(walks))
