"""Checks that an attention's schedule fits a target, and names a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import AttentionAttr, AttentionLanesAttr, PackedViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_multiple
from xdsl_spirv.passes.analysis.contraction import element_type, type_name
from xdsl_spirv.passes.schedule.attention import FLOATS, WORDS, AttentionPlan
from xdsl_spirv.passes.schedule.attention_packing import PackedOperand
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.pipeline import STAGED_ATTENTION, Stage
from xdsl_spirv.targets import CONVERSIONS, PER_ELEMENT, REDUCTIONS, Target

Schedule: TypeAlias = AttentionAttr | AttentionLanesAttr

OPEN_PATHS = [
    ("vectors", "vectors", "vectors"),
    ("vectors", "vectors", "direct"),
    ("vectors", "staged", "staged"),
]
"""Paths of q, k and v that allow dynamic sizes."""


def _unsupported_features(plan: AttentionPlan) -> Iterator[str]:
    element, target, (_, _, d, e) = plan.element, plan.target, plan.op.extents
    if not isinstance(element, Float16Type | BFloat16Type):
        yield f"queries, keys and values are f16 or bf16, not {element}"
        return
    if max(d, e) > (most := target.model.attention.most_head):
        yield f"a head of {max(d, e)} elements: at most {most}"
    if not target.even_fragments and not _takes_no_fragment_apart(plan.schedule):
        yield f"{target.name} does not list how it distributes fragments over invocations"
    if not any(shapes_of(element, target)):
        name = type_name(element, True)
        yield (
            f"{target.name} lists no cooperative matrices {name} x {name} -> f32 with f16 "
            "accumulators of the same shape"
        )


def shapes_of(element: Attribute, target: Target) -> Iterator[tuple[int, int, int]]:
    """
    Shapes of products into f32 for which the target also has f16 accumulators.

    Such accumulators carry 16-bit probabilities to Workgroup memory.
    """
    name = type_name(element, True)
    carriers = {p.shape[:2] for p in target.properties_for(("f16", "f16", "f16"))}
    for listed in target.properties_for((name, name, "f32")):
        if listed.shape[:2] in carriers:
            yield listed.shape


def side_by_side(target: Target) -> int:
    """Returns the number of subgroups of a workgroup that do not delay each other."""
    return min(target.model.attention.side_by_side, target.residency.subgroups)


def problems(plan: AttentionPlan) -> Iterator[str]:
    """Yields why the schedule does not fit, with the offending number and one that fits."""
    op, schedule, target = plan.op, plan.schedule, plan.target
    if op.parts is not None:
        yield "keys in parts, which multiply-adds know: #schedule.attention_lanes"
        return
    if op.is_dynamic and schedule.paths not in OPEN_PATHS:
        yield (
            "sizes are known only when the program runs, and fragments need them before: q and k = "
            "vectors, and v = vectors or direct, would not"
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
        yield f"the result is f16, bf16 or f32, not {element_type(op.out)}"
    yield from plan.launch_problems()
    registers, most = count_registers(plan), target.model.attention.most_registers
    if registers > most and not target.processor:
        yield (
            f"fragments take {registers} registers of an invocation, at most "
            f"{most} do: fewer rows a subgroup or a smaller key_tile would fit"
        )
    if schedule.are_converted:
        yield from _conversion_problems(plan)
    if schedule.in_registers and plan.shared_places is None:
        yield (
            f"probabilities = registers, but {target.name} does not say that components of "
            "accumulators lie where A's components do: memory takes any places"
        )
    yield from _unreadable(plan)


def _unreadable(plan: AttentionPlan) -> Iterator[str]:
    """Lists the operands whose layout does not suit the way in which the schedule reads them."""
    for name in "qkv":
        value = plan.value(name)
        packed = value is not None and isinstance(value.owner, PackedViewOp)
        if plan.path(name) == "rows":
            if packed:
                yield f"{name}: rows, but the operand is packed into fragments: direct reads it"
            else:
                yield from rows_fit(plan, name)
        elif plan.path(name) == "direct" and PackedOperand(plan, name).tile.words not in (1, 2, 4):
            yield f"{name}: an invocation's share of a fragment is not 1, 2 or 4 words"


def _takes_no_fragment_apart(schedule: AttentionAttr) -> bool:
    """True if the kernel does not depend on the components that an invocation has."""
    whole = schedule.are_converted and schedule.rescale.data == "always"
    return whole and set(schedule.paths) == {"rows"}


CONVERTED = (CONVERSIONS, PER_ELEMENT, REDUCTIONS)
"""The features that `probabilities = converted` needs."""


def lacks(features: Iterable[str], target: Target) -> str:
    """Lists the features that a path needs and the target does not have."""
    missing = [name for name in features if name not in target.features]
    return f"{target.name} does not list {', '.join(missing)}" if missing else ""


def _conversion_problems(plan: AttentionPlan) -> Iterator[str]:
    """Reasons why probabilities cannot be converted."""
    _, n, k = plan.schedule.instruction.sizes
    if missing := lacks(CONVERTED, plan.target):
        yield f"probabilities = converted, but {missing}: memory takes any device"
    elif n != k:
        yield (
            f"probabilities = converted, but accumulators have {n} columns and fragments of A {k}: "
            "memory takes any instruction"
        )


def unfit_vectors(plan: AttentionPlan) -> list[str]:
    """Lists why operands that the schedule reads in wide pieces cannot be read so."""
    pieces = [name for name in "qkv" if plan.is_dealt(name)]
    return [problem for name in pieces for problem in vectors_fit(plan, name)]


def vectors_fit(plan: AttentionPlan, name: str) -> Iterator[str]:
    path = plan.path(name)
    if not plan.schedule.in_registers:
        yield f"{name}: {path}, which needs probabilities = registers"
        return
    if name != "v" and plan.is_dealt("q") != plan.is_dealt("k"):
        yield f"{name}: {path}, but then both are: q = vectors and k = vectors or staged"
        return
    try:
        plan.deal(name)
    except ScheduleDoesNotFit as error:
        yield str(error)
        return
    if "staged" in plan.schedule.paths or plan.schedule.buffers.data > 1:
        yield from list_unstaged(plan, name)


def list_unstaged(plan: AttentionPlan, name: str) -> Iterator[str]:
    """Lists why an operand's tiles cannot go through Workgroup memory."""
    schedule = plan.schedule
    if schedule.paths != ("vectors", "staged", "staged"):
        yield f"{name}: {plan.path(name)}: if k or v is staged, both are, and q = vectors"
        return
    ahead, buffers = schedule.ahead.data, schedule.buffers.data
    if schedule.key_parts.data > 1 or (ahead, 1) not in STAGED_ATTENTION:
        yield (
            f"staged, but key_parts = {schedule.key_parts.data} and ahead = {ahead}: "
            "all subgroups read the same tiles; key_parts = 1 and ahead = keys would fit"
        )
    elif (ahead, buffers) not in STAGED_ATTENTION:
        yield (
            f"staged, but buffers = {buffers} and ahead = {ahead}: 1, or 2 with ahead = keys, "
            "would fit"
        )
    if name == "q":
        return
    deal, rows = plan.deal(name), plan.staged_rows(name)
    words = deal.vector if deal.paired else deal.vector // 2
    vectors, beyond = divmod(deal.size, deal.vector)
    if words != WORDS or beyond or vectors % deal.block_vectors:
        yield (
            f"{name}: staged, but rows of {deal.size} elements are not whole blocks of "
            f"{deal.block_vectors} pieces of 16 bytes: vectors reads them"
        )
    elif plan.invocations % rows:
        yield (
            f"{name}: staged, but {rows} rows do not divide {plan.invocations} invocations: "
            "another key_tile would"
        )


