"""Declares elementwise operations, for tensors and for the regions of reductions and sorts."""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any

import ml_dtypes
from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    SymbolicSize,
    greater,
    lesser,
    surely_below,
)
from xdsl_spirv.frontends.onnx import formats
from xdsl_spirv.frontends.onnx.operators.elementwise import (
    quotient,
    remainder,
    rounded_once,
    saturate_integer,
    sign,
    whole_power,
)
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import ELEMENTS, I32, U32, Element

Body = Callable[..., Number]
COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


def of_math(op: Any) -> Body:
    """Returns a body for an operation of `math`; narrow floats are computed in f32."""
    return rounded_once(lambda s, x: s.unary(op, x))


def write_shift(shift: Callable[[Number, Number], Number], unsigned: bool) -> Body:
    """Returns a body for a shift. A shift by at least the width gives 0, or copies of the sign."""

    def body(s: Scalars, x: Number, y: Number) -> Number:
        kind = ELEMENTS[("ui" if unsigned else "i") + str(x.element.bits)]
        value, count = Number(s, x.value, kind), Number(s, y.value, ELEMENTS[f"ui{x.element.bits}"])
        most = x.element.bits - 1
        if y.known is not None and 0 <= y.known <= most:
            return Number(s, shift(value, count.to(kind)).value, x.element)
        held = s.minimum(count, most).to(kind)
        result = Number(s, shift(value, held).value, x.element)
        return result if not unsigned else s.select(count > most, 0, result)

    return body


def power(s: Scalars, x: Number, y: Number) -> Number:
    if not x.element.is_float:
        return whole_power(s, x, y)
    return rounded_once(lambda s, x, y: s.binary(math.PowFOp, math.PowFOp, x, y))(s, x, y)


def convert_number(s: Scalars, x: Number, element: Element) -> Number:
    """
    Converts a number to another type. Floats out of an integer's range are clamped; floats out of a
    narrow float's range become infinity or NaN.
    """
    if element.is_narrow_float:
        return formats.written(s, x, element, saturate=False)
    if not x.element.is_float or element.is_float or element.is_bool:
        return x.to(element)
    if element.bits < 32:
        wide = saturate_integer(s, x, I32)
        return s.minimum(s.maximum(wide, element.least), element.greatest).to(element)
    return saturate_integer(s, x, element) if element in (I32, U32) else x.to(element)


def reduce_precision(s: Scalars, x: Number, exponent_bits: int, mantissa_bits: int) -> Number:
    """
    Rounds a float to the values of a format with fewer bits: numbers out of range become infinity
    or zero. NaN stays, as in XLA.
    """
    limits, kind = ml_dtypes.finfo(x.element.dtype), ELEMENTS[f"ui{x.element.bits}"]
    mantissa = int(limits.nmant)
    bias, own = (1 << exponent_bits - 1) - 1, (1 << x.element.bits - mantissa - 2) - 1
    word = s.reinterpret(x, kind)
    sign = word & (1 << x.element.bits - 1)
    size = word ^ sign
    if (dropped := mantissa - mantissa_bits) > 0:
        even = (size >> dropped) & 1
        size = (size + even + ((1 << dropped - 1) - 1)) >> dropped << dropped
    if bias < own:
        size = s.select(size >= own + bias + 1 << mantissa, 2 * own + 1 << mantissa, size)
        size = s.select(size < own - bias + 1 << mantissa, 0, size)
    return s.select(s.is_nan(x), x, s.reinterpret(size | sign, x.element))


def compare(s: Scalars, x: Number, y: Number, direction: str, total: bool) -> Number:
    """Compares two numbers. In the total order, -NaN comes first, -0 before 0, and NaN last."""
    if total and x.element.is_float:
        element = ELEMENTS[f"i{x.element.bits}"]
        x, y = (s.reinterpret(n, element) for n in (x, y))
        most = (1 << (element.bits - 1)) - 1
        x, y = (s.select(n < 0, n ^ most, n) for n in (x, y))
    return s.compare(COMPARE[direction], x, y)


def count_ones(s: Scalars, x: Number) -> Number:
    total = s.number(0, x.element)
    bits = Number(s, x.value, ELEMENTS[f"ui{x.element.bits}"])
    for bit in range(x.element.bits):
        total = total + Number(s, ((bits >> bit) & 1).value, x.element)
    return total


def count_leading_zeros(s: Scalars, x: Number) -> Number:
    bits = Number(s, x.value, ELEMENTS[f"ui{x.element.bits}"])
    for distance in (1, 2, 4, 8, 16, 32):
        # Sets every bit below the highest set bit.
        bits = bits | bits >> distance if distance < x.element.bits else bits
    return count_ones(s, Number(s, (~bits).value, x.element))


def log_plus_one(s: Scalars, x: Number) -> Number:
    """Computes log(1 + x), accurately also for small x."""
    whole = 1 + x
    exact = s.unary(math.LogOp, whole) * x / (whole - 1)
    return s.select(whole.equals(1) | s.is_infinite(whole), x, exact)


def exponential_minus_one(s: Scalars, x: Number) -> Number:
    """Computes e^x - 1, accurately also for small x."""
    series = x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))))
    return s.select(s.absolute(x) < 0.35, series, s.exp(x) - 1)


