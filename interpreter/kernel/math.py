"""
`math`: computed in binary64 and rounded once to the type, which no device does better.
"""

from __future__ import annotations

from math import erf

import numpy as np
from xdsl.dialects import math

from xdsl_spirv.dialects.scalar_extensions import IsFiniteOp, IsInfOp, IsNaNOp
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import value_table

error_function = np.vectorize(erf, otypes=[np.float64])
"""The error function of binary64; numpy has none."""


def power_integer(a: Array, b: Array) -> Array:
    """a to the power b modulo 2^N; a negative power is 0 unless a is 1 or -1."""
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
    """Zeros above the highest set bit."""
    return (a.dtype.itemsize * 8 - 1 - ew.highest_bit(a)).astype(a.dtype)


def trailing_zeros(a: Array) -> Array:
    """Zeros below the lowest set bit."""
    return np.where(a == 0, a.dtype.itemsize * 8, ew.lowest_bit(a)).astype(a.dtype)


value_table(
    {
        math.AbsFOp: ew.in_binary32(np.abs),
        math.AbsIOp: np.abs,
        math.AcosOp: ew.wide_math(np.arccos),
        math.AcoshOp: ew.wide_math(np.arccosh),
        math.AsinOp: ew.wide_math(np.arcsin),
        math.AsinhOp: ew.wide_math(np.arcsinh),
        math.AtanOp: ew.wide_math(np.arctan),
        math.AtanhOp: ew.wide_math(np.arctanh),
        math.Atan2Op: ew.wide_math(np.arctan2),
        math.CbrtOp: ew.wide_math(np.cbrt),
        math.CeilOp: ew.wide_math(np.ceil),
        math.CopySignOp: ew.in_binary32(np.copysign),
        math.CosOp: ew.wide_math(np.cos),
        math.CoshOp: ew.wide_math(np.cosh),
        math.CountLeadingZerosOp: leading_zeros,
        math.CountTrailingZerosOp: trailing_zeros,
        math.CtPopOp: ew.count_bits,
        math.ErfOp: ew.wide_math(error_function),
        math.Exp2Op: ew.wide_math(np.exp2),
        math.ExpM1Op: ew.wide_math(np.expm1),
        math.ExpOp: ew.wide_math(np.exp),
        math.FPowIOp: lambda a, b: np.power(a.astype(numbers.F64), b).astype(a.dtype),
        math.FloorOp: ew.wide_math(np.floor),
        math.FmaOp: ew.fused_multiply_add,
        math.IPowIOp: power_integer,
        math.Log10Op: ew.wide_math(np.log10),
        math.Log1pOp: ew.wide_math(np.log1p),
        math.Log2Op: ew.wide_math(np.log2),
        math.LogOp: ew.wide_math(np.log),
        math.PowFOp: ew.wide_math(np.power),
        math.RoundEvenOp: ew.wide_math(np.rint),
        math.RoundOp: ew.wide_math(ew.round_half_away),
        math.RsqrtOp: ew.wide_math(lambda a: 1 / np.sqrt(a)),
        math.SinOp: ew.wide_math(np.sin),
        math.SinhOp: ew.wide_math(np.sinh),
        math.SqrtOp: ew.wide_math(np.sqrt),
        math.TanOp: ew.wide_math(np.tan),
        math.TanhOp: ew.wide_math(np.tanh),
        math.TruncOp: ew.wide_math(np.trunc),
        IsNaNOp: np.isnan,
        IsInfOp: np.isinf,
        IsFiniteOp: np.isfinite,
    }
)
