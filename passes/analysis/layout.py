"""
Describes memory layouts of a contraction's operands as walks over groups of loops.

The loops of a contraction are sorted into groups (batch, M, N, K), and one index counts the steps
of each group. An operand is row-major and its index map linear, so an element's address is a
constant plus one term for each group's index. A group whose loops are contiguous in memory is a
single `Axis`, whatever the rank of the tensor. Indices of other groups are split by division. In
this way a matrix, a batch of matrices and the windows of a convolution have one description.

A coordinate that may leave its dimension (the border of a padded convolution) is a `Guard`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, common_divisor, surely_below


class NotLinear(ValueError):
    """Raised if an index expression is not a sum of multiples of loops."""


@dataclass(frozen=True)
class Linear:
    """The index `start` + the sum of `factors[d]` * index of loop d."""

    start: int
    factors: tuple[int, ...]

    def span(self, sizes: Sequence[Size]) -> tuple[Size, Size]:
        """Returns the least and the greatest value for loops of these sizes."""
        ends = [(f, f * (size - 1)) for f, size in zip(self.factors, sizes, strict=True)]
        least, greatest = ([end for f, end in ends if f * sign > 0] for sign in (-1, 1))
        return self.start + sum(least), self.start + sum(greatest)


def linear(expression: AffineExpr, loops: int) -> Linear:
    """Converts an index expression to a linear function; raises `NotLinear`."""
    match expression:
        case AffineConstantExpr(value=value):
            return Linear(value, (0,) * loops)
        case AffineDimExpr(position=position):
            return Linear(0, tuple(int(d == position) for d in range(loops)))
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add, lhs=left, rhs=right):
            a, b = linear(left, loops), linear(right, loops)
            return Linear(
                a.start + b.start, tuple(x + y for x, y in zip(a.factors, b.factors, strict=True))
            )
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, lhs=left, rhs=right):
            a, b = linear(left, loops), linear(right, loops)
            if any(a.factors) and any(b.factors):
                raise NotLinear(f"{expression} multiplies loops")
            factor, of = (b.start, a) if not any(b.factors) else (a.start, b)
            return Linear(of.start * factor, tuple(f * factor for f in of.factors))
        case _:
            raise NotLinear(f"{expression} is not a sum of multiples of loops")


@dataclass(frozen=True)
class Axis:
    """
    An axis of `size` elements that are `stride` elements apart in memory.

    A step along the axis adds `steps[i]` to the coordinate of the layout's guard i.
    """

    size: Size
    stride: Size
    steps: tuple[int, ...] = ()


Walk: TypeAlias = tuple[Axis, ...]
"""Axes of one group of loops, outermost first. Empty if there is only one position."""


def walk_size(walk: Walk) -> Size:
    return prod(axis.size for axis in walk)


@dataclass(frozen=True)
class Guard:
    """A coordinate that must lie in 0 .. `size` - 1. `start` is its value where all loops are 0."""

    start: int
    size: Size


@dataclass(frozen=True)
class Layout:
    """
    Memory layout of an operand: an address is `start` plus one term per walk, in elements.

    There is one walk for each group of loops.
    """

    start: Size
    walks: tuple[Walk, ...]
    guards: tuple[Guard, ...] = ()

    def run(self, walk: int) -> int:
        """
        Returns the largest number of contiguous, aligned elements along a group of loops.

        Vectors of any divisor of this number start at a multiple of their length and do not cross
        the border of a padding. 1 if the elements are not contiguous.
        """
        if not self.is_contiguous(walk):
            return 1
        *outer, last = self.walks[walk]
        if any(last.steps):
            return 1
        others = [axis for n, axes in enumerate(self.walks) if n != walk for axis in axes]
        strides = (axis.stride for axis in (*outer, *others))
        return common_divisor(last.size, self.start, *strides)

    def is_contiguous(self, walk: int) -> bool:
        """True if neighbours along a group of loops are neighbours in memory."""
        return bool(self.walks[walk]) and self.walks[walk][-1].stride == 1

    def in_vectors(self, walk: int, vector: int) -> Layout:
        """Returns the layout in units of `vector` contiguous elements along a group of loops."""
        if vector == 1:
            return self
        walks = tuple(
            tuple(replace(axis, stride=axis.stride // vector) for axis in axes)
            for axes in self.walks
        )
        *outer, last = self.walks[walk]
        shrunk = tuple(replace(axis, stride=axis.stride // vector) for axis in outer)
        pieces = (*shrunk, Axis(last.size // vector, 1, last.steps))
        return Layout(
            self.start // vector, (*walks[:walk], pieces, *walks[walk + 1 :]), self.guards
        )


@dataclass(frozen=True)
class RowMajor:
    """A row-major tensor of `shape`, indexed by the linear functions of loops `indices`."""

    indices: tuple[Linear, ...]
    shape: tuple[Size, ...]

    @staticmethod
    def read(
        map: AffineMap, loops: int, shape: Sequence[Size], low: Sequence[int] | None = None
    ) -> RowMajor:
        """
        Describes the tensor of `shape` that is indexed by `map` minus `low`. Raises `NotLinear` if
        an index is not linear.
        """
        indices = [linear(expression, loops) for expression in map.results]
        pairs = zip(indices, low or [0] * len(indices), strict=True)
        moved = tuple(Linear(index.start - before, index.factors) for index, before in pairs)
        return RowMajor(moved, tuple(shape))

    @cached_property
    def strides(self) -> list[Size]:
        """Stride of each dimension, in elements."""
        return [prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]

    @property
    def start(self) -> Size:
        """Offset of the element at which all loops are 0."""
        return sum(s * index.start for s, index in zip(self.strides, self.indices, strict=True))

    def step(self, loop: int) -> Size:
        """Returns the stride of a loop, in elements."""
        pairs = zip(self.strides, self.indices, strict=True)
        return sum(stride * index.factors[loop] for stride, index in pairs)

    def leaves(self, dimension: int, sizes: Sequence[Size]) -> bool:
        """
        True if some iteration of loops of `sizes` provably indexes beyond the dimension.

        A dynamic dimension of a tensor without padding counts as large enough.
        """
        least, greatest = self.indices[dimension].span(sizes)
        return surely_below(least, 0) or surely_below(self.shape[dimension] - 1, greatest)

    def stays(self, dimension: int, sizes: Sequence[Size]) -> bool:
        """True if every iteration of loops of `sizes` provably indexes inside of the dimension."""
        least, greatest = self.indices[dimension].span(sizes)
        return surely_below(-1, least) and surely_below(greatest, self.shape[dimension])


def layout_of(
    map: AffineMap,
    shape: Sequence[Size],
    low: Sequence[int] | None,
    sizes: Sequence[Size],
    groups: Sequence[range],
) -> Layout:
    """
    Returns the layout of a row-major tensor of `shape`, indexed by `map` minus `low`.

    `sizes` are the loops' sizes, and `groups` are the loops of each walk. `low` is the padding
    before the tensor in each dimension.
    """
    place = RowMajor.read(map, len(sizes), shape, low)
    pairs = enumerate(zip(place.indices, shape, strict=True))
    guarded = [pair for number, pair in pairs if not place.stays(number, sizes)]

    def axis(loop: int) -> Axis:
        steps = tuple(index.factors[loop] for index, _ in guarded)
        return Axis(sizes[loop], place.step(loop), steps)

    return Layout(
        place.start,
        tuple(join_axes([axis(loop) for loop in group]) for group in groups),
        tuple(Guard(index.start, size) for index, size in guarded),
    )


def join_axes(axes: Sequence[Axis]) -> Walk:
    """Drops axes of size 1, and merges axes that are contiguous in memory."""
    walk: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if walk and _follows(walk[-1], axis):
            axis = replace(axis, size=walk.pop().size * axis.size)
        walk.append(axis)
    return tuple(walk)


def _follows(outer: Axis, inner: Axis) -> bool:
    steps = tuple(step * inner.size for step in inner.steps)
    return outer.stride == inner.stride * inner.size and outer.steps == steps
