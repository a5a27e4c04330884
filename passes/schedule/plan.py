"""
Plans a contraction on tiles: derives sizes and counts from its schedule and target.

Quantities that several passes must agree on (Workgroup memory, the grid, whether a result tile can
be stored directly) are computed here only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import AffineMapAttr, BFloat16Type
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import (
    ContractionAttr,
    DirectAttr,
    PackingAttr,
    StagedAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, static
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    fill_of,
    packing_of,
    shape_of,
    storage,
)
from xdsl_spirv.passes.analysis.layout import Axis, Layout, walk_size
from xdsl_spirv.passes.schedule.kinds import MOST_BITS, ContractionPlan, PackedOperand
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
from xdsl_spirv.passes.schedule.stored_result import PartialSums, StoredResult
from xdsl_spirv.passes.schedule.tiles import (
    INNER,
    OUTER,
    WORD_BYTES,
    PackedTile,
    StagedTile,
    Tile,
    UnitTile,
    packed_layout,
    staged_tile,
)
from xdsl_spirv.targets import Fragment, Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.unpacking import Units

UNROLLED = 16
"""Largest number of copies per invocation and tile that are unrolled; more copies are a loop."""


class Rates(NamedTuple):
    """Measured rates of a schedule; None for a rate that was not measured."""

    rate: float | None = None
    """TFLOPS of large contractions."""

    alone: float | None = None
    """TFLOPS of contractions with one workgroup for each compute unit."""

    stream: float | None = None
    """TB/s at which weights are read from memory."""


UNRATED = Rates()


@dataclass(frozen=True)
class Plan(ContractionPlan[ContractionAttr]):
    """A contraction with a schedule of tiles on a target."""

    rates: Rates = UNRATED
    CHECKS, SECONDS = "fit:problems_of", "cost:cost"

    @cached_property
    def a(self) -> Tile:
        return self._tile(0)

    @cached_property
    def b(self) -> Tile:
        return self._tile(1)

    @property
    def staged(self) -> tuple[StagedTile, ...]:
        """Tiles of the operands that go through Workgroup memory."""
        return tuple(tile for tile in (self.a, self.b) if isinstance(tile, StagedTile))

    def moves(self, tile: StagedTile) -> int:
        """Returns the number of copies that each invocation makes to fill a tile."""
        return ceil_div(tile.pieces, self.invocations)

    @property
    def fragment_bytes(self) -> int:
        """
        Number of bytes that fragments take in the registers of a subgroup.

        Includes the results, the fragments of A and B of a K tile, which drivers load early, and
        values that wait to be staged.
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
        """Bytes of the next tile in an invocation's registers during a multiplication."""
        waiting = self.staged if self.pipeline.read else ()
        return sum(self.moves(tile) * tile.vector * tile.element_bytes for tile in waiting)

    @property
    def is_looped(self) -> bool:
        """True if K may exceed one tile."""
        return is_dynamic(self.contraction.k) or self.contraction.k > self.schedule.tile[2]

    @property
    def ends_apart(self) -> bool:
        """
        True if an incomplete last K tile is multiplied after the loop.

        The additional code is worthwhile if a subgroup waits for every tile of a long loop.
        """
        k, (_, _, tile_k) = self.contraction.k, self.schedule.tile
        if is_dynamic(k) or k % tile_k == 0 or k < self.target.model.contraction.long_loop * tile_k:
            return False
        direct = [tile for tile in (self.a, self.b) if not isinstance(tile, StagedTile)]
        ahead = any(tile.ahead for tile in direct)
        guarded = any(tile.guarded[1 - tile.k_axis] for tile in self.staged)
        return self.schedule.is_cooperative and guarded and not (self.pipeline.read or ahead)

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
    def raster_group(self) -> int:
        """Number of tile rows (or columns) that workgroups finish before they begin the next."""
        length, width, _ = self.grid
        if is_dynamic(length) or is_dynamic(width):
            return 1
        return min(self.schedule.group.data, width)

    @property
    def row_group(self) -> int:
        """Number of consecutive rows of the result that an invocation computes."""
        return self.a.vector if isinstance(self.a, StagedTile) and self.a.k_axis == 0 else 1

    @property
    def tiles(self) -> tuple[Size, Size]:
        """Number of workgroup tiles along M and N."""
        tile_m, tile_n, _ = self.schedule.tile
        return ceil_div(self.contraction.m, tile_m), ceil_div(self.contraction.n, tile_n)

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along the raster dimension, the other dimension, and the batch."""
        rows, columns = self.tiles
        by_rows = self.schedule.raster.data == "rows"
        return (*((columns, rows) if by_rows else (rows, columns)), self.contraction.batch)

    @cached_property
    def result(self) -> StoredResult:
        """Describes how the result is stored."""
        return StoredResult(self.contraction, self.schedule, self.target, self.b.k_axis != 1)

    @cached_property
    def sums(self) -> PartialSums | None:
        """The exchange of partial sums between slices of K; None if K has one slice."""
        if self.schedule.slices == 1:
            return None
        result, memory = self.result, self.target.workgroup_memory_bytes
        left = memory - self._tiles_bytes - result.scratch_bytes
        room = min(left, self.target.model.contraction.exchanged_bytes)
        parts = self.contraction.epilogue.parts
        return PartialSums(self.schedule, (self.a, self.b), result.element_bytes, room, parts)

    @property
    def slice_depth(self) -> int:
        """Size along K of the part of a tile that a subgroup multiplies."""
        return self.schedule.tile[2] // self.schedule.slices

    @property
    def workgroup_bytes(self) -> int:
        partial = self.sums.workgroup_bytes if self.sums else 0
        return self._tiles_bytes + self.result.workgroup_bytes + partial

    @property
    def memory_advice(self) -> tuple[str, str]:
        a, b = map(self._tile_bytes, (self.a, self.b))
        tile_k, step = self.schedule.tile[2], self.schedule.instruction.sizes[2]
        rest = self.workgroup_bytes - (a + b)
        room = self.target.workgroup_memory_bytes - rest
        depth = int(room / ((a + b) / tile_k)) // step * step
        smaller = f"workgroup_tile K = {depth} instead of {tile_k} would fit"
        parts = f" (A {a}, B {b}, result {rest})"
        return parts, smaller if depth > 0 else "use a smaller workgroup_tile"

    @property
    def _tiles_bytes(self) -> int:
        return sum(map(self._tile_bytes, (self.a, self.b)))

    def _tile_bytes(self, tile: Tile) -> int:
        """Returns a tile's bytes in Workgroup memory. An unsupported small integer takes a word."""
        size, words = tile.workgroup_bytes, isinstance(tile, StagedTile) and tile.packed
        feature = f"int{8 * tile.element_bytes}"
        in_words = tile.element_bytes < WORD_BYTES and feature not in self.target.features
        if (
            self.schedule.is_cooperative
            or words
            or not in_words
            or "f16" in self.contraction.types[:2]
        ):
            return size
        return size * WORD_BYTES // tile.element_bytes

    # Tiles of the operands

    def _tile(self, operand: int) -> Tile:
        """Returns the tile of A (0) or B (1)."""
        own, other = self._unpacked[operand], self._unpacked[1 - operand]
        return own or self._tile_of_rows(operand, other) or self._stored_tile(operand, other)

    @cached_property
    def _unpacked(self) -> list[UnitTile | None]:
        """For each operand: its tile if invocations dequantize its fragments, otherwise None."""
        pairs = enumerate(zip(self.contraction.unpackings, self.schedule.paths, strict=True))
        return [
            self._tile_of_units(operand, units) if units and isinstance(path, DirectAttr) else None
            for operand, (units, path) in pairs
        ]

    def _tile_of_units(self, operand: int, units: Units) -> UnitTile:
        from xdsl_spirv.passes.schedule.k_order import k_order

        contraction, schedule, path = self.contraction, self.schedule, self.schedule.paths[operand]
        fragment = fragment_of(contraction, self.target, schedule.instruction.sizes, operand)
        order = None if fragment is None else k_order(fragment, units.sizes, self.slice_depth)
        tile = schedule.tile[operand], schedule.tile[2]
        extent = (contraction.m, contraction.n)[operand], contraction.k
        element, ahead = contraction.element_types[operand], path.ahead.data
        panels = path.layout.data == "panels"
        return UnitTile(units, tile, extent, element, fragment, order, ahead, panels)

    def _tile_of_rows(self, operand: int, other: UnitTile | None) -> UnitTile | None:
        """
        Returns the tile of an operand whose rows are read in the K order of the tile `other`; None
        if the schedule or the operand's layout does not allow that.
        """
        contraction, path = self.contraction, self.schedule.paths[operand]
        is_direct = isinstance(path, DirectAttr) and path.layout.data == "rows"
        if not is_direct or other is None or other.order is None:
            return None
        value, layout = (contraction.a, contraction.b)[operand], contraction.layouts[operand]
        if packing := packing_of(value):
            layout = packed_layout(packing)
        elif contraction.prologues[operand] or storage(value)[0] is not value:
            return None
        elif len(layout.walks[INNER]) > 1:
            # Only `pack-operands` writes panels whose rows have the length of one load.
            return None
        from xdsl_spirv.passes.analysis.unpacking import units_of_rows

        units = units_of_rows(value, layout, other.unpacking.sizes)
        tile = None if units is None else self._tile_of_units(operand, units)
        return tile if tile is not None and tile.order == other.order else None

    def _stored_tile(self, operand: int, other: UnitTile | None) -> StagedTile | PackedTile:
        """Returns the tile of a staged or packed operand; `other` is the other operand's tile."""
        contraction, schedule, path = self.contraction, self.schedule, self.schedule.paths[operand]
        element = contraction.element_types[operand]
        value, packing = (contraction.a, contraction.b)[operand], None
        if isinstance(path, DirectAttr) and not path.packs:
            # `fit` refuses rows that cannot be read directly.
            path = StagedAttr()
        if path.packs:
            packing = packing_of(value) or self.packing_for(operand)
        if isinstance(path, DirectAttr):
            assert packing is not None
            return PackedTile(packing, element, self.target.subgroup_size, path.ahead.data)
        layout = contraction.layouts[operand]
        outer = schedule.tile[operand], (contraction.m, contraction.n)[operand]
        inner = schedule.tile[2], contraction.k
        if packing is not None:
            layout = packed_layout(packing)
            depth = 1 if packing.is_panels else packing.fragment_sizes[1]
            # A tile row contains whole fragments of one step along K.
            outer = outer[0] * depth, walk_size(layout.walks[OUTER])
            inner = inner[0] // depth, walk_size(layout.walks[INNER])
        return staged_tile(
            path,
            element,
            outer,
            inner,
            layout,
            as_bits=schedule.kind == "fma" and isinstance(element, BFloat16Type),
            packed=schedule.kind == "dot",
            prologue=contraction.prologues[operand],
            fill=fill_of(value),
            packing=packing,
            unpacking=contraction.unpackings[operand],
            order=None if other is None else other.order,
        )

    # Packed operands

    def packing_for(self, operand: int) -> PackingAttr:
        """Returns the packing of A (0) or B (1) that the schedule needs."""
        sizes, tile = self.schedule.instruction.sizes, self.schedule.tile
        in_panels = self.schedule.paths[operand].in_panels
        fragment = (1, tile[2]) if in_panels else (sizes[operand], sizes[2])
        bytes = prod(fragment) * bit_width(self.contraction.element_types[operand]) // 8
        order = self.target.word_order.get("AB"[operand], ())
        words = order if bytes == len(order) * WORD_BYTES * self.target.subgroup_size else ()
        return self.contraction.packing(operand, fragment, (tile[operand], tile[2]), words)

    def packings(self) -> Iterator[PackedOperand]:
        """Yields the operands that the schedule reads packed, in fragments or in panels."""
        contraction = self.contraction
        for at, path in enumerate(self.schedule.paths):
            if path.packs and contraction.unpackings[at] is None:
                value = (contraction.a, contraction.b)[at]
                number = at if contraction.op.operands[at] is value else 1 - at
                yield PackedOperand(contraction.op, number, self.packing_for(at), ())
        for use, tile, units in zip("AB", (self.a, self.b), contraction.unpackings, strict=True):
            if units is not None and isinstance(tile, UnitTile) and tile.in_panels:
                for number, depth in tile.panels():
                    # Each row is packed into panels of `depth` elements.
                    shape = static(units.planes[number].shape)
                    panel, map = (1, depth), AffineMapAttr(AffineMap.identity(len(shape)))
                    rows = len(units.planes[number].layout.walks[1])
                    groups = 0, rows, len(shape) - rows
                    packing = PackingAttr(use, panel, panel, map, shape, groups)
                    yield PackedOperand(units.op, number, packing, ())


