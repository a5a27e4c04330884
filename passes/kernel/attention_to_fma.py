"""
Scheduled attentions by multiply-adds, in one kernel.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: fma, exchanges; maximum, powers; values: fma
    }                                }

See `attention_lanes_code` for the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import CollectiveOp
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_lanes_code import LanesCode
from xdsl_spirv.passes.kernel.attention_merge_code import MergeCode
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan
from xdsl_spirv.passes.schedule.attention_merge import MergePlan


def write_lanes(collective: CollectiveOp, plan: LanesPlan) -> None:
    """Writes the kernel of an attention whose lanes multiply and add."""
    LanesCode(KernelEmitter(InsertPoint.before(collective)), plan).write()


def write_merge(collective: CollectiveOp, plan: MergePlan) -> None:
    """Writes the kernel that merges the parts of an attention."""
    MergeCode(KernelEmitter(InsertPoint.before(collective)), plan).write()


@dataclass(frozen=True)
class AttentionToFMAPass(KernelPass):
    """Writes out every kernel that computes an attention without matrices, and those that merge."""

    name = "attention-to-fma"
    codes = {"attention_lanes": write_lanes, "attention_merge": write_merge}
