"""
Barriers do nothing, unless a schedule runs parts of a workgroup one after the other.

All active lanes of a workgroup finish an instruction before any begins the next (wave.py), and
every store is in memory when it returns: so what a barrier would wait for has happened. A barrier
in flow that is not uniform over its scope is undefined in SPIR-V. Where a workgroup's invocations
are parted into several waves (turns.py, schedule.py), a wave stops at a barrier over more than
subgroups until the others have come to one.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import barrier as ops
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.kernel import ControlBarrierWaitOp
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, nothing_happens
from xdsl_spirv.interpreter.suspension import Suspended
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


@action(ops.ControlBarrierOp, ControlBarrierWaitOp)
def control_barrier(op: ops.ControlBarrierOp | ControlBarrierWaitOp, unit: Unit) -> Function:
    """Let the workgroup's other invocations come."""
    if unit.scope(op.execution_scope) == Scope.Subgroup:
        return nothing

    def call(wave: Wave) -> None:
        if wave.apart:
            meet(wave, op)

    return call


def meet(wave: Wave, op: Operation) -> Array:
    """
    Stop a wave until the others of its workgroups have come; the lanes for which it executes the
    barrier then: its own and the others', or none.
    """
    meets, wave.meets = wave.meets, None
    if meets is None:
        raise Suspended(op)
    return meets


def nothing(wave: Wave) -> None:
    """All have come already."""


nothing_happens(ops.MemoryBarrierOp)  # Every store is in memory when it returns.
