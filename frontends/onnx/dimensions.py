"""Relates shapes: broadcasting, and groups of dimensions with equal products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, SymbolicSize, exact_quotient

Map: TypeAlias = Sequence[int | AffineExpr | None]
"""The index of each dimension of an operand: a loop, an expression in loops, or None for 0."""


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """
    Broadcasts shapes to one shape. Raises `ValueError` if sizes differ.

    A dynamic size is assumed to equal any other size except 1.
    """
    rank = max(map(len, shapes), default=0)
    sizes: list[Size] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            other = sizes[i]
            if other == 1 or (
                isinstance(other, SymbolicSize) and isinstance(size, int) and size != 1
            ):
                sizes[i] = size
            elif isinstance(size, int) and isinstance(other, int) and size not in (1, other):
                raise ValueError(f"a size of {size} cannot be broadcast with {other}")
    return tuple(sizes)


def broadcast_map(shape: Sequence[Size], sizes: Sequence[Size]) -> list[int | None]:
    first = len(sizes) - len(shape)
    return [None if size == 1 and sizes[i] != 1 else i for i, size in enumerate(shape, first)]


def with_size(sizes: Sequence[Size], axis: int, size: Size) -> list[Size]:
    """Returns sizes with another entry for one axis."""
    return [*sizes[:axis], size, *sizes[axis + 1 :]]


def is_empty(sizes: Sequence[Size], dimensions: Map) -> bool:
    """True if a dimension that a loop indexes has size 0."""
    return any(s == 0 and isinstance(d, int) for s, d in zip(sizes, dimensions, strict=True))


def affine(dimensions: Map, loops: int) -> AffineMap:
    """Returns the affine map of an operand's indices."""
    results: list[AffineExpr] = [
        AffineConstantExpr(0) if d is None else AffineDimExpr(d) if isinstance(d, int) else d
        for d in dimensions
    ]
    return AffineMap(loops, 0, tuple(results))


def options_for(sizes: Iterable[Size]) -> str:
    """Returns the options that set dynamic sizes, such as `--dim h=SIZE --dim w=SIZE`."""
    open_sizes = (size for size in sizes if isinstance(size, SymbolicSize))
    names = {extent.name for size in open_sizes for extent in size.extents}
    return " ".join(f"--dim {name}=SIZE" for name in sorted(names))


def groups_of(given: Sequence[Size], wanted: Sequence[Size]) -> list[tuple[list[int], list[int]]]:
    """
    Splits two shapes into the smallest groups of consecutive dimensions with equal products.

    Raises `ValueError` if the products of all dimensions differ.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(given) or j < len(wanted):
        left: list[int] = []
        right: list[int] = []
        a: Size = 1
        b: Size = 1
        while True:
            if left and right and a == b:
                break
            grows_left = not left or (right and i < len(given) and exact_quotient(b, a) is not None)
            if (grows_left or j >= len(wanted)) and i < len(given):
                a, left, i = a * given[i], [*left, i], i + 1
            elif j < len(wanted):
                b, right, j = b * wanted[j], [*right, j], j + 1
            else:
                break
        groups.append((left, right))
    # Remaining dimensions must be 1, and join the last group.
    while len(groups) > 1 and not (groups[-1][0] and groups[-1][1]):
        last = groups.pop()
        groups[-1] = (groups[-1][0] + last[0], groups[-1][1] + last[1])
    for left, right in groups:
        if prod(given[k] for k in left) != prod(wanted[k] for k in right):
            counts = prod(given), prod(wanted)
            raise ValueError(
                f"{list(given)} has {counts[0]} elements, but {list(wanted)} has {counts[1]}"
            )
    return groups


def reassociation(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Returns groups of dimensions as `tensor.expand_shape` and `collapse_shape` name them."""
    return ArrayAttr(ArrayAttr(IntegerAttr(i, i64) for i in group) for group in groups)
