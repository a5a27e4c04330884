"""
Registers the kinds of kernels and plans scheduled operations.

A kind defines how an operation is planned. A `KernelPlan` has the launch sizes, the kernel's name
and the problems of the schedule. Passes that choose, check, outline and write kernels call
`plan_of` and are independent of the kinds. The pass that writes the code of a kind registers that
code (`KernelPass` in `passes/kernel`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple

from typing_extensions import TypeVar
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionOp,
    CollectiveOp,
    DispatchOp,
    PackingAttr,
    PackOp,
    ScheduleAttr,
    schedule_of,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.analysis.layout import NotLinear
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


WIDTHS, MOST_BITS = (8, 4, 2), 128
"""Numbers of elements that an invocation may move at once, and the most bits of one access."""

EXCHANGES = frozenset(("subgroup-arithmetic", "subgroup-rotate", "subgroup-shuffle"))
"""Target features for reducing over a subgroup; one of them is enough."""

FEATURES: dict[str, str] = {"f16": "float16", "f64": "float64"}
"""Target features that invocations need for an element type. Integers have fallbacks."""

ScheduleT = TypeVar("ScheduleT", bound=ScheduleAttr, default=Any)


def load_function(place: str) -> Callable[..., Any]:
    """Returns the function that is given as `module:name` of this package."""
    module, name = place.split(":")
    return getattr(import_module(f"xdsl_spirv.passes.schedule.{module}"), name)


class ScheduleDoesNotFit(ValueError):
    """
    Raised if a schedule does not fit the target or the operation. The message gives the reason.
    """


class PackedOperand(NamedTuple):
    """An operand that is packed before its kernel runs."""

    op: Operation
    number: int
    """Index of the operand in `op`."""
    packing: PackingAttr
    sizes: Sequence[Size]
    """The dynamic sizes of the packing."""


class KernelPlan(ABC):
    """An operation with its schedule on a target, before code is written."""

    schedule: Any
    target: Target

    CHECKS: ClassVar[str] = ""
    """`module:function` of this package that yields the problems; "" if the plan has a method."""

    SECONDS: ClassVar[str] = ""
    """`module:function` of this package that estimates the seconds; "" if the plan has a method."""

    @property
    @abstractmethod
    def grid(self) -> tuple[Size, Size, Size]:
        """Number of workgroups along x, y and z."""

    @property
    def invocations(self) -> int:
        """Number of invocations in a workgroup."""
        return self.schedule.subgroup_count * self.target.subgroup_size

    @property
    @abstractmethod
    def kernel_name(self) -> str:
        """Name of the kernel, which contains its sizes."""

    @property
    def workgroup_bytes(self) -> int:
        """Size of Workgroup memory in bytes."""
        return 0

    @property
    def memory_advice(self) -> tuple[str, str]:
        """
        Two parts of an error text: the uses of Workgroup memory ("" for a single use), and changes
        of the schedule that reduce it.
        """
        return "", "fewer subgroups, rows, columns or keys would fit"

    @property
    def product(self) -> Contraction | None:
        """The contraction that the kernel computes, if any."""
        return None

    @property
    def has_loops(self) -> bool:
        """True if the kernel computes elements by loops (see `passes/loops`)."""
        return False

    def busy_workgroups(self, results: Callable[[], Sequence[Result]]) -> Size | None:
        """
        Returns the number of workgroups with work, computed from `results`; None if all have work.
        """
        return None

    def packings(self) -> Iterator[PackedOperand]:
        """Lists the operands to pack before the kernel runs."""
        return iter(())

    @cached_property
    def seconds(self) -> float:
        """Estimated duration in seconds; without an estimate, the time to start a kernel."""
        if self.SECONDS:
            return load_function(self.SECONDS)(self)
        return self.target.model.dispatch_seconds

    def problems(self) -> Iterator[str]:
        """Yields the reasons why the schedule does not fit, each with a fitting value."""
        try:
            yield from load_function(self.CHECKS)(self) if self.CHECKS else self.list_problems()
        except NotLinear as error:
            yield str(error)

    def list_problems(self) -> Iterator[str]:
        """Yields the problems of a plan without `CHECKS`. May raise `NotLinear`."""
        return self.launch_problems()

    def launch_problems(self) -> Iterator[str]:
        """Yields the target limits that the workgroup's size or the grid exceeds."""
        target, size = self.target, self.target.subgroup_size
        most = min(target.max_invocations, target.max_workgroup_size[0])
        if self.invocations > most:
            yield (
                f"{self.invocations // size} subgroups of {size} are {self.invocations} "
                f"invocations, but {target.name} allows {most}: use at most {most // size}"
            )
        if self.workgroup_bytes > target.workgroup_memory_bytes:
            parts, smaller = self.memory_advice
            yield (
                f"Workgroup memory of {self.workgroup_bytes} bytes{parts} exceeds "
                f"{target.name}'s {target.workgroup_memory_bytes}: {smaller}"
            )
        for axis, count, limit in zip("xyz", self.grid, target.max_grid, strict=True):
            if not is_dynamic(count) and count > limit:
                yield (
                    f"{count} workgroups in {axis}, but {target.name} allows {limit}: use larger "
                    "tiles of the result"
                )


