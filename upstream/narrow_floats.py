"""
Writes conversions of floats of at most 8 bits as arithmetic on their bits.

The bits of such a float are stored in a byte, called its code. Bits above the float's bits are 0.
MLIR has these conversions in `arith-expand`; xDSL 0.75 has only the formats (`FloatSemantics`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, builtin, math
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    FloatNanEncoding,
    FloatNonfiniteBehavior,
    IntegerAttr,
    IntegerType,
    ReducedPrecisionFloatType,
    f16,
    f32,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

NARROW_FLOATS: dict[str, ReducedPrecisionFloatType] = {
    type.name: type()  # pyright: ignore[reportAbstractUsage]
    for type in (
        builtin.Float8E4M3FNType,
        builtin.Float8E4M3FNUZType,
        builtin.Float8E5M2Type,
        builtin.Float8E5M2FNUZType,
        builtin.Float6E2M3FNType,
        builtin.Float6E3M2FNType,
        builtin.Float4E2M1FNType,
    )
}

INFINITY = 0x7F800000
"""The bits of f32's infinity. Larger values, apart from the sign, are NaN."""


@dataclass(frozen=True)
class Bits:
    """A scalar value. Its methods insert operations on it, by `build`."""

    build: Builder
    value: SSAValue

    def apply(self, op: type[Operation], *others: Bits | float) -> Bits:
        """Inserts an operation on this scalar and others of its type."""
        values = [x.value if isinstance(x, Bits) else self.constant(x).value for x in others]
        return Bits(self.build, self.build.insert(op(self.value, *values)).results[0])  # pyright: ignore[reportCallIssue]

    def constant(self, number: float) -> Bits:
        type = self.value.type
        integer = isinstance(type, IntegerType)
        value = IntegerAttr(int(number), type) if integer else FloatAttr(number, type)  # pyright: ignore
        return Bits(self.build, self.build.insert(arith.ConstantOp(value)).result)

    def cast(self, op: type[Operation], type: Attribute) -> Bits:
        if self.value.type == type:
            return self
        return Bits(self.build, self.build.insert(op(self.value, type)).results[0])  # pyright: ignore

    def select(self, then: Bits | float, otherwise: Bits | float) -> Bits:
        """
        Selects one of two scalars, if this value is a Boolean. At least one of the two is a `Bits`.
        """
        known = next(x for x in (then, otherwise) if isinstance(x, Bits))
        a, b = (x if isinstance(x, Bits) else known.constant(x) for x in (then, otherwise))
        return self.apply(arith.SelectOp, a, b)

    def compare(self, predicate: str, other: Bits | float) -> Bits:
        y = other if isinstance(other, Bits) else self.constant(other)
        op = arith.CmpiOp if isinstance(self.value.type, IntegerType) else arith.CmpfOp
        return Bits(self.build, self.build.insert(op(self.value, y.value, predicate)).result)

    def __and__(self, other: Bits | int) -> Bits:
        return self.apply(arith.AndIOp, other)

    def __or__(self, other: Bits | int) -> Bits:
        return self.apply(arith.OrIOp, other)

    def __lshift__(self, count: int) -> Bits:
        return self.apply(arith.ShLIOp, count) if count else self

    def __rshift__(self, count: int) -> Bits:
        return self.apply(arith.ShRUIOp, count)

    def __add__(self, other: Bits | int) -> Bits:
        return self.apply(arith.AddiOp, other)

    def __mul__(self, other: float) -> Bits:
        return self if other == 1 else self.apply(arith.MulfOp, other)


def is_part_of_half(type: ReducedPrecisionFloatType) -> bool:
    """True if f16 represents all numbers of the format, after scaling by a power of two."""
    semantics = type.SEMANTICS
    if semantics.nonfinite == FloatNonfiniteBehavior.IEEE:
        return semantics.exponent_bits == 5
    return semantics.exponent_bits < 5 and semantics.nan_encoding in (
        FloatNanEncoding.ALL_ONES,
        FloatNanEncoding.IEEE,
    )


def extend(build: Builder, code: SSAValue, type: ReducedPrecisionFloatType) -> SSAValue:
    """
    Converts a code to f16 if `is_part_of_half` is true for the format, otherwise to f32.

    The conversion to f16 uses only shifts, masks and a product, which also exist on vectors.
    """
    byte = Bits(build, code)
    if is_part_of_half(type):
        return _half(byte, type).value
    return _single(byte.cast(arith.ExtUIOp, i32), type).value


def _half(byte: Bits, type: ReducedPrecisionFloatType) -> Bits:
    """
    Converts a code to f16. Shifts its fields, and then corrects the exponent's bias by a product.
    """
    semantics = type.SEMANTICS
    shift, sign = semantics.sign_shift, 1 << semantics.sign_shift
    low = (byte & (sign - 1)).cast(arith.ExtUIOp, i16)
    first = low << (10 - semantics.mantissa_bits)
    if semantics.nonfinite == FloatNonfiniteBehavior.NAN_ONLY:
        # For NaN, `low + 1` has the sign bit set, which becomes f16's highest exponent bit.
        first = first | ((low + 1) & sign) << (14 - shift)
    signed = first | (byte & _wrap(sign, 8)).cast(arith.ExtUIOp, i16) << (15 - shift)
    return signed.cast(arith.BitcastOp, f16) * 2.0 ** (15 - semantics.exponent_bias)


