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

from xdsl_spirv.dialects.schedule import AttentionAttr
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import write_pack
from xdsl_spirv.passes.schedule.attention import AttentionPlan


class Code(Protocol):
    """Writes the body of an attention's kernel."""

    def write(self) -> None: ...


def _code_of(schedule: AttentionAttr) -> Callable[[KernelEmitter, AttentionPlan], Code]:
    match schedule.probabilities.data:
        case "registers":
            from xdsl_spirv.passes.kernel.attention_registers_code import RegisterAttentionCode

            if not schedule.staged:
                return RegisterAttentionCode
            from xdsl_spirv.passes.kernel.attention_staged_code import StagedAttentionCode

            return StagedAttentionCode
        case "converted":
            from xdsl_spirv.passes.kernel.attention_converted_code import ConvertedAttentionCode

            return ConvertedAttentionCode
        case _:
            from xdsl_spirv.passes.kernel.attention_memory_code import MemoryAttentionCode

            return MemoryAttentionCode


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(KernelPass):
    """Writes out every kernel that computes an attention, and those that pack its operands."""

    name = "attention-to-cooperative-matrix"
    codes = {
        "attention": lambda b, plan, _: _code_of(plan.schedule)(b, plan).write(),
        "pack_for_attention": write_pack,
    }
