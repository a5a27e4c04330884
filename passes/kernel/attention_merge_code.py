"""
Writes the kernel that merges the partial results of an attention: one workgroup for each row.

Each lane of a subgroup reads the maximum and sum of one or more parts of the row and computes
their factors. The other lanes get the factors by exchanges, so the kernel needs no barrier.
"""

from __future__ import annotations

from functools import reduce

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import LOG2_E, Numbers, moved_type, round_numbers
from xdsl_spirv.passes.kernel.elements import components_of
from xdsl_spirv.passes.kernel.result_tile import offset_along
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.attention_merge import MergePlan

ROW, COLUMN = 0, 1
"""Indices of the result layout's walks (groups of loops) along rows and along columns."""


class MergeCode(Numbers[MergePlan]):
    """Writes the body of the merge kernel."""

    def __init__(self, b: KernelEmitter, plan: MergePlan):
        super().__init__(b, plan)
        op = plan.op
        assert isinstance(op.out.type, MemRefType)
        self.element = op.out.type.element_type
        width = plan.vector
        self.parts = b.at_top(FlatViewOp(op.parts, moved_type(f32, width)), "part_elements")
        self.out = b.at_top(FlatViewOp(op.out, self.element), "result_elements")
        self.row = b.block_id(gpu.DimensionEnum.X, "row")
        self.lane = b.lane_id()

    def _load(self, part: Index, column: Index) -> list[SSAValue]:
        b, plan = self.b, self.plan
        pitch = (plan.width + 2) // plan.vector
        row = b.times(b.plus(self.row, b.times(part, plan.rows)), pitch)
        return components_of(b, b.load(self.parts, (b.plus(row, column),)))

    def write(self) -> None:
        """Writes the whole kernel body."""
        b, plan = self.b, self.plan
        factors, total = self._factors()
        vectors = plan.width // plan.vector
        for first in range(0, vectors, plan.invocations):
            column = b.plus(b.thread_id(), first)
            exists = b.below(column, vectors) if first + plan.invocations > vectors else True
            values = self._sum_parts(factors, b.index_inside(exists, column))
            b.when(exists, lambda c=column, v=values: self._store(c, v, total))

    def _factors(self) -> tuple[list[SSAValue], SSAValue]:
        """Returns the factors of the lane's parts (0 if missing), and the row's total sum."""
        b, plan = self.b, self.plan
        size, width = plan.target.subgroup_size, plan.width // plan.vector
        parts = [b.plus(self.lane, first) for first in range(0, plan.count, size)]
        exist = [b.below(part, plan.count) for part in parts]
        if plan.count % size == 0:
            exist = [True] * len(parts)
        read = [b.index_inside(e, part) for part, e in zip(parts, exist, strict=True)]
        loaded = [
            [x for i in range(2 // plan.vector) for x in self._load(part, width + i)]
            for part in read
        ]
        greatest = reduce(self.greater, [top for _, top in loaded])
        top = exchanged(b, greatest, 1, size, self.greater)
        scale, zero = self.number(LOG2_E), self.number(0.0)
        factors: list[SSAValue] = []
        for (_, own), exists in zip(loaded, exist, strict=True):
            distance = b.add(arith.SubfOp(own, top))
            factor = self.power(self.times(distance, scale))
            factors.append(factor if exists is True else b.select(exists, factor, zero))
        pairs = zip(loaded, factors, strict=True)
        sums = [self.times(own, factor) for (own, _), factor in pairs]
        return factors, exchanged(b, reduce(self.plus, sums), 1, size, self.plus)

    def _sum_parts(self, factors: list[SSAValue], column: Index) -> list[SSAValue]:
        b, size, parts = self.b, self.plan.target.subgroup_size, range(self.plan.count)

        def factor_of(part: int) -> SSAValue:
            own, place = factors[part // size], b.i32(part % size)
            return b.add(spv.GroupNonUniformShuffleOp(spv.Scope.Subgroup, own, place))

        return self.weigh((self._load(part, column) for part in parts), map(factor_of, parts))

    def _store(self, vector: Index, values: list[SSAValue], total: SSAValue) -> None:
        b, layout = self.b, self.plan.layout
        for i, value in enumerate(values):
            result = self.quotient(value, total)
            (moved,) = round_numbers(b, [result], self.element)
            column = b.plus(b.times(vector, self.plan.vector), i)
            row, at = (
                offset_along(b, layout, ROW, self.row),
                offset_along(b, layout, COLUMN, column),
            )
            b.store(moved, self.out, (b.plus(b.plus(row, at), layout.start),))
