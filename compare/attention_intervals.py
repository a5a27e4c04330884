"""
Computes an interval for each element of an attention's result, by the bound of docs/numerics.md.

The interval covers the fused formula, in which exponentials are rounded before the division by
their sum. It also covers the source's separate operations, which round probabilities (and, if the
operation requires it, scores) to the type of queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from xdsl_spirv.compare.bounds import Bound, contraction_bound
from xdsl_spirv.compare.scalar_intervals import Interval, spread
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.interpreter.host.attention import (
    operands_of,
    partial,
    scattered,
    scores_of,
    sizes_of,
    softmax,
    total_of,
)
from xdsl_spirv.interpreter.numbers import DType
from xdsl_spirv.runtime.elements import Array

U = 2.0**-23
"""Largest relative error of an f32 operation that rounds to nearest or toward zero."""

SCORE_ROUNDINGS = 6
"""Number of roundings of a score: queries, keys, product, scale, mask, difference."""

TANH_ROUNDINGS = 16
"""
Error of a hyperbolic tangent in unit roundoffs, before the score's cap multiplies the tangent.
"""

TILE = 8
"""Minimum number of keys that a kernel processes between two updates of a row's maximum."""


def attention_interval(op: AttentionOp, operands: Sequence[Interval], dtype: DType) -> Interval:
    """Returns the interval of every result element. `operands` has an interval for each operand."""
    inputs, (out, *numbers) = operands[: len(op.inputs)], operands[len(op.inputs) :]
    like = np.asarray(out.low, np.float64)
    sizes = sizes_of(op, [number.low for number in numbers])
    middle = operands_of(op, [operand.middle for operand in inputs], sizes)
    radius = operands_of(op, [operand.radius for operand in inputs], sizes)
    queries, keys, values, *_ = middle
    narrow = inputs[0].dtype
    u, subnormal = _info(narrow)
    with np.errstate(all="ignore"):
        scores = scores_of(op, middle, sizes)
        off = _score_errors(op, middle, radius, scores, u if op.narrow is not None else U)
        if op.parts is not None:
            total, error = _parts(op, scores, off, values, radius[2], narrow)
            return spread(total.reshape(like.shape), error.reshape(like.shape), dtype)
        p = softmax(op, scores)
        dp = _probability_errors(scores, off, p) + u * p + 2 * subnormal
        dp = np.where(p == 0, np.where(np.isneginf(scores), 0.0, dp), dp)
        total = total_of(op, p, values)
        size = np.matmul(p, np.abs(values) + radius[2])
        error = np.matmul(dp, np.abs(values) + radius[2]) + np.matmul(p, radius[2])
        error = error + _sum_bound(values.shape[1]).evaluate(total, size)
        error = error + _info(dtype)[0] * np.abs(total) + _info(dtype)[1]
        unknown = ~np.isfinite(queries).all() or ~np.isfinite(keys).all()
        error = np.where(np.isfinite(total), error, np.inf if unknown else 0.0)
    total, error = (scattered(op, result, like, sizes) for result in (total, error))
    interval = spread(total, error, dtype)
    if np.isnan(total).any() and not unknown:
        # A row without a score is NaN in every implementation.
        nan = np.where(np.isnan(total), np.nan, 0.0)
        return Interval(interval.low + nan, interval.high + nan, dtype)
    return interval


def _parts(
    op: AttentionOp, scores: Array, off: Array, values: Array, radius: Array, narrow: DType
) -> tuple[Array, Array]:
    """
    Returns partial results, one for each part of the keys, and their error bounds.

    `scores`, whose error is at most `off`, are multiplied by `values`, whose error is at most
    `radius`. The bounds use the largest score error of each row. `narrow` is the type of the
    probabilities.
    """
    assert op.parts is not None
    total, size, moved = (
        partial(op, scores, x, op.parts.value.data)
        for x in (values, np.abs(values) + radius, radius)
    )
    known = np.where(np.isfinite(scores), np.abs(scores), 0.0)
    most, off = (x.max(axis=-1, keepdims=True, initial=0.0) for x in (known, off))
    n, (u, subnormal) = scores.shape[-1], _info(narrow)
    # The exponent and its power have the errors that `_probability_errors` states.
    power = np.expm1(np.minimum(2 * off + (16 * most + 3) * U, 500.0)) + u
    error = size * power + 2 * subnormal * n * (np.abs(values) + radius).max(initial=1.0)
    error = error + _sum_bound(n).evaluate(total, size)
    error[..., :-2] += moved[..., :-2]
    error[..., -1] = (off + U * most)[..., 0]
    return total, error


def _sum_bound(n: int) -> Bound:
    """
    Returns the error bound of a sum over n keys. It includes the roundings when a larger maximum
    rescales the sum.
    """
    return contraction_bound(n + 4 * (n // TILE + 1), "f32")


def _info(dtype: DType) -> tuple[float, float]:
    info = ml_dtypes.finfo(dtype)
    return float(info.eps), float(info.smallest_subnormal)


def _score_errors(
    op: AttentionOp,
    middle: Sequence[Array],
    radius: Sequence[Array],
    scores: Array,
    u: float,
) -> Array:
    (queries, keys, _, *more), (dq, dk, _, *dm) = middle, radius
    scale = abs(float(op.scale.value.data))
    across = keys.transpose(0, 2, 1)
    product = np.matmul(queries, across)
    size = np.matmul(np.abs(queries) + dq, np.abs(across) + dk.transpose(0, 2, 1))
    off = np.matmul(np.abs(queries), dk.transpose(0, 2, 1))
    off = off + np.matmul(dq, np.abs(across) + dk.transpose(0, 2, 1))
    off = off + contraction_bound(queries.shape[2], "f32").evaluate(product, size)
    off = (off + 2 * u * np.abs(product)) * scale
    n = keys.shape[1]
    finite = np.where(np.isfinite(scores), np.abs(scores), 0.0)[..., :n]
    if op.cap is not None:
        # tanh does not increase distances. It adds an error of a few roundings of its result.
        off = abs(float(op.cap.value.data)) * (np.minimum(off, 2.0) + TANH_ROUNDINGS * u)
    off = off + SCORE_ROUNDINGS * u * finite
    if op.mask is not None:
        known = np.where(np.isfinite(more[0]), np.abs(more[0]), 0.0)
        off = off + dm[0] + u * known
    if op.sink is not None:
        off = np.concatenate([off, (dm[-1] + u * np.abs(more[-1]))[..., :1]], -1)
    return np.where(np.isneginf(scores), 0.0, off)


def _probability_errors(scores: Array, off: Array, p: Array) -> Array:
    """
    Returns error bounds of the probabilities exp(s - m) / sum. `off` are the error bounds of the
    scores.

    If an exponent has the error e, its exponential has the relative error exp(e) - 1. Computing an
    exponent adds one or two ulp, and the function exp(x) adds 3 + 2 |x| ulp.
    """
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    depth = np.where(np.isfinite(scores), np.abs(scores - top), 0.0)
    size = np.where(np.isfinite(scores), np.abs(scores), 0.0) + np.where(
        np.isfinite(top), np.abs(top), 0.0
    )
    exponent_error = off + 4 * U * size + (3 + 4 * depth) * U
    largest = np.nansum(
        np.where(p > 0, p * np.exp(np.minimum(exponent_error, 500.0)), 0.0), -1, keepdims=True
    )
    n = scores.shape[-1]
    both = exponent_error + np.log(np.maximum(largest, 1.0)) + (n + 8) * U
    return p * np.expm1(np.minimum(both, 500.0))
