"""
Chooses the schedule of an attention: cooperative matrices or multiply-adds, and the parameters.

The schedule with the least estimated time that fits the target is taken. The target file's `model`
has the costs. Each reason why a schedule does not fit names a remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    InstructionAttr,
    PackedViewOp,
    bit_width,
)
from xdsl_spirv.dialects.schedule.attention import DEALT_PATHS
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_multiple, static, typical
from xdsl_spirv.passes.analysis.contraction import element_type, type_name
from xdsl_spirv.passes.schedule.attention import FLOATS, WORDS, AttentionPlan, N, PackedMatrix
from xdsl_spirv.passes.schedule.attention_lanes import choose_lanes, least_lanes
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.pipeline import STAGED_ATTENTION
from xdsl_spirv.targets import CONVERSIONS, PER_ELEMENT, REDUCTIONS, Target
from xdsl_spirv.targets.model import Structure

Schedule: TypeAlias = AttentionAttr | AttentionLanesAttr


def choose_attention(op: AttentionOp, target: Target) -> Schedule:
    """
    Chooses the schedule of an attention: matrix instructions if the target has them and there are
    many rows, otherwise multiply-adds.

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
    """
    True if two tiled products in separate kernels are faster than one fused kernel. This holds if
    there are many rows.
    """
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
    """
    Yields schedules that pass probabilities through Workgroup memory; `least` has the smallest
    tiles.
    """
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
    """
    Yields schedules with probabilities in registers, for each loop structure in the target's
    `model`.
    """
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
    """
    Returns the schedule for a loop structure. `k` and `v` are the paths of keys and values, `parts`
    is the number of parts of the keys. Packs queries that cannot be loaded in place.
    """
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
    elements = typical(prod(PackedMatrix(plan, name).sizes.shape))
    moved = 2 * elements * bit_width(plan.element) // 8
    return plan.target.model.dispatch_seconds + moved / plan.target.copy_bytes_per_second


# Whether a schedule fits

OPEN_PATHS = [
    ("vectors", "vectors", "vectors"),
    ("vectors", "vectors", "direct"),
    ("vectors", "staged", "staged"),
]
"""Paths of (q, k, v) that support dynamic sizes."""


def _unsupported_features(plan: AttentionPlan) -> Iterator[str]:
    element, target, (_, _, d, e) = plan.element, plan.target, plan.op.extents
    if not isinstance(element, Float16Type | BFloat16Type):
        yield f"queries, keys and values must be f16 or bf16, not {element}"
        return
    if max(d, e) > (most := target.model.attention.most_head):
        yield f"a head of {max(d, e)} elements exceeds the limit of {most}"
    schedule = plan.schedule
    whole = schedule.probabilities.data == "converted" and schedule.rescale.data == "always"
    if not target.even_fragments and not (whole and set(schedule.paths) == {"rows"}):
        yield f"{target.name} does not list how it distributes fragments over invocations"
    if not any(shapes_of(element, target)):
        name = type_name(element, True)
        yield (
            f"{target.name} lists no cooperative matrices {name} x {name} -> f32 with f16 "
            "accumulators of the same shape"
        )


def shapes_of(element: Attribute, target: Target) -> Iterator[tuple[int, int, int]]:
    """
    Yields the matrix shapes that have both f32 and f16 accumulators.

    f16 accumulators carry 16-bit probabilities to Workgroup memory.
    """
    name = type_name(element, True)
    carriers = {p.shape[:2] for p in target.properties_for(("f16", "f16", "f16"))}
    for listed in target.properties_for((name, name, "f32")):
        if listed.shape[:2] in carriers:
            yield listed.shape


def side_by_side(target: Target) -> int:
    """
    Returns the number of subgroups of a workgroup that run at the same time without slowing each
    other down.
    """
    return min(target.model.attention.side_by_side, target.residency.subgroups)


