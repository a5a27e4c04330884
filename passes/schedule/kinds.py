"""
The kinds of kernels, each registered once.

A kind says how an operation is planned: a `KernelPlan` has the launch, the kernel's name and the
problems of the schedule. The passes that choose, check, outline and write kernels ask for a plan by
`plan_of`, and do not know which kinds there are. The code of a kind is registered by the pass that
writes it (`KernelPass` of `passes/kernel`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionMergeOp,
    AttentionOp,
    CollectiveOp,
    DispatchOp,
    PackingAttr,
    PackOp,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.paths import (
    ATTENTION,
    COOPERATIVE_MATRIX,
    DOT,
    FMA,
    LOOPS,
    PACK,
    ROTATE,
    ROWS,
)
from xdsl_spirv.targets import Target

if TYPE_CHECKING:
    from xdsl_spirv.passes.analysis.loops_arrays import Result


def _load(place: str) -> Callable[..., Any]:
    """Imports `module:name` of this folder."""
    module, name = place.split(":")
    return getattr(import_module(f"xdsl_spirv.passes.schedule.{module}"), name)


class ScheduleDoesNotFit(ValueError):
    """A schedule that the target or the operation cannot take; the message says why."""


class KernelPlan(ABC):
    """An operation with its schedule on a target, before its code is written."""

    target: Target

    CHECKS: ClassVar[str] = ""
    """`module:function` of this folder that lists the problems, if the class does not."""

    SECONDS: ClassVar[str] = ""
    """`module:function` of this folder that estimates the seconds, if the class does not."""

    PACKINGS: ClassVar[str] = ""
    """`module:function` of this folder that lists `packings`, if operands may be packed."""

    @property
    @abstractmethod
    def grid(self) -> tuple[Size, Size, Size]:
        """Workgroups in x, y and z."""

    @property
    @abstractmethod
    def invocations(self) -> int:
        """Invocations of a workgroup."""

    @property
    @abstractmethod
    def kernel_name(self) -> str:
        """The kernel's name, which has its sizes."""

    @property
    def workgroup_bytes(self) -> int:
        """Bytes of Workgroup memory."""
        return 0

    @property
    def parts_of_memory(self) -> str:
        """Text for an error: the parts of Workgroup memory; empty if there is only one."""
        return ""

    @property
    def smaller(self) -> str:
        """Names a schedule that takes less Workgroup memory."""
        return "fewer subgroups, rows, columns or keys would fit"

    @property
    def product(self) -> Contraction | None:
        """The contraction that the kernel computes, if it computes one."""
        return None

    @property
    def has_loops(self) -> bool:
        """True if the kernel computes operations by loops over their elements."""
        return False

    def busy_workgroups(self, results: Callable[[], Sequence[Result]]) -> Size | None:
        """Workgroups that have something to do, if `results` of the kernel's code tell."""
        return None

    def packings(self) -> Iterator[tuple[int, PackingAttr, Sequence[Size]]]:
        """Lists the operands to pack before: number, packing, and its open sizes."""
        return _load(self.PACKINGS)(self) if self.PACKINGS else iter(())

    @cached_property
    def seconds(self) -> float:
        """Estimated duration; where nothing estimates it, that of starting a kernel."""
        if self.SECONDS:
            return _load(self.SECONDS)(self)
        return self.target.model.dispatch_seconds

    def problems(self) -> Iterator[str]:
        """Lists why the schedule does not fit, each with the number and the nearest that would."""
        return _load(self.CHECKS)(self) if self.CHECKS else self.launch_problems()

    def launch_problems(self) -> Iterator[str]:
        """Lists the limits of the target that a workgroup, or the number of them, exceeds."""
        target, size = self.target, self.target.subgroup_size
        most = min(target.max_invocations, target.max_workgroup_size[0])
        if self.invocations > most:
            yield (
                f"{self.invocations // size} subgroups of {size} are {self.invocations} "
                f"invocations, {target.name} allows {most}: at most {most // size} subgroups"
            )
        if self.workgroup_bytes > target.workgroup_memory_bytes:
            yield (
                f"Workgroup memory of {self.workgroup_bytes} bytes{self.parts_of_memory} exceeds "
                f"{target.name}'s {target.workgroup_memory_bytes}: {self.smaller}"
            )
        for axis, count, limit in zip("xyz", self.grid, target.max_grid, strict=True):
            if not is_dynamic(count) and count > limit:
                yield (
                    f"{count} workgroups in {axis}, {target.name} allows {limit}: more of the "
                    "result for each would fit"
                )


