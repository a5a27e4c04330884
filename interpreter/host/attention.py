"""
Attention seen as a whole: in binary64, rounded once, as contractions are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.dialects.schedule.attention import LOOPS
from xdsl_spirv.interpreter.host.affine import evaluate
from xdsl_spirv.interpreter.host.machine import on_arrays
from xdsl_spirv.interpreter.numbers import F32, F64, I64, Array, is_small_float


def gathered(value: Array, map: AffineMap, sizes: Sequence[int], last: tuple[int, int]) -> Array:
    """
    An operand as batch x ... x two loops, numbered from the first after the batch's, in binary64.
    """
    places, shape = _places(map, sizes, last)
    wide = value[places].astype(F64)
    return np.broadcast_to(wide, shape).reshape(-1, *shape[-len(last) :])


def _places(
    map: AffineMap, sizes: Sequence[int], last: tuple[int, int]
) -> tuple[tuple[Array, ...], list[int]]:
    """The index of each dimension over the batch's loops and two others, and their sizes."""
    batch = len(sizes) - len(LOOPS)
    loops = [*range(batch), *(batch + loop for loop in last)]
    shape = [sizes[loop] for loop in loops]
    grids: list[Array] = [np.zeros((), I64)] * len(sizes)
    for loop, grid in zip(loops, np.indices(shape, sparse=True), strict=True):
        grids[loop] = grid
    return tuple(np.broadcast_to(evaluate(e, grids), shape) for e in map.results), shape


M, N, D, E = range(len(LOOPS))


def operands_of(op: AttentionOp, values: Sequence[Array]) -> list[Array]:
    """Queries (batch, m, d), keys (batch, n, d), values (batch, n, e), mask (batch, m, n)."""
    loops = ((M, D), (N, D), (N, E), (M, N))
    maps = [map for _, map in op.inputs]
    given = zip(values, maps, loops, strict=False)
    return [gathered(value, map, op.sizes, last) for value, map, last in given]


def scores_of(op: AttentionOp, wide: Sequence[Array]) -> Array:
    """Scaled and masked, batch x m x n."""
    queries, keys, _, *mask = wide
    scores = np.matmul(queries, keys.transpose(0, 2, 1)) * op.scale.value.data
    if mask:
        scores = scores + mask[0]
    offset = op.offset
    if offset is not None:
        m, n, _, _ = op.extents
        scores = np.where(np.arange(n) > np.arange(m)[:, None] + offset, -np.inf, scores)
    return scores


def softmax(op: AttentionOp, scores: Array) -> Array:
    """Of each row; of a row that is nothing but -inf NaN, or 0 where the operation says so."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    probabilities = powers / powers.sum(axis=-1, keepdims=True)
    return (
        probabilities
        if op.nan_to_zero is None
        else np.where(np.isnan(probabilities), 0.0, probabilities)
    )


def scattered(op: AttentionOp, result: Array, like: Array) -> Array:
    """A result of batch x m x e in its place."""
    places, shape = _places(op.result_map, op.sizes, (M, E))
    target = like.copy()
    target[places] = result.reshape(shape)
    return target


@on_arrays(AttentionOp)
def attention(op: AttentionOp, *operands: Array) -> Array:
    """The result in its place."""
    *values, out = operands
    wide = operands_of(op, values)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        total = np.matmul(softmax(op, scores_of(op, wide)), wide[2])
        rounded = total.astype(F32) if is_small_float(out.dtype) else total
        return scattered(op, rounded.astype(out.dtype), out)
