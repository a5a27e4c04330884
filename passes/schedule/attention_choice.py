"""
Chooses the schedule of an attention: by matrices or multiply-adds, and among the schedules by
matrices.

The schedule with the least estimated time is taken. The cost of each decision was measured on the
H200 (benchmarks/results/h200-attention-schedules.json and, for probabilities in registers,
h200-attention-registers.json).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod

from xdsl_spirv.dialects.schedule import (
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    InstructionAttr,
    bit_width,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, typical
from xdsl_spirv.passes.analysis.contraction import type_name
from xdsl_spirv.passes.schedule.attention import AttentionPlan, N, element_type_of
from xdsl_spirv.passes.schedule.attention_fit import (
    CONVERTED,
    Schedule,
    lacks,
    not_by_matrices,
    problems,
    shapes_of,
    side_by_side,
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
Fragments of scores along a tile of keys, best first: with 4, and fewer steps, the H200 is slower
(benchmarks/results/h200-attention-schedules.json).
"""

FEW_TILES = 2
"""Tiles of queries up to which packing keys and values does not pay."""

TWO_STRIPS = 1.3
"""Time of two strips of rows, which share the fragments of keys and values, in that of one."""


@dataclass(frozen=True)
class Structure:
    """
    The way of a subgroup through keys where probabilities stay in registers, and its measured
    times.

    `time` is that of one operation, in that of the best structure's, `causal` the same with a mask
    by index, and `pieces` by how much it grows where keys are read as they lie, in wide pieces.
    """

    strips: int
    key_fragments: int
    ahead: str
    rescale: str
    time: float
    causal: float
    pieces: float


STRUCTURES = (
    Structure(2, 2, "keys", "late", 1.0, 1.05, 1.12),
    Structure(2, 2, "keys", "seldom", 1.1, 1.06, 1.0),
    Structure(2, 4, "values", "seldom", 1.12, 1.0, 1.26),
    Structure(2, 2, "none", "seldom", 1.4, 1.5, 1.05),
    Structure(1, 2, "keys", "seldom", 1.03, 1.0, 1.12),
    Structure(1, 2, "values", "seldom", 1.1, 1.02, 1.13),
    Structure(1, 2, "none", "seldom", 1.6, 1.45, 1.1),
    Structure(1, 1, "none", "seldom", 2.0, 2.0, 1.1),
)

TURNED = 1.12
"""Time where values are read as they lie, in wide pieces, and so have to be turned."""

TURNED_BY_ONE = 1.6
"""The same of values where a subgroup has one strip of rows to turn them for."""

HELD = 200
"""Registers that fragments may take where probabilities stay in them; a driver needs the rest."""

MOST_HELD = 256
"""The same with words that are read ahead."""

LATE_READS = 1.5
"""Time where a driver cannot hold those."""

KEY_PARTS = (1, 2)
"""
Subgroups that share rows where sizes are open. With 4 the last has little to do in a prompt of 512
rows, which took the H200 twice as long (benchmarks/results/h200-prompt-attention.json).
"""

MERGING = 1.013
"""Time with parts of keys, which are merged, where there are workgroups enough without."""

MERGING_VALUES_AHEAD = 0.97
"""The same of a strip of rows whose values are read ahead: they took 5 to 7 % less than keys."""

DEFAULT_RATE = 0.05
"""TFLOPS where a target's file says nothing."""

SHARE = 0.7
"""Share of the best rate of contractions with a target's cooperative matrices."""

PACKING = 4e-6
"""Seconds that a dispatch takes that packs an operand, however small."""


