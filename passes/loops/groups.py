"""
Divides a row among invocations, and combines their partial results.

A reduction is divided if its body is `accumulated <op> new` and `<op>` is associative and
commutative. Each of n invocations reduces every n-th element. The partial results are then
combined: within a subgroup by group arithmetic, rotations or shuffles, between subgroups through
Workgroup memory. For other reductions, every invocation computes the whole result in loop order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects import gpu
from xdsl.dialects.builtin import BFloat16Type, i1
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import LoopsAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, is_multiple
from xdsl_spirv.passes.analysis.combinations import UNROLLED, Combination, combinations_of
from xdsl_spirv.passes.analysis.loops_arrays import Loops
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.subgroup_reduction import can_reduce, reduce_subgroup
from xdsl_spirv.targets import Target

Point: TypeAlias = tuple[Index, ...]
"""Loop indices of an element."""

READ_BY_EACH = 8
"""Largest number of partial results that every invocation reads."""


@dataclass(frozen=True)
class Lanes:
    """
    The invocations that share a row: invocation `lane` of `size`, in group `number` of `count`.

    `subgroups` is the number of subgroups in a group that is a workgroup. `memory` is True if all
    invocations of the group may execute a barrier.

    If `rows` is above 1, a workgroup has `rows` * `elements` neighbouring rows, and `place` is the
    invocation's index in the workgroup. `beside` maps the index of an invocation's first row to
    the indices of all its rows.
    """

    b: HoistingEmitter
    target: Target
    number: Index
    count: int
    elements: int
    lane: Index = 0
    size: int = 1
    subgroups: int = 1
    memory: bool = False
    rows: int = 1
    place: Index = 0
    depth: int = 0
    beside: Mapping[SSAValue, Sequence[Index]] = field(default_factory=dict[SSAValue, Any])

    @property
    def row(self) -> Index:
        """Index of the invocation's row among `rows`."""
        return self.b.remainder(self.place, self.rows)

    def neighbours(self, point: Point) -> list[Point]:
        """Maps a point in the invocation's first row to the points in each of its rows."""
        if not any(isinstance(index, SSAValue) and index in self.beside for index in point):
            return [point]
        return [
            tuple(
                self.beside[i][k] if isinstance(i, SSAValue) and i in self.beside else i
                for i in point
            )
            for k in range(self.elements)
        ]

    def in_turn(self, total: Size, body: Callable[[Sequence[Index], Any], None]) -> None:
        """
        Calls body(numbers, inside) for all numbers below `total`, a few consecutive ones at a time.

        If `inside` is false, other invocations process these numbers, and body must store nothing.
        """

        self._steps(total, (), lambda numbers, inside, _: body(numbers, inside) or ())

    def _steps(
        self,
        total: Size,
        carried: Sequence[SSAValue],
        body: Callable[[Sequence[Index], Any, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        Calls body(indices, inside, carried) for the invocation's indices below `total`.

        Returns the last `carried`. Few steps are unrolled, so that later passes over the row reuse
        the computed elements.
        """
        b = self.b
        width = self.elements if self.rows == 1 and is_multiple(total, self.elements) else 1
        stride = self.size * width
        first = b.times(self.lane, width)
        steps = ceil_div(total, stride)

        def together(number: Index) -> list[Index]:
            return [b.plus(number, i) for i in range(width)]

        if (
            not is_dynamic(steps)
            and steps * (width if self.rows == 1 else self.elements) <= UNROLLED
        ):
            for k in range(steps):
                number = b.plus(first, k * stride)
                inside = b.below(number, total)
                number = b.assume(b.index_inside(inside, number), total)
                carried = body(together(number), inside, carried)
            return carried
        times = self._times(total, stride)

        def step(number: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            for k in range(times):
                carried = body(together(b.plus(number, k * stride)), True, carried)
            return carried

        return b.loop(total, stride * times, carried, step, lower=first)

    def _times(self, total: Size, stride: int) -> int:
        """
        Returns the number of steps to unroll in a loop over `total` elements, so that loads
        overlap. It is above 1 only for neighbouring rows.
        """
        if self.rows == 1 or is_dynamic(total):
            return 1
        most = max(1, UNROLLED // self.elements)
        return next(n for n in (8, 4, 2, 1) if n == 1 or (n <= most and not total % (n * stride)))

    def reduce(
        self,
        loops: Loops,
        points: Sequence[Point],
        initials: Sequence[Sequence[SSAValue]],
        body: Callable[..., Sequence[SSAValue]],
    ) -> list[Sequence[SSAValue]] | None:
        """
        Emits a reduction's results at points that all invocations of the group need.

        `body` emits the values of the loops' body at a point (see `LoopsCode.body`). Returns None
        if each invocation must reduce alone.
        """
        combinations = combinations_of(loops)
        order = [loop for loop, yes in enumerate(loops.reduction) if yes]
        sizes = [loops.sizes[loop] for loop in order]
        if combinations is None or self.size == 1:
            return None
        if not all(self._can_exchange(combination) for combination in combinations):
            return None
        count = len(combinations)
        wanted = [combination.new for combination in combinations]
        neutral = [self.b.number(each.neutral, each.type) for each in combinations]

        def combine(a: Sequence[SSAValue], b: Sequence[SSAValue]) -> list[SSAValue]:
            return list(map(self._combine, combinations, a, b))

        def taken(point: Point, number: Index, inside: Any, carried: Sequence[SSAValue]):
            places = list(point)
            indices = self.b.delinearized(number, sizes)
            for loop, index in zip(order, indices, strict=True):
                places[loop] = index
            values = body(loops, tuple(places), None, wanted)
            if isinstance(inside, SSAValue):
                pairs = zip(values, neutral, strict=True)
                values = [self.b.select(inside, value, nothing) for value, nothing in pairs]
            return combine(carried, values)

        def step(numbers: Sequence[Index], inside: Any, carried: Sequence[SSAValue]):
            for number in numbers:
                of_points = [carried[i : i + count] for i in range(0, len(carried), count)]
                carried = [
                    value
                    for point, values in zip(points, of_points, strict=True)
                    for value in taken(point, number, inside, values)
                ]
            return carried

        totals = self._steps(prod(sizes), neutral * len(points), step)
        reduced: list[Sequence[SSAValue]] = []
        for k, initial in enumerate(initials):
            own = totals[k * count : (k + 1) * count]
            reduced.append(combine(initial, list(map(self._exchanged, combinations, own))))
        return reduced

    # Between invocations

    def _combine(self, by: Combination, x: SSAValue, y: SSAValue) -> SSAValue:
        """Emits `x <op> y`."""
        return self.b.copied(by.op, (x, y))[0]

    def _reduce_all(self, by: Combination, values: Iterable[SSAValue]) -> SSAValue:
        return reduce(partial(self._combine, by), values)

    def _can_exchange(self, combination: Combination) -> bool:
        if combination.type == i1 or isinstance(combination.type, BFloat16Type):
            return False
        return self.memory or can_reduce(self.target, combination.kind)

    def _exchanged(self, by: Combination, value: SSAValue) -> SSAValue:
        """Combines the partial results of all invocations of the group; each gets the result."""
        if self.rows > 1 or not can_reduce(self.target, by.kind):
            return self._through_memory(by, value, self.size, self.lane)
        value = reduce_subgroup(self.b, value, self.target, by.kind, partial(self._combine, by))
        if self.subgroups == 1:
            return value
        subgroup = self.b.subgroup_id(self.subgroups)
        first = self.b.below(self.b.lane_id(self.target.subgroup_size), 1)
        return self._through_memory(by, value, self.subgroups, subgroup, first)

    def _through_memory(
        self, by: Combination, value: SSAValue, count: int, number: Index, writes: Condition = True
    ) -> SSAValue:
        """
        Combines `count` partial results of each row through Workgroup memory; `value` is partial
        result `number`.

        Each round leaves about an eighth of the results, until every invocation can read the rest.
        If several invocations hold the same partial result, `writes` must select one of them to
        avoid a race.
        """
        b, rows, type = self.b, self.rows, by.type
        room = count * rows
        memory = b.remembered(
            ("partial", type, room), 0, lambda: b.allocate(type, [room], "partial")
        )
        place = self.place if rows > 1 else number

        def total(first: Index, step: int, count: int) -> SSAValue:
            places = [b.plus(first, k * step * rows) for k in range(count)]
            return self._reduce_all(by, (b.load(memory, [place]) for place in places))

        b.barrier()
        b.when(writes, lambda: b.store(value, memory, [place]))
        b.barrier()
        while count > READ_BY_EACH:
            left = next(n for n in range(max(1, count // READ_BY_EACH), 0, -1) if count % n == 0)

            def fold(left: int = left, count: int = count) -> None:
                b.store(total(place, left, count // left), memory, [place])

            b.when(b.both(writes, b.below(number, left)), fold)
            b.barrier()
            count = left
        return total(self.row, 1, count)


def group_of(b: HoistingEmitter, schedule: LoopsAttr, target: Target) -> Lanes:
    """Returns the group of invocations that the schedule selects."""
    invocations, workgroups = schedule.workgroup.data, schedule.workgroups.data
    size, elements, group = target.subgroup_size, schedule.elements.data, schedule.reduce.data
    workgroup = b.block_id(gpu.DimensionEnum.X, "workgroup", workgroups)
    thread: Index = 0 if invocations == 1 else b.thread_id(invocations)
    if group == "invocation":
        number = b.plus(b.times(workgroup, invocations), thread)
        return Lanes(b, target, number, workgroups * invocations, elements)
    subgroups = invocations // size
    if group == "subgroup":
        lane = b.lane_id(size)
        number = b.plus(b.times(workgroup, subgroups), b.subgroup_id(subgroups))
        return Lanes(b, target, number, workgroups * subgroups, elements, lane, size)
    rows = schedule.rows.data
    lane, size = b.divided(thread, rows), invocations // rows
    of_rows = subgroups, True, rows, thread
    return Lanes(b, target, workgroup, workgroups, elements, lane, size, *of_rows)
