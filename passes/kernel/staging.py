"""
Moves an operand's tile from global memory through Workgroup memory into fragments.

A tile keeps its element order in Workgroup memory, with padding after each row. Column-major
cooperative loads read a transposed operand. Nothing outside of the operand is read: a load of such
an element is redirected to the operand's first element. In Workgroup memory, elements beyond K are
zero. Elements beyond M or N are undefined, since they only affect results that are not stored.
Kernels that store the tile request zeros there too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic, is_multiple
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import (
    apply_prologue,
    as_one,
    pack_elements,
    repeat_bits,
    unpack_elements,
)
from xdsl_spirv.passes.kernel.matrix_values import COLUMN_MAJOR, ROW_MAJOR, load_matrix, moved_bits
from xdsl_spirv.passes.kernel.result_tile import Address, Part, address_along, origin
from xdsl_spirv.passes.schedule.plan import UNROLLED, ceil_div
from xdsl_spirv.passes.schedule.tiles import BATCH, INNER, OUTER, StagedTile

CHUNK = 4
"""Number of copies in one iteration of the loop that copies larger tiles."""


@dataclass(frozen=True)
class Move:
    """
    One vector of the tile that an invocation copies.

    The vector's position in the tile is (`row` + `step`, `column`); columns count vectors. Moves
    of an invocation share all fields except `step`. `address` is the position along batch and M or
    N, or the operand's first element if that position lies outside. If `outer_inside` is false,
    the move stores zeros.
    """

    row: Index
    step: int
    column: Index
    exists: Condition
    address: Address
    outer_inside: Condition


class Operand(ABC):
    """An operand of a contraction, which is read in tiles along K."""

    builder: KernelEmitter
    within_k = False
    """True if the loaded tiles are known to lie inside of K, so that no bounds check is needed."""

    @abstractmethod
    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        """Loads the subgroup's `count` fragments along M or N, at element `k` of its slice."""


