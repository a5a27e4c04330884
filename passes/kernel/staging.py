"""
An operand's tile on its way from global memory through Workgroup memory into fragments.

The tile lies in Workgroup memory as it lies in global memory, rows padded: a transposed operand is
read by column-major cooperative loads, not transposed on the way. Elements outside the operand are
zeros in Workgroup memory; the load that stands for one is redirected to the operand's first
element, so that nothing outside is ever read.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixLoadOp
from xdsl_spirv.dialects.spirv.enums import (
    CooperativeMatrixLayout,
    CooperativeMatrixUse,
    MemoryAccess,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.kernel.builder import Condition, Index, KernelBuilder
from xdsl_spirv.passes.kernel.walk import Spot, origin, spot
from xdsl_spirv.passes.schedule.plan import BATCH, INNER, OUTER, StagedTile, ceil_div

COLUMN_MAJOR = CooperativeMatrixLayout.ColumnMajorKHR

WORKGROUP = StorageClassAttr(StorageClass.Workgroup)

UNROLLED = 16
"""Moves an invocation makes for one tile without a loop."""

CHUNK = 4
"""Moves in the body of the loop that is used beyond that."""


@dataclass(frozen=True)
class Move:
    """
    One vector of the tile, seen by the invocation that moves it.

    `row` + `step` and `column` are its place in the tile, columns in vectors; moves of an
    invocation that differ in `step` only share everything else. `spot` is where the operand's
    element lies as far as batch and M or N say, redirected to the first where `outer_inside` does
    not hold.
    """

    row: Index
    step: int
    column: Index
    exists: Condition
    spot: Spot
    outer_inside: Condition
    row_guarded: bool


class StagedOperand:
    """The code of one operand of a workgroup whose tile is the `tile_index`-th along M or N."""

    def __init__(
        self,
        builder: KernelBuilder,
        source: SSAValue,
        tile: StagedTile,
        batch: Index,
        tile_index: Index,
        invocation: SSAValue,
        invocations: int,
    ):
        self.builder = builder
        self.tile = tile
        self.layout = tile.moved_layout
        self.invocation = invocation
        self.invocations = invocations
        moved = tile.moved_type
        name = source.name_hint or "operand"
        self.source = builder.at_top(FlatViewOp(source, moved), f"{name}_elements")
        memory = builder.allocate(
            MemRefType(moved, [tile.shape[0], tile.stride], memory_space=WORKGROUP), f"{name}_tile"
        )
        self.memory = builder.at_top(FlatViewOp(memory, moved), f"{name}_tile_elements")
        size = tile.shape[1] // tile.vector if tile.k_axis == 0 else tile.shape[0]
        self.outer = builder.times(tile_index, size)
        self.start = origin(self.layout).plus(builder, self._spot(BATCH, batch))
        self.count = ceil_div(tile.vectors, invocations)
        self.unrolled = self.count <= UNROLLED
        self.moves = [self._move(i) for i in range(self.count)] if self.unrolled else []

    def _spot(self, walk: int, number: Index, ahead: Index = 0, constant: int = 0) -> Spot:
        layout = self.layout
        guards = len(layout.guards)
        return spot(self.builder, layout.walks[walk], number, guards, ahead, constant)

    def _move(self, number: Index) -> Move:
        """The invocation's `number`-th vector: vectors go round the invocations."""
        b, tile, width = self.builder, self.tile, self.tile.row_vectors
        if isinstance(number, int):
            beyond = (number + 1) * self.invocations > tile.vectors
        else:
            beyond = tile.vectors % (self.invocations * CHUNK) != 0
        if isinstance(number, int) and self.invocations % width == 0:
            row, step = b.divided(self.invocation, width), number * (self.invocations // width)
            column = b.remainder(self.invocation, width)
        else:
            position = b.plus(b.times(number, self.invocations), self.invocation)
            row, step, column = b.divided(position, width), 0, b.remainder(position, width)
        exists = b.below(b.plus(row, step), tile.shape[0]) if beyond else None
        row_guarded = tile.guarded[0] or beyond
        if tile.k_axis == 0:
            outer, ahead, guarded = column, 0, tile.guarded[1]
            limit = tile.extent[1] // tile.vector
        else:
            outer, ahead, guarded, limit = row, step, row_guarded, tile.extent[0]
        outer = b.plus(self.outer, outer)
        inside: Condition = None
        if guarded:
            outer, ahead = b.plus(outer, ahead), 0
            inside = b.below(outer, limit)
            outer = b.select(inside, outer, 0)
        place = self.start.plus(b, self._spot(OUTER, outer, constant=ahead))
        return Move(row, step, column, exists, place, inside, row_guarded)

    def load_all(self, k: Index) -> list[SSAValue]:
        """The invocation's vectors of the tile at depth k, in registers; none if it uses a loop."""
        origin = self._k_origin(k)
        return [self._load(move, origin) for move in self.moves]

    def store_all(self, values: list[SSAValue], k: Index) -> None:
        """Registers to Workgroup memory, or the whole copy where it takes a loop."""
        for move, value in zip(self.moves, values, strict=True):
            self._store(move, value)
        if not self.unrolled:
            origin = self._k_origin(k)
            self.builder.loop(self.count, CHUNK, (), lambda i, _: self._copy_chunk(i, origin))

    def _copy_chunk(self, first: Index, k: Index) -> tuple[()]:
        moves = [self._move(self.builder.plus(first, i)) for i in range(CHUNK)]
        values = [self._load(move, k) for move in moves]
        for move, value in zip(moves, values, strict=True):
            self._store(move, value)
        return ()

    def _k_origin(self, k: Index) -> Index:
        return self.builder.divided(k, self.tile.vector) if self.tile.k_axis == 1 else k

    def _load(self, move: Move, begin: Index) -> SSAValue:
        """The operand's vector, or 0 where it lies outside."""
        b, tile, layout = self.builder, self.tile, self.layout
        along_row = tile.k_axis == 1
        first, step = (move.column, 0) if along_row else (move.row, move.step)
        guarded = tile.guarded[1] if along_row else move.row_guarded
        inside = move.outer_inside
        walk = layout.walks[INNER]
        depth = tile.row_vectors if along_row else tile.shape[0]
        if guarded:
            k = b.plus(begin, b.plus(first, step))
            k_inside = b.below(k, tile.extent[1] // tile.vector if along_row else tile.extent[0])
            inside = b.both(inside, k_inside)
            place = self._spot(INNER, b.select(k_inside, k, 0))
        elif len(walk) > 1 and walk[-1].size % depth == 0:
            # The whole K tile lies on one place of the outer axes: they are taken apart once.
            place = self._spot(INNER, begin, ahead=b.plus(first, step))
        else:
            place = self._spot(INNER, b.plus(begin, first), constant=step)
        place = move.spot.plus(b, place)
        offset = place.offset(b)
        in_guards = place.inside(b, layout)
        if in_guards is not None:
            inside = b.both(inside, in_guards)
            offset = b.select(in_guards, offset, 0)
        value = b.load(self.source, (offset,))
        return value if inside is None else b.select(inside, value, b.zero(value.type))

    def _store(self, move: Move, value: SSAValue) -> None:
        b = self.builder
        place = self._in_tile(move.row, move.column, move.step, 0)
        b.when(move.exists, lambda: b.store(value, self.memory, (place,)))

    def _in_tile(self, row: Index, column: Index, rows: int, columns: int) -> Index:
        """The place of element (row + rows, column + columns) of the tile, columns in vectors."""
        b, stride = self.builder, self.tile.stride
        return b.plus(b.plus(b.times(row, stride), column), rows * stride + columns)

    def vectors(self, unit: Index, count: int, step: Index, depth: int) -> list[list[SSAValue]]:
        """
        What lies at the `unit`-th `count` rows along M or N and the `step`-th `depth` along K.

        By M or N, then along K in vectors, where the tile's rows lie along K; otherwise by K, then
        along M or N in vectors.
        """
        b, width = self.builder, self.tile.vector
        if self.tile.k_axis == 1:
            row, column = b.times(unit, count), b.times(step, depth // width)
            rows, columns = count, depth // width
        else:
            row, column = b.times(step, depth), b.times(unit, count // width)
            rows, columns = depth, count // width
        return [
            [b.load(self.memory, (self._in_tile(row, column, i, j),)) for j in range(columns)]
            for i in range(rows)
        ]

    def fragment(
        self, subgroup: Index, outer_size: int, outer: int, k: int, type: CooperativeMatrixType
    ) -> SSAValue:
        """
        The fragment at `subgroup * outer_size + outer` along M or N and at `k`, all in elements.

        `subgroup` is the subgroup's row (for A) or column (for B) in the workgroup.
        """
        b, tile = self.builder, self.tile
        if tile.k_axis == 1:
            place = self._in_tile(b.times(subgroup, outer_size), 0, outer, k // tile.vector)
        else:
            first = b.times(subgroup, outer_size // tile.vector)
            place = self._in_tile(0, first, k, outer // tile.vector)
        is_a = type.use.data == CooperativeMatrixUse.MatrixAKHR
        row_major = (tile.k_axis == 1) == is_a
        layout = CooperativeMatrixLayout.RowMajorKHR if row_major else COLUMN_MAJOR
        return b.add(
            CooperativeMatrixLoadOp(
                b.pointer(self.memory, (place,)),
                b.i32(tile.stride),
                layout,
                type,
                MemoryAccess.NonPrivatePointer,
            )
        )
