"""
Limits of the difference between two correct executions.

Integers and booleans: not at all. Floats: as far as Vulkan's table "Precision of core SPIR-V
instructions" (and of GLSL.std.450) lets a device be from the infinitely precise result, which the
interpreter's is (computed in binary64, rounded once). The table knows operations in units in the
last place (ULP) and absolute errors; entries that it derives ("inherited from ...") are derived
here too, with the formula beside it. One ULP more is allowed for the rounding of the reference
itself.

Any NaN is as good as another, and +0 as -0. Subnormal numbers may be flushed to zero unless a
kernel asks for them (VK_KHR_shader_float_controls): where an operand is one nothing is claimed, and
a result may be off by the smallest normal number. Operations that only move bits are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Bound: TypeAlias = Callable[..., Array]
"""From the reference result and the operands, in binary64, to the largest legal error."""


@dataclass(frozen=True)
class Legal:
    """`bound(result, *operands)` is the error allowed beside `flush`; None for equality."""

    bound: Bound | None = None
    why: str = "exact"
    domain: Callable[..., Array] | None = None
    """Where anything is claimed at all, from the operands; None for everywhere."""
    flush: bool = True
    """Whether subnormal numbers may be taken for zero."""
    others: Callable[..., Array] | None = None
    """A result that is as good as the reference's, from the operands in binary64."""


EXACT = Legal()
MOVED = Legal(why="exact, bits are moved", flush=False)


def subnormal(values: Array) -> Array:
    """Returns which numbers may be flushed to zero."""
    if values.dtype.kind != "f":
        return np.zeros(values.shape, bool)
    return (values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)


def spacing(value: Array, dtype: np.dtype[Any]) -> Array:
    """One ULP of the type at a value given in binary64."""
    info = np.finfo(dtype)
    size = np.abs(np.where(np.isfinite(value), value, 0.0))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(np.where(size > 0, size, float(info.tiny))))
    exponent = np.maximum(exponent, np.log2(float(info.tiny)))
    return 2.0**exponent * float(info.eps)


def within(result: Array, expected: Array, allowed: Array) -> Array:
    """Returns which elements are equal, both NaN, or apart by no more than is allowed."""
    if result.dtype.kind != "f":
        return result == expected
    # A bound that crosses the largest number makes infinity legal.
    largest = float(np.finfo(expected.dtype).max)
    with np.errstate(invalid="ignore", over="ignore"):
        computed, truth = result.astype(np.float64), expected.astype(np.float64)
        near = np.abs(computed - truth) <= allowed
        same_sign = np.sign(computed) == np.sign(truth)
        over = np.isinf(computed) & same_sign & (np.abs(truth) + allowed > largest)
        back = np.isinf(truth) & same_sign & (np.abs(computed) + allowed > largest)
    return (computed == truth) | (np.isnan(computed) & np.isnan(truth)) | near | over | back
