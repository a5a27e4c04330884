"""Checks that an attention's schedule of matrices fits a target; each error text names a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute

from xdsl_spirv.dialects.schedule import AttentionAttr, AttentionLanesAttr, PackedViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, is_multiple
from xdsl_spirv.passes.analysis.contraction import element_type, type_name
from xdsl_spirv.passes.schedule.attention import FLOATS, WORDS, AttentionPlan
from xdsl_spirv.passes.schedule.attention_packing import PackedOperand
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.pipeline import STAGED_ATTENTION
from xdsl_spirv.targets import CONVERSIONS, PER_ELEMENT, REDUCTIONS, Target

Schedule: TypeAlias = AttentionAttr | AttentionLanesAttr

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
    whole = schedule.are_converted and schedule.rescale.data == "always"
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
    """Returns the number of subgroups of a workgroup that run concurrently at full speed."""
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
    if schedule.are_converted:
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
        elif plan.path(name) == "direct" and PackedOperand(plan, name).tile.words not in (1, 2, 4):
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
    packing = PackedOperand(plan, name).packing
    for size, tile, what in zip(packing.extents[1:], packing.tile, ("M or N", "K"), strict=True):
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
    alignment = plan.count_aligned(columns, plan.element)
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
