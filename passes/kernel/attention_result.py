"""
Stores the result of an attention whose probabilities stay in registers.

An invocation knows which elements its components are: it stores neighbours in a row as one. Where
values were packed and tiles are whole, fragments are stored cooperatively.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_operands import offset_along, stride_of
from xdsl_spirv.passes.kernel.elements import WORD_BITS
from xdsl_spirv.passes.kernel.matrix_values import (
    lane_places,
    matrix_type,
    moved_bits,
    put_together,
    store_matrix,
    zeros,
)
from xdsl_spirv.passes.kernel.packed import as_one
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_result_rows import ResultRows
from xdsl_spirv.passes.schedule.tiles import vector_type


class RegisterResult:
    """Stores a subgroup's strips; `at` is the batch's number and the subgroup's first row."""

    def __init__(
        self, b: KernelEmitter, plan: AttentionPlan, at: tuple[Index, Index], lane: SSAValue
    ):
        self.b, self.plan, self.lane = b, plan, lane
        self.batch, self.row = at
        self.rows = ResultRows(plan)
        self.m, self.n, _ = plan.schedule.instruction.sizes
        fragment = plan.shared_places
        assert fragment is not None
        self.places = fragment.component.places
        self.groups = fragment.component.groups(0)
        self.lane_row, _ = lane_places(b, fragment, lane)

    def store(self, strip: int, columns: list[list[SSAValue]]) -> None:
        """Stores the components of a strip's fragments, which are given by column."""
        if self.rows.stored_in_fragments and not self.plan.is_dealt("v"):
            self._store_fragments(strip, columns)
        else:
            self._store_rows(strip, columns)

    def _narrow(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        element = self.plan.element_of("result")
        if isinstance(element, Float32Type):
            return list(values)
        return [self.b.add(arith.TruncFOp(value, element)) for value in values]  # pyright: ignore

    def _store_fragments(self, strip: int, columns: list[list[SSAValue]]) -> None:
        b, plan = self.b, self.plan
        out, element, layout = plan.op.out, plan.element_of("result"), plan.layout("result")
        memory = b.once("result", lambda: FlatViewOp(out, element), "result_elements")
        stride = b.i32(stride_of(layout, 1) or plan.extents[3])
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        row = b.plus(start, offset_along(b, layout, 1, b.plus(self.row, strip * self.m)))
        none = zeros(b, matrix_type("Acc", self.m, self.n, element))
        for column, values in enumerate(columns):
            fragment = put_together(b, self._narrow(values), none)
            place = b.plus(row, offset_along(b, layout, 2, column * self.n))
            store_matrix(b, fragment, memory, (place,), stride)

    def _store_rows(self, strip: int, columns: list[list[SSAValue]]) -> None:
        """Stores an invocation's components of each row; neighbouring components as one vector."""
        b, plan = self.b, self.plan
        width = self.rows.stored_at_once
        element = plan.element_of("result")
        bits = bit_width(element)
        moved = element if width == 1 else vector_type(element, width)
        if width > 1 and bits < WORD_BITS:
            moved = vector_type(i32, width * bits // WORD_BITS)
        memory = b.once("result", lambda: FlatViewOp(plan.op.out, moved), "result_vectors")
        layout = plan.layout("result").in_vectors(2, width)
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        own = b.divided(moved_bits(b, self.lane, self.rows.lane_columns), width)
        rows, _, _, size = plan.extents
        side_by_side = layout.is_contiguous(2)
        for row, group in self.groups.items():
            r = b.plus(b.plus(self.row, self.lane_row), strip * self.m + row)
            begin = b.plus(start, offset_along(b, layout, 1, r))
            if side_by_side:
                begin = b.plus(begin, own)
            exists = not plan.ends_within or b.below(r, rows)
            values = {
                self.rows.column_of(column, self.places[i][1]): part[i]
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
                    most = self.rows.most_lane_column // width
                    fits = first + most < ceil_div(size, width)
                    inside = fits or b.below(own, max(0, size // width - first))
                    value = as_one(b, self._narrow(piece), moved)
                    place = (
                        first if side_by_side else offset_along(b, layout, 2, b.plus(own, first))
                    )
                    b.when(inside, partial(b.store, value, memory, (b.plus(begin, place),)))

            b.when(exists, store_row)
