"""Imports operators that select elements by indices: gather, scatter, sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from operator import and_

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, surely_below
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of, checked, gather, sizes_in
from xdsl_spirv.frontends.onnx.order import first_indices
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, I32, I64, Chosen, Tensor


def _checked_places(b: Nodes, indices: Tensor, sizes: Sequence[Size]) -> None:
    """
    Raises `FrontendError` for known indices out of bounds. The last axis of `indices` holds index
    vectors.
    """
    if indices.numbers is not None:
        for k, size in enumerate(sizes[: indices.numbers.shape[-1]]):
            checked(b, Tensor.of(indices.numbers[..., k]), size)


@operator("GatherElements")
def gather_elements(b: Nodes, x: Tensor, indices: Tensor, /, *, axis: int = 0) -> Tensor:
    if not x.rank or indices.rank != x.rank:
        b.refuse(
            f"the indices {indices} and the data {x} differ in rank",
            "give data and indices the same rank",
        )
    axis = axis_of(b, axis, x.rank)
    checked(b, indices, x.sizes[axis])
    source = Reader(b, x)

    def body(s: Scalars, index: Number) -> Number:
        at = source.wrapped(s, index, axis)
        return source.read(s, [at if i == axis else s.index(i) for i in range(x.rank)])

    every = list(range(x.rank))
    return b.mapped(body, [(indices, every)], indices.sizes, x.element)


@operator("GatherND")
def gather_nd(b: Nodes, x: Tensor, indices: Tensor, /, *, batch_dims: int = 0) -> Tensor:
    depth = indices.sizes[-1]
    if not isinstance(depth, int):
        b.refuse("the number of indices is dynamic", "give it: --dim")
    outer = indices.rank - 1
    rest = x.sizes[batch_dims + depth :]
    sizes = [*indices.sizes[:-1], *rest]
    _checked_places(b, indices, x.sizes[batch_dims:])
    source, places = Reader(b, x), Reader(b, indices)

    def body(s: Scalars) -> Number:
        here = [s.index(i) for i in range(outer)]
        at = here[:batch_dims]
        for k in range(depth):
            index = places.read(s, [*here, s.number(k, I64)])
            at.append(source.wrapped(s, index, batch_dims + k))
        at += [s.index(outer + i) for i in range(len(rest))]
        return source.read(s, at)

    return b.mapped(body, [], sizes, x.element)


# Scatter: every element of the result searches for the updates with its index.

COMBINE: dict[str, Callable[[Scalars, Number, Number], Number]] = {
    "none": lambda s, old, new: new,
    "add": lambda s, old, new: old | new if old.element.is_bool else old + new,
    "mul": lambda s, old, new: old & new if old.element.is_bool else old * new,
    "max": lambda s, old, new: s.maximum(old, new),
    "min": lambda s, old, new: s.minimum(old, new),
}


@operator("ScatterElements", "Scatter")
def scatter_elements(
    b: Nodes,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    /,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> Tensor:
    """Returns x with updates at indices, in order. Without a reduction, the last update wins."""
    axis = axis_of(b, axis, x.rank)
    if reduction not in COMBINE:
        b.refuse(f"reduction {reduction!r} is not supported", f"use one of {', '.join(COMBINE)}")
    for size, other in zip(indices.sizes, updates.sizes, strict=True):
        if isinstance(size, int) and isinstance(other, int) and size != other:
            text = f"the indices are {indices}, but the updates are {updates}"
            b.refuse(text, "slice the updates to the shape of the indices")
        b.insist_equal(size, other)
    checked(b, indices, x.sizes[axis])
    combine = COMBINE[reduction]
    every = list(range(x.rank))
    # Along other axes, only the elements with indices change.
    changed = [x.sizes[i] if i == axis else indices.sizes[i] for i in every]
    if changed != list(x.sizes):
        part = b.slice(x, [0] * x.rank, changed)
        part = scatter_elements(b, part, indices, updates, axis=axis, reduction=reduction)
        whole = b.insert_slice(part, b.value(x), [0] * x.rank)  # pyright: ignore
        return Tensor(x.element, x.sizes, whole)
    # The innermost loop iterates over the updates along the axis.
    walked = [x.rank if i == axis else i for i in every]
    target = Reader(b, x)
    copy = b.value(b.elementwise(lambda s, x: x, x))

    def write(s: Scalars, index: Number, update: Number, held: Number) -> Sequence[Number]:
        mine = target.wrapped(s, index, axis).equals(s.index(axis))
        return [s.select(mine, combine(s, held, update), held)]

    operands = [(indices, walked), (updates, walked)]
    return b.accumulate(write, [(copy, x.element)], operands, x.sizes)[0]


@operator("ScatterND")
def scatter_nd(
    b: Nodes, x: Tensor, indices: Tensor, updates: Tensor, /, *, reduction: str = "none"
) -> Tensor:
    """Returns x with updates at indices, in order."""
    depth = indices.sizes[-1]
    if not isinstance(depth, int):
        b.refuse("the number of indices is dynamic", "give it: --dim")
    if reduction not in COMBINE:
        b.refuse(f"reduction {reduction!r} is not supported", f"use one of {', '.join(COMBINE)}")
    _checked_places(b, indices, x.sizes)
    combine = COMBINE[reduction]
    count = prod(indices.sizes[:-1])
    rest = x.sizes[depth:]
    places = b.reshape(indices, [count, depth])
    rows = b.reshape(updates, [count, *rest])
    target, read = Reader(b, x), Reader(b, places)
    copy = b.value(b.elementwise(lambda s, x: x, x))

    def write(s: Scalars, update: Number, held: Number) -> Sequence[Number]:
        row = s.index(x.rank)
        mine: list[Number] = []
        for k in range(depth):
            place = target.wrapped(s, read.read(s, [row, s.number(k, I64)]), k)
            mine.append(place.equals(s.index(k)))
        new = combine(s, held, update)
        return [s.select(reduce(and_, mine), new, held) if mine else new]

    walked = [x.rank, *range(depth, x.rank)]
    return b.accumulate(write, [(copy, x.element)], [(rows, walked)], x.sizes)[0]


# Order


@operator("TopK")
def top_k(
    b: Nodes,
    x: Tensor,
    k: Tensor,
    /,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> tuple[Tensor, Tensor]:
    """
    Imports TopK by computing the rank of each element.

    Among equal elements, the first comes first; NaN is the greatest. The work is quadratic in the
    size of the axis, but parallel.
    """
    axis = axis_of(b, axis, x.rank)
    count = sizes_in(b, k, "k")[0]
    if surely_below(x.sizes[axis], count):
        b.refuse(f"k is {count}, but the axis has {x.sizes[axis]} elements", "give a smaller k")
    b.insist_natural(x.sizes[axis] - count)
    sizes = [count if i == axis else s for i, s in enumerate(x.sizes)]
    every = list(range(x.rank))
    indices = first_indices(b, x, count, axis, bool(largest))
    source = Reader(b, x)

    def read(s: Scalars, index: Number) -> Number:
        return source.read(s, [index if i == axis else s.index(i) for i in every])

    return b.mapped(read, [(indices, every)], sizes, x.element), indices


# Masks


@operator("Trilu")
def trilu(b: Nodes, x: Tensor, k: Tensor | None = None, /, *, upper: int = 1) -> Tensor:
    offset = Tensor.of(np.array(0)) if k is None else b.reshape(k, [])
    row, column = x.rank - 2, x.rank - 1

    def body(s: Scalars, offset: Number, x: Number) -> Number:
        distance = s.index(column) - s.index(row)
        return s.select(distance >= offset if upper else distance <= offset, x, 0)

    return b.elementwise(body, offset, x)


@operator("EyeLike")
def eye_like(b: Nodes, x: Tensor, /, *, dtype: int | None = None, k: int = 0) -> Tensor:
    element = x.element if dtype is None else element_numbered(dtype)

    def body(s: Scalars) -> Number:
        return s.select((s.index(1) - s.index(0)).equals(k), s.number(1, element), 0)

    return b.mapped(body, [], x.sizes, element)


@operator("OneHot")
def one_hot(
    b: Nodes, indices: Tensor, depth: Tensor, values: Tensor, /, *, axis: int = -1
) -> Tensor:
    count = sizes_in(b, depth, "depth")[0]
    axis = axis_of(b, axis, indices.rank + 1)
    sizes = [*indices.sizes[:axis], count, *indices.sizes[axis:]]
    walked = [i for i in range(len(sizes)) if i != axis]
    read = Reader(b, values)
    end = b.integer(count)

    def body(s: Scalars, index: Number) -> Number:
        wide = index.to(I64)
        at = s.select(wide < 0, wide + Number(s, end, I64), wide)
        on = read.read(s, [s.number(1, I64)])
        return s.select(at.equals(s.index(axis)), on, read.read(s, [s.number(0, I64)]))

    return b.mapped(body, [(indices, walked)], sizes, values.element)


@operator("ReverseSequence")
def reverse_sequence(
    b: Nodes,
    x: Tensor,
    lengths: Tensor,
    /,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> Tensor:
    source = Reader(b, x)
    every = list(range(x.rank))

    def body(s: Scalars, length: Number) -> Number:
        time = s.index(time_axis)
        wide = length.to(I64)
        at = s.select(time < wide, wide - 1 - time, time)
        return source.read(s, [at if i == time_axis else s.index(i) for i in every])

    return b.mapped(body, [(lengths, [batch_axis])], x.sizes, x.element)


@operator("NonZero")
def non_zero(b: Nodes, x: Tensor, /) -> Tensor:
    """Imports NonZero. Returns a data-dependent list (`chosen`) unless the length is declared."""
    flat, declared = b.reshape(x, [prod(x.sizes)] if x.rank else [1]), b.declared_result
    rests = [b.integer(prod(x.sizes[axis + 1 :])) for axis in range(x.rank)]
    extents = [b.integer(size) for size in x.sizes]

    def place(s: Scalars) -> Number:
        result = s.number(0, I64)
        for axis, (rest, extent) in enumerate(zip(rests, extents, strict=True)):
            here = s.index(1) / Number(s, rest, I64) % Number(s, extent, I64)
            result = s.select(s.index(0).equals(axis), here, result)
        return result

    places = b.mapped(place, [], [x.rank, *flat.sizes], I64)
    if x.progression is not None and x.progression[1] == 0 and x.progression[0] != 0:
        return places
    mask = b.elementwise(lambda s, x: x.differs(0), flat, element=BOOL)
    if declared is not None and len(declared) == 2 and flat.sizes[0] != 0:
        return gather(b, places, _places_of_true(b, mask, declared[1]), axis=1)  # pyright: ignore
    return Chosen(places, 1, mask)


@operator("Compress")
def compress(b: Nodes, x: Tensor, condition: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Imports Compress. Returns a data-dependent list (`chosen`) unless the length is known."""
    known, sizes, count = condition.numbers, b.declared_result, condition.sizes[0]
    if axis is None:
        x, axis = b.reshape(x, [prod(x.sizes)]), 0
    fits = count == x.sizes[axis] or surely_below(count, x.sizes[axis])
    if known is not None:
        size = x.sizes[axis]
        inside = known[:size] if isinstance(size, int) else known
        places = Tensor.of(np.flatnonzero(inside).astype(np.int64))
    elif sizes is not None and len(sizes) == x.rank and x.sizes[axis] != 0 and fits:
        places = _places_of_true(b, condition, sizes[axis])
    else:
        # Elements beyond a short condition are not selected.
        part = [count if fits and i == axis else size for i, size in enumerate(x.sizes)]
        b.insist_natural(x.sizes[axis] - count)
        return Chosen(b.slice(x, [0] * x.rank, part), axis, condition)
    return gather(b, x, places, axis=axis)  # pyright: ignore