def problems(plan: AttentionPlan) -> Iterator[str]:
    """
    Yields the reasons why the schedule does not fit, with the wrong value and a value that fits.
    """
    op, schedule, target = plan.op, plan.schedule, plan.target
    if op.parts is not None:
        yield "matrices do not support parts of the keys: use #schedule.attention_lanes"
        return
    if op.is_dynamic and schedule.paths not in OPEN_PATHS:
        yield (
            "the paths of q, k and v need static sizes, but sizes are dynamic: use q and k = "
            "vectors, and v = vectors or direct"
        )
        return
    yield from _unsupported_features(plan)
    if any(element_type(value) != plan.element for value in (op.key, op.value)):
        yield "queries, keys and values differ in their element type"
        return
    listed = list(shapes_of(plan.element, target))
    if listed and schedule.instruction.sizes not in listed:
        shapes = ", ".join("x".join(map(str, shape)) for shape in listed)
        given = "x".join(map(str, schedule.instruction.sizes))
        yield f"coopmat {given}: {target.name} has {shapes}"
        return
    if unfit := unfit_vectors(plan):
        yield from unfit
        return
    if not isinstance(element_type(op.out), FLOATS):
        yield f"the result must be f16, bf16 or f32, not {element_type(op.out)}"
    yield from plan.launch_problems()
    registers, most = count_registers(plan), target.model.attention.most_registers
    if registers > most and not target.processor:
        yield (
            f"fragments need {registers} registers of an invocation, more than {most}: fewer rows "
            "of a subgroup or a smaller key_tile would fit"
        )
    if schedule.probabilities.data == "converted":
        yield from _conversion_problems(plan)
    if schedule.in_registers and plan.shared_places is None:
        yield (
            "probabilities = registers needs equal component positions of accumulators and A, "
            f"which {target.name} does not list: use probabilities = memory"
        )
    yield from _unreadable(plan)


def _unreadable(plan: AttentionPlan) -> Iterator[str]:
    for name in "qkv":
        packed = isinstance(plan.op.named[name].owner, PackedViewOp)
        if plan.path(name) == "rows":
            if packed:
                yield f"{name} = rows, but the operand is packed into fragments: use direct"
            else:
                yield from rows_fit(plan, name)
        elif plan.path(name) == "direct" and PackedMatrix(plan, name).tile.words not in (1, 2, 4):
            yield f"{name} = direct, but invocations do not hold 1, 2 or 4 words of each fragment"


CONVERTED = (CONVERSIONS, PER_ELEMENT, REDUCTIONS)
"""Target features that `probabilities = converted` needs."""


def lacks(features: Iterable[str], target: Target) -> str:
    """Returns a text that names the features that the target lacks; "" if it has all."""
    missing = [name for name in features if name not in target.features]
    return f"{target.name} does not list {', '.join(missing)}" if missing else ""


def _conversion_problems(plan: AttentionPlan) -> Iterator[str]:
    _, n, k = plan.schedule.instruction.sizes
    if missing := lacks(CONVERTED, plan.target):
        yield f"probabilities = converted, but {missing}: use probabilities = memory"
    elif n != k:
        yield (
            f"probabilities = converted, but accumulators have {n} columns and A has {k}: use "
            "probabilities = memory"
        )


def unfit_vectors(plan: AttentionPlan) -> list[str]:
    """Lists the problems of the operands that the schedule reads by vector loads."""
    pieces = [name for name in "qkv" if plan.is_dealt(name)]
    return [problem for name in pieces for problem in vectors_fit(plan, name)]


def vectors_fit(plan: AttentionPlan, name: str) -> Iterator[str]:
    path = plan.path(name)
    if not plan.schedule.in_registers:
        yield f"{name} = {path} needs probabilities = registers"
        return
    if name != "v" and plan.is_dealt("q") != plan.is_dealt("k"):
        yield f"{name} = {path} needs q = vectors and k = vectors or staged"
        return
    try:
        plan.deal(name)
    except ScheduleDoesNotFit as error:
        yield str(error)
        return
    if "staged" in plan.schedule.paths or plan.schedule.buffers.data > 1:
        yield from list_unstaged(plan, name)


