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

from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.loops.distribution import distribute


@dataclass(frozen=True)
class LoopsToInvocationsPass(KernelPass):
    """Writes out every kernel whose collective carries a `#schedule.loops`."""

    name = "loops-to-invocations"
    codes = {"loops": distribute}
    emitter = HoistingEmitter
