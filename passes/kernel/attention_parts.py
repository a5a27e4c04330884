"""Numbers of subgroups that share rows of an attention, each with other keys of its own."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.attention import AttentionPlan


class PartsExchange:
    """
    The numbers of all subgroups but the first of each group, where their own invocation finds them
    again; the constructor stores them, before a barrier.

    `at` is the number of the group, of the subgroup in it, and of the invocation.
    """

    def __init__(
        self,
        b: KernelEmitter,
        plan: AttentionPlan,
        at: tuple[Index, Index, SSAValue],
        numbers: Sequence[SSAValue],
    ):
        self.b, self.lanes, self.count = b, plan.target.subgroup_size, len(numbers)
        self.group, part, self.lane = at
        self.others = plan.schedule.key_parts.data - 1
        self.memory = b.allocate(f32, [plan.workgroup_bytes // 4], "of_parts")

        def store() -> None:
            for place, value in zip(self._places(part), numbers, strict=True):
                b.store(value, self.memory, (place,))

        b.when(b.below(0, part), store)
        b.barrier()

    def _places(self, part: Index) -> list[Index]:
        b = self.b
        slot = b.plus(b.times(self.group, self.others), b.minus(part, 1))
        first = b.plus(b.times(slot, self.count * self.lanes), self.lane)
        return [b.plus(first, number * self.lanes) for number in range(self.count)]

    def load(self, part: int) -> list[SSAValue]:
        """Loads the numbers of another subgroup of the group."""
        return [self.b.load(self.memory, (at,)) for at in self._places(part)]
