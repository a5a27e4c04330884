"""
Lowers convolutions to kernels that slide windows by rotating registers within a subgroup.

    x0 = X[w0 + lane], x1 = X[w0 + size + lane]        once for each row of the windows
    X[w0 + lane + d] = rotate(lane < d ? x1 : x0, d)   for every further element of a window

x1 is omitted if no result needs it or if it lies outside of the input for all invocations.

A subgroup computes `size` neighbouring elements of a result row; see passes/schedule/window.py.
Nothing is staged in Workgroup memory, because all invocations read the same filter element at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import gpu
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import surely_below
from xdsl_spirv.passes.analysis.contraction import element_type, fill_of, storage
from xdsl_spirv.passes.analysis.layout import RowMajor
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.elements import ElementCode, convert_factor, multiply_add
from xdsl_spirv.passes.kernel.result_tile import BatchTile
from xdsl_spirv.passes.schedule.window import WindowPlan

Loops = dict[int, Index]
"""Maps each loop to the value of its index."""


class WindowKernel:
    """Writes the code of a subgroup, which computes one element of a row in each invocation."""

    def __init__(self, builder: KernelEmitter, plan: WindowPlan):
        self.builder, self.plan = builder, plan
        contraction = plan.contraction
        self.element = contraction.element_types[2]
        self.filter_elements, self.input_elements = plan.operands[:2]
        memories = [storage(value)[0] for value in (contraction.a, contraction.b)]
        self.filters, self.input = (builder.flat_view(m, element_type(m)) for m in memories)
        self.size = plan.target.subgroup_size
        self.lane = builder.lane_id()

    def emit(self) -> None:
        b, plan, subgroups = self.builder, self.plan, self.plan.schedule.subgroup_count
        workgroup = b.block_id(gpu.DimensionEnum.X, "workgroup")
        task = b.plus(b.times(workgroup, subgroups), b.subgroup_id(subgroups))
        # The branch is uniform in a subgroup, so all invocations execute the rotations.
        exists = b.below(task, plan.tasks) if plan.tasks % subgroups else True
        b.when(exists, partial(self._segment, task))

    def _segment(self, task: Index) -> None:
        b, plan = self.builder, self.plan
        first = b.times(b.remainder(task, plan.segments), self.size)
        loops: Loops = {plan.sliding: b.plus(first, self.lane)}
        rest = b.divided(task, plan.segments)
        for position, (loop, steps) in enumerate(reversed(plan.outer)):
            last = position == len(plan.outer) - 1
            number = rest if last else b.remainder(rest, steps)
            rest = rest if last else b.divided(rest, steps)
            loops[loop] = b.times(number, plan.outputs) if loop == plan.filters else number
        inside: Condition = True
        if plan.row % self.size:
            inside = b.below(loops[plan.sliding], plan.row)
        totals = self._sums(loops, [b.zero(self.element)] * plan.outputs)
        b.when(inside, partial(self._store, loops, totals))

    # The result

    def _output(self, loops: Loops, number: int) -> Loops:
        filters = self.plan.filters
        if filters is None:
            return loops
        return loops | {filters: self.builder.plus(loops[filters], number)}

    def _store(self, loops: Loops, totals: Sequence[SSAValue]) -> None:
        batch, *_ = self._numbers(loops)
        code = ElementCode(self.builder, self.plan.contraction, BatchTile(self.builder, batch), 1)
        for number, total in enumerate(totals):
            _, row, column = self._numbers(self._output(loops, number))
            code.store(row, column, total)

    def _numbers(self, loops: Loops) -> tuple[Index, Index, Index]:
        b, contraction = self.builder, self.plan.contraction
        numbers: list[Index] = []
        for group in contraction.groups[:3]:
            number: Index = 0
            for loop in group:
                number = b.plus(b.times(number, contraction.sizes[loop]), loops[loop])
            numbers.append(number)
        return numbers[0], numbers[1], numbers[2]

    # Places

    def _offset(self, elements: RowMajor, loops: Loops) -> Index:
        offset: Index = 0
        for loop, value in loops.items():
            offset = self.builder.plus(offset, self.builder.times(value, elements.step(loop)))
        return self.builder.plus(offset, elements.start)

    def _inside(self, loops: Loops, ahead: int) -> Condition:
        """True if the element `ahead` columns after the current one lies inside of the input."""
        b, elements, sizes = self.builder, self.input_elements, self.plan.sizes
        condition: Condition = True
        last = len(elements.shape) - 1
        for dimension, index in enumerate(elements.indices):
            if dimension != last and not elements.leaves(dimension, sizes):
                continue
            if dimension == last and self._row_is_inside(ahead):
                continue
            coordinate: Index = index.start + (ahead if dimension == last else 0)
            for loop, value in loops.items():
                coordinate = b.plus(coordinate, b.times(value, index.factors[loop]))
            condition = b.both(condition, b.below(coordinate, elements.shape[dimension]))
        return condition

    def _row_is_inside(self, ahead: int) -> bool:
        """True if the element `ahead` columns further is in the row, for every invocation."""
        start = self.input_elements.indices[-1].start + ahead
        end = start + self.plan.segments * self.size
        return start >= 0 and surely_below(end - 1, self.input_elements.shape[-1])

    # The sums

    def _sums(self, loops: Loops, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
        plan = self.plan
        others = [loop for loop in plan.contraction.groups[3] if loop != plan.window]

        def nested(number: int, loops: Loops, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if number == len(others):
                return self._row(loops, carried)
            loop = others[number]

            def step(i: Index, inner: Sequence[SSAValue]) -> Sequence[SSAValue]:
                return nested(number + 1, {**loops, loop: i}, inner)

            return self.builder.loop(plan.contraction.sizes[loop], 1, carried, step)

        return nested(0, loops, totals)

    def _row(self, loops: Loops, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Adds the products of one row of windows to `totals`. Rotates the row once per element."""
        b, plan = self.builder, self.plan
        window = plan.window
        assert window is not None
        near = self._load(loops, 0)
        far = self._load(loops, self.size) if plan.selects else None
        sums = list(totals)
        for k in range(plan.width):
            value = self._shifted(near, far, k * plan.dilation)
            for number in range(plan.outputs):
                at = self._offset(self.filter_elements, self._filter(loops, number, window, k))
                factor = self._widened(b.load(self.filters, (at,)), plan.contraction.types[0])
                sums[number] = multiply_add(b, value, factor, sums[number])
        return sums

    def _filter(self, loops: Loops, number: int, window: int, k: int) -> Loops:
        """Returns the loop indices of filter `number` at window position `k`."""
        chosen = self._output(loops, number) | {window: k}
        return {loop: v for loop, v in chosen.items() if loop != self.plan.sliding}

    def _load(self, loops: Loops, ahead: int) -> SSAValue:
        """Loads the row element `ahead` columns after the current one, or the padding value."""
        b = self.builder
        at = b.plus(self._offset(self.input_elements, loops), ahead)
        inside = self._inside(loops, ahead)
        value = b.load(self.input, (b.index_inside(inside, at),))
        value = self._widened(value, self.plan.contraction.types[1])
        return value if inside is True else b.select(inside, value, self._outside())

    def _outside(self) -> SSAValue:
        contraction = self.plan.contraction
        fill, type = fill_of(contraction.b), element_type(contraction.b)
        if not isinstance(type, IntegerType):
            return self.builder.zero(self.element)
        unsigned = contraction.types[1].startswith("u")
        return self.builder.number(
            fill % (1 << type.width.data) if unsigned else fill, self.element
        )

    def _shifted(self, near: SSAValue, far: SSAValue | None, distance: int) -> SSAValue:
        """
        Returns the row element `distance` columns after the current one; padding if `far` is None.
        """
        b = self.builder
        if not distance:
            return near
        if not self.plan.spills(distance):
            return self._rotated(near, distance)
        if far is None:
            stays = b.below(self.lane, self.size - distance)
            return b.select(stays, self._rotated(near, distance), self._outside())
        if distance == self.size:
            return far
        return self._rotated(b.select(b.below(self.lane, distance), far, near), distance)

    def _rotated(self, value: SSAValue, distance: int) -> SSAValue:
        b = self.builder
        return b.add(spv.GroupNonUniformRotateKHROp(spv.Scope.Subgroup, value, b.i32(distance)))

    def _widened(self, value: SSAValue, name: str) -> SSAValue:
        return convert_factor(self.builder, value, self.element, name.startswith("s"))


class ContractionToRotatePass(KernelPass):
    """Writes the kernels of contractions with a `#schedule.window`."""

    name = "contraction-to-rotate"
    codes = {"window": lambda b, plan, _: WindowKernel(b, plan).emit()}
