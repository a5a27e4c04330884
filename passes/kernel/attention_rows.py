"""
Reduces rows of attention fragments, passes exponentials to the second product as operands, and
stores the result.

Attention code computes on cells. If the target defines which invocation holds which component
(CM-18), a cell is a component, and exponentials stay in place as operands (`LaneRows`). On any
other device, rows are reduced in Workgroup memory (`MemoryRows`) or by instructions of
SPV_NV_cooperative_matrix2 (`ConvertedRows`). With these instructions a cell is a whole fragment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, FloatAttr, IndexType, f16, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_lines import stride_of
from xdsl_spirv.passes.kernel.attention_numbers import moved_type, round_numbers
from xdsl_spirv.passes.kernel.matrix_values import (
    COLUMN_MAJOR,
    each_element,
    lane_places,
    load_matrix,
    matrix_type,
    moved_bits,
    put_together,
    reduce_rows,
    store_matrix,
    take_apart,
    zeros,
)
from xdsl_spirv.passes.kernel.packed import as_one
from xdsl_spirv.passes.kernel.result_tile import offset_along
from xdsl_spirv.passes.kernel.subgroup_reduction import Combine, exchanged
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.kinds import MOST_BITS
from xdsl_spirv.targets import Fragment as PlacedFragment

Cell = SSAValue
"""A value on which attention code computes: a fragment's component, or a whole fragment."""


@dataclass(frozen=True)
class Place:
    """Position of a component in its fragment: (`lane_row` + `row`, `lane_column` + `column`)."""

    lane_row: Index
    lane_column: Index
    row: int = 0
    column: int = 0


class LaneRows:
    """
    Row operations on fragments with known component positions. Neighbouring lanes share a row.
    """

    waits = False
    """True if row operations contain subgroup barriers."""

    places: Sequence[Place]
    """Position of each component in its fragment."""

    groups: Sequence[Sequence[int]]
    """
    For each row of a fragment: indices of the components in it, which share a maximum and a sum.
    """

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
        """Expands one value for each row to one value for each component."""
        owners = {cell: row for row, cells in enumerate(self.groups) for cell in cells}
        return [values[owners[cell]] for cell in range(len(owners))]

    def number(self, value: float) -> Cell:
        """Returns a constant as a scalar; `ConvertedRows` returns a fragment."""
        return self.b.number(value, f32)

    def splat(self, value: float) -> SSAValue:
        """Returns an accumulator whose components all have the same value."""
        return self.b.at_top(spv.ConstantOp(FloatAttr(value, f32), self.accumulator))

    def cells(self, fragment: SSAValue) -> list[Cell]:
        """Splits a fragment into cells: its components, or only the fragment."""
        return take_apart(self.b, fragment, self.plan.components)

    def replace_cells(self, cells: Sequence[Cell], fragment: SSAValue) -> SSAValue:
        """Returns the fragment with all components replaced."""
        return put_together(self.b, cells, fragment)

    def votes(self, cell: Cell) -> list[SSAValue]:
        """
        Returns the scalars of a cell that this invocation holds: the component, or its components
        of a whole fragment.
        """
        return [cell]

    def each(self, body: Callable[..., SSAValue], *cells: Cell) -> Cell:
        """
        Applies a scalar function elementwise to cells (components or whole fragments). Returns the
        resulting cell.
        """
        return body(*cells)

    def each_place(
        self, body: Callable[[Place, SSAValue], SSAValue], cells: Sequence[Cell]
    ) -> list[Cell]:
        """Applies body(place, element) to all components of a fragment."""
        return [body(place, cell) for place, cell in zip(self.places, cells, strict=True)]

    def over_rows(self, values: Sequence[Cell], combine: Combine) -> Iterable[Cell]:
        """Reduces the values of each row over all invocations that share the row."""
        for value in values:
            for distance in self.row_lanes:
                value = exchanged(self.b, value, distance, 2 * distance, combine)
            yield value

    def narrow(self, cells: Sequence[Cell], element: Attribute) -> SSAValue:
        """Builds an accumulator of type `element` from f32 components."""
        none = zeros(self.b, matrix_type("Acc", self.m, self.n, element))
        return self.replace_cells(round_numbers(self.b, cells, element), none)

    def convert(self, fragment: SSAValue, element: Attribute, use: str = "Acc") -> SSAValue:
        """Converts a whole f32 accumulator to another element type or matrix use."""
        type = matrix_type(use, self.m, self.n, element)
        if type == fragment.type:
            return fragment
        return self.b.add(spv.FConvertOp.create(operands=[fragment], result_types=[type]))

    def operands(self, strips: Iterable[list[list[Cell]]]) -> list[list[SSAValue]]:
        """
        Converts the exponentials of each strip (row of fragments) to left operands of the product
        with the values.
        """
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
    Row operations through Workgroup memory, for devices without known component positions.

    Each subgroup has its own memory. The fragment is stored, each of the first invocations reduces
    one row, and the results are loaded with stride 0, so that every component gets the value of
    its row.
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
            self.memory[name] = b.flat_view(allocation, element)
            self.start[name] = b.times(subgroup, count)
        self.groups = [[cell] for cell in range(plan.components)]
        if plan.stores_fragments and plan.op.mask is None and not plan.hides:
            return
        # Loads a fragment of element indices: each component is then its own position.
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
        """Loads a fragment. With stride 0, all components of a row get the value of the row."""
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
        Converts a whole accumulator, since narrower types may have other component positions.

        bf16 is stored as bits in an f16 accumulator, because accumulators of bf16 may not exist.
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
                    # The last tile's probabilities must be read before they are overwritten.
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
    """Row operations on whole fragments, by instructions of SPV_NV_cooperative_matrix2."""

    groups = ((0,),)

    def _find_places(self, subgroup: Index) -> None:
        """Does nothing: per-element functions get the positions as arguments."""

    number = LaneRows.splat

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
"""Maps a value of the schedule's `probabilities` to its class of row operations."""


