"""
Sums the rows of a contraction's few-row operand for a norm in the epilogue.

The invocations of a workgroup share a row. Each adds up a part, and the subgroups exchange their
sums through Workgroup memory. If the invocations multiply each element of a row exactly once, each
invocation adds up the elements that it already holds in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, f32
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import SUMMED, FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div
from xdsl_spirv.passes.analysis.epilogue import Placed, definition
from xdsl_spirv.passes.analysis.layout import linear
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import Known
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, LeafCode, Point, index_at
from xdsl_spirv.passes.kernel.elements import components_of, inline_body
from xdsl_spirv.passes.schedule.rows import RowsPlan

MOST_AT_A_TIME = 4
"""Largest number of elements in one load."""


class RowSums:
    """Computes the row sums that a kernel's epilogue needs."""

    def __init__(
        self, b: HoistingEmitter, plan: RowsPlan, over_subgroup: Callable[[SSAValue], SSAValue]
    ):
        """`over_subgroup` adds up a value over all invocations of the subgroup."""
        self.b, self.plan, self.over_subgroup = b, plan, over_subgroup
        self.placed = plan.contraction.epilogue.reductions
        self.subgroups = plan.invocations // plan.target.subgroup_size
        if self.placed:
            count = len(self.placed) * plan.schedule.rows.data * self.subgroups
            self.memory = b.allocate(f32, [count], "row_sums")

    def parts(self, rows: list[Point]) -> list[SSAValue]:
        """
        Returns the invocation's partial sums: the sums of all rows for the first summed value, then
        for the next one.
        """
        return [self._part(placed, point) for placed in self.placed for point in rows]

    def parts_of_units(
        self,
        few: ComputedOperand,
        rows: list[Point],
        units: Sequence[tuple[Sequence[Point], Condition]],
    ) -> list[SSAValue] | None:
        """
        Returns partial sums of the row elements that the products read anyway.

        `units` has, for each load along K, the element positions and the condition that it exists.
        Returns None if the products do not read each row exactly once.
        """
        read = [(p, leaf) for p in self.placed if (leaf := self._leaf(p, few)) is not None]
        if len(read) < len(self.placed):
            return None
        return [self._part_of_units(*pair, row, units) for pair in read for row in rows]

    def write(self, parts: list[SSAValue]) -> None:
        """Stores each subgroup's sums in Workgroup memory. `at` needs a barrier after `write`."""
        b, plan = self.b, self.plan
        rows = plan.schedule.rows.data
        for at, part in enumerate(parts):
            total = self.over_subgroup(part)
            place = self._place(at // rows, at % rows, b.subgroup_id(self.subgroups))
            is_first = b.below(b.lane_id(plan.target.subgroup_size), 1)
            b.when(is_first, lambda t=total, p=place: b.store(t, self.memory, (p,)))

    def at(self, row: Index) -> dict[Placed, SSAValue]:
        """
        Returns the sums of a row of the workgroup's tile. The keys are the epilogue's values that
        these sums compute.
        """
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
                    exists, lambda n=number, t=carried: [add(n, t)], lambda t=carried: [t]
                )
        return total

    def _leaf(self, placed: Placed, few: ComputedOperand) -> LeafCode | None:
        """
        Returns the code by which the products read the tensor whose rows are summed. Returns None
        if the products do not read whole rows.
        """
        op = definition(placed.value)
        assert isinstance(op, linalg.ops.GenericOp)
        (source,) = op.inputs
        assert isinstance(source.type, MemRefType)
        same = op.attributes.get(SUMMED)
        code = next((c for p, c in few.leaves.items() if _is_argument(p.value, same)), None)
        if code is None or source.type.get_num_dims() != 2 or code.leaf.start != 0:
            return None
        plan, length = self.plan, source.type.get_shape()[1]
        sizes, strides = plan.contraction.sizes, code.leaf.strides
        (row,) = (linear(expression, placed.map.num_dims) for expression in placed.map.results)
        if any(
            strides[loop] != row.factors[loop] * length
            for loop in plan.row_loops
            if sizes[loop] != 1
        ):
            return None
        step: Size = 1
        for stride, size in sorted((strides[n], sizes[n]) for n in plan.reduced if sizes[n] != 1):
            if stride != step:
                return None
            step = stride * size
        return code if step == length else None

    def _part_of_units(
        self,
        placed: Placed,
        leaf: LeafCode,
        row: Point,
        units: Sequence[tuple[Sequence[Point], Condition]],
    ) -> SSAValue:
        b, op = self.b, definition(placed.value)
        assert isinstance(op, linalg.ops.GenericOp)
        total = b.zero(f32)
        for places, exists in units:
            known = Known()
            before = total
            for place in places:
                element = leaf.element(row | place, known)
                assert isinstance(element, SSAValue)
                total = inline_body(b, op, [element, total])
            total = b.select(exists, total, before)
        return total

    def _row(self, map: AffineMap, outer: list[int], point: Point) -> Index:
        b, index = self.b, 0
        for expression, size in zip(map.results, outer, strict=True):
            place = index_at(b, linear(expression, map.num_dims), point)
            index = b.plus(b.times(index, size), place)
        return index


def _is_argument(value: SSAValue, number: Attribute | None) -> bool:
    if not isinstance(value, BlockArgument) or not isinstance(number, IntegerAttr):
        return False
    return value.index == number.value.data
