"""
Writes the instructions of `math` functions, with sufficient accuracy on every Vulkan device.

Vulkan allows `Sin` an error of 2^-11, `Atan` 4096 ulp, and does not bound `Tanh` near 0. These
functions, and functions that GLSL.std.450 lacks, are polynomials without cancellation. The
coefficients are a weighted least-squares fit that converges to the minimax polynomial. If Vulkan's
bound is good enough (`Exp`: 3 + 2|x| ulp, `Log`: 3 ulp, `InverseSqrt`: 2 ulp), the instruction is
used. All functions are computed in binary32; f16 and bf16 are converted before and after.
docs/passes/ lists the measured errors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log2, nan, pi
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerType, i1, i32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.scalars import binary64
from xdsl_spirv.dialects.scalars.values import Values, element_of, width_of
from xdsl_spirv.dialects.spirv import arithmetic, bit, conversion, glsl, logic

Sequence: TypeAlias = Callable[..., SSAValue]
"""A function that writes instructions on operands by a `Values`, and returns the result."""

ERF_SMALL = (
    *(1.128379167063158, -0.3761263848380889, 0.11283782747201786, -0.02686544582155756),
    *(0.005221074878675903, -0.0008484711459066165, 0.00011270544571265008, -9.68013665049288e-06),
)
"""Coefficients of erf(x) / x in x^2, |x| <= 1."""

ERF_LARGE = (
    *(8.594169986420042e-05, -1.128979723102511, -0.6347535663019053, -0.1061673309335838),
    *(0.02312265035336162, -0.0029406086182780975, -5.952840666676747e-05),
    *(0.00010340708594340346, -1.7862425458718054e-05, 1.1107708612654445e-06),
)
"""Coefficients of log(1 - erf(x)) in x, 0.9 <= x <= 4.1."""

ERF_OF_HALF = (
    *(1.1283303913947655, -0.3753730486431487, 0.11079216603794913, -0.0246306437588878),
    *(0.00394863353941037, -0.0004235348827475464, 2.6727742558502666e-05, -7.408665555834071e-07),
)
"""Coefficients of erf(x) / x in x^2, |x| <= 2.75, accurate enough for 16-bit results."""

TANH = (
    *(0.9999999962994425, -0.3333326338040228, 0.13331185767649267, -0.05372523158903102),
    *(0.02060314708057563, -0.005672421671728846),
)
"""Coefficients of tanh(x) / x in x^2, |x| <= 0.625."""

ATAN = (
    *(0.9999999978791241, -0.33333287689910934, 0.19998374453786943, -0.14263049866929728),
    *(0.10947789553754571, -0.08393989401741633, 0.05783558481051615, -0.03108541294317407),
    *(0.010876919013285899, -0.0017872979724063438),
)
"""Coefficients of atan(x) / x in x^2, |x| <= 1."""

SIN = (0.9999999966001689, -0.16666649445447326, 0.008331969956928406, -0.0001949545065705547)
"""Coefficients of sin(x) / x in x^2, |x| <= pi / 4."""

COS = (
    *(0.9999999999462269, -0.49999999574613524, 0.04166661281812699, -0.0013886502034310376),
    2.436921011292658e-05,
)
"""Coefficients of cos(x) in x^2, |x| <= pi / 4."""

LOG1P = (
    *(1.9999999997410995, 0.6666668251500847, 0.3999843026685706, 0.2862800677852086),
    *(0.21311263249594167, 0.24732558962274703),
)
"""Coefficients of log((1 + s) / (1 - s)) / s in s^2, |s| <= 1/3."""

EXPM1 = (
    *(0.999999999915476, 0.4999999999323994, 0.16666667748263583, 0.04166666964039561),
    *(0.00833311712587117, 0.0013888521393845884, 0.00019979496725963317, 2.497435585016583e-05),
)
"""Coefficients of (exp(x) - 1) / x in x, |x| <= 0.5."""

SINH = (
    *(1.000000000049879, 0.1666666641758805, 0.008333353231004337, 0.0001983570979754355),
    2.8190391823104347e-06,
)
"""Coefficients of sinh(x) / x in x^2, |x| <= 1."""

HALF_PI = (1.5703125, 4.837512969970703e-4, 7.549790126404332e-08)
"""pi / 2 as a sum of three numbers. Small multiples of the first two are exact."""

MOST_ANGLE = 2.0**19
"""Largest supported angle. The functions return NaN for larger angles."""


# Functions that GLSL.std.450 computes well enough


def exp(v: Values, x: SSAValue) -> SSAValue:
    return binary64.exp(v, x) if width_of(v.type) == 64 else v.op(glsl.GLExpOp, x)


def log(v: Values, x: SSAValue) -> SSAValue:
    return binary64.log(v, x) if width_of(v.type) == 64 else v.op(glsl.GLLogOp, x)


def instruction(kind: type[Operation]) -> Sequence:
    """Returns a sequence of one instruction whose result has the operands' type."""
    return lambda v, *operands: v.op(kind, *operands)


