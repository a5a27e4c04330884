"""
From scheduled operations to the code of a kernel's invocations: a pattern for each kind of kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import NotAContraction
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.targets import Target

ScheduledT = TypeVar("ScheduledT", bound=Operation)


@dataclass
class KernelPattern(RewritePattern, ABC, Generic[ScheduledT]):
    """
    Writes out the body of a kernel: the collective becomes what each of its invocations does.

        schedule.collective { ... }  ->  gpu.block_id ... scf.for ... memref.store
    """

    pass_name: str
    """The pass, which refuses in its name what does not fit."""

    module: ModuleOp

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CollectiveOp, rewriter: PatternRewriter) -> None:
        scheduled = self.scheduled(op)
        if scheduled is None:
            return
        try:
            self.write(op, scheduled)
        except (NotAContraction, ScheduleDoesNotFit) as error:
            refuse(self.pass_name, scheduled, str(error))
        rewriter.erase(op)

    @property
    def target(self) -> Target:
        """The target that the module names."""
        return target_of(self.module, self.pass_name)

    @abstractmethod
    def scheduled(self, collective: CollectiveOp) -> ScheduledT | None:
        """The operation that says what the kernel computes; None for kernels of other patterns."""

    @abstractmethod
    def write(self, collective: CollectiveOp, op: ScheduledT) -> None:
        """Write the code before the collective; raises `ScheduleDoesNotFit` before it writes."""


def scheduled_by(
    collective: CollectiveOp, kind: type[ScheduledT], schedule: type[Attribute]
) -> ScheduledT | None:
    """The operation of a kind in a collective that has a schedule of a kind."""
    scheduled = (op for op in collective.body.block.ops if isinstance(op, kind))
    return next((op for op in scheduled if isinstance(op.attributes.get(SCHEDULE), schedule)), None)