def list_unstaged(plan: AttentionPlan, name: str) -> Iterator[str]:
    """Yields the reasons why an operand's tiles cannot go through Workgroup memory."""
    schedule = plan.schedule
    if schedule.paths != ("vectors", "staged", "staged"):
        yield f"{name} = {plan.path(name)}, but staging needs q = vectors, k = staged, v = staged"
        return
    given = schedule.key_parts.data, schedule.ahead.data
    if given != (1, "keys") or schedule.buffers.data not in STAGED_ATTENTION:
        yield (
            "staging does not support key_parts = {}, ahead = {} and buffers = {}, because all "
            "subgroups share the tiles: key_parts = 1, ahead = keys and 1 or 2 buffers would fit"
        ).format(*given, schedule.buffers.data)
    if name == "q":
        return
    deal, rows = plan.deal(name), plan.staged_rows(name)
    words = deal.vector if deal.paired else deal.vector // 2
    vectors, beyond = divmod(deal.size, deal.vector)
    if words != WORDS or beyond or vectors % deal.block_vectors:
        yield (
            f"{name} = staged, but rows of {deal.size} elements are not a multiple of "
            f"{deal.block_vectors} vectors of 16 bytes: use vectors"
        )
    elif plan.invocations % rows:
        yield (
            f"{name} = staged, but {rows} rows do not divide {plan.invocations} invocations: "
            "another key_tile would fit"
        )


def rows_fit(plan: AttentionPlan, name: str) -> Iterator[str]:
    """Yields the reasons why fragments of q, k or v cannot be loaded from an unpacked operand."""
    layout = plan.layout(name)
    packing = PackedMatrix(plan, name).packing
    _, *extents = static(packing.sized(()).extents)
    for size, tile, what in zip(extents, packing.tile, ("M or N", "K"), strict=True):
        if size % tile.data:
            yield (
                f"{name} = rows, but {size} along {what} is not a multiple of {tile.data}: "
                "direct would fit"
            )
    if not layout.is_contiguous(1) and not layout.is_contiguous(2):
        yield f"{name} = rows, but no dimension of the operand is contiguous: direct would fit"
        return
    other = 1 if plan.by_inner(name) else 2
    columns = packing.fragment_sizes[2 - other]
    alignment = plan.target.count_aligned(columns, bit_width(plan.element))
    steps = [axis.stride for walk in (layout.walks[0], layout.walks[other]) for axis in walk]
    if not all(is_multiple(step, alignment) for step in steps):
        yield (
            f"{name} = rows, but cooperative loads need rows aligned to {alignment} elements: "
            "direct would fit"
        )


def count_registers(plan: AttentionPlan) -> int:
    """Returns the number of 32-bit registers for the loop's state, scores and operand fragments."""
    m, n, k = plan.schedule.instruction.sizes
    schedule, size = plan.schedule, plan.target.subgroup_size
    left, right = ceil_div(m * k, 2 * size), ceil_div(n * k, 2 * size)
    results = schedule.strips * plan.columns * plan.components
    scores = schedule.strips * plan.key_fragments * plan.components
    queries = schedule.strips * left * (plan.steps if schedule.holds_queries else 1)
    if schedule.in_registers:
        return results + scores + scores // 2 + queries
    of_rows = 2 * plan.components * (schedule.strips + plan.hides)
    return results + of_rows + scores + queries + right + schedule.strips * left


def count_words_ahead(plan: AttentionPlan) -> int:
    """Returns the number of registers for values that are read ahead."""
    if plan.schedule.staged:
        tiles = [plan.schedule.key_tile.data * size for size in plan.op.extents[-2:]]
        waiting = sum(tiles) if plan.schedule.buffers.data > 1 else max(tiles)
        return ceil_div(waiting, 2 * plan.invocations)
    _, n, k = plan.schedule.instruction.sizes
    fragment = plan.key_fragments * ceil_div(n * k, 2 * plan.target.subgroup_size)
    ahead = plan.schedule.ahead.data
    return fragment * ((ahead == "keys") * plan.steps + (ahead != "none") * plan.columns)
