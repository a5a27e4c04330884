"""
Reads queries, keys and values as fragments, one line of fragments at a time.

A line is one row of fragments along the head dimension. `read` loads a line's 32-bit words, which
can wait in registers; `fragments` builds fragments from these words. Words come from packed
fragments (`PackedLines`), from cooperative loads (`RowLines`), or from vector loads of an unpacked
operand, either directly (`VectorLines`) or through Workgroup memory (`StagedLines`).

Vector loads need the position of each fragment component (CM-18). A product allows any order of
its inner dimension, and any order of its result's columns, if both operands and the result use the
same order. The order is chosen so that an invocation's components of a head are contiguous:
`vector` neighbouring elements, spread over `count` fragments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, PackedViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import Words
from xdsl_spirv.passes.kernel.elements import (
    WORD_BITS,
    components_of,
    pack_elements,
    unpack_elements,
)
from xdsl_spirv.passes.kernel.matrix_values import (
    COLUMN_MAJOR,
    ROW_MAJOR,
    load_matrix,
    matrix_type,
    moved_bits,
    put_together,
    zeros,
)
from xdsl_spirv.passes.kernel.packed import FragmentWords, fragment_type
from xdsl_spirv.passes.kernel.result_tile import address_along, offset_along
from xdsl_spirv.passes.schedule.attention import WORDS, AttentionPlan, PackedMatrix
from xdsl_spirv.passes.schedule.tiles import vector_type


class Lines(ABC):
    """Reads queries (`name` "q"), keys ("k") or values ("v") of one matrix of the batch."""

    blocks = 1
    """Number of blocks of a line (row of fragments), which are multiplied one after the other."""

    block_fragments = 0
    """Number of fragments in a block, if a line (row of fragments) has several blocks."""

    buffer: Index = 0
    """Index of the Workgroup buffer that holds the current tile."""

    def __init__(
        self, b: KernelEmitter, plan: AttentionPlan, name: str, batch: Index, lane: SSAValue
    ):
        self.b, self.plan, self.name, self.batch, self.lane = b, plan, name, batch, lane
        self._open(plan.op.named[name])

    @abstractmethod
    def _open(self, value: SSAValue) -> None:
        """Writes the code that must precede all reads."""

    @abstractmethod
    def read(self, first: Index, count: int, guarded: bool) -> Iterator[Words]:
        """
        Yields the words of `count` lines (rows of fragments), starting with line `first`.
        `guarded` is True if lines may lie outside of the operand.
        """

    @abstractmethod
    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        """Yields the fragments of a line (row of fragments), built from the line's words."""

    def read_tile(self, tile: Index, guarded: bool) -> list[Words]:
        """
        Reads the words of a tile of keys or values. If `guarded`, the tile may have rows outside of
        the tensor.
        """
        count = self.plan.schedule.key_tile.data // self.plan.line(self.name)
        return list(self.read(self.b.times(tile, count), count, guarded))

    def store(self, words: Words, buffer: Index) -> None:
        """Stores the words of a tile in Workgroup memory."""
        raise NotImplementedError

    def block(self, tile: Sequence[Words], line: int, block: int) -> Iterator[SSAValue]:
        """Yields one block of a line (row of fragments), built from the words of its tile."""
        return self.fragments(tile[line])


class PackedLines(Lines):
    """
    Reads an operand that is packed in fragments, by one wide load per invocation and fragment.
    """

    def _open(self, value: SSAValue) -> None:
        b, plan, name, owner = self.b, self.plan, self.name, value.owner
        assert isinstance(owner, PackedViewOp)
        packed = PackedMatrix(plan, name)
        lanes = packed.tile.subgroup_size
        self.packed = FragmentWords(b, packed.tile)
        self.memory = self.packed.view(owner.source)
        _, inner_count, outer_count, _ = packed.sizes.shape
        step = outer_count * lanes
        stride = inner_count * step
        number = address_along(b, packed.batch, self.batch, 0).base
        self.start = b.plus(b.times(number, stride), self.lane)
        self.line, self.apart, self.count = lanes, step, plan.steps
        if name == "v":
            self.line, self.apart, self.count = step, lanes, plan.columns

    def read(self, first: Index, count: int, guarded: bool) -> Iterator[Words]:
        b = self.b
        begin = b.plus(self.start, b.times(first, self.line))
        for line in range(count):
            places = (line * self.line + i * self.apart for i in range(self.count))
            yield [self.packed.load(self.memory, b.plus(begin, place)) for place in places]

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        return map(self.packed.fragment, words)


