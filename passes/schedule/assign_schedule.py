"""
A schedule for every contraction, from the target's data and the shape.

The target's file lists tiles that do well on it. The fitting tile with the least estimated time is
taken (see `cost`): a large result gets large tiles, and a small one enough workgroups to go round.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionMergeOp,
    AttentionOp,
    ContractionAttr,
    DirectAttr,
    DispatchOp,
    PackOp,
    RowsAttr,
    WindowAttr,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import TYPICAL, TYPICAL_SIZE, typical
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.target import TARGET, load_target
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.passes.schedule.fit import not_listed
from xdsl_spirv.passes.schedule.kinds import KINDS, ScheduleDoesNotFit, check, kind_of, plan_of
from xdsl_spirv.passes.schedule.paths import (
    ATTENTION,
    COOPERATIVE_MATRIX,
    FEW_FOR_MATRICES,
    LOOPS,
    ROTATE,
    ROWS,
    Decisions,
    Limits,
    no_few_rows,
    no_window,
    why_rows,
)
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.rows import RowsPlan
    from xdsl_spirv.passes.schedule.window import WindowPlan


@dataclass(frozen=True)
class AssignSchedulePass(ModulePass):
    """Chooses a schedule for each contraction without one, and checks given ones."""

    name = "assign-schedule"

    target: str = ""
    """A known device's name or the path of a target file."""

    typical_size: int = TYPICAL
    """The number assumed for a dynamic size when schedules are compared."""

    only: tuple[str, ...] = ()
    """The layers that alone may take a path, each as PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """The layers that may not take a path, each as PATH=PATTERN."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = op.attributes.get(TARGET)
        name = self.target or (known.data if isinstance(known, StringAttr) else "")
        target = load_target(name, op, self.name)
        op.attributes[TARGET] = StringAttr(name)
        decisions = Decisions(Limits(self.only, self.barred))
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
                reason = "channels lie side by side: loops along them move vectors"
                decisions.note(inner, LOOPS, reason, taken=True)
                continue
            self._assign(contraction, choices)
        for inner, schedule in choices.schedules.items():
            inner.attributes[SCHEDULE] = schedule
        for inner in op.walk():
            if isinstance(inner, AttentionOp):
                self._assign_attention(inner, choices)
        for inner in op.walk():
            if isinstance(inner, DispatchOp) and SCHEDULE not in inner.attributes:
                if not any(map(_needs_none, inner.body.walk())):
                    from xdsl_spirv.passes.schedule.loops_schedule import choose_loops

                    inner.attributes[SCHEDULE] = choose_loops(inner, target, self.name)

    def _assign_attention(self, op: AttentionOp, choices: _Choices) -> None:
        from xdsl_spirv.passes.schedule.attention_choice import choose_attention

        try:
            if SCHEDULE in op.attributes:
                choices.take_given(op)
                return
            op.attributes[SCHEDULE] = choose_attention(op, choices.target)
            reason = "scores, softmax and values in one kernel"
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
            hint = _nearest(contraction, given, choices.target) if given is not None else ""
            refuse(self.name, op, f"{contraction}: {error}{hint}")


Schedule: TypeAlias = ContractionAttr | WindowAttr | RowsAttr


