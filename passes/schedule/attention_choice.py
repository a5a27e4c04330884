"""
Chooses the schedule of an attention: cooperative matrices or multiply-adds, and the parameters.

The schedule with the least estimated time is taken. The target file's `model` has the costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

from xdsl_spirv.dialects.schedule import AttentionAttr, AttentionOp, InstructionAttr, bit_width
from xdsl_spirv.dialects.schedule.attention import DEALT_PATHS
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, typical
from xdsl_spirv.passes.analysis.contraction import element_type, type_name
from xdsl_spirv.passes.schedule.attention import AttentionPlan, N
from xdsl_spirv.passes.schedule.attention_fit import (
    CONVERTED,
    Schedule,
    count_registers,
    count_words_ahead,
    lacks,
    problems,
    rows_fit,
    shapes_of,
    side_by_side,
    unfit_vectors,
)
from xdsl_spirv.passes.schedule.attention_lanes import choose_lanes, least_lanes
from xdsl_spirv.passes.schedule.attention_packing import PackedOperand
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.targets import Target
from xdsl_spirv.targets.model import Structure


def choose_attention(op: AttentionOp, target: Target) -> Schedule:
    """
    Chooses matrix instructions if the target has them and there are many rows, else multiply-adds.

    With few rows, the time to read memory limits both. Raises `ScheduleDoesNotFit` if nothing
    fits.
    """
    if typical(least_lanes(op, target).row_count) <= target.model.attention.lanes.most_rows:
        return choose_lanes(op, target)
    try:
        return choose_matrices(op, target)
    except ScheduleDoesNotFit:
        if is_better_apart(op, target):
            raise
        return choose_lanes(op, target)


def is_better_apart(op: AttentionOp, target: Target) -> bool:
    """True if two tiled products are faster than one fused kernel, which holds for many rows."""
    name = type_name(element_type(op.query), True)
    have_one_type = all(
        element_type(value) == element_type(op.query) for value in (op.key, op.value)
    )
    scores = 4 * prod(map(typical, op.sizes[:-2]))
    by_scalars = f"fma {name}" in target.rates and not op.is_dynamic
    fits = scores <= target.storage_buffer_max_bytes
    tiles = any(target.properties_for((name, name, "f32"))) or (by_scalars and fits)
    many = typical(least_lanes(op, target).row_count) > target.model.attention.many_rows
    return have_one_type and tiles and not target.processor and many


def choose_matrices(op: AttentionOp, target: Target) -> AttentionAttr:
    """
    Returns the schedule of cooperative matrices with the least estimated time.

    Tries the target's instructions in order, until a schedule fits. Raises `ScheduleDoesNotFit` if
    no schedule fits.
    """
    reasons: list[str] = []
    for shape in list(shapes_of(element_type(op.query), target)) or [(16, 16, 16)]:
        best: AttentionPlan | None = None
        for candidate in _candidates(op, target, shape):
            misfits = list(problems(candidate))
            reasons += misfits
            if not misfits and (best is None or candidate.seconds < best.seconds):
                best = candidate
        if best is not None:
            return best.schedule
    raise ScheduleDoesNotFit(
        reasons[0] if reasons else f"no schedule of matrices fits {target.name}"
    )


def _candidates(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionPlan]:
    instruction = InstructionAttr("coopmat", shape)
    least = AttentionPlan(op, AttentionAttr(shape[0], max(shape[1:]), 1, instruction), target)
    kind = _through_memory
    if least.shared_places is not None:
        kind = _without_memory
    elif not lacks(CONVERTED, target) and shape[1] == shape[2]:
        kind = _by_instructions
    for schedule in kind(least):
        count = schedule.key_tile.data // max(shape[1:])
        if count == 1 or op.is_dynamic or schedule.key_tile.data < 2 * op.extents[N]:
            yield replace(least, schedule=schedule)


def _through_memory(least: AttentionPlan) -> Iterator[AttentionAttr]:
    """Yields schedules that pass probabilities through Workgroup memory."""
    op, model = least.op, least.target.model.attention
    m, keys = least.schedule.query_tile.data, least.schedule.key_tile.data
    strips_of, counts = model.strips, model.key_fragments
    if op.causal is not None:
        # Small strips waste less work at the mask's edge and leave registers for masking.
        strips_of, counts = (1,), sorted(counts, reverse=True)
    for strips, count, subgroups in product(strips_of, counts, model.subgroups):
        schedule = least.schedule.replace_values(
            query_tile=subgroups * strips * m, key_tile=count * keys, subgroups=subgroups
        )
        plan = replace(least, schedule=schedule)
        few = typical(plan.grid[0]) <= model.few_tiles
        names = () if op.is_dynamic else ("qkv" if few else "q")
        yield schedule.replace_values(
            **{name: "rows" for name in names if not any(rows_fit(plan, name))}
        )


def _by_instructions(least: AttentionPlan) -> Iterator[AttentionAttr]:
    """
    Yields schedules that convert probabilities by an instruction and need no component positions.
    """
    known = {"probabilities": "converted"}
    if not least.target.even_fragments:
        known |= {"q": "rows", "k": "rows", "v": "rows", "rescale": "always"}
    return (schedule.replace_values(**known) for schedule in _through_memory(least))


def _without_memory(least: AttentionPlan) -> Iterator[AttentionAttr]:
    """Yields schedules with probabilities in registers, for each loop structure of the model."""
    op, target = least.op, least.target
    model, parts_of = target.model.attention, (1,)
    paths = [("vectors", "direct"), ("direct", "direct")]
    if not target.processor:
        paths.insert(0, ("vectors", "vectors"))
    if op.is_dynamic:
        # Packed values also fit, but were never measured with dynamic sizes.
        paths = [("vectors", "vectors")]
        parts_of = model.key_parts
    for structure in model.structures:
        if structure.subgroups and op.extents[-1] >= structure.least_head:
            yield _in_registers(least, structure, structure.subgroups, 1, "staged", "staged")
    read = [structure for structure in model.structures if not structure.subgroups]
    choices = product(read, model.subgroups_in_registers, paths, parts_of)
    for structure, subgroups, own, parts in choices:
        schedule = _in_registers(least, structure, subgroups, parts, *own)
        yield schedule
        # Long heads leave no registers for queries, which are then read in every iteration.
        # Other combinations were not measured.
        if structure.ahead == "none" and not op.is_dynamic and not target.processor:
            plan = replace(least, schedule=schedule)
            if not unfit_vectors(plan) and count_registers(plan) > model.held:
                yield schedule.replace_values(queries="read")


def _in_registers(
    least: AttentionPlan, structure: Structure, subgroups: int, parts: int, k: str, v: str
) -> AttentionAttr:
    """Returns the schedule for a loop structure; packs queries that cannot be loaded in place."""
    op = least.op
    # If rows see different numbers of keys, the longest workgroups of the whole batch start first.
    uneven = op.is_dynamic and op.causal is not None and not least.target.processor
    schedule = least.schedule.replace_values(
        query_tile=structure.strips * (subgroups // parts) * least.schedule.query_tile.data,
        key_tile=structure.key_fragments * least.schedule.key_tile.data,
        subgroups=subgroups,
        q="vectors" if k in DEALT_PATHS else "rows",
        k=k,
        v=v,
        rescale=structure.rescale,
        probabilities="registers",
        ahead=structure.ahead,
        key_parts=parts,
        order="batch" if uneven else "queries",
        buffers=structure.buffers,
    )
    fits = k in DEALT_PATHS or not any(rows_fit(replace(least, schedule=schedule), "q"))
    return schedule if fits else schedule.replace_values(q="direct")


def estimate_seconds(plan: AttentionPlan) -> float:
    """Estimates a plan's seconds, or only a relative cost if probabilities use memory."""
    target, model = plan.target, plan.target.model.attention
    tiles, batch, _ = map(typical, plan.grid)
    rounds = ceil_div(tiles * batch, target.compute_units)
    if plan.schedule.in_registers:
        return _time_without_memory(plan)
    waits = max(1.0, plan.schedule.subgroups.data / side_by_side(target))
    registers = count_registers(plan)
    spilled = registers > model.registers and not target.processor
    spills = model.spills * registers / model.registers if spilled else 1.0
    return rounds * waits * spills * (model.two_strips if plan.schedule.strips > 1 else 1.0)


