"""Imports operators that resample images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axes_of, sizes_in
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I64, Array, Element, Tensor, sum_element

Factor: TypeAlias = "float | Callable[[Scalars], Number] | None"
"""A scale: a number, a function that computes it at run time, or None if dynamic sizes give it."""


CROP = "tf_crop_and_resize"
COORDINATES = (
    *("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"),
    *("tf_half_pixel_for_nn", CROP),
)


class Arrays:
    """An implementation of some methods of `Scalars` that computes with arrays in f32."""

    select, minimum, maximum, absolute = np.where, np.minimum, np.maximum, np.abs

    @staticmethod
    def number(value: float, element: Element) -> Any:
        return element.dtype.type(value)

    @staticmethod
    def unary(op: type[Operation], x: Array) -> Array:
        return np.floor(x) if op is math.FloorOp else np.ceil(x)


@dataclass(frozen=True)
class Filter:
    """A resampling filter."""

    mode: str
    """Interpolation: nearest, linear or cubic."""
    rounding: str
    """Rounding mode of the nearest element."""
    cubic: float
    """Coefficient of the cubic weights."""
    antialias: bool
    """True if the filter is widened when an image becomes smaller."""
    exclude: bool
    """True if elements outside the image have weight 0."""

    def count(self, scale: float) -> int:
        """
        Returns the number of source elements that contribute to a new element, where `scale` is the
        smallest scale that is possible at run time.
        """
        reach = (1 if self.mode == "linear" else 2) / (min(scale, 1.0) if self.antialias else 1.0)
        return 2 * int(np.ceil(reach))


@dataclass(frozen=True)
class Resampling:
    """Options for resizing a tensor along axes."""

    filter: Filter
    coordinates: str
    """Mode that maps coordinates of the new image to the old image."""
    roi: Tensor | None
    """Region to crop: its starts along all axes, then its ends."""
    elsewhere: float
    """Value of elements outside the image, for cropping."""
    count: int
    """Number of axes of the region to crop."""

    @property
    def crops(self) -> bool:
        return self.coordinates == CROP

    def along(
        self, b: Nodes, x: Tensor, number: int, axis: int, new: Size, scale: Factor
    ) -> Tensor | int:
        """
        Resizes an axis to the size `new`, and returns the tensor. If elements are only repeated,
        returns the number of repetitions instead.

        `number` is the axis' number in the region to crop.
        """
        size = x.sizes[axis]
        if self.filter.mode not in ("nearest", "linear", "cubic"):
            b.refuse(f"mode {self.filter.mode!r} is not supported", "use nearest, linear or cubic")
        if self.coordinates not in COORDINATES:
            b.refuse(
                f"coordinate_transformation_mode {self.coordinates!r} is not supported",
                "use half_pixel or asymmetric",
            )
        moves = self.crops and self.roi is not None and self.roi.known is None
        if moves or not (
            isinstance(size, int) and isinstance(new, int) and isinstance(scale, float)
        ):
            crop = (Reader(b, self.roi), number, self.count) if self.crops and self.roi else None
            return _compute_axis(b, x, axis, new, scale, self, crop)
        with np.errstate(all="ignore"):
            places = self._known_places(number, size, new, scale)
            # The weights are computed in f64.
            exact = places if self.filter.mode == "nearest" else places.astype(np.float64)
            taps = _taps(Arrays, exact, size, scale, self.filter.count(scale), self.filter)
        taken = np.stack([np.clip(place, 0, size - 1) for place, _ in taps], 1).astype(np.int64)
        if taken.shape[1] == 1 and size and not self.crops:
            times = new // size
            if np.array_equal(taken[:, 0], np.repeat(np.arange(size), times)):
                return times
        outside = (places < 0) | (places > size - 1) if self.crops else None
        shares = [share for _, share in taps if share is not None]
        return _mix_elements(b, x, axis, taken, shares, outside, self.elsewhere)

    def _known_places(self, number: int, size: int, new: int, scale: float) -> Array:
        """Returns the coordinate in the old image of each new element along an axis."""
        # f32 as in other implementations, so that ties between elements are the same.
        at, old, count = np.arange(new, dtype=np.float32), np.float32(size), np.float32(new)
        if self.crops:
            return _crop_place(Arrays, self._ends(number), at, old - 1, count - 1)
        # Computed in f64, so that a ratio of sizes times the size is exact.
        length = np.float32(scale * size)
        return _place(Arrays, at, old, count, scale, self.coordinates, length)

    def _ends(self, number: int) -> tuple[float, float]:
        """Returns start and end of the region along an axis, as fractions of its length."""
        corners = None if self.roi is None else self.roi.numbers
        if corners is None or not corners.size:
            return 0.0, 1.0
        return float(corners[number]), float(corners[self.count + number])


@operator("Resize", since=11)
def resize(
    b: Nodes,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    /,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """
    Imports Resize, one axis after another.

    Source elements and weights are constants if they depend only on static sizes. Otherwise the
    body computes them for each new element.
    """
    along = axes_of(b, list(axes) if axes is not None else range(x.rank), x.rank)
    wanted, factors = _sizes(b, x, along, scales, sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == CROP
    if crops and roi is None:
        b.refuse("roi is missing", "give the region to crop")
    # Weighted elements are summed in floats. Only integers with antialias are rounded after each
    # axis.
    element = x.element
    if mode != "nearest":
        element = sum_element(x.element) if x.element.is_float else F32
    rounds = antialias and not x.element.is_float
    shares = Filter(mode, nearest_mode, cubic_coeff_a, bool(antialias), bool(exclude_outside))
    resampling = Resampling(
        shares, coordinate_transformation_mode, roi, extrapolation_value, len(along)
    )
    result = b.convert(x, element)
    repeats: dict[int, int] = {}
    for number, axis in reversed(list(enumerate(along))):
        new, scale = wanted[number], factors[number]
        if scale == 1 and new == x.sizes[axis] and not crops:
            continue
        resampled = resampling.along(b, result, number, axis, new, scale)
        if isinstance(resampled, int):
            repeats[axis] = resampled
            continue
        result = resampled
        if rounds:
            result = b.elementwise(lambda s, x: s.unary(math.FloorOp, x + 0.5), result)
    result = repeat_elements(b, result, repeats)
    if element.is_float == x.element.is_float:
        return b.convert(result, x.element)
    low, high = float(x.element.least), float(x.element.greatest)

    def whole_number(s: Scalars, x_: Number) -> Number:
        x_ = s.unary(math.RoundEvenOp, x_) if mode == "cubic" else x_
        return s.maximum(s.minimum(x_, high), low).to(x.element)

    return b.elementwise(whole_number, result, element=x.element)


def repeat_elements(b: Nodes, x: Tensor, times: Mapping[int, int]) -> Tensor:
    """Repeats each element along some axes with one broadcast."""
    if not times:
        return x
    apart: list[Size] = []
    spread: list[Size] = []
    for axis, size in enumerate(x.sizes):
        apart += [size, 1] if axis in times else [size]
        spread += [size, times[axis]] if axis in times else [size]
    whole = [size * times.get(axis, 1) for axis, size in enumerate(x.sizes)]
    return b.reshape(b.expand(b.reshape(x, apart), spread), whole)


@operator("Resize", since=10)
def resize_10(b: Nodes, x: Tensor, scales: Tensor, /, *, mode: str = "nearest") -> Tensor:
    """
    Imports Resize of opset 10: coordinates are divided by the scale; nearest rounds up if the
    image shrinks.
    """
    return resize(  # pyright: ignore
        b,
        x,
        None,
        scales,
        None,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="by scale",
    )


@operator("Upsample", since=7)
def upsample(b: Nodes, x: Tensor, scales: Tensor, /, *, mode: str = "nearest") -> Tensor:
    return resize_10(b, x, scales, mode=mode)  # pyright: ignore


def _sizes(
    b: Nodes,
    x: Tensor,
    along: Sequence[int],
    scales: Tensor | None,
    sizes: Tensor | None,
    policy: str,
) -> tuple[Sequence[Size], Sequence[Factor]]:
    """Returns the new sizes along axes, and the scales for coordinates."""
    declared = b.declared_result
    given = sizes if sizes is not None and sizes.sizes != (0,) else scales
    if declared is not None and given is not None and given.known is None:
        return [declared[i] for i in along], _factors_of_data(b, x, along, given, policy)
    if sizes is not None and sizes.sizes != (0,):
        wanted = sizes_in(b, sizes, "sizes")
        old = [x.sizes[i] for i in along]
        if policy != "stretch":
            numbers = [s for s in (*old, *wanted) if isinstance(s, int)]
            if len(numbers) != 2 * len(along):
                b.refuse(
                    "an aspect ratio cannot be kept, because a size is dynamic", "give it: --dim"
                )
            ratios = [w / o for w, o in zip(numbers[len(along) :], numbers, strict=False)]
            scale = min(ratios) if policy == "not_larger" else max(ratios)
            return [int(np.floor(o * scale + 0.5)) for o in numbers[: len(along)]], [scale] * len(
                along
            )
        factors = [
            w / o if isinstance(w, int) and isinstance(o, int) else 1.0 if w == o else _ratio(w, o)
            for w, o in zip(wanted, old, strict=True)
        ]
        return wanted, factors
    if scales is None or scales.numbers is None:
        b.refuse("scales are computed when the model runs", "make them constants")
    known = [float(f) for f in scales.numbers.ravel()]
    return [_scale_size(x.sizes[i], f) for i, f in zip(along, known, strict=True)], [*known]


def _factors_of_data(
    b: Nodes, x: Tensor, along: Sequence[int], given: Tensor, policy: str
) -> list[Factor]:
    """
    Returns the scales of the axes `along`, which are computed at run time from a tensor of scales
    or of sizes. `policy` tells how sizes keep the aspect ratio.
    """
    if 0 in x.sizes or given.sizes != (len(along),):
        b.refuse(f"the factors {given} do not fit {x}", "give a factor or a size for each axis")
    source, image = Reader(b, given), Reader(b, x)

    def factor(number: int, s: Scalars) -> Number:
        if given.element.is_float:
            return source.item(s, number)
        ratios = [
            source.item(s, i).to(F32) / image.extent(s, axis).to(F32)
            for i, axis in enumerate(along)
        ]
        return reduce(s.minimum if policy == "not_larger" else s.maximum, ratios)

    return [partial(factor, number) for number in range(len(along))]


def _scale_size(size: Size, factor: float) -> Size:
    """Multiplies a size by a factor in f32, and rounds down."""
    if isinstance(size, int):
        return int(np.floor(np.float32(size) * np.float32(factor)))
    ratio = Fraction(factor).limit_denominator(1000)
    if np.float32(float(ratio)) != np.float32(factor):
        ratio = Fraction(factor)
    return size * ratio.numerator // ratio.denominator


def _ratio(new: Size, old: Size) -> float | None:
    """Returns the ratio of dynamic sizes if it or its inverse is an integer up to 64, or None."""
    for factor in range(1, 65):
        if new == old * factor:
            return float(factor)
        if new == old // factor:
            return 1 / factor
    return None


def _place(s: Any, at: Any, old: Any, count: Any, scale: Any, mode: str, length: Any = None) -> Any:
    """
    Returns the coordinate in the old image of the new element `at`, as a number or an array.

    `old` and `count` are the sizes of the images. `length` is the old size times the scale.
    """
    # Like other implementations, divides, so that integer coordinates are exact.
    factor = count / old if scale is None else s.number(scale, F32)
    middle = (at + 0.5) / factor - 0.5
    if length is None:
        length = count if scale is None else old * scale
    match mode:
        case "asymmetric":
            return at / factor
        case "tf_half_pixel_for_nn":
            return (at + 0.5) / factor
        case "align_corners":
            return s.select(length > 1, at * (old - 1) / (length - 1), 0)
        case "pytorch_half_pixel":
            return s.select(count > 1, middle, 0)
        case "half_pixel_symmetric":
            return old * 0.5 * (1 - count / length) + (at + 0.5) / factor - 0.5
        case _:
            return middle


def _crop_place(s: Any, ends: Sequence[Any], at: Any, last: Any, steps: Any) -> Any:
    """
    Returns the coordinate in the old image for an element of the resized crop.

    `ends` are start and end of the crop as fractions. `last` and `steps` are the sizes of the old
    image and of the crop, minus 1.
    """
    start, end = ends
    spread = start * last + at * (end - start) * last / s.maximum(steps, 1)
    return s.select(steps > 0, spread, (start + end) * 0.5 * last)


def _compute_axis(
    b: Nodes,
    x: Tensor,
    axis: int,
    new: Size,
    scale: Factor,
    resampling: Resampling,
    roi: tuple[Reader, int, int] | None,
) -> Tensor:
    """
    Resizes an axis to the size `new`. Its coordinates are computed at run time.

    `roi` is the region to crop: a reader of its corners, the index of the axis' start, and the
    distance from start to end.
    """
    shares = resampling.filter
    source, count, size = Reader(b, x), b.integer(new), x.sizes[axis]
    # A lower bound of the scale.
    least_factor = 1.0
    if isinstance(scale, float):
        least_factor = min(scale, 1.0)
    elif shares.antialias and isinstance(size, int) and isinstance(new, int):
        least_factor = min(max(new - 0.5, 0.5) / size, 1.0)
    elif shares.antialias:
        b.refuse("antialias needs static sizes of the image", "give its dimensions: --dim")
    sizes = [new if i == axis else s for i, s in enumerate(x.sizes)]

    def body(s: Scalars) -> Number:
        extent, length = source.extent(s, axis), Number(s, count, I64)
        factor = scale(s) if callable(scale) else scale
        if roi is None:
            at, old, whole = s.index(axis).to(F32), extent.to(F32), length.to(F32)
            place = _place(s, at, old, whole, factor, resampling.coordinates)
        else:
            corners, first, more = roi
            ends = tuple(corners.item(s, k).to(F32) for k in (first, first + more))
            at, last, steps = s.index(axis).to(F32), extent.to(F32) - 1, length.to(F32) - 1
            place = _crop_place(s, ends, at, last, steps)

        def read(position: Number) -> Number:
            held = s.minimum(s.maximum(position.to(I64), 0), extent - 1)
            return source.read(s, [held if i == axis else s.index(i) for i in range(x.rank)])

        taps = _taps(s, place, extent.to(F32), factor, shares.count(least_factor), shares)
        terms = [read(p) if share is None else read(p) * share.to(x.element) for p, share in taps]
        result = reduce(add, terms)
        if roi is None:
            return result
        outside = (place < 0) | (place > extent.to(F32) - 1)
        return s.select(outside, resampling.elsewhere, result)

    return b.mapped(body, [], sizes, x.element)


def _taps(
    s: Any, place: Any, size: Any, scale: Any, count: int, filter: Filter
) -> list[tuple[Any, Any]]:
    """
    Returns (index of a source element, weight) pairs for the coordinate `place`. The weight of the
    nearest element is None.
    """
    below = s.unary(math.FloorOp, place)
    if filter.mode == "nearest":
        above = s.unary(math.CeilOp, place)

        def by_scale() -> Any:
            if isinstance(scale, Number):
                return s.select(scale < 1, above, below)
            return above if scale is not None and scale < 1 else below

        nearest = {
            "by scale": by_scale,
            "floor": lambda: below,
            "ceil": lambda: above,
            "round_prefer_floor": lambda: s.unary(math.CeilOp, place - 0.5),
            "round_prefer_ceil": lambda: s.unary(math.FloorOp, place + 0.5),
        }[filter.rounding]()
        return [(nearest, None)]
    if filter.mode == "linear" and not filter.antialias and not filter.exclude:
        share = place - below
        return [(below, 1 - share), (below + 1, share)]
    stretch = s.number(1 if scale is None or not filter.antialias else scale, F32)
    stretch = s.minimum(stretch, 1)
    positions = [below + (k - count // 2 + 1) for k in range(count)]
    shares: list[Any] = []
    for position in positions:
        distance = s.absolute(position - place) * stretch
        share = (
            s.maximum(1 - distance, 0)
            if filter.mode == "linear"
            else _cubic(s, distance, filter.cubic)
        )
        inside = (position >= 0) & (position < size)
        shares.append(s.select(inside, share, 0) if filter.exclude else share)
    if filter.exclude or filter.antialias:
        whole = reduce(add, shares)
        shares = [share / whole for share in shares]
    return list(zip(positions, shares, strict=True))


def _cubic(s: Any, x: Any, a: float) -> Any:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return s.select(x <= 1, near, s.select(x < 2, far, 0))


def _mix_elements(
    b: Nodes,
    x: Tensor,
    axis: int,
    taken: Array,
    shares: Sequence[Array],
    outside: Array | None,
    elsewhere: float,
) -> Tensor:
    """
    Computes new elements along an axis as weighted sums of source elements.

    `taken` (new elements x taps) holds source indices, and `shares` the weights of each tap. New
    elements that are `outside` have the value `elsewhere`.
    """
    source = Reader(b, x)
    count, taps = taken.shape
    sizes: list[Size] = [count if i == axis else s for i, s in enumerate(x.sizes)]
    inputs: list[tuple[Tensor, Any]] = [
        (Tensor.of(np.ascontiguousarray(taken[:, k])), [axis]) for k in range(taps)
    ]
    whole = not shares
    inputs += [(Tensor.of(share.astype(x.element.dtype)), [axis]) for share in shares]
    if outside is not None:
        inputs.append((Tensor.of(outside), [axis]))

    def body(s: Scalars, *numbers: Number) -> Number:
        values = [
            source.read(s, [at if i == axis else s.index(i) for i in range(x.rank)])
            for at in numbers[:taps]
        ]
        result = values[0]
        if not whole:
            result = values[0] * numbers[taps]
            for value, share in zip(values[1:], numbers[taps + 1 : 2 * taps], strict=True):
                result = result + value * share
        if outside is not None:
            result = s.select(numbers[-1], elsewhere, result)
        return result

    return b.mapped(body, inputs, sizes, x.element)
