"""Converts stored texels to the four components that a shader reads, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdsl_spirv.images import Format
from xdsl_spirv.interpreter.numbers import Array, DType

OPAQUE = (0, 0, 0, 1)
"""Default values of the four components, used for components that a format lacks."""


def decode_texels(format: Format, stored: Array, dtype: DType) -> Array:
    """Returns the components (..., 4) of texels, as floats or integers of `dtype`."""
    parts = _unpack(format, stored) if format.packed else stored
    most = [(1 << bits - (format.kind == "snorm")) - 1 for bits in format.bits]
    match format.kind:
        case "unorm" | "snorm":
            parts = np.maximum(parts.astype(np.float64) / most, -1.0)
        case "ufloat":
            parts = _decode_small(parts, format.bits)
        case _:
            pass
    result = np.empty((*parts.shape[:-1], 4), dtype)
    result[...] = OPAQUE
    # 64-bit integers and floats are not changed by the cast.
    result[..., : parts.shape[-1]] = parts.astype(dtype, copy=False)
    return result


def encode_texels(format: Format, components: Array) -> Array:
    """Encodes texel components (..., 4). Drops components that the format lacks."""
    count = len(format.bits)
    parts = components[..., :count]
    match format.kind:
        case "unorm" | "snorm":
            least = -1.0 if format.kind == "snorm" else 0.0
            most = [(1 << bits - (format.kind == "snorm")) - 1 for bits in format.bits]
            known = np.where(np.isnan(parts), np.float32(0), parts)
            parts = np.rint(np.clip(known, least, 1.0) * np.array(most, known.dtype))
        case "ufloat":
            parts = _encode_small(parts, format.bits)
        case "uint" | "sint":
            parts = _clamp(parts, format)
        case _:
            pass
    if format.packed:
        return _pack(parts, format.bits)
    return np.ascontiguousarray(parts.astype(format.dtype))


def _clamp(parts: Array, format: Format) -> Array:
    """Clamps integers to the format's range. Vulkan leaves numbers out of range undefined."""
    if format.bits[0] >= 32:
        return parts
    wide = parts if format.kind == "sint" else parts.view(f"u{parts.dtype.itemsize}")
    low = -(1 << format.bits[0] - 1) if format.kind == "sint" else 0
    high = [(1 << bits - (format.kind == "sint")) - 1 for bits in format.bits]
    return np.clip(wide, low, np.array(high, wide.dtype))


def _unpack(format: Format, words: Array) -> Array:
    starts = np.cumsum([0, *format.bits[:-1]]).astype(np.uint32)
    most = np.array([(1 << bits) - 1 for bits in format.bits], np.uint32)
    return words.view(np.uint32)[..., None] >> starts & most


def _pack(parts: Array, bits: Sequence[int]) -> Array:
    starts = np.cumsum([0, *bits[:-1]]).astype(np.uint32)
    return np.bitwise_or.reduce(parts.astype(np.uint32) << starts, axis=-1)


def _decode_small(parts: Array, bits: Sequence[int]) -> Array:
    """Decodes unsigned floats with 5 exponent bits: binary16 with a shorter mantissa."""
    shifts = np.array([15 - width for width in bits], np.uint32)
    return (parts << shifts).astype(np.uint16).view(np.float16).astype(np.float32)


def _encode_small(parts: Array, bits: Sequence[int]) -> Array:
    """
    Encodes unsigned floats with 5 exponent bits. Clamps to the range from 0 to the largest number.
    """
    shifts = np.array([15 - width for width in bits], np.uint32)
    wide = np.ascontiguousarray(parts, np.float64)
    least = np.exp2(-24.0 + shifts)
    exponent = np.floor(np.log2(np.maximum(wide, 2.0**-14)))
    step = np.maximum(np.exp2(exponent - 10 + shifts), least)
    largest = np.array((0x7BFF >> shifts << shifts).astype(np.uint16)).view(np.float16)
    rounded = np.minimum(np.rint(wide / step) * step, largest.astype(np.float64))
    finite = np.where(np.isinf(wide), wide, rounded)
    kept = np.where(np.isnan(wide), np.nan, np.maximum(finite, 0.0))
    return kept.astype(np.float16).view(np.uint16).astype(np.uint32) >> shifts