def _time_without_memory(plan: AttentionPlan) -> float:
    """Estimates the seconds of the attention and of packing its operands."""
    schedule, target = plan.schedule, plan.target
    model = target.model.attention
    _, keys, d, e = plan.sizes.extents
    tiles, batch, _ = map(typical, plan.grid)
    structure = _structure_of(plan)
    times = structure.causal if plan.causal is not None else structure.time
    if plan.path("k") == "vectors" and not target.processor:
        times *= structure.pieces
    if plan.path("v") == "vectors":
        times *= model.turned if schedule.strips > 1 else model.turned_by_one
    registers = count_registers(plan)
    held = registers + count_words_ahead(plan)
    most = model.held if schedule.holds_queries else model.held_reading
    if schedule.staged:
        most = model.most_held
    if not target.processor and registers > most:
        times *= model.spills * held / most
    elif not target.processor and held > model.most_held:
        times *= model.late_reads * (held / model.most_held) ** 2
    # Workgroups with few subgroups share a compute unit.
    units = target.compute_units * side_by_side(target) / schedule.subgroups.data
    rounds = max(1.0, tiles * batch / units)
    if plan.op.is_dynamic:
        # The end of the longest workgroup determines the time.
        rounds = tiles * batch / units + 1
        if schedule.key_parts.data > 1:
            values_ahead = structure.strips == 1 and structure.ahead == "values"
            times *= model.merging_values_ahead if values_ahead else model.merging
    operations = 2.0 * schedule.query_tile.data * typical(keys) * (d + e)
    types = f"{type_name(plan.element, True)} -> f32"
    rates = [c.rates[types] for c in target.schedules if types in c.rates]
    rate = max(rates, default=model.rate) * 1e12 * model.share
    share = rate / target.compute_units * schedule.subgroups.data / side_by_side(target)
    return rounds * operations * times / share + sum(map(partial(_packing, plan), "qkv"))


def _structure_of(plan: AttentionPlan) -> Structure:
    schedule, structures = plan.schedule, plan.target.model.attention.structures
    walk = schedule.strips, plan.key_fragments, schedule.ahead.data, schedule.rescale.data
    own = *walk, schedule.staged, schedule.buffers.data
    return next(
        s
        for s in structures
        if (s.strips, s.key_fragments, s.ahead, s.rescale, s.subgroups > 0, s.buffers) == own
    )


def _packing(plan: AttentionPlan, name: str) -> float:
    """Estimates the seconds to pack an operand; 0 if the operand is not packed."""
    if plan.path(name) != "direct":
        return 0.0
    elements = typical(prod(PackedOperand(plan, name).sizes.shape))
    moved = 2 * elements * bit_width(plan.element) // 8
    return plan.target.model.dispatch_seconds + moved / plan.target.copy_bytes_per_second
