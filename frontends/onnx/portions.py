"""
Represents floats that are a dynamic size times a fraction. Exporters scale images by them.

    Floor(Cast(size) * 0.75) is size * 3 / 4, rounded down; Ceil(Cast(size) / 2) is rounded up

Only fractions with exact products in floats are supported. Exact and float arithmetic then round to
the same integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    SymbolicSize,
    ceil_div,
    common_divisor,
    exact_quotient,
    surely_below,
)
from xdsl_spirv.frontends.onnx.values import Array

MOST = 1 << 8
"""Largest numerator and denominator. Products with sizes below 65,536 are exact in f32."""


@dataclass(frozen=True)
class Portion:
    """A size divided by an integer."""

    size: Size
    divisor: int

    def __add__(self, other: Any) -> Size | Portion:
        a, b = _exact(self), _exact(other)
        return _reduce(a.size * b.divisor + b.size * a.divisor, a.divisor * b.divisor)

    def __mul__(self, other: Any) -> Size | Portion:
        a, b = _exact(self), _exact(other)
        return _reduce(a.size * b.size, a.divisor * b.divisor)

    __radd__, __rmul__ = __add__, __mul__

    def __float__(self) -> float:
        return int(self.size) / self.divisor  # pyright: ignore[reportArgumentType]

    def __neg__(self) -> Portion:
        return Portion(-self.size, self.divisor)

    def __sub__(self, other: Any) -> Size | Portion:
        return self + -other

    def __rsub__(self, other: Any) -> Size | Portion:
        return -self + other


def portion_of(number: Any) -> Portion:
    """Converts a number to a fraction of integers up to `MOST`. Raises `TypeError` otherwise."""
    if isinstance(number, Portion):
        return number
    if isinstance(number, SymbolicSize | int):
        return Portion(number, 1)
    exact = Fraction(float(number))
    if abs(exact.numerator) > MOST or exact.denominator > MOST:
        raise TypeError(f"{number} is not a fraction of integers up to {MOST}")
    return Portion(exact.numerator, exact.denominator)


def split_portions(numbers: Array) -> tuple[Array, Array]:
    """Returns the sizes and the divisors of sizes and fractions, in the shape of `numbers`."""
    portions = [portion_of(number) for number in numbers.flat]
    sizes, divisors = np.empty(numbers.shape, object), np.empty(numbers.shape, object)
    sizes.flat[:], divisors.flat[:] = [p.size for p in portions], [p.divisor for p in portions]
    return sizes, divisors


def _reduce(size: Size, divisor: int) -> Size | Portion:
    common = gcd(common_divisor(size), divisor)
    return size // common if divisor == common else Portion(size // common, divisor // common)


def _exact(number: Any) -> Portion:
    """
    Converts a number to a portion. Raises `TypeError` if floats cannot represent the number exactly
    (such as 1/3).
    """
    portion = portion_of(number)
    if portion.divisor & (portion.divisor - 1):
        raise TypeError(
            f"{portion.size} / {portion.divisor} is not exact in floats: divide by a power of two"
        )
    return portion


def quotient_of(x: Any, y: Any) -> Size | Portion:
    """Computes x / y. Raises `TypeError` if the quotient is not exact in floats."""
    x, y = _exact(x), _exact(y)
    if not isinstance(y.size, int):
        whole = exact_quotient(x.size, y.size)
        if whole is None:
            raise TypeError(f"{x.size} cannot be divided by {y.size}")
        return _reduce(whole * y.divisor, x.divisor)
    if y.size < 1:
        raise TypeError(f"{x.size} cannot be divided by {y.size}")
    return _reduce(x.size * y.divisor, x.divisor * y.size)


def round_size(number: Any, *, up: bool = False) -> Size:
    """Rounds a size or portion down, or up if `up` is set."""
    if not isinstance(number, Portion):
        return number
    return ceil_div(number.size, number.divisor) if up else number.size // number.divisor


def truncate_size(number: Any) -> Size:
    """Rounds a portion toward zero. Raises `TypeError` if the sign is unknown."""
    if isinstance(number, Portion) and not surely_below(-1, number.size):
        raise TypeError(f"the result depends on the sign of {number.size}, which is not known")
    return round_size(number)


def check_whole(number: Any) -> Size:
    """Returns an integer or size unchanged. Raises `TypeError` for a portion."""
    if isinstance(number, Portion):
        raise TypeError(f"{number} is not a whole number")
    return number
