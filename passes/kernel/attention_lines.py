"""
Fragments of an attention's operands line by line, where probabilities stay in registers.

A line is what one fragment along queries or keys has along the head: `at` gives what reads the
words of a line, so that words can wait in registers, and `fragments` makes the line's fragments of
them. Words come from packed fragments, from cooperative loads, or (`vectors`) from where the
operand lies, in pieces as wide as an invocation can load.

The last needs to know which component is where (CM-18). A product does not care in which order it
goes along its inner loop, nor in which order columns of the result stand, if all who take part
agree. So elements are dealt out such that an invocation's components along the head are neighbours:
of `count` fragments side by side it holds `vector` elements that follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp, PackedViewOp, bit_width
from xdsl_spirv.dialects.spirv.composite import CompositeExtractOp, CompositeInsertOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.conversion import BitcastOp
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import Words
from xdsl_spirv.passes.kernel.attention_operands import PackedFragments, RowFragments, offset_along
from xdsl_spirv.passes.kernel.component_places import moved_bits
from xdsl_spirv.passes.kernel.elements import WORD_BITS
from xdsl_spirv.passes.kernel.packed import zero_of
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.tiles import vector_type

Half: TypeAlias = tuple[SSAValue, int]
"""An element of 16 bits: a word, and which half of it."""

Reader: TypeAlias = Callable[[int], Words]
"""The words of the line that is so many lines further."""


class Lines(Protocol):
    """Reads q, k or v."""

    def at(self, first: Index, guarded: bool) -> Reader:
        """Returns a reader of lines from `first`; `guarded` if some may be outside the operand."""
        ...

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        """Builds the fragments of a line from its words."""
        ...


def lines_of(
    b: KernelEmitter, plan: AttentionPlan, name: str, batch: Index, lane: SSAValue
) -> Lines:
    """Chooses the reader of q, k or v that the schedule asks for."""
    value = plan.value(name)
    assert value is not None
    count = plan.columns if name == "v" else plan.steps
    match plan.path(name):
        case "vectors":
            return VectorLines(b, plan, name, value, batch, lane)
        case "rows":
            return RowLines(RowFragments(b, plan, name, value, batch), name, count)
        case _:
            assert isinstance(value.owner, PackedViewOp)
            return PackedLines(b, plan, name, value.owner.source, batch, lane)


class PackedLines(PackedFragments):
    """Reads an operand packed in fragments: one load for each fragment."""

    def __init__(
        self,
        b: KernelEmitter,
        plan: AttentionPlan,
        name: str,
        memory: SSAValue,
        batch: Index,
        lane: SSAValue,
    ):
        super().__init__(b, plan, name, memory, batch, lane)
        self.line, self.apart = self.lanes, self.step
        self.count = plan.steps
        if name == "v":
            self.line, self.apart, self.count = self.step, self.lanes, plan.columns
        self.pitch = self.line
        """Distance of tiles, for each line of one."""
        if name == "k" and plan.tiles_lie_together:
            self.pitch = self.stride // plan.key_fragments

    def at(self, first: Index, guarded: bool) -> Reader:
        b = self.b
        begin = b.plus(self.start, b.times(first, self.pitch))

        def read(line: int) -> Words:
            places = (line * self.line + i * self.apart for i in range(self.count))
            return [self.share.load(b.plus(begin, place)) for place in places]

        return read

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        return map(self.share.fragment, words)


class RowLines:
    """Reads an unpacked operand by cooperative loads."""

    def __init__(self, source: RowFragments, name: str, count: int):
        self.source, self.name, self.count = source, name, count

    def at(self, first: Index, guarded: bool) -> Reader:
        def read(line: int) -> Words:
            number = self.source.b.plus(first, line)
            if self.name == "v":
                return [self.source.load(i, number) for i in range(self.count)]
            return [self.source.load(number, i) for i in range(self.count)]

        return read

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        return iter(words)


class VectorLines:
    """Reads rows of the operand in wide pieces; each invocation loads its own components."""

    def __init__(
        self,
        b: KernelEmitter,
        plan: AttentionPlan,
        name: str,
        memory: SSAValue,
        batch: Index,
        lane: SSAValue,
    ):
        self.b, self.plan, self.name = b, plan, name
        self.deal = plan.deal(name)
        self.vector = self.deal.vector
        head = plan.head_walk(name)
        self.rows = 3 - head
        self.layout = plan.layout(name).in_vectors(head, self.vector)
        self.size = plan.extent_along(name)
        self.type = plan.operand_type(name)
        words = self.vector * bit_width(plan.element) // WORD_BITS
        self.moved = vector_type(i32, words)
        self.view = b.at_top(FlatViewOp(memory, self.moved), f"{name}_vectors")
        self.words = words
        self.piece = VectorType(plan.element, [2])
        self.start = b.plus(offset_along(b, self.layout, 0, batch), self.layout.start)
        self.lane_row = moved_bits(b, lane, self.deal.lane_row_bits)
        self.lane_vector = moved_bits(b, lane, self.deal.lane_vector_bits)
        _, _, d, e = plan.extents
        self.width = (e if name == "v" else d) // self.vector
        self.line = plan.line(name)

    def at(self, first: Index, guarded: bool) -> Reader:
        b = self.b
        row = b.plus(b.times(first, self.line), self.lane_row)
        begin = b.plus(self.start, self._along(row))

        def read(line: int) -> Words:
            words: Words = []
            for offset in self.deal.rows:
                place = line * self.line + offset
                if not guarded:
                    words += self._read_row(begin, self._along(place), True)
                    continue
                own = b.plus(row, place)
                inside = b.below(own, self.size)
                own = b.select(inside, own, 0)
                words += self._read_row(b.plus(self.start, self._along(own)), 0, inside)
            return words

        return read

    def _along(self, row: Index) -> Index:
        return offset_along(self.b, self.layout, self.rows, row)

    def _read_row(self, begin: Index, offset: Index, inside: Condition) -> Words:
        """Loads the pieces of one row; pieces beyond the end of the head or of the values are 0."""
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

    def fragments(self, words: Sequence[SSAValue]) -> Iterator[SSAValue]:
        b, blocks, in_block = self.b, self.deal.blocks, self.deal.fragments
        halves = [self._halves(word) for word in words]
        none = b.at_top(ConstantOp(zero_of(self.plan.element), self.type), "none")
        for number in range(blocks * in_block):
            block, place = divmod(number, in_block)
            own = [
                halves[row * blocks + block][place * self.deal.share + along]
                for row, along in self.deal.components
            ]
            fragment = none
            for component, (word, half) in enumerate(own):
                # Shifted and masked, halves of two words became one in more instructions.
                pair = b.pure(self._pair, word)
                value = b.add(CompositeExtractOp(pair, [half]))
                fragment = b.add(CompositeInsertOp(value, fragment, [component]))
            yield fragment

    def _halves(self, words: SSAValue) -> list[Half]:
        """Splits a piece into its elements."""
        b = self.b
        parts = [words]
        if self.words > 1:
            parts = [b.add(CompositeExtractOp(words, [number])) for number in range(self.words)]
        return [(word, half) for word in parts for half in range(2)]

    def _pair(self, word: SSAValue) -> Operation:
        return BitcastOp(word, self.piece)