class TileInMemory(Operand):
    """
    An operand's tile in Workgroup memory, copied in parts by the workgroup's invocations.

    Subclasses define the parts.
    """

    values_of_move = 1
    """Number of SSA values that one copy has between its load and its store."""

    def __init__(self, builder: KernelEmitter, tile: StagedTile, part: Part, name: str):
        self.builder, self.tile, self.part, self.name = builder, tile, part, name
        self.buffers: list[SSAValue] = []

    def allocate(self, buffers: int) -> None:
        """Allocates memory for `buffers` tiles and selects the first."""
        tile, moved = self.tile, self.tile.piece_type
        shape, name = [tile.shape[0], tile.stride], f"{self.name}_tile"
        memories = [self.builder.allocate(moved, shape, name) for _ in range(buffers)]
        self.buffers = [self.builder.flat_view(memory, moved) for memory in memories]
        self.memory = self.buffers[0]

    def divide_moves(self) -> None:
        """
        Sets `moves` to the copies that an invocation makes. `moves` is empty if a loop makes them.
        """
        self.count = ceil_div(self.tile.pieces, self.part.invocations)
        self.unrolled = self.count <= UNROLLED
        self.moves = [self._move(i) for i in range(self.count)] if self.unrolled else []

    def _is_beyond(self, number: Index) -> bool:
        """True if some invocations have no copy with the index `number`."""
        invocations = self.part.invocations
        if isinstance(number, int):
            return (number + 1) * invocations > self.tile.pieces
        return self.tile.pieces % (invocations * CHUNK) != 0

    def _position(self, number: Index) -> Index:
        b, part = self.builder, self.part
        return b.plus(b.times(number, part.invocations), part.invocation)

    @property
    def waiting(self) -> int:
        """Number of SSA values that an invocation holds between `load_all` and `store_all`."""
        return len(self.moves) * self.values_of_move

    def load_all(self, k: Index) -> list[SSAValue]:
        """
        Loads the invocation's parts of the tile at element k; [] if `store_all` copies by a loop.
        """
        origin = self._k_origin(k)
        return [value for move in self.moves for value in self._load(move, origin)]

    def store_all(self, values: Sequence[SSAValue], k: Index) -> None:
        """Stores loaded parts in Workgroup memory, or copies all parts by a loop."""
        for number, move in enumerate(self.moves):
            first = number * self.values_of_move
            self._store(move, values[first : first + self.values_of_move], k)
        if not self.unrolled:
            origin = self._k_origin(k)
            self.builder.loop(self.count, CHUNK, (), lambda i, _: self._copy_chunk(i, origin))

    def _copy_chunk(self, first: Index, k: Index) -> None:
        moves = [self._move(self.builder.plus(first, i)) for i in range(CHUNK)]
        loaded = [self._load(move, k) for move in moves]
        for move, values in zip(moves, loaded, strict=True):
            self._store(move, values, k)

    def _k_origin(self, k: Index) -> Index:
        return k

    @abstractmethod
    def _move(self, number: Index) -> Any:
        """
        Returns the invocation's copy with the index `number`. Consecutive copies belong to
        consecutive invocations.
        """

    @abstractmethod
    def _load(self, move: Any, begin: Index) -> list[SSAValue]: ...

    @abstractmethod
    def _store(self, move: Any, values: Sequence[SSAValue], begin: Index) -> None: ...

    def use(self, buffer: int) -> None:
        """Selects the buffer for the stores and fragment loads that follow."""
        self.memory = self.buffers[buffer]

    def _in_tile(self, row: Index, column: Index, rows: int, columns: int) -> Index:
        """
        Returns the address of (row + rows, column + columns) in the tile; columns count vectors.
        """
        b, stride = self.builder, self.tile.stride
        return b.plus(b.plus(b.times(row, stride), column), rows * stride + columns)

    def vectors(
        self, first: Index, places: Sequence[int], step: Index, depth: int
    ) -> list[list[SSAValue]]:
        """
        Loads vectors of the tile at step `step` along K. Their indices along M or N are `first`
        plus each of `places`.

        A step has `depth` elements. The result is ordered by place, then K, if tile rows run along
        K; else by K, then place.
        """
        b, width = self.builder, self.tile.vector
        if self.tile.k_axis == 1:
            row, column = first, b.times(step, depth // width)
            at = [[(place, k) for k in range(depth // width)] for place in places]
        else:
            row, column = b.times(step, depth), first
            at = [[(k, place) for place in places] for k in range(depth)]
        return [
            [b.load(self.memory, (self._in_tile(row, column, i, j),)) for i, j in row_or_column]
            for row_or_column in at
        ]

    def along_k(self, row: Index, column: Index, count: int) -> list[SSAValue]:
        """Loads `count` elements along K from `column` on, at position `row` along M or N."""
        b, tile = self.builder, self.tile
        if tile.k_axis == 0:
            return [b.load(self.memory, (self._in_tile(column, row, i, 0),)) for i in range(count)]
        first = b.divided(column, tile.vector)
        return [
            b.load(self.memory, (self._in_tile(row, first, 0, i),))
            for i in range(count // tile.vector)
        ]

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        b, tile, part = self.builder, self.tile, self.part
        is_a = type.use.data == spv.CooperativeMatrixUse.MatrixAKHR
        size = type.rows if is_a else type.columns
        assert isinstance(size, IntAttr)
        starts = range(0, count * size.data, size.data)
        if tile.k_axis == 1:
            row = b.times(part.subgroup, starts.stop)
            column = b.times(part.slice, part.depth // tile.piece)
            places = [(start, k // tile.piece) for start in starts]
        else:
            row = b.times(part.slice, part.depth)
            column = b.times(part.subgroup, starts.stop // tile.vector)
            places = [(k, start // tile.vector) for start in starts]
        layout = ROW_MAJOR if (tile.k_axis == 1) == is_a else COLUMN_MAJOR
        return [
            load_matrix(
                b,
                type,
                self.memory,
                (self._in_tile(row, column, *place),),
                tile.stride,
                layout,
                shared=True,
            )
            for place in places
        ]


class DirectOperand(Operand):
    """
    An operand whose fragments are read directly from global memory.

    If `ahead` is not 0, `waiting` has the next fragments as `held` values, which the loop carries.
    """

    held: int

    def __init__(self, builder: KernelEmitter, ahead: int):
        self.builder, self.ahead = builder, ahead
        self.waiting: list[SSAValue] = []

    @abstractmethod
    def begin_ahead(self) -> None:
        """Reads the first fragments of the first K tile into `waiting`."""

    @abstractmethod
    def enter(self, k: Index, following: Index | None = None) -> None:
        """Selects the K tile at element `k`; `following` is the next tile to read ahead."""


class StagedOperand(TileInMemory):
    """Copies vectors of an unpacked operand into Workgroup memory."""

    def __init__(
        self,
        builder: KernelEmitter,
        source: SSAValue,
        tile: StagedTile,
        part: Part,
        buffers: int = 1,
        zeros_outside: bool = False,
    ):
        """With `zeros_outside`, elements beyond M or N are zero."""
        super().__init__(builder, tile, part, source.name_hint or "operand")
        self.zeros_outside = zeros_outside
        self.layout = tile.moved_layout
        self.source = builder.flat_view(source, tile.source_type)
        self.allocate(buffers)
        size = tile.shape[1] // tile.vector if tile.k_axis == 0 else tile.shape[0]
        self.outer = builder.times(part.tile, size)
        self.start = origin(self.layout).plus(builder, self._address(BATCH, part.batch))
        self.divide_moves()

    def _address(self, walk: int, number: Index, ahead: Index = 0, constant: int = 0) -> Address:
        layout = self.layout
        guards = len(layout.guards)
        return address_along(self.builder, layout.walks[walk], number, guards, ahead, constant)

    def _move(self, number: Index) -> Move:
        b, tile, width = self.builder, self.tile, self.tile.row_vectors
        invocation, invocations = self.part.invocation, self.part.invocations
        beyond, step = self._is_beyond(number), 0
        if tile.gathered:
            # Neighbouring invocations take neighbouring rows, which are contiguous in memory.
            position, rows = self._position(number), tile.shape[0]
            row, column = b.remainder(position, rows), b.divided(position, rows)
            exists = b.below(column, width) if beyond else True
            guarded = tile.guarded[0]
        else:
            if isinstance(number, int) and invocations % width == 0:
                row, column = b.divided(invocation, width), b.remainder(invocation, width)
                step = number * (invocations // width)
            else:
                position = self._position(number)
                row, column = b.divided(position, width), b.remainder(position, width)
            exists = b.below(b.plus(row, step), tile.shape[0]) if beyond else True
            guarded = tile.guarded[0] or beyond
        outer, ahead, limit = row, step, tile.extent[0]
        if tile.k_axis == 0:
            outer, ahead, guarded = column, 0, tile.guarded[1]
            limit = tile.extent[1] // tile.vector
        outer = b.plus(self.outer, outer)
        inside: Condition = True
        if guarded:
            outer, ahead = b.plus(outer, ahead), 0
            inside = b.below(outer, limit)
            outer = b.select(inside, outer, 0)
        place = self.start.plus(b, self._address(OUTER, outer, constant=ahead))
        zeroed = inside if self.zeros_outside else True
        return Move(row, step, column, exists, place, zeroed)

    def _k_origin(self, k: Index) -> Index:
        along_row = self.tile.k_axis == 1 and not self.tile.gathered
        return self.builder.divided(k, self.tile.vector) if along_row else k

    def _load(self, move: Move, begin: Index) -> list[SSAValue]:
        """
        Loads the vector of a move; 0 outside of the operand. Gathered elements along K are packed
        as bytes into words, the first byte lowest.
        """
        b, tile, axis = self.builder, self.tile, self.tile.k_axis
        limit, depth = tile.extent[axis], tile.shape[axis]
        first, steps = move.row, range(move.step, move.step + 1)
        if tile.gathered:
            first, steps = b.times(move.column, tile.vector), range(tile.vector)
        elif axis == 1:
            first, steps = move.column, range(1)
            limit, depth = limit // tile.vector, tile.row_vectors
        guarded = tile.guarded[axis] and not self.within_k
        if tile.gathered or axis == 0:
            guarded = guarded or move.exists is not True
        read = [self._read(move, begin, (first, step), limit, guarded, depth) for step in steps]
        return [as_one(b, read, tile.moved_type)] if tile.gathered else read

    def _read(
        self,
        move: Move,
        begin: Index,
        at: tuple[Index, int],
        limit: Size,
        guarded: bool,
        depth: int,
    ) -> SSAValue:
        """
        Reads the element or vector at `begin` + `at` along K.

        The result is 0 outside of the operand, and the fill value in the padding. `limit` is the
        operand's size along K, and `depth` is the tile's size. `guarded` is True if the access may
        exceed `limit`.
        """
        b, layout = self.builder, self.layout
        first, step = at
        inside = move.outer_inside
        walk = layout.walks[INNER]
        exists: Condition = True
        if guarded:
            k = b.plus(begin, b.plus(first, step))
            k_inside = b.below(k, limit)
            inside = b.both(inside, k_inside)
            if is_dynamic(limit):
                # A dynamic K may be 0: read the buffer's first element instead.
                exists = k_inside
            else:
                k = b.select(k_inside, k, 0)
            place = self._address(INNER, k)
        elif len(walk) > 1 and is_multiple(walk[-1].size, depth):
            # The outer axes have one index for the whole K tile: compute their offset once.
            place = self._address(INNER, begin, ahead=b.plus(first, step))
        else:
            place = self._address(INNER, b.plus(begin, first), constant=step)
        place = move.address.plus(b, place)
        offset = place.offset(b)
        in_guards = place.inside(b, layout)
        if in_guards is not True:
            if not self.tile.fill:
                inside = b.both(inside, in_guards)
            exists = b.both(exists, in_guards)
        value = b.load(self.source, (b.index_inside(exists, offset),))
        if self.tile.prologue:
            value = apply_prologue(b, self.tile, value)
            if value.type != (moved := self.tile.moved_type) and not self.tile.gathered:
                value = b.add(spv.BitcastOp(value, moved))
        if in_guards is not True and self.tile.fill:
            fill = repeat_bits(b, self.tile.fill, self.tile.element_type, value.type)
            value = b.select(in_guards, value, fill)
        return value if inside is True else b.select(inside, value, b.zero(value.type))

    def _store(self, move: Move, values: Sequence[SSAValue], begin: Index) -> None:
        b, (value,) = self.builder, values
        if self.tile.order is not None:
            b.when(move.exists, lambda: self._store_in_order(move, value))
            return
        place = self._in_tile(move.row, move.column, move.step, 0)
        b.when(move.exists, lambda: b.store(value, self.memory, (place,)))

    def _store_in_order(self, move: Move, value: SSAValue) -> None:
        """Stores the elements of a vector along K at their positions in the K order."""
        b, tile, order = self.builder, self.tile, self.tile.order
        assert order is not None
        parts = unpack_elements(b, value, tile.element_type, tile.vector)
        first = b.times(move.column, tile.vector)
        groups = b.times(b.divided(first, order.group), order.group)
        first = moved_bits(b, first, order.places.bits_along(0), groups)
        begin = b.divided(first, tile.piece)
        for run in order.runs(tile.vector):
            place = self._in_tile(move.row, begin, move.step, order.place(run[0]) // tile.piece)
            piece = pack_elements(b, [parts[number] for number in run], tile.element_type)
            b.store(piece, self.memory, (place,))
