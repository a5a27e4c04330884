"""
Kernels without a contraction: the code of one invocation.

    schedule.collective {                      scf.for %row = ... in turns among the groups
      linalg.generic (max)              ->       the maximum of the row: lanes, then the group
      linalg.generic (exp(x - max))              the sum of the row
      linalg.generic (sum) ...                   scf.for %column = ... in turns among the lanes
    }                                              load, compute, store

The loops of a result are divided in two: rows, which decide what the reductions give, and columns,
which share it. Rows go to groups (an invocation, a subgroup, or a workgroup, as the schedule says),
columns to the invocations of the group. An intermediate buffer is never made: its elements are
computed where they are used, once for each use that the code can see (`loops.code`). `distribution`
writes the code of a kernel that is scheduled so.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, LoopsAttr
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.loops.distribution import distribute


@dataclass(frozen=True)
class LoopsToInvocationsPass(ModulePass):
    """Writes out every kernel whose collective carries a `#schedule.loops`."""

    name = "loops-to-invocations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_once(op, LoopsPattern(op))


@dataclass
class LoopsPattern(RewritePattern):
    """Writes out the kernels of loops that are dealt to invocations."""

    module: ModuleOp

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CollectiveOp, rewriter: PatternRewriter) -> None:
        schedule = op.attributes.get(SCHEDULE)
        if isinstance(schedule, LoopsAttr):
            target = target_of(self.module, LoopsToInvocationsPass.name)
            distribute(op, schedule, target, rewriter)