class RowLines(Lines):
    """Reads an unpacked operand by cooperative loads."""

    def _open(self, value: SSAValue) -> None:
        b, plan, name = self.b, self.plan, self.name
        self.layout = plan.layout(name)
        packed = PackedMatrix(plan, name).tile
        self.type = fragment_type(packed)
        self.sizes = packed.packing.fragment_sizes
        self.memory = b.at_top(FlatViewOp(value, plan.element), f"{name}_elements")
        self.start = b.plus(offset_along(b, self.layout, 0, self.batch), self.layout.start)
        by_inner = plan.by_inner(name)
        self.stride = stride_of(self.layout, 1 if by_inner else 2)
        # The rows of an A matrix run along M, the rows of a B matrix along K.
        self.kind = ROW_MAJOR if by_inner == (name == "q") else COLUMN_MAJOR
        self.count = plan.columns if name == "v" else plan.steps

    def read(self, first: Index, count: int, guarded: bool) -> Iterator[Words]:
        for line in range(count):
            number = self.b.plus(first, line)
            places = ((i, number) if self.name == "v" else (number, i) for i in range(self.count))
            yield [self._load(*place) for place in places]

    def _load(self, *number: Index) -> SSAValue:
        b = self.b
        along = [
            offset_along(b, self.layout, walk, b.times(place, size))
            for walk, place, size in zip((1, 2), number, self.sizes, strict=True)
        ]
        place = (b.plus(self.start, b.plus(*along)),)
        return load_matrix(b, self.type, self.memory, place, self.stride, self.kind)

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        return iter(words)


