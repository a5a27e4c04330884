"""Imports padding and cropping operators, and computes values outside a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, least
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.shapes import axes_of, integers, sizes_in
from xdsl_spirv.frontends.onnx.reading import Reader, of_axis
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, I64, Tensor

BORDERS = ("edge", "reflect", "symmetric", "wrap")
"""
Modes that map an index outside a tensor to an index inside.

- `edge` takes the nearest element.
- `reflect` mirrors the tensor without repeating the edge element; `symmetric` repeats it.
- `wrap` repeats the tensor periodically.
"""


def held(s: Scalars, place: Number, size: Number, border: str) -> Number:
    """Maps any index to one of `size` elements, according to a mode of `BORDERS`."""
    if border == "edge":
        return s.maximum(s.minimum(place, size - 1), 0)
    if border == "wrap":
        return _rest(s, place, size)
    twice = border == "symmetric"
    period = size * 2 if twice else s.maximum((size - 1) * 2, 1)
    rest = _rest(s, place, period)
    return s.select(rest < size, rest, period - (1 if twice else 0) - rest)


def _rest(s: Scalars, place: Number, period: Number) -> Number:
    """Returns the remainder of a floor division."""
    rest = place % period
    return s.select(rest < 0, rest + period, rest)


def is_inside(s: Scalars, place: Number, size: Number) -> Number:
    return (place >= 0) & (place < size)


@operator("Pad")
def pad(
    b: Nodes,
    x: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
    /,
    *,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    """Imports Pad. Negative amounts first remove elements, then positive amounts add elements."""
    if mode not in ("constant", *BORDERS):
        b.refuse(f"mode {mode!r} is not supported", f"use constant, {', '.join(BORDERS)}")
    number = Tensor.of(_of_type(x, value)) if constant_value is None else constant_value
    if b.declared_result and any(t is not None and t.known is None for t in (pads, axes)):
        return _padded_by_data(b, x, pads, axes, number, mode, b.declared_result)
    amounts = sizes_in(b, pads, "pads")
    along = axes_of(b, integers(b, axes, "axes") if axes else range(x.rank), x.rank)
    if len(amounts) != 2 * len(along):
        b.refuse(
            f"there are {len(amounts)} pads for {len(along)} axes", "give two pads for each axis"
        )
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for place, axis in enumerate(along):
        low[axis], high[axis] = amounts[place], amounts[len(along) + place]
    return padded(b, x, low, high, number, mode)


def _of_type(x: Tensor, value: float):
    return x.element.dtype.type(value)


def padded(
    b: Nodes, x: Tensor, low: Sequence[Size], high: Sequence[Size], number: Tensor, mode: str
) -> Tensor:
    """Pads each axis by `low` and `high` elements; negative amounts remove elements."""
    before = [_negative(n) for n in low]
    sizes = [s - f - _negative(n) for s, f, n in zip(x.sizes, before, high, strict=True)]
    if any(isinstance(s, int) and s < 0 for s in sizes):
        b.refuse(f"more elements are removed than {x} has", "remove fewer elements")
    x = b.slice(x, before, sizes)
    low, high = ([n + _negative(n) for n in amounts] for amounts in (low, high))
    static = [n for n in (*low, *high) if isinstance(n, int)]
    if mode == "constant" and len(static) == 2 * x.rank and number.numbers is not None:
        return b.pad(x, static[: x.rank], static[x.rank :], number.numbers.item())
    wide = [a + s + c for a, s, c in zip(low, x.sizes, high, strict=True)]
    moved = [i for i in range(x.rank) if (low[i], high[i]) != (0, 0)]
    if 0 in x.sizes and mode == "constant":
        return b.expand(number, wide)
    if any(x.sizes[i] == 0 for i in moved):
        b.refuse(f"mode {mode} needs at least one element to read", "use the mode constant")
    source, first = Reader(b, x), [b.integer(n) for n in low]

    def body(s: Scalars, other: Number) -> Number:
        places = [s.index(i) for i in range(x.rank)]
        inside: Number | None = None
        for i in moved:
            size = source.extent(s, i)
            place = places[i] - Number(s, first[i], I64)
            here = is_inside(s, place, size)
            inside = here if inside is None else inside & here
            places[i] = held(s, place, size, "edge" if mode == "constant" else mode)
        element = source.read(s, places)
        return element if inside is None or mode != "constant" else s.select(inside, element, other)

    return b.mapped(body, [(number, [None] * number.rank)], wide, x.element)


def _padded_by_data(
    b: Nodes,
    x: Tensor,
    pads: Tensor,
    axes: Tensor | None,
    number: Tensor,
    mode: str,
    sizes: Sequence[int],
) -> Tensor:
    """Pads by amounts that are known only at run time, to a result of the given sizes."""
    count = x.rank if axes is None else axes.sizes[0]
    if len(sizes) != x.rank or not isinstance(count, int) or pads.sizes != (2 * count,):
        b.refuse(
            f"the pads {pads} do not fit the operand {x} and the declared sizes {list(sizes)}",
            "give two pads for each axis",
        )
    if 0 in x.sizes:
        b.refuse("pads of an empty tensor are computed when the model runs", "make them constants")
    source, first = Reader(b, x), Reader(b, b.slice(pads, [0], [count], [1]))
    behind, along = Reader(b, b.slice(pads, [count], [count], [1])), axes and Reader(b, axes)

    def body(s: Scalars, other: Number) -> Number:
        places: list[Number] = []
        inside = s.number(1, BOOL)
        for axis in range(x.rank):
            low, high = (
                of_axis(s, along, count, axis, x.rank, amounts, s.number(0, I64))
                for amounts in (first, behind)
            )
            # Negative amounts are applied before positive amounts.
            taken, extent = s.minimum(low, 0), source.extent(s, axis)
            size = s.maximum(extent + taken + s.minimum(high, 0), 1)
            place = s.index(axis) - s.maximum(low, 0)
            inside = inside & is_inside(s, place, size)
            place = held(s, place, size, "edge" if mode == "constant" else mode) - taken
            places.append(held(s, place, extent, "edge"))
        element = source.read(s, places)
        return s.select(inside, element, other) if mode == "constant" else element

    return b.mapped(body, [(number, [None] * number.rank)], sizes, x.element)


def _negative(n: Size) -> int:
    """Returns the number of elements that a padding amount removes; 0 for a dynamic amount."""
    return max(0, -n) if isinstance(n, int) else 0


@operator("CenterCropPad")
def center_crop_pad(
    b: Nodes, x: Tensor, shape: Tensor, /, *, axes: Sequence[int] | None = None
) -> Tensor:
    along = axes_of(b, list(axes) if axes is not None else range(x.rank), x.rank)
    wanted = dict(zip(along, sizes_in(b, shape, "sizes"), strict=True))
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for axis, new in wanted.items():
        size = x.sizes[axis]
        if not isinstance(new, int):
            b.refuse("the size of the result is dynamic", "give its dimensions: --dim")
        if not isinstance(size, int):
            # Pads to at least the new size, then crops the middle.
            lacks = new - least(size, new)
            low[axis], high[axis] = lacks // 2, lacks - lacks // 2
            continue
        more = new - size
        # An odd element is added or removed at the end.
        low[axis] = more // 2 if more > 0 else -(-more // 2)
        high[axis] = more - low[axis]
    x = padded(b, x, low, high, Tensor.of(_of_type(x, 0)), "constant")
    sizes = [wanted.get(i, size) for i, size in enumerate(x.sizes)]
    starts = [(s - w) // 2 for s, w in zip(x.sizes, sizes, strict=True)]
    return b.slice(x, starts, sizes)
