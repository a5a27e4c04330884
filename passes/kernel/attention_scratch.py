"""
A subgroup's piece of Workgroup memory, through which rows of fragments become known.

The device chooses the invocation that holds each element of a fragment. Operations on a whole row
go through memory: a fragment is stored, each of the first invocations takes a row, and its result
is loaded as a fragment again, with stride 0, so that every component gets its row's number. No
invocation of another subgroup is involved, so barriers are the subgroup's.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import COLUMN_MAJOR, load_matrix, store_matrix
from xdsl_spirv.passes.schedule.attention import AttentionPlan


class Scratch:
    """A subgroup's Workgroup memory: one f32 fragment, two numbers per row, and probabilities."""

    def __init__(
        self,
        b: KernelEmitter,
        plan: AttentionPlan,
        subgroup: Index,
        lane: SSAValue,
        accumulator: spv.CooperativeMatrixType,
    ):
        self.b, self.plan, self.lane = b, plan, lane
        self.accumulator = accumulator
        self.m, self.n, _ = plan.schedule.instruction.sizes
        subgroups, rows = plan.schedule.subgroups.data, plan.schedule.rows
        self.exchange = self._memory("exchange", [subgroups, self.m * self.n], f32)
        self.maxima = self._memory("maxima", [subgroups, rows], f32)
        self.factors = self._memory("factors", [subgroups, rows], f32)
        row = plan.schedule.probability_row
        self.probabilities = self._memory("probabilities", [subgroups, rows * row], f16)
        self.at_exchange = b.times(subgroup, self.m * self.n)
        self.at_rows = b.times(subgroup, rows)
        self.at_probabilities = b.times(subgroup, rows * row)

    def _memory(self, name: str, shape: list[int], element: Attribute) -> SSAValue:
        b = self.b
        allocation = b.allocate(element, shape, name)
        return b.at_top(FlatViewOp(allocation, element), f"{name}_elements")

    def of_rows(self, memory: SSAValue, strip: int) -> SSAValue:
        """Loads a fragment in which every component has the number of its row of a strip."""
        at = self.b.plus(self.at_rows, strip * self.m)
        return load_matrix(self.b, self.accumulator, memory, (at,), 0, COLUMN_MAJOR, shared=True)

    def reduced(
        self,
        strip: int,
        fragment: SSAValue,
        combine: Callable[[SSAValue, SSAValue], SSAValue],
        then: Callable[[SSAValue, Index], None],
    ) -> None:
        """
        Combines each row of the fragment in one invocation, which calls then(value, row's number in
        the subgroup). All invocations see its writes afterwards.
        """
        b = self.b
        place = (self.at_exchange,)
        store_matrix(b, fragment, self.exchange, place, self.m, COLUMN_MAJOR, shared=True)
        self.b.subgroup_barrier()

        def row(number: Index) -> None:
            at = b.plus(self.at_exchange, number)
            total = b.load(self.exchange, (at,))
            for column in range(1, self.n):
                total = combine(total, b.load(self.exchange, (b.plus(at, column * self.m),)))
            then(total, b.plus(self.at_rows, b.plus(number, strip * self.m)))

        self.each_row(row)
        self.b.subgroup_barrier()

    def each_row(self, body: Callable[[Index], None]) -> None:
        """Calls body(row) for each row of a fragment, in one invocation for each row."""
        b, lanes = self.b, self.plan.target.subgroup_size
        for first in range(0, self.m, lanes):
            number = b.plus(self.lane, first)
            inside = b.below(self.lane, self.m - first) if self.m - first < lanes else True
            b.when(inside, lambda number=number: body(number))

    def each_element(self, body: Callable[[Index, Index, Index], None]) -> None:
        """Calls body(row, column, place in `exchange`) for each element of a fragment."""
        b, lanes = self.b, self.plan.target.subgroup_size
        for first in range(0, self.m * self.n, lanes):
            number = b.plus(self.lane, first)
            body(
                b.divided(number, self.n),
                b.remainder(number, self.n),
                b.plus(self.at_exchange, number),
            )

    def spread(self) -> SSAValue:
        """Loads a fragment from `exchange`, where it lies row by row."""
        place = (self.at_exchange,)
        return load_matrix(self.b, self.accumulator, self.exchange, place, self.n, shared=True)

    def collect(self, fragment: SSAValue) -> None:
        """Stores a fragment to `exchange`, row by row."""
        store_matrix(self.b, fragment, self.exchange, (self.at_exchange,), self.n, shared=True)

    def probability(self, strip: int, column: int) -> Index:
        """Returns where a strip's probabilities begin, from key `column` of the tile on."""
        at = strip * self.m * self.plan.schedule.probability_row + column
        return self.b.plus(self.at_probabilities, at)
