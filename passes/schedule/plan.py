"""
Derives bytes and counts of a schedule for one contraction on one target.

Everything that more than one pass needs to agree on (Workgroup memory, the grid, whether a result
tile can be stored directly) is computed here, once, from the contraction, the schedule and the
target.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects.builtin import BFloat16Type

from xdsl_spirv.dialects.schedule import (
    ContractionAttr,
    DirectAttr,
    PackingAttr,
    StagedAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, is_multiple
from xdsl_spirv.passes.analysis.contraction import Contraction, fill_of, packing_of
from xdsl_spirv.passes.analysis.layout import Layout, walk_size
from xdsl_spirv.passes.schedule.kinds import ContractionPlan
from xdsl_spirv.passes.schedule.pipeline import (
    IN_TURN,
    ONE_TILE,
    READ_AHEAD,
    TWO_BUFFERS,
    UNSTAGED,
    WRITTEN_FIRST,
    Pipeline,
    loaded_ahead,
)
from xdsl_spirv.passes.schedule.tiles import (
    BATCH,
    COLUMNS,
    INNER,
    OUTER,
    ROWS,
    WORD_BYTES,
    PackedTile,
    StagedTile,
    Tile,
    UnpackedTile,
    fragment_layout,
    panel_layout,
    staged_tile,
)
from xdsl_spirv.targets import Fragment, Target

LONG_LOOP = 4
"""K tiles in a loop that is long enough to be worth code of its own."""

MOST_PARTIAL_BYTES = 16384
"""Workgroup memory for sums of slices of K beside tiles; larger sums are exchanged in rounds."""

STRIP_BYTES = 16
"""Bytes that an invocation moves at a time where results are stored row by row."""

UNROLLED = 16
"""Moves an invocation makes for one tile without a loop."""


def row_stride(layout: Layout) -> Size | None:
    """Elements from row to row if a batch's part of a result's layout is one row-major matrix."""
    rows, columns = layout.walks[ROWS], layout.walks[COLUMNS]
    if len(rows) > 1 or len(columns) > 1 or (columns and columns[0].stride != 1):
        return None
    if rows:
        return rows[0].stride
    return columns[0].size if columns else 1


def moves_together(layout: Layout, element_bytes: int, width: int) -> bool:
    """
    Whether `width` elements of a row may always be moved as one vector of at most 16 bytes.

    They lie side by side, and every place where they can begin is a multiple of their size.
    """
    stride = row_stride(layout)
    if stride is None or width * element_bytes > 16 or not layout.walks[COLUMNS]:
        return width == 1
    steps = [stride, layout.start, *(axis.stride for axis in layout.walks[BATCH])]
    return all(is_multiple(size, width) for size in (layout.walks[COLUMNS][0].size, *steps))


@dataclass(frozen=True)
class Plan(ContractionPlan):
    """A contraction with its schedule on a target."""

    contraction: Contraction
    schedule: ContractionAttr
    target: Target
    a: Tile
    b: Tile
    CHECKS = "fit:problems_of"

    @property
    def staged(self) -> tuple[StagedTile, ...]:
        """The operands' tiles that pass through Workgroup memory."""
        return tuple(tile for tile in (self.a, self.b) if isinstance(tile, StagedTile))

    def moves(self, tile: StagedTile) -> int:
        """Vectors, or units, of a tile that each invocation moves."""
        return ceil_div(tile.pieces, self.invocations)

    @property
    def fragment_bytes(self) -> int:
        """
        Bytes of a subgroup's registers for fragments: results, the fragments of A and B in a K
        tile, which drivers load early, and words that wait to be staged.
        """
        m, n, k = self.schedule.instruction.sizes
        along_m, along_n, along_k = self.schedule.fragments
        types = self.contraction.element_types
        a, b, result = (bit_width(type) // 8 for type in types)
        held = along_m * along_n * m * n * result
        held += along_k * k * (along_m * m * a + along_n * n * b)
        return held + self.target.subgroup_size * self.waiting_bytes

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the next tile that an invocation holds in registers while it multiplies."""
        waiting = self.staged if self.pipeline.read else ()
        return sum(self.moves(tile) * tile.vector * tile.element_bytes for tile in waiting)

    @property
    def is_looped(self) -> bool:
        """True if K may be longer than one tile."""
        return is_dynamic(self.contraction.k) or self.contraction.k > self.schedule.tile[2]

    @property
    def ends_apart(self) -> bool:
        """
        Whether the last K tile, which is not whole, is multiplied behind a loop of many.

        That is more code, which pays where a subgroup waits for every tile.
        """
        k, (_, _, tile_k) = self.contraction.k, self.schedule.tile
        if is_dynamic(k) or k % tile_k == 0 or k < LONG_LOOP * tile_k:
            return False
        direct = [tile for tile in (self.a, self.b) if not isinstance(tile, StagedTile)]
        ahead = any(tile.ahead for tile in direct)
        guarded = any(tile.guarded[1 - tile.k_axis] for tile in self.staged)
        return self.is_cooperative and guarded and not (self.pipeline.read or ahead)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages of the loop along K."""
        staged, known = self.staged, not is_dynamic(self.contraction.k)
        write_first = self.schedule.first.data == "store"
        if not staged:
            return UNSTAGED
        if not self.is_looped:
            return ONE_TILE
        if self.schedule.stages.data == 1:
            return IN_TURN
        if known and all(tile.reads_ahead for tile in staged):
            return loaded_ahead(self.schedule.stages.data, write_first)
        if known and all(tile.buffers == 2 for tile in staged):
            return TWO_BUFFERS
        return WRITTEN_FIRST if write_first else READ_AHEAD

    @property
    def stores_rows(self) -> bool:
        """Whether the result passes through Workgroup memory, to be stored row by row."""
        return self.schedule.result.data == "rows"

    @property
    def component_places(self) -> Fragment | None:
        """
        Returns where components of results lie, if fragments that reach beyond the result are
        stored one component after the other; None where they pass through Workgroup memory.
        """
        if self.schedule.result.data != "components":
            return None
        m, n, _ = self.schedule.instruction.sizes
        return self.target.fragment("Acc", (m, n), 8 * self.result_bytes)

    @property
    def stores_elements(self) -> bool:
        """True if an instruction calls a function for each element that is not stored directly."""
        return self.schedule.result.data == "elements"

    @property
    def raster_group(self) -> int:
        """Rows or columns of tiles in a band; consecutive workgroups run across it first."""
        length, width, _ = self.grid
        if is_dynamic(length) or is_dynamic(width):
            return 1
        return min(self.schedule.group.data, width)

    @property
    def invocations(self) -> int:
        return self.schedule.subgroup_count * self.target.subgroup_size

    @property
    def is_cooperative(self) -> bool:
        """Whether subgroups multiply together, with cooperative matrices."""
        return self.schedule.instruction.kind.data == "coopmat"

    @property
    def is_packed(self) -> bool:
        """Whether invocations multiply by packed dot products."""
        return self.schedule.instruction.kind.data == "dot"

    @property
    def row_group(self) -> int:
        """Rows of the result that lie side by side in an invocation's part."""
        return self.a.vector if isinstance(self.a, StagedTile) and self.a.k_axis == 0 else 1

    @property
    def tiles(self) -> tuple[Size, Size]:
        """Workgroup tiles along M and N."""
        tile_m, tile_n, _ = self.schedule.tile
        return ceil_div(self.contraction.m, tile_m), ceil_div(self.contraction.n, tile_n)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Workgroups in x, y, z: neighbours in x lie along the raster's dimension, z is batch."""
        rows, columns = self.tiles
        by_rows = self.schedule.raster.data == "rows"
        return (*((columns, rows) if by_rows else (rows, columns)), self.contraction.batch)

    @property
    def result(self) -> Layout:
        """Returns where the result lies: walks `BATCH`, `ROWS`, `COLUMNS`."""
        return self.contraction.layouts[2]

    @property
    def result_bytes(self) -> int:
        return bit_width(self.contraction.element_types[2]) // 8

    @property
    def result_stride(self) -> Size | None:
        """Elements from row to row if the result of a batch is one row-major matrix."""
        return row_stride(self.result)

    @property
    def result_aligned(self) -> bool:
        """
        Whether a fragment of the result may be loaded and stored directly in global memory.

        Pointer and stride must be multiples of min(16, bytes of a fragment's row).
        """
        _, n, _ = self.schedule.instruction.sizes
        needed = min(self.target.cooperative_matrix_alignment, n * self.result_bytes)
        return self._result_steps_are_multiples(needed)

    @property
    def stored_directly(self) -> bool:
        """Whether fragments that lie inside the result are stored without looking at elements."""
        if self.stores_elements and not self.contraction.epilogue.is_empty:
            from xdsl_spirv.passes.analysis.componentwise import are_stored_as_matrices

            sizes = self.schedule.instruction.sizes
            return are_stored_as_matrices(self.contraction, sizes, self.target)
        if not self.result_aligned:
            return False
        return self.contraction.epilogue.is_empty or self.is_componentwise

    @cached_property
    def is_componentwise(self) -> bool:
        """True if the epilogue is computed on whole fragments."""
        if not self.is_cooperative:
            return False
        from xdsl_spirv.passes.analysis.componentwise import is_componentwise

        return is_componentwise(self.contraction, self.schedule.instruction.sizes, self.target)

    def _result_steps_are_multiples(self, of_bytes: int) -> bool:
        """
        Whether all strides between rows of fragments of a row-major result are multiples of so many
        bytes.
        """
        if self.result_stride is None:
            return False
        _, n, _ = self.schedule.instruction.sizes
        steps = [self.result_stride, self.result.start, n]
        steps += [axis.stride for axis in self.result.walks[BATCH]]
        return all(is_multiple(step * self.result_bytes, of_bytes) for step in steps)

    @property
    def result_width(self) -> int:
        """
        Elements of the result that an invocation keeps in one vector.

        One where B's tile lies along K: neighbours in N are then a row of Workgroup memory apart,
        and invocations next to each other had better read rows next to each other.
        """
        if self.b.k_axis == 1:
            return 1
        _, n, _ = self.schedule.instruction.sizes
        return next(v for v in (4, 2, 1) if n % v == 0)

    @property
    def result_vector(self) -> int:
        """Elements that an invocation moves at a time between its registers and the result."""
        width = self.result_width
        bytes = width * self.result_bytes
        whole = is_multiple(self.contraction.n, width) and bytes <= 16
        return width if whole and self._result_steps_are_multiples(bytes) else 1

    @property
    def stored_width(self) -> int:
        """Elements side by side that an invocation computes and stores at a time."""
        if self.contraction.epilogue.is_empty:
            return self.result_vector
        return self.result_width if is_multiple(self.contraction.n, self.result_width) else 1

    @property
    def whole_tiles(self) -> bool:
        """Whether every workgroup tile lies inside the result."""
        tile_m, tile_n, _ = self.schedule.tile
        contraction = self.contraction
        return is_multiple(contraction.m, tile_m) and is_multiple(contraction.n, tile_n)

    @property
    def whole_fragments(self) -> bool:
        """Whether every fragment lies inside the result or outside it, and is stored directly."""
        m, n, _ = self.schedule.instruction.sizes
        whole = is_multiple(self.contraction.m, m) and is_multiple(self.contraction.n, n)
        return whole and self.stored_directly and self.contraction.epilogue.is_empty

    @property
    def scratch_shape(self) -> tuple[int, int] | None:
        """
        Rows and columns of Workgroup memory through which result fragments pass, if they must.

        Each subgroup has room for one fragment.
        """
        inside = (self.stored_directly and self.whole_tiles) or self.whole_fragments
        if not self.is_cooperative or inside or self.stores_rows or self.component_places:
            return None
        if self.stores_elements:
            return None
        m, n, _ = self.schedule.instruction.sizes
        return m * self.schedule.subgroup_count, n

    @property
    def slice_depth(self) -> int:
        """Elements of a K tile that a subgroup multiplies."""
        return self.schedule.tile[2] // self.schedule.slices

    @property
    def partial_fragments(self) -> int:
        """Counts the fragments of a subgroup whose sums slices of K exchange at a time."""
        if self.sums_tile is not None:
            return self._most_partial(self._buffer_bytes(self.sums_tile))
        return self._partial_fragments_apart

    @property
    def sums_tile(self) -> int | None:
        """
        The tile in Workgroup memory that partial sums of K slices overwrite: A's (0) or B's (1).

        It is None unless the tile holds more sums than fit beside both tiles.
        """
        if self.schedule.slices == 1:
            return None
        apart = self._partial_fragments_apart
        for number, tile in enumerate((self.a, self.b)):
            if self._takes_sums(tile) and self._most_partial(self._buffer_bytes(number)) > apart:
                return number
        return None

    def _takes_sums(self, tile: Tile) -> bool:
        """True if a fragment's rows fill whole pieces of the tile, and pieces are whole words."""
        if not isinstance(tile, StagedTile):
            return False
        _, n, _ = self.schedule.instruction.sizes
        piece = tile.piece * tile.element_bytes
        return piece % WORD_BYTES == 0 and n * self.result_bytes % piece == 0

    def _buffer_bytes(self, number: int) -> int:
        """Counts the bytes of one buffer of A's (0) or B's (1) tile in Workgroup memory."""
        tile = (self.a, self.b)[number]
        return tile.workgroup_bytes // tile.buffers if isinstance(tile, StagedTile) else 0

    @property
    def _partial_fragments_apart(self) -> int:
        """Counts the fragments whose partial sums fit beside the tiles and the result scratch."""
        left = self.target.workgroup_memory_bytes - self._tiles_bytes - self._scratch_bytes
        return self._most_partial(min(MOST_PARTIAL_BYTES, left))

    def _most_partial(self, bytes: int) -> int:
        """
        Number of fragments (a divisor of all) whose partial sums fit next to the operand tiles and
        the result scratch; at least one.
        """
        m, n, _ = self.schedule.instruction.sizes
        along_m, along_n, _ = self.schedule.fragments
        count = along_m * along_n
        of_one = (self.schedule.subgroup_count - prod(self.schedule.grid)) * m * n
        fewer = range(min(count, bytes // (of_one * self.result_bytes)), 1, -1)
        return next((at for at in fewer if count % at == 0), 1)

    @property
    def partial_shape(self) -> tuple[int, int, int] | None:
        """
        Fragments, rows and columns of the Workgroup memory for partial sums of slices of K.

        All slices but a fragment's finisher store their sums of it.
        """
        if self.schedule.slices == 1:
            return None
        m, n, _ = self.schedule.instruction.sizes
        others = self.schedule.subgroup_count - prod(self.schedule.grid)
        return others * self.partial_fragments, m, n

    @property
    def strip_width(self) -> int:
        """Results that an invocation moves at a time where they are stored row by row."""
        results = self.contraction.epilogue.results
        return STRIP_BYTES * 8 // max(bit_width(result.element_type) for result in results)

    @property
    def strip_shape(self) -> tuple[int, int]:
        """
        Rows and columns, in vectors, of the Workgroup memory for results that are stored by rows.

        Each subgroup has room for a row of its fragments, and each row a vector of padding.
        """
        m, n, _ = self.schedule.instruction.sizes
        _, count, _ = self.schedule.fragments
        return m * self.schedule.subgroup_count, count * n // self.strip_width + 1

    @property
    def workgroup_bytes(self) -> int:
        return self._tiles_bytes + self._result_bytes

    @property
    def _tiles_bytes(self) -> int:
        """Bytes of Workgroup memory used by the operand tiles."""
        return sum(map(self._tile_bytes, (self.a, self.b)))

    @property
    def _result_bytes(self) -> int:
        """Bytes of Workgroup memory for result strips, result scratch and partial sums."""
        apart = self.sums_tile is None
        partial = prod(self.partial_shape or (0,)) * self.result_bytes if apart else 0
        strips = prod(self.strip_shape) * STRIP_BYTES if self.stores_rows else 0
        return strips + self._scratch_bytes + partial

    @property
    def _scratch_bytes(self) -> int:
        return prod(self.scratch_shape or (0,)) * self.result_bytes

    def _tile_bytes(self, tile: Tile) -> int:
        """
        Bytes of an operand's tile in Workgroup memory; small integers without arithmetic of their
        width are words.
        """
        size, words = tile.workgroup_bytes, isinstance(tile, StagedTile) and tile.packed
        feature = f"int{8 * tile.element_bytes}"
        in_words = tile.element_bytes < WORD_BYTES and feature not in self.target.features
        if self.is_cooperative or words or not in_words or "f16" in self.contraction.types[:2]:
            return size
        return size * WORD_BYTES // tile.element_bytes


def plan(contraction: Contraction, schedule: ContractionAttr, target: Target) -> Plan:
    """Builds the plan; call `fit.check` to test that it fits."""

    unpacked = _unpacked_tiles(contraction, schedule, target)

    def tile(operand: int, path: StagedAttr | DirectAttr) -> Tile:
        if (own := unpacked[operand]) is not None:
            return own
        element = contraction.element_types[operand]
        value = contraction.b if operand else contraction.a
        sizes = (contraction.m, contraction.n)
        outer = (schedule.tile[operand], sizes[operand])
        inner = (schedule.tile[2], contraction.k)
        if isinstance(path, StagedAttr):
            kind = schedule.instruction.kind.data
            as_bits = kind == "fma" and isinstance(element, BFloat16Type)
            layout = contraction.layouts[operand]
            prologue = contraction.prologues[operand]
            packed = kind == "dot"
            fill = fill_of(value)
            panels = None
            if packs(path):
                panels = packing_of(value) or packing_for(contraction, schedule, operand, target)
                layout = panel_layout(panels) if panels.is_panels else fragment_layout(panels)
                depth = 1 if panels.is_panels else panels.fragment_sizes[1]
                # A row of fragments is as long as all its elements, and one step along K.
                outer = outer[0] * depth, walk_size(layout.walks[OUTER])
                inner = inner[0] // depth, walk_size(layout.walks[INNER])
            unpacking = contraction.unpackings[operand]
            other = unpacked[1 - operand]
            order = None if other is None else other.order
            return staged_tile(
                path,
                element,
                outer,
                inner,
                layout,
                as_bits,
                packed,
                prologue,
                fill,
                panels,
                unpacking,
                order,
            )
        packing = packing_of(value) or packing_for(contraction, schedule, operand, target)
        return PackedTile(packing, element, target.subgroup_size, path.ahead.data)

    return Plan(contraction, schedule, target, tile(0, schedule.a), tile(1, schedule.b))


def _unpacked_tiles(
    contraction: Contraction, schedule: ContractionAttr, target: Target
) -> tuple[UnpackedTile | None, UnpackedTile | None]:
    """The operands whose fragments are computed from planes."""
    m, n, k = schedule.instruction.sizes
    tiles: list[UnpackedTile | None] = []
    shapes = (("A", (m, k)), ("B", (k, n)))
    for operand, (path, (use, shape)) in enumerate(
        zip((schedule.a, schedule.b), shapes, strict=True)
    ):
        unpacking = contraction.unpackings[operand]
        if unpacking is None or not isinstance(path, DirectAttr):
            tiles.append(None)
            continue
        from xdsl_spirv.passes.schedule.k_order import k_order

        element = contraction.element_types[operand]
        fragment = target.fragment(use, shape, bit_width(element))
        depth = schedule.tile[2] // schedule.slices
        order = None if fragment is None else k_order(fragment, unpacking.sizes, depth)
        tile = schedule.tile[operand], schedule.tile[2]
        extent = (contraction.m, contraction.n)[operand], contraction.k
        ahead = path.ahead.data
        tiles.append(UnpackedTile(unpacking, tile, extent, element, fragment, order, ahead))
    return tiles[0], tiles[1]


def packs(path: StagedAttr | DirectAttr) -> bool:
    """True if an operand with this path is packed before it is read, unless its planes are."""
    return isinstance(path, DirectAttr) or path.in_panels or path.in_fragments


def packing_for(
    contraction: Contraction, schedule: ContractionAttr, operand: int, target: Target
) -> PackingAttr:
    """Returns the packing of A (0) or B (1) for a schedule that reads it direct or in panels."""
    sizes, tile = schedule.instruction.sizes, schedule.tile
    path = (schedule.a, schedule.b)[operand]
    in_panels = isinstance(path, StagedAttr) and path.in_panels
    fragment = (1, tile[2]) if in_panels else (sizes[operand], sizes[2])
    bytes = prod(fragment) * bit_width(contraction.element_types[operand]) // 8
    order = target.word_order.get("AB"[operand], ())
    words = order if bytes == len(order) * WORD_BYTES * target.subgroup_size else ()
    return contraction.packing(operand, fragment, (tile[operand], tile[2]), words)
