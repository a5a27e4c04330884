"""Checks group instructions: active members, uniform operands, cluster sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import group as ops
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.batch import Batch
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
from xdsl_spirv.interpreter.spirv.group import SOURCES, group_for, sources


def _in_group(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    context = compiler.context
    group = group_for(op)
    forms = [context.form(operand.type) for operand in op.operands]
    result = shadow_form(context.form(op.results[0].type))

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        value = function(batch, *values)
        parts = [
            by_lane(shadow, form)
            for shadow, form in zip(shadows, forms, strict=True)
            if shadow is not None
        ]
        if not parts:
            return value, None
        row = group.row(largest(parts), batch) * group.active(batch)
        lanes = row.max(axis=2, keepdims=True)
        return value, normal(spread(lanes.astype(np.uint8), result))

    return call


GROUP = [op for op in TABLE if issubclass(op, ops.GroupInstruction)]
ARITHMETIC = [op for op in GROUP if issubclass(op, ops.GroupArithmetic)]

checked(*(op for op in GROUP if op.get_irdl_definition().operands))(_in_group)


@checked(*ARITHMETIC)
def arithmetic(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """
    Checks group arithmetic: the cluster size must be a power of two, and at most the group's size.
    """
    inner = _in_group(op, compiler, function)
    if op.cluster_size is None or op.group_operation.data in ops.PARTITIONED:
        return inner
    checker, group = compiler.checker, group_of(op.execution_scope.data)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        values = [values[0], check_cluster(checker, op, values[1], group, batch)]
        return inner(batch, values, shadows)

    return call


def check_cluster(checker: Any, op: Any, cluster: Array, group: Group, batch: Batch) -> Array:
    """Reports an invalid cluster size. Returns the size, or the group's size if it is invalid."""
    members, size = group.invocations(batch), int(cluster.flat[0])
    if 1 <= size <= members and size & (size - 1) == 0:
        return cluster
    if checker.checks.rules:
        checker.find(
            op.CLUSTER,
            op,
            f"a cluster of {size} in a group of {members} invocations is invalid: the "
            "size must be a power of two and at most the size of the group",
            where=batch.active(),
            remedy="choose a cluster that fits the smallest subgroup the program may run with",
        )
    return np.full_like(cluster, members)


def read_from(source: Array, active: Array) -> tuple[Array, Array]:
    """
    Returns two masks of the reading members: of those that read outside the group, and of those
    that read an inactive member.
    """
    count = active.shape[2]
    outside = (source < 0) | (source >= count)
    lead = np.broadcast_shapes(source.shape[:2], active.shape[:2])
    active = np.broadcast_to(active, (*lead, count))
    index = np.broadcast_to(np.where(outside, 0, source), (*lead, source.shape[2]))
    inactive = ~np.take_along_axis(active, index, axis=2) & ~outside
    return outside, inactive


@checked(*SOURCES)
def exchange(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """
    Checks an instruction that reads values of other invocations. Reading from an inactive or
    missing invocation breaks a rule or gives an undefined value, depending on the instruction.
    """
    checker, group = compiler.checker, group_for(op)
    form = shadow_form(compiler.context.form(op.result.type))
    which_form = compiler.context.form(op.operands[1].type)
    uniform_rule, name = op.UNIFORM or ("", "the other operand")
    forbidden = op.INACTIVE is not None
    message = "the value of an inactive or missing invocation"
    number = 0 if forbidden else checker.origin(op, "UNDEF-08", message)
    scope = Scope.Workgroup if group.workgroup else Scope.Subgroup

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        value, which, *cluster = values
        cluster = [check_cluster(checker, op, size, group, batch) for size in cluster]
        if uniform_rule and checker.checks.rules:
            uniform(checker, op, uniform_rule, name, which, scope)
        if forbidden and checker.checks.rules and batch.mask is not None:
            wrong = misread(batch, which, cluster)
            if wrong.any():
                _report_inactive(checker, op, batch, group.spread(wrong, batch), {name: which})
        result = function(batch, value, which, *cluster)
        parts: list[Any] = []
        if shadows[0] is not None:
            parts.append(function(batch, whole(shadows[0], form), which, *cluster))
        if shadows[1] is not None and forbidden:
            checker.find_undefined(op, name, by_lane(shadows[1], which_form), batch.mask)
        elif shadows[1] is not None:
            parts.append(spread(by_lane(shadows[1], which_form), form))
        if not forbidden and checker.checks.undefined:
            wrong = misread(batch, which, cluster)
            if wrong.any():
                lanes = group.spread(wrong, batch)
                checker.example(number, lanes, {"the other operand": which})
                parts.append(spread(np.where(lanes, np.uint8(number), np.uint8(0)), form))
        return result, normal(largest(parts)) if parts else None

    def misread(batch: Batch, which: Array, cluster: list[Array]) -> Array:
        active = group.active(batch)
        outside, inactive = read_from(sources(op, batch, which, cluster), active)
        return (outside | inactive) & active

    return call


def _report_inactive(
    checker: Any, op: Any, batch: Batch, where: Array, values: dict[str, Array]
) -> None:
    here = np.broadcast_to(batch.active(), batch.shape)
    checker.find(
        op.INACTIVE,
        op,
        f"{op.name} reads the value of an inactive invocation",
        where=where,
        values=values,
        notes=lambda: checker.who_parted(here, ~here),
        remedy="make all invocations of the group (or the cluster) execute it together",
    )
