"""Counts the registers of an invocation that an attention by matrices takes."""

from __future__ import annotations

from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.schedule.attention import AttentionPlan


def count_registers(plan: AttentionPlan) -> int:
    """
    32-bit registers that fragments take: what the loop carries, the scores, and the operands of
    one product.
    """
    if plan.schedule.in_registers:
        return _count_without_memory(plan)
    _, n, k = plan.schedule.instruction.sizes
    strips, size = plan.schedule.strips, plan.target.subgroup_size
    m = plan.schedule.instruction.sizes[0]
    carried = strips * (plan.columns + 2) * plan.components
    scores = strips * plan.key_fragments * plan.components
    queries = strips * plan.steps * ceil_div(m * k, 2 * size)
    operands = ceil_div(n * k, 2 * size) + strips * ceil_div(m * k, 2 * size)
    return carried + scores + queries + operands + (2 * plan.components if plan.counts else 0)


def _count_without_memory(plan: AttentionPlan) -> int:
    """The 32-bit registers of fragments if probabilities stay in registers."""
    m, _, k = plan.schedule.instruction.sizes
    schedule, size = plan.schedule, plan.target.subgroup_size
    carried = schedule.strips * plan.columns * plan.components
    scores = schedule.strips * plan.key_fragments * plan.components
    queries = schedule.strips * plan.steps * ceil_div(m * k, 2 * size)
    if schedule.scores_ahead:
        scores *= 2
    if not schedule.holds_queries:
        queries //= plan.steps
    return carried + scores + scores // 2 + queries


def count_words_ahead(plan: AttentionPlan) -> int:
    """Registers of values that are read ahead, which a driver may still read later."""
    if plan.schedule.staged:
        tiles = [plan.schedule.key_tile.data * size for size in plan.op.extents[-2:]]
        waiting = sum(tiles) if plan.schedule.buffers.data > 1 else max(tiles)
        return ceil_div(waiting, 2 * plan.invocations)
    _, n, k = plan.schedule.instruction.sizes
    fragment = plan.key_fragments * ceil_div(n * k, 2 * plan.target.subgroup_size)
    keys = plan.steps if plan.schedule.reads_ahead("keys") else 0
    values = plan.columns if plan.schedule.reads_ahead("values") else 0
    return fragment * (keys + values)
