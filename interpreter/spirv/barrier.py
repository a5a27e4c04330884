"""
Barriers do nothing, unless a schedule runs parts of a workgroup one after the other.

All active lanes of a workgroup finish an instruction before any begins the next (batch.py), and a
store is in memory when it returns, so there is nothing for a barrier to wait for. A barrier in
control flow that is not uniform over its scope is undefined in SPIR-V. If a workgroup's invocations
are split into several batches (turns.py, schedule.py), a batch stops at a barrier of a scope above
Subgroup until the others have reached one.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import barrier as ops
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.kernel import ControlBarrierWaitOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, nothing_happens
from xdsl_spirv.interpreter.suspension import Suspended


@action(ops.ControlBarrierOp, ControlBarrierWaitOp)
def control_barrier(op: ops.ControlBarrierOp | ControlBarrierWaitOp, context: Context) -> Function:
    """Lets the workgroup's other invocations catch up."""
    if context.scope(op.execution_scope) == Scope.Subgroup:
        return nothing

    def call(batch: Batch) -> None:
        if batch.apart:
            meet(batch, op)

    return call


def meet(batch: Batch, op: Operation) -> Array:
    """
    Suspends a batch until the other batches of its workgroups have arrived. Returns the lanes
    that pass the barrier now: all that wait there, or none."""
    meets, batch.meets = batch.meets, None
    if meets is None:
        raise Suspended(op)
    return meets


def nothing(batch: Batch) -> None:
    """Does nothing: all batches have arrived already."""


nothing_happens(ops.MemoryBarrierOp)  # Every store is in memory when it returns.
