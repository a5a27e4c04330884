"""
Finds loops that compute each element from a few columns of a contraction's result.

    %h[j] = f(%p[j], %p[j + n])                 one element from two columns, n apart
    %q[2 j + s] = g(%p[2 j], %p[2 j + 1])       two elements from two adjacent columns

The kernel of the contraction can compute these loops. To find the columns that an element needs,
the analysis applies the slices, reshapes and index maps in between to the indices of every element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic, static
from xdsl_spirv.passes.analysis.epilogue import NotFused, definition
from xdsl_spirv.passes.analysis.loops_arrays import (
    Array,
    Computed,
    NotLoops,
    Reshaped,
    Result,
    Shape,
    Sliced,
    Stored,
)
from xdsl_spirv.passes.analysis.loops_nests import Nest, nests_of, sources_of
from xdsl_spirv.passes.analysis.loops_reader import (
    Reader,
    results_of_collective,
    results_of_dispatch,
)
from xdsl_spirv.passes.analysis.sizes import extents

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, np.dtype[np.int64]]

MOST = 1 << 16
"""Largest number of elements that a loop nest may compute. Larger loop nests are not analysed."""

COUNTS = (1, 2, 3, 4, 8)
"""
Sizes of column groups that the analysis tries, in this order. All columns that an element needs
must be in one group.
"""

PARTS = (1, 2, 3, 4)
"""Numbers of equal parts to try for the columns of a row (see `ColumnReaders`)."""


@dataclass(frozen=True)
class ColumnReader:
    """
    A loop nest that reads consecutive column groups, from group `first` on, and computes `each`
    elements from each of them.
    """

    nest: Nest
    first: int
    each: int

    @property
    def groups(self) -> int:
        """Number of column groups that the loops read."""
        return prod(static(self.nest.shape)) // self.each


@dataclass(frozen=True)
class ColumnReaders:
    """
    The loops that read `source`, a contraction's result, in groups of `count` columns.

    Rows run along the source's last dimension. A row is divided into `parts` equal parts of
    `columns`, and its columns are numbered across the parts: the first column of each part, then
    the second column of each part, and so on.
    """

    reader: Reader
    source: SSAValue
    count: int
    readers: tuple[ColumnReader, ...]
    parts: int
    columns: int


def column_readers(source: SSAValue) -> ColumnReaders:
    """
    Returns the loops that read `source`, the result of a contraction.

    Raises `NotFused` if an element depends on columns of several groups.
    """
    try:
        reader, results = _results_behind(source)
        nests = [
            Nest(nest.shape, [result]) for nest in nests_of(results) for result in nest.results
        ]
        read = [(nest, _columns_of(nest, source)) for nest in nests]
    except NotLoops as error:
        raise NotFused(f"{error.op.name} after the contraction: {error}") from error
    *_, columns = extents(source)
    assert isinstance(columns, int)
    for parts, count in product(PARTS, COUNTS):
        each = columns // parts
        if columns % parts or columns % count:
            continue
        readers = [
            _in_groups(nest, [_in_turns(n, columns, each) for n in of_nest], count)
            for nest, of_nest in read
        ]
        if all(readers):
            of_all = tuple(r for r in readers if r)
            return ColumnReaders(reader, source, count, of_all, parts, each)
    raise NotFused(f"an element depends on columns that are not in one group of up to {COUNTS[-1]}")


def _in_turns(numbers: Numbers, columns: int, each: int) -> Numbers:
    """
    Renumbers elements so that columns are counted across the parts of a row (see `ColumnReaders`).
    A part has `each` columns.
    """
    row, column = numbers // columns, numbers % columns
    return row * columns + column % each * (columns // each) + column // each


def _results_behind(source: SSAValue) -> tuple[Reader, list[Result]]:
    """
    Returns the surrounding dispatch or collective, and the results that it computes after `source`.
    `source` is an input of the results' expressions.
    """
    writer = definition(source)
    assert writer is not None
    block = writer.parent_block()
    assert block is not None
    ops, dispatch = list(block.ops), block.parent_op()
    behind = ops[ops.index(writer) + 1 :]
    if isinstance(dispatch, DispatchOp):
        return results_of_dispatch(dispatch, behind)
    return results_of_collective(block, behind)


def _columns_of(nest: Nest, source: SSAValue) -> list[Numbers]:
    """
    Returns an array for each read of the source by the nest. The array holds the linear source
    index that each of the nest's elements reads.
    """
    import numpy as np

    shape = _known_sizes(nest.shape)
    if not shape or prod(shape) > MOST:
        raise NotFused(f"an operation on columns must compute a tensor of at most {MOST} elements")
    ((array, _),) = nest.results
    return list(_read(array, list(np.indices(shape).reshape(len(shape), -1)), source))


def _known_sizes(sizes: Shape) -> tuple[int, ...]:
    if any(is_dynamic(size) for size in sizes):
        raise NotFused("readers of columns need static sizes")
    return static(sizes)


def _depends(array: Array, source: SSAValue) -> bool:
    if isinstance(array, Stored):
        return array.value is source
    return any(_depends(other, source) for other in sources_of(array))


def _read(array: Array, places: list[Numbers], source: SSAValue) -> Iterator[Numbers]:
    """
    Yields, for each read of the source, the linear source indices that the elements of `array` at
    `places` need.
    """
    import numpy as np

    if not _depends(array, source):
        return
    match array:
        case Stored():
            yield np.ravel_multi_index(tuple(places), _known_sizes(array.shape))
        case Computed(loops=loops) if not loops.reduces and not loops.captured:
            yield from _read_by_loops(array, places, source)
        case Reshaped(source=inner):
            numbers = np.ravel_multi_index(tuple(places), _known_sizes(array.shape))
            yield from _read(
                inner, list(np.unravel_index(numbers, _known_sizes(inner.shape))), source
            )
        case Sliced(source=inner, offsets=offsets, strides=strides):
            steps = zip(places, _known_sizes(offsets), _known_sizes(strides), strict=True)
            moved = [place * stride + offset for place, offset, stride in steps]
            yield from _read(inner, moved, source)
        case _:
            raise NotFused(f"the kernel cannot read columns through {type(array).__name__}")


def _read_by_loops(array: Computed, places: list[Numbers], source: SSAValue) -> Iterator[Numbers]:
    loops, point = array.loops, array.point(places, places[0] * 0)
    operands = (*loops.inputs, *loops.outputs)
    for number, (operand, map) in enumerate(zip(operands, loops.maps, strict=True)):
        is_read = number < len(loops.inputs) or loops.body.args[number].first_use is not None
        if isinstance(operand, Array) and is_read:
            inner = [places[0] * 0 + e.eval(point, []) for e in map.results]  # pyright: ignore
            yield from _read(operand, inner, source)


def _in_groups(nest: Nest, columns: list[Numbers], count: int) -> ColumnReader | None:
    """
    Returns a nest as a reader if each of its elements depends on one group of `count` columns.
    Otherwise returns None.
    """
    import numpy as np

    if not columns:
        return None
    groups = columns[0] // count
    if any((other // count != groups).any() for other in columns[1:]):
        return None
    first, each = int(groups[0]), int((groups == groups[0]).sum())
    expected = first + np.arange(groups.size) // each
    if groups.size % each or (groups != expected).any():
        return None
    return ColumnReader(nest, first, each)
