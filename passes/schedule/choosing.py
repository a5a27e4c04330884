"""
Chooses a contraction's schedule: one loop over the kinds of kernels and their candidates.

A kind is registered once, in `kinds`, with the function that lists its candidates. Each candidate
is a plan, which tells whether it fits and how long it is likely to take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import log2
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute

from xdsl_spirv.dialects.schedule import ScheduleAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction
from xdsl_spirv.passes.schedule.kinds import KINDS, ContractionPlan, Kind, ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.paths import COOPERATIVE_MATRIX, PATHS, Decisions, why_rows
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.rows import RowsPlan


def decide(contraction: Contraction, target: Target, decisions: Decisions) -> ScheduleAttr:
    """
    Returns the schedule that was measured to be the fastest, or else the best by estimate.

    Raises `ScheduleDoesNotFit` if none is left.
    """
    op, known = contraction.op, lookup(contraction, target)
    if known is not None and not decisions.bars(op, path := KINDS[known.kind].path):
        decisions.note(op, path, f"measured to be the fastest on {target.name}", taken=True)
        return known
    return choose(contraction, target, decisions).schedule


def choose(
    contraction: Contraction,
    target: Target,
    decisions: Decisions,
    paths: Collection[str] = PATHS,
) -> ContractionPlan:
    """
    Chooses the plan of the first kind that has one which fits, among the kinds with these paths.

    Records why a path was taken or not. Raises `ScheduleDoesNotFit` if no path is left.
    """
    op = contraction.op
    barred: dict[str, None] = {}
    rejected: ContractionPlan | None = None
    kinds = [kind for kind in KINDS.values() if kind.candidates and kind.path in paths]
    for kind in list(kinds):
        if decisions.bars(op, kind.path):
            barred[kind.path] = None
            kinds.remove(kind)
        elif kind.excluded and (reason := kind.call(kind.excluded, contraction, target)):
            decisions.note(op, kind.path, reason)
            kinds.remove(kind)
    for kind, candidates in _list_candidates(contraction, target, kinds):
        best: ContractionPlan | None = None
        problems: Counter[str] = Counter()
        fitting = 0
        for candidate in candidates:
            if best is None or candidate.seconds < best.seconds:
                if (problem := _find_problem(candidate)) is not None:
                    problems[problem] += 1
                    rejected = candidate
                    continue
                best = candidate
                if kind.judge:
                    break
            fitting += 1
        if best is None:
            decisions.note(op, kind.path, _explain(problems, target))
            continue
        taken, reason = True, f"the cheapest of {fitting} tiles by estimate"
        if kind.judge:
            taken, reason = kind.call(kind.judge, best, decisions)
        decisions.note(op, kind.path, reason, taken)
        if taken:
            return best
    if barred:
        raise ScheduleDoesNotFit(f"no path is left for it where {', '.join(barred)} is barred")
    if rejected is not None:
        check(rejected)
    raise ScheduleDoesNotFit(f"{target.name} has no schedule for it")


def _list_candidates(
    contraction: Contraction, target: Target, kinds: Sequence[Kind]
) -> Iterator[tuple[Kind, Iterator[ContractionPlan]]]:
    """Lists the groups of candidates of each kind."""
    for kind in kinds:
        for candidates in kind.call(kind.candidates, contraction, target):
            yield kind, candidates


def _find_problem(plan: ContractionPlan) -> str | None:
    """Returns the first reason why a plan does not fit; None if it fits."""
    try:
        return next(plan.problems(), None)
    except NotAContraction as error:
        return str(error)


def _explain(problems: Counter[str], target: Target) -> str:
    """Says why no candidate of a kind fits: what hinders most of them."""
    if not problems:
        return f"none of {target.name}'s tiles is made of such fragments"
    problem, count = problems.most_common(1)[0]
    total = problems.total()
    return problem if total == count else f"{problem} (so {count} of {total} candidates)"


def judge_window(plan: ContractionPlan, decisions: Decisions) -> tuple[bool, str]:
    """Takes a window wherever one fits."""
    return True, "a depthwise convolution: tiles would be nearly empty"


def judge_rows(plan: RowsPlan, decisions: Decisions) -> tuple[bool, str]:
    """Takes few rows unless matrices are faster by estimate; says why."""
    contraction, target = plan.contraction, plan.target
    if target.measured_copy is not None and not target.processor:
        try:
            tiles = choose(contraction, target, Decisions(decisions.limits), (COOPERATIVE_MATRIX,))
        except (ScheduleDoesNotFit, NotAContraction):
            return True, why_rows(contraction, target)
        seconds = max(tiles.seconds, plan.seconds_of_reading)
        # Through Workgroup memory, with barriers, an operand does not stream as fast as estimated.
        direct = plan.operands.streamed in tiles.schedule.direct
        few = min(typical(contraction.m), typical(contraction.n))
        if seconds < plan.seconds and (direct or few > target.model.rows.few_for_matrices):
            by_rows = f"about {plan.seconds * 1e6:.0f} us by estimate"
            return False, f"{by_rows}, on matrices {seconds * 1e6:.0f}"
    return True, why_rows(contraction, target)


def find_nearest(
    contraction: Contraction, given: ScheduleAttr, target: Target
) -> ScheduleAttr | None:
    """Returns the schedule of the same kind that fits and is most like the given one."""
    kinds = [kind for kind in KINDS.values() if kind.planner == KINDS[given.kind].planner]
    fitting = [
        candidate.schedule
        for _, candidates in _list_candidates(contraction, target, kinds)
        for candidate in candidates
        if _find_problem(candidate) is None
    ]
    return min(
        fitting, key=lambda s: (s.kind != given.kind, _measure_distance(given, s)), default=None
    )


def _measure_distance(one: Attribute, other: Attribute) -> float:
    """Adds up the differences of schedules: doublings of numbers, and 1 for any other."""
    match one, other:
        case IntAttr(), IntAttr():
            return abs(log2(max(one.data, 0.5) / max(other.data, 0.5)))
        case ArrayAttr(), ArrayAttr():
            pairs = zip(one.data, other.data, strict=False)
        case ParametrizedAttribute(), ParametrizedAttribute() if type(one) is type(other):
            pairs = zip(one.parameters, other.parameters, strict=True)
        case _:
            return float(one != other)
    return sum(_measure_distance(*pair) for pair in pairs)
