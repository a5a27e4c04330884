"""
Chooses a schedule for every contraction, from the shape and the target file's data.

The target file lists tiles that are fast on the device. The pass takes the fitting tile with the
least estimated time (see `cost`). Large results therefore get large tiles, and small results get
enough workgroups for all compute units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, Region

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionOp,
    DispatchOp,
    ScheduleAttr,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import TYPICAL, TYPICAL_SIZE, typical
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.target import TARGET, load_target
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.kinds import (
    KINDS,
    ContractionPlan,
    Kind,
    ScheduleDoesNotFit,
    check,
    kind_of,
    load_function,
    plan_of,
    root_of,
)
from xdsl_spirv.passes.schedule.paths import (
    ATTENTION,
    COOPERATIVE_MATRIX,
    LOOPS,
    PATHS,
    Decisions,
    LimitedPass,
    Limits,
    why_rows,
)
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.rows import RowsPlan


@dataclass(frozen=True)
class AssignSchedulePass(LimitedPass):
    """Chooses a schedule for each operation that has none, and checks the schedules that exist."""

    name = "assign-schedule"

    target: str = ""
    """Name of a known device or path of a target file."""

    typical_size: int = TYPICAL
    """Size that replaces each dynamic size when schedules are compared."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = op.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        target = load_target(name, op, self.name)
        op.attributes[TARGET] = StringAttr(name)
        decisions = Decisions(self.limits)
        if self.typical_size != TYPICAL:
            op.attributes[TYPICAL_SIZE] = IntegerAttr(self.typical_size, i64)
        self._assign_all(op, target, decisions)
        decisions.write()

    def _assign_all(self, op: ModuleOp, target: Target, decisions: Decisions) -> None:
        choices = _Choices(target, decisions)
        for inner in op.walk():
            if not isinstance(inner, LinalgStructuredOperation):
                continue
            try:
                contraction = contraction_of(inner)
            except NotAContraction as error:
                decisions.note(inner, LOOPS, str(error), taken=True)
                continue
            own = SCHEDULE in inner.attributes or not isinstance(inner.parent_op(), DispatchOp)
            if contraction.channels_lie_side_by_side and not own:
                reason = "channels are contiguous, so loops along channels move vectors"
                decisions.note(inner, LOOPS, reason, taken=True)
                continue
            self._assign(contraction, choices)
        for inner, schedule in choices.schedules.items():
            inner.attributes[SCHEDULE] = schedule
        for inner in op.walk():
            if isinstance(inner, AttentionOp):
                self._assign_attention(inner, choices)
        for inner in op.walk():
            if isinstance(inner, DispatchOp) and root_of(inner) is None:
                from xdsl_spirv.passes.schedule.loops_schedule import choose_loops

                inner.attributes[SCHEDULE] = choose_loops(inner, target, self.name)

    def _assign_attention(self, op: AttentionOp, choices: _Choices) -> None:
        from xdsl_spirv.passes.schedule.attention_choice import choose_attention

        try:
            if SCHEDULE in op.attributes:
                choices.take_given(op)
                return
            op.attributes[SCHEDULE] = choose_attention(op, choices.target)
            reason = "one kernel computes scores, softmax and result"
            choices.decisions.note(op, ATTENTION, reason, taken=True)
        except ScheduleDoesNotFit as error:
            refuse(self.name, op, str(error))

    def _assign(self, contraction: Contraction, choices: _Choices) -> None:
        op = contraction.op
        given = op.attributes.get(SCHEDULE)
        try:
            if given is None:
                choices.choose(contraction)
            else:
                choices.take_given(op)
        except (ScheduleDoesNotFit, NotAContraction) as error:
            hint = _nearest(contraction, choices.target)
            refuse(self.name, op, f"{contraction}: {error}{hint}")


class _Choices:
    """
    The schedules that were chosen so far. Dispatches that are equal get the same schedule.

    A network repeats its layers, and choosing compares a hundred schedules for each different
    layer.
    """

    def __init__(self, target: Target, decisions: Decisions):
        self.target, self.decisions = target, decisions
        self.schedules: dict[Operation, ScheduleAttr] = {}
        self._known: dict[tuple[object, ...], list[tuple[Operation, Region]]] = {}

    def take_given(self, op: Operation) -> None:
        """Checks the operation's own schedule; raises `ScheduleDoesNotFit`."""
        plan_of(op, self.target)
        path = KINDS[kind_of(op) or ""].path
        self.decisions.note(op, path, "the operation already had a schedule", taken=True)

    def choose(self, contraction: Contraction) -> None:
        """
        Chooses the schedule that was measured as the fastest, else the one with the best estimate.

        Raises `ScheduleDoesNotFit` if no schedule fits.
        """
        op = contraction.op
        if (like := self._find_like(contraction)) is not None:
            self.decisions.repeat(op, like)
            self.schedules[op] = self.schedules[like]
            return
        known = lookup(contraction, self.target)
        if known is not None and not self.decisions.bars(op, path := KINDS[known.kind].path):
            reason = f"measured as the fastest on {self.target.name}"
            self.decisions.note(op, path, reason, taken=True)
            self.schedules[op] = known
        else:
            self.schedules[op] = choose(contraction, self.target, self.decisions).schedule

    def _find_like(self, contraction: Contraction) -> Operation | None:
        """
        Returns the first operation that is in an equal dispatch. If there is none, records this
        operation as the first and returns None.
        """
        op, dispatch = contraction.op, contraction.op.parent_op()
        # Limits match names: dispatches that differ only in names may take different paths.
        if not isinstance(dispatch, DispatchOp) or self.decisions.limits:
            return None
        inside = list(dispatch.body.walk())
        weights = is_weight(contraction.a), is_weight(contraction.b)
        key = inside.index(op), weights, *(inner.name for inner in inside)
        for other, body in self._known.get(key, ()):
            from xdsl_spirv.upstream.equality import is_same

            if is_same(body, dispatch.body):
                return other
        self._known.setdefault(key, []).append((op, dispatch.body))
        return None


def _nearest(contraction: Contraction, target: Target) -> str:
    """
    Returns text for an error message: the fitting schedule that is most similar to the given one.
    """
    given = schedule_of(contraction.op)
    if given is None or given.kind not in KINDS or not KINDS[given.kind].candidates:
        return ""
    nearest = find_nearest(contraction, given, target)
    if nearest is None:
        return f"; no #{given.name} fits {target.name}"
    return f"; the nearest schedule that fits is {nearest}"


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
        elif kind.excluded and (reason := load_function(kind.excluded)(contraction, target)):
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
        taken, reason = True, f"the fastest fitting tile of {count}, by estimate"
        if kind.judge:
            taken, reason = load_function(kind.judge)(best, decisions)
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
        for candidates in load_function(kind.candidates)(contraction, target):
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
    """
    Returns False if matrices are estimated to be faster than this plan, otherwise True. Also
    returns the reason.
    """
    contraction, target = plan.contraction, plan.target
    if target.measured_copy is not None and not target.processor:
        tiles = try_plan(contraction, target, decisions.limits, (COOPERATIVE_MATRIX,))
        if tiles is None:
            return True, why_rows(contraction, target)
        seconds = max(tiles.seconds, plan.seconds_of_reading)
        # A staged operand streams more slowly than estimated, because of the barriers.
        direct = plan.streamed in tiles.schedule.direct
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