def test(kind: type[Operation]) -> Sequence:
    """Returns a sequence of one instruction whose result is a Boolean."""
    return lambda v, *operands: v.test(kind, *operands)


# Sequences


def erf(v: Values, x: SSAValue) -> SSAValue:
    """Computes erf(x): x P(x^2) for small |x|, otherwise 1 - exp(Q(|x|)) with the sign of x."""
    if v.stated_width == 16:
        return _erf_of_half(v, x)
    a = v.magnitude(x)
    small = v.mul(x, v.polynomial(v.mul(x, x), ERF_SMALL))
    limited = v.op(glsl.GLFMinOp, a, v.number(4.1))
    large = v.sub(v.number(1.0), exp(v, v.polynomial(limited, ERF_LARGE)))
    result = v.select(v.less(a, v.number(1.0)), small, v.with_sign(large, x))
    return v.select(v.is_nan(x), x, result)


def _erf_of_half(v: Values, x: SSAValue) -> SSAValue:
    """Computes erf(x) as x P(x^2), up to the |x| at which a 16-bit result rounds to 1."""
    limited = v.op(glsl.GLFClampOp, x, v.number(-2.75), v.number(2.75))
    result = v.mul(limited, v.polynomial(v.mul(limited, limited), ERF_OF_HALF))
    return v.select(v.is_nan(x), x, result)


def tanh(v: Values, x: SSAValue) -> SSAValue:
    """
    Computes tanh(x): x P(x^2) for small |x|, otherwise 1 - 2 / (exp(2|x|) + 1) with the sign of x.
    """
    a = v.magnitude(x)
    small = v.mul(x, v.polynomial(v.mul(x, x), TANH))
    limited = v.op(glsl.GLFMinOp, a, v.number(10.0))
    power = exp(v, v.add(limited, limited))
    large = v.sub(v.number(1.0), v.div(v.number(2.0), v.add(power, v.number(1.0))))
    result = v.select(v.less(a, v.number(0.625)), small, v.with_sign(large, x))
    return v.select(v.is_nan(x), x, result)


def log1p(v: Values, x: SSAValue) -> SSAValue:
    """
    Computes log(1 + x): without cancellation as 2 artanh(x / (2 + x)) for small |x|, otherwise
    directly.
    """
    s = v.div(x, v.add(x, v.number(2.0)))
    small = v.mul(s, v.polynomial(v.mul(s, s), LOG1P))
    large = log(v, v.add(x, v.number(1.0)))
    near = v.less(v.magnitude(v.sub(x, v.number(0.25))), v.number(0.75))
    return v.select(near, small, large)


def expm1(v: Values, x: SSAValue) -> SSAValue:
    """Computes exp(x) - 1: x P(x) for small |x|, otherwise directly."""
    small = v.mul(x, v.polynomial(x, EXPM1))
    large = v.sub(exp(v, x), v.number(1.0))
    return v.select(v.less(v.magnitude(x), v.number(0.5)), small, large)


def sinh(v: Values, x: SSAValue) -> SSAValue:
    """Computes sinh(x): x P(x^2) for small |x|, otherwise exp(x) / 2 - exp(-x) / 2."""
    small = v.mul(x, v.polynomial(v.mul(x, x), SINH))
    return v.select(v.less(v.magnitude(x), v.number(1.0)), small, v.sub(*_half_powers(v, x)))


def cosh(v: Values, x: SSAValue) -> SSAValue:
    return v.add(*_half_powers(v, x))