class _Choices:
    """
    The schedules that were chosen; equal dispatches share one.

    A network repeats its layers, and a hundred schedules are compared for each different one.
    """

    def __init__(self, target: Target, decisions: Decisions):
        self.target, self.decisions = target, decisions
        self.schedules: dict[Operation, Schedule] = {}
        self._known: dict[tuple[object, ...], list[Contraction]] = {}

    def take_given(self, op: Operation) -> None:
        """Checks the schedule that an operation has; raises `ScheduleDoesNotFit`."""
        plan_of(op, self.target)
        path = KINDS[kind_of(op) or ""].path
        self.decisions.note(op, path, "its schedule was given", taken=True)

    def choose(self, contraction: Contraction) -> None:
        """Chooses a schedule; raises `ScheduleDoesNotFit` if none fits."""
        op = contraction.op
        dispatch = op.parent_op()
        # With limits, dispatches that are alike but for their names may take other paths.
        if not isinstance(dispatch, DispatchOp) or self.decisions.limits:
            self.schedules[op] = decide(contraction, self.target, self.decisions)
            return
        inside = list(dispatch.body.walk())
        weights = is_weight(contraction.a), is_weight(contraction.b)
        key = inside.index(op), weights, *(inner.name for inner in inside)
        for other in self._known.get(key, ()):
            from xdsl_spirv.upstream.equality import is_same

            like = other.op.parent_op()
            if isinstance(like, DispatchOp) and is_same(like.body, dispatch.body):
                self.decisions.repeat(op, other.op)
                self.schedules[op] = self.schedules[other.op]
                return
        self.schedules[op] = decide(contraction, self.target, self.decisions)
        self._known.setdefault(key, []).append(contraction)


def _needs_none(op: Operation) -> bool:
    """True if the operation has a schedule, or never needs one."""
    return SCHEDULE in op.attributes or isinstance(op, PackOp | AttentionMergeOp)


def _nearest(contraction: Contraction, given: Attribute, target: Target) -> str:
    """Names the fitting schedule that is most like the refused one, to end the refusal."""
    if isinstance(given, WindowAttr):
        window = window_or_reason(contraction, target)
        return "" if isinstance(window, str) else f"; {window.schedule} fits"
    if not isinstance(given, ContractionAttr):
        return ""
    fitting = [
        candidate.schedule
        for _, candidates in candidates_of(contraction, target)
        for candidate in candidates
        if not any(candidate.problems())
    ]
    if not fitting:
        return f"; {target.name} has no schedule for it"
    best = min(fitting, key=lambda schedule: _distance(given, schedule))
    return f"; the nearest schedule that fits is {best}"


def _distance(one: ContractionAttr, other: ContractionAttr) -> tuple[float, ...]:
    """Ranks schedules by likeness: first by instruction kind, then by doublings of sizes."""
    kinds = one.instruction.kind.data != other.instruction.kind.data
    sizes = [
        abs(log2(x / y))
        for a, b in (
            (one.tile, other.tile),
            (one.grid, other.grid),
            ((one.slices,), (other.slices,)),
            (one.instruction.sizes, other.instruction.sizes),
        )
        for x, y in zip(a, b, strict=True)
    ]
    paths = sum(type(x) is not type(y) for x, y in ((one.a, other.a), (one.b, other.b)))
    return float(kinds), sum(sizes) + paths


def decide(contraction: Contraction, target: Target, decisions: Decisions) -> Schedule:
    """
    The schedule that was measured, or else a window's where that pays, or else the cheapest.

    Records why a path was not taken. Raises `ScheduleDoesNotFit` where none is left.
    """
    op = contraction.op
    known = lookup(contraction, target)
    path = COOPERATIVE_MATRIX if known is None else KINDS[known.kind].path
    if known is not None and not decisions.bars(op, path):
        decisions.note(op, path, f"measured to be the fastest on {target.name}", taken=True)
        return known
    if not decisions.bars(op, ROTATE):
        window = window_or_reason(contraction, target)
        if not isinstance(window, str):
            reason = "a depthwise convolution: tiles would be nearly empty"
            decisions.note(op, ROTATE, reason, taken=True)
            return window.schedule
        decisions.note(op, ROTATE, window)
    if not decisions.bars(op, ROWS):
        rows = choose_rows(contraction, target, decisions)
        if not isinstance(rows, str):
            _note_missing_matrices(contraction, target, decisions)
            decisions.note(op, ROWS, why_rows(contraction), taken=True)
            return rows.schedule
        decisions.note(op, ROWS, rows)
    return cheapest(contraction, target, decisions).schedule


