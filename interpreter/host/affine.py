"""
Arranges the operands of a `linalg` operation over its iteration space.

An operand is read through its index map as an array over the iteration space. If the map only
contains loop indices, the array is a transposed view. If the map computes indices, as for a
convolution's window, the array is a gathered copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import affine
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, value

Point = Mapping[int, int]
"""Maps loops to the iteration at which they are fixed."""


def loop_sizes(maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Returns the trip count of every loop, from operand dimensions that only this loop indexes."""
    sizes: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map.results, shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                known = sizes.setdefault(expr.position, size)
                if known != size:
                    raise InterpreterError(
                        f"loop d{expr.position} has two sizes, {known} and {size}",
                        remedy="the operands' shapes do not fit the index maps",
                    )
    missing = [loop for loop in range(maps[0].num_dims) if loop not in sizes]
    if missing:
        raise InterpreterError(
            f"no operand gives the size of loop d{missing[0]}",
            remedy="add an operand with a dimension that only this loop indexes",
        )
    listed = [sizes[loop] for loop in range(maps[0].num_dims)]
    _refuse_outside(maps, shapes, listed)
    return listed


def _refuse_outside(
    maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> None:
    """Raises `InterpreterError` if a computed index is outside of its dimension."""
    loops = np.ix_(*map(np.arange, sizes))
    for map_, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map_.results, shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                continue
            places = evaluate(expr, loops)
            if places.size and (places.min() < 0 or places.max() >= size):
                raise InterpreterError(
                    f"the index {expr} goes from {places.min()} to {places.max()}, but the "
                    f"dimension has {size} elements",
                    remedy="the operands' shapes do not fit the index maps",
                )


def evaluate(expr: AffineExpr, loops: Sequence[Array]) -> Array:
    """Evaluates an affine expression on arrays of loop indices."""
    match expr:
        case AffineDimExpr():
            return loops[expr.position]
        case AffineConstantExpr():
            return np.asarray(expr.value)
        case AffineBinaryOpExpr():
            a, b = evaluate(expr.lhs, loops), evaluate(expr.rhs, loops)
            match expr.kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.Mod:
                    return a % b
                case AffineBinaryOpKind.FloorDiv:
                    return a // b
                case AffineBinaryOpKind.CeilDiv:
                    return -(-a // b)
        case _:
            pass
    raise InterpreterError(f"the index expression {expr} is not supported")


@value(affine.ApplyOp)
def apply(op: affine.ApplyOp, context: Context) -> Function:
    """Evaluates an affine map on the operands, which are the map's dimensions."""
    map = op.map.data
    symbols = [AffineDimExpr(map.num_dims + number) for number in range(map.num_symbols)]
    dims = [AffineDimExpr(number) for number in range(map.num_dims)]
    expression = map.results[0].replace_dims_and_symbols(dims, symbols)
    return lambda *operands: evaluate(expression, operands)


class Space:
    """
    Iteration space of a `linalg` operation. Has the `sizes` of all loops and the parallel loops,
    `axes`.

    An operand over the space has one dimension for each parallel loop, in order. If there are fewer
    than three, it has leading dimensions of length 1.
    """

    def __init__(self, sizes: Sequence[int], axes: Sequence[int]):
        self.sizes = sizes
        self.axes = list(axes)
        self.rank = max(3, len(self.axes))

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the parallel loops."""
        return tuple(self.sizes[axis] for axis in self.axes)

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Shape of an array over the space."""
        return (1,) * (self.rank - len(self.axes)) + self.shape

    def index(self, loop: int, point: Point) -> Array:
        """Returns the indices of a loop as an array over the space."""
        if loop in point:
            return np.full((1,) * self.rank, point[loop])
        shape = [1] * self.rank
        shape[self.rank - len(self.axes) + self.axes.index(loop)] = self.sizes[loop]
        return np.arange(self.sizes[loop]).reshape(shape)

    def operand(self, operand: Array, map: AffineMap, point: Point) -> Array:
        """
        Returns an operand as an array that broadcasts to the space. `point` are the loops with a
        fixed index.
        """
        if all(isinstance(expr, AffineDimExpr | AffineConstantExpr) for expr in map.results):
            view = _view(operand, map, self.axes, point)
            if view is not None:
                return view.reshape((1,) * (self.rank - view.ndim) + view.shape)
        loops = [self.index(loop, point) for loop in range(map.num_dims)]
        return operand[tuple(evaluate(expr, loops) for expr in map.results)]


def _view(operand: Array, map: AffineMap, axes: Sequence[int], point: Point) -> Array | None:
    """Returns an operand as a transposed view over the loops, or None if the map repeats a loop."""
    index: list[int | slice] = []
    kept: list[int] = []
    for expr in map.results:
        if isinstance(expr, AffineConstantExpr):
            index.append(expr.value)
            continue
        assert isinstance(expr, AffineDimExpr)
        if expr.position in point:
            index.append(point[expr.position])
        else:
            index.append(slice(None))
            kept.append(axes.index(expr.position))
    if len(set(kept)) != len(kept):
        return None
    order = [kept.index(axis) for axis in sorted(kept)]
    picked = operand[tuple(index)].transpose(order)
    sizes = iter(picked.shape)
    return picked.reshape([next(sizes) if axis in kept else 1 for axis in range(len(axes))])
