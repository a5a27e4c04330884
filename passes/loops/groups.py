"""
Divides a row among invocations, and combines their partial results.

A reduction is taken apart where its body is `accumulated <op> new` with an operation whose order
does not matter: each invocation of the group takes every n-th element, and the partial results are
exchanged, within a subgroup by group arithmetic, rotations or shuffles, between subgroups through
Workgroup memory. Anything else an invocation computes by itself, in the order of the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import BFloat16Type, i1
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import LoopsAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, is_multiple
from xdsl_spirv.passes.analysis.combinations import NEUTRAL, UNROLLED, Combination, combinations_of
from xdsl_spirv.passes.analysis.loops_arrays import Loops
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.subgroup_reduction import reduce_subgroup
from xdsl_spirv.passes.loops.code import LoopsCode, Point
from xdsl_spirv.targets import Target

READ_BY_EACH = 8
"""Up to this many partial results, every invocation reads all of them."""


GROUP_ARITHMETIC: dict[type[Operation], type[spv.GroupArithmetic]] = {
    arith.AddfOp: spv.GroupNonUniformFAddOp,
    arith.AddiOp: spv.GroupNonUniformIAddOp,
    arith.MulfOp: spv.GroupNonUniformFMulOp,
    arith.MuliOp: spv.GroupNonUniformIMulOp,
    arith.MaxnumfOp: spv.GroupNonUniformFMaxOp,
    arith.MinnumfOp: spv.GroupNonUniformFMinOp,
    arith.MaxSIOp: spv.GroupNonUniformSMaxOp,
    arith.MinSIOp: spv.GroupNonUniformSMinOp,
    arith.MaxUIOp: spv.GroupNonUniformUMaxOp,
    arith.MinUIOp: spv.GroupNonUniformUMinOp,
}
"""The group operations by scalar operation; min and max of floats lack one that passes on NaN."""


def combined(code: LoopsCode, combination: Combination, a: SSAValue, b: SSAValue) -> SSAValue:
    """Emits `a <op> b`."""
    return code.pure(combination.op, (a, b))[0]


def neutral_of(code: LoopsCode, combination: Combination) -> SSAValue:
    """Returns the neutral element of `<op>`."""
    value = NEUTRAL[type(combination.op)](combination.type)
    return code.b.number(value, combination.type)


def kind_of(combination: Combination) -> type[spv.GroupArithmetic] | None:
    """Returns the SPIR-V group operation that reduces by `<op>`."""
    return GROUP_ARITHMETIC.get(type(combination.op))


@dataclass(frozen=True)
class Lanes:
    """
    The invocations that share a row: invocation `lane` of `size`, in group `number` of `count`.

    `subgroups` is the number of subgroups in a cooperating workgroup. `shuffle`, `arithmetic` and
    `rotate` say what the target's subgroups support, `memory` if all invocations may meet at a
    barrier.

    If `rows` is above 1, this is invocation `place` of a workgroup with `rows` times `elements`
    neighbouring rows. `beside` lists the indices of an invocation's rows by the index of its first.
    """

    b: HoistingEmitter
    number: Index
    count: int
    lane: Index
    size: int
    elements: int
    subgroups: int = 1
    subgroup_size: int = 1
    shuffle: bool = False
    arithmetic: bool = False
    memory: bool = True
    rotate: bool = False
    depth: int = 0
    rows: int = 1
    place: Index = 0
    beside: Mapping[SSAValue, Sequence[Index]] = field(default_factory=dict[SSAValue, Any])

    @property
    def row(self) -> Index:
        """The index of this invocation's row among the rows side by side."""
        return self.b.remainder(self.place, self.rows)

    def neighbours(self, point: Point) -> list[Point]:
        """Maps a point in the invocation's first row to the same point in each of its rows."""
        if not any(isinstance(index, SSAValue) and index in self.beside for index in point):
            return [point]
        return [
            tuple(
                self.beside[i][k] if isinstance(i, SSAValue) and i in self.beside else i
                for i in point
            )
            for k in range(self.elements)
        ]

    def at(self, depth: int) -> Lanes:
        """Returns the lanes for rows that the scopes up to `depth` decide."""
        return replace(self, depth=depth)

    def in_turn(self, total: Size, body: Callable[[Sequence[Index], Any], None]) -> None:
        """
        Calls body(numbers, inside) for all numbers below `total`, a few neighbours at a time. If
        `inside` is false, the numbers are valid repeats, and nothing may be stored.
        """

        def step(numbers: Sequence[Index], inside: Any, carried: Sequence[SSAValue]):
            body(numbers, inside)
            return ()

        self._steps(total, (), step)

    def _steps(
        self,
        total: Size,
        carried: Sequence[SSAValue],
        body: Callable[[Sequence[Index], Any, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        Calls body(numbers, inside, carried) in turns over the invocations.

        Few steps are unrolled, so that equal numbers mean equal elements in every pass over the
        row.
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
        """Steps of a loop over rows side by side that are written out: loads then overlap."""
        if self.rows == 1 or is_dynamic(total):
            return 1
        most = max(1, UNROLLED // self.elements)
        return next(n for n in (8, 4, 2, 1) if n == 1 or (n <= most and not total % (n * stride)))

    def reduce(
        self,
        code: LoopsCode,
        loops: Loops,
        points: Sequence[Point],
        initials: Sequence[Sequence[SSAValue]],
    ) -> list[Sequence[SSAValue]] | None:
        """Computes the reduction's results at points that all invocations of the group need."""
        combinations = combinations_of(loops)
        order = [loop for loop, yes in enumerate(loops.reduction) if yes]
        sizes = [loops.sizes[loop] for loop in order]
        if combinations is None or self.size == 1:
            return None
        if not all(self._can_exchange(combination) for combination in combinations):
            return None
        count = len(combinations)
        wanted = [combination.new for combination in combinations]
        neutral = [neutral_of(code, combination) for combination in combinations]

        def taken(point: Point, number: Index, inside: Any, carried: Sequence[SSAValue]):
            places = list(point)
            indices = self.b.delinearized(number, sizes)
            for loop, index in zip(order, indices, strict=True):
                places[loop] = index
            values = code.body(loops, tuple(places), None, wanted)
            if isinstance(inside, SSAValue):
                values = [
                    self.b.select(inside, value, nothing)
                    for value, nothing in zip(values, neutral, strict=True)
                ]
            return [
                combined(code, combination, total, value)
                for combination, total, value in zip(combinations, carried, values, strict=True)
            ]

        def step(numbers: Sequence[Index], inside: Any, carried: Sequence[SSAValue]):
            for number in numbers:
                of_points = [carried[i : i + count] for i in range(0, len(carried), count)]
                carried = [
                    value
                    for point, values in zip(points, of_points, strict=True)
                    for value in taken(point, number, inside, values)
                ]
            return carried

        partial = self._steps(prod(sizes), neutral * len(points), step)
        reduced: list[Sequence[SSAValue]] = []
        for k, initial in enumerate(initials):
            whole = self._exchanged(code, combinations, partial[k * count : (k + 1) * count])
            reduced.append(
                [
                    combined(code, combination, before, value)
                    for combination, before, value in zip(combinations, initial, whole, strict=True)
                ]
            )
        return reduced

    # Between invocations

    def _can_exchange(self, combination: Combination) -> bool:
        type = combination.type
        if type == i1 or isinstance(type, BFloat16Type):
            return False
        return self.memory or self._in_registers(combination)

    def _in_registers(self, combination: Combination) -> bool:
        """Whether the invocations of a subgroup can combine without memory."""
        return self.shuffle or self.rotate or (self.arithmetic and kind_of(combination) is not None)

    def _exchanged(
        self, code: LoopsCode, combinations: Sequence[Combination], values: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Combines the partial results of all invocations of the group."""
        exchanged: list[SSAValue] = []
        for combination, value in zip(combinations, values, strict=True):
            if self.rows > 1:
                exchanged.append(self._folded(code, combination, value))
                continue
            if not self._in_registers(combination):
                exchanged.append(
                    self._through_memory(code, combination, value, self.size, self.lane)
                )
                continue
            value = self._in_subgroup(code, combination, value)
            if self.subgroups > 1:
                subgroup = self.b.subgroup_id(self.subgroups)
                first = self.b.below(self.b.lane_id(self.subgroup_size), 1)
                value = self._through_memory(
                    code, combination, value, self.subgroups, subgroup, first
                )
            exchanged.append(value)
        return exchanged

    def _in_subgroup(self, code: LoopsCode, combination: Combination, value: SSAValue) -> SSAValue:
        kind = kind_of(combination) if self.arithmetic else None
        combine = partial(combined, code, combination)
        return reduce_subgroup(self.b, value, self.subgroup_size, combine, kind, self.rotate)

    def _through_memory(
        self,
        code: LoopsCode,
        combination: Combination,
        value: SSAValue,
        count: int,
        number: Index,
        writes: Condition = True,
    ) -> SSAValue:
        """
        Exchanges `count` partial results in Workgroup memory; this invocation's is the
        `number`-th.

        If several invocations have the same result, only one of them `writes` it.
        """
        b = self.b
        memory = b.allocate(combination.type, [count], "partial")
        b.barrier()
        b.when(writes, lambda: b.store(value, memory, [number]))
        b.barrier()
        if count > READ_BY_EACH and self._in_registers(combination):
            return self._in_subgroup(
                code, combination, self._read_in_turns(code, combination, memory, count)
            )
        total = self._read(memory, 0)
        for other in range(1, count):
            total = combined(code, combination, total, self._read(memory, other))
        return total

    def _folded(self, code: LoopsCode, combination: Combination, value: SSAValue) -> SSAValue:
        """Combines partial results of several rows in memory, to an eighth in each step."""
        b, count = self.b, self.size
        of_all = "partial", combination.type, count * self.rows
        memory = b.remembered(of_all, 0, lambda: b.allocate(of_all[1], [of_all[2]], "partial"))

        def total(first: Index, step: int, count: int) -> SSAValue:
            places = [b.plus(first, k * step * self.rows) for k in range(count)]
            result = self._read(memory, places[0])
            for place in places[1:]:
                result = combined(code, combination, result, self._read(memory, place))
            return result

        b.barrier()
        b.store(value, memory, [self.place])
        b.barrier()
        while count > READ_BY_EACH:
            left = max(1, count // READ_BY_EACH)

            def fold(left: int = left, count: int = count) -> None:
                b.store(total(self.place, left, count // left), memory, [self.place])

            b.when(b.below(self.lane, left), fold)
            b.barrier()
            count = left
        return total(self.row, 1, count)

    def _read_in_turns(
        self, code: LoopsCode, combination: Combination, memory: SSAValue, count: int
    ) -> SSAValue:
        """A lane's share of the partial results, which its subgroup reads together."""
        b, size = self.b, self.subgroup_size
        lane, total = b.lane_id(size), None
        for start in range(0, count, size):
            number = b.plus(lane, start)
            inside = b.below(number, count)
            if isinstance(inside, SSAValue):
                value = self._read(memory, b.select(inside, number, 0))
                value = b.select(inside, value, neutral_of(code, combination))
            else:
                value = self._read(memory, number)
            total = value if total is None else combined(code, combination, total, value)
        assert total is not None
        return total

    def _read(self, memory: SSAValue, number: Index) -> SSAValue:
        return self.b.load(memory, [number])


def group_of(b: HoistingEmitter, schedule: LoopsAttr, target: Target) -> Lanes:
    """Returns the group that the schedule names."""
    invocations, workgroups = schedule.workgroup.data, schedule.workgroups.data
    size = target.subgroup_size
    elements = schedule.elements.data
    workgroup = b.block_id(gpu.DimensionEnum.X, "workgroup", workgroups)
    reduce = schedule.reduce.data
    thread: Index = 0 if invocations == 1 else b.thread_id(invocations)
    if reduce == "invocation":
        number = b.plus(b.times(workgroup, invocations), thread)
        return Lanes(b, number, workgroups * invocations, 0, 1, elements)
    shuffle = "subgroup-shuffle" in target.features
    arithmetic = "subgroup-arithmetic" in target.features
    rotate = "subgroup-rotate" in target.features
    subgroups = invocations // size
    if reduce == "subgroup":
        lane: Index = b.lane_id(size)
        number = b.plus(b.times(workgroup, subgroups), b.subgroup_id(subgroups))
        return Lanes(
            b,
            number,
            workgroups * subgroups,
            lane,
            size,
            elements,
            1,
            size,
            shuffle,
            arithmetic,
            memory=False,
            rotate=rotate,
        )
    rows = schedule.rows.data
    return Lanes(
        b,
        workgroup,
        workgroups,
        b.divided(thread, rows),
        invocations // rows,
        elements,
        subgroups,
        size,
        shuffle,
        arithmetic,
        rotate=rotate,
        rows=rows,
        place=thread,
    )
