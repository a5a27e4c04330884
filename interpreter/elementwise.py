"""
Implements elementwise arithmetic that the kernel-level dialects and SPIR-V share.

Each function computes elementwise on arrays of the operands' dtypes. Results that SPIR-V leaves
undefined are defined here: division by zero gives 0, and the most negative integer divided by -1
wraps. A shift by the width or more gives the same result as repeated shifts by one bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from xdsl_spirv.interpreter.forms import Composite, Form, Opaque, Plain, merger
from xdsl_spirv.interpreter.numbers import (
    F16,
    F32,
    F64,
    Array,
    DType,
    float_to_integer,
    integer_to_float,
    integer_to_integer,
    is_small_float,
    narrow,
    signed,
    unsigned,
    widener,
)
from xdsl_spirv.interpreter.options import Rounding
from xdsl_spirv.interpreter.semantics import Function


def on_unsigned(function: Function) -> Function:
    """
    Wraps a function of unsigned integers: converts the operands to unsigned and the results to
    signed.
    """

    def call(*operands: Array) -> Array:
        result = function(*[unsigned(operand) for operand in operands])
        return signed(result) if result.dtype.kind == "u" else result

    call.__qualname__ = f"unsigned {getattr(function, '__name__', function)}"
    return call


def divide_signed(a: Array, b: Array) -> Array:
    """Returns the quotient rounded toward zero. Returns 0 for a zero divisor."""
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & (b != 0)
    return quotient + (inexact & (quotient < 0))


def remainder_signed(a: Array, b: Array) -> Array:
    """Returns the remainder with the dividend's sign (SRem). Returns 0 for a zero divisor."""
    return np.where(b == 0, 0, a - divide_signed(a, b) * b).astype(a.dtype, copy=False)


def modulo_signed(a: Array, b: Array) -> Array:
    """Returns the remainder with the divisor's sign (SMod). Returns 0 for a zero divisor."""
    return np.where(b == 0, 0, a - np.floor_divide(a, b) * b).astype(a.dtype, copy=False)


def _remainder(a: Array, b: Array) -> Array:
    if b.size == 1:
        divisor = int(b.item())
        if divisor and divisor & (divisor - 1) == 0:
            return a & a.dtype.type(divisor - 1)
    return a - np.floor_divide(a, b) * b * (b != 0) - a * (b == 0)


divide_unsigned = on_unsigned(np.floor_divide)
remainder_unsigned = on_unsigned(_remainder)


def ceiling_divide_signed(a: Array, b: Array) -> Array:
    """Returns the quotient rounded up. Does not negate an operand, which could overflow."""
    quotient = np.floor_divide(a, b)
    return quotient + (quotient * b != a)


ceiling_divide_unsigned = on_unsigned(ceiling_divide_signed)


def unordered(a: Array, b: Array) -> Array:
    """True if either operand is NaN."""
    return np.isnan(a) | np.isnan(b)


def or_unordered(compare: Function) -> Function:
    """Wraps a comparison so that it also holds if an operand is NaN."""

    def call(a: Array, b: Array) -> Array:
        return compare(a, b) | unordered(a, b)

    call.__qualname__ = f"unordered or {getattr(compare, '__name__', compare)}"
    return call


def ordered_not_equal(a: Array, b: Array) -> Array:
    """True if the operands are unequal and neither is NaN."""
    return (a < b) | (a > b)


def select(form: Form, by_component: bool) -> Function:
    """Returns a function that selects between two operands, by component or as a whole."""
    if isinstance(form, Plain) and form.shape and not by_component:
        tail = (1,) * len(form.shape)
        return lambda c, a, b: np.where(c.reshape(c.shape + tail), a, b)
    if isinstance(form, Plain):
        return np.where
    if isinstance(form, Opaque):
        return lambda c, a, b: a.merge(c, b)
    if isinstance(form, Composite):
        return merger(form)
    # The condition is uniform over the matrix's scope (CM-27), so the first lane's value is used.
    return lambda c, a, b: np.where(c[:, :, :1, None], a, b)


