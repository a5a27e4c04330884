"""
Finds the loops along which a kernel's arrays are contiguous in memory.

    linalg.generic  %a[d1, d0] -> %r[d0, d1]        neighbours of %a: d0, of %r: d1

Neighbouring invocations should run along such a loop, so that their accesses are contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TypeAlias

from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import (
    Size,
    ceil_div,
    is_multiple,
    surely_below,
    typical,
)
from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Loops,
    Padded,
    Reshaped,
    Sliced,
    Stored,
    Transposed,
)
from xdsl_spirv.passes.analysis.loops_nests import Nest, all_reductions_of

Axis: TypeAlias = int | None
"""Index of a loop; None for an index that is not a single loop."""
Access: TypeAlias = tuple[Array, tuple[Axis, ...]]
"""An array, and the loop that indexes each of its dimensions."""


def fast_loops(loops: Loops, size: Size) -> set[Axis]:
    """Returns the loops along which the inputs of at least `size` elements are contiguous."""
    point = tuple(range(len(loops.sizes)))
    return _fast(_inputs(loops, point), size)


def fast_axes(array: Array, size: Size) -> set[Axis]:
    """
    Returns the dimensions of an array along which its stored sources are contiguous.

    Ignores sources of fewer than `size` elements.
    """
    return _fast([(array, tuple(range(len(array.shape))))], size)


def _inputs(loops: Loops, point: Sequence[Axis]) -> Iterator[Access]:
    for operand, map in zip(loops.inputs, loops.input_maps, strict=True):
        if isinstance(operand, Array):
            yield (
                operand,
                tuple(
                    point[expr.position] if isinstance(expr, AffineDimExpr) else None
                    for expr in map.results
                ),
            )


def _fast(accesses: Iterable[Access], size: Size) -> set[Axis]:
    """
    Returns the axes along which the stored sources of at least `size` elements are contiguous.

    Visits each pair of array and indices once, because a chain of sums has 2^n paths.
    """
    pending = list(accesses)
    seen: set[tuple[int, tuple[Axis, ...]]] = set()
    axes: set[Axis] = set()
    while pending:
        array, at = pending.pop()
        if (id(array), at) in seen:
            continue
        seen.add((id(array), at))
        if isinstance(array, Stored):
            if typical(prod(array.shape)) >= typical(size):
                wide = [axis for axis, extent in zip(at, array.shape, strict=True) if extent != 1]
                axes.add(wide[-1] if wide else None)
        else:
            pending += _sources(array, at)
    return axes


def _sources(array: Array, at: tuple[Axis, ...]) -> Iterator[Access]:
    """Yields the array elements from which the element `at` of an array is computed."""
    match array:
        case Computed():
            yield from _inputs(array.loops, array.point(at, None))
        case Transposed():
            yield array.source, array.place(at, None)
        case Reshaped():
            yield array.source, _reshape_axes(array, at)
        case Sliced() | Padded():
            yield array.source, at
        case _:
            return


def _reshape_axes(array: Reshaped, at: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """
    Returns the loop that indexes each dimension of a reshape's source. The loop is None for a
    dimension of size 1, and for one that the reshape splits or merges.
    """
    outer = [(axis, size) for axis, size in zip(at, array.shape, strict=True) if size != 1]
    inner = [size for size in array.source.shape if size != 1]
    axes: list[Axis] = [None] * len(inner)
    for place in range(1, min(len(outer), len(inner)) + 1):
        if outer[-place][1] != inner[-place]:
            break
        axes[-place] = outer[-place][0]
    left = iter(axes)
    return tuple(None if size == 1 else next(left) for size in array.source.shape)


def crossing(nest: Nest, tile: int = 1) -> tuple[tuple[int, ...], int] | None:
    """
    Returns the dimensions along which a nest's reads and its writes are contiguous, if they
    differ.

    Neighbouring dimensions are combined for the reads if a single one is shorter than a tile.
    Returns None if reads and writes run along one dimension.
    """
    wide = [axis for axis, size in enumerate(nest.shape) if size != 1]
    if not wide or all_reductions_of(nest):
        return None
    if any(bit_width(array.element) < 8 for array, _ in nest.results):
        return None
    size = prod(nest.shape)
    fast = {axis for array, _ in nest.results for axis in fast_axes(array, size)}
    first = next(iter(fast)) if len(fast) == 1 else None
    if first is None or first == wide[-1]:
        return None
    begin = first
    while begin > 0 and surely_below(prod(nest.shape[begin : first + 1]), tile):
        begin -= 1
    return tuple(range(begin, first + 1)), wide[-1]


def is_run(shape: Sequence[Size], width: int) -> bool:
    """True if vectors of `width` lie in one row of the last dimension, or consist of whole rows."""
    last = shape[-1]
    if is_multiple(last, width):
        return True
    if len(shape) < 2 or not isinstance(last, int) or last < 2 or width % last:
        return False
    return is_multiple(shape[-2], width // last)


def tile_grid(nest: Nest, axes: tuple[tuple[int, ...], int], size: int) -> list[Size]:
    """
    Returns the number of tiles along each dimension of the nest. The dimensions in `axes` come
    last.
    """
    shape, (first, last) = nest.shape, axes
    others = [extent for axis, extent in enumerate(shape) if axis not in (*first, last)]
    ends = prod(shape[axis] for axis in first), shape[last]
    return [*others, *(ceil_div(extent, size) for extent in ends)]