def _places_of_true(b: Nodes, condition: Tensor, count: int) -> Tensor:
    """Returns the indices of the first `count` true elements; missing indices are 0."""

    def body(s: Scalars, true: Number, passed: Number, place: Number) -> Sequence[Number]:
        here = true & passed.equals(s.index(0).to(I32))
        return [passed + true.to(I32), s.select(here, s.index(1).to(I32), place)]

    return b.accumulate(body, [(0, I32)] * 2, [(condition, [1])], [count])[1]


@operator("Unique")
def unique(
    b: Nodes, x: Tensor, /, *, axis: int | None = None, sorted: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Imports Unique of known data: distinct elements or slices, sorted or by first index."""
    known = x.numbers
    if known is None:
        b.refuse(
            "the size of the result depends on data",
            "make the operand a constant, or cut the model before this node",
        )
    along = None if axis is None else axis_of(b, axis, x.rank)
    once, first, inverse, counts = np.unique(known, True, True, True, axis=along)
    if not sorted:
        order = np.argsort(first)
        once, first, counts = np.take(once, order, along or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse.ravel()]
    places = (np.asarray(a.ravel(), np.int64) for a in (first, inverse, counts))
    return (Tensor.of(np.ascontiguousarray(once)), *map(Tensor.of, places))  # pyright: ignore
