"""Imports operators that sample an image at fractional or data-dependent positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from operator import add, and_
from typing import Any

from xdsl.dialects import math

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.borders import held, is_inside
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT
from xdsl_spirv.frontends.onnx.operators.shapes import integers, sizes_in
from xdsl_spirv.frontends.onnx.operators.windows import StepAttributes, kernel_of, with_bias
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I32, I64, Element, Tensor, sum_element

FARTHEST = 2.0**30
"""
Maximum magnitude of positions. Larger ones are clamped, so that positions fit 32-bit integers.
"""


def parts(
    s: Scalars,
    image: Reader,
    outer: Sequence[Number],
    places: Sequence[Number],
    mode: str,
    border: str,
) -> list[Number]:
    """
    Returns the weighted elements around a position; their sum is the interpolated value.

    `outer` are the indices of batch and channel. `mode` is nearest, linear or cubic. `border` is
    "zeros", or the mode in which the function `held` moves positions into the image.
    """
    taps = [_taps(s, place, mode) for place in places]
    around: list[list[tuple[Number, Number | None, Number]]] = []
    for axis, (first, shares) in enumerate(taps):
        size = image.extent(s, len(outer) + axis).to(I32)
        walked = [first + k if k else first for k in range(len(shares))]
        where = "edge" if border == "zeros" else border
        around.append(
            [
                (held(s, p, size, where), share, is_inside(s, p, size))
                for p, share in zip(walked, shares, strict=True)
            ]
        )
    element = places[0].element
    result: list[Number] = []
    for corner in product(*around):
        value = image.read(s, [*outer, *(place for place, _, _ in corner)])
        if border == "zeros":
            value = s.select(reduce(and_, (here for *_, here in corner)), value, 0)
        for _, share, _ in corner:
            value = value if share is None else value.to(element) * share
        result.append(value)
    return result


def _taps(s: Scalars, place: Number, mode: str) -> tuple[Number, list[Number | None]]:
    """Returns the first index to read along an axis, and the weights of consecutive elements."""

    def whole(op: Any) -> Number:
        bounded = s.maximum(s.minimum(place, FARTHEST), -FARTHEST)
        return s.unary(op, bounded)

    if mode == "nearest":
        return whole(math.RoundEvenOp).to(I32), [None]
    below = whole(math.FloorOp)
    t = place - below
    if mode == "linear":
        return below.to(I32), [1 - t, t]
    shares: list[Number | None] = [_far(1 + t), _near(t), _near(1 - t), _far(2 - t)]
    return below.to(I32) - 1, shares


CUBIC = -0.75
"""Coefficient of the cubic interpolation."""


def _near(t: Number) -> Number:
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def _far(t: Number) -> Number:
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


@operator("GridSample")
def grid_sample(
    b: Nodes,
    x: Tensor,
    grid: Tensor,
    /,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    rank = x.rank - 2
    kind = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    borders = {"zeros": "zeros", "border": "edge"}
    borders["reflection"] = "reflect" if align_corners else "symmetric"
    if kind not in ("nearest", "linear", "cubic") or padding_mode not in borders:
        b.refuse(
            f"mode {mode!r} with padding_mode {padding_mode!r} is not supported",
            "use a mode of ONNX's GridSample",
        )
    if kind != "nearest" and not x.element.is_float:
        b.refuse(f"mode {mode!r} of {x.element} is not supported", "cast the image to float")
    if grid.sizes[-1] != rank:
        b.refuse(f"the last dimension of the grid {grid} must be {rank}", "correct the grid")
    image, wanted = Reader(b, x), Reader(b, grid)
    element = sum_element(grid.element)

    def body(s: Scalars) -> Number:
        here = [s.index(i) for i in range(x.rank)]
        places: list[Number] = []
        for axis in range(rank):
            # Coordinates are in reverse order of the spatial dimensions.
            number = s.number(rank - 1 - axis, I64)
            at = wanted.read(s, [here[0], *here[2:], number]).to(element) + 1
            size = image.extent(s, 2 + axis).to(element)
            places.append(at / 2 * (size - 1) if align_corners else (at * size - 1) / 2)
        terms = parts(s, image, here[:2], places, kind, borders[padding_mode])
        return reduce(add, terms).to(x.element)

    return b.mapped(body, [], [*x.sizes[:2], *grid.sizes[1:-1]], x.element)


# Regions of interest


@dataclass(frozen=True)
class Samples:
    """
    Sample positions within the parts of regions of interest.

    If the number of samples along an axis depends on the region, samples are at least half an
    element apart. This bounds the number of samples in the image.
    """

    image: Reader
    regions: Reader
    element: Element
    shift: float
    """Offset of the coordinates from the centre of the first element."""
    scale: float
    """Scale of image coordinates relative to region coordinates."""
    parts: tuple[int, int]
    """Number of parts of a region along each axis."""
    ratio: int
    """Number of samples along an axis of a region's part; 0 for one sample per element."""

    def along(self, s: Scalars, axis: int) -> tuple[Number, Number, Number, Number]:
        """
        Returns a sample's position, two flags (exists, is in the image), and the sample count.
        """
        region = s.index(0)
        start, end = (
            self.regions.read(s, [region, s.number(k, I64)]).to(self.element) * self.scale
            - self.shift
            for k in (1 - axis, 3 - axis)
        )
        length = end - start if self.shift else s.maximum(end - start, 1)
        part = length / self.parts[axis]
        first = start + s.index(2 + axis).to(self.element) * part
        count = s.number(self.ratio, self.element)
        number = s.index(4 + axis).to(self.element)
        if not self.ratio:
            count = s.unary(math.CeilOp, part)
            skipped = s.unary(math.FloorOp, (-1 - first) / (part / count) - 0.5) - 1
            number = number + s.maximum(s.select(skipped < count, skipped, 0), 0)
        size = self.image.extent(s, 2 + axis).to(self.element)
        place = first + (number + 0.5) * part / count
        inside = (place >= -1) & (place <= size)
        return s.maximum(s.minimum(place, size - 1), 0), number < count, inside, count


