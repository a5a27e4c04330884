"""
Rows of an attention's fragments: where their components lie, how numbers of a row meet, and how
probabilities become the first operand of the second product.

An attention computes with cells of fragments. Where the target says which invocation holds which
component (CM-18) they are components, and powers are an operand where they are. On any other device
a row's numbers meet in Workgroup memory, or by instructions of SPV_NV_cooperative_matrix2: with
these a cell is a whole fragment, which functions compute element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IndexType, f16, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import round_numbers
from xdsl_spirv.passes.kernel.matrix_functions import each_element, reduce_rows
from xdsl_spirv.passes.kernel.matrix_values import (
    COLUMN_MAJOR,
    lane_places,
    load_matrix,
    matrix_type,
    put_together,
    store_matrix,
    take_apart,
    zeros,
)
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.attention import AttentionPlan

Cell = SSAValue
"""A component of a fragment, or a whole fragment."""

Combine = Callable[[SSAValue, SSAValue], SSAValue]


@dataclass(frozen=True)
class Place:
    """Row and column of a cell in its fragment: the invocation's part of each, and a number."""

    lane_row: Index
    lane_column: Index
    row: int = 0
    column: int = 0


class LaneRows:
    """Rows that neighbouring lanes share, in places that the target knows."""

    waits = False
    """True if invocations of a subgroup wait for each other in the loop over keys."""

    places: Sequence[Place]
    """The place of each cell."""

    groups: Sequence[Sequence[int]]
    """The cells of each row for which the invocation has numbers of its own."""

    def __init__(self, b: KernelEmitter, plan: AttentionPlan, lane: SSAValue, subgroup: Index):
        self.b, self.plan, self.lane = b, plan, lane
        self.m, self.n, k = plan.schedule.instruction.sizes
        self.accumulator = matrix_type("Acc", self.m, self.n, f32)
        self.left = matrix_type("A", self.m, k, plan.element)
        self._find_places(subgroup)

    def _find_places(self, subgroup: Index) -> None:
        fragment = self.plan.shared_places
        assert fragment is not None
        own = lane_places(self.b, fragment, self.lane)
        self.places = [Place(*own, *place) for place in fragment.component.places]
        self.groups = list(fragment.component.groups(0).values())
        self.row_lanes = [1 << bit for bit, _ in fragment.lane.bits_along(1)]

    def by_row(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Repeats each row's value for every cell of the row."""
        owners = {cell: row for row, cells in enumerate(self.groups) for cell in cells}
        return [values[owners[cell]] for cell in range(len(owners))]

    def number(self, value: float) -> Cell:
        """Returns a number that is the same everywhere, as a row has it."""
        return self.b.number(value, f32)

    def cells(self, fragment: SSAValue) -> list[Cell]:
        """Splits a fragment into cells."""
        return take_apart(self.b, fragment, self.plan.components)

    def replace_cells(self, cells: Sequence[Cell], fragment: SSAValue) -> SSAValue:
        """Replaces the cells of a fragment."""
        return put_together(self.b, cells, fragment)

    def votes(self, cell: Cell) -> list[SSAValue]:
        """Returns the invocation's numbers in a cell."""
        return [cell]

    def each(self, body: Callable[..., SSAValue], *cells: Cell) -> Cell:
        """Computes a cell from the elements at the same place of others."""
        return body(*cells)

    def each_place(
        self, body: Callable[[Place, SSAValue], SSAValue], cells: Sequence[Cell]
    ) -> list[Cell]:
        """Computes cells from the places and elements of a fragment's cells."""
        return [body(place, cell) for place, cell in zip(self.places, cells, strict=True)]

    def over_rows(self, values: Sequence[Cell], combine: Combine) -> Iterable[Cell]:
        """Combines each row's numbers of all invocations that have some."""
        for value in values:
            for distance in self.row_lanes:
                value = exchanged(self.b, value, distance, 2 * distance, combine)
            yield value

    def narrow(self, cells: Sequence[Cell], element: Attribute) -> SSAValue:
        """Rounds the cells of an accumulator; f32 stays."""
        none = zeros(self.b, matrix_type("Acc", self.m, self.n, element))
        return self.replace_cells(round_numbers(self.b, cells, element), none)

    def convert(self, fragment: SSAValue, element: Attribute, use: str = "Acc") -> SSAValue:
        """Converts an accumulator as a whole to another element type or use."""
        type = matrix_type(use, self.m, self.n, element)
        if type == fragment.type:
            return fragment
        return self.b.add(spv.FConvertOp.create(operands=[fragment], result_types=[type]))

    def operands(self, strips: Iterable[list[list[Cell]]]) -> list[list[SSAValue]]:
        """Returns the first operands of the second product from cells of powers by fragment."""
        none = zeros(self.b, self.left)
        return [
            [
                self.replace_cells(round_numbers(self.b, cells, self.plan.element), none)
                for cells in strip
            ]
            for strip in strips
        ]


class MemoryRows(LaneRows):
    """
    Rows whose numbers meet in the subgroup's own piece of Workgroup memory, on any device.

    A fragment is stored, each of the first invocations takes a row, and its result is loaded with
    stride 0, so that every component gets its row's number. Barriers are the subgroup's.
    """

    waits = True

    def _find_places(self, subgroup: Index) -> None:
        b, plan, size = self.b, self.plan, self.m * self.n
        self.pitch = plan.schedule.probability_row
        self.strip = self.m * self.pitch
        parts: dict[str, tuple[int, Attribute]] = {
            "exchange": (size, f32),
            "of_rows": (self.m, f32),
            "probabilities": (plan.schedule.strips * self.strip, f16),
        }
        self.memory: dict[str, SSAValue] = {}
        self.start: dict[str, Index] = {}
        for name, (count, element) in parts.items():
            allocation = b.allocate(element, [plan.schedule.subgroups.data, count], name)
            self.memory[name] = b.at_top(FlatViewOp(allocation, element), f"{name}_elements")
            self.start[name] = b.times(subgroup, count)
        self.groups = [[cell] for cell in range(plan.components)]
        if plan.stores_fragments and plan.op.mask is None and not plan.hides:
            return
        # A fragment of its elements' numbers tells each component where it is.
        for first in range(0, size, plan.target.subgroup_size):
            number = b.plus(self.lane, first)
            value = b.add(arith.SIToFPOp(b.add(arith.IndexCastOp(b.index(number), i32)), f32))
            b.store(value, self.memory["exchange"], (b.plus(self.start["exchange"], number),))
        b.subgroup_barrier()
        numbers = self.cells(self._load("exchange", 0, self.n))
        b.subgroup_barrier()
        self.places = [self._place(number) for number in numbers]

    def _place(self, number: SSAValue) -> Place:
        b = self.b
        index = b.add(arith.IndexCastOp(b.add(arith.FPToSIOp(number, i32)), IndexType()))
        return Place(b.divided(index, self.n), b.remainder(index, self.n))

    def _load(
        self, name: str, at: int, stride: int, type: spv.CooperativeMatrixType | None = None
    ) -> SSAValue:
        """Loads a fragment; each row's number in all of the row if the stride is 0."""
        place = (self.b.plus(self.start[name], at),)
        layout = () if stride else (COLUMN_MAJOR,)
        type = type or self.accumulator
        return load_matrix(self.b, type, self.memory[name], place, stride, *layout, shared=True)

    def over_rows(self, values: Sequence[Cell], combine: Combine) -> Iterable[Cell]:
        b, exchange, of_rows = self.b, self.memory["exchange"], self.memory["of_rows"]
        fragment = self.replace_cells(values, zeros(b, self.accumulator))
        place = (self.start["exchange"],)
        store_matrix(b, fragment, exchange, place, self.m, COLUMN_MAJOR, shared=True)
        b.subgroup_barrier()

        def row(number: Index) -> None:
            at = b.plus(self.start["exchange"], number)
            total = b.load(exchange, (at,))
            for column in range(1, self.n):
                total = combine(total, b.load(exchange, (b.plus(at, column * self.m),)))
            b.store(total, of_rows, (b.plus(self.start["of_rows"], number),))

        lanes = self.plan.target.subgroup_size
        for first in range(0, self.m, lanes):
            number, left = b.plus(self.lane, first), self.m - first
            b.when(left >= lanes or b.below(self.lane, left), lambda n=number: row(n))
        b.subgroup_barrier()
        return self.cells(self._load("of_rows", 0, 0))

    def narrow(self, cells: Sequence[Cell], element: Attribute) -> SSAValue:
        """
        Rounds an accumulator as a whole: narrower ones may have their components elsewhere.

        bf16 travels as the bits of f16, of which there are accumulators.
        """
        b, carrier = self.b, matrix_type("Acc", self.m, self.n, f16)
        if isinstance(element, BFloat16Type):
            bits = [
                b.add(spv.BitcastOp(value, f16)) for value in round_numbers(self.b, cells, element)
            ]
            return self.replace_cells(bits, zeros(b, carrier))
        return self.convert(self.replace_cells(cells, zeros(b, self.accumulator)), element)

    def operands(self, strips: Iterable[list[list[Cell]]]) -> list[list[SSAValue]]:
        b, schedule = self.b, self.plan.schedule
        for strip, fragments in enumerate(strips):
            for j, cells in enumerate(fragments):
                fragment = self.narrow(cells, self.plan.element)
                if strip == j == 0 and schedule.rescale.data != "always":
                    # Reads of the last tile's probabilities come before the next writes.
                    b.subgroup_barrier()
                at = b.plus(self.start["probabilities"], strip * self.strip + j * self.n)
                memory = self.memory["probabilities"]
                store_matrix(b, fragment, memory, (at,), self.pitch, shared=True)
        b.subgroup_barrier()
        starts = range(0, schedule.key_tile.data, schedule.instruction.sizes[2])
        return [
            [
                self._load("probabilities", s * self.strip + at, self.pitch, self.left)
                for at in starts
            ]
            for s in range(schedule.strips)
        ]


class ConvertedRows(LaneRows):
    """Rows of whole fragments: instructions reduce them, and call functions for each element."""

    groups = ((0,),)

    def _find_places(self, subgroup: Index) -> None:
        """Does nothing: functions get the places as arguments."""

    def number(self, value: float) -> Cell:
        return self.b.at_top(spv.ConstantOp(FloatAttr(value, f32), self.accumulator))

    def cells(self, fragment: SSAValue) -> list[Cell]:
        return [fragment]

    def replace_cells(self, cells: Sequence[Cell], fragment: SSAValue) -> SSAValue:
        return cells[0]

    def votes(self, cell: Cell) -> list[SSAValue]:
        return super().cells(cell)

    def each(self, body: Callable[..., SSAValue], *cells: Cell) -> Cell:
        return each_element(self.b, lambda row, column, *values: body(*values), *cells)

    def each_place(
        self, body: Callable[[Place, SSAValue], SSAValue], cells: Sequence[Cell]
    ) -> list[Cell]:
        (cell,) = cells
        return [
            each_element(self.b, lambda row, column, value: body(Place(row, column), value), cell)
        ]

    def over_rows(self, values: Sequence[Cell], combine: Combine) -> Iterable[Cell]:
        return [reduce_rows(self.b, combine, value) for value in values]

    def narrow(self, cells: Sequence[Cell], element: Attribute) -> SSAValue:
        return self.convert(cells[0], element)

    def operands(self, strips: Iterable[list[list[Cell]]]) -> list[list[SSAValue]]:
        element = self.plan.element
        return [[self.convert(cell, element, "A") for (cell,) in strip] for strip in strips]


ROWS = {"registers": LaneRows, "memory": MemoryRows, "converted": ConvertedRows}
"""The kinds of rows by the schedule's `probabilities`."""


def exchange_parts(
    b: KernelEmitter,
    plan: AttentionPlan,
    at: tuple[Index, Index, SSAValue],
    numbers: Sequence[SSAValue],
) -> Callable[[int], list[SSAValue]]:
    """
    Stores the numbers of all subgroups but the first of each group, before a barrier. Returns what
    loads another subgroup's numbers, each from the invocation with the same number.

    `at` gives the numbers of the group, of the subgroup in it, and of the invocation.
    """
    lanes, count, (group, own, lane) = plan.target.subgroup_size, len(numbers), at
    memory = b.allocate(f32, [plan.workgroup_bytes // 4], "of_parts")

    def places(part: Index) -> list[Index]:
        slot = b.plus(b.times(group, plan.schedule.key_parts.data - 1), b.minus(part, 1))
        first = b.plus(b.times(slot, count * lanes), lane)
        return [b.plus(first, number * lanes) for number in range(count)]

    def store() -> None:
        for place, value in zip(places(own), numbers, strict=True):
            b.store(value, memory, (place,))

    b.when(b.below(0, own), store)
    b.barrier()
    return lambda part: [b.load(memory, (place,)) for place in places(part)]
