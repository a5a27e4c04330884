"""Imports reductions along axes, and normalizations."""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient, greater, lesser
from xdsl_spirv.frontends.attention import softmax
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axes_of, axis_of, integers
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, I64, Element, Tensor, sum_element


def float_of(element: Element) -> Element:
    """Returns the float type in which a function of a sum (such as a square root) is computed."""
    return sum_element(element) if element.is_float else F32


def summed(
    b: Nodes,
    x: Tensor,
    axes: Sequence[int],
    keep: bool = True,
    of: Callable[[Scalars, Number], Number] | None = None,
) -> Tensor:
    """
    Sums the elements over axes, or a function `of` the elements, in the accumulator's type.

    If `keep`, the reduced axes remain with size 1.
    """
    term = of or (lambda s, x: x)
    return b.reduce(
        lambda s, x, total: total + term(s, x), 0, x, axes, keep, sum_element(x.element)
    )


def divided(b: Nodes, x: Tensor, count: Size) -> Tensor:
    """Divides a tensor by a number of elements (an integer or a dynamic size)."""
    if isinstance(count, int):
        return b.elementwise(lambda s, x: x / count, x)
    number = b.integer(count)

    def body(s: Scalars, x: Number) -> Number:
        return x / Number(s, number, I64).to(x.element)

    return b.elementwise(body, x)


def _reduced_axes(
    b: Nodes, x: Tensor, axes: Tensor | None, noop_with_empty_axes: int
) -> list[int] | None:
    """Returns the axes to reduce, or None if the node is the identity."""
    numbers = [] if axes is None else integers(b, axes, "axes")
    if not numbers:
        return None if noop_with_empty_axes else list(range(x.rank))
    return axes_of(b, numbers, x.rank)


