"""
Groups a kernel's stores into nests of loops: results of one shape, or parts of a result.

Each part of a concatenation becomes a nest, so that no element tests to which part it belongs. No
element is stored twice, because no barrier orders the nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient, surely_below, typical
from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    Loops,
    NotLoops,
    Padded,
    Patched,
    Reshaped,
    Result,
    Shape,
    Sliced,
    Stored,
    Transposed,
    Unwritten,
)


@dataclass(frozen=True)
class Place:
    """
    A slice that receives elements: element i is stored at `target[offsets + i * strides]`.

    Elements in `replaced` are not stored, because later stores would overwrite them.
    """

    target: SSAValue
    shape: Shape
    offsets: Shape
    strides: Shape
    replaced: tuple[tuple[Shape, Shape, Shape], ...] = ()
    """Offsets, sizes and strides of each part of the slice that is replaced by other elements."""


@dataclass(frozen=True)
class Nest:
    """Loops that compute arrays of one shape, and the place where each array is stored."""

    shape: Shape
    results: Sequence[tuple[Array, Place]]


def nests_of(results: Sequence[Result]) -> list[Nest]:
    """Returns the loop nests that compute and store all results."""
    written = {result.target for result in results}
    whole: dict[Shape, list[tuple[Array, Place]]] = {}
    parts: list[Nest] = []
    for result in results:
        target, array = result.target, result.array
        _check_reads(array, written, set())
        place = Place(target, array.shape, (0,) * len(array.shape), (1,) * len(array.shape))
        for part, at in _parts(array, place):
            if at.replaced or part.shape != array.shape:
                parts.append(Nest(part.shape, [(part, at)]))
            else:
                whole.setdefault(part.shape, []).append((part, at))
    return [*(Nest(shape, stores) for shape, stores in whole.items()), *parts]


def _parts(array: Array, place: Place) -> Iterator[tuple[Array, Place]]:
    """Yields the parts of a patched array with their places: patches first, then the base."""
    if isinstance(array, Reshaped) and array.source.shape == array.shape:
        array = array.source
    if not isinstance(array, Patched) or any(s != 1 for s in place.strides):
        if not isinstance(array, Unwritten):
            yield array, place
        return
    offsets = tuple(a + b for a, b in zip(place.offsets, array.offsets, strict=True))
    box = (offsets, array.part.shape, array.strides)
    kept = tuple(other for other in place.replaced if not _disjoint(other, box))
    yield from _parts(array.part, Place(place.target, place.shape, offsets, array.strides, kept))
    under = (*place.replaced, box)
    yield from _parts(
        array.base, Place(place.target, place.shape, place.offsets, place.strides, under)
    )


def _disjoint(a: tuple[Shape, Shape, Shape], b: tuple[Shape, Shape, Shape]) -> bool:
    """True if two slices (offsets, sizes, strides) provably share no element."""
    for (o1, n1, s1), (o2, n2, s2) in zip(zip(*a, strict=True), zip(*b, strict=True), strict=True):
        if surely_below(o1 + (n1 - 1) * s1, o2) or surely_below(o2 + (n2 - 1) * s2, o1):
            return True
    return False


def _check_reads(array: Array, written: set[SSAValue], seen: set[Array]) -> None:
    """
    Raises `NotLoops` if a kernel reads an array that is among the `written` ones. `seen` are the
    arrays that were already checked.
    """
    if array in seen:
        return
    seen.add(array)
    if isinstance(array, Stored) and array.value in written:
        owner = next(iter(array.value.uses)).operation
        raise NotLoops(
            owner, f"the operation reads %{array.value.name_hint}, which its kernel also writes"
        )
    for source in sources_of(array):
        _check_reads(source, written, seen)


def sources_of(array: Array) -> list[Array]:
    """Returns the arrays from which an array is directly computed."""
    match array:
        case Computed(loops=loops):
            inputs = [source for source in loops.inputs if isinstance(source, Array)]
            return [*inputs, *_initials(array), *loops.captured.values()]
        case Reshaped() | Transposed() | Sliced() | Padded():
            return [array.source]
        case Patched():
            return [array.base, array.part]
        case _:
            return []


def _initials(array: Computed) -> list[Array]:
    """Returns the outputs whose initial values the body reads."""
    loops = array.loops
    count = len(loops.inputs)
    return [
        output
        for output, argument in zip(loops.outputs, loops.body.args[count:], strict=True)
        if argument.first_use is not None
    ]


# Rows and columns


def dimensions_along_rows(nest: Nest) -> frozenset[int]:
    """
    Returns the dimensions of a nest on which no reduction depends. Without a reduction, returns an
    empty set.
    """
    reductions = reductions_of(nest)
    if not reductions:
        return frozenset()
    rows = frozenset[int]().union(*(rows for _, rows in reductions))
    return frozenset(a for a, size in enumerate(nest.shape) if a not in rows and size != 1)


def reductions_of(nest: Nest) -> list[tuple[Loops, frozenset[int]]]:
    """Returns the outermost reductions, each with the dimensions on which its result depends."""
    return [(loops, rows) for loops, rows in all_reductions_of(nest) if INNER not in rows]


def all_reductions_of(nest: Nest) -> list[tuple[Loops, frozenset[int]]]:
    """Returns all reductions, each with the dimensions on which its result depends."""
    start = tuple(frozenset((axis,)) for axis in range(len(nest.shape)))
    seen: set[tuple[Array, tuple[frozenset[int], ...]]] = set()
    return [reduction for array, _ in nest.results for reduction in _reductions(array, start, seen)]


INNER = -1
"""Stands for a dimension if a reduction depends on the loop of another reduction."""


def _reductions(
    array: Array,
    at: tuple[frozenset[int], ...],
    seen: set[tuple[Array, tuple[frozenset[int], ...]]],
) -> Iterator[tuple[Loops, frozenset[int]]]:
    """
    Yields the reductions that an element needs, with the dimensions on which each depends. `at`
    has, for each index of the element, the dimensions on which it depends.
    """
    if (array, at) in seen:
        return
    seen.add((array, at))
    all_of_it = frozenset[int]().union(*at)
    match array:
        case Computed(loops=loops):
            point = array.point(at, frozenset[int]())
            outer = frozenset[int]().union(*point)
            if loops.reduces:
                yield loops, outer
            for loop, yes in enumerate(loops.reduction):
                if yes:
                    point[loop] = frozenset((INNER,))
            operands = [*zip(loops.inputs, loops.input_maps, strict=True)]
            operands += [
                (output, map)
                for output, map in zip(loops.outputs, loops.output_maps, strict=True)
                if output in _initials(array)
            ]
            for operand, map in operands:
                if isinstance(operand, Array):
                    places = tuple(_places(expr, point) for expr in map.results)
                    yield from _reductions(operand, places, seen)
            for captured in loops.captured.values():
                anywhere = frozenset[int]().union(*point)
                yield from _reductions(captured, (anywhere,) * len(captured.shape), seen)
        case Reshaped():
            yield from _reductions(array.source, _reshape_dependences(array, at), seen)
        case Transposed():
            source = array.place(at, frozenset[int]())
            yield from _reductions(array.source, source, seen)
        case Sliced() | Padded():
            yield from _reductions(array.source, at, seen)
        case Patched():
            for piece in (array.base, array.part):
                if isinstance(piece, Unwritten):
                    continue
                for loops, rows in _reductions(piece, at, seen):
                    yield loops, rows | all_of_it
        case _:
            return


def _places(expr: AffineExpr, point: Sequence[frozenset[int]]) -> frozenset[int]:
    if isinstance(expr, AffineConstantExpr):
        return frozenset()
    if isinstance(expr, AffineDimExpr):
        return point[expr.position]
    return frozenset[int]().union(*(point[dim] for dim in expr.used_dims()))


def _reshape_dependences(
    array: Reshaped, at: tuple[frozenset[int], ...]
) -> tuple[frozenset[int], ...]:
    """
    Returns, for each dimension of a reshape's source, the union of the sets in `at` that belong to
    the overlapping dimensions of the result.
    """
    dependences: list[frozenset[int]] = []
    outer, inner = _ends(array.shape), _ends(array.source.shape)
    strides = sorted({stride for ends in (*outer, *inner) for stride in ends}, key=typical)
    if any(exact_quotient(large, small) is None for small, large in pairwise(strides)):
        return (frozenset[int]().union(*at),) * len(inner)
    # Each stride divides the next stride, so the order does not depend on dynamic sizes.
    rank = {stride: number for number, stride in enumerate(strides)}
    for low, high in inner:
        touching = [
            place
            for (start, end), place in zip(outer, at, strict=True)
            if rank[start] < rank[high] and rank[low] < rank[end]
        ]
        dependences.append(frozenset[int]().union(*touching))
    return tuple(dependences)


def _ends(shape: Shape) -> list[tuple[Size, Size]]:
    """Returns, for each dimension, its stride and the stride of the next outer dimension."""
    ends: list[tuple[Size, Size]] = []
    stride: Size = 1
    for size in reversed(shape):
        ends.append((stride, stride * size))
        stride *= size
    return ends[::-1]
