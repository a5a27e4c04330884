"""
The code of the kernel that merges the parts of an attention: a workgroup for each row.

Each invocation reads the few maxima and sums of its row by itself, so that nobody waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import log2, prod

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, MemRefType, TensorType, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import AttentionMergeOp, FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, static
from xdsl_spirv.passes.analysis.layout import Layout, layout_of
from xdsl_spirv.passes.analysis.sizes import extents, number
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.addresses import address_along
from xdsl_spirv.targets import Target

LOG2_E = log2(2.718281828459045)

MOST_SUBGROUPS = 4

ROW, COLUMN = 0, 1
"""Walks of the result."""


@dataclass(frozen=True)
class MergePlan:
    """A merge on a target."""

    op: AttentionMergeOp
    target: Target

    @cached_property
    def loops(self) -> tuple[Size, ...]:
        return self.op.sized([number(value) for value in self.op.numbers])

    @property
    def width(self) -> int:
        return static(self.loops[-1:])[0]

    @property
    def rows(self) -> Size:
        return prod(self.loops[:-1])

    @property
    def count(self) -> int:
        """How many parts there are."""
        assert isinstance(self.op.parts.type, TensorType | MemRefType)
        return self.op.parts.type.get_shape()[0]

    @property
    def invocations(self) -> int:
        size = self.target.subgroup_size
        return size * min(MOST_SUBGROUPS, ceil_div(self.width, size))

    @property
    def grid(self) -> tuple[Size, Size, Size]:
        return self.rows, 1, 1

    @property
    def layout(self) -> Layout:
        """Where rows, and the elements of one, lie in the result."""
        last = len(self.loops) - 1
        groups = (range(last), range(last, last + 1))
        shape = extents(self.op.out)
        layout = layout_of(self.op.map.data, shape, None, self.loops, groups)
        walks = tuple(tuple(replace(axis, steps=()) for axis in walk) for walk in layout.walks)
        return Layout(layout.start, walks)


class MergeCode:
    """Writes the body of the kernel."""

    def __init__(self, b: KernelEmitter, plan: MergePlan):
        self.b, self.plan = b, plan
        op = plan.op
        assert isinstance(op.out.type, MemRefType)
        self.element = op.out.type.element_type
        self.parts = b.at_top(FlatViewOp(op.parts, f32), "part_elements")
        self.out = b.at_top(FlatViewOp(op.out, self.element), "result_elements")
        self.row = b.block_id(gpu.DimensionEnum.X, "row")
        pitch = plan.width + 2
        self.starts = [
            b.times(b.plus(self.row, plan.rows * part), pitch) for part in range(plan.count)
        ]

    def _load(self, part: int, column: Index) -> SSAValue:
        return self.b.load(self.parts, (self.b.plus(self.starts[part], column),))

    def write(self) -> None:
        """The whole body."""
        b, width = self.b, self.plan.width
        parts = range(self.plan.count)
        tops = [self._load(part, width + 1) for part in parts]
        sums = [self._load(part, width) for part in parts]
        top = reduce(lambda x, y: b.add(arith.MaxnumfOp(x, y)), tops)
        scale = b.constant(FloatAttr(LOG2_E, f32))

        def factor(own: SSAValue) -> SSAValue:
            distance = b.add(arith.SubfOp(own, top))
            return b.add(math.Exp2Op(b.add(arith.MulfOp(distance, scale))))

        factors = [factor(own) for own in tops]
        total = self._weighted(factors, sums)
        for first in range(0, width, self.plan.invocations):
            column = b.plus(b.thread_id(), first)
            inside = b.below(column, width) if first + self.plan.invocations > width else True
            b.when(inside, lambda column=column: self._store(column, factors, total))

    def _weighted(self, factors: list[SSAValue], values: list[SSAValue]) -> SSAValue:
        b = self.b
        total = b.add(arith.MulfOp(factors[0], values[0]))
        for factor, value in zip(factors[1:], values[1:], strict=True):
            total = b.add(math.FmaOp(factor, value, total))
        return total

    def _store(self, column: Index, factors: list[SSAValue], total: SSAValue) -> None:
        b, layout = self.b, self.plan.layout
        values = [self._load(part, column) for part in range(self.plan.count)]
        result = b.add(arith.DivfOp(self._weighted(factors, values), total))
        if self.plan.op.nan_to_zero is not None:
            zero = b.constant(FloatAttr(0.0, f32))
            result = b.select(b.add(arith.CmpfOp(total, zero, "ogt")), result, zero)
        if not isinstance(self.element, Float32Type):
            result = b.add(arith.TruncFOp(result, self.element))  # pyright: ignore
        row, at = (
            address_along(b, layout.walks[walk], place, 0).base
            for walk, place in ((ROW, self.row), (COLUMN, column))
        )
        b.store(result, self.out, (b.plus(b.plus(row, at), layout.start),))
