"""
Merges the parts of an attention's result that subgroups have for different keys.

Each subgroup but the first of those that share rows writes what it has of them into Workgroup
memory: maxima, sums and results, every component where its own invocation finds it again. The first
brings them to one maximum and adds them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.attention_numbers import FragmentAttention, State
from xdsl_spirv.passes.schedule.attention import AttentionPlan


class PartsMerge:
    """
    Merges results of subgroups that share rows; the constructor stores them, before a barrier.

    `at` gives the numbers of the group of subgroups, of the subgroup in it, and of the invocation;
    `by_row` repeats a number of each row for each component.
    """

    def __init__(
        self,
        code: FragmentAttention,
        plan: AttentionPlan,
        state: State,
        at: tuple[Index, Index, SSAValue],
        by_row: Callable[[Sequence[SSAValue]], list[SSAValue]],
    ):
        self.code, self.plan, self.state, self.by_row = code, plan, state, by_row
        self.group, part, self.lane = at
        self.parts = plan.schedule.key_parts.data
        numbers = self._of(state)
        self.count = len(numbers)
        size = plan.workgroup_bytes // 4
        b = code.b
        self.memory = b.allocate(f32, [size], "of_parts")
        b.when(b.below(0, part), lambda: self._put(part, numbers))
        b.barrier()

    def _of(self, state: State) -> list[SSAValue]:
        """Lists the invocation's numbers of a state: maxima, sums, components of results."""
        scalars = [value for part in (state.maxima, state.sums) for row in part for value in row]
        fragments = (fragment for row in state.results for fragment in row)
        return [*scalars, *(value for each in fragments for value in self.code.parts(each))]

    def _places(self, part: Index) -> list[Index]:
        b, lanes = self.code.b, self.plan.target.subgroup_size
        slot = b.plus(b.times(self.group, self.parts - 1), b.minus(part, 1))
        first = b.plus(b.times(slot, self.count * lanes), self.lane)
        return [b.plus(first, number * lanes) for number in range(self.count)]

    def _put(self, part: Index, numbers: Sequence[SSAValue]) -> None:
        for place, value in zip(self._places(part), numbers, strict=True):
            self.code.b.store(value, self.memory, (place,))

    def merged(self) -> State:
        """Returns the state with the states of all parts merged."""
        state = self.state
        for part in range(1, self.parts):
            places = self._places(part)
            state = self._with(state, [self.code.b.load(self.memory, (at,)) for at in places])
        return state

    def _with(self, state: State, other: Sequence[SSAValue]) -> State:
        code, left = self.code, iter(other)
        maxima = [[next(left) for _ in row] for row in state.maxima]
        sums = [[next(left) for _ in row] for row in state.sums]
        merged = replace(state, maxima=[], sums=[], results=[])
        for strip, row in enumerate(state.results):
            own, its = state.maxima[strip], maxima[strip]
            tops = list(map(code.greater, own, its))
            of_own, of_its = (list(map(code.shrink, each, tops)) for each in (own, its))
            merged.maxima.append(tops)
            totals = map(code.times, state.sums[strip], of_own)
            merged.sums.append(list(map(code.plus, totals, map(code.times, sums[strip], of_its))))
            first, second = self.by_row(of_own), self.by_row(of_its)
            merged.results.append([])
            for fragment in row:
                values = map(code.times, code.parts(fragment), first)
                added = [code.times(next(left), factor) for factor in second]
                merged.results[-1].append(code.put(list(map(code.plus, values, added)), fragment))
        return merged