def _fold_of(combine: Callable[[Any, Any], Any] | None) -> Any:
    """Returns a fold function that reduces arrays of sizes; None without `combine`."""
    if combine is None:
        return None
    function = np.frompyfunc(combine, 2, 1)

    def fold(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        x = np.asarray(x, object)
        along = [] if axes is None else [int(axis) for axis in axes]
        if not along and not noop_with_empty_axes:
            along = list(range(x.ndim))
        for axis in along:
            x = np.expand_dims(function.reduce(x, axis), axis)
        return x if keepdims else np.squeeze(x, tuple(along))

    return fold


def _declare(
    name: str,
    compute: Callable[[Nodes, Tensor, list[int], bool], Tensor],
    combine: Callable[[Any, Any], Any] | None = None,
) -> None:
    @operator(name, fold=_fold_of(combine))
    def function(
        b: Nodes,
        x: Tensor,
        axes: Tensor | None = None,
        /,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen = _reduced_axes(b, x, axes, noop_with_empty_axes)
        if chosen is None:
            chosen = []
        return b.convert(compute(b, x, chosen, bool(keepdims)), x.element)

    del function


def maximum_over(b: Nodes, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return b.reduce(lambda s, x, m: s.maximum(m, x), x.element.least, x, axes, keep)


def minimum_over(b: Nodes, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    return b.reduce(lambda s, x, m: s.minimum(m, x), x.element.greatest, x, axes, keep)


def _mean(b: Nodes, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return divided(b, summed(b, x, axes, keep), prod(x.sizes[i] for i in axes))


def _logarithm_of_sum(b: Nodes, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    total = b.convert(summed(b, x, axes, keep), float_of(x.element))
    return b.elementwise(lambda s, x: s.unary(math.LogOp, x), total)


def _logarithm_of_exponentials(b: Nodes, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    """Computes log-sum-exp without overflow, by subtracting the maximum first."""
    x = b.convert(x, x.element if x.element.is_float else F32)
    largest = maximum_over(b, x, axes, True)
    largest = b.elementwise(lambda s, x: s.select(s.is_infinite(x), 0, x), largest)
    moved = b.elementwise(lambda s, m, x: s.exp(x - m), largest, x)
    logarithm = b.elementwise(
        lambda s, m, x: s.unary(math.LogOp, x) + m.to(x.element), largest, summed(b, moved, axes)
    )
    kept = [s for i, s in enumerate(logarithm.sizes) if keep or i not in axes]
    return b.reshape(logarithm, kept)


def _root(b: Nodes, x: Tensor, axes: list[int], keep: bool) -> Tensor:
    squares = summed(b, x, axes, keep, lambda s, x: x * x)
    roots = b.elementwise(
        lambda s, x: s.unary(math.SqrtOp, x), b.convert(squares, float_of(x.element))
    )
    if x.element.is_float:
        return roots

    def whole(s: Scalars, root: Number, square: Number) -> Number:
        """Converts an approximate root to the exact integer root, rounded down."""
        number = root.to(square.element)
        if square.element.bits == 64:
            # A Newton step corrects the 24 bits of the float.
            rest = s.reinterpret(square - number * number, I64)
            step = (rest.to(root.element) / (s.maximum(root, 1) * 2)).to(I64)
            number = number + s.reinterpret(step, square.element)
        number = s.select(number * number > square, number - 1, number)
        more = number + 1
        return s.select(more * more <= square, more, number)

    return b.elementwise(whole, roots, squares)


_declare("ReduceSum", summed, python.add)
_declare("ReduceMean", _mean)
_declare("ReduceMax", maximum_over, greater)
_declare("ReduceMin", minimum_over, lesser)
_declare(
    "ReduceProd",
    lambda b, x, axes, keep: b.reduce(
        lambda s, x, p: p * x, 1, x, axes, keep, sum_element(x.element)
    ),
    python.mul,
)
_declare("ReduceSumSquare", lambda b, x, a, k: summed(b, x, a, k, lambda s, x: x * x))
_declare("ReduceL1", lambda b, x, a, k: summed(b, x, a, k, lambda s, x: s.absolute(x)))
_declare("ReduceL2", _root)
_declare("ReduceLogSum", _logarithm_of_sum)
_declare("ReduceLogSumExp", _logarithm_of_exponentials)


# Softmax and similar operators


def _flatten_from(b: Nodes, x: Tensor, axis: int) -> tuple[Tensor, int]:
    """Flattens all dimensions from `axis` on, as before opset 13. Returns matrix and new axis."""
    rows, columns = prod(x.sizes[:axis]), prod(x.sizes[axis:])
    return b.reshape(x, [rows, columns]), 1


def _log_softmax(b: Nodes, x: Tensor, axis: int) -> Tensor:
    largest = maximum_over(b, x, [axis], True)
    moved = b.elementwise(lambda s, m, x: x - m, largest, x)
    exponentials = b.elementwise(lambda s, x: s.exp(x), moved)
    total = b.convert(summed(b, exponentials, [axis]), x.element)
    return b.elementwise(lambda s, t, x: x - s.unary(math.LogOp, t), total, moved)


def _hardmax(b: Nodes, x: Tensor, axis: int) -> Tensor:
    first = _position(b, x, axis, True, False)

    def body(s: Scalars, at: Number, x: Number) -> Number:
        return s.select(at.equals(s.index(axis)), s.number(1, x.element), 0)

    return b.elementwise(body, first, x)


for _name, _compute in (
    ("Softmax", softmax),
    ("LogSoftmax", _log_softmax),
    ("Hardmax", _hardmax),
):

    def _register(compute: Callable[[Nodes, Tensor, int], Tensor], name: str) -> None:
        @operator(name, since=13)
        def of_axis(b: Nodes, x: Tensor, /, *, axis: int = -1) -> Tensor:
            return compute(b, x, axis_of(b, axis, x.rank))

        @operator(name)
        def of_rest(b: Nodes, x: Tensor, /, *, axis: int = 1) -> Tensor:
            flat, along = _flatten_from(
                b, x, axis_of(b, axis + x.rank if axis < 0 else axis, x.rank + 1)
            )
            return b.reshape(compute(b, flat, along), x.sizes)

        del of_axis, of_rest

    _register(_compute, _name)


# Positions


def _position(b: Nodes, x: Tensor, axis: int, greatest: bool, last: bool) -> Tensor:
    """Returns the index of the first or last maximum or minimum. A NaN counts as the extremum."""
    kept = [i for i in range(x.rank) if i != axis]
    sizes = [x.sizes[i] for i in kept]
    start = x.element.least if greatest else x.element.greatest
    outputs = [
        (b.fill(start, sizes, x.element), x.element, sizes, kept),
        (b.fill(-1, sizes, I32), I32, sizes, kept),
    ]

    def body(s: Scalars, x: Number, best: Number, at: Number) -> Sequence[Number]:
        better = x > best if greatest else x < best
        if last:
            better = better | x.equals(best)
        better = better | (at < 0)
        if x.element.is_float:
            better = (better | s.is_nan(x)) & (last_or(s, best, last))
        here = s.index(axis).to(I32)
        return [s.select(better, x, best), s.select(better, here, at)]

    def last_or(s: Scalars, best: Number, last: bool) -> Number:
        """True if a later NaN may replace the best element."""
        return best.equals(best)

    positions = b.generic([(x, list(range(x.rank)))], outputs, x.rank, body, [axis])[1]
    wide = b.convert(positions, I64)
    return b.reshape(wide, [1 if i == axis else s for i, s in enumerate(x.sizes)])


def _declare_position(name: str, greatest: bool) -> None:
    @operator(name)
    def function(
        b: Nodes, x: Tensor, /, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Tensor:
        axis = axis_of(b, axis, x.rank)
        result = _position(b, x, axis, greatest, bool(select_last_index))
        sizes = [s for i, s in enumerate(result.sizes) if keepdims or i != axis]
        return b.reshape(result, sizes)

    del function


_declare_position("ArgMax", True)
_declare_position("ArgMin", False)


# Normalization


def normalized(
    b: Nodes, x: Tensor, axes: Sequence[int], epsilon: float, center: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """
    Divides elements by their standard deviation over axes, in f32 or wider. Subtracts the mean
    before if `center` is set. Also returns the mean, and 1 / deviation.
    """
    wide = b.convert(x, sum_element(x.element))
    count = prod(x.sizes[i] for i in axes)
    mean = divided(b, summed(b, wide, axes), count)
    moved = b.elementwise(lambda s, m, x: x - m, mean, wide) if center else wide
    variance = divided(b, summed(b, moved, axes, of=lambda s, x: x * x), count)
    inverse = b.elementwise(lambda s, v: s.unary(math.RsqrtOp, v + epsilon), variance)
    return b.elementwise(lambda s, r, x: x * r, inverse, moved), mean, inverse


@operator("LayerNormalization")
def layer_normalization(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    first = axis_of(b, axis, x.rank)
    result, mean, inverse = normalized(b, x, range(first, x.rank), epsilon)
    result = b.convert(result, x.element)
    result = b.elementwise(lambda s, w, x: x * w, scale, result)
    if bias is not None:
        result = b.elementwise(lambda s, w, x: x + w, bias, result)
    return result, mean, inverse


@operator("RMSNormalization")
def rms_normalization(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    first = axis_of(b, axis, x.rank)
    result, _, _ = normalized(b, x, range(first, x.rank), epsilon, center=False)
    return b.elementwise(lambda s, w, x: x * w, scale, b.convert(result, x.element))


def _of_channels(b: Nodes, t: Tensor, rank: int) -> Tensor:
    """Reshapes a tensor over channels so that it broadcasts with `rank` dimensions."""
    return b.reshape(t, [*t.sizes, *[1] * (rank - 2)])


@operator("BatchNormalization")
def batch_normalization(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    /,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
) -> list[Tensor]:
    if not spatial:
        b.refuse(
            "spatial is 0, which is not supported", "export the model again with opset 9 or later"
        )
    running: list[Tensor] = []
    if training_mode:
        axes = [i for i in range(x.rank) if i != 1]
        of_batch = _mean(b, x, axes, True), _variance(b, x, axes)
        new = [b.reshape(t, old.sizes) for t, old in zip(of_batch, (mean, variance), strict=True)]
        running = [
            b.elementwise(
                lambda s, t, old: old * momentum + t.to(old.element) * (1 - momentum), t, old
            )
            for t, old in zip(new, (mean, variance), strict=True)
        ]
        mean, variance = new
    scale, bias, mean, variance = (
        _of_channels(b, t, max(x.rank, 2)) for t in (scale, bias, mean, variance)
    )

    def body(
        s: Scalars, scale: Number, bias: Number, mean: Number, variance: Number, x: Number
    ) -> Number:
        inverse = s.unary(math.RsqrtOp, variance + epsilon)
        result = (x.to(mean.element) - mean) * (inverse * scale.to(mean.element))
        return (result + bias.to(mean.element)).to(x.element)

    return [b.elementwise(body, scale, bias, mean, variance, x), *running]


def _variance(b: Nodes, x: Tensor, axes: list[int]) -> Tensor:
    """Returns the variance over axes. The reduced axes have size 1 in the result."""
    wide = b.convert(x, sum_element(x.element))
    mean = _mean(b, wide, axes, True)
    return _mean(b, b.elementwise(lambda s, m, x: (x - m) * (x - m), mean, wide), axes, True)


@operator("InstanceNormalization")
def instance_normalization(
    b: Nodes, x: Tensor, scale: Tensor, bias: Tensor, /, *, epsilon: float = 1e-5
) -> Tensor:
    result, _, _ = normalized(b, x, range(2, x.rank), epsilon)
    scale, bias = (_of_channels(b, t, x.rank) for t in (scale, bias))

    def body(s: Scalars, scale: Number, bias: Number, x: Number) -> Number:
        return x.to(scale.element) * scale + bias

    return b.elementwise(body, scale, bias, b.convert(result, x.element))


def _declare_groups(since: int) -> None:
    @operator("GroupNormalization", since=since)
    def function(
        b: Nodes,
        x: Tensor,
        scale: Tensor,
        bias: Tensor,
        /,
        *,
        num_groups: int,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> Tensor:
        """Imports GroupNormalization. Before opset 21, scale and bias have one number per group."""
        n, channels = x.sizes[:2]
        depth = exact_quotient(channels, num_groups)
        if depth is None:
            b.refuse(
                f"{channels} channels do not divide into {num_groups} groups",
                "use a divisor of the number of channels",
            )
        apart = [n, num_groups, depth, *x.sizes[2:]]
        result = normalized(b, b.reshape(x, apart), range(2, len(apart)), epsilon)[0]
        shape = [num_groups, 1 if since < 21 else depth, *[1] * (x.rank - 2)]
        result = b.convert(result, x.element)
        result = b.elementwise(lambda s, w, x: x * w, b.reshape(scale, shape), result)
        result = b.elementwise(lambda s, w, x: x + w, b.reshape(bias, shape), result)
        return b.reshape(result, x.sizes)

    del function


_declare_groups(18)
_declare_groups(21)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(
    b: Nodes, x: Tensor, /, *, axes: Sequence[int] = (0, 2, 3)
) -> Tensor:
    result, _, _ = normalized(b, x, axes_of(b, axes, x.rank), 1e-18)
    return b.convert(result, x.element)


@operator("LpNormalization")
def lp_normalization(b: Nodes, x: Tensor, /, *, axis: int = -1, p: int = 2) -> Tensor:
    along = [axis_of(b, axis, x.rank)]
    if p == 1:
        norm = summed(b, x, along, of=lambda s, x: s.absolute(x))
    else:
        norm = _root(b, x, along, True)

    def body(s: Scalars, n: Number, x: Number) -> Number:
        """Divides by the norm; a zero vector stays zero."""
        return s.select(n.equals(0), 0, x / n)

    return b.elementwise(body, b.convert(norm, x.element), x)


__all__ = ["I64", "normalized", "np", "summed"]