def add_with_carry(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the sum modulo 2^N and the carry (0 or 1)."""
    total = a + b
    return total, unsigned(total) < unsigned(a)


def shift_left(a: Array, b: Array) -> Array:
    """Shifts bits left. A shift by the width or more gives 0."""
    return signed(np.left_shift(unsigned(a), _amount(a, b)))


def shift_right_logical(a: Array, b: Array) -> Array:
    """Shifts bits right and fills with zeros."""
    return signed(np.right_shift(unsigned(a), _amount(a, b)))


def shift_right_arithmetic(a: Array, b: Array) -> Array:
    """Shifts bits right and fills with the sign bit."""
    return np.right_shift(a, signed(np.minimum(_amount(a, b), a.dtype.itemsize * 8 - 1)))


def _amount(a: Array, b: Array) -> Array:
    amount = unsigned(b)
    bits = a.dtype.itemsize * 8
    return np.minimum(amount, bits).astype(unsigned(a).dtype, copy=False)


def multiply_extended(sign: bool) -> Function:
    """Returns a function that computes the low and the high half of an exact product."""

    def call(a: Array, b: Array) -> tuple[Array, Array]:
        bits = a.dtype.itemsize * 8
        if bits < 64:
            wide = np.dtype(np.int64) if sign else np.dtype(np.uint64)
            x, y = (a, b) if sign else (unsigned(a), unsigned(b))
            product = x.astype(wide) * y.astype(wide)
            high = (product >> wide.type(bits)).astype(a.dtype)
            return product.astype(a.dtype), high
        return a * b, _high_64(a, b, sign)

    return call


def _high_64(a: Array, b: Array, sign: bool) -> Array:
    """Returns the high 64 bits of a 128-bit product, computed from four 32-bit products."""
    x, y = unsigned(a), unsigned(b)
    bits, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> bits, y & low, y >> bits
    middle = x1 * y0 + (x0 * y0 >> bits)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> bits) + (other >> bits)
    if sign:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return signed(high)


def wide_math(function: Function) -> Function:
    """
    Wraps a function so that it computes in binary64, and rounds the result once to the operands'
    type.
    """

    def call(*operands: Array) -> Array:
        result = function(*[operand.astype(F64, copy=False) for operand in operands])
        return result.astype(operands[0].dtype, copy=False)

    call.__qualname__ = getattr(function, "__name__", repr(function))
    return call


def in_binary32(function: Function) -> Function:
    """Wraps a function so that floats below 32 bits are computed in binary32 and then rounded."""

    def call(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if not is_small_float(dtype):
            return function(*operands)
        result = function(*[operand.astype(F32) for operand in operands])
        return result.astype(dtype) if result.dtype == F32 else result

    call.__qualname__ = getattr(function, "__name__", repr(function))
    return call


def half_in_binary32(function: Function) -> Function:
    """
    Wraps +, -, * or / so that binary16 operands are computed in binary32 and the result is rounded
    to binary16.

    The two roundings give the correctly rounded result, because binary32 has more than twice the
    precision. numpy's binary16 loops are slow, since they convert one number at a time.
    """
    widen = widener(F16)

    def call(a: Array, b: Array) -> Array:
        if a.dtype != F16:
            return function(a, b)
        return narrow(function(widen(a), widen(b)))

    call.__qualname__ = getattr(function, "__name__", repr(function))
    return call


def reverse_bits(a: Array) -> Array:
    """Reverses the order of the bits."""
    octets = np.ascontiguousarray(a)[..., None].view(np.uint8)[..., ::-1]
    table = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)[:, ::-1], 1)
    return np.ascontiguousarray(table[:, 0][octets]).view(a.dtype)[..., 0]


Conversion: TypeAlias = Callable[[DType, DType, Rounding], Function]
"""
Function that returns a conversion of arrays. Its arguments are the source type, the target type,
and the rounding mode for bfloat16.
"""


def _to_integer(convert: Callable[[DType, bool], Function], sign: bool) -> Conversion:
    return lambda source, target, rounding: convert(target, sign)


sign_extend = _to_integer(integer_to_integer, sign=True)
zero_extend = _to_integer(integer_to_integer, sign=False)
float_to_signed = _to_integer(float_to_integer, sign=True)
float_to_unsigned = _to_integer(float_to_integer, sign=False)


def signed_to_float(source: DType, target: DType, rounding: Rounding) -> Function:
    """Returns the conversion of signed integers. `rounding` applies only to bfloat16."""
    return integer_to_float(target, True, rounding)


def unsigned_to_float(source: DType, target: DType, rounding: Rounding) -> Function:
    """Returns the conversion of unsigned integers. `rounding` applies only to bfloat16."""
    return integer_to_float(target, False, rounding)
