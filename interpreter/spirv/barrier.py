"""
Executes barriers, which matter only if a workgroup is split into several batches.

All active lanes of a workgroup finish an instruction before the next instruction starts
(batch.py), and a store is in memory when it returns. A barrier in one batch therefore does
nothing. A barrier in control flow that is not uniform over its scope is undefined in SPIR-V. If a
workgroup's invocations are split into several batches (turns.py, schedule.py), a batch stops at a
barrier of a scope above Subgroup until the other batches have reached a barrier.
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
    """Waits until the workgroup's other batches reach a barrier."""
    if context.scope(op.execution_scope) == Scope.Subgroup:
        return nothing

    def call(batch: Batch) -> None:
        if batch.apart:
            meet(batch, op)

    return call


def meet(batch: Batch, op: Operation) -> Array:
    """
    Suspends a batch until the other batches of its workgroups arrive. Returns the lanes that pass
    the barrier.
    """
    meets, batch.meets = batch.meets, None
    if meets is None:
        raise Suspended(op)
    return meets


def nothing(batch: Batch) -> None:
    """Does nothing, because the batch holds all invocations."""


nothing_happens(
    ops.MemoryBarrierOp
)  # A memory barrier does nothing, because every store is in memory when it returns.
