"""
Lowers scheduled attentions to kernels of multiply-adds without cooperative matrices.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: fma, exchanges; maximum, powers; values: fma
    }                                }

See `attention_lanes_code` for the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_lanes_code import LanesCode


@dataclass(frozen=True)
class AttentionToFMAPass(KernelPass):
    """Writes the attention kernels without cooperative matrices."""

    name = "attention-to-fma"
    codes = {"attention_lanes": lambda b, plan, _: LanesCode(b, plan).write()}
