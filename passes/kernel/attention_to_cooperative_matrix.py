"""
Scheduled attentions by cooperative matrices, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

See `attention_code` for the algorithm, and `attention_registers_code` for probabilities that stay
in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import (
    SCHEDULE,
    AttentionAttr,
    AttentionLanesAttr,
    AttentionOp,
    CollectiveOp,
)
from xdsl_spirv.passes import refuse, rewrite_once
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPattern
from xdsl_spirv.passes.kernel.collective import PackPattern
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_fit import check_attention


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(ModulePass):
    """Writes out every kernel that computes an attention, and those that pack its operands."""

    name = "attention-to-cooperative-matrix"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        packed = PackPattern(self.name, op, for_attention=True)
        rewrite_once(op, packed, AttentionPattern(self.name, op))


class AttentionPattern(KernelPattern[AttentionOp]):
    """Writes out the kernels of attentions whose subgroups multiply fragments."""

    def scheduled(self, collective: CollectiveOp) -> AttentionOp | None:
        attention = collective.body.block.last_op
        if not isinstance(attention, AttentionOp):
            return None
        other = isinstance(attention.attributes.get(SCHEDULE), AttentionLanesAttr)
        return None if other else attention

    def write(self, collective: CollectiveOp, op: AttentionOp) -> None:
        schedule = op.attributes.get(SCHEDULE)
        if not isinstance(schedule, AttentionAttr):
            refuse(self.pass_name, op, "it has no #schedule.attention: run assign-schedule")
        plan = AttentionPlan(op, schedule, self.target)
        check_attention(plan)
        _code_of(schedule)(KernelEmitter(InsertPoint.before(collective)), plan).write()


class Code(Protocol):
    """Writes the body of an attention's kernel."""

    def write(self) -> None: ...


def _code_of(schedule: AttentionAttr) -> Callable[[KernelEmitter, AttentionPlan], Code]:
    match schedule.probabilities.data:
        case "registers":
            from xdsl_spirv.passes.kernel.attention_registers_code import RegisterAttentionCode

            return RegisterAttentionCode
        case "converted":
            from xdsl_spirv.passes.kernel.attention_converted_code import ConvertedAttentionCode

            return ConvertedAttentionCode
        case _:
            from xdsl_spirv.passes.kernel.attention_memory_code import MemoryAttentionCode

            return MemoryAttentionCode
