"""
Represents floats as terms: bits for exact instructions, FP theory for rounding instructions.

FP theory has a single NaN. Its results become fresh bits that must encode the float, so that a NaN
may have any payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.spirv import arithmetic as a
from xdsl_spirv.dialects.spirv import conversion as conversions
from xdsl_spirv.dialects.spirv import glsl, logic
from xdsl_spirv.prove.values import Term, Terms, float_sort, width, z3

Exact: TypeAlias = Callable[..., Term]
"""A function that computes one instruction's result from (terms, the float type, *operands)."""

NEAREST = z3.RNE()


def negate(x: Term) -> Term:
    """Returns the bits of -x: flips the sign bit."""
    return x ^ z3.BitVecVal(1 << (x.size() - 1), x.size())


def absolute(x: Term) -> Term:
    """Returns the bits of |x|: clears the sign bit."""
    return x & z3.BitVecVal((1 << (x.size() - 1)) - 1, x.size())


def _fields(x: Term, type: Attribute) -> tuple[Term, Term]:
    stored = float_sort(type).sbits() - 1
    return z3.Extract(x.size() - 2, stored, x), z3.Extract(stored - 1, 0, x)


def is_nan(x: Term, type: Attribute) -> Term:
    """Returns the condition that the bits are a NaN."""
    exponent, fraction = _fields(x, type)
    return z3.And(exponent == -1, fraction != 0)


def _is_infinite(x: Term, type: Attribute) -> Term:
    exponent, fraction = _fields(x, type)
    return z3.And(exponent == -1, fraction == 0)


def number(x: Term, type: Attribute) -> Any:
    """Returns the float that bits encode."""
    return z3.fpBVToFP(x, float_sort(type))


def encode_float(terms: Terms, value: Any, type: Attribute) -> Term:
    """Creates fresh bits, with the condition that they encode a float."""
    value = z3.simplify(value)
    if z3.is_fp_value(value):
        exponent, fraction = float_sort(type).ebits(), float_sort(type).sbits() - 1
        quiet = ((1 << exponent) - 1) << fraction | 1 << fraction - 1
        known = z3.simplify(z3.fpToIEEEBV(value))
        return z3.BitVecVal(quiet, exponent + fraction + 1) if value.isNaN() else known
    bits = terms.fresh("bits", type)
    terms.definitions.append(number(bits, type) == value)
    return bits


def _round_once(function: Callable[..., Any]) -> Exact:
    def compute(terms: Terms, type: Attribute, *operands: Term) -> Term:
        return encode_float(terms, function(NEAREST, *[number(x, type) for x in operands]), type)

    return compute


def _compare_bits(function: Callable[..., Term], unordered: bool) -> Exact:
    """
    Returns a comparison of floats by their bits as signed magnitudes, without FP theory. With NaN,
    the comparison is `unordered`.
    """

    def compute(terms: Terms, type: Attribute, x: Term, y: Term) -> Term:
        nan = z3.Or(is_nan(x, type), is_nan(y, type))
        held = function(order_of(x), order_of(y))
        return z3.Or(nan, held) if unordered else z3.And(z3.Not(nan), held)

    return compute


def order_of(x: Term) -> Term:
    """Maps float bits other than NaN to an integer of the same order. Both zeros map to 0."""
    return z3.If(x < 0, z3.BitVecVal(1 << (x.size() - 1), x.size()) - x, x)


def _unary(function: Callable[[Term, Attribute], Term]) -> Exact:
    return lambda terms, type, x: function(x, type)


def _either_nan(terms: Terms, type: Attribute, x: Term, y: Term) -> Term:
    return z3.Or(is_nan(x, type), is_nan(y, type))