class VectorLines(Lines):
    """Reads an unpacked operand by vector loads. Invocations load only their own components."""

    def _open(self, value: SSAValue) -> None:
        b, plan, name, lane = self.b, self.plan, self.name, self.lane
        self.deal = plan.deal(name)
        m, n, k = plan.schedule.instruction.sizes
        shape = ("A", m, k) if name == "q" else ("B", k, n)
        self.type = matrix_type(*shape, plan.element)
        self.half = VectorType(plan.element, [2])
        self.lane_row = moved_bits(b, lane, self.deal.lane.bits_along(1 - self.deal.axis))
        self.lane_vector = moved_bits(b, lane, self.deal.lane.bits_along(self.deal.axis))
        self.line = plan.line(name) // self.deal.apart
        """Number of operand rows in a line (row of fragments)."""
        vector, head = self.deal.vector, plan.head_walk(name)
        self.rows = 3 - head
        self.layout = plan.layout(name).in_vectors(head, vector)
        self.moved = vector_type(i32, vector * bit_width(plan.element) // WORD_BITS)
        self.view = b.at_top(FlatViewOp(value, self.moved), f"{name}_vectors")
        queries, keys, d, e = plan.sizes.extents
        self.size = queries if name == "q" else keys
        self.width = (e if name == "v" else d) // vector
        """Number of vectors in a row."""
        self.start = b.plus(offset_along(b, self.layout, 0, self.batch), self.layout.start)

    def offset_row(self, row: Index) -> Index:
        """Returns the offset of an operand row, in vectors."""
        return offset_along(self.b, self.layout, self.rows, row)

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        """Yields the fragments of a line (row of fragments), built from the operand's vectors."""
        blocks = self.deal.blocks
        parts = [components_of(self.b, word) for word in words]
        for number in range(self.deal.count):
            block, place = divmod(number, self.deal.fragments)
            yield self._fragment(parts[block::blocks], place)

    def _fragment(self, rows: Sequence[Sequence[SSAValue]], number: int) -> SSAValue:
        b = self.b

        def component(row: int, word: int, half: int) -> SSAValue:
            # Extracting a component takes fewer instructions than shifting and masking.
            return b.add(spv.CompositeExtractOp(b.pure(self._pair, rows[row][word]), [half]))

        components = (component(*place) for place in self.deal.halves(number))
        return put_together(b, components, zeros(b, self.type, "none"))

    def _pair(self, word: SSAValue) -> Operation:
        return spv.BitcastOp(word, self.half)

    def read(self, first: Index, count: int, guarded: bool) -> Iterator[Words]:
        b = self.b
        row = b.plus(b.times(first, self.line), self.lane_row)
        begin = b.plus(self.start, self.offset_row(row))
        for line in range(count):
            words: Words = []
            for offset in self.deal.rows:
                place = line * self.line + offset
                if not guarded:
                    words += self._read_row(begin, self.offset_row(place), True)
                    continue
                own = b.plus(row, place)
                inside = b.below(own, self.size)
                own = b.select(inside, own, 0)
                words += self._read_row(b.plus(self.start, self.offset_row(own)), 0, inside)
            yield words

    def _read_row(self, begin: Index, offset: Index, inside: Condition) -> Words:
        """
        Loads the vectors of the row that starts at `begin` + `offset`. Vectors beyond its end are
        0, and all are 0 for values if `inside` is false.
        """
        b = self.b
        words: Words = []
        at = b.plus(begin, self.lane_vector)
        for block in range(self.deal.blocks):
            first = block * self.deal.block_vectors
            place = b.plus(at, b.plus(offset, first))
            exists: Condition = True
            if first + self.deal.block_vectors > self.width:
                exists = b.below(self.lane_vector, self.width - first)
                place = b.select(exists, place, b.plus(begin, offset))
            loaded = b.load(self.view, (place,))
            wanted = b.both(exists, inside if self.name == "v" else True)
            if isinstance(wanted, SSAValue):
                loaded = b.select(wanted, loaded, b.zero(self.moved))
            words.append(loaded)
        return words


class StagedLines(VectorLines):
    """
    Copies tiles of keys or values into Workgroup memory, and reads rows as vectors from the copy.

    If heads are large, a subgroup has registers for only one row of fragments, so that without
    staging each subgroup reads all keys and values from global memory. Staging makes the workgroup
    read each tile once. Values are stored with pairs of rows interleaved, because fragments need
    two rows in one word.
    """

    def _open(self, value: SSAValue) -> None:
        super()._open(value)
        b, plan, name = self.b, self.plan, self.name
        rows, self.order = plan.staged_rows(name), self.deal.tile_rows
        self.blocks, self.block_fragments = self.deal.blocks, self.deal.fragments
        piece, buffers = vector_type(i32, WORDS), plan.schedule.buffers.data
        self.pitch = rows * self.order.stride
        allocation = b.allocate(piece, [buffers * rows, self.order.stride], f"{name}_tiles")
        self.tiles = b.at_top(FlatViewOp(allocation, piece), f"{name}_pieces")
        self.apart = plan.invocations // rows
        self.row = b.divided(b.thread_id(), self.apart)
        self.column = b.remainder(b.thread_id(), self.apart)
        self.columns = range(0, self.width, self.apart)
        self.stores = self._places(self.row, self.column, self.apart)
        self.reads = self._places(self.lane_row, self.lane_vector, self.deal.block_vectors)

    def _places(self, row: Index, first: Index, step: int) -> list[Index]:
        """
        Returns the addresses of a row's vectors `first`, `first` + `step`, ..., up to the period
        of the XOR swizzle.
        """
        b, order = self.b, self.order
        begin, flipped = b.times(row, order.stride), order.period
        mask = b.times(b.remainder(row, order.rows), order.weight)
        columns = [b.plus(first, at) for at in range(0, max(step, flipped), step)]
        if flipped:
            columns = [b.pure(arith.XOrIOp, b.index(at), b.index(mask)) for at in columns]
        return [b.plus(begin, column) for column in columns]

    def _place(self, places: list[Index], number: int, step: int, buffer: Index) -> Index:
        repeated, at = divmod(number, len(places))
        place = self.b.plus(places[at], self.b.times(buffer, self.pitch))
        return self.b.plus(place, repeated * len(places) * step)

    def _exists(self, column: int) -> Condition:
        beyond = column + self.apart > self.width
        return self.b.below(self.column, self.width - column) if beyond else True

    def read_tile(self, tile: Index, guarded: bool) -> list[Words]:
        """
        Loads the invocation's vectors of a tile from global memory. If `guarded`, rows outside
        of the tensor are 0.
        """
        b, words = self.b, Words()
        first = b.times(tile, self.plan.schedule.key_tile.data)
        first = b.plus(first, b.times(self.row, self.deal.apart))
        for number in range(self.deal.apart):
            row = b.plus(first, number)
            inside: Condition = b.below(row, self.size) if guarded else True
            row = b.select(inside, row, 0)
            begin = b.plus(b.plus(self.start, self.offset_row(row)), self.column)
            for column in self.columns:
                place = b.select(self._exists(column), b.plus(begin, column), begin)
                words.append(b.select(inside, b.load(self.view, (place,)), b.zero(self.moved)))
        return [words]

    def store(self, words: Words, buffer: Index) -> None:
        b, count = self.b, len(self.columns)
        rows = [words[i : i + count] for i in range(0, len(words), count)]
        for number, vectors in enumerate(zip(*rows, strict=True)):
            piece, column = self._pair_rows(*vectors), self.columns[number]
            place = self._place(self.stores, number, self.apart, buffer)
            b.when(self._exists(column), partial(b.store, piece, self.tiles, (place,)))

    def _pair_rows(self, *vectors: SSAValue) -> SSAValue:
        b, element = self.b, self.plan.element
        if not self.deal.paired:
            return vectors[0]
        rows = [unpack_elements(b, vector, element, self.deal.vector) for vector in vectors]
        return pack_elements(b, [x for pair in zip(*rows, strict=True) for x in pair], element)

    def block(self, tile: Sequence[Words], line: int, block: int) -> Iterator[SSAValue]:
        """Yields one block of a line (row of fragments), read from Workgroup memory."""
        b = self.b
        pieces: list[list[SSAValue]] = []
        own = self._place(self.reads, block, self.deal.block_vectors, self.buffer)
        for offset in self.deal.rows:
            place = b.plus(own, (line * self.line + offset) * self.order.stride)
            pieces.append(components_of(b, b.load(self.tiles, (place,))))
        return (self._fragment(pieces, number) for number in range(self.deal.fragments))


def stride_of(layout: Layout, walk: int) -> Size:
    """Returns the stride in elements of a walk (group of loops); 0 for a walk without axes."""
    axes = layout.walks[walk]
    return axes[0].stride if axes else 0


LINES = {"vectors": VectorLines, "rows": RowLines, "direct": PackedLines, "staged": StagedLines}
"""Maps a value of `AttentionPlan.path` to the class that reads operands on this path."""
