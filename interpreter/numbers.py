"""
Represents scalars as numpy dtypes, and converts between them.

An N-bit integer is numpy's *signed* N-bit integer, also for an unsigned type: in SPIR-V, the
instruction and not the type defines how bits are read. `unsigned` reinterprets the bits. An i1 is
numpy's bool, and an `index` is a 64-bit integer. bfloat16 and the 8-bit floats are `ml_dtypes`
types. They are converted to and from other types through binary32 (BF-06).

Conversions that SPIR-V leaves undefined (a float outside the integer's range, NaN to an integer)
are defined here: the nearest representable integer, and 0 for NaN.
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
"""A numpy array of any dtype."""

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
    """Returns the dtype of a scalar type, or None for another type."""
    if isinstance(type, IntegerType):
        return integer_dtype(type.width.data)
    if isinstance(type, IndexType):
        return I64
    return _FLOATS.get(type.name)


def integer_dtype(width: int) -> DType:
    """Returns the dtype of an integer of `width` bits."""
    if width == 1:
        return BOOL
    if width not in (8, 16, 32, 64):
        raise InterpreterError(
            f"integers of {width} bits are not supported",
            remedy="use 1, 8, 16, 32 or 64 bits; the pass decompose-linalg widens other integers",
        )
    return _SIGNED[width // 8]


def is_float(dtype: DType) -> bool:
    """True for floating-point dtypes, including the `ml_dtypes` types."""
    return dtype.kind == "f" or dtype in _FLOATS.values()


def is_small_float(dtype: DType) -> bool:
    """True for bfloat16 and the 8-bit floats, which numpy cannot compute with directly."""
    return is_float(dtype) and dtype not in _NATIVE_FLOATS


def raw_dtype(dtype: DType) -> DType:
    """Returns the unsigned integer dtype with the size of `dtype`, used to move bits."""
    return _UNSIGNED[dtype.itemsize]


def unsigned(value: Array) -> Array:
    """Reinterprets the bits of an integer array as unsigned."""
    return value.view(_UNSIGNED[value.dtype.itemsize])


def signed(value: Array) -> Array:
    """Reinterprets the bits of an integer array as signed."""
    return value.view(_SIGNED[value.dtype.itemsize])


def to_bfloat16(value: Array, rounding: Rounding = "nearest-even") -> Array:
    """Converts binary32 to bfloat16 (BF-07), to nearest even or toward zero. NaN stays NaN."""
    if rounding == "nearest-even":
        return value.astype(BFLOAT16)
    bits = (value.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    # Makes NaNs quiet: a payload only in the dropped bits would become an infinity.
    bits = np.where(np.isnan(value), bits | np.uint16(0x40), bits)
    return bits.view(BFLOAT16)


def float_to_float(
    source: DType, target: DType, rounding: Rounding = "nearest-even"
) -> Callable[[Array], Array]:
    """Returns the conversion between two float types. Only bfloat16 uses `rounding`."""
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
    """Returns a conversion from 8- or 16-bit floats to binary32, by a table for speed."""
    raw = raw_dtype(source)
    table = np.arange(1 << 8 * source.itemsize, dtype=raw).view(source).astype(F32)
    return lambda value: table.take(value.view(raw))


KEPT = 21
"""
Number of leading bits of a binary32 that determine its binary16. The last one is a sticky bit.
"""

DROPPED = 32 - KEPT
SHORT = 256
"""
Maximum length of an array that numpy rounds directly. For short arrays this is faster than the
table.
"""

SIGN, EXPONENT = np.int32(-(1 << 31)), np.int32(0x7F800000)
"""Masks of the sign and exponent bits of binary32."""

HALF_NORMAL, HALF_TOP = np.int32((127 - 14) << 23), np.int32((127 + 15) << 23)
"""
Exponents of the smallest normal and of the largest binary16 number, as exponent bits of a binary32.
"""

HALF_GRAIN = np.int32((13 << 23) + (1 << 22))
"""Offset from the exponent bits of x to the bits of the number m that `round_to_half` adds to x."""


@cache
def _narrow_table() -> Array:
    """Returns the binary16 for every value of the `KEPT` leading bits."""
    with np.errstate(all="ignore"):
        return (np.arange(1 << KEPT, dtype=np.uint32) << DROPPED).view(F32).astype(F16)


def narrow(value: Array) -> Array:
    """Converts binary32 to binary16, to nearest even. Uses a table, which is faster than numpy."""
    if value.size <= SHORT:
        return value.astype(F16)
    bits = value.view(np.uint32)
    low = np.uint32((1 << DROPPED) - 1)
    # Sets the last of the leading bits if any bit below is set.
    kept = bits & low
    kept += low
    kept |= bits
    kept >>= np.uint32(DROPPED)
    return _narrow_table().take(kept)


def round_to_half(value: Array) -> Array:
    """
    Rounds binary32 to a binary16 number, ties to even. The result has type binary32.

    Computes x + m - m. m is chosen so that the last bit of the sum has the weight of the last
    binary16 bit, and binary32's addition rounds correctly. Subnormal numbers use the m of the
    smallest normal number.
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
        # Converts infinities, NaN, and numbers that round to infinity by numpy.
        beyond = ~(np.abs(rounded) < 1 << 16)
        rounded[beyond] = value[beyond].astype(F16).astype(F32)
    return rounded


def integer_to_float(
    target: DType, sign: bool, rounding: Rounding = "nearest-even"
) -> Callable[[Array], Array]:
    """Returns the conversion from signed or unsigned integers, to nearest even."""

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
    """
    Returns the conversion to integers. It rounds toward zero and clamps to the range. NaN gives 0.
    """
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
            # binary64 cannot represent the largest 64-bit integer, only this integer plus one.
            whole = np.where(wide >= above, limits.max, whole)
        return whole.view(target)

    return convert


def integer_to_integer(target: DType, sign: bool) -> Callable[[Array], Array]:
    """Returns the conversion between integers: truncates, or extends by the sign or by zeros."""

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
    """Clamps an int64 array to the range of `target`, as a signed or unsigned integer."""
    exact = target if sign else _UNSIGNED[target.itemsize]
    limits = np.iinfo(exact)
    return np.clip(value, limits.min, limits.max).astype(exact).view(target)