def _roi_align(
    b: Nodes,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    shift: float,
    mode: str,
    wanted: tuple[int, int],
    sampling_ratio: int,
    spatial_scale: float,
) -> Tensor:
    """
    Returns the mean or maximum (`mode`) of the samples in each part of each region.

    A region has `wanted` parts, and its image is given by `batch_indices`. The other arguments are
    the fields of `Samples`.
    """
    element = sum_element(x.element)
    image, batch = Reader(b, x), Reader(b, batch_indices)
    samples = Samples(image, Reader(b, rois), element, shift, spatial_scale, wanted, sampling_ratio)
    _, channels, height, width = x.sizes
    sizes = [rois.sizes[0], channels, *wanted]
    rounds: list[Size] = [sampling_ratio or s + 5 for s in (height, width)]

    def write(s: Scalars, held_: Number) -> Sequence[Number]:
        y, y_counts, y_inside, rows = samples.along(s, 0)
        x_, x_counts, x_inside, columns = samples.along(s, 1)
        counts, inside = y_counts & x_counts, y_inside & x_inside
        one = held(s, batch.read(s, [s.index(0)]).to(I64), image.extent(s, 0), "edge")
        terms = parts(s, image, [one, s.index(1)], [y, x_], "linear", "edge")
        if mode == "avg":
            mean = reduce(add, terms) / s.maximum(rows * columns, 1)
            return [held_ + s.select(counts & inside, mean, 0)]
        greatest = reduce(s.maximum, terms)
        is_first = s.index(4).equals(0) & s.index(5).equals(0)
        nothing = s.select(is_first, s.number(0, element), element.least)
        sample = s.select(inside, greatest, 0)
        return [s.maximum(held_, s.select(counts, sample, nothing))]

    start = 0 if mode == "avg" else element.least
    return b.convert(b.accumulate(write, [(start, element)], [], sizes, rounds)[0], x.element)


