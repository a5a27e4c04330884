"""Reads elements at computed indices, and selects one of several results by data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_, or_

from xdsl.dialects import tensor

from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I64, Tensor


class Reader:
    """Reads elements of a tensor at computed indices in a body."""

    def __init__(self, b: TensorBuilder, t: Tensor):
        self.value = b.value(t)
        self.element = t.element
        self.extents = [b.integer(size) for size in t.sizes]

    def extent(self, s: Scalars, axis: int) -> Number:
        return Number(s, self.extents[axis], I64)

    def wrapped(self, s: Scalars, place: Number, axis: int) -> Number:
        """Converts a negative index (counted from the end) to an index from the start."""
        wide = place.to(I64)
        return s.select(wide < 0, wide + self.extent(s, axis), wide)

    def read(self, s: Scalars, places: Sequence[Number]) -> Number:
        op = tensor.ExtractOp(self.value, [s.position(p) for p in places], self.element.type)
        s.builder.insert(op)
        return Number(s, op.results[0], self.element)

    def item(self, s: Scalars, number: int) -> Number:
        """Reads an element of a list, or the only element of a scalar tensor."""
        return self.read(s, [s.number(number, I64)] if self.extents else [])


def is_axis(number: Number, axis: int, rank: int) -> Number:
    """True if a possibly negative number means the axis."""
    return number.equals(axis) | number.equals(axis - rank)


def of_axis(
    s: Scalars, axes: Reader | None, count: int, axis: int, rank: int, items: Reader, start: Number
) -> Number:
    """
    Returns the number in the list `items` for an axis. `axes` holds the axis of each of the `count`
    items. Returns `start` if the axis has no item.
    """
    if axes is None:
        return items.item(s, axis).to(start.element) if axis < count else start
    result = start
    for number in range(count):
        named = is_axis(axes.item(s, number), axis, rank)
        result = s.select(named, items.item(s, number).to(start.element), result)
    return result


def choose(b: TensorBuilder, condition: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Selects one of two tensors of equal type by a condition with one element."""
    if new is old:
        return new
    if new.sizes != old.sizes or new.element != old.element:
        b.refuse(
            f"the branches give different results: {new} and {old}",
            "use branches of the same shape and type, or make the condition a constant: --constant",
        )
    scalar = b.reshape(condition, [])
    return b.elementwise(lambda s, c, x, y: s.select(c, x, y), scalar, new, old)


def gather_rows(b: TensorBuilder, t: Tensor, numbers: Tensor) -> Tensor:
    """Gathers slices of a tensor along its first dimension, by an array of indices."""
    source, rank = Reader(b, t), numbers.rank

    def read(s: Scalars, number: Number) -> Number:
        return source.read(s, [number, *map(s.index, range(rank, rank + t.rank - 1))])

    sizes = [*numbers.sizes, *t.sizes[1:]]
    return b.mapped(read, [(numbers, range(rank))], sizes, t.element)


def chosen_by_data(
    b: TensorBuilder,
    data: Tensor,
    possible: Sequence[Sequence[int]],
    rank: int | None,
    results: Sequence[Tensor],
) -> Tensor:
    """
    Selects the result whose entry of `possible` equals the data, or else the last result.

    If a rank is given, the data are axes: order does not matter, and they may be negative.
    """
    source = Reader(b, data)

    def is_given(s: Scalars, wanted: Sequence[int]) -> Number:
        items = [source.item(s, i) for i in range(len(wanted))]
        if rank is None:
            return reduce(and_, [a.equals(w) for a, w in zip(items, wanted, strict=True)])
        named = [reduce(or_, [is_axis(item, axis, rank) for item in items]) for axis in wanted]
        return reduce(and_, named)

    def body(s: Scalars, *numbers: Number) -> Number:
        result = numbers[-1]
        for number, wanted in zip(numbers[:-1], possible, strict=False):
            result = s.select(is_given(s, wanted), number, result)
        return result

    return b.elementwise(body, *results)
