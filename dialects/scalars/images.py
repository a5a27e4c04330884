"""
Bounds the values of functions on intervals: computes the smallest and the largest value.

    rising(np.exp, (low, high)) = exp(low), exp(high)

The bounds are values of the exact function in binary64, without the error of a device. NaN as a
bound means that the value is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.scalars.meanings import Array

Bounds: TypeAlias = tuple[Array, Array]
"""Two arrays: the smallest and the largest value of each element."""

Image: TypeAlias = Callable[..., Bounds]
"""A function that computes the `Bounds` of a result from the `Bounds` of the operands."""

Meaning: TypeAlias = Callable[..., Any]
"""The exact function, elementwise on numpy arrays."""


def give_nan(function: Meaning, *operands: Bounds) -> Bounds:
    """Returns NaN as both bounds. Used for functions whose values are unknown."""
    anything = np.full(np.broadcast_shapes(*(low.shape for low, _ in operands)), np.nan)
    return anything, anything


def rising(function: Meaning, x: Bounds) -> Bounds:
    """Returns the bounds of an increasing function on an interval."""
    return function(x[0]), function(x[1])


def falling(function: Meaning, x: Bounds) -> Bounds:
    """Returns the bounds of a decreasing function on an interval."""
    return function(x[1]), function(x[0])


def even(function: Meaning, x: Bounds) -> Bounds:
    """
    Returns the bounds on an interval of a function that decreases up to 0 and increases from 0 on.
    """
    low, high = x
    crosses = (low <= 0) & (high >= 0)
    ends = function(low), function(high)
    least = np.where(crosses, function(np.zeros_like(low)), np.minimum(*ends))
    return least, np.maximum(*ends)


def oscillating(limit: float) -> Image:
    """
    Returns an `Image` for functions with values in [-1, 1], such as the sine.

    The bounds are exact if the operand is a single number below `limit` in magnitude. Otherwise
    they are -1 and 1.
    """

    def image(function: Meaning, x: Bounds) -> Bounds:
        low, high = x
        known = (low == high) & (np.abs(low) < limit)
        return np.where(known, function(low), -1.0), np.where(known, function(high), 1.0)

    return image
