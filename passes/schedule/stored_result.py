"""Describes how a contraction's result is stored, and how slices of K exchange partial sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl_spirv.dialects.schedule import ContractionAttr, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.schedule.tiles import BATCH, COLUMNS, ROWS, WORD_BYTES, StagedTile, Tile
from xdsl_spirv.targets import Fragment, Target

STRIP_BYTES = 16
"""Size of one store in bytes if results are stored row by row."""


def row_stride(layout: Layout) -> Size | None:
    """Returns the row stride in elements if a batch's result is a row-major matrix, else None."""
    rows, columns = layout.walks[ROWS], layout.walks[COLUMNS]
    if len(rows) > 1 or len(columns) > 1 or (columns and columns[0].stride != 1):
        return None
    if rows:
        return rows[0].stride
    return columns[0].size if columns else 1


def moves_together(layout: Layout, element_bytes: int, width: int) -> bool:
    """
    True if `width` elements of a row can always be stored as one vector of at most 16 bytes.

    The elements must be contiguous, and every start must be a multiple of the vector's size.
    """
    columns = layout.walks[COLUMNS]
    if row_stride(layout) is None or width * element_bytes > 16 or not columns:
        return width == 1
    return begins_at_multiples(layout, width) and is_multiple(columns[0].size, width)


def begins_at_multiples(layout: Layout, count: int) -> bool:
    """True if every row of a row-major result begins at a multiple of `count` elements."""
    stride = row_stride(layout)
    steps = [layout.start, *(axis.stride for axis in layout.walks[BATCH])]
    return stride is not None and all(is_multiple(step, count) for step in (stride, *steps))


@dataclass(frozen=True)
class StoredResult:
    """
    Properties of the way in which a contraction's result is stored, for a schedule and a target.
    """

    contraction: Contraction
    schedule: ContractionAttr
    target: Target
    in_vectors: bool
    """
    True if an invocation may hold neighbours along N in one vector.

    False if B's tile is contiguous along K: neighbours along N are then in different rows of
    Workgroup memory, and neighbouring invocations read neighbouring rows.
    """

    @property
    def layout(self) -> Layout:
        """The result's layout, with the groups of loops `BATCH`, `ROWS`, `COLUMNS`."""
        return self.contraction.layouts[2]

    @property
    def element_bytes(self) -> int:
        return bit_width(self.contraction.element_types[2]) // 8

    @property
    def fragment(self) -> tuple[int, int]:
        """Rows and columns of a fragment."""
        m, n, _ = self.schedule.instruction.sizes
        return m, n

    @property
    def stored_directly(self) -> bool:
        """True if fragments inside of the result are stored as whole matrices."""
        if self.stores_elements and not self.contraction.epilogue.is_empty:
            from xdsl_spirv.passes.analysis.componentwise import are_stored_as_matrices

            sizes = self.schedule.instruction.sizes
            return are_stored_as_matrices(self.contraction, sizes, self.target)
        if self.schedule.is_transposed:
            return self.is_componentwise
        # Cooperative loads and stores need aligned fragments.
        _, n = self.fragment
        count = self.target.count_aligned(n, 8 * self.element_bytes)
        if n % count or not begins_at_multiples(self.layout, count):
            return False
        return self.contraction.epilogue.is_empty or self.is_componentwise

    @cached_property
    def is_componentwise(self) -> bool:
        """True if the epilogue can be computed on whole fragments."""
        if not self.schedule.is_cooperative:
            return False
        from xdsl_spirv.passes.analysis.componentwise import is_componentwise

        return is_componentwise(self.contraction, self.schedule.instruction.sizes, self.target)

    @property
    def width(self) -> int:
        """Number of result elements in one vector of an invocation."""
        if not self.in_vectors:
            return 1
        _, n = self.fragment
        return next(v for v in (4, 2, 1) if n % v == 0)

    @property
    def vector(self) -> int:
        """Number of elements in one load or store of the result."""
        width = self.width
        whole = is_multiple(self.contraction.n, width) and width * self.element_bytes <= 16
        return width if whole and begins_at_multiples(self.layout, width) else 1

    @property
    def stored_width(self) -> int:
        """Number of neighbouring elements that an invocation computes and stores together."""
        if self.contraction.epilogue.is_empty:
            return self.vector
        return self.width if is_multiple(self.contraction.n, self.width) else 1

    @property
    def whole_tiles(self) -> bool:
        """True if every workgroup tile lies inside of the result."""
        tile_m, tile_n, _ = self.schedule.tile
        contraction = self.contraction
        return is_multiple(contraction.m, tile_m) and is_multiple(contraction.n, tile_n)

    @property
    def whole_fragments(self) -> bool:
        """True if no fragment crosses the result's edge, and all are stored directly."""
        m, n = self.fragment
        whole = is_multiple(self.contraction.m, m) and is_multiple(self.contraction.n, n)
        return whole and self.stored_directly

    @property
    def scratch_shape(self) -> tuple[int, int] | None:
        """
        Shape of the Workgroup memory for a subgroup's result fragment; None if it is not needed.
        """
        inside = (self.stored_directly and self.whole_tiles) or self.whole_fragments
        if not self.schedule.is_cooperative or inside or self.stores_rows or self.component_places:
            return None
        if self.stores_elements:
            return None
        m, n = self.fragment
        return m * self.schedule.subgroup_count, n

    @property
    def stores_rows(self) -> bool:
        """True if the result is stored row by row, through Workgroup memory."""
        return self.schedule.result.data == "rows"

    @property
    def component_places(self) -> Fragment | None:
        """
        Component positions if fragments at the result's edge are stored by components, else None.
        """
        if self.schedule.result.data != "components":
            return None
        return self.target.fragment("Acc", self.fragment, 8 * self.element_bytes)

    @property
    def stores_elements(self) -> bool:
        """True if an instruction calls a function for each element that is not stored directly."""
        return self.schedule.result.data == "elements"

    @property
    def strip_width(self) -> int:
        """Number of results in one store, if results are stored row by row."""
        results = self.contraction.epilogue.results
        return STRIP_BYTES * 8 // max(bit_width(result.element_type) for result in results)

    @property
    def strip_shape(self) -> tuple[int, int]:
        """
        Shape, in vectors, of the Workgroup memory for results that are stored row by row.

        Each subgroup has memory for one row of fragments. Each memory row ends in a vector of
        padding.
        """
        m, n = self.fragment
        _, count, _ = self.schedule.fragments
        return m * self.schedule.subgroup_count, count * n // self.strip_width + 1

    @property
    def scratch_bytes(self) -> int:
        return prod(self.scratch_shape or (0,)) * self.element_bytes

    @property
    def workgroup_bytes(self) -> int:
        """Bytes of Workgroup memory through which results are stored, by rows or by fragments."""
        strips = prod(self.strip_shape) * STRIP_BYTES if self.stores_rows else 0
        return strips + self.scratch_bytes


