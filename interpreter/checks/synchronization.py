"""Checks barriers, and records how they order memory accesses."""

from __future__ import annotations

from typing import Any

from xdsl_spirv.dialects.spirv import barrier as ops
from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.scopes import full_scope
from xdsl_spirv.interpreter.checks.shadow import Shadow
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.barrier import meet


@checked(ops.ControlBarrierOp, kernel.ControlBarrierWaitOp)
def control_barrier(
    op: ops.ControlBarrierOp | kernel.ControlBarrierWaitOp,
    compiler: CheckedCompiler,
    function: Function,
) -> Checked:
    """Checks that all invocations of the scope execute a barrier (BARRIER-01)."""
    checker = compiler.checker
    scope = op.execution_scope.data
    known = scope in (Scope.Subgroup, Scope.Workgroup)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if batch.apart and scope != Scope.Subgroup:
            with checker.of_whole_chunk(batch, meet(batch, op)):
                return reach(batch)
        return reach(batch)

    def reach(batch: Batch) -> tuple[Any, Shadow]:
        if known and checker.checks.barriers and batch.mask is not checker.existing:
            full_scope(checker, op, scope, "BARRIER-01")
        if checker.races is not None:
            halves = isinstance(op, kernel.ControlBarrierWaitOp)
            checker.races.barrier(op, batch.mask, checker.races.arrived if halves else None)
        return None, None

    return call


@checked(kernel.ControlBarrierArriveOp)
def arrive(
    op: kernel.ControlBarrierArriveOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """
    Checks that the whole scope arrives at a split barrier (BARRIER-01), and records the time of
    arrival.
    """
    checker = compiler.checker
    known = op.execution_scope.data in (Scope.Subgroup, Scope.Workgroup)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if known and checker.checks.barriers and batch.mask is not checker.existing:
            full_scope(checker, op, op.execution_scope.data, "BARRIER-01")
        if checker.races is not None:
            checker.races.arrived = checker.races.tick(op)
        return None, None

    return call


@checked(ops.MemoryBarrierOp)
def memory_barrier(
    op: ops.MemoryBarrierOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Records a memory barrier for the race check."""
    checker = compiler.checker

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if checker.races is not None:
            checker.races.fence(op, batch.mask)
        return None, None

    return call