COMPARISONS: dict[type[Operation], Exact] = {
    logic.FOrdEqualOp: _compare_bits(lambda x, y: x == y, False),
    logic.FUnordEqualOp: _compare_bits(lambda x, y: x == y, True),
    logic.FOrdNotEqualOp: _compare_bits(lambda x, y: x != y, False),
    logic.FUnordNotEqualOp: _compare_bits(lambda x, y: x != y, True),
    logic.FOrdLessThanOp: _compare_bits(lambda x, y: x < y, False),
    logic.FUnordLessThanOp: _compare_bits(lambda x, y: x < y, True),
    logic.FOrdGreaterThanOp: _compare_bits(lambda x, y: x > y, False),
    logic.FUnordGreaterThanOp: _compare_bits(lambda x, y: x > y, True),
    logic.FOrdLessThanEqualOp: _compare_bits(lambda x, y: x <= y, False),
    logic.FUnordLessThanEqualOp: _compare_bits(lambda x, y: x <= y, True),
    logic.FOrdGreaterThanEqualOp: _compare_bits(lambda x, y: x >= y, False),
    logic.FUnordGreaterThanEqualOp: _compare_bits(lambda x, y: x >= y, True),
    logic.IsNanOp: _unary(is_nan),
    logic.IsInfOp: _unary(_is_infinite),
    logic.UnorderedOp: _either_nan,
    logic.OrderedOp: lambda terms, type, x, y: z3.Not(_either_nan(terms, type, x, y)),
}

EXACT: dict[type[Operation], Exact] = {
    **COMPARISONS,
    a.FAddOp: _round_once(z3.fpAdd),
    a.FSubOp: _round_once(z3.fpSub),
    a.FMulOp: _round_once(z3.fpMul),
    a.FDivOp: _round_once(z3.fpDiv),
    glsl.GLFloorOp: _round_once(lambda rounding, x: z3.fpRoundToIntegral(z3.RTN(), x)),
    glsl.GLCeilOp: _round_once(lambda rounding, x: z3.fpRoundToIntegral(z3.RTP(), x)),
    glsl.GLTruncOp: _round_once(lambda rounding, x: z3.fpRoundToIntegral(z3.RTZ(), x)),
    glsl.GLRoundEvenOp: _round_once(z3.fpRoundToIntegral),
}
"""
Maps an instruction whose result is exact or rounded once to the function that computes the result's
bits.
"""


def is_comparison(op: Operation) -> bool:
    """True if an instruction compares floats, which is exact on their bits."""
    return type(op) in COMPARISONS


def is_componentwise(op: Operation) -> bool:
    """True if an instruction on floats is elementwise."""
    alike = all(o.type == op.results[0].type for o in op.operands)
    whole = (glsl.GLNormalizeOp, glsl.GLCrossOp, glsl.GLReflectOp, glsl.GLFaceForwardOp)
    families = (a.FAddOp, a.FSubOp, a.FMulOp, a.FDivOp, a.FRemOp, a.FModOp)
    if isinstance(op, (*families, conversions.NumericConversion)):
        return True
    return alike and op.name.startswith("spirv.GL.") and not isinstance(op, whole)


def conversion(
    kind: type[Operation], source: Attribute, target: Attribute, terms: Terms
) -> tuple[Callable[[Term], Term], Callable[[Term], Term] | None]:
    """
    Returns two functions of a component: its conversion, and the condition that the result is
    undefined. The second is None if the result is always defined.
    """
    if kind in (conversions.ConvertFToSOp, conversions.ConvertFToUOp):
        return _to_integer(source, width(target), kind is conversions.ConvertFToSOp)
    sort = float_sort(target)
    if isinstance(source, AnyFloat):
        convert = lambda x: z3.fpFPToFP(NEAREST, number(x, source), sort)  # noqa: E731
    elif kind is conversions.ConvertSToFOp:
        convert = lambda x: z3.fpSignedToFP(NEAREST, x, sort)  # noqa: E731
    else:
        convert = lambda x: z3.fpUnsignedToFP(NEAREST, x, sort)  # noqa: E731
    return lambda x: encode_float(terms, convert(x), target), None


def _to_integer(source: Attribute, size: int, sign: bool):
    def convert(x: Term) -> Term:
        made = z3.fpToSBV if sign else z3.fpToUBV
        return made(z3.RTZ(), number(x, source), z3.BitVecSort(size))

    def is_outside(x: Term) -> Term:
        value = z3.fpRoundToIntegral(z3.RTZ(), number(x, source))
        wide = z3.FPSort(11, 53)
        low, high = (-(2.0 ** (size - 1)), 2.0 ** (size - 1)) if sign else (0.0, 2.0**size)
        exact = z3.fpFPToFP(NEAREST, value, wide)
        inside = z3.And(z3.fpGEQ(exact, z3.FPVal(low, wide)), z3.fpLT(exact, z3.FPVal(high, wide)))
        return z3.Not(inside)

    return convert, is_outside