def exchange_parts(
    b: KernelEmitter,
    plan: AttentionPlan,
    at: tuple[Index, Index, SSAValue],
    numbers: Sequence[SSAValue],
) -> Callable[[int], list[SSAValue]]:
    """
    Stores the numbers of all subgroups except the first of each group in Workgroup memory, then
    waits at a barrier.

    Returns a function that loads the numbers of another subgroup, from the invocation with the same
    lane index. `at` has three indices: of the group, of the subgroup in the group, and of the lane.
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


class AttentionResult:
    """
    Stores a subgroup's part of the result. `at` is the batch index and the subgroup's first row.

    Fragments inside of the result are stored by cooperative stores. Otherwise each invocation
    stores its own elements. If the target defines the component positions, neighbouring elements
    are stored as vectors.
    """

    def __init__(
        self, b: KernelEmitter, plan: AttentionPlan, rows: LaneRows, at: tuple[Index, Index]
    ):
        self.b, self.plan, self.held = b, plan, rows
        self.batch, self.row = at
        self.m, self.n, _ = plan.schedule.instruction.sizes
        self.deal = plan.deal("v") if plan.is_dealt("v") else None
        bits = range(self.n.bit_length() - 1)
        self.weights = self.deal.weights if self.deal else {1 << bit: 1 << bit for bit in bits}

    def store(self, strip: int, columns: list[list[Cell]]) -> None:
        """Stores one strip (row of fragments); `columns` has the components of each fragment."""
        if self.plan.stores_fragments:
            self._store_fragments(strip, columns)
        elif self.plan.schedule.in_registers:
            self._store_rows(strip, columns)
        else:
            self._store_elements(strip, columns)

    def _store_fragments(self, strip: int, columns: list[list[Cell]]) -> None:
        b, plan = self.b, self.plan
        out, element, layout = plan.op.out, plan.element_of("result"), plan.layout("result")
        memory = b.once("result", lambda: FlatViewOp(out, element), "result_elements")
        stride = b.i32(stride_of(layout, 1) or plan.sizes.extents[3])
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        row = b.plus(start, offset_along(b, layout, 1, b.plus(self.row, strip * self.m)))
        for column, cells in enumerate(columns):
            fragment = self.held.narrow(cells, element)
            place = b.plus(row, offset_along(b, layout, 2, column * self.n))
            store_matrix(b, fragment, memory, (place,), stride)

    def _store_elements(self, strip: int, columns: list[list[Cell]]) -> None:
        b, plan = self.b, self.plan
        out, element, layout = plan.op.out, plan.element_of("result"), plan.layout("result")
        memory = b.once("result", lambda: FlatViewOp(out, element), "result_elements")
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        rows, _, _, width = plan.sizes.extents

        def store(column: int, place: Place, value: SSAValue) -> SSAValue:
            r = b.plus(b.plus(self.row, strip * self.m), place.lane_row)
            c = b.plus(place.lane_column, column * self.n)
            inside = b.both(
                not plan.ends_within or b.below(r, rows), width % self.n == 0 or b.below(c, width)
            )
            at = b.plus(offset_along(b, layout, 1, r), offset_along(b, layout, 2, c))
            (moved,) = round_numbers(b, [value], element)
            b.when(inside, lambda: b.store(moved, memory, (b.plus(start, at),)))
            return value

        for column, cells in enumerate(columns):
            self.held.each_place(partial(store, column), cells)

    def _element_of(self, number: int, column: int) -> int:
        """Returns the result's column that column `column` of fragment `number` holds."""
        return self.deal.element(number, column) if self.deal else number * self.n + column

    def _count_at_once(self, fragment: PlacedFragment) -> int:
        """Returns the maximum number of contiguous elements that an invocation stores at once."""
        own = {self.weights[place] for _, place in fragment.component.bits_along(1)}
        if self.deal:
            own |= {self.deal.share << i for i in range(self.deal.fragments.bit_length() - 1)}
        width, most = 1, MOST_BITS // bit_width(self.plan.element_of("result"))
        run = self.plan.layout("result").run(2)
        while width in own and width < most and run % (2 * width) == 0:
            width *= 2
        return width

    def _store_rows(self, strip: int, columns: list[list[Cell]]) -> None:
        b, plan, fragment = self.b, self.plan, self.plan.shared_places
        assert fragment is not None
        width = self._count_at_once(fragment)
        lane_columns = [(bit, self.weights[place]) for bit, place in fragment.lane.bits_along(1)]
        most = sum(weight for _, weight in lane_columns) // width
        element = plan.element_of("result")
        moved = moved_type(element, width)
        memory = b.once("result", lambda: FlatViewOp(plan.op.out, moved), "result_vectors")
        layout = plan.layout("result").in_vectors(2, width)
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        own = b.divided(moved_bits(b, self.held.lane, lane_columns), width)
        rows, _, _, size = plan.sizes.extents
        side_by_side = layout.is_contiguous(2)
        places = self.held.places
        for group in self.held.groups:
            place = places[group[0]]
            r = b.plus(b.plus(self.row, place.lane_row), strip * self.m + place.row)
            begin = b.plus(start, offset_along(b, layout, 1, r))
            if side_by_side:
                begin = b.plus(begin, own)
            exists = not plan.ends_within or b.below(r, rows)
            values = {
                self._element_of(column, places[i].column): part[i]
                for column, part in enumerate(columns)
                for i in group
            }
            pieces = [
                (first // width, [values[first + i] for i in range(width)])
                for first in sorted(values)
                if first % width == 0
            ]

            def store_row(begin: Index = begin, pieces: Any = pieces) -> None:
                for first, piece in pieces:
                    fits = first + most < ceil_div(size, width)
                    inside = fits or b.below(own, max(0, size // width - first))
                    value = as_one(b, round_numbers(b, piece, element), moved)
                    place = (
                        first if side_by_side else offset_along(b, layout, 2, b.plus(own, first))
                    )
                    b.when(inside, partial(b.store, value, memory, (b.plus(begin, place),)))

            b.when(exists, store_row)
