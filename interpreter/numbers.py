"""
Scalars as numpy dtypes, and every conversion between them.

An integer of N bits is numpy's *signed* integer of N bits whatever its signedness in the type:
SPIR-V's instructions, not its types, say how bits are read, and `unsigned` views the same bits. An
i1 is numpy's bool, an `index` a 64-bit integer. bfloat16 and the 8-bit floats are `ml_dtypes`', and
are converted to and from anything through binary32 (BF-06).

Conversions that SPIR-V leaves undefined (a float outside the integer's range, NaN to an integer)
are given a definite value here: the nearest representable integer, and 0 for NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.options import Rounding

Array: TypeAlias = Any
"""A numpy array of any dtype; gathers over mixed dtypes have no useful static element type."""

DType: TypeAlias = np.dtype[Any]

_FLOATS: dict[str, DType] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
}

BFLOAT16 = _FLOATS["bf16"]
BOOL = np.dtype(np.bool_)
F16 = _FLOATS["f16"]
F32 = _FLOATS["f32"]
F64 = _FLOATS["f64"]
FLOAT8_E4M3 = _FLOATS["f8E4M3FN"]
FLOAT8_E5M2 = _FLOATS["f8E5M2"]
I32 = np.dtype(np.int32)
I64 = np.dtype(np.int64)

_NATIVE_FLOATS = (F16, F32, F64)
_SIGNED = {1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: I32, 8: I64}
_UNSIGNED: dict[int, DType] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}


def scalar_dtype(type: Attribute) -> DType | None:
    """The dtype of a scalar type, None for any other type."""
    if isinstance(type, IntegerType):
        return integer_dtype(type.width.data)
    if isinstance(type, IndexType):
        return I64
    return _FLOATS.get(type.name)


def integer_dtype(width: int) -> DType:
    """The dtype of an integer of `width` bits."""
    if width == 1:
        return BOOL
    if width not in (8, 16, 32, 64):
        raise InterpreterError(
            f"integers of {width} bits are not executed",
            remedy="use 1, 8, 16, 32 or 64 bits; the pass decompose-linalg widens up to 63",
        )
    return _SIGNED[width // 8]


def is_float(dtype: DType) -> bool:
    """Whether a dtype is a floating-point one, `ml_dtypes`' included."""
    return dtype.kind == "f" or dtype in _FLOATS.values()


def is_small_float(dtype: DType) -> bool:
    """bfloat16 and the 8-bit floats: formats without arithmetic of their own."""
    return is_float(dtype) and dtype not in _NATIVE_FLOATS


def raw_dtype(dtype: DType) -> DType:
    """The unsigned integer of a dtype's size: memory is moved as bits."""
    return _UNSIGNED[dtype.itemsize]


def unsigned(value: Array) -> Array:
    """The bits of an integer array, read without sign."""
    return value.view(_UNSIGNED[value.dtype.itemsize])


def signed(value: Array) -> Array:
    """The bits of an integer array, read with sign."""
    return value.view(_SIGNED[value.dtype.itemsize])


