"""Counts the registers of an invocation that an attention by matrices takes."""

from __future__ import annotations

from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.schedule.attention import AttentionPlan


def count_registers(plan: AttentionPlan) -> int:
    """32-bit registers for fragments: loop state, scores, and the operands of one product."""
    m, n, k = plan.schedule.instruction.sizes
    schedule, size = plan.schedule, plan.target.subgroup_size
    left, right = ceil_div(m * k, 2 * size), ceil_div(n * k, 2 * size)
    results = schedule.strips * plan.columns * plan.components
    scores = schedule.strips * plan.key_fragments * plan.components
    queries = schedule.strips * left * (plan.steps if schedule.holds_queries else 1)
    if schedule.in_registers:
        scores *= 2 if schedule.scores_ahead else 1
        return results + scores + scores // 2 + queries
    of_rows = 2 * plan.components * (schedule.strips + plan.hides)
    return results + of_rows + scores + queries + right + schedule.strips * left


def count_words_ahead(plan: AttentionPlan) -> int:
    """Registers for values that are read ahead; a driver may move these loads back."""
    if plan.schedule.staged:
        tiles = [plan.schedule.key_tile.data * size for size in plan.op.extents[-2:]]
        waiting = sum(tiles) if plan.schedule.buffers.data > 1 else max(tiles)
        return ceil_div(waiting, 2 * plan.invocations)
    _, n, k = plan.schedule.instruction.sizes
    fragment = plan.key_fragments * ceil_div(n * k, 2 * plan.target.subgroup_size)
    keys = plan.steps if plan.schedule.reads_ahead("keys") else 0
    values = plan.columns if plan.schedule.reads_ahead("values") else 0
    return fragment * (keys + values)
