"""
Computes shadows. The shadow of a value marks its undefined parts, and the instructions that made
them undefined.

A shadow is None (all parts defined), or a uint8 array in the value's form (forms.py) whose last
axes are never broadcast. 0 stands for a defined part, another number for the index of an
instruction. `UNWRITTEN` marks memory that was never written. A load replaces it by the index of the
load.
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
"""
The mask of a value's undefined parts: None, a uint8 array, or a tuple of masks for a composite.
"""

U8 = np.dtype(np.uint8)

UNWRITTEN = 255
"""Mask value of memory that was never written."""

LAST_ORIGIN = 254
"""Largest instruction index in a mask of undefined parts. All further instructions share it."""


def shadow_form(form: Form) -> Form:
    """Returns the representation (forms.py) of the mask of undefined parts of a value."""
    if isinstance(form, Plain):
        return Plain(U8, form.shape)
    if isinstance(form, CooperativeMatrix):
        return replace(form, dtype=U8)
    if isinstance(form, Composite):
        return Composite(tuple(shadow_form(member) for member in form.members))
    return Plain(U8)


def whole(shadow: Shadow, form: Form) -> Any:
    """Returns a mask of undefined parts as arrays. Returns zeros if the mask is None."""
    if shadow is not None:
        return shadow
    return zeros(form)


def filled(form: Form, number: int) -> Any:
    """Returns a mask in which all parts have the value `number`."""
    if isinstance(form, Composite):
        return tuple(filled(member, number) for member in form.members)
    return zeros(form) + U8.type(number)


def normal(shadow: Any) -> Shadow:
    """Returns the mask. Returns None if no part is undefined."""
    return shadow if shadow is not None and is_undefined(shadow) else None


def is_undefined(shadow: Any) -> bool:
    """True if a mask marks any part as undefined."""
    if isinstance(shadow, tuple):
        return any(is_undefined(part) for part in shadow)  # pyright: ignore
    return bool(shadow.any())


def by_lane(shadow: Shadow, form: Form) -> Array:
    """Returns the largest mask value of each lane. 0 means that all parts are defined."""
    if isinstance(shadow, tuple):
        assert isinstance(form, Composite)
        parts = [by_lane(part, member) for part, member in zip(shadow, form.members, strict=True)]  # pyright: ignore
        return largest(parts)
    if isinstance(form, CooperativeMatrix):
        return shadow.max(axis=(2, 3))[..., None]
    tail = tuple(range(3, shadow.ndim))
    return shadow.max(axis=tail) if tail else shadow


def largest(parts: Sequence[Array]) -> Array:
    """Returns the elementwise maximum of the arrays, with broadcasting."""
    total = parts[0]
    for part in parts[1:]:
        total = np.maximum(total, part)
    return total


def spread(lanes: Array, form: Form) -> Shadow:
    """Returns a mask in which every part of a lane's value has the lane's entry of `lanes`."""
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
    """True if the arrays of two types have the same shape, so that components correspond."""
    if isinstance(a, Plain) and isinstance(b, Plain):
        return a.shape == b.shape
    if isinstance(a, CooperativeMatrix) and isinstance(b, CooperativeMatrix):
        return (a.rows, a.columns) == (b.rows, b.columns)
    return False


def propagation(operands: Sequence[Form], result: Form) -> Callable[[Sequence[Shadow]], Shadow]:
    """
    Returns a function that computes the result's mask of undefined parts from the masks of the
    operands.

    A part of the result is undefined if the same part of an operand is undefined. If an operand of
    another shape has an undefined part, the whole result is undefined.
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
    """Returns the union of several masks of undefined parts of equal shape."""
    if isinstance(parts[0], tuple):
        return tuple(merge_parts(members) for members in zip(*parts, strict=True))
    return largest(parts)


def octets(shadow: Any) -> Any:
    """Converts all parts of a mask to uint8."""
    if isinstance(shadow, tuple):
        return tuple(octets(part) for part in shadow)  # pyright: ignore
    return shadow.astype(np.uint8, copy=False)
