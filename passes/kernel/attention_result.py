"""
Stores the result of an attention kernel that uses cooperative matrices.

Fragments inside of the result are stored by cooperative stores. Otherwise each invocation stores
its own elements. If the target defines the component positions, neighbouring elements are stored
as vectors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_lines import stride_of
from xdsl_spirv.passes.kernel.attention_numbers import moved_type, round_numbers
from xdsl_spirv.passes.kernel.attention_rows import Cell, LaneRows, Place
from xdsl_spirv.passes.kernel.matrix_values import moved_bits, store_matrix
from xdsl_spirv.passes.kernel.packed import as_one
from xdsl_spirv.passes.kernel.result_tile import offset_along
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.kinds import MOST_BITS
from xdsl_spirv.targets import Fragment as PlacedFragment


class AttentionResult:
    """
    Stores a subgroup's part of the result. `at` is the batch index and the subgroup's first row.
    """

    def __init__(
        self, b: KernelEmitter, plan: AttentionPlan, rows: LaneRows, at: tuple[Index, Index]
    ):
        self.b, self.plan, self.held = b, plan, rows
        self.batch, self.row = at
        self.m, self.n, _ = plan.schedule.instruction.sizes

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

    def _weights(self) -> dict[int, int]:
        if self.plan.is_dealt("v"):
            return self.plan.deal("v").weights
        return {1 << bit: 1 << bit for bit in range(self.n.bit_length() - 1)}

    def _element_of(self, number: int, column: int) -> int:
        """Returns the result column of a fragment column; `number` is the fragment's index."""
        if self.plan.is_dealt("v"):
            return self.plan.deal("v").element(number, column)
        return number * self.n + column

    def _count_at_once(self, fragment: PlacedFragment) -> int:
        """Returns the maximum number of contiguous elements that an invocation stores at once."""
        weights = self._weights()
        own = {weights[place] for _, place in fragment.component.bits_along(1)}
        if self.plan.is_dealt("v"):
            deal = self.plan.deal("v")
            own |= {deal.share << i for i in range((deal.fragments).bit_length() - 1)}
        width, most = 1, MOST_BITS // bit_width(self.plan.element_of("result"))
        run = self.plan.layout("result").run(2)
        while width in own and width < most and run % (2 * width) == 0:
            width *= 2
        return width

    def _store_rows(self, strip: int, columns: list[list[Cell]]) -> None:
        b, plan, fragment = self.b, self.plan, self.plan.shared_places
        assert fragment is not None
        width, weights = self._count_at_once(fragment), self._weights()
        lane_columns = [(bit, weights[place]) for bit, place in fragment.lane.bits_along(1)]
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
