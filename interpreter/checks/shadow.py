"""
Shadows: the parts of a value that are undefined, and the instruction that made them so.

A shadow is None, or a uint8 array in the value's form (forms.py) whose last axes are never
broadcast; 0 stands for a defined part. `UNWRITTEN` marks memory that was never written: a load
replaces it by its own number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Form, Plain, zeros
from xdsl_spirv.interpreter.numbers import Array

Shadow: TypeAlias = Any
"""None, a uint8 array, or a tuple of arrays and tuples."""

U8 = np.dtype(np.uint8)

UNWRITTEN = 255
"""The shadow of memory that was never written."""

LAST_ORIGIN = 254
"""Instructions beyond this many share the last number."""


def shadow_form(form: Form) -> Form:
    """Returns the form of the shadow of a value with this form."""
    if isinstance(form, Plain):
        return Plain(U8, form.shape)
    if isinstance(form, CooperativeMatrix):
        return replace(form, dtype=U8)
    if isinstance(form, Composite):
        return Composite(tuple(shadow_form(member) for member in form.members))
    return Plain(U8)


def whole(shadow: Shadow, form: Form) -> Any:
    """Returns a shadow as arrays, also if nothing is undefined; `form` is the shadow's."""
    if shadow is not None:
        return shadow
    return zeros(form)


def filled(form: Form, number: int) -> Any:
    """Returns the shadow of a value without a defined part."""
    if isinstance(form, Composite):
        return tuple(filled(member, number) for member in form.members)
    return zeros(form) + U8.type(number)


def normal(shadow: Any) -> Shadow:
    """Returns the shadow, or None if it marks nothing as undefined."""
    return shadow if shadow is not None and is_undefined(shadow) else None


def is_undefined(shadow: Any) -> bool:
    """True if any part is undefined."""
    if isinstance(shadow, tuple):
        return any(is_undefined(part) for part in shadow)  # pyright: ignore
    return bool(shadow.any())


def by_lane(shadow: Shadow, form: Form) -> Array:
    """Returns for each lane (w, s, l) the origin of some undefined part of its value, or 0."""
    if isinstance(shadow, tuple):
        assert isinstance(form, Composite)
        parts = [by_lane(part, member) for part, member in zip(shadow, form.members, strict=True)]  # pyright: ignore
        return largest(parts)
    if isinstance(form, CooperativeMatrix):
        return shadow.max(axis=(2, 3))[..., None]
    tail = tuple(range(3, shadow.ndim))
    return shadow.max(axis=tail) if tail else shadow


def largest(parts: Sequence[Array]) -> Array:
    """Returns the elementwise maximum of arrays that broadcast."""
    total = parts[0]
    for part in parts[1:]:
        total = np.maximum(total, part)
    return total


def spread(lanes: Array, form: Form) -> Shadow:
    """
    Returns a shadow that marks every part of a lane's value with that lane's number in `lanes`.
    """
    if isinstance(form, Composite):
        return tuple(spread(lanes, member) for member in form.members)
    if isinstance(form, CooperativeMatrix):
        axes = (1, 2) if form.scope == Scope.Workgroup else (2,)
        matrices = lanes.max(axis=axes, keepdims=True)[..., None]
        return np.broadcast_to(matrices, (*matrices.shape[:2], form.rows, form.columns))
    assert isinstance(form, Plain)
    full = lanes.reshape(lanes.shape + (1,) * len(form.shape))
    return np.broadcast_to(full, lanes.shape + form.shape)


def same_shape(a: Form, b: Form) -> bool:
    """True if the components of both forms correspond one to one."""
    if isinstance(a, Plain) and isinstance(b, Plain):
        return a.shape == b.shape
    if isinstance(a, CooperativeMatrix) and isinstance(b, CooperativeMatrix):
        return (a.rows, a.columns) == (b.rows, b.columns)
    return False


def propagation(operands: Sequence[Form], result: Form) -> Callable[[Sequence[Shadow]], Shadow]:
    """
    Returns the shadow function of an operation without a rule of its own.

    A part of the result is undefined if the same part of an operand is. An operand of another shape
    makes all parts undefined.
    """
    form = shadow_form(result)
    same = [same_shape(operand, result) for operand in operands]

    def call(shadows: Sequence[Shadow]) -> Shadow:
        parts: list[Any] = []
        for number, shadow in enumerate(shadows):
            if shadow is None:
                continue
            if same[number]:
                parts.append(shadow)
            else:
                parts.append(spread(by_lane(shadow, operands[number]), form))
        if not parts:
            return None
        return merge_parts(parts)

    return call


def merge_parts(parts: Sequence[Any]) -> Any:
    """Returns the union of shadows of one form."""
    if isinstance(parts[0], tuple):
        return tuple(merge_parts(members) for members in zip(*parts, strict=True))
    return largest(parts)


def octets(shadow: Any) -> Any:
    """Returns a shadow with all its parts as bytes (uint8)."""
    if isinstance(shadow, tuple):
        return tuple(octets(part) for part in shadow)  # pyright: ignore
    return shadow.astype(np.uint8, copy=False)
