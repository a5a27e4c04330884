"""
Scheduled attentions by multiply-adds, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: fma, exchanges; maximum, powers; values: fma
    }                                }

See `attention_lanes_code` for the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionLanesAttr,
    AttentionMergeOp,
    AttentionOp,
    CollectiveOp,
)
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPattern, scheduled_by
from xdsl_spirv.passes.kernel.attention_lanes_code import LanesCode
from xdsl_spirv.passes.kernel.attention_merge_code import MergeCode, MergePlan
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan, check_lanes


@dataclass(frozen=True)
class AttentionToFMAPass(ModulePass):
    """Writes out every kernel that computes an attention without matrices, and those that merge."""

    name = "attention-to-fma"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_once(op, MergePattern(self.name, op), LanesPattern(self.name, op))


class MergePattern(KernelPattern[AttentionMergeOp]):
    """Writes out the kernels that merge the parts of an attention."""

    def scheduled(self, collective: CollectiveOp) -> AttentionMergeOp | None:
        merge = collective.body.block.last_op
        return merge if isinstance(merge, AttentionMergeOp) else None

    def write(self, collective: CollectiveOp, op: AttentionMergeOp) -> None:
        builder = KernelEmitter(InsertPoint.before(collective))
        MergeCode(builder, MergePlan(op, self.target)).write()


class LanesPattern(KernelPattern[AttentionOp]):
    """Writes out the kernels of attentions whose lanes multiply and add."""

    def scheduled(self, collective: CollectiveOp) -> AttentionOp | None:
        return scheduled_by(collective, AttentionOp, AttentionLanesAttr)

    def write(self, collective: CollectiveOp, op: AttentionOp) -> None:
        schedule = op.attributes[SCHEDULE]
        assert isinstance(schedule, AttentionLanesAttr)
        plan = LanesPlan(op, schedule, self.target)
        check_lanes(plan)
        LanesCode(KernelEmitter(InsertPoint.before(collective)), plan).write()
