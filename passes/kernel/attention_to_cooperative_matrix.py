"""
Scheduled attentions by cooperative matrices, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

See `attention_code` for the algorithm, `attention_rows` for rows on each kind of target, and
`attention_staged_code` for keys and values through Workgroup memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.collective import write_pack
from xdsl_spirv.passes.schedule.attention import AttentionPlan


def _write(b: KernelEmitter, plan: AttentionPlan, _: object) -> None:
    if plan.schedule.staged:
        from xdsl_spirv.passes.kernel.attention_staged_code import StagedAttentionCode as Code
    else:
        from xdsl_spirv.passes.kernel.attention_code import AttentionCode as Code
    Code(b, plan).write()


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(KernelPass):
    """Writes out every kernel that computes an attention, and those that pack its operands."""

    name = "attention-to-cooperative-matrix"
    codes = {
        "attention": _write,
        "pack_for_attention": write_pack,
    }
