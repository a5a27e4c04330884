"""
Which schedule an attention gets: by matrices or multiply-adds, and which of those by matrices.

The schedule with the least estimated time is taken. What each decision costs was measured on the
H200 (benchmarks/results/h200-attention-schedules.json).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    InstructionAttr,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, typical
from xdsl_spirv.passes.analysis.contraction import type_name
from xdsl_spirv.passes.schedule.attention import (
    AttentionPlan,
    N,
    Schedule,
    element_type_of,
    not_by_matrices,
    problems,
    shapes_of,
    side_by_side,
    vectors_fit,
)
from xdsl_spirv.passes.schedule.attention_lanes import MOST_ROWS, LanesPlan, choose_lanes
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.targets import Target

MANY_ROWS = 64
"""Rows that share keys, from which on products by matrices pay for a matrix of scores in memory."""

REGISTERS = 232
"""32-bit registers of an invocation that fragments may take; the rest is addresses and scalars."""

SPILLS = 4.0
"""Times that a kernel takes longer then."""

SUBGROUPS = (4, 8, 2, 1)
STRIPS = (2, 1)
KEY_FRAGMENTS = (2, 4, 1)
"""
Of scores along a tile of keys, best first: with 4, and fewer steps, the H200 is slower
(benchmarks/results/h200-attention-schedules.json).
"""

FEW_TILES = 2
"""Tiles of queries up to which packing keys and values does not pay."""

TWO_STRIPS = 1.3
"""Time of two strips of rows, which share the fragments of keys and values, in that of one."""

TWO_STRIPS_IN_REGISTERS = 1.7
"""The same where probabilities stay in registers."""

ONE_KEY_FRAGMENT = 1.3
"""Time of twice as many tiles of keys, of one fragment of scores each."""

AHEAD_TIMES = {"keys": 1.0, "values": 1.05, "none": 1.4}
"""Time by what is read ahead."""

HELD = 200
"""Registers that fragments may take where probabilities stay in them; a driver needs the rest."""

MOST_HELD = 256
"""The same with words that are read ahead."""

LATE_READS = 1.5
"""Time where a driver cannot hold those."""


def choose_attention(op: AttentionOp, target: Target) -> Schedule:
    """
    By matrices where the target has them and there are rows enough to fill them.

    Raises `ScheduleDoesNotFit` where nothing fits.
    """
    if is_few(op, target):
        return choose_lanes(op, target)
    try:
        return choose_matrices(op, target)
    except ScheduleDoesNotFit:
        if is_better_apart(op, target):
            raise
        return choose_lanes(op, target)


def is_better_apart(op: AttentionOp, target: Target) -> bool:
    """Whether there are rows enough for two products by matrices to beat one kernel without."""
    name = type_name(element_type_of(op.query), True)
    alike = all(element_type_of(value) == element_type_of(op.query) for value in (op.key, op.value))
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    matrices = alike and any(target.properties_for((name, name, "f32")))
    return matrices and side_by_side(target) > 1 and typical(plan.row_count) > MANY_ROWS


def is_few(op: AttentionOp, target: Target) -> bool:
    """Whether there are so few rows to a matrix of keys that multiply-adds keep up with memory."""
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    return typical(plan.row_count) <= MOST_ROWS


def choose_matrices(op: AttentionOp, target: Target) -> AttentionAttr:
    """
    The schedule with the least estimated time: rounds of workgroups, times what one of them takes.

    Of instructions the first is taken that fits at all.
    Raises `ScheduleDoesNotFit` where none fits.
    """
    reasons: list[str] = list(not_by_matrices(op))
    if reasons:
        raise ScheduleDoesNotFit(reasons[0])
    for shape in list(shapes_of(element_type_of(op.query), target)) or [(16, 16, 16)]:
        best: tuple[float, AttentionAttr] | None = None
        for candidate in _candidates(op, target, shape):
            misfits = list(problems(candidate))
            reasons += misfits
            seconds = _cost(candidate)
            if not misfits and (best is None or seconds < best[0]):
                best = seconds, candidate.schedule
        if best is not None:
            return best[1]
    raise ScheduleDoesNotFit(reasons[0] if reasons else f"{target.name} has none for it")


def _candidates(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionPlan]:
    probe = _in_registers(op, target, shape, (1, 1, 1), "none")
    kind = _through_memory
    if AttentionPlan(op, probe, target).shared_places is not None:
        kind = _without_memory
    for schedule in kind(op, target, shape):
        count = schedule.key_tile.data // max(shape[1:])
        if count == 1 or op.is_dynamic or schedule.key_tile.data < 2 * op.extents[N]:
            yield AttentionPlan(op, schedule, target)


def _through_memory(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionAttr]:
    subgroups_of, strips_of, counts = SUBGROUPS, STRIPS, KEY_FRAGMENTS
    if op.offset is not None:
        # Less is wasted at the mask's edge, and registers are left for what is computed there.
        strips_of, counts = (1,), (4, 2, 1)
    if side_by_side(target) == 1:
        # A driver for a processor: long code takes it seconds to compile, and lavapipe takes a
        # subgroup's barrier for the workgroup's.
        subgroups_of, strips_of, counts = (1,), (1,), (2, 1)
    for strips, count, subgroups in product(strips_of, counts, subgroups_of):
        tile, keys = subgroups * strips * shape[0], count * max(shape[1:])
        yield _with_paths(op, target, tile, keys, subgroups, shape)


def _without_memory(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionAttr]:
    sizes = product(STRIPS, (4, 2, 1), (2, 1))
    if side_by_side(target) == 1:
        sizes = product((1,), (1,), (2, 1))
    for counts in sizes:
        for ahead in AHEAD_TIMES if side_by_side(target) > 1 else ("none",):
            yield _in_registers(op, target, shape, counts, ahead)


def _in_registers(
    op: AttentionOp,
    target: Target,
    shape: tuple[int, int, int],
    counts: tuple[int, int, int],
    ahead: str,
) -> AttentionAttr:
    """
    A schedule of so many strips of a subgroup, subgroups, and fragments along a tile of keys.

    Operands are read as they lie, in wide pieces. Values are packed where there are many tiles of
    queries that read them, as invocations would have to turn them for each; what cannot be read in
    wide pieces is packed, too.
    """
    strips, subgroups, fragments = counts
    instruction = InstructionAttr("coopmat", shape)
    tile, keys = strips * subgroups * shape[0], fragments * max(shape[1:])

    def schedule(paths: tuple[str, str, str]) -> AttentionAttr:
        return AttentionAttr(
            tile, keys, subgroups, instruction, paths, "seldom", "registers", ahead
        )

    as_they_lie = schedule(("vectors", "vectors", "vectors"))
    if op.is_dynamic:
        return as_they_lie
    plan = AttentionPlan(op, as_they_lie, target)
    q = k = v = "vectors"
    if any(vectors_fit(plan, "k")):
        q, k = "rows" if not any(plan.rows_fit("q")) else "direct", "direct"
    many = typical(plan.grid[0]) > FEW_TILES
    if many or any(vectors_fit(plan, "v")):
        v = "direct"
    return schedule((q, k, v))


def _cost(plan: AttentionPlan) -> float:
    tiles, batch, _ = map(typical, plan.grid)
    rounds = ceil_div(tiles * batch, plan.target.compute_units)
    if plan.schedule.in_registers:
        return rounds * _time_without_memory(plan)
    waits = max(1.0, plan.schedule.subgroups.data / side_by_side(plan.target))
    spilled = plan.registers > REGISTERS and side_by_side(plan.target) > 1
    spills = SPILLS * plan.registers / REGISTERS if spilled else 1.0
    return rounds * waits * spills * (TWO_STRIPS if plan.schedule.strips > 1 else 1.0)


def _time_without_memory(plan: AttentionPlan) -> float:
    """Of a workgroup, in that of the best schedule's with one strip a subgroup."""
    schedule, parallel = plan.schedule, side_by_side(plan.target)
    time = max(1.0, schedule.subgroups.data / parallel)
    time *= TWO_STRIPS_IN_REGISTERS if schedule.strips > 1 else 1.0
    time *= AHEAD_TIMES.get(schedule.ahead.data, 1.0)
    time *= ONE_KEY_FRAGMENT if plan.key_fragments == 1 else 1.0
    if parallel == 1:
        return time
    held = plan.registers + plan.words_ahead
    if plan.registers > HELD:
        return time * SPILLS * held / HELD
    return time * (LATE_READS if held > MOST_HELD else 1.0)


def _with_paths(
    op: AttentionOp,
    target: Target,
    tile: int,
    keys: int,
    subgroups: int,
    shape: tuple[int, int, int],
) -> AttentionAttr:
    """Fragments from where operands lie if that is possible and packing would not pay."""
    instruction = InstructionAttr("coopmat", shape)
    plan = AttentionPlan(op, AttentionAttr(tile, keys, subgroups, instruction), target)
    paths = ["direct", "direct", "direct"]
    few = typical(plan.grid[0]) <= FEW_TILES
    for position, name in enumerate("qkv"):
        if not op.is_dynamic and (name == "q" or few) and not any(plan.rows_fit(name)):
            paths[position] = "rows"
    q, k, v = paths
    return AttentionAttr(tile, keys, subgroups, instruction, (q, k, v))
