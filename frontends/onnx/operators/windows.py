"""
Imports convolutions and pooling in any number of spatial dimensions.

An image is N x C x spatial dimensions. Padding is a separate operation. Positions in a window are
affine maps, so that windows are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import and_
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    SymbolicSize,
    ceil_div,
    exact_quotient,
    least,
)
from xdsl_spirv.frontends.onnx.dimensions import options_for
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.reductions import divided, maximum_over, summed
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I64, Element, Tensor, sum_element


@dataclass(frozen=True, kw_only=True)
class StepAttributes:
    """Attributes of operators with windows: one entry per spatial dimension, or empty."""

    dilations: Sequence[int] | None = None
    pads: Sequence[int] | None = None
    strides: Sequence[int] | None = None

    def steps(self, rank: int) -> list[int]:
        return list(self.strides or [1] * rank)

    def distances(self, rank: int) -> list[int]:
        """Returns the dilation of each spatial dimension."""
        return list(self.dilations or [1] * rank)

    def padding(self, rank: int) -> list[int]:
        """Returns the padding before each spatial dimension, then the padding after each."""
        return list(self.pads or [0] * 2 * rank)


@dataclass(frozen=True, kw_only=True)
class WindowAttributes(StepAttributes):
    """Attributes of operators with windows whose padding may be automatic."""

    auto_pad: str = "NOTSET"


@dataclass(frozen=True, kw_only=True)
class ConvAttributes(WindowAttributes):
    """Attributes of convolutions."""

    group: int = 1
    kernel_shape: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class PoolAttributes(WindowAttributes):
    """Attributes of pooling."""

    ceil_mode: int = 0
    kernel_shape: Sequence[int]


@dataclass(frozen=True)
class Window:
    """The window of a convolution or pooling; lists have an entry per spatial dimension."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[Size]
    high: list[Size]
    """Padding at the end, including the excess of a last window in ceil_mode."""
    beyond: list[Size]
    """Part of `high` beyond the model's padding, which the last window needs in ceil_mode."""
    sizes: list[Size]
    """Sizes of the result."""

    def position(self, axis: int, output_loop: int, kernel_loop: int) -> AffineExpr:
        """Returns the position of a window element in the padded image."""
        return AffineDimExpr(output_loop) * self.strides[axis] + (
            AffineDimExpr(kernel_loop) * self.dilations[axis]
        )


