"""
Computes the elements that depend on a few columns of a contraction with few rows.

One invocation holds all columns that an element depends on.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.passes.analysis.column_readers import ColumnReader, ColumnReaders
from xdsl_spirv.passes.analysis.loops_arrays import Array, Stored
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.loops.code import LoopsCode
from xdsl_spirv.passes.loops.groups import Point


def store_readers(
    b: HoistingEmitter, readers: ColumnReaders, column: Index, values: Sequence[SSAValue]
) -> None:
    """
    Computes and stores all elements that depend on the group of columns that starts at `column`.
    `values` are the columns.
    """
    code = ColumnsCode(b, readers, values)
    group = b.index(b.divided(column, readers.count))
    for reader in readers.readers:
        # Not `b.plus`: `_place` needs the known factors of `own`, which the recorded sum hides.
        own = b.pure(b.instructions.add, group, b.index(-reader.first)) if reader.first else group
        b.when(b.below(own, reader.groups), lambda r=reader, g=own: code.store_group(r, g))


class ColumnsCode(LoopsCode):
    """Computes array elements from `values`, the contraction's columns of one group."""

    def __init__(self, b: HoistingEmitter, readers: ColumnReaders, values: Sequence[SSAValue]):
        super().__init__(b, readers.reader)
        self.readers, self.source, self.values = readers, readers.source, values

    def store_group(self, reader: ColumnReader, group: Index) -> None:
        """
        Stores the elements of `reader` that depend on its column group `group`, counted from the
        reader's first group.
        """
        b, nest = self.b, reader.nest
        ((array, _),) = nest.results
        group = b.assume(group, reader.groups)
        for number in range(reader.each):
            place = b.delinearized(b.plus(b.times(group, reader.each), number), nest.shape)
            self.store(nest, place, [self.element(array, place)])

    def _element(self, array: Array, indices: Point) -> SSAValue:
        if isinstance(array, Stored) and array.value is self.source:
            return self._column(indices[-1])
        return super()._element(array, indices)

    def _column(self, column: Index) -> SSAValue:
        """Returns a column's value; selects it at run time if the column index is not constant."""
        b, count = self.b, len(self.values)
        place = self._place(column)
        if isinstance(place, int):
            return self.values[place % count]
        place = b.remainder(place, count)
        value = self.values[-1]
        for number in reversed(range(count - 1)):
            value = b.select(b.below(place, number + 1), self.values[number], value)
        return value

    def _place(self, column: Index) -> Index:
        """Returns a column's index in `values`, modulo the size of `values`."""
        b, readers = self.b, self.readers
        base, added = b.split(column) if isinstance(column, SSAValue) else (0, column)
        if not isinstance(added, int):
            return column
        if readers.parts == 1:
            return added if b.multiple(base) % readers.count == 0 else column
        in_part = b.below(base, readers.columns) is True and added % readers.columns == 0
        if in_part and readers.count == readers.parts:
            return added // readers.columns
        each = readers.columns
        return b.plus(b.times(b.remainder(column, each), readers.parts), b.divided(column, each))
