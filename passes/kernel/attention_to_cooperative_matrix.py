"""
Scheduled attentions by cooperative matrices, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

See `attention_code` for the algorithm, `attention_rows` for rows on each kind of target, and
`attention_lines` for how operands are read.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_code import AttentionCode
from xdsl_spirv.passes.kernel.collective import write_pack


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(KernelPass):
    """Writes out every kernel that computes an attention, and those that pack its operands."""

    name = "attention-to-cooperative-matrix"
    codes = {"attention": lambda b, plan, _: AttentionCode(b, plan).write(), "pack": write_pack}