def _half_powers(v: Values, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Returns exp(x) / 2 and exp(-x) / 2, without intermediate overflow."""
    halves: list[SSAValue] = []
    for exponent in (x, v.negated(x)):
        root = exp(v, v.mul(exponent, v.number(0.5)))
        halves.append(v.mul(v.mul(root, v.number(0.5)), root))
    return halves[0], halves[1]


def _quadrants(v: Values, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Returns n, sin(r) and cos(r) for x = n pi / 2 + r, where n is the nearest integer."""
    turns = v.op(glsl.GLRoundEvenOp, v.mul(x, v.number(2 / pi)))
    rest = x
    for part in HALF_PI:
        rest = v.fma(turns, v.number(-part), rest)
    square = v.mul(rest, rest)
    number = v.as_type(i32).op(conversion.ConvertFToSOp, turns)
    square = v.select(v.less(v.magnitude(x), v.number(MOST_ANGLE)), square, v.number(nan))
    return number, v.mul(rest, v.polynomial(square, SIN)), v.polynomial(square, COS)


def _by_quadrant(v: Values, number: SSAValue, even: SSAValue, odd: SSAValue) -> SSAValue:
    """
    Returns `even` if `number` is even, otherwise `odd`. The result is negated if bit 1 of `number`
    is set.
    """
    whole = v.as_type(i32)

    def has(mask: int) -> SSAValue:
        masked = whole.op(bit.BitwiseAndOp, number, whole.number(mask))
        return whole.test(logic.INotEqualOp, masked, whole.number(0))

    value = v.select(has(1), odd, even)
    return v.select(has(2), v.negated(value), value)


def sin(v: Values, x: SSAValue) -> SSAValue:
    number, sine, cosine = _quadrants(v, x)
    return _by_quadrant(v, number, sine, cosine)


def cos(v: Values, x: SSAValue) -> SSAValue:
    number, sine, cosine = _quadrants(v, x)
    whole = v.as_type(i32)
    following = whole.op(arithmetic.IAddOp, number, whole.number(1))
    return _by_quadrant(v, following, sine, cosine)


def tan(v: Values, x: SSAValue) -> SSAValue:
    return v.div(sin(v, x), cos(v, x))


def atan2(v: Values, y: SSAValue, x: SSAValue) -> SSAValue:
    """
    Computes the angle of (x, y) from atan of min(|x|, |y|) / max(|x|, |y|). The angle of (0, 0) is
    0 or pi.
    """
    a, b = v.magnitude(y), v.magnitude(x)
    steep = v.less(b, a)
    small, large = v.select(steep, b, a), v.select(steep, a, b)
    zero, one = v.number(0.0), v.number(1.0)
    nothing = v.test(logic.FOrdEqualOp, large, zero)
    both_infinite = v.test(logic.FOrdEqualOp, small, v.number(inf))
    ratio = v.div(small, v.select(nothing, one, large))
    ratio = v.select(both_infinite, one, ratio)
    angle = v.mul(ratio, v.polynomial(v.mul(ratio, ratio), ATAN))
    angle = v.select(steep, v.sub(v.number(pi / 2), angle), angle)
    whole = v.as_type(i32)
    left = whole.test(logic.SLessThanOp, v.bits(x), whole.number(0))
    angle = v.with_sign(v.select(left, v.sub(v.number(pi), angle), angle), y)
    unknown = v.either(v.is_nan(x), v.is_nan(y))
    return v.select(unknown, v.number(nan), angle)


def atan(v: Values, x: SSAValue) -> SSAValue:
    return atan2(v, x, v.number(1.0))


def _other_leg(v: Values, x: SSAValue) -> SSAValue:
    """Returns sqrt(1 - x^2), computed without cancellation."""
    one = v.number(1.0)
    return v.op(glsl.GLSqrtOp, v.mul(v.sub(one, x), v.add(one, x)))


def asin(v: Values, x: SSAValue) -> SSAValue:
    return atan2(v, x, _other_leg(v, x))


def acos(v: Values, x: SSAValue) -> SSAValue:
    return atan2(v, _other_leg(v, x), x)


def asinh(v: Values, x: SSAValue) -> SSAValue:
    """
    Computes asinh(x) as log1p(a + a^2 / (1 + sqrt(1 + a^2))), a = |x|, and as log(2a) for large a.
    """
    a, one = v.magnitude(x), v.number(1.0)
    square = v.mul(a, a)
    root = v.op(glsl.GLSqrtOp, v.add(one, square))
    near = log1p(v, v.add(a, v.div(square, v.add(one, root))))
    far = v.add(log(v, a), v.number(0.6931471805599453))
    result = v.select(v.less(a, v.number(2.0**20)), near, far)
    return v.with_sign(result, x)


def acosh(v: Values, x: SSAValue) -> SSAValue:
    """
    Computes acosh(x) as log1p(t + sqrt(t) sqrt(t + 2)), t = x - 1, and as log(x) + log(2) above
    2^20.

    Two roots give NaN for all x below 1. A single root of t (t + 2) would give a number for x below
    -1.
    """
    t = v.sub(x, v.number(1.0))
    root = v.mul(v.op(glsl.GLSqrtOp, t), v.op(glsl.GLSqrtOp, v.add(t, v.number(2.0))))
    near = log1p(v, v.add(t, root))
    far = v.add(log(v, x), v.number(0.6931471805599453))
    return v.select(v.less(x, v.number(2.0**20)), near, far)


def atanh(v: Values, x: SSAValue) -> SSAValue:
    """Computes atanh(x) as log1p(2a / (1 - a)) / 2, a = |x|, with the sign of x."""
    a, one = v.magnitude(x), v.number(1.0)
    ratio = v.div(v.add(a, a), v.sub(one, a))
    return v.with_sign(v.mul(v.number(0.5), log1p(v, ratio)), x)


def cbrt(v: Values, x: SSAValue) -> SSAValue:
    """Computes the cube root as exp2(log2|x| / 3) and one Newton step, with the sign of x."""
    a = v.magnitude(x)
    root = v.op(glsl.GLExp2Op, v.mul(v.op(glsl.GLLog2Op, a), v.number(1 / 3)))
    error = v.div(v.sub(v.mul(root, v.mul(root, root)), a), v.mul(root, root))
    better = v.sub(root, v.mul(error, v.number(1 / 3)))
    simple = v.either(
        v.test(logic.FOrdEqualOp, a, v.number(0.0)), v.test(logic.FOrdEqualOp, a, v.number(inf))
    )
    return v.with_sign(v.select(simple, a, better), x)


def log10(v: Values, x: SSAValue) -> SSAValue:
    return v.mul(v.op(glsl.GLLog2Op, x), v.number(1 / log2(10)))


def round_half_away(v: Values, x: SSAValue) -> SSAValue:
    """Rounds to the nearest integer. Unlike `Round`, rounds halves away from 0."""
    whole = v.op(glsl.GLTruncOp, x)
    rest = v.magnitude(v.sub(x, whole))
    up = v.with_sign(v.number(1.0), x)
    far = v.test(logic.FOrdGreaterThanEqualOp, rest, v.number(0.5))
    return v.select(far, v.add(whole, up), whole)


def copysign(v: Values, x: SSAValue, sign: SSAValue) -> SSAValue:
    return v.with_sign(v.magnitude(x), sign)


def power(v: Values, x: SSAValue, y: SSAValue) -> SSAValue:
    """
    Computes x^y as exp2(y log2|x|), with the special cases of C's `pow`.

    For negative x, the result is negative for odd y, and NaN for y that is not an integer (unless
    x is infinite). x^0, 1^y and (-1)^infinity are 1.
    """
    a, one, zero = v.magnitude(x), v.number(1.0), v.number(0.0)
    size = v.op(glsl.GLExp2Op, v.mul(y, v.op(glsl.GLLog2Op, a)))
    rising = v.select(v.less(zero, y), zero, v.number(inf))
    size = v.select(v.test(logic.FOrdEqualOp, a, zero), rising, size)
    size = v.select(v.test(logic.FOrdEqualOp, a, one), one, size)
    half_y = v.mul(y, v.number(0.5))
    odd = v.test(logic.FOrdNotEqualOp, v.op(glsl.GLTruncOp, half_y), half_y)
    whole = v.test(logic.FOrdEqualOp, v.op(glsl.GLTruncOp, y), y)
    boolean = v.as_type(i1)
    odd = boolean.op(logic.LogicalAndOp, odd, whole)
    integer = v.as_type(i32)
    negative = integer.test(logic.SLessThanOp, v.bits(x), integer.number(0))
    below = boolean.op(logic.LogicalAndOp, v.less(x, zero), is_finite(v, x))
    flipped = boolean.op(logic.LogicalAndOp, negative, odd)
    result = v.select(flipped, v.negated(size), size)
    no_number = boolean.op(logic.LogicalAndOp, below, boolean.op(logic.LogicalNotOp, whole))
    result = v.select(no_number, v.number(nan), result)
    return v.select(v.test(logic.FOrdEqualOp, y, zero), one, result)


def remainder(v: Values, x: SSAValue, y: SSAValue) -> SSAValue:
    """
    Computes |x| - trunc(|x| / |y|) |y| with the sign of x, and corrects errors of the quotient.

    The result is exact if Fma rounds once, or if the product is exact. The instruction FRem is not
    used, because its result may be wrong by a multiple of y.
    """
    a, b = v.magnitude(x), v.magnitude(y)
    quotient = v.op(glsl.GLTruncOp, v.div(a, b))
    rest = v.fma(v.negated(quotient), b, a)
    rest = v.select(v.less(rest, v.number(0.0)), v.add(rest, b), rest)
    over = v.test(logic.FOrdGreaterThanEqualOp, rest, b)
    rest = v.select(over, v.sub(rest, b), rest)
    rest = v.select(v.less(a, b), a, rest)
    return v.with_sign(rest, x)


def small_power(v: Values, x: SSAValue, count: int) -> SSAValue:
    """Computes x to the power `count`, a small nonnegative integer."""
    result: SSAValue | None = None
    square = x
    while count:
        if count & 1:
            result = square if result is None else _product(v, result, square)
        count >>= 1
        if count:
            square = _product(v, square, square)
    return v.number(1) if result is None else result


def _product(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    integer = isinstance(element_of(v.type), IntegerType)
    return v.op(arithmetic.IMulOp if integer else arithmetic.FMulOp, a, b)


def power_of_integer(v: Values, x: SSAValue, n: SSAValue) -> SSAValue:
    """Computes x^n with the exponent converted to a float."""
    return power(v, x, v.op(conversion.ConvertSToFOp, n))


def is_finite(v: Values, x: SSAValue) -> SSAValue:
    return v.less(v.magnitude(x), v.number(inf))


# Integers


def integer_power(v: Values, x: SSAValue, n: SSAValue) -> SSAValue:
    """Computes x^n modulo 2^N by squaring. For negative n, the result is 0 unless x is 1 or -1."""
    zero, one = v.number(0), v.number(1)
    result, square = one, x
    for position in range(width_of(v.type) - 1):
        taken = v.op(bit.BitwiseAndOp, n, v.number(1 << position))
        yes = v.test(logic.INotEqualOp, taken, zero)
        result = v.select(yes, v.op(arithmetic.IMulOp, result, square), result)
        square = v.op(arithmetic.IMulOp, square, square)
    odd = v.test(logic.INotEqualOp, v.op(bit.BitwiseAndOp, n, one), zero)
    is_minus = v.test(logic.IEqualOp, x, v.number(-1))
    sign = v.select(odd, v.number(-1), one)
    inverse = v.select(is_minus, sign, zero)
    inverse = v.select(v.test(logic.IEqualOp, x, one), one, inverse)
    negative = v.test(logic.SLessThanOp, n, zero)
    return v.select(negative, inverse, result)


def absolute(v: Values, x: SSAValue) -> SSAValue:
    negative = v.test(logic.SLessThanOp, x, v.number(0))
    return v.select(negative, v.op(arithmetic.SNegateOp, x), x)


def leading_zeros(v: Values, x: SSAValue) -> SSAValue:
    return v.op(arithmetic.ISubOp, v.number(v.stated_width - 1), v.op(glsl.GLFindUMsbOp, x))


def trailing_zeros(v: Values, x: SSAValue) -> SSAValue:
    none = v.test(logic.IEqualOp, x, v.number(0))
    return v.select(none, v.number(v.stated_width), v.op(glsl.GLFindILsbOp, x))
