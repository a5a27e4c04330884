"""
Converts between floats and 64-bit integers as pairs of words, correctly rounded.

Conversions to f32 round the bits to nearest even; conversions to f64 round in one addition. For
f16 the integer is clamped first, because larger integers become infinite. Conversions from a float
shift its mantissa and round toward zero. NaN gives 0, and a float out of range gives the nearest
64-bit integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.spirv import arithmetic, bit, conversion, logic
from xdsl_spirv.passes.spirv.fallback.words import WORDS, Pair, Words

BEYOND_HALF = 1 << 16
"""An integer that f16 rounds to infinity. All larger integers round to infinity, too."""


@dataclass(frozen=True)
class Format:
    """A float format: bits of the mantissa without the leading one, and the exponent's bias."""

    mantissa: int
    bias: int


FORMATS: Mapping[type[Attribute], Format] = {
    Float32Type: Format(23, 127),
    Float64Type: Format(52, 1023),
}


def to_float(words: Words, a: Pair, type: Attribute, *, sign: bool) -> SSAValue | None:
    """Returns the float nearest to an integer; None for a type without a conversion."""
    match type:
        case Float16Type():
            return _to_f16(words, a, type, sign=sign)
        case Float32Type():
            return _to_f32(words, a, sign=sign)
        case Float64Type():
            return _to_f64(words, a, type, sign=sign)
        case _:
            return None


def _to_f16(words: Words, a: Pair, type: Attribute, *, sign: bool) -> SSAValue:
    limit = words.number(BEYOND_HALF)
    size = words.least(words.magnitude(a) if sign else a, limit, sign=False).low
    if sign:
        minus = words.code.add(arithmetic.SNegateOp(size))
        size = words.code.select(words.is_negative(a), minus, size)
    return words.code.add(conversion.ConvertSToFOp(size, type))


def _to_f64(words: Words, a: Pair, type: Attribute, *, sign: bool) -> SSAValue:
    """Converts to f64. Both words are exact in f64, so that only their sum is rounded."""
    code = words.code
    kind = conversion.ConvertSToFOp if sign else conversion.ConvertUToFOp
    high = code.add(arithmetic.FMulOp(code.add(kind(a.high, type)), code.number(2.0**32, type)))
    return code.add(arithmetic.FAddOp(high, code.add(conversion.ConvertUToFOp(a.low, type))))


def _to_f32(words: Words, a: Pair, *, sign: bool) -> SSAValue:
    """
    Converts to f32.

    Normalizes the integer to 24 bits, which are the mantissa with its leading one, and rounds by
    the bits below. The exponent is one too small, because adding the leading one increments it.
    """
    code = words.code
    size = words.magnitude(a) if sign else a
    top = words.top_bit(size)
    empty = words.is_zero(size)
    shift = code.add(arithmetic.ISubOp(code.number(63), top))
    shift = code.add(bit.BitwiseAndOp(shift, code.number(63)))
    moved = words.left(size, shift)
    below = code.add(logic.INotEqualOp(moved.low, code.number(0)))
    sticky = code.select(below, code.number(1), code.number(0))
    upper = code.add(bit.BitwiseOrOp(moved.high, sticky))
    mantissa = code.add(bit.ShiftRightLogicalOp(upper, code.number(8)))
    rest = code.add(bit.BitwiseAndOp(upper, code.number(0xFF)))
    odd = code.add(bit.BitwiseAndOp(mantissa, code.number(1)))
    rounding_bias = code.add(arithmetic.IAddOp(odd, code.number(0x7F)))
    carry = code.add(
        bit.ShiftRightLogicalOp(code.add(arithmetic.IAddOp(rest, rounding_bias)), code.number(8))
    )
    biased = code.add(arithmetic.IAddOp(top, code.number(126)))
    exponent = code.add(bit.ShiftLeftLogicalOp(biased, code.number(23)))
    number = code.add(arithmetic.IAddOp(exponent, code.add(arithmetic.IAddOp(mantissa, carry))))
    number = code.select(empty, code.number(0), number)
    if sign:
        negative = code.add(bit.BitwiseAndOp(a.high, code.number(1 << 31)))
        number = code.add(bit.BitwiseOrOp(number, negative))
    return code.add(conversion.BitcastOp(number, f32))


def from_float(words: Words, value: SSAValue, *, sign: bool) -> Pair | None:
    """Converts a float toward zero. Returns None for a type without a conversion."""
    code = words.code
    if isinstance(value.type, Float16Type):
        value = code.add(conversion.FConvertOp(value, f32))
    format = FORMATS.get(type(value.type))
    if format is None:
        return None
    if isinstance(value.type, Float32Type):
        bits = words.widened(code.add(conversion.BitcastOp(value, i32)), sign=False)
        bits = words.left(bits, code.number(52 - 23))
    else:
        bits = words.pair(code.add(conversion.BitcastOp(value, WORDS)))
    return _from_bits(words, value, bits, format, sign=sign)


def _from_bits(words: Words, value: SSAValue, bits: Pair, format: Format, *, sign: bool) -> Pair:
    """Converts a float's bits to an integer; the mantissa is in the lower 52 bits of `bits`."""
    code = words.code

    def op(kind: Callable[..., Operation], a: SSAValue, b: int | SSAValue) -> SSAValue:
        return code.add(kind(a, b if isinstance(b, SSAValue) else code.number(b)))

    widest = FORMATS[Float64Type]
    exponents = 2 * format.bias + 1
    exponent = op(bit.BitwiseAndOp, op(bit.ShiftRightLogicalOp, bits.high, 20), exponents)
    fraction = op(bit.BitwiseAndOp, bits.high, 0xFFFFF)
    mantissa = Pair(bits.low, op(bit.BitwiseOrOp, fraction, 1 << 20))
    shift = op(arithmetic.ISubOp, exponent, format.bias + widest.mantissa)
    left = words.left(mantissa, op(bit.BitwiseAndOp, shift, 63))
    back = code.add(arithmetic.SNegateOp(shift))
    right = words.right(mantissa, op(bit.BitwiseAndOp, back, 63), sign=False)
    small = op(logic.SLessThanOp, exponent, format.bias)
    size = words.select(op(logic.SLessThanOp, shift, 0), right, left)
    size = words.select(small, words.number(0), size)
    negative = _is_negative(words, value)
    beyond = op(logic.SGreaterThanEqualOp, exponent, format.bias + (63 if sign else 64))
    most = words.number((1 << 63) - 1 if sign else -1)
    least = words.number(-(1 << 63) if sign else 0)
    bound = words.select(negative, least, most)
    negated = words.negated(size) if sign else words.number(0)
    result = words.select(beyond, bound, words.select(negative, negated, size))
    nan = code.add(logic.IsNanOp(value))
    return words.select(nan, words.number(0), result)


def _is_negative(words: Words, value: SSAValue) -> SSAValue:
    return words.code.add(logic.FOrdLessThanOp(value, words.code.number(0.0, value.type)))
