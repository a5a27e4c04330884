"""
Scheduled attentions by cooperative matrices, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

See `attention_code` for the algorithm, and `attention_registers_code` for probabilities that stay
in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    CollectiveOp,
)
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_code import AttentionCode
from xdsl_spirv.passes.kernel.attention_registers_code import RegisterAttentionCode
from xdsl_spirv.passes.kernel.collective import lower_packs
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_fit import check_attention
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.targets import Target


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(ModulePass):
    """Writes out every kernel that computes an attention, and those that pack its operands."""

    name = "attention-to-cooperative-matrix"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lower_packs(self.name, op, for_attention=True)
        for collective in [c for c in op.walk() if isinstance(c, CollectiveOp)]:
            attention = collective.body.block.last_op
            if not isinstance(attention, AttentionOp):
                continue
            if not isinstance(attention.attributes.get(SCHEDULE), AttentionLanesAttr):
                _lower(self.name, collective, attention, target_of(op, self.name))


def _lower(name: str, collective: CollectiveOp, op: AttentionOp, target: Target) -> None:
    schedule = op.attributes.get(SCHEDULE)
    if not isinstance(schedule, AttentionAttr):
        refuse(name, op, "it has no #schedule.attention: run assign-schedule")
    plan = AttentionPlan(op, schedule, target)
    try:
        check_attention(plan)
    except ScheduleDoesNotFit as error:
        refuse(name, op, str(error))
    code = RegisterAttentionCode if schedule.in_registers else AttentionCode
    code(KernelEmitter(InsertPoint.before(collective)), plan).write()
    Rewriter.erase_op(collective)