@dataclass(frozen=True)
class ContractionPlan(KernelPlan, Generic[ScheduleT]):
    """A contraction with its schedule on a target."""

    contraction: Contraction
    schedule: ScheduleT
    target: Target

    @property
    def path(self) -> str:
        """Path of the schedule (see `paths`)."""
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
    """Raises `ScheduleDoesNotFit` with all problems of a plan."""
    problems = list(plan.problems())
    if problems:
        raise ScheduleDoesNotFit("; ".join(problems))


CONTRACTION, DISPATCH = LinalgStructuredOperation, DispatchOp | CollectiveOp


@dataclass(frozen=True)
class Kind:
    """
    A kind of kernel. Functions are given as `module:name` of this package.

    `path` is the kind's name in the output of `explain`. Operations of the class `computes` can
    have this kind.
    """

    path: str
    computes: type | UnionType
    planner: str
    """Function (operation or contraction, schedule, target) -> plan."""

    candidates: str = ""
    """
    Function (contraction, target) that yields groups of candidate plans.

    The first group with a fitting plan is used; its fastest fitting plan is chosen.
    """

    excluded: str = ""
    """Function (contraction, target) that returns why there are no candidates, or ""."""

    judge: str = ""
    """
    Function (plan, decisions) that returns True if the plan is accepted, and the reason.

    With a judge, candidates are sorted, the best first. The first fitting candidate is judged.
    """


KINDS: dict[str, Kind] = {
    "window": Kind(
        ROTATE,
        CONTRACTION,
        "window:WindowPlan",
        "window:list_plans",
        "paths:no_window",
        "assign_schedule:judge_window",
    ),
    "rows": Kind(
        ROWS,
        CONTRACTION,
        "rows:RowsPlan",
        "rows_candidates:list_plans",
        "paths:no_few_rows",
        "assign_schedule:judge_rows",
    ),
    "coopmat": Kind(
        COOPERATIVE_MATRIX,
        CONTRACTION,
        "plan:Plan",
        "contraction_candidates:by_matrices",
        "paths:no_matrices",
    ),
    "dot": Kind(DOT, CONTRACTION, "plan:Plan", "contraction_candidates:by_dots"),
    "fma": Kind(FMA, CONTRACTION, "plan:Plan", "contraction_candidates:by_multiply_adds"),
    "attention": Kind(ATTENTION, AttentionOp, "attention:AttentionPlan"),
    "attention_lanes": Kind(ATTENTION, AttentionOp, "attention_lanes:LanesPlan"),
    "pack": Kind(PACK, PackOp, "packing:plan_pack"),
    "loops": Kind(LOOPS, DISPATCH, "loops_schedule:LoopsPlan"),
}
"""
The kinds, in the order in which they are tried for a contraction.

The keys are names of schedules, of instructions for tiles, and of operations without a schedule.
"""


def kind_of(op: Operation) -> str | None:
    """Returns the name of an operation's kind; None if it lacks a schedule."""
    if (schedule := schedule_of(op)) is not None:
        return schedule.kind
    return "pack" if isinstance(op, PackOp) else None


def root_of(parent: DispatchOp | CollectiveOp) -> Operation | None:
    """Returns the scheduled operation of a dispatch or collective; None if there is none."""
    if SCHEDULE in parent.attributes:
        return parent
    own = PackOp | AttentionOp
    ops = parent.body.block.ops
    return next((op for op in ops if SCHEDULE in op.attributes or isinstance(op, own)), None)


def plan_of(op: Operation, target: Target) -> KernelPlan:
    """
    Plans a scheduled operation.

    Raises `ScheduleDoesNotFit` if the schedule does not fit the operation or the target, and
    `NotAContraction` if the schedule requires a contraction and the operation is not one.
    """
    name, schedule = kind_of(op), op.attributes.get(SCHEDULE)
    if name is None and schedule is None:
        raise ScheduleDoesNotFit("the operation has no schedule: run assign-schedule")
    kind = KINDS.get(name or "")
    if kind is None or not isinstance(op, kind.computes):
        raise ScheduleDoesNotFit(
            f"{op.name} cannot have the schedule {schedule or name}: run assign-schedule"
        )
    of, given = op, () if schedule is None else (schedule,)
    if isinstance(op, LinalgStructuredOperation):
        of = contraction_of(op, isinstance(schedule, ScheduleAttr) and schedule.is_transposed)
    plan: KernelPlan = load_function(kind.planner)(of, *given, target)
    check(plan)
    return plan
