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
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionLanesAttr,
    AttentionMergeOp,
    AttentionOp,
    CollectiveOp,
)
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_lanes_code import LanesCode
from xdsl_spirv.passes.kernel.attention_merge_code import MergeCode, MergePlan
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan, check_lanes
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit


@dataclass(frozen=True)
class AttentionToFMAPass(ModulePass):
    """Writes out every kernel that computes an attention without matrices, and those that merge."""

    name = "attention-to-fma"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for collective in [c for c in op.walk() if isinstance(c, CollectiveOp)]:
            attention = collective.body.block.last_op
            if isinstance(attention, AttentionMergeOp):
                merging = MergePlan(attention, target_of(op, self.name))
                MergeCode(KernelEmitter(InsertPoint.before(collective)), merging).write()
                Rewriter.erase_op(collective)
                continue
            if not isinstance(attention, AttentionOp):
                continue
            schedule = attention.attributes.get(SCHEDULE)
            if not isinstance(schedule, AttentionLanesAttr):
                continue
            plan = LanesPlan(attention, schedule, target_of(op, self.name))
            try:
                check_lanes(plan)
            except ScheduleDoesNotFit as error:
                refuse(self.name, attention, str(error))
            LanesCode(KernelEmitter(InsertPoint.before(collective)), plan).write()
            Rewriter.erase_op(collective)
