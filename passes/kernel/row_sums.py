"""
Sums over the few rows of a contraction, beside its products: what a norm needs of them.

All invocations of a workgroup share a row: each adds up a part, then the subgroups' sums meet in
Workgroup memory, where whoever stores an element of the result reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import MemRefType, VectorType, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.analysis.epilogue import Placed, definition
from xdsl_spirv.passes.analysis.layout import linear
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.computed_elements import Point
from xdsl_spirv.passes.kernel.inline_bodies import components_of, inline_body
from xdsl_spirv.passes.kernel.staging import WORKGROUP
from xdsl_spirv.passes.schedule.rows import RowsPlan

MOST_AT_A_TIME = 4
"""Elements of a load."""


class RowSums:
    """The sums that a kernel's epilogue asks for, of the rows of its workgroup."""

    def __init__(
        self, b: HoistingEmitter, plan: RowsPlan, over_subgroup: Callable[[SSAValue], SSAValue]
    ):
        """`over_subgroup` adds up what the invocations of a subgroup have."""
        self.b, self.plan, self.over_subgroup = b, plan, over_subgroup
        self.placed = plan.contraction.epilogue.reductions
        self.subgroups = plan.invocations // plan.target.subgroup_size
        if self.placed:
            count = len(self.placed) * plan.schedule.rows.data * self.subgroups
            type = MemRefType(f32, [count], memory_space=WORKGROUP)
            self.memory = b.allocate(type, "row_sums")

    def write(self, rows: list[Point]) -> None:
        """Each subgroup's sums, which `at` reads behind a barrier."""
        b, plan = self.b, self.plan
        for number, placed in enumerate(self.placed):
            for row, point in enumerate(rows):
                total = self.over_subgroup(self._part(placed, point))
                place = self._place(number, row, b.subgroup_id(self.subgroups))
                is_first = b.below(b.lane_id(plan.target.subgroup_size), 1)
                b.when(is_first, lambda t=total, p=place: b.store(t, self.memory, (p,)))

    def at(self, row: Index) -> dict[Placed, SSAValue]:
        """The sums of a row of the workgroup's tile."""
        b = self.b
        sums: dict[Placed, SSAValue] = {}
        for number, placed in enumerate(self.placed):
            places = [self._place(number, row, s) for s in range(self.subgroups)]
            parts = [b.load(self.memory, (place,)) for place in places]
            sums[placed] = reduce(lambda x, y: b.add(arith.AddfOp(x, y)), parts)
        return sums

    def _place(self, number: int, row: Index, subgroup: Index) -> Index:
        b = self.b
        first = b.plus(row, number * self.plan.schedule.rows.data)
        return b.plus(b.times(first, self.subgroups), subgroup)

    def _part(self, placed: Placed, point: Point) -> SSAValue:
        """What the invocation adds up of a row."""
        b, plan = self.b, self.plan
        op = definition(placed.value)
        assert isinstance(op, linalg.ops.GenericOp)
        (source,) = op.inputs
        assert isinstance(source.type, MemRefType)
        *outer, length = source.type.get_shape()
        width = next(n for n in (MOST_AT_A_TIME, 2, 1) if length % n == 0)
        type = VectorType(f32, [width]) if width > 1 else f32
        view = b.at_top(FlatViewOp(source, type), "row_elements")
        start = b.times(self._row(placed.map, outer, point), length // width)
        vectors, invocation = length // width, b.thread_id(plan.invocations)

        def add(number: Index, total: SSAValue) -> SSAValue:
            loaded = b.load(view, (b.plus(start, number),))
            for element in components_of(b, loaded):
                total = inline_body(b, op, [element, total])
            return total

        total = b.zero(f32)
        for trip in range(ceil_div(vectors, plan.invocations)):
            number = b.plus(invocation, trip * plan.invocations)
            exists = b.below(number, vectors)
            if exists is True:
                total = add(number, total)
            elif exists is not False:
                carried = total
                (total,) = b.choose(
                    exists, [f32], lambda n=number, t=carried: [add(n, t)], lambda t=carried: [t]
                )
        return total

    def _row(self, map: AffineMap, outer: list[int], point: Point) -> Index:
        """The number of a row of the tensor."""
        b = self.b
        index: Index = 0
        for expression, size in zip(map.results, outer, strict=True):
            known = linear(expression, map.num_dims)
            place: Index = known.start
            for loop, (first, added) in point.items():
                place = b.plus(place, b.times(b.plus(first, added), known.factors[loop]))
            index = b.plus(b.times(index, size), place)
        return index
