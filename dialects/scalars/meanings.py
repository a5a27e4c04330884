"""Defines the functions of `math` that numpy lacks, elementwise and in the operands' type."""

from __future__ import annotations

from functools import cache
from math import erf
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy array of any dtype."""

F64 = np.dtype(np.float64)

error_function = np.vectorize(erf, otypes=[np.float64])
"""The error function, elementwise in binary64."""


def _unsigned_bits(a: Array) -> Array:
    """Returns an integer array as unsigned integers. A Boolean becomes a byte."""
    return a.view(f"u{a.dtype.itemsize}")


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """
    Returns a * b + c, rounded once for binary32 and binary16.

    The product of two such numbers is exact in binary64. The sum is rounded to binary64, then to
    the operands' type. This double rounding can only err if the first rounding gives the midpoint
    between two numbers of the type, or a subnormal number. These sums are recomputed with rounding
    to odd, after which the second rounding is correct. For binary64 itself, the product and the sum
    are each rounded.
    """
    if a.dtype == F64:
        return a * b + c
    total = np.multiply(a, b, dtype=F64)
    total = np.add(total, c, dtype=F64)
    result = total.astype(a.dtype)
    midway, below, tiny = _between(a.dtype)
    doubtful = (total.view(np.int64) & below) == midway
    small = np.abs(result) <= tiny
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        where = np.unravel_index(np.flatnonzero(doubtful), doubtful.shape)
        x, y, z = (np.broadcast_to(v, total.shape)[where].astype(F64) for v in (a, b, c))
        result[where] = _odd_sum(x * y, z).astype(a.dtype)
    return result


@cache
def _between(dtype: np.dtype[Any]) -> tuple[np.int64, np.int64, Any]:
    """
    Returns constants for rounding binary64 to a type: the dropped bits of a midpoint between two
    numbers of the type, the mask of the dropped bits, and the smallest normal number.
    """
    info = np.finfo(dtype)
    dropped = np.finfo(F64).nmant - info.nmant
    return np.int64(1 << (dropped - 1)), np.int64((1 << dropped) - 1), info.smallest_normal


def _odd_sum(product: Array, addend: Array) -> Array:
    """Returns a binary64 sum rounded to odd: the last bit of an inexact sum is set."""
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    adjust = (error != 0) & even & np.isfinite(total)
    return np.where(adjust, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def round_half_away(a: Array) -> Array:
    """Rounds to the nearest integer, halves away from zero."""
    whole = np.trunc(a)
    return whole + np.copysign((np.abs(a - whole) >= 0.5).astype(a.dtype), a)


def count_bits(a: Array) -> Array:
    """Returns the number of set bits, in the operand's type."""
    return np.bitwise_count(_unsigned_bits(a)).astype(a.dtype)


def highest_bit(a: Array) -> Array:
    """
    Returns the index of the highest set bit of the number, read as unsigned. Returns -1 for 0.
    """
    bits = _unsigned_bits(a).astype(np.uint64)
    result = np.full(a.shape, -1, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        above = bits >> np.uint64(shift)
        is_above = above != 0
        result += np.where(is_above, shift, 0)
        bits = np.where(is_above, above, bits)
    return (result + (bits != 0)).astype(a.dtype)


def lowest_bit(a: Array) -> Array:
    """Returns the index of the lowest set bit. Returns -1 for 0."""
    return highest_bit(a & -a)


def power_integer(a: Array, b: Array) -> Array:
    """Returns a^b modulo 2^N for N-bit integers. For negative b, returns 0 unless a is 1 or -1."""
    count = np.where(b < 0, b & 1, b)
    base = np.where((b < 0) & (np.abs(a) != 1), 0, a)
    base = np.where((b < 0) & (b & 1 == 0) & (np.abs(a) != 1), 0, base)
    result = np.ones(np.broadcast_shapes(a.shape, b.shape), a.dtype)
    for bit in range(a.dtype.itemsize * 8 - 1):
        if not (count >> bit).any():
            break
        result = np.where((count >> bit) & 1, result * base, result)
        base = base * base
    return np.where((b < 0) & (b & 1 == 0) & (np.abs(a) != 1), 0, result).astype(a.dtype)


def leading_zeros(a: Array) -> Array:
    """Returns the number of zero bits above the highest set bit."""
    return (a.dtype.itemsize * 8 - 1 - highest_bit(a)).astype(a.dtype)


def trailing_zeros(a: Array) -> Array:
    """Returns the number of zero bits below the lowest set bit."""
    return np.where(a == 0, a.dtype.itemsize * 8, lowest_bit(a)).astype(a.dtype)
