"""
Checked group instructions: full scopes, uniform operands, clusters, inactive invocations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import group as ops
from xdsl_spirv.dialects.spirv import rotate as rotates
from xdsl_spirv.dialects.spirv import subgroup
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.scopes import uniform
from xdsl_spirv.interpreter.checks.shadow import (
    Shadow,
    by_lane,
    largest,
    normal,
    shadow_form,
    spread,
    whole,
)
from xdsl_spirv.interpreter.groups import Group, group_of
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import TABLE, Function
from xdsl_spirv.interpreter.spirv.group import SOURCES, group_for
from xdsl_spirv.interpreter.wave import Wave
from xdsl_spirv.upstream.declarations import operations_of


def _in_group(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """A result that is undefined where an active member's operand is."""
    unit = compiler.unit
    group = group_for(op)
    forms = [unit.form(operand.type) for operand in op.operands]
    result = shadow_form(unit.form(op.results[0].type))

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        found = function(wave, *values)
        parts = [
            by_lane(shadow, form)
            for shadow, form in zip(shadows, forms, strict=True)
            if shadow is not None
        ]
        if not parts:
            return found, None
        row = group.row(largest(parts), wave) * group.active(wave)
        lanes = row.max(axis=2, keepdims=True)
        return found, normal(spread(lanes.astype(np.uint8), result))

    return call


for _op in (
    ops.GroupNonUniformAllOp,
    ops.GroupNonUniformAnyOp,
    ops.GroupNonUniformAllEqualOp,
    ops.GroupNonUniformBallotOp,
    ops.GroupNonUniformInverseBallotOp,
    ops.GroupNonUniformBallotBitExtractOp,
    ops.GroupNonUniformBallotBitCountOp,
    ops.GroupNonUniformBallotFindLSBOp,
    ops.GroupNonUniformBallotFindMSBOp,
    ops.GroupNonUniformBroadcastFirstOp,
    *(op for op in operations_of([subgroup]) if op not in SOURCES),
):
    checked(_op)(_in_group)

ARITHMETIC = [op for op in TABLE if issubclass(op, ops.GroupArithmetic)]


@checked(*ARITHMETIC)
def arithmetic(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """A cluster is a power of two and at most the group."""
    inner = _in_group(op, compiler, function)
    if op.cluster_size is None:
        return inner
    checker, group = compiler.checker, group_of(op.execution_scope.data)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        values = [values[0], check_cluster(checker, op, "GROUP-02", values[1], group, wave)]
        return inner(wave, values, shadows)

    return call


def check_cluster(
    checker: Any, op: Any, rule: str, cluster: Array, group: Group, wave: Wave
) -> Array:
    """A cluster size that exists: the given one, or the group's where that is wrong."""
    members = wave.geometry.invocations if group.workgroup else wave.lanes
    size = int(cluster.flat[0])
    if 1 <= size <= members and size & (size - 1) == 0:
        return cluster
    if checker.checks.rules:
        checker.find(
            "rules",
            rule,
            op,
            f"a cluster of {size} in a group of {members} invocations: it must be a power of two "
            "and at most that",
            where=wave.active(),
            remedy="choose a cluster that fits the smallest subgroup the program may run with",
        )
    return np.full_like(cluster, members)


def read_from(source: Array, active: Array) -> tuple[Array, Array]:
    """Where members (w, groups, members) read a number outside the group, and an inactive one."""
    count = active.shape[2]
    outside = (source < 0) | (source >= count)
    lead = np.broadcast_shapes(source.shape[:2], active.shape[:2])
    active = np.broadcast_to(active, (*lead, count))
    index = np.broadcast_to(np.where(outside, 0, source), (*lead, source.shape[2]))
    inactive = ~np.take_along_axis(active, index, axis=2) & ~outside
    return outside, inactive


@checked(*SOURCES)
def exchange(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Reading an inactive or missing invocation gives an undefined value."""
    checker, group = compiler.checker, group_for(op)
    form = shadow_form(compiler.unit.form(op.result.type))
    which_form = compiler.unit.form(op.operands[1].type)
    source = SOURCES[type(op)]
    message = "the value of an inactive or missing invocation"
    number = checker.origin(op, "UNDEF-08", message)
    agreed = isinstance(op, ops.GroupNonUniformBroadcastOp | ops.GroupNonUniformQuadBroadcastOp)
    scope = Scope.Workgroup if group.workgroup else Scope.Subgroup

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        value, which = values
        if agreed and checker.checks.rules:
            uniform(checker, op, "GROUP-01", "the invocation's number", which, scope)
        result = function(wave, value, which)
        parts: list[Any] = []
        if shadows[0] is not None:
            parts.append(function(wave, whole(shadows[0], form), which))
        if shadows[1] is not None:
            parts.append(spread(by_lane(shadows[1], which_form), form))
        if checker.checks.undefined:
            row = group.row(which, wave) if which.shape[2] > 1 or group.workgroup else which
            active = group.active(wave)
            lanes = source(group.ids(wave), row.astype(np.int64))
            outside, inactive = read_from(lanes, active)
            wrong = (outside | inactive) & active
            if wrong.any():
                lanes = group.spread(wrong, wave)
                checker.example(number, lanes, {"the other operand": which})
                parts.append(spread(np.where(lanes, np.uint8(number), np.uint8(0)), form))
        return result, normal(largest(parts)) if parts else None

    return call


@checked(rotates.GroupNonUniformRotateKHROp)
def rotate(
    op: rotates.GroupNonUniformRotateKHROp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """ROT-08."""
    checker, group = compiler.checker, group_of(op.execution_scope.data)
    form = shadow_form(compiler.unit.form(op.result.type))
    delta_form = compiler.unit.form(op.operands[1].type)
    scope = op.execution_scope.data

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        if len(values) > 2:
            values = [*values]
            values[2] = check_cluster(checker, op, "ROT-08", values[2], group, wave)
        if checker.checks.rules:
            uniform(checker, op, "ROT-08", "Delta", values[1], scope)
            _check_sources(wave, values)
        result = function(wave, *values)
        parts: list[Any] = []
        if shadows[0] is not None:
            parts.append(function(wave, whole(shadows[0], form), *values[1:]))
        if shadows[1] is not None:
            checker.find_undefined(op, "Delta", by_lane(shadows[1], delta_form), wave.mask)
        return result, normal(largest(parts)) if parts else None

    def _check_sources(wave: Wave, values: list[Any]) -> None:
        if wave.mask is None:
            return
        members = wave.geometry.invocations if group.workgroup else wave.lanes
        around = np.int64((int(values[2].flat[0]) if len(values) > 2 else members) - 1)
        local = group.ids(wave)
        amount = group.row(values[1], wave).astype(np.int64)
        active = group.active(wave)
        outside, inactive = read_from(((local + amount) & around) + (local & ~around), active)
        wrong = (outside | inactive) & active
        if wrong.any():
            here = np.broadcast_to(wave.active(), wave.shape)
            checker.find(
                "rules",
                "ROT-08",
                op,
                f"{op.name} reads an inactive invocation",
                where=group.spread(wrong, wave),
                values={"Delta": values[1]},
                notes=lambda: checker.who_parted(here, ~here),
                remedy="let all invocations of the group (or the cluster) execute it together",
            )

    return call
