"""Imports cumulative sums, updates of tensors, bit casts, determinants and inverses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith

from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.operators.borders import held, is_inside
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of, integers
from xdsl_spirv.frontends.onnx.reading import Reader
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, I32, Tensor, sum_element


def _fold_of(function: np.ufunc) -> Any:
    """Returns a fold function that accumulates arrays of numbers or sizes."""

    def fold(x: Any, axis: Any, exclusive: int = 0, reverse: int = 0) -> Any:
        along = int(np.asarray(axis).item())
        x = np.moveaxis(np.asarray(x), along, 0)[:: -1 if reverse else 1]
        total = function.accumulate(x, 0, x.dtype)
        if exclusive:
            first = np.full_like(x[:1], function.identity)
            total = np.concatenate([first, total])[: len(x)]
        return np.moveaxis(total[:: -1 if reverse else 1], 0, along)

    return fold


def _declare(
    name: str, start: int, combine: Callable[[Number, Number], Number], ufunc: np.ufunc
) -> None:
    @operator(name, fold=_fold_of(ufunc))
    def function(
        b: Nodes, x: Tensor, axis: Tensor, /, *, exclusive: int = 0, reverse: int = 0
    ) -> Tensor:
        """Imports CumSum or CumProd. Computes each element by its own reduction along the axis."""
        along = axis_of(b, integers(b, axis, "axis")[0], x.rank)
        element = sum_element(x.element)
        # The innermost loop iterates over the dimension.
        walked = [x.rank if i == along else i for i in range(x.rank)]

        def body(s: Scalars, x: Number, total: Number) -> Sequence[Number]:
            here, there = s.index(along), s.index(len(walked))
            if reverse:
                here, there = there, here
            counts = there < here if exclusive else there <= here
            return [s.select(counts, combine(total, x.to(element)), total)]

        result = b.accumulate(body, [(start, element)], [(x, walked)], x.sizes)[0]
        return b.convert(result, x.element)

    del function


_declare("CumSum", 0, lambda total, x: total + x, np.add)
_declare("CumProd", 1, lambda total, x: total * x, np.multiply)


@operator("TensorScatter")
def tensor_scatter(
    b: Nodes,
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    /,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """Imports TensorScatter: each element of the result is from the update or the old cache."""
    along = axis_of(b, axis, past_cache.rank)
    if along == 0 or mode not in ("linear", "circular"):
        b.refuse(
            f"mode {mode!r} with axis {axis} is not supported",
            "use mode linear or circular, and an axis other than 0",
        )
    if 0 in update.sizes:
        return past_cache
    new, first = Reader(b, update), write_indices and Reader(b, write_indices)

    def body(s: Scalars, old: Number) -> Number:
        places = [s.index(i) for i in range(past_cache.rank)]
        place = places[along]
        if first is not None:
            place = place - first.read(s, places[:1])
        if mode == "circular":
            place = held(s, place, cache.extent(s, along), "wrap")
        size = new.extent(s, along)
        places[along] = held(s, place, size, "edge")
        return s.select(is_inside(s, place, size), new.read(s, places), old)

    cache = Reader(b, past_cache)
    every = list(range(past_cache.rank))
    return b.mapped(body, [(past_cache, every)], past_cache.sizes, past_cache.element)


@operator("BitCast")
def bit_cast(b: Nodes, x: Tensor, /, *, to: int) -> Tensor:
    element = element_numbered(to)
    if len({8 if e.is_bool else e.bits for e in (x.element, element)}) > 1:
        b.refuse(
            f"{x.element} cannot be read as {element}: their sizes differ",
            "use a type of the same size",
        )
    if x.element.is_bool or element.is_bool:
        # A bool is a byte of 0 or 1.
        return b.convert(b.convert(x, BOOL), element)

    def body(s: Scalars, x: Number) -> Number:
        if x.element.type == element.type:
            return Number(s, x.value, element)
        op = arith.BitcastOp(x.value, element.type)  # pyright: ignore
        s.builder.insert(op)
        return Number(s, op.result, element)

    return b.elementwise(body, x, element=element)


LARGEST = 32
"""Maximum number of rows of a matrix for Det and Inverse, because loops are unrolled."""


@operator("Det")
def determinant(b: Nodes, x: Tensor, /) -> Tensor:
    """Computes determinants by Gaussian elimination with column pivots."""
    size, outer = _rows_of(b, x), x.rank - 2
    element = sum_element(x.element)
    rest, total = b.convert(x, element), None
    every = list(range(outer))
    for count in range(size, 0, -1):
        matrix, row = Reader(b, rest), _pivot(b, rest)

        def factor(s: Scalars, row: Number, matrix: Reader = matrix) -> Number:
            pivot = matrix.read(s, [*map(s.index, every), row, s.number(0, I32)])
            return s.select(row.equals(0), pivot, -pivot)

        step = b.mapped(factor, [(row, every)], x.sizes[:-2], element)
        total = step if total is None else b.elementwise(lambda s, x, y: x * y, total, step)
        if count == 1:
            break

        def eliminated(s: Scalars, row: Number, matrix: Reader = matrix) -> Number:
            here, zero = [s.index(i) for i in every], s.number(0, I32)
            # Swaps the first row and the pivot row.
            own, column = s.index(outer).to(I32) + 1, s.index(outer + 1).to(I32) + 1
            own = s.select(own.equals(row), 0, own)
            pivot = matrix.read(s, [*here, row, zero])
            share = matrix.read(s, [*here, own, zero]) / pivot
            share = s.select(pivot.equals(0), 0, share)
            return matrix.read(s, [*here, own, column]) - share * matrix.read(
                s, [*here, row, column]
            )

        sizes = [*x.sizes[:-2], count - 1, count - 1]
        rest = b.mapped(eliminated, [(row, every)], sizes, element)
    assert total is not None
    return b.convert(total, x.element)


@operator("Inverse", domain=MICROSOFT)
def inverse(b: Nodes, x: Tensor, /) -> Tensor:
    """Inverts matrices by Gauss-Jordan elimination with column pivots."""
    size, outer = _rows_of(b, x), x.rank - 2
    element, every = sum_element(x.element), list(range(outer))
    wide = Reader(b, b.convert(x, element))

    def beside_unit(s: Scalars) -> Number:
        row, column = s.index(outer).to(I32), s.index(outer + 1).to(I32)
        identity = s.select(column.equals(row + size), 1.0, s.number(0.0, element))
        place = s.select(column < size, column, 0)
        own = wide.read(s, [*map(s.index, every), row, place])
        return s.select(column < size, own, identity)

    rest = b.mapped(beside_unit, [], [*x.sizes[:-1], 2 * size], element)
    for step in range(size):
        below = b.part(rest, outer, step, size - step)
        matrix = Reader(b, rest)

        def eliminated(
            s: Scalars, below: Number, matrix: Reader = matrix, step: int = step
        ) -> Number:
            here, zero, pivot_row = [s.index(i) for i in every], s.number(0, I32), below + step
            row, column = s.index(outer).to(I32), s.index(outer + 1).to(I32) + 1
            # Swaps the pivot row and the row of this step.
            own = s.select(row.equals(pivot_row), s.number(step, I32), row)
            pivot = matrix.read(s, [*here, pivot_row, zero])
            divided = matrix.read(s, [*here, pivot_row, column]) / pivot
            rest = (
                matrix.read(s, [*here, own, column]) - matrix.read(s, [*here, own, zero]) * divided
            )
            return s.select(row.equals(step), divided, rest)

        sizes = [*x.sizes[:-1], rest.sizes[-1] - 1]
        rest = b.mapped(eliminated, [(_pivot(b, below), every)], sizes, element)
    return b.convert(rest, x.element)


def _rows_of(b: Nodes, x: Tensor) -> int:
    """Returns the number of rows of square matrices. Raises `FrontendError` for other shapes."""
    size = x.sizes[-1]
    if size != x.sizes[-2] or not isinstance(size, int) or not 1 <= size <= LARGEST:
        b.refuse(f"{x} is not a square matrix of up to {LARGEST} rows", "correct its shape")
    return size


def _pivot(b: Nodes, x: Tensor) -> Tensor:
    """Returns the row index (i32) of the element with the largest magnitude in the first column."""
    outer = x.rank - 2

    def body(s: Scalars, x: Number, best: Number, at: Number) -> Sequence[Number]:
        size = s.absolute(x)
        better = size > best
        return [s.select(better, size, best), s.select(better, s.index(outer).to(I32), at)]

    column = [(b.part(x, x.rank - 1, 0, 1), [*range(outer), outer, None])]
    return b.accumulate(body, [(-1, x.element), (0, I32)], column, x.sizes[:-2])[1]
