"""Computes `exp` and `log` in binary64 within 2 ulp. GLSL.std.450 has no such instructions."""

from __future__ import annotations

from math import factorial, inf, log2, nan, sqrt

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.scalars.values import Values
from xdsl_spirv.dialects.spirv import bit, conversion, glsl, glsl_forms, logic

LN_2 = (float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33"))
"""log(2) as a sum of two numbers. The first has few bits, so that its small multiples are exact."""

EXP = tuple(1 / factorial(n) for n in range(14))
"""Coefficients of exp(x), |x| <= log(2) / 2, with an error below 2^-57."""

LOG = tuple(2 / (2 * n + 3) for n in range(10))
"""
Coefficients of (log((1 + s) / (1 - s)) / s - 2) / s^2 in s^2, for |s| <= 0.172, with error 2^-58.
"""

MOST, LEAST = 709.782712893384, -746.0
"""Above MOST exp(x) is infinite, below LEAST exp(x) is 0."""

MANTISSA = 52
BIAS = 1023


def exp(v: Values, x: SSAValue) -> SSAValue:
    """Computes exp(x) = 2^k exp(x - k log 2), with 2^k as two normal factors."""
    limited = v.op(glsl.GLFMaxOp, v.op(glsl.GLFMinOp, x, v.number(MOST)), v.number(LEAST))
    k = v.op(glsl.GLRoundEvenOp, v.mul(limited, v.number(log2(2.718281828459045))))
    rest = limited
    for part in LN_2:
        rest = v.fma(v.negated(k), v.number(part), rest)
    result = v.polynomial(rest, EXP)
    half_k = v.op(glsl.GLFloorOp, v.mul(k, v.number(0.5)))
    for step in (half_k, v.sub(k, half_k)):
        exponent = v.as_type(i32).op(conversion.ConvertFToSOp, step)
        result = v.op(glsl_forms.GLLdexpOp, result, exponent)
    result = v.select(v.less(v.number(MOST), x), v.number(inf), result)
    return v.select(v.is_nan(x), x, result)


def log(v: Values, x: SSAValue) -> SSAValue:
    """Computes log(x) = e log 2 + log m for x = 2^e m, where m is between sqrt(1/2) and sqrt(2)."""
    whole = v.as_type(i64)
    tiny = v.less(x, v.number(2.0 ** (1 - BIAS)))
    normal = v.select(tiny, v.mul(x, v.number(2.0**54)), x)
    bits = whole.op(conversion.BitcastOp, normal)
    power = whole.op(bit.ShiftRightArithmeticOp, bits, whole.number(MANTISSA))
    low = whole.op(bit.BitwiseAndOp, bits, whole.number((1 << MANTISSA) - 1))
    one = whole.number(BIAS << MANTISSA)
    m = v.op(conversion.BitcastOp, whole.op(bit.BitwiseOrOp, low, one))
    large = v.less(v.number(sqrt(2)), m)
    m = v.select(large, v.mul(m, v.number(0.5)), m)
    bias = v.select(large, v.number(BIAS - 1), v.number(BIAS))
    bias = v.select(tiny, v.add(bias, v.number(54)), bias)
    e = v.sub(v.op(conversion.ConvertSToFOp, power), bias)
    # log(1 + f) = f - (h - s (h + r)), h = f^2 / 2: f is exact, and the other terms are small.
    f = v.sub(m, v.number(1))
    s = v.div(f, v.add(m, v.number(1)))
    h = v.mul(f, v.mul(f, v.number(0.5)))
    square = v.mul(s, s)
    r = v.mul(square, v.polynomial(square, LOG))
    small = v.fma(s, v.add(h, r), v.mul(e, v.number(LN_2[1])))
    result = v.fma(e, v.number(LN_2[0]), v.sub(f, v.sub(h, small)))
    positive = v.less(v.number(0), x)
    zero = v.test(logic.FOrdEqualOp, x, v.number(0))
    special = v.select(zero, v.number(-inf), v.number(nan))
    result = v.select(positive, result, special)
    return v.select(v.test(logic.FOrdEqualOp, x, v.number(inf)), x, result)
