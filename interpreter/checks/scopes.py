"""
Checks instructions that all invocations of a scope must execute together, or with equal operands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.checks.findings import Findings
from xdsl_spirv.interpreter.forms import CooperativeMatrix, within
from xdsl_spirv.interpreter.memory import Pointer, first_active
from xdsl_spirv.interpreter.numbers import Array


def axes_of(scope: Scope) -> tuple[int, ...]:
    """Returns the axes that a scope spans, of the axes (workgroup, subgroup, lane)."""
    return (1, 2) if scope == Scope.Workgroup else (2,)


def full_scope(
    checker: Findings, op: Operation, form: CooperativeMatrix | Scope, rule: str = "CM-27"
) -> None:
    """
    Checks that either all invocations of a subgroup (or workgroup) execute an instruction, or no
    invocation does.
    """
    scope = form.scope if isinstance(form, CooperativeMatrix) else form
    axes = axes_of(scope)
    missing = checker.missing(checker.batch.mask, axes)
    if missing is None:
        return
    here = np.broadcast_to(checker.batch.active(), checker.batch.shape)
    touched = missing.any(axis=axes, keepdims=True)
    members = np.broadcast_to(touched, here.shape)
    count = int((members & here).sum())
    checker.find(
        rule,
        op,
        f"only part of the {scope.name.lower()} executes {op.name}: {count} invocations are here, "
        f"{int(missing.sum())} are missing",
        where=missing,
        notes=lambda: [
            "(the invocations that are missing)",
            *checker.who_parted(here & members, missing),
        ],
        remedy=f"make all invocations of the {scope.name.lower()} reach it, or none",
    )


def differing(checker: Findings, value: Array, axes: tuple[int, ...]) -> Array | None:
    """
    Returns a mask of the active lanes whose value differs from that of the first active lane.
    Returns None if all agree.
    """
    if all(value.shape[axis] == 1 for axis in axes):
        return None
    mask = checker.batch.mask
    different = value != first_active(value, mask, axes)
    if different.ndim > 3:
        different = different.any(axis=tuple(range(3, different.ndim)))
    different = within(mask, different)
    return different if different.any() else None


def uniform(
    checker: Findings,
    op: Operation,
    rule: str,
    name: str,
    value: Any,
    scope: CooperativeMatrix | Scope,
) -> None:
    """
    Checks that all active invocations of each scope instance (such as a subgroup) have the same
    value of an operand.
    """
    scope = scope.scope if isinstance(scope, CooperativeMatrix) else scope
    axes = axes_of(scope)
    shown = value
    if isinstance(value, Pointer):
        shown = value.index * value.scale + value.base
        value = value.index
    where = differing(checker, value, axes)
    if where is None:
        return
    checker.find(
        rule,
        op,
        f"{name} differs between invocations of a {scope.name.lower()}",
        where=where,
        values={
            f"{name} here": shown,
            "in the first": first_active(shown, checker.batch.mask, axes),
        },
        remedy="compute it from values that are uniform over the scope, or broadcast it",
    )
