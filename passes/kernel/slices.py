"""
Adds up, in Workgroup memory, the partial sums of slices of K that different subgroups multiply.

    each slice:    partial[slot, f] = sum of fragment f             for each f of other slices
    barrier
    each slice:    sum of f + partial[0, f] + partial[1, f] + ...   for each f that it completes

Fragments are distributed evenly over the slices. With fewer fragments than slices, some slices
complete none. The sums overwrite an operand's tile if more sums fit into the tile than into the
free Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, store_matrix
from xdsl_spirv.passes.kernel.result_tile import Place
from xdsl_spirv.passes.kernel.staging import Operand, TileInMemory
from xdsl_spirv.passes.schedule.plan import Plan

Finish = Callable[[Sequence[SSAValue], Sequence[int], Condition], None]
"""
Function (sums, fragment numbers, condition) that uses complete sums. If the condition is false, the
sums are undefined.
"""


class SliceSums:
    """Adds up the slices' partial sums of a subgroup's fragments."""

    def __init__(
        self,
        builder: KernelEmitter,
        plan: Plan,
        place: Place,
        type: spv.CooperativeMatrixType,
        in_rows: bool,
    ):
        """With `in_rows`, the memory holds the fragments one below the other, as one matrix."""
        self.builder, self.place, self.type = builder, place, type
        self.slices = plan.schedule.slices
        rows, columns = plan.schedule.grid
        along_m, along_n, _ = plan.schedule.fragments
        assert plan.sums is not None, "the schedule has a single slice of K"
        self.sums, self.together = plan.sums, plan.sums.fragments
        self.count, self.places = along_m * along_n, rows * columns
        self.has_barriers = plan.result.scratch_shape is not None
        """True if `finish` contains barriers, because it stores results through scratch memory."""
        self.in_rows, self.result_bytes = in_rows, plan.result.element_bytes
        self.memory: SSAValue | None = None
        count, self.rows, self.width = plan.sums.shape
        if plan.sums.tile is None:
            shape = (count * self.rows, self.width) if in_rows else plan.sums.shape
            self.memory = builder.allocate(type.element_type, shape, "partial_sums")
        in_slice = builder.plus(builder.times(place.subgroup_row, columns), place.subgroup_column)
        self.first = builder.times(in_slice, self.together)
        self._lies_in_rows_of(self.width)

    def enter(self, operands: Sequence[Operand]) -> None:
        """Lets the sums overwrite the tile of an operand that is no longer read."""
        if self.sums.tile is None:
            return
        operand = operands[self.sums.tile]
        assert isinstance(operand, TileInMemory), (
            "sums overwrite an operand that is not in Workgroup memory"
        )
        piece = operand.tile.piece * operand.tile.element_bytes
        self.memory = operand.buffers[0]
        self._lies_in_rows_of(self.width * self.result_bytes // piece)
        self.builder.barrier()

    def _lies_in_rows_of(self, stride: int) -> None:
        self.stride, self.step = stride, self.builder.i32(stride)

    def add(self, values: Sequence[SSAValue], finish: Finish) -> None:
        """
        Adds up the slices' partial sums of each fragment, and calls `finish` with the results.

        `values` are the partial sums of this subgroup, one matrix for each fragment. A round
        handles as many fragments as fit into Workgroup memory.
        """
        for begin in range(0, self.count, self.together):
            if begin:
                self.builder.barrier()
            self._round(begin, values, finish)

    def _round(self, begin: int, values: Sequence[SSAValue], finish: Finish) -> None:
        b, last = self.builder, self.slices - 1
        parts = [(owner, self._owned(owner, begin)) for owner in range(self.slices)]
        parts = [(self._slot(owner), numbers) for owner, numbers in parts if numbers]
        for slot, numbers in parts:
            b.when(b.below(slot, last), partial(self._leave, slot, numbers, values))
        b.barrier()
        for slot, numbers in parts:
            mine, own = b.below(last - 1, slot), [values[number] for number in numbers]
            sums = partial(self._sums, numbers, own)
            if not self.has_barriers:
                b.when(mine, lambda n=numbers, sums=sums: finish(sums(), n, True))
                continue
            # Every subgroup executes the barriers in `finish`, also with undefined sums.
            if isinstance(mine, SSAValue):
                own = b.choose(mine, sums, lambda own=own: own)
            elif mine:
                own = sums()
            finish(own, numbers, mine)

    def _owned(self, slice: int, begin: int) -> range:
        """
        Returns the fragments that a slice completes (adds up and stores), in the round that begins
        at fragment `begin`.
        """
        groups, parts = self.together // self.sums.parts, self.sums.parts
        first, end = (-(-s * groups // self.slices) * parts for s in (slice, slice + 1))
        return range(begin + first, begin + end)

    def _slot(self, owner: int) -> Index:
        """
        Returns the memory slot in which this slice stores its partial sums of fragments that the
        slice `owner` completes.
        """
        b, count = self.builder, self.slices
        return b.remainder(b.plus(self.place.slice, count - 1 - owner), count)

    def _place(self, slot: Index, number: int) -> tuple[SSAValue, Sequence[Index]]:
        b = self.builder
        place = b.plus(b.times(slot, self.places * self.together), self.first)
        fragment = b.plus(place, number % self.together)
        assert self.memory is not None, "entered before"
        if self.sums.tile is not None:
            return self.memory, (b.times(fragment, self.rows * self.stride),)
        if self.in_rows:
            return self.memory, (b.times(fragment, self.rows), 0)
        return self.memory, (fragment, 0, 0)

    def _leave(self, slot: Index, numbers: range, values: Sequence[SSAValue]) -> None:
        for number in numbers:
            place = self._place(slot, number)
            store_matrix(self.builder, values[number], *place, self.step, shared=True)

    def _sums(self, numbers: range, own: Sequence[SSAValue]) -> list[SSAValue]:
        totals = list(own)
        add = spv.IAddOp if isinstance(self.type.element_type, IntegerType) else spv.FAddOp
        for at, number in enumerate(numbers):
            for slot in range(self.slices - 1):
                place = self._place(slot, number)
                part = load_matrix(self.builder, self.type, *place, self.step, shared=True)
                totals[at] = self.builder.add(add(totals[at], part))
        return totals