def _wrap(number: int, width: int) -> int:
    return number - (1 << width) if number >> (width - 1) else number


def _single(word: Bits, type: ReducedPrecisionFloatType) -> Bits:
    """Converts a code to f32. Accepts formats without infinity, or with NaN as the code of -0."""
    semantics = type.SEMANTICS
    sign, mantissa = 1 << semantics.sign_shift, semantics.mantissa_bits
    magnitude = word & (sign - 1)
    step = 2.0 ** (1 - semantics.exponent_bias - mantissa)
    small = magnitude.cast(arith.UIToFPOp, f32) * step
    bits = (magnitude << (23 - mantissa)) + ((127 - semantics.exponent_bias) << 23)
    normal = bits.cast(arith.BitcastOp, f32)
    number = magnitude.compare("ult", 1 << mantissa).select(small, normal)
    negative = (word & sign).compare("ne", 0)
    signed = negative.select(number.apply(arith.NegfOp), number)
    return word.compare("eq", nan_code(type)).select(float("nan"), signed)


def infinity_code(type: ReducedPrecisionFloatType) -> int | None:
    """Returns the code of infinity. Returns None if the format has no infinity."""
    semantics = type.SEMANTICS
    if semantics.nonfinite != FloatNonfiniteBehavior.IEEE:
        return None
    return semantics.max_exponent << semantics.mantissa_bits


def nan_code(type: ReducedPrecisionFloatType) -> int:
    """
    Returns the code of a NaN. For a format without NaN, returns the code of -0, as ml_dtypes does.
    """
    semantics = type.SEMANTICS
    sign = 1 << semantics.sign_shift
    if semantics.nonfinite == FloatNonfiniteBehavior.IEEE:
        return (semantics.max_exponent << semantics.mantissa_bits) + (
            1 << semantics.mantissa_bits - 1
        )
    return sign - 1 if _has_positive_nan(type) else sign


def _has_positive_nan(type: ReducedPrecisionFloatType) -> bool:
    semantics = type.SEMANTICS
    return (
        semantics.nonfinite == FloatNonfiniteBehavior.NAN_ONLY
        and semantics.nan_encoding == FloatNanEncoding.ALL_ONES
    )


def truncate(
    build: Builder, number: SSAValue, type: ReducedPrecisionFloatType, saturates: bool
) -> SSAValue:
    """
    Rounds a float to the nearest code, ties to even.

    If `saturates` is set, magnitudes above the format's largest number become that number. The same
    holds for a format that has neither infinity nor NaN. Otherwise they become infinity. In a
    format without infinity, they become NaN.
    """
    semantics = type.SEMANTICS
    x = to_single(Bits(build, number))
    bits = x.cast(arith.BitcastOp, i32)
    magnitude = bits & 0x7FFFFFFF
    mantissa, sign = semantics.mantissa_bits, 1 << semantics.sign_shift
    dropped = 23 - mantissa
    odd = (magnitude >> dropped) & 1
    rounded = (magnitude + odd + ((1 << (dropped - 1)) - 1)) >> dropped
    normal = rounded + -((127 - semantics.exponent_bias) << mantissa)
    is_small = magnitude.compare("slt", (128 - semantics.exponent_bias) << 23)
    small = is_small.select(x.apply(math.AbsFOp), 0.0)
    steps = small * 2.0 ** (semantics.exponent_bias - 1 + mantissa)
    code = is_small.select(steps.apply(math.RoundEvenOp).cast(arith.FPToSIOp, i32), normal)
    infinity, nan = infinity_code(type), nan_code(type)
    has_nan = semantics.nonfinite != FloatNonfiniteBehavior.FINITE_ONLY
    above = infinity if infinity is not None else nan if has_nan else sign
    greatest = min(above, sign) - 1
    code = code.compare("sgt", greatest).select(
        greatest if saturates or not has_nan else above, code
    )
    code = magnitude.compare("sgt", INFINITY).select(nan, code)
    signed = bits.compare("slt", 0).select(code | sign, code)
    if has_nan and nan == sign:
        without = code.compare("eq", 0).apply(arith.OrIOp, code.compare("eq", nan))
        signed = without.select(code, signed)
    return signed.cast(arith.TruncIOp, i8).value


def to_single(x: Bits) -> Bits:
    """
    Converts a float to f32. Rounds an f64 to odd: sets the last bit of an inexact result.

    A result with this bit is never halfway between two codes. Rounding it again therefore gives the
    same code as rounding the f64.
    """
    type = x.value.type
    assert isinstance(type, AnyFloat)
    if type.bitwidth < 64:
        return x.cast(arith.ExtFOp, f32)
    single = x.cast(arith.TruncFOp, f32)
    wide = single.cast(arith.ExtFOp, type)
    beyond = wide.apply(math.AbsFOp).compare("ogt", x.apply(math.AbsFOp))
    bits = single.cast(arith.BitcastOp, i32)
    odd = beyond.select(bits + -1, bits) | 1
    return wide.compare("une", x).select(odd, bits).cast(arith.BitcastOp, f32)