def window_of(
    b: Nodes,
    image: Sequence[Size],
    kernel: Sequence[int],
    attributes: WindowAttributes,
    ceil_mode: int = 0,
) -> Window:
    """
    Makes the window of an operator over an image of these spatial sizes, which may be dynamic.

    With `ceil_mode`, a last window may exceed the image.
    """
    rank, auto_pad = len(image), attributes.auto_pad
    steps, apart = attributes.steps(rank), attributes.distances(rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    given = attributes.padding(rank) if auto_pad == "NOTSET" else [0] * 2 * rank
    low, high = list[Size](given[:rank]), list[Size](given[rank:])
    beyond: list[Size] = [0] * rank
    sizes: list[Size] = []
    for i, size in enumerate(image):
        step = steps[i]
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            count = ceil_div(size, step)
            total = _missing(size, count, step, reach[i], reach[i])
            less, more = total // 2, total - total // 2
            low[i], high[i] = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        else:
            whole = size + low[i] + high[i]
            count = (whole - reach[i]) // step + 1
            if ceil_mode:
                # The last window must start in the image or the padding before it.
                fits = reach[i] - given[rank + i] >= step
                count = (
                    ceil_div(whole - reach[i], step) + 1 if fits else ceil_div(size + low[i], step)
                )
                beyond[i] = _missing(whole, count, step, reach[i], reach[i] - given[rank + i])
        if isinstance(count, int) and count < 1:
            b.refuse(
                f"a window of {reach[i]} elements is larger than the {size} elements of the image",
                "use a smaller window",
            )
        sizes.append(count)
    high = [h + e for h, e in zip(high, beyond, strict=True)]
    return Window(list(kernel), steps, apart, low, high, beyond, sizes)


def _missing(size: Size, count: Size, step: int, reach: int, inside: int) -> Size:
    """
    Returns the number of elements that `count` windows need in addition to `size`.

    A window covers `reach` elements, and starts `step` elements after the previous one. At most
    `step - inside` of the `size` elements are in no window.
    """
    spare = max(0, step - inside)
    rest = (count - 1) * step + reach + spare - size
    return rest - least(rest, spare) if isinstance(rest, SymbolicSize) else max(0, rest - spare)


def padded(b: Nodes, x: Tensor, window: Window, number: float) -> Tensor:
    """Pads the image for the window; negative padding removes elements."""
    low, high = ([0] * (x.rank - len(p)) + p for p in (window.low, window.high))
    static = [n for n in (*low, *high) if isinstance(n, int)]
    if len(static) < 2 * x.rank:
        sizes = [a + s + c for a, s, c in zip(low, x.sizes, high, strict=True)]
        around = b.fill(number, sizes, x.element)
        return Tensor(x.element, sizes, b.insert_slice(x, around, low))
    starts = [max(0, -n) for n in static[: x.rank]]
    ends = [max(0, -n) for n in static[x.rank :]]
    sizes = [s - f - e for s, f, e in zip(x.sizes, starts, ends, strict=True)]
    cut = b.slice(x, starts, sizes)
    amounts = [max(0, n) for n in static]
    return b.pad(cut, amounts[: x.rank], amounts[x.rank :], number)


# Convolution


def convolve(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    window: Window,
    group: int,
    element: Any = None,
    fill: float = 0,
) -> Tensor:
    """
    Convolves N x C x ... with M x C / group x ..., without a bias. `fill` is the value of the
    padding.
    """
    n, channels = x.sizes[:2]
    m, depth = w.sizes[:2]
    if isinstance(channels, int) and isinstance(depth, int) and channels != depth * group:
        b.refuse(
            f"{x} has {channels} channels, but the weights have {depth} in {group} groups",
            "correct the image or the weights",
        )
    rank = len(window.kernel)
    if group == 1 or (group == channels == m and depth == 1):
        # A depthwise convolution has one loop over the channels of image, weights and result.
        is_deep = group == 1
        image = padded(b, x, window, fill)
        loops = 2 + rank
        first = loops + 1 if is_deep else loops
        walks = [window.position(i, 2 + i, first + i) for i in range(rank)]
        kernel = list(range(first, first + rank))
        sizes = [n, m, *window.sizes]
        if is_deep:
            maps: Any = [0, loops, *walks], [1, loops, *kernel]
        else:
            maps = [0, 1, *walks], [1, *kernel]
            w = b.reshape(w, [m, *w.sizes[2:]])
        return b.contract(image, maps[0], w, maps[1], sizes, first + rank, element)
    per_group = exact_quotient(m, group)
    if per_group is None:
        b.refuse(
            f"{m} output channels do not divide into {group} groups", "use a multiple of group"
        )
    image = padded(b, b.reshape(x, [n, group, depth, *x.sizes[2:]]), window, fill)
    weights = b.reshape(w, [group, per_group, depth, *w.sizes[2:]])
    loops = 3 + rank
    walks = [window.position(i, 3 + i, loops + 1 + i) for i in range(rank)]
    kernel = list(range(loops + 1, loops + 1 + rank))
    result = b.contract(
        image,
        [0, 1, loops, *walks],
        weights,
        [1, 2, loops, *kernel],
        [n, group, per_group, *window.sizes],
        loops + 1 + rank,
        element,
    )
    return b.reshape(result, [n, m, *window.sizes])


def kernel_of(b: Nodes, w: Tensor, kernel_shape: Sequence[int] | None) -> list[int]:
    """
    Returns the spatial sizes of weights. Raises `FrontendError` for dynamic sizes, and if they
    differ from `kernel_shape`.
    """
    sizes = w.sizes[2:]
    if kernel_shape is not None and list(kernel_shape) != list(sizes):
        b.refuse(
            f"kernel_shape is {list(kernel_shape)}, but the weights are {w}", "correct kernel_shape"
        )
    if not all(isinstance(s, int) for s in sizes):
        b.refuse("the kernel's size is dynamic", f"give it a size: {options_for(sizes)}")
    return [s for s in sizes if isinstance(s, int)]


def with_bias(b: Nodes, x: Tensor, bias: Tensor | None) -> Tensor:
    """Adds a bias of one number per channel to an image, if there is a bias."""
    if bias is None:
        return x
    spread = b.reshape(bias, [*bias.sizes, *[1] * (x.rank - 2)])
    return b.elementwise(lambda s, c, x: x + c, spread, x)


@operator("Conv")
def conv(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    window = window_of(b, x.sizes[2:], kernel_of(b, w, attributes.kernel_shape), attributes)
    return with_bias(b, convolve(b, x, w, window, attributes.group), bias)


# Pooling


def pooling_window(b: Nodes, x: Tensor, attributes: PoolAttributes) -> Window:
    """Makes the window of pooling over an image."""
    kernel, ceil_mode = attributes.kernel_shape, attributes.ceil_mode
    return window_of(b, x.sizes[2:], kernel, attributes, ceil_mode)


def _fold_windows(
    b: Nodes,
    image: Tensor,
    window: Window,
    starts: Sequence[tuple[float, Element]],
    body: Callable[..., Sequence[Number]],
) -> list[Tensor]:
    """Reduces each window with `body(s, element, accumulators)`, from the values `starts` on."""
    rank = len(window.kernel)
    walks = [window.position(i, 2 + i, 2 + rank + i) for i in range(rank)]
    sizes = [*image.sizes[:2], *window.sizes]
    return b.accumulate(body, starts, [(image, [0, 1, *walks])], sizes, window.kernel)


def _sum_windows(
    b: Nodes, x: Tensor, window: Window, of: Callable[[Scalars, Number], Number] | None = None
) -> Tensor:
    """Sums the elements of each window, or a function `of` them, in the accumulator's type."""
    element, term = sum_element(x.element), of or (lambda s, x: x)

    def write(s: Scalars, x: Number, total: Number) -> Sequence[Number]:
        return [total + term(s, x.to(element))]

    return _fold_windows(b, padded(b, x, window, 0), window, [(0, element)], write)[0]


@operator("MaxPool")
def max_pool(
    b: Nodes,
    x: Tensor,
    /,
    *,
    attributes: PoolAttributes,
    storage_order: int = 0,
) -> Sequence[Tensor]:
    window = pooling_window(b, x, attributes)
    start = x.element.least, x.element
    image = padded(b, x, window, start[0])
    (result,) = _fold_windows(b, image, window, [start], lambda s, x, m: [s.maximum(m, x)])
    if len(b.node.output) < 2 or not b.node.output[1]:
        return [result]
    return [result, _positions(b, x, image, window, bool(storage_order))]


def _positions(b: Nodes, x: Tensor, image: Tensor, window: Window, by_columns: bool) -> Tensor:
    """Returns the flat image index of the first maximum of each window."""
    rank = len(window.kernel)
    extents = [b.integer(size) for size in x.sizes]
    before = [b.integer(amount) for amount in window.low]

    def write(s: Scalars, x: Number, best: Number, at: Number) -> Sequence[Number]:
        places = [s.index(0), s.index(1)]
        inside: list[Number] = []
        for i in range(rank):
            place = s.index(2 + i) * window.strides[i]
            place = place + s.index(2 + rank + i) * window.dilations[i]
            place = place - Number(s, before[i], I64)
            inside.append((place >= 0) & (place < Number(s, extents[2 + i], I64)))
            places.append(place)
        order = [0, 1, *(reversed(range(2, 2 + rank)) if by_columns else range(2, 2 + rank))]
        number = places[order[0]]
        for axis in order[1:]:
            number = number * Number(s, extents[axis], I64) + places[axis]
        better = (x > best) | (at < 0)
        if x.element.is_float:
            better = (better | s.is_nan(x)) & best.equals(best)
        better = better & reduce(and_, inside)
        return [s.select(better, x, best), s.select(better, number, at)]

    starts = [(x.element.least, x.element), (-1, I64)]
    return _fold_windows(b, image, window, starts, write)[1]


@operator("AveragePool")
def average_pool(
    b: Nodes,
    x: Tensor,
    /,
    *,
    attributes: PoolAttributes,
    count_include_pad: int = 0,
) -> Tensor:
    window = pooling_window(b, x, attributes)
    total = _sum_windows(b, x, window)
    return b.convert(_by_counts(b, total, x, window, bool(count_include_pad)), x.element)


def _by_counts(b: Nodes, total: Tensor, x: Tensor, window: Window, with_padding: bool) -> Tensor:
    """
    Divides window sums by the number of elements in the windows of `x`. Elements of the padding
    count if `with_padding`.
    """
    plain = 1
    for i, size in enumerate(window.kernel):
        low = 0 if with_padding else window.low[i]
        high = window.beyond[i] if with_padding else window.high[i]
        if low == 0 and high == 0:
            plain *= size
            continue
        by = _counts(b, x.sizes[2 + i], window, i, with_padding, total.element)
        by = b.reshape(by, [window.sizes[i], *[1] * (len(window.kernel) - 1 - i)])
        total = b.elementwise(lambda s, n, x: x / n, by, total)
    return divided(b, total, plain) if plain != 1 else total


def _counts(
    b: Nodes, size: Size, window: Window, axis: int, with_padding: bool, element: Element
) -> Tensor:
    """Returns the number of elements of each window along an axis, with or without the padding."""
    count, before = window.sizes[axis], window.low[axis]
    end = size + (window.high[axis] - window.beyond[axis] if with_padding else 0)
    taps = range(0, window.kernel[axis] * window.dilations[axis], window.dilations[axis])
    if isinstance(count, int) and isinstance(before, int) and isinstance(end, int):
        places = np.arange(count)[:, None] * window.strides[axis] - before + np.array(taps)
        inside = (places >= (-before if with_padding else 0)) & (places < end)
        return Tensor.of(np.maximum(inside.sum(1), 1).astype(element.dtype))
    lowest, last = b.integer(before), b.integer(end)

    def body(s: Scalars) -> Number:
        number = s.number(0, element)
        for tap in taps:
            place = s.index(0) * window.strides[axis] + tap
            first = place - Number(s, lowest, I64)
            inside = (place if with_padding else first) >= 0
            inside = inside & (first < Number(s, last, I64))
            number = number + s.select(inside, s.number(1, element), 0)
        return s.maximum(number, 1)

    return b.mapped(body, [], [count], element)


@operator("LpPool")
def lp_pool(
    b: Nodes,
    x: Tensor,
    /,
    *,
    attributes: PoolAttributes,
    p: int = 2,
) -> Tensor:
    total = _sum_windows(b, x, pooling_window(b, x, attributes), lambda s, x: _power(s, x, p))
    return b.convert(b.elementwise(lambda s, x: _root(s, x, p), total), x.element)


WRITTEN_OUT = 8
"""Largest exponent of a power that is computed with products."""


def _power(s: Scalars, x: Number, p: int) -> Number:
    size = s.absolute(x)
    if p > WRITTEN_OUT:
        return s.binary(math.PowFOp, math.PowFOp, size, float(p))
    result = size
    for _ in range(p - 1):
        result = result * size
    return result


def _root(s: Scalars, x: Number, p: int) -> Number:
    if p == 1:
        return x
    if p == 2:
        return s.unary(math.SqrtOp, x)
    return s.binary(math.PowFOp, math.PowFOp, x, 1 / p)


@operator("GlobalAveragePool")
def global_average_pool(b: Nodes, x: Tensor, /) -> Tensor:
    axes = range(2, x.rank)
    mean = divided(b, summed(b, x, axes), prod(x.sizes[2:]))
    return b.convert(mean, x.element)


@operator("GlobalMaxPool")
def global_max_pool(b: Nodes, x: Tensor, /) -> Tensor:
    return maximum_over(b, x, range(2, x.rank), True)


@operator("GlobalLpPool")
def global_lp_pool(b: Nodes, x: Tensor, /, *, p: int = 2) -> Tensor:
    total = summed(b, x, range(2, x.rank), of=lambda s, x: _power(s, x, p))
    return b.convert(b.elementwise(lambda s, x: _root(s, x, p), total), x.element)


@operator("LRN")
def local_response_normalization(
    b: Nodes,
    x: Tensor,
    /,
    *,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Tensor:
    """Imports LRN: divides each element by a power of the sum of squares of adjacent channels."""
    squares = b.elementwise(lambda s, x: x * x, b.convert(x, sum_element(x.element)))
    before = (size - 1) // 2
    low, high = [0] * x.rank, [0] * x.rank
    low[1], high[1] = before, size - 1 - before
    image = b.pad(squares, low, high, 0)
    element = squares.element
    walks: list[Any] = list(range(x.rank))
    walks[1] = AffineDimExpr(1) + AffineDimExpr(x.rank)
    (total,) = b.accumulate(
        lambda s, x, t: [t + x], [(0, element)], [(image, walks)], x.sizes, [size]
    )

    def body(s: Scalars, t: Number, x: Number) -> Number:
        scaled = t * (alpha / size) + bias
        power = s.binary(math.PowFOp, math.PowFOp, scaled, beta)
        return (x.to(element) / power).to(x.element)

    return b.elementwise(body, total, x)


__all__ = ["F32", "Window", "conv", "convolve", "window_of"]
