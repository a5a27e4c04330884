"""
Lowers scheduled attentions to kernels that use cooperative matrices.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

See `attention_code` for the algorithm, `attention_rows` for row operations on each kind of target,
and `attention_lines` for reads of operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_code import AttentionCode
from xdsl_spirv.passes.kernel.collective import write_pack


@dataclass(frozen=True)
class AttentionToCooperativeMatrixPass(KernelPass):
    """Writes the attention kernels that use cooperative matrices, and their packing kernels."""

    name = "attention-to-cooperative-matrix"
    codes = {"attention": lambda b, plan, _: AttentionCode(b, plan).write(), "pack": write_pack}