def choose_attention(op: AttentionOp, target: Target) -> Schedule:
    """
    Chooses matrices where the target has them and there are rows enough to fill them.

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
    have_one_type = all(
        element_type_of(value) == element_type_of(op.query) for value in (op.key, op.value)
    )
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    matrices = have_one_type and any(target.properties_for((name, name, "f32")))
    return matrices and side_by_side(target) > 1 and typical(plan.row_count) > MANY_ROWS


def is_few(op: AttentionOp, target: Target) -> bool:
    """Whether there are so few rows to a matrix of keys that multiply-adds keep up with memory."""
    plan = LanesPlan(op, AttentionLanesAttr(1, 1, 1, 1, "keys"), target)
    return typical(plan.row_count) <= MOST_ROWS


def choose_matrices(op: AttentionOp, target: Target) -> AttentionAttr:
    """
    The schedule with the least estimated time: rounds of workgroups, times what one of them takes.

    The first fitting instruction is taken. Raises `ScheduleDoesNotFit` where none fits.
    """
    reasons: list[str] = list(not_by_matrices(op))
    if reasons:
        raise ScheduleDoesNotFit(reasons[0])
    for shape in list(shapes_of(element_type_of(op.query), target)) or [(16, 16, 16)]:
        best: tuple[float, AttentionAttr] | None = None
        for candidate in _candidates(op, target, shape):
            misfits = list(problems(candidate))
            reasons += misfits
            if not misfits and (best is None or _cost(candidate) < best[0]):
                best = _cost(candidate), candidate.schedule
        if best is not None:
            return best[1]
    raise ScheduleDoesNotFit(reasons[0] if reasons else f"{target.name} has none for it")


def _candidates(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionPlan]:
    probe = _in_registers(op, target, shape, STRUCTURES[-1], (1, 1), ("vectors", "vectors"))
    kind = _through_memory
    if AttentionPlan(op, probe, target).shared_places is not None:
        kind = _without_memory
    elif not lacks(CONVERTED, target) and shape[1] == shape[2]:
        kind = _by_instructions
    for schedule in kind(op, target, shape):
        count = schedule.key_tile.data // max(shape[1:])
        if count == 1 or op.is_dynamic or schedule.key_tile.data < 2 * op.extents[N]:
            yield AttentionPlan(op, schedule, target)


def _through_memory(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionAttr]:
    subgroups_of, strips_of, counts = SUBGROUPS, STRIPS, KEY_FRAGMENTS
    if op.offset is not None:
        # Less is wasted at the mask's edge, and registers are left for the computation there.
        strips_of, counts = (1,), (4, 2, 1)
    if side_by_side(target) == 1:
        # A driver for a processor: long code takes it seconds to compile, and lavapipe takes a
        # subgroup's barrier for the workgroup's.
        subgroups_of, strips_of, counts = (1,), (1,), (2, 1)
    for strips, count, subgroups in product(strips_of, counts, subgroups_of):
        tile, keys = subgroups * strips * shape[0], count * max(shape[1:])
        yield _with_paths(op, target, tile, keys, subgroups, shape)


def _by_instructions(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionAttr]:
    """
    Probabilities that are converted: fragments stay whole where their components' places are not
    known.
    """
    for known in _through_memory(op, target, shape):
        paths, rescale = known.paths, known.rescale.data
        if not target.even_fragments:
            paths, rescale = ("rows", "rows", "rows"), "always"
        counts = known.query_tile.data, known.key_tile.data, known.subgroups.data
        yield AttentionAttr(*counts, known.instruction, paths, rescale, "converted")


def _without_memory(
    op: AttentionOp, target: Target, shape: tuple[int, int, int]
) -> Iterator[AttentionAttr]:
    """Every structure with operands as they lie, in wide pieces, and packed."""
    structures, subgroups_of, parts_of = STRUCTURES, (4, 2), (1,)
    paths = [("vectors", "vectors"), ("vectors", "direct"), ("direct", "direct")]
    if side_by_side(target) == 1:
        structures, subgroups_of = STRUCTURES[-2:], (1,)
        paths = [("vectors", "direct"), ("direct", "direct")]
    if op.is_dynamic:
        # Packed values fit, too, but were measured on no device where sizes are open.
        paths = [("vectors", "vectors")]
        parts_of = KEY_PARTS if side_by_side(target) > 1 else parts_of
    for structure, subgroups, (k, v), parts in product(structures, subgroups_of, paths, parts_of):
        yield _in_registers(op, target, shape, structure, (subgroups, parts), (k, v))


def _in_registers(
    op: AttentionOp,
    target: Target,
    shape: tuple[int, int, int],
    structure: Structure,
    subgroups: tuple[int, int],
    paths: tuple[str, str],
) -> AttentionAttr:
    """
    With so many subgroups, of which so many share rows. `paths` are for keys and values; queries
    are read in their own layout if that is possible.
    """
    count, parts = subgroups
    k, v = paths
    instruction = InstructionAttr("coopmat", shape)
    tile = structure.strips * (count // parts) * shape[0]
    # Where rows see different numbers of keys, the workgroups of all matrices with most begin.
    order = (
        "batch"
        if op.is_dynamic and op.causal is not None and side_by_side(target) > 1
        else "queries"
    )
    keys = structure.key_fragments * max(shape[1:])

    def schedule(q: str) -> AttentionAttr:
        return AttentionAttr(
            tile,
            keys,
            count,
            instruction,
            (q, k, v),
            structure.rescale,
            "registers",
            structure.ahead,
            key_parts=parts,
            order=order,
        )

    if k == "vectors":
        return schedule("vectors")
    whole = not any(AttentionPlan(op, schedule("rows"), target).rows_fit("q"))
    return schedule("rows" if whole else "direct")


def _cost(plan: AttentionPlan) -> float:
    tiles, batch, _ = map(typical, plan.grid)
    rounds = ceil_div(tiles * batch, plan.target.compute_units)
    if plan.schedule.in_registers:
        return _time_without_memory(plan)
    waits = max(1.0, plan.schedule.subgroups.data / side_by_side(plan.target))
    spilled = plan.registers > REGISTERS and side_by_side(plan.target) > 1
    spills = SPILLS * plan.registers / REGISTERS if spilled else 1.0
    return rounds * waits * spills * (TWO_STRIPS if plan.schedule.strips > 1 else 1.0)


def _time_without_memory(plan: AttentionPlan) -> float:
    """Seconds of all workgroups, and of packing their operands."""
    schedule, target = plan.schedule, plan.target
    _, keys, d, e = plan.extents
    tiles, batch, _ = map(typical, plan.grid)
    own = (schedule.strips, plan.key_fragments, schedule.ahead.data, schedule.rescale.data)
    known = {(s.strips, s.key_fragments, s.ahead, s.rescale): s for s in STRUCTURES}
    times = known[own].causal if plan.causal is not None else known[own].time
    if plan.path("k") == "vectors" and side_by_side(target) > 1:
        times *= known[own].pieces
    if plan.path("v") == "vectors":
        times *= TURNED if schedule.strips > 1 else TURNED_BY_ONE
    held = plan.registers + plan.words_ahead
    if side_by_side(target) > 1 and plan.registers > HELD:
        times *= SPILLS * held / HELD
    elif side_by_side(target) > 1 and held > MOST_HELD:
        times *= LATE_READS
    # As many subgroups as fill a unit share it; fewer leave it to others.
    units = target.compute_units * side_by_side(target) / schedule.subgroups.data
    rounds = max(1.0, tiles * batch / units)
    if plan.op.is_dynamic:
        # The longest is waited for, whether there are many or few.
        rounds = tiles * batch / units + 1
        if schedule.key_parts.data > 1:
            values_ahead = own == (1, 2, "values", "seldom")
            times *= MERGING_VALUES_AHEAD if values_ahead else MERGING
    operations = 2.0 * schedule.query_tile.data * typical(keys) * (d + e)
    share = _rate(plan) / target.compute_units * schedule.subgroups.data / side_by_side(target)
    return rounds * operations * times / share + sum(map(partial(_packing, plan), "qkv"))


def _rate(plan: AttentionPlan) -> float:
    """Operations a second."""
    types = f"{type_name(plan.element, True)} -> f32"
    rates = [c.rates[types] for c in plan.target.schedules if types in c.rates]
    return max(rates, default=DEFAULT_RATE) * 1e12 * SHARE


def _packing(plan: AttentionPlan, name: str) -> float:
    """Seconds to pack an operand, 0 where it is read as it lies."""
    if plan.path(name) != "direct":
        return 0.0
    elements = typical(prod(plan.packed_sizes(name).shape))
    moved = 2 * elements * bit_width(plan.element) // 8
    return PACKING + moved / plan.target.copy_bytes_per_second


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