def _note_missing_matrices(contraction: Contraction, target: Target, decisions: Decisions) -> None:
    """Notes that a target has no cooperative matrices of a contraction's types, if that is so."""
    if not target.properties_for(contraction.types):
        reason = not_listed(contraction.types, target)
        decisions.note(contraction.op, COOPERATIVE_MATRIX, reason)


def window_or_reason(contraction: Contraction, target: Target) -> WindowPlan | str:
    """The window schedule's plan, or why there is none. Imports `window` only when it may apply."""
    reason = no_window(contraction)
    if reason:
        return reason
    from xdsl_spirv.passes.schedule.window import window_or_reason as window

    return window(contraction, target)


def choose_rows(contraction: Contraction, target: Target, decisions: Decisions) -> RowsPlan | str:
    """The plan for few rows, or why there is none, such as that matrices are faster."""
    reason = no_few_rows(contraction, target)
    if reason:
        return reason
    from xdsl_spirv.passes.schedule.rows_candidates import rows_or_reason

    rows = rows_or_reason(contraction, target)
    matrices = target.measured_copy is not None and not target.processor
    if isinstance(rows, str) or not matrices or not target.properties_for(contraction.types):
        return rows
    try:
        tiled = cheapest(contraction, target, Decisions(decisions.limits))
    except (ScheduleDoesNotFit, NotAContraction):
        return rows
    seconds = max(tiled.seconds, rows.seconds_of_reading)
    if not tiled.schedule.is_cooperative or seconds >= rows.seconds:
        return rows
    # Through Workgroup memory, with barriers, an operand does not stream as fast as estimated.
    path = (tiled.schedule.a, tiled.schedule.b)[rows.operands.streamed]
    few = min(typical(contraction.m), typical(contraction.n))
    if not isinstance(path, DirectAttr) and few <= FEW_FOR_MATRICES:
        return rows
    return f"about {rows.seconds * 1e6:.0f} us by estimate, on matrices {seconds * 1e6:.0f}"


def choose(contraction: Contraction, target: Target) -> ContractionAttr:
    """Returns the schedule from `cheapest`; raises `ScheduleDoesNotFit` if none fits."""
    return cheapest(contraction, target, Decisions()).schedule


def cheapest(contraction: Contraction, target: Target, decisions: Decisions) -> Plan:
    """
    The cheapest of the target's tiles, with the first instruction in its list that fits any.

    Where the target lists no cooperative matrix of these types, invocations compute by themselves:
    8-bit integers by packed dot products where it has them, all else by multiply-adds.
    Raises `ScheduleDoesNotFit` where none fits.
    """
    op = contraction.op
    _note_missing_matrices(contraction, target, decisions)
    rejected: list[Plan] = []
    excluded: dict[str, None] = {}
    for path, candidates in candidates_of(contraction, target):
        if decisions.bars(op, path):
            excluded[path] = None
            continue
        best: Plan | None = None
        problems: Counter[str] = Counter()
        fitting = 0
        for candidate in candidates:
            if best is not None and candidate.seconds >= best.seconds:
                fitting += 1
                continue
            problem = next(candidate.problems(), None)
            if problem is not None:
                rejected.append(candidate)
                problems[problem] += 1
            else:
                best = candidate
                fitting += 1
        if best is not None:
            decisions.note(op, path, f"the cheapest of {fitting} tiles by estimate", taken=True)
            return best
        decisions.note(op, path, _reason(problems, target))
    if excluded:
        raise ScheduleDoesNotFit(f"no path is left for it where {', '.join(excluded)} is barred")
    check(rejected[-1])
    raise ScheduleDoesNotFit(f"{target.name} has no schedule for it")


def _reason(problems: Counter[str], target: Target) -> str:
    """The reason why no candidate of a path fits: what hinders most of them."""
    if not problems:
        return f"none of {target.name}'s tiles is made of such fragments"
    problem, count = problems.most_common(1)[0]
    total = problems.total()
    return problem if total == count else f"{problem} (so {count} of {total} tiles)"