def _declare(since: int, default: str) -> None:
    shifts = {"half_pixel": 0.5, "output_half_pixel": 0.0}

    @operator("RoiAlign", since=since)
    def function(
        b: Nodes,
        x: Tensor,
        rois: Tensor,
        batch_indices: Tensor,
        /,
        *,
        coordinate_transformation_mode: str = default,
        mode: str = "avg",
        output_height: int = 1,
        output_width: int = 1,
        sampling_ratio: int = 0,
        spatial_scale: float = 1.0,
    ) -> Tensor:
        if coordinate_transformation_mode not in shifts or mode not in ("avg", "max"):
            b.refuse(
                f"mode {mode!r} with {coordinate_transformation_mode!r} is not supported",
                "use avg or max with half_pixel or output_half_pixel",
            )
        shift, wanted = shifts[coordinate_transformation_mode], (output_height, output_width)
        operands = x, rois, batch_indices
        return _roi_align(b, *operands, shift, mode, wanted, sampling_ratio, spatial_scale)

    del function


_declare(16, "half_pixel")
_declare(10, "output_half_pixel")


@operator("CropAndResize", domain=MICROSOFT)
def crop_and_resize(
    b: Nodes,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    crop_size: Tensor,
    /,
    *,
    mode: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Crops and resizes regions, with aligned corners of region and result as in TensorFlow."""
    if mode not in ("bilinear", "nearest"):
        b.refuse(f"mode {mode!r} is not supported", "use bilinear or nearest")
    kind = "linear" if mode == "bilinear" else mode
    image, regions, batch = Reader(b, x), Reader(b, rois), Reader(b, batch_indices)
    wanted, element = integers(b, crop_size, "crop_size"), sum_element(x.element)

    def place(s: Scalars, axis: int) -> Number:
        start, end = (
            regions.read(s, [s.index(0), s.number(k, I64)]).to(element) for k in (axis, axis + 2)
        )
        number, count = s.index(2 + axis).to(element), wanted[axis]
        last = (image.extent(s, 2 + axis) - 1).to(element)
        if count == 1:
            return (start + end) * 0.5 * last
        return start * last + number * ((end - start) * last / (count - 1))

    def body(s: Scalars) -> Number:
        places = [place(s, axis) for axis in range(2)]
        one = held(s, batch.read(s, [s.index(0)]).to(I64), image.extent(s, 0), "edge")
        # Rounds halves away from zero; negative positions are outside.
        near = [s.unary(math.FloorOp, at + 0.5) if kind == "nearest" else at for at in places]
        terms = parts(s, image, [one, s.index(1)], near, kind, "edge")
        for axis, at in enumerate(places):
            inside = (at >= 0) & (at <= (image.extent(s, 2 + axis) - 1).to(element))
            terms = [s.select(inside, reduce(add, terms), extrapolation_value)]
        return terms[0].to(x.element)

    return b.mapped(body, [], [rois.sizes[0], x.sizes[1], *wanted], x.element)


@operator("MaxRoiPool")
def max_roi_pool(
    b: Nodes,
    x: Tensor,
    rois: Tensor,
    /,
    *,
    pooled_shape: Sequence[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Returns the maximum of the elements in each part of each region; 0 for an empty part."""
    image, regions = Reader(b, x), Reader(b, rois)
    (_, channels, height, width), (rows, columns) = x.sizes, pooled_shape
    element = x.element

    def rounded(s: Scalars, place: Number) -> Number:
        """Rounds halves away from zero."""
        whole = s.unary(math.FloorOp, s.absolute(place) + 0.5)
        return s.select(place < 0, -whole, whole)

    def counts(s: Scalars, axis: int) -> Number:
        start, end = (
            rounded(s, regions.read(s, [s.index(0), s.number(k, I64)]) * spatial_scale)
            for k in (2 - axis, 4 - axis)
        )
        part = s.maximum(end - start + 1, 1) / pooled_shape[axis]
        number, place = s.index(2 + axis).to(element), s.index(4 + axis).to(element) - start
        first, last = (
            s.unary(math.FloorOp, number * part),
            s.unary(math.CeilOp, (number + 1) * part),
        )
        return (place >= first) & (place < last)

    def write(s: Scalars, best: Number, any_: Number) -> Sequence[Number]:
        one = regions.read(s, [s.index(0), s.number(0, I64)]).to(I32)
        one = held(s, one, image.extent(s, 0).to(I32), "edge")
        value = image.read(s, [one, s.index(1), s.index(4), s.index(5)])
        inside = counts(s, 0) & counts(s, 1)
        return [
            s.select(inside, s.maximum(best, value), best),
            s.maximum(any_, inside.to(I32)),
        ]

    starts = [(element.least, element), (0, I32)]
    sizes = [rois.sizes[0], channels, rows, columns]
    best, any_ = b.accumulate(write, starts, [], sizes, [height, width])
    return b.elementwise(lambda s, any_, x: s.select(any_ > 0, x, 0), any_, best)


# Convolution at positions from data


@operator("DeformConv")
def deform_conv(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    /,
    *,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    window: StepAttributes,
) -> Tensor:
    """Imports DeformConv: gathers the elements under the kernel, then contracts them."""
    kernel = kernel_of(b, w, kernel_shape)
    rank = len(kernel)
    n, channels = x.sizes[:2]
    m, depth = w.sizes[:2]
    per_offset, per_group = exact_quotient(channels, offset_group), exact_quotient(m, group)
    if not isinstance(per_offset, int) or per_group is None:
        b.refuse(
            f"{channels} channels do not divide into {offset_group} offset groups, or {m} outputs "
            f"into {group} groups",
            "use numbers of groups that divide the channels",
        )
    steps, apart, low = window.steps(rank), window.distances(rank), window.padding(rank)
    outputs = list(offset.sizes[2:])
    moved = Reader(b, b.reshape(offset, [n, offset_group, *kernel, rank, *outputs]))
    weighed = mask and Reader(b, b.reshape(mask, [n, offset_group, *kernel, *outputs]))
    image, element = Reader(b, x), sum_element(x.element)

    def body(s: Scalars) -> Number:
        here = [s.index(i) for i in range(2 + 2 * rank)]
        inside, outside = here[2 : 2 + rank], here[2 + rank :]
        of_group = [here[0], here[1] / per_offset, *inside]
        places: list[Number] = []
        for i in range(rank):
            place = outside[i] * steps[i] + inside[i] * apart[i] - low[i]
            by = moved.read(s, [*of_group, s.number(i, I64), *outside])
            places.append(place.to(element) + by.to(element))
        value = reduce(add, parts(s, image, here[:2], places, "linear", "zeros"))
        if weighed is not None:
            value = value * weighed.read(s, [*of_group, *outside]).to(element)
        return value.to(x.element)

    columns = b.mapped(body, [], [n, channels, *kernel, *outputs], x.element)
    columns = b.reshape(columns, [n, group, depth, *kernel, *outputs])
    weights = b.reshape(w, [group, per_group, depth, *w.sizes[2:]])
    first = 3 + rank
    inner = list(range(first, first + 1 + rank))
    result = b.contract(
        columns,
        [0, 1, *inner, *range(3, first)],
        weights,
        [1, 2, *inner],
        [n, group, per_group, *outputs],
        first + 1 + rank,
    )
    return with_bias(b, b.reshape(result, [n, m, *outputs]), bias)


# Inverses of windows


@operator("Col2Im")
def col2im(
    b: Nodes,
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    /,
    *,
    window: StepAttributes,
) -> Tensor:
    """Imports Col2Im: each element is the sum over the blocks that contain it."""
    image, block = sizes_in(b, image_shape, "sizes"), sizes_in(b, block_shape, "sizes")
    rank = len(block)
    steps, apart, low = window.steps(rank), window.distances(rank), window.padding(rank)
    counts = [
        (i + low[k] + low[rank + k] - (block[k] - 1) * apart[k] - 1) // steps[k] + 1
        for k, i in enumerate(image)
    ]
    channels = exact_quotient(x.sizes[1], prod(block))
    if channels is None:
        b.refuse(
            f"{x.sizes[1]} channels are not a multiple of a block's {block} elements",
            "correct block_shape",
        )
    source = Reader(b, b.reshape(x, [x.sizes[0], channels, *block, *counts]))
    element = sum_element(x.element)

    def body(s: Scalars, held_: Number) -> Sequence[Number]:
        inner = [s.index(2 + rank + k) for k in range(rank)]
        inside: list[Number] = []
        places: list[Number] = []
        for k in range(rank):
            from_start = s.index(2 + k) + low[k] - inner[k] * apart[k]
            size = source.extent(s, 2 + rank + k)
            number = from_start / steps[k]
            here = (from_start % steps[k]).equals(0) & is_inside(s, number, size)
            inside.append(here & (from_start >= 0))
            places.append(held(s, number, size, "edge"))
        value = source.read(s, [s.index(0), s.index(1), *inner, *places])
        return [held_ + s.select(reduce(and_, inside), value.to(element), 0)]

    sizes = [x.sizes[0], channels, *image]
    return b.convert(b.accumulate(body, [(0, element)], [], sizes, block)[0], x.element)


@operator("MaxUnpool")
def max_unpool(
    b: Nodes,
    x: Tensor,
    indices: Tensor,
    output_shape: Tensor | None = None,
    /,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Imports MaxUnpool: writes inputs to their indices; the last input of an index wins."""
    rank = len(kernel_shape)
    steps, around = list(strides or [1] * rank), list(pads or [0] * 2 * rank)
    count, channels, *lengths = x.sizes
    image = [
        (s - 1) * steps[i] - around[i] - around[rank + i] + kernel_shape[i]
        for i, s in enumerate(lengths)
    ]
    planes, taken = [count, channels, prod(lengths)], prod(image)
    values, places = Reader(b, b.reshape(x, planes)), Reader(b, b.reshape(indices, planes))
    size = b.integer(taken)

    def body(s: Scalars, held_: Number) -> Sequence[Number]:
        n, c, number = s.index(0), s.index(1), s.index(3)
        plane = n * values.extent(s, 1) + c
        here = plane * Number(s, size, I64) + s.index(2)
        mine = places.read(s, [n, c, number]).equals(here)
        return [s.select(mine, values.read(s, [n, c, number]), held_)]

    sizes = [count, channels, taken]
    (flat,) = b.accumulate(body, [(0, x.element)], [], sizes, planes[2:])
    result = b.reshape(flat, [count, channels, *image])
    if output_shape is None:
        return result
    wanted = sizes_in(b, output_shape, "sizes")
    more = [w - s for w, s in zip(wanted, result.sizes, strict=True)]
    numbers = [n for n in more if isinstance(n, int) and n >= 0]
    if len(numbers) != len(more):
        b.refuse(f"output_shape {wanted} is smaller than {result}", "give a larger output_shape")
    return b.pad(result, [0] * x.rank, numbers, 0)


@operator("AffineGrid", since=20)
def affine_grid(b: Nodes, theta: Tensor, size: Tensor, /, *, align_corners: int = 0) -> Tensor:
    """
    Imports AffineGrid: returns the sampling positions of an affine map, x first, from -1 to 1.

    If a dimension has one element and corners are aligned, the position is 0, as in PyTorch
    (ONNX's definition divides by 0).
    """
    batch, _, *extents = sizes_in(b, size, "sizes")
    rank = len(extents)
    sizes = [batch, *extents, rank]
    element = sum_element(theta.element)
    lengths = [b.integer(extent) for extent in extents]
    columns = [
        b.reshape(b.slice(theta, [0, 0, k], [batch, rank, 1]), [batch, rank])
        for k in range(rank + 1)
    ]

    def coordinate(s: Scalars, axis: int) -> Number:
        place, length = s.index(1 + axis).to(element), Number(s, lengths[axis], I64).to(element)
        if align_corners:
            return place * 2 / s.maximum(length - 1, 1) - s.minimum(length - 1, 1)
        return (place * 2 + 1) / length - 1

    def body(s: Scalars, *numbers: Number) -> Number:
        total = numbers[-1].to(element)
        for k, number in enumerate(numbers[:-1]):
            total = total + number.to(element) * coordinate(s, rank - 1 - k)
        return total.to(theta.element)

    inputs = [(column, [0, rank + 1]) for column in columns]
    return b.mapped(body, inputs, sizes, theta.element)
