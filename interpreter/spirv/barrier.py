"""
Barriers do nothing.

All active lanes of a workgroup finish an instruction before any begins the next (wave.py), and
every store is in memory when it returns: so what a barrier would wait for has happened. A barrier
in flow that is not uniform over its scope is undefined in SPIR-V.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import barrier as ops
from xdsl_spirv.interpreter.semantics import Function, action
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


@action(ops.ControlBarrierOp, ops.MemoryBarrierOp)
def barrier(op: Operation, unit: Unit) -> Function:
    """Nothing."""

    def call(wave: Wave) -> None:
        return None

    return call
