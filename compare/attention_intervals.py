"""
Computes an interval for each element of an attention's result, by the bound of docs/numerics.md.

The interval covers the fused formula, in which exponentials are rounded before the division by
their sum. It also covers the source's separate operations, which round probabilities (and, if the
operation requires it, scores) to the type of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from xdsl_spirv.compare.bounds import contraction_bound
from xdsl_spirv.compare.scalar_intervals import Interval, spread
from xdsl_spirv.dialects.places import place
from xdsl_spirv.dialects.schedule import AttentionMergeOp, AttentionOp
from xdsl_spirv.interpreter.host.attention import (
    merged,
    operands_of,
    scattered,
    scores_of,
    sizes_of,
    softmax,
    total_of,
)
from xdsl_spirv.interpreter.numbers import DType
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import ProgramError

U = 2.0**-23
"""Largest relative error of an f32 operation that rounds to nearest or toward zero."""

SCORE_ROUNDINGS = 6
"""Number of roundings of a score: queries, keys, product, scale, mask, difference."""

TANH_ROUNDINGS = 16
"""Error of a hyperbolic tangent in units of `u`, before the multiplication by the cap."""

TILE = 8
"""Minimum number of keys that a kernel processes between two updates of a row's maximum."""


Scatter = Callable[[Array], Array]
"""Type of functions that move a result (batch, m, e) to the operation's result layout."""


@dataclass(frozen=True)
class Parts(Interval):
    """Partial results of an attention split over keys. Only the merged result has a bound."""

    op: AttentionOp
    operands: Sequence[Interval]


def attention_interval(op: AttentionOp, operands: Sequence[Interval], dtype: DType) -> Interval:
    """Returns the interval of every result element. `operands` has an interval for each operand."""
    out, *numbers = operands[len(op.inputs) :]
    like = np.asarray(out.low, np.float64)
    if op.parts is not None:
        anything = np.full(like.shape, np.inf)
        return Parts(-anything, anything, dtype, op, operands)
    sizes = sizes_of(op, [number.low for number in numbers])
    return _interval(op, operands, dtype, lambda result: scattered(op, result, like, sizes))


def merge_interval(op: AttentionMergeOp, operands: Sequence[Interval], dtype: DType) -> Interval:
    """Returns the interval of a merge, which equals the interval of the whole attention."""
    parts, out, *numbers = operands
    if not isinstance(parts, Parts):
        raise ProgramError(
            "no error bound is known for a merge of parts that are not computed by an attention",
            place(op),
        )
    like = np.asarray(out.low, np.float64)
    return _interval(
        parts.op,
        parts.operands,
        dtype,
        lambda result: merged(op, result, like, [number.low for number in numbers]),
    )


def _interval(
    op: AttentionOp, operands: Sequence[Interval], dtype: DType, scatter: Scatter
) -> Interval:
    inputs, (_, *numbers) = operands[: len(op.inputs)], operands[len(op.inputs) :]
    sizes = sizes_of(op, [number.low for number in numbers])
    middle = operands_of(op, [operand.middle for operand in inputs], sizes)
    radius = operands_of(op, [operand.radius for operand in inputs], sizes)
    queries, keys, values, *_ = middle
    narrow = inputs[0].dtype
    u, subnormal = _info(narrow)
    with np.errstate(all="ignore"):
        scores = scores_of(op, middle, sizes)
        off = _score_errors(op, middle, radius, scores, u if op.narrow is not None else U)
        p = softmax(op, scores)
        dp = _probability_errors(scores, off, p) + u * p + 2 * subnormal
        dp = np.where(p == 0, np.where(np.isneginf(scores), 0.0, dp), dp)
        total = total_of(op, p, values)
        size = np.matmul(p, np.abs(values) + radius[2])
        error = np.matmul(dp, np.abs(values) + radius[2]) + np.matmul(p, radius[2])
        n = values.shape[1]
        # When the maximum changes, the partial result and the sum are scaled by a rounded factor.
        parts = 0 if op.parts is None else op.parts.value.data
        bound = contraction_bound(n + 4 * (n // TILE + 1 + parts), "f32")
        error = error + bound.evaluate(total, size)
        error = error + _info(dtype)[0] * np.abs(total) + _info(dtype)[1]
        unknown = ~np.isfinite(queries).all() or ~np.isfinite(keys).all()
        error = np.where(np.isfinite(total), error, np.inf if unknown else 0.0)
    interval = spread(scatter(total), scatter(error), dtype)
    if np.isnan(total).any() and not unknown:
        # A row without a score is NaN in every implementation.
        nan = scatter(np.where(np.isnan(total), np.nan, 0.0))
        return Interval(interval.low + nan, interval.high + nan, dtype)
    return interval


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
    Returns error bounds of exp(s - m) / sum, namely exp(e) - 1 for the error e of the exponents.

    The exponents have errors of one or two ulp. The function exp(x) adds 3 + 2 |x| ulp.
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
