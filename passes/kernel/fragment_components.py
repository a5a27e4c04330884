"""
A fragment of the result as the components that an invocation holds of it, where the target says
which those are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv.composite import CompositeExtractOp, CompositeInsertOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.component_places import component_places, lane_places
from xdsl_spirv.targets import Fragment

Corner = tuple[Index, Index]
"""Row and column of a fragment's first element in the result."""


class FragmentComponents:
    """The code that takes fragments apart, and puts them together."""

    def __init__(self, builder: KernelEmitter, fragment: Fragment, lane: SSAValue):
        self.builder = builder
        self._places = component_places(fragment)
        self._lane = lane_places(builder, fragment, lane)

    def parts(self, at: Corner, value: SSAValue) -> Iterator[tuple[Index, Index, SSAValue]]:
        """Row, column and value of each component of the fragment at `at`."""
        for number, (row, column) in enumerate(self._at(at)):
            yield row, column, self.builder.add(CompositeExtractOp(value, [number]))

    def whole(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        """The fragment of which `element` gives each component; `start` is any of its type."""
        for number, (row, column) in enumerate(self._at(at)):
            start = self.builder.add(CompositeInsertOp(element(row, column), start, [number]))
        return start

    def _at(self, at: Corner) -> Iterator[Corner]:
        b = self.builder
        row, column = (b.plus(begin, own) for begin, own in zip(at, self._lane, strict=True))
        for more_rows, more_columns in self._places:
            yield b.plus(row, more_rows), b.plus(column, more_columns)