def row_panels(plan: Plan) -> tuple[SSAValue, PackingAttr] | None:
    """
    Returns the operand whose rows a kernel reads directly, and its packing in panels of 16 bytes.

    Invocations of neighbouring rows then read neighbouring memory. Returns None if there is no such
    operand, or if it is packed or not a matrix of static sizes.
    """
    for at, tile in enumerate((plan.a, plan.b)):
        value = (plan.contraction.a, plan.contraction.b)[at]
        if not isinstance(tile, UnitTile) or plan.contraction.unpackings[at] is not None:
            continue
        assert tile.order is not None
        shape, depth = shape_of(value), MOST_BITS // bit_width(tile.element_type)
        if packing_of(value) or len(shape) != 2 or any(map(is_dynamic, shape)):
            return None
        rows, k = static(shape)
        matrix = Layout(0, ((), (Axis(rows, k),), (Axis(k, 1),)))
        if (
            plan.contraction.layouts[at] != matrix
            or tile.order.split > 1
            or tile.unpacking.size % depth
        ):
            return None
        same = AffineMapAttr(AffineMap.identity(2))
        return value, PackingAttr("AB"[at], (1, depth), (1, depth), same, (rows, k), (0, 1, 1))
    return None


def fragment_of(
    contraction: Contraction, target: Target, shape: tuple[int, int, int], operand: int
) -> Fragment | None:
    """Returns the component positions of A's (0) or B's (1) fragments; None if unknown."""
    m, n, k = shape
    use, sizes = (("A", (m, k)), ("B", (k, n)))[operand]
    return target.fragment(use, sizes, bit_width(contraction.element_types[operand]))
