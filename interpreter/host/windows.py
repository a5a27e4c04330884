"""
Views an operand over the loops of its index map by strides, without copying windows.

An index `d0 * 2 + d3` becomes two dimensions of the view: one for d0 with twice the stride of the
operand's dimension, and one for d3 with the stride itself. Maps that divide or take remainders have
no such view.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from xdsl_spirv.interpreter.numbers import Array


def linear(expr: AffineExpr) -> tuple[dict[int, int], int] | None:
    """
    Splits a linear expression. Returns a table from the number of a loop to its factor, and the
    constant term. Returns None if the expression is not linear.
    """
    match expr:
        case AffineDimExpr():
            return {expr.position: 1}, 0
        case AffineConstantExpr():
            return {}, expr.value
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            a, b = linear(expr.lhs), linear(expr.rhs)
            if a is None or b is None:
                return None
            return {d: a[0].get(d, 0) + b[0].get(d, 0) for d in {*a[0], *b[0]}}, a[1] + b[1]
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            a, b = linear(expr.lhs), linear(expr.rhs)
            if a is None or b is None or (a[0] and b[0]):
                return None
            (factors, constant), by = (b, a[1]) if b[0] else (a, b[1])
            return {d: f * by for d, f in factors.items()}, constant * by
        case _:
            return None


def windows(operand: Array, map: AffineMap, sizes: Sequence[int]) -> tuple[Array, list[int]] | None:
    """
    Returns a view of `operand` with one dimension for each loop in its map, and the list of these
    loops.

    Returns None if there is no such view, or if the view would reach beyond the operand.
    """
    strides: dict[int, int] = {}
    offset = 0
    for expr, stride, size in zip(map.results, operand.strides, operand.shape, strict=True):
        terms = linear(expr)
        if terms is None:
            return None
        factors, constant = terms
        reach = [(sizes[loop] - 1) * factor for loop, factor in factors.items()]
        low = constant + sum(r for r in reach if r < 0)
        high = constant + sum(r for r in reach if r > 0)
        if low < 0 or high >= size or any(sizes[loop] == 0 for loop in factors):
            return None
        offset += constant * stride
        for loop, factor in factors.items():
            strides[loop] = strides.get(loop, 0) + factor * stride
    loops = sorted(strides)
    flat = np.ascontiguousarray(operand).reshape(-1)
    if not operand.flags.c_contiguous:
        return windows(flat.reshape(operand.shape), map, sizes)
    start = flat[offset // operand.itemsize :]
    shape = [sizes[loop] for loop in loops]
    return as_strided(start, shape, [strides[loop] for loop in loops], writeable=False), loops


def sum_of_products(
    a: Array, b: Array, maps: Sequence[AffineMap], sizes: Sequence[int], out: Sequence[int]
) -> Array | None:
    """
    Sums a * b over the loops that are not in `out`. Works on one slice of the largest loop at a
    time.

    Returns None if an operand has no view over its loops.
    """
    first, second = windows(a, maps[0], sizes), windows(b, maps[1], sizes)
    if first is None or second is None or not {*first[1], *second[1]} >= {*out}:
        return None
    result = np.empty([sizes[loop] for loop in out], a.dtype)
    cut = max(out, key=lambda loop: sizes[loop], default=None)
    points = max(first[0].size, second[0].size)
    if cut is None or points <= MAX_POINTS:
        result[...] = _einsum(first, second, out)
        return result
    step = max(1, sizes[cut] * MAX_POINTS // points)
    for start in range(0, sizes[cut], step):
        part = slice(start, start + step)
        pieces = [_part(view, cut, part) for view in (first, second)]
        result[_index(out, cut, part)] = _einsum(pieces[0], pieces[1], out)
    return result


MAX_POINTS = 1 << 23
"""Maximum number of elements of an operand's windows that are in memory at once."""


def _index(loops: Sequence[int], cut: int, part: slice) -> tuple[slice, ...]:
    return tuple(part if loop == cut else slice(None) for loop in loops)


def _part(view: tuple[Array, list[int]], cut: int, part: slice) -> tuple[Array, list[int]]:
    array, loops = view
    return array[_index(loops, cut, part)], loops


def _einsum(a: tuple[Array, list[int]], b: tuple[Array, list[int]], out: Sequence[int]) -> Array:
    """Computes one sum of products. Uses BLAS if the operands share only the summed loops."""
    return np.einsum(a[0], a[1], b[0], b[1], list(out), optimize=True)
