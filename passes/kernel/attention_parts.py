"""Numbers of subgroups that share rows of an attention, each with other keys of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.attention import AttentionPlan


def exchange_parts(
    b: KernelEmitter,
    plan: AttentionPlan,
    at: tuple[Index, Index, SSAValue],
    numbers: Sequence[SSAValue],
) -> Callable[[int], list[SSAValue]]:
    """
    Stores the numbers of all subgroups but the first of each group, before a barrier. Returns a
    loader of another subgroup's numbers; an invocation loads those that its own stand for.

    `at` gives the numbers of the group, of the subgroup in it, and of the invocation.
    """
    lanes, count, (group, own, lane) = plan.target.subgroup_size, len(numbers), at
    memory = b.allocate(f32, [plan.workgroup_bytes // 4], "of_parts")

    def places(part: Index) -> list[Index]:
        slot = b.plus(b.times(group, plan.schedule.key_parts.data - 1), b.minus(part, 1))
        first = b.plus(b.times(slot, count * lanes), lane)
        return [b.plus(first, number * lanes) for number in range(count)]

    def store() -> None:
        for place, value in zip(places(own), numbers, strict=True):
            b.store(value, memory, (place,))

    b.when(b.below(0, own), store)
    b.barrier()
    return lambda part: [b.load(memory, (place,)) for place in places(part)]