def cube_root(s: Scalars, x: Number) -> Number:
    root = s.binary(math.PowFOp, math.PowFOp, s.absolute(x), s.number(1 / 3, x.element))
    return s.select(x.equals(0), x, s.select(x < 0, -root, root))


def round_away(s: Scalars, x: Number) -> Number:
    whole = s.unary(math.FloorOp, s.absolute(x) + 0.5)
    return s.select(x < 0, -whole, whole)


def is_finite(s: Scalars, x: Number) -> Number:
    return ~(s.is_nan(x) | s.is_infinite(x))


BODIES: dict[str, Body] = {
    "stablehlo.add": lambda s, x, y: x | y if x.element.is_bool else x + y,
    "stablehlo.subtract": lambda s, x, y: x - y,
    "stablehlo.multiply": lambda s, x, y: x & y if x.element.is_bool else x * y,
    "stablehlo.divide": quotient,
    "stablehlo.remainder": remainder,
    "stablehlo.maximum": lambda s, x, y: x | y if x.element.is_bool else s.maximum(x, y),
    "stablehlo.minimum": lambda s, x, y: x & y if x.element.is_bool else s.minimum(x, y),
    "stablehlo.power": power,
    "stablehlo.atan2": rounded_once(lambda s, x, y: s.binary(math.Atan2Op, math.Atan2Op, x, y)),
    "stablehlo.and": lambda s, x, y: x & y,
    "stablehlo.or": lambda s, x, y: x | y,
    "stablehlo.xor": lambda s, x, y: x ^ y,
    "stablehlo.not": lambda s, x: ~x,
    "stablehlo.shift_left": write_shift(python.lshift, True),
    "stablehlo.shift_right_logical": write_shift(python.rshift, True),
    "stablehlo.shift_right_arithmetic": write_shift(python.rshift, False),
    "stablehlo.select": lambda s, c, x, y: s.select(c, x, y),
    "stablehlo.clamp": lambda s, low, x, high: s.minimum(s.maximum(x, low), high),
    "stablehlo.abs": lambda s, x: s.absolute(x),
    "stablehlo.negate": lambda s, x: -x,
    "stablehlo.exponential": lambda s, x: s.exp(x),
    "stablehlo.exponential_minus_one": rounded_once(exponential_minus_one),
    "stablehlo.log": of_math(math.LogOp),
    "stablehlo.log_plus_one": rounded_once(log_plus_one),
    "stablehlo.sqrt": of_math(math.SqrtOp),
    "stablehlo.rsqrt": of_math(math.RsqrtOp),
    "stablehlo.cbrt": rounded_once(cube_root),
    "stablehlo.ceil": of_math(math.CeilOp),
    "stablehlo.floor": of_math(math.FloorOp),
    "stablehlo.round_nearest_even": of_math(math.RoundEvenOp),
    "stablehlo.round_nearest_afz": rounded_once(round_away),
    "stablehlo.sign": sign,
    "stablehlo.sine": of_math(math.SinOp),
    "stablehlo.cosine": of_math(math.CosOp),
    "stablehlo.tan": of_math(math.TanOp),
    "stablehlo.tanh": of_math(math.TanhOp),
    "stablehlo.logistic": rounded_once(lambda s, x: 1 / (1 + s.exp(-x))),
    "stablehlo.is_finite": is_finite,
    "stablehlo.popcnt": count_ones,
    "stablehlo.count_leading_zeros": count_leading_zeros,
    "chlo.erf": of_math(math.ErfOp),
    "chlo.square": lambda s, x: x * x,
    **{
        f"chlo.{name}": of_math(getattr(math, f"{name.capitalize()}Op"))
        for name in "acos acosh asin asinh atan atanh cosh sinh tan".split()
    },
    "chlo.is_inf": lambda s, x: s.is_infinite(x),
}


def _known_comparison(x: Any, y: Any, direction: str, total: bool) -> Any:
    """Compares sizes; returns None if the result depends on dynamic sizes."""
    below, above = surely_below(x, y), surely_below(y, x)
    if not isinstance(x, SymbolicSize) and not isinstance(y, SymbolicSize):
        return getattr(python, direction.lower())(x, y)
    answers = {"LT": (below, above or x == y), "GE": (above or x == y, below)}
    answers |= {"GT": (above, below or x == y), "LE": (below or x == y, above)}
    answers |= {"EQ": (x == y, below or above), "NE": (below or above, x == y)}
    yes, no = answers[direction]
    return True if yes else False if no else None


FOLDS: dict[str, Callable[..., Any]] = {
    "stablehlo.add": python.add,
    "stablehlo.subtract": python.sub,
    "stablehlo.multiply": python.mul,
    "stablehlo.maximum": greater,
    "stablehlo.minimum": lesser,
    "stablehlo.clamp": lambda low, x, high: lesser(greater(low, x), high),
    "stablehlo.select": lambda c, x, y: x if c else y,
    "stablehlo.compare": _known_comparison,
    "stablehlo.convert": lambda x: x,
}
"""Functions that fold operations on integers and sizes. They return None if that is impossible."""


def divide_size(size: Any, divisor: Any) -> tuple[Size, Size] | None:
    """Returns quotient, rounded down, and remainder. Returns None if the divisor is not known."""
    if not isinstance(divisor, int) or divisor < 1:
        return None
    quotient = size // divisor
    return quotient, size - quotient * divisor
