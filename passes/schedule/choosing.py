"""
Chooses a contraction's schedule among the candidates of all kernel kinds.

Each kind is registered in `kinds` with a function that lists its candidates. A candidate is a
plan, which checks itself and estimates its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from math import log2
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, ParametrizedAttribute

from xdsl_spirv.dialects.schedule import ScheduleAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.kinds import KINDS, ContractionPlan, Kind, ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.paths import COOPERATIVE_MATRIX, PATHS, Decisions, Limits, why_rows
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.rows import RowsPlan


def try_plan(
    product: Contraction | LinalgStructuredOperation,
    target: Target,
    limits: Limits,
    paths: Collection[str] = PATHS,
) -> ContractionPlan | None:
    """Returns the plan that `choose` would choose for a product; None if no schedule fits."""
    try:
        of = product if isinstance(product, Contraction) else contraction_of(product)
        return choose(of, target, Decisions(limits), paths)
    except (ScheduleDoesNotFit, NotAContraction):
        return None


def choose(
    contraction: Contraction,
    target: Target,
    decisions: Decisions,
    paths: Collection[str] = PATHS,
) -> ContractionPlan:
    """
    Chooses the best plan of the first kernel kind that has a fitting plan.

    Only kinds with one of `paths` are tried. Records the reason for and against each path. Raises
    `ScheduleDoesNotFit` if no path is left.
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
        count = 0
        for count, candidate in enumerate(candidates, 1):
            if best is not None and candidate.seconds >= best.seconds:
                continue
            if (problem := _find_problem(candidate)) is not None:
                problems[problem] += 1
                rejected = candidate
                continue
            best = candidate
            if kind.judge:
                break
        if best is None:
            decisions.note(op, kind.path, _explain(problems, target))
            continue
        taken, reason = True, f"the fastest of {count} tiles that fits, by estimate"
        if kind.judge:
            taken, reason = kind.call(kind.judge, best, decisions)
        decisions.note(op, kind.path, reason, taken)
        if taken:
            return best
    if barred:
        raise ScheduleDoesNotFit(f"no path is left: the options must allow {' or '.join(barred)}")
    if rejected is not None:
        check(rejected)
    raise ScheduleDoesNotFit(f"no schedule fits {target.name}")


def _list_candidates(
    contraction: Contraction, target: Target, kinds: Sequence[Kind]
) -> Iterator[tuple[Kind, Iterator[ContractionPlan]]]:
    for kind in kinds:
        for candidates in kind.call(kind.candidates, contraction, target):
            yield kind, candidates


def _find_problem(plan: ContractionPlan) -> str | None:
    try:
        return next(plan.problems(), None)
    except NotAContraction as error:
        return str(error)


def _explain(problems: Counter[str], target: Target) -> str:
    """Returns the most frequent problem of the candidates, with its share."""
    if not problems:
        return f"no tile of {target.name} is a multiple of this fragment shape"
    problem, count = problems.most_common(1)[0]
    total = problems.total()
    return problem if total == count else f"{problem} (so {count} of {total} candidates)"


def judge_window(plan: ContractionPlan, decisions: Decisions) -> tuple[bool, str]:
    """Accepts every plan. Returns True, and the reason as a text."""
    return True, "tiles would be nearly empty in a depthwise convolution"


def judge_rows(plan: RowsPlan, decisions: Decisions) -> tuple[bool, str]:
    """Returns True unless matrices are estimated to be faster than this plan, and the reason."""
    contraction, target = plan.contraction, plan.target
    if target.measured_copy is not None and not target.processor:
        tiles = try_plan(contraction, target, decisions.limits, (COOPERATIVE_MATRIX,))
        if tiles is None:
            return True, why_rows(contraction, target)
        seconds = max(tiles.seconds, plan.seconds_of_reading)
        # A staged operand streams more slowly than estimated, because of the barriers.
        direct = plan.operands.streamed in tiles.schedule.direct
        few = min(typical(contraction.m), typical(contraction.n))
        if seconds < plan.seconds and (direct or few > target.model.rows.few_for_matrices):
            by_rows = f"about {plan.seconds * 1e6:.0f} us by estimate"
            return False, f"{by_rows}, on matrices {seconds * 1e6:.0f}"
    return True, why_rows(contraction, target)


def find_nearest(
    contraction: Contraction, given: ScheduleAttr, target: Target
) -> ScheduleAttr | None:
    """Returns the fitting schedule of the same kind that differs least from the given one."""
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