@dataclass(frozen=True)
class PartialSums:
    """The exchange of partial sums between the subgroups that multiply slices of K."""

    schedule: ContractionAttr
    tiles: tuple[Tile, Tile]
    element_bytes: int
    room: int
    """Bytes of Workgroup memory for the sums. Larger sums are exchanged in rounds."""
    parts: int = 1
    """Number of neighbouring fragments that one slice completes, for results of several parts."""

    @property
    def fragments(self) -> int:
        """Number of a subgroup's fragments whose sums are exchanged in one round."""
        return self._apart if self.tile is None else self._most(self._buffer_bytes(self.tile))

    @property
    def tile(self) -> int | None:
        """
        Index of the operand whose tile the sums overwrite: 0 (A) or 1 (B).

        None if the free Workgroup memory holds at least as many sums as a tile.
        """
        for number, tile in enumerate(self.tiles):
            if self._takes_sums(tile) and self._most(self._buffer_bytes(number)) > self._apart:
                return number
        return None

    def _takes_sums(self, tile: Tile) -> bool:
        """
        True if a tile's memory can hold sums: it has vectors of whole words, which divide the rows
        of a fragment.
        """
        if not isinstance(tile, StagedTile):
            return False
        _, n, _ = self.schedule.instruction.sizes
        piece = tile.piece * tile.element_bytes
        return piece % WORD_BYTES == 0 and n * self.element_bytes % piece == 0

    def _buffer_bytes(self, number: int) -> int:
        tile = self.tiles[number]
        return tile.workgroup_bytes // tile.buffers if isinstance(tile, StagedTile) else 0

    @property
    def _apart(self) -> int:
        return self._most(self.room)

    @property
    def _others(self) -> int:
        return self.schedule.subgroup_count - prod(self.schedule.grid)

    def _most(self, bytes: int) -> int:
        """
        Returns the largest number of fragments for which the sums fit into `bytes`, at least
        one fragment of each part of the result.
        """
        m, n, _ = self.schedule.instruction.sizes
        along_m, along_n, _ = self.schedule.fragments
        count = along_m * along_n
        most, parts = bytes // (self._others * m * n * self.element_bytes), self.parts
        fewer = range(min(count, most), parts, -1)
        return next((at for at in fewer if count % at == 0 == at % parts), parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """
        Shape of the Workgroup memory for partial sums: fragments, rows and columns.

        The slice that completes a fragment does not store its sums.
        """
        m, n, _ = self.schedule.instruction.sizes
        return self._others * self.fragments, m, n

    @property
    def workgroup_bytes(self) -> int:
        """Bytes of additional Workgroup memory, besides the tiles."""
        return prod(self.shape) * self.element_bytes if self.tile is None else 0