def to_bfloat16(value: Array, rounding: Rounding = "nearest-even") -> Array:
    """binary32 to bfloat16 (BF-07): to nearest even or toward zero; NaN stays NaN."""
    if rounding == "nearest-even":
        return value.astype(BFLOAT16)
    bits = (value.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    # A NaN whose payload lies in the dropped half would become an infinity: it is made quiet.
    bits = np.where(np.isnan(value), bits | np.uint16(0x40), bits)
    return bits.view(BFLOAT16)


def float_to_float(
    source: DType, target: DType, rounding: Rounding = "nearest-even"
) -> Callable[[Array], Array]:
    """FConvert: round to nearest even, bfloat16 also toward zero; small floats through binary32."""
    if source == target:
        return lambda value: value
    if target == BFLOAT16:
        if source == F32:
            return lambda value: to_bfloat16(value, rounding)
        return lambda value: to_bfloat16(value.astype(F32), rounding)
    if source.itemsize <= 2 and target == F32:
        return widener(source)
    if source == F32 and target == F16:
        return narrow
    if not is_small_float(source) and not is_small_float(target):
        return lambda value: value.astype(target)
    return lambda value: value.astype(F32).astype(target)


@cache
def widener(source: DType) -> Callable[[Array], Array]:
    """
    Returns a function from floats of 8 or 16 bits to binary32. It uses a table, which takes half
    the time of a conversion.
    """
    raw = raw_dtype(source)
    table = np.arange(1 << 8 * source.itemsize, dtype=raw).view(source).astype(F32)
    return lambda value: table.take(value.view(raw))


KEPT = 21
"""
Number of leading bits of a binary32 that decide its binary16; the last is set if any lower bit was.
"""

DROPPED = 32 - KEPT
SHORT = 256
"""Arrays up to this size are rounded by numpy, which needs fewer calls."""

SIGN, EXPONENT = np.int32(-(1 << 31)), np.int32(0x7F800000)
"""The bits of a binary32."""

HALF_NORMAL, HALF_TOP = np.int32((127 - 14) << 23), np.int32((127 + 15) << 23)
"""The exponents of binary16's smallest normal number and of its largest, as binary32's bits."""

HALF_GRAIN = np.int32((13 << 23) + (1 << 22))
"""Factor for rounding x to binary16: its product with x, added to x, cuts the lower bits."""


@cache
def _narrow_table() -> Array:
    """The binary16 of every `KEPT` leading bits."""
    with np.errstate(all="ignore"):
        return (np.arange(1 << KEPT, dtype=np.uint32) << DROPPED).view(F32).astype(F16)


def narrow(value: Array) -> Array:
    """binary32 to binary16, to nearest even, by a table: numpy converts one number at a time."""
    if value.size <= SHORT:
        return value.astype(F16)
    bits = value.view(np.uint32)
    low = np.uint32((1 << DROPPED) - 1)
    # A set bit below carries into the last bit that is kept.
    kept = bits & low
    kept += low
    kept |= bits
    kept >>= np.uint32(DROPPED)
    return _narrow_table().take(kept)


def round_to_half(value: Array) -> Array:
    """
    Rounds binary32 to the nearest binary16, ties to even; the result stays binary32.

    Computes x + m - m, where the last place of m is that of the binary16 nearest to x, so that
    binary32's addition rounds to it. For subnormal numbers, m is the one of the smallest normal
    number.
    """
    if value.size <= SHORT:
        return value.astype(F16).astype(F32)
    bits = value.view(np.int32)
    grain = bits & EXPONENT
    np.maximum(grain, HALF_NORMAL, out=grain)
    large = grain.max() >= HALF_TOP
    grain += HALF_GRAIN
    magic = grain.view(F32)
    rounded = value + magic
    rounded -= magic
    np.bitwise_and(bits, SIGN, out=grain)
    rounded_bits = rounded.view(np.int32)
    rounded_bits |= grain
    if large:
        # Infinities, NaN, and numbers that round to infinity.
        beyond = ~(np.abs(rounded) < 1 << 16)
        rounded[beyond] = value[beyond].astype(F16).astype(F32)
    return rounded


def integer_to_float(
    target: DType, sign: bool, rounding: Rounding = "nearest-even"
) -> Callable[[Array], Array]:
    """ConvertSToF, ConvertUToF: round to nearest even; to a small float through binary32."""

    def convert(value: Array) -> Array:
        if value.dtype != BOOL and not sign:
            value = unsigned(value)
        if target == BFLOAT16:
            return to_bfloat16(value.astype(F32), rounding)
        if is_small_float(target):
            return value.astype(F32).astype(target)
        return value.astype(target)

    return convert


def float_to_integer(target: DType, sign: bool) -> Callable[[Array], Array]:
    """ConvertFToS, ConvertFToU: toward zero, clamped to the target's range, NaN to 0."""
    if target == BOOL:
        return lambda value: value.astype(F64) != 0
    exact = target if sign else _UNSIGNED[target.itemsize]
    limits = np.iinfo(exact)
    low, high = float(limits.min), float(limits.max)
    above = high if high >= 2**53 else np.inf
    if high >= 2**53:
        high = float(np.nextafter(high, 0))

    def convert(value: Array) -> Array:
        wide = np.trunc(value.astype(F64))
        whole = np.where(np.isnan(wide), 0.0, np.clip(wide, low, high)).astype(exact)
        if above < np.inf:
            # binary64 cannot hold the largest 64-bit integer, only that number plus one.
            whole = np.where(wide >= above, limits.max, whole)
        return whole.view(target)

    return convert


def integer_to_integer(target: DType, sign: bool) -> Callable[[Array], Array]:
    """SConvert, UConvert: truncated, or extended by its sign or by zeros."""

    def convert(value: Array) -> Array:
        if target == BOOL:
            return (value & 1) != 0
        if value.dtype == BOOL:
            wide = value.astype(target)
            return -wide if sign else wide
        if sign or value.dtype.itemsize >= target.itemsize:
            return value.astype(target)
        return unsigned(value).astype(raw_dtype(target)).view(target)

    return convert


def saturate(value: Array, target: DType, sign: bool) -> Array:
    """Clamps an int64 array to the range of `target`, read with or without sign."""
    exact = target if sign else _UNSIGNED[target.itemsize]
    limits = np.iinfo(exact)
    return np.clip(value, limits.min, limits.max).astype(exact).view(target)
