"""Computes attention on whole tensors, in binary64, and rounds the result once."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir.affine import AffineMap

from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.dialects.schedule.attention import LOOPS, AttentionSizes
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.interpreter.host.affine import evaluate
from xdsl_spirv.interpreter.host.machine import on_arrays
from xdsl_spirv.interpreter.numbers import F32, F64, I64, Array, is_small_float


def gathered(value: Array, map: AffineMap, sizes: Sequence[int], last: tuple[int, int]) -> Array:
    """Gathers an operand as a binary64 array of three axes: batch, and the two loops `last`."""
    places, shape = _places(map, sizes, last)
    wide = value[places].astype(F64)
    inner = shape[-len(last) :]
    return np.broadcast_to(wide, shape).reshape(prod(shape[: -len(last)]), *inner)


def _places(
    map: AffineMap, sizes: Sequence[int], last: tuple[int, int]
) -> tuple[tuple[Array, ...], list[int]]:
    """
    Returns the index arrays of an operand over the batch loops and the two loops `last`, and the
    sizes of all these loops.
    """
    batch = len(sizes) - len(LOOPS)
    loops = [*range(batch), *(batch + loop for loop in last)]
    shape = [sizes[loop] for loop in loops]
    grids: list[Array] = [np.zeros((), I64)] * len(sizes)
    for loop, grid in zip(loops, np.indices(shape, sparse=True), strict=True):
        grids[loop] = grid
    return tuple(np.broadcast_to(evaluate(e, grids), shape) for e in map.results), shape


M, N, D, E = range(len(LOOPS))


LEAST = -3.4028234663852886e38
"""Start value for the maximum of a row. It is below every score."""


def sizes_of(op: AttentionOp, numbers: Sequence[Array]) -> AttentionSizes:
    """Returns the sizes of an attention. `numbers` are the values of its dynamic sizes."""
    return op.sized([int(number) for number in numbers])


def operands_of(op: AttentionOp, values: Sequence[Array], sizes: AttentionSizes) -> list[Array]:
    """
    Returns queries (batch, m, d), keys (batch, n, d), values (batch, n, e), mask (batch, m, n) and
    sink (batch, m, e). With a sink the values have an additional row of zeros.
    """
    loops = {"q": (M, D), "k": (N, D), "v": (N, E), "mask": (M, N), "sink": (M, E)}
    names = [name for name in op.named if name in loops]
    given = zip(values, op.inputs, map(loops.__getitem__, names), strict=True)
    wide = [gathered(value, map, static(sizes.loops), last) for value, (_, map), last in given]
    if op.sink is not None:
        wide[2] = np.pad(wide[2], ((0, 0), (0, 1), (0, 0)))
    return wide


def scores_of(op: AttentionOp, wide: Sequence[Array], sizes: AttentionSizes) -> Array:
    """Returns the scaled and masked scores (batch, m, n). A sink adds a last column."""
    queries, keys, _, *more = wide
    scores = np.matmul(queries, keys.transpose(0, 2, 1)) * op.scale.value.data
    if op.cap is not None:
        scores = op.cap.value.data * np.tanh(scores)
    if op.mask is not None:
        scores = scores + more[0]
    m, n = scores.shape[1:]
    distance = np.arange(n) - np.arange(m)[:, None]
    if sizes.causal is not None:
        scores = np.where(distance > sizes.causal, -np.inf, scores)
    if sizes.window is not None:
        scores = np.where(distance < sizes.window, -np.inf, scores)
    return scores if op.sink is None else np.concatenate([scores, more[-1][..., :1]], -1)


def softmax(op: AttentionOp, scores: Array) -> Array:
    """
    Returns the softmax of each row. A row that contains only -inf gives NaN, or 0 if the operation
    requests it.
    """
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    probabilities = powers / powers.sum(axis=-1, keepdims=True)
    return (
        probabilities
        if op.nan_to_zero is None
        else np.where(np.isnan(probabilities), 0.0, probabilities)
    )


def total_of(op: AttentionOp, p: Array, values: Array) -> Array:
    """
    Returns the result (batch, m, e). A row without keys is NaN, or 0 if the operation requests it.
    """
    if p.shape[-1] or op.nan_to_zero is not None:
        return np.matmul(p, values)
    return np.full((*p.shape[:-1], values.shape[-1]), np.nan)


def scattered(op: AttentionOp, result: Array, like: Array, sizes: AttentionSizes) -> Array:
    """Permutes a result (batch, m, e) to the layout of the operation's output map."""
    places, shape = _places(op.maps.data[3].data, static(sizes.loops), (M, E))
    target = like.copy()
    target[places] = result.reshape(shape)
    return target


def partial(op: AttentionOp, scores: Array, values: Array, parts: int) -> Array:
    """
    Returns partial results for each of `parts` ranges of keys: weighted values, sum of
    exponentials, and maximum.
    """
    keys = scores.shape[-1] - (op.sink is not None)
    length = -(-keys // parts) or 1
    runs: list[Array] = []
    least = np.maximum(scores[..., keys:].max(-1, keepdims=True, initial=-np.inf), LEAST)
    for number in range(parts):
        run = np.arange(number * length, min((number + 1) * length, keys))
        if number == 0:
            run = np.append(run, np.arange(keys, scores.shape[-1]))
        part = scores[..., run]
        top = np.maximum(part.max(-1, keepdims=True, initial=-np.inf), least)
        powers = np.exp(part - top)
        summed = np.matmul(powers, values[:, run])
        runs.append(np.concatenate([summed, powers.sum(-1, keepdims=True), top], -1))
    return np.stack(runs)


@on_arrays(AttentionOp)
def attention(op: AttentionOp, *operands: Array) -> Array:
    """
    Computes an attention in the layout of the output. With `op.parts`, computes its partial
    results.
    """
    count = len(op.inputs)
    out, *numbers = operands[count:]
    sizes = sizes_of(op, numbers)
    wide = operands_of(op, operands[:count], sizes)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        scores = scores_of(op, wide, sizes)
        if op.parts is not None:
            return partial(op, scores, wide[2], op.parts.value.data).reshape(out.shape).astype(F32)
        total = total_of(op, softmax(op, scores), wide[2])
        rounded = total.astype(F32) if is_small_float(out.dtype) else total
        return scattered(op, rounded.astype(out.dtype), out, sizes)
