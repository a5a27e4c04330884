"""
Defines the allowed difference between two correct executions.

Integers and booleans must be equal. Floats may differ by the error that Vulkan's table "Precision
of core SPIR-V instructions" (and of GLSL.std.450) allows from the exact result. The interpreter's
result (computed in binary64, rounded once) represents the exact result, so one more ULP is allowed
for its rounding. The table gives units in the last place (ULP) and absolute errors. If the table
derives a bound ("inherited from ..."), it is derived here, too, with the formula in a comment.

All NaNs are equal, and so are +0 and -0. Subnormal numbers may be flushed to zero unless a kernel
forbids this (VK_KHR_shader_float_controls): results of subnormal operands are not compared, and any
result may be off by the smallest normal number. Operations that only move bits are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Bound: TypeAlias = Callable[..., Array]
"""Function of the reference result and the operands that returns the largest legal error."""


@dataclass(frozen=True)
class Legal:
    """
    Defines the legal results of an operation. `bound(result, *operands)` is the allowed error. If
    it is None, results must be equal.
    """

    bound: Bound | None = None
    why: str = "exact"
    domain: Callable[..., Array] | None = None
    """Function of the operands that returns a mask of the results to compare. None compares all."""
    flush: bool = True
    """True if subnormal numbers may be flushed to zero."""
    others: Callable[..., Array] | None = None
    """Function of the operands in binary64 that returns a second correct result."""


EXACT = Legal()
MOVED = Legal(why="exact, bits are moved", flush=False)


def subnormal(values: Array) -> Array:
    """Returns a mask of the numbers that may be flushed to zero."""
    if values.dtype.kind != "f":
        return np.zeros(values.shape, bool)
    return (values != 0) & (np.abs(values) < np.finfo(values.dtype).tiny)


def spacing(value: Array, dtype: np.dtype[Any]) -> Array:
    """Returns one ULP of the type at a value given in binary64."""
    info = np.finfo(dtype)
    size = np.abs(np.where(np.isfinite(value), value, 0.0))
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log2(np.where(size > 0, size, float(info.tiny))))
    exponent = np.maximum(exponent, np.log2(float(info.tiny)))
    return 2.0**exponent * float(info.eps)


def within(result: Array, expected: Array, allowed: Array) -> Array:
    """Returns a mask of elements that are equal, both NaN, or within the allowed error."""
    if result.dtype.kind != "f":
        return result == expected
    # If the bound reaches beyond the largest number, infinity is legal.
    largest = float(np.finfo(expected.dtype).max)
    with np.errstate(invalid="ignore", over="ignore"):
        computed, truth = result.astype(np.float64), expected.astype(np.float64)
        near = np.abs(computed - truth) <= allowed
        same_sign = np.sign(computed) == np.sign(truth)
        over = np.isinf(computed) & same_sign & (np.abs(truth) + allowed > largest)
        back = np.isinf(truth) & same_sign & (np.abs(computed) + allowed > largest)
    return (computed == truth) | (np.isnan(computed) & np.isnan(truth)) | near | over | back
