"""
Bounds of functions: the least and the greatest value for operands in intervals.

    rising(np.exp, (low, high)) = exp(low), exp(high)

They are values of the exact function, in binary64, without the error of a device. NaN says that the
function may give anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.scalars.meanings import Array

Bounds: TypeAlias = tuple[Array, Array]
"""The least and the greatest number, element by element."""

Image: TypeAlias = Callable[..., Bounds]
"""Takes the function and the `Bounds` of each operand; returns the `Bounds` of its values."""

Meaning: TypeAlias = Callable[..., Any]
"""The exact function on numpy arrays, component by component."""


def give_nan(function: Meaning, *operands: Bounds) -> Bounds:
    """Returns NaN as both bounds: nothing is known of the function's values."""
    anything = np.full(np.broadcast_shapes(*(low.shape for low, _ in operands)), np.nan)
    return anything, anything


def rising(function: Meaning, x: Bounds) -> Bounds:
    """Bounds a function that never falls."""
    return function(x[0]), function(x[1])


def falling(function: Meaning, x: Bounds) -> Bounds:
    """Bounds a function that never rises."""
    return function(x[1]), function(x[0])


def even(function: Meaning, x: Bounds) -> Bounds:
    """Bounds a function that falls up to 0 and rises from there."""
    low, high = x
    crosses = (low <= 0) & (high >= 0)
    ends = function(low), function(high)
    least = np.where(crosses, function(np.zeros_like(low)), np.minimum(*ends))
    return least, np.maximum(*ends)


def oscillating(limit: float) -> Image:
    """Bounds a function with values in [-1, 1]; for |x| < `limit` it is computed precisely."""

    def image(function: Meaning, x: Bounds) -> Bounds:
        low, high = x
        known = (low == high) & (np.abs(low) < limit)
        return np.where(known, function(low), -1.0), np.where(known, function(high), 1.0)

    return image
