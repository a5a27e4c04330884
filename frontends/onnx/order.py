"""Computes the order of elements along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.onnx.building import TensorBuilder
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import I32, I64, Tensor


def first_indices(b: TensorBuilder, x: Tensor, count: Size, axis: int, descending: bool) -> Tensor:
    """
    Returns the indices (i64) of the first `count` elements of the sorted axis.

    Equal elements keep their order; NaN is the greatest.
    """
    places = ranks(b, x, axis, descending)
    sizes = [count if i == axis else s for i, s in enumerate(x.sizes)]
    walked = [x.rank if i == axis else i for i in range(x.rank)]

    def write(s: Scalars, place: Number, held: Number) -> Sequence[Number]:
        mine = place.to(I64).equals(s.index(axis))
        # Exactly one element has this position, so the sum is its index.
        return [held + s.select(mine, s.index(x.rank), 0)]

    return b.accumulate(write, [(0, I64)], [(places, walked)], sizes)[0]


def ranks(b: TensorBuilder, x: Tensor, axis: int, descending: bool) -> Tensor:
    """Returns, for each element, the number of elements before it in the sorted axis, in i32."""
    other = [x.rank if i == axis else i for i in range(x.rank)]

    def write(s: Scalars, here: Number, there: Number, total: Number) -> Sequence[Number]:
        before = _comes_first(s, there, here, descending)
        same = ~before & ~_comes_first(s, here, there, descending)
        first = before | (same & (s.index(x.rank) < s.index(axis)))
        return [total + s.select(first, s.number(1, I32), 0)]

    return b.accumulate(write, [(0, I32)], [(x, range(x.rank)), (x, other)], x.sizes)[0]


def _comes_first(s: Scalars, a: Number, b: Number, descending: bool) -> Number:
    first = a > b if descending else a < b
    if not a.element.is_float:
        return first
    a_nan, b_nan = s.is_nan(a), s.is_nan(b)
    return (first | (a_nan & ~b_nan)) if descending else (first | (b_nan & ~a_nan))
