"""
Evaluates operations of `arith` and `math` on intervals, at the precision that Vulkan requires.

Floats are computed in binary64, integers in 64 bits. A float operation may have an error of one
ulp of its type, which also covers two contracted operations. The error of a `math` function is
Vulkan's limit, or the error of our own approximation. Integers are exact modulo 2^N. An interval
that exceeds its type becomes the whole range of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from xdsl_spirv.dialects.scalars.functions import RECORDS, ScalarFunction
from xdsl_spirv.dialects.scalars.images import give_nan
from xdsl_spirv.interpreter.numbers import DType, is_float
from xdsl_spirv.runtime.elements import Array


@dataclass(frozen=True)
class Interval:
    """The range from `low` to `high`, for values of type `dtype`."""

    low: Array
    high: Array
    dtype: DType

    @property
    def is_point(self) -> bool:
        """True if every element is known exactly."""
        return bool(np.all((self.low == self.high) | (np.isnan(self.low) & np.isnan(self.high))))

    @property
    def middle(self) -> Array:
        return self.low / 2 + self.high / 2

    @property
    def radius(self) -> Array:
        return np.where(self.low == self.high, 0.0, self.high / 2 - self.low / 2)

    @property
    def magnitude(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


Function: TypeAlias = Callable[[Operation, Sequence[Interval], DType], Interval]


def exact(value: Array) -> Interval:
    """Returns the interval of exactly known values, whose ends are equal."""
    held = value.astype(np.float64) if is_float(value.dtype) else value.astype(np.int64)
    return Interval(held, held, value.dtype)


def spread(middle: Array, off: Array, dtype: DType) -> Interval:
    """Returns the interval `middle` +- `off`, unbounded where `off` is NaN or infinite."""
    if not is_float(dtype):
        return wrap_interval(np.floor(middle - off), np.ceil(middle + off), dtype)
    unknown = np.isnan(off) | (np.isinf(off))
    low = np.where(unknown, -np.inf, np.where(off == 0, middle, middle - off))
    return Interval(low, np.where(unknown, np.inf, np.where(off == 0, middle, middle + off)), dtype)


def wrap_interval(low: Array, high: Array, dtype: DType) -> Interval:
    """
    Returns the interval from `low` to `high`. Known integers that exceed the type wrap. An unknown
    integer that exceeds it gets the whole range of the type.
    """
    info = np.iinfo(dtype if dtype.kind in "iu" else np.uint8)
    fits = (low >= info.min) & (high <= info.max)
    known = low == high
    if not bool(np.all(fits | known)):
        low, high = (
            np.where(fits | known, end, limit) for end, limit in ((low, info.min), (high, info.max))
        )
    low, high = (np.asarray(end).astype(np.int64) for end in (low, high))
    wrapped = low.astype(dtype).astype(np.int64)
    return Interval(
        np.where(low == high, wrapped, low), np.where(low == high, wrapped, high), dtype
    )


def widen_rounding(low: Array, high: Array, dtype: DType, ulps: Array | float = 1.0) -> Interval:
    """
    Returns the interval from `low` to `high`, widened by `ulps` of the type. Bounds beyond the
    type's range become infinite.
    """
    info = ml_dtypes.finfo(dtype)
    eps, tiny = float(info.eps), float(info.smallest_normal) * float(info.eps)
    most = float(info.max)

    def off(value: Array) -> Array:
        return np.where(np.isfinite(value), ulps * (np.abs(value) * eps + tiny), 0.0)

    low, high = low - off(low), high + off(high)
    low = np.where(low > most, most, np.where(low < -most, -np.inf, low))
    high = np.where(high < -most, -most, np.where(high > most, np.inf, high))
    unknown = np.isnan(low) | np.isnan(high)
    return Interval(np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high), dtype)


def _is_whole(dtype: DType, *values: Interval) -> bool:
    """True if the values are exact integers whose sums and products are exact in the type."""
    limit = 2.0 ** ((int(ml_dtypes.finfo(dtype).nmant) + 1) / 2)
    return all(
        value.is_point
        and bool(np.all((np.abs(value.low) < limit) & (value.low == np.rint(value.low))))
        for value in values
    )


def _arithmetic(function: Callable[[Any, Any], Any]) -> Function:
    """
    Wraps a function of numbers as a function of intervals. The result's ends are the extremes over
    all pairs of operand ends.
    """

    def apply(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
        x, y = operands
        pairs = list(product((x.low, x.high), (y.low, y.high)))
        corners = [function(a, b) for a, b in pairs]
        low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        if not is_float(dtype):
            known = (x.low == x.high) & (y.low == y.high)
            sizes = [np.abs(function(np.float64(a), np.float64(b))) for a, b in pairs]
            # A corner of inexact 64-bit integers does not bound the result if it wraps.
            wraps = ~known & (np.maximum.reduce(sizes) >= 2.0**62)
            info = np.iinfo(np.int64)
            low, high = np.where(wraps, info.min, low), np.where(wraps, info.max, high)
            return wrap_interval(low, high, dtype)
        if not isinstance(op, arith.DivfOp) and _is_whole(dtype, x, y):
            return Interval(low, high, dtype)
        return widen_rounding(low, high, dtype)

    return apply


def _division(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    x, y = operands
    quotient = _arithmetic(np.divide)(op, operands, dtype)
    # Vulkan: 2.5 ulp; any result where the divisor may be 0.
    wide = widen_rounding(quotient.low, quotient.high, dtype, 2.5)
    crosses = (y.low <= 0) & (y.high >= 0)
    return Interval(
        np.where(crosses, -np.inf, wide.low), np.where(crosses, np.inf, wide.high), x.dtype
    )


def _extreme(function: Callable[[Any, Any], Any]) -> Function:
    def apply(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
        x, y = operands
        return Interval(function(x.low, y.low), function(x.high, y.high), dtype)

    return apply


def _falling(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    (x,) = operands
    return Interval(-x.high, -x.low, dtype)


def _widen_by_error(function: ScalarFunction) -> Function:
    """
    Wraps a scalar function as a function of intervals. The result is the exact image, widened by
    the error that a device may make.
    """

    def apply(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
        low, high = function.image(function.meaning, *((x.low, x.high) for x in operands))
        if function.is_exact:
            return Interval(low, high, dtype)
        ulps, size = function.ulps, operands[0].magnitude
        if callable(ulps):
            ulps = ulps(np.where(np.isfinite(size), size, 0.0))
        return widen_rounding(low - function.absolute, high + function.absolute, dtype, ulps)

    return apply


def _to_float(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    """Converts integers, or floats of a wider type. Inexact ends are rounded outwards."""
    (x,) = operands
    low, high = (np.asarray(end).astype(np.float64) for end in (x.low, x.high))
    if isinstance(op, arith.UIToFPOp) and bool(np.any(x.low < 0)):
        low, high = (
            np.where(end < 0, end + 2.0 ** (8 * x.dtype.itemsize), end) for end in (low, high)
        )
        low = np.where(low > high, 0, low)
    with np.errstate(over="ignore"):
        same = (low == high) & (low.astype(dtype).astype(np.float64) == low)
    wide = widen_rounding(low, high, dtype)
    return Interval(np.where(same, low, wide.low), np.where(same, high, wide.high), dtype)


def _to_integer(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    """
    Rounds toward zero. Returns the whole range of the type if a result may be outside of this
    range.
    """
    (x,) = operands
    info = np.iinfo(dtype)
    unsigned = isinstance(op, arith.FPToUIOp)
    least = 0 if unsigned else info.min
    beyond = min(2.0**63, float(2 ** (8 * dtype.itemsize)) if unsigned else -float(info.min))
    fits = (np.trunc(x.low) >= least) & (np.trunc(x.high) < beyond)
    # Numbers that do not fit are replaced, because their conversion is undefined.
    low, high = (np.where(fits, end, 0.0).astype(np.int64) for end in (x.low, x.high))
    low, high = np.where(fits, low, info.min), np.where(fits, high, info.max)
    return wrap_interval(low, high, dtype)


def _truncate_integer(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    (x,) = operands
    return wrap_interval(x.low, x.high, dtype)


def _extend_unsigned(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    (x,) = operands
    beyond = 2 ** (8 * x.dtype.itemsize) if x.dtype.kind != "b" else 2
    crosses = (x.low < 0) & (x.high >= 0)
    low, high = (np.where(end < 0, end + beyond, end) for end in (x.low, x.high))
    return Interval(np.where(crosses, 0, low), np.where(crosses, beyond - 1, high), dtype)


def _in_unsigned_order(x: Interval) -> Interval:
    """Maps 64-bit integers to signed integers in the order of their unsigned values."""
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    low, high = (end.astype(np.int64) ^ least for end in (x.low, x.high))
    crosses = low > high
    return Interval(
        np.where(crosses, least, low), np.where(crosses, most, high), np.dtype(np.int64)
    )


def _compare(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    """Returns the interval of a comparison: 0 to 1 if either result is possible."""
    x, y = operands
    names = arith.CMPF_COMPARISON_OPERATIONS
    if isinstance(op, arith.CmpiOp):
        names = arith.CMPI_COMPARISON_OPERATIONS
    kind = names[cast(arith.CmpiOp | arith.CmpfOp, op).predicate.value.data]
    if kind.startswith("u") and isinstance(op, arith.CmpiOp):
        x, y = map(_in_unsigned_order, (x, y))
    match kind.lstrip("uso"):
        case "lt":
            always, never = x.high < y.low, x.low >= y.high
        case "le":
            always, never = x.high <= y.low, x.low > y.high
        case "gt":
            always, never = x.low > y.high, x.high <= y.low
        case "ge":
            always, never = x.low >= y.high, x.high < y.low
        case "eq":
            always = (x.low == y.high) & (x.high == y.low)
            never = (x.high < y.low) | (x.low > y.high)
        case _:
            never = (x.low == y.high) & (x.high == y.low)
            always = (x.high < y.low) | (x.low > y.high)
    return Interval(always.astype(np.int64), (~never).astype(np.int64), dtype)


def _select(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    condition, x, y = operands
    both = condition.low != condition.high
    chosen = condition.low != 0
    low = np.where(both, np.minimum(x.low, y.low), np.where(chosen, x.low, y.low))
    high = np.where(both, np.maximum(x.high, y.high), np.where(chosen, x.high, y.high))
    return Interval(low, high, dtype)


def _on_bits(function: Callable[[Any, Any], Any]) -> Function:
    """
    Wraps a bitwise operation as a function of intervals. If an operand is not known exactly, the
    result is the whole range of the type.
    """

    def apply(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
        x, y = operands
        if not (x.is_point and y.is_point):
            return _anything(np.broadcast(x.low, y.low).shape, dtype)
        bits = np.dtype(f"u{dtype.itemsize}")
        result = function(x.low.astype(bits), y.low.astype(bits))
        return exact(np.asarray(result, bits).view(dtype))

    return apply


def _anything(shape: tuple[int, ...], dtype: DType) -> Interval:
    if is_float(dtype):
        least, most = -np.inf, np.inf
    else:
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return Interval(np.full(shape, least), np.full(shape, most), dtype)


def _reinterpret(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    """
    Reinterprets the bits of known numbers as another type. If a number is not known exactly, the
    result is the whole range of the type.
    """
    (x,) = operands
    if not x.is_point:
        return _anything(x.low.shape, dtype)
    return exact(np.asarray(x.low.astype(x.dtype)).view(dtype))


def _same(op: Operation, operands: Sequence[Interval], dtype: DType) -> Interval:
    (x,) = operands
    return Interval(x.low, x.high, dtype)


SCALARS: dict[type[Operation], Function] = {
    arith.AddfOp: _arithmetic(np.add),
    arith.SubfOp: _arithmetic(np.subtract),
    arith.MulfOp: _arithmetic(np.multiply),
    arith.DivfOp: _division,
    arith.AddiOp: _arithmetic(np.add),
    arith.SubiOp: _arithmetic(np.subtract),
    arith.MuliOp: _arithmetic(np.multiply),
    arith.AndIOp: _on_bits(np.bitwise_and),
    arith.OrIOp: _on_bits(np.bitwise_or),
    arith.XOrIOp: _on_bits(np.bitwise_xor),
    arith.ShLIOp: _on_bits(np.left_shift),
    arith.ShRUIOp: _on_bits(np.right_shift),
    arith.IndexCastOp: _truncate_integer,
    arith.MaximumfOp: _extreme(np.maximum),
    arith.MaxnumfOp: _extreme(np.maximum),
    arith.MaxSIOp: _extreme(np.maximum),
    arith.MinimumfOp: _extreme(np.minimum),
    arith.MinnumfOp: _extreme(np.minimum),
    arith.MinSIOp: _extreme(np.minimum),
    arith.NegfOp: _falling,
    arith.ExtFOp: _same,
    arith.ExtSIOp: _same,
    arith.ExtUIOp: _extend_unsigned,
    arith.TruncFOp: _to_float,
    arith.TruncIOp: _truncate_integer,
    arith.SIToFPOp: _to_float,
    arith.UIToFPOp: _to_float,
    arith.FPToSIOp: _to_integer,
    arith.FPToUIOp: _to_integer,
    arith.BitcastOp: _reinterpret,
    arith.CmpfOp: _compare,
    arith.CmpiOp: _compare,
    arith.SelectOp: _select,
    **{
        function.op: _widen_by_error(function)
        for function in RECORDS
        if function.image is not give_nan
    },
}
"""
Maps the class of an operation to a function that computes the result's interval from the operands'
intervals.
"""
