"""A plan has the launch, the name and the problems of a kernel before its code is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.contraction import Contraction


class ScheduleDoesNotFit(ValueError):
    """A schedule that the target or the operation cannot take; the message says why."""


class KernelPlan(ABC):
    """An operation with its schedule on a target."""

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

    def problems(self) -> Iterator[str]:
        """Lists why the schedule does not fit, each with the number and the nearest that would."""
        return iter(())


class ContractionPlan(KernelPlan):
    """A contraction with its schedule on a target."""

    contraction: Contraction

    @property
    def kernel_name(self) -> str:
        return self.contraction.kernel_name


def check(plan: KernelPlan) -> None:
    """Raises `ScheduleDoesNotFit` with every reason why the plan cannot be carried out."""
    problems = list(plan.problems())
    if problems:
        raise ScheduleDoesNotFit("; ".join(problems))