class ContractionPlan(KernelPlan):
    """A contraction with its schedule on a target."""

    contraction: Contraction
    schedule: Any

    @property
    def path(self) -> str:
        """The path that the schedule takes."""
        return KINDS[self.schedule.kind].path

    @property
    def product(self) -> Contraction:
        return self.contraction

    @property
    def has_loops(self) -> bool:
        return self.contraction.epilogue.source is not None

    @property
    def kernel_name(self) -> str:
        return self.contraction.kernel_name


def check(plan: KernelPlan) -> None:
    """Raises `ScheduleDoesNotFit` with every reason why the plan cannot be carried out."""
    problems = list(plan.problems())
    if problems:
        raise ScheduleDoesNotFit("; ".join(problems))


CONTRACTION, DISPATCH = LinalgStructuredOperation, DispatchOp | CollectiveOp


@dataclass(frozen=True)
class Kind:
    """
    A kind of kernel: the path that `explain` names, the operations that it computes, and what to
    call for them: each a `module:name` of this folder.
    """

    path: str
    computes: type | UnionType
    planner: str
    """Plans an operation, or a contraction, with its schedule on a target."""

    candidates: str = ""
    """
    Lists plans to try for a contraction on a target, in groups: the plan of least estimated time is
    taken from the first group that has one which fits.
    """

    excluded: str = ""
    """Says why a contraction has no candidates on a target, by its sizes and types alone, or ""."""

    judge: str = ""
    """
    Says whether a plan is taken, and why; then candidates come best first, and the first that fits
    is judged.
    """

    @staticmethod
    def call(place: str, *of: Any) -> Any:
        """Calls a function of this folder that is registered as `module:name`."""
        return _load(place)(*of)


KINDS: dict[str, Kind] = {
    "window": Kind(
        ROTATE,
        CONTRACTION,
        "window:WindowPlan",
        "window:list_plans",
        "paths:no_window",
        "choosing:judge_window",
    ),
    "rows": Kind(
        ROWS,
        CONTRACTION,
        "rows:RowsPlan",
        "rows_candidates:list_plans",
        "paths:no_few_rows",
        "choosing:judge_rows",
    ),
    "coopmat": Kind(
        COOPERATIVE_MATRIX,
        CONTRACTION,
        "plan:plan",
        "contraction_candidates:by_matrices",
        "paths:no_matrices",
    ),
    "dot": Kind(DOT, CONTRACTION, "plan:plan", "contraction_candidates:by_dots"),
    "fma": Kind(FMA, CONTRACTION, "plan:plan", "contraction_candidates:by_multiply_adds"),
    "attention": Kind(ATTENTION, AttentionOp, "attention:AttentionPlan"),
    "attention_lanes": Kind(ATTENTION, AttentionOp, "attention_lanes:LanesPlan"),
    "attention_merge": Kind(ATTENTION, AttentionMergeOp, "attention_merge:MergePlan"),
    "pack": Kind(PACK, PackOp, "packing:plan_fragments"),
    "pack_panels": Kind(PACK, PackOp, "packing:plan_panels"),
    "loops": Kind(LOOPS, DISPATCH, "loops_schedule:LoopsPlan"),
}
"""
The kinds by the names of their schedules (a contraction's by its instruction), or of their
operations, if these have no schedule. A contraction tries its kinds in this order.
"""


def kind_of(op: Operation) -> str | None:
    """Returns the name of an operation's kind; None if it has no schedule and needs one."""
    if (schedule := schedule_of(op)) is not None:
        return schedule.kind
    if isinstance(op, PackOp):
        return "pack_panels" if op.packing.is_panels else "pack"
    return "attention_merge" if isinstance(op, AttentionMergeOp) else None


def root_of(parent: DispatchOp | CollectiveOp) -> Operation | None:
    """The operation that a kernel is scheduled by; None if nothing is scheduled."""
    if SCHEDULE in parent.attributes:
        return parent
    own = PackOp | AttentionOp | AttentionMergeOp
    ops = parent.body.block.ops
    return next((op for op in ops if SCHEDULE in op.attributes or isinstance(op, own)), None)


def plan_of(op: Operation, target: Target) -> KernelPlan:
    """
    Plans what a scheduled operation computes.

    Raises `ScheduleDoesNotFit` if the schedule does not fit the operation or the target, and
    `NotAContraction` if a product is expected and the operation computes something else.
    """
    name, schedule = kind_of(op), op.attributes.get(SCHEDULE)
    if name is None and schedule is None:
        raise ScheduleDoesNotFit("it has no schedule: run assign-schedule")
    kind = KINDS.get(name or "")
    if kind is None or not isinstance(op, kind.computes):
        raise ScheduleDoesNotFit(f"{schedule or name} is not a schedule of {op.name}")
    of = contraction_of(op) if isinstance(op, LinalgStructuredOperation) else op
    given = () if schedule is None else (schedule,)
    plan: KernelPlan = kind.call(kind.planner, of, *given, target)
    check(plan)
    return plan