def rows_fit(plan: AttentionPlan, name: str) -> Iterator[str]:
    """Reasons why fragments of q, k or v cannot be loaded from the operand's own layout."""
    layout = plan.layout(name)
    packing = PackedOperand(plan, name).packing
    for size, tile, what in zip(packing.extents[1:], packing.tile, ("M or N", "K"), strict=True):
        if size % tile.data:
            yield (
                f"{name}: rows, but {size} along {what} is not a multiple of {tile.data}: "
                "direct takes any size"
            )
    if isinstance(plan.value(name), SSAValue) and not (
        layout.is_contiguous(1) or layout.is_contiguous(2)
    ):
        yield f"{name}: rows, but no two neighbours lie side by side: direct packs them"
        return
    other = 1 if plan.by_inner(name) else 2
    columns = packing.fragment_sizes[2 - other]
    alignment = plan.count_aligned(columns, plan.element)
    steps = [axis.stride for walk in (layout.walks[0], layout.walks[other]) for axis in walk]
    if not all(is_multiple(step, alignment) for step in steps):
        yield (
            f"{name}: rows, but its rows do not all begin at a multiple of {alignment} "
            "elements, as cooperative loads need: direct packs them"
        )


def count_registers(plan: AttentionPlan) -> int:
    """32-bit registers for fragments: loop state, scores, and the operands of one product."""
    m, n, k = plan.schedule.instruction.sizes
    schedule, size = plan.schedule, plan.target.subgroup_size
    left, right = ceil_div(m * k, 2 * size), ceil_div(n * k, 2 * size)
    results = schedule.strips * plan.columns * plan.components
    scores = schedule.strips * plan.key_fragments * plan.components
    queries = schedule.strips * left * (plan.steps if schedule.holds_queries else 1)
    if schedule.in_registers:
        scores *= 1 + plan.pipeline(False).tiles_ahead(Stage.SCORES)
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
    pipeline = plan.pipeline(False)
    keys = pipeline.tiles_ahead(Stage.READ_KEYS) - pipeline.tiles_ahead(Stage.SCORES)
    values = plan.schedule.ahead.data != "none"
    return fragment * (keys * plan.steps + values * plan.columns)
