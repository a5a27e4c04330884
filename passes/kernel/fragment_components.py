"""
Computes on the components of a fragment that an invocation holds, if the target says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import Accumulator, pack_elements
from xdsl_spirv.passes.kernel.matrix_values import lane_places, put_together
from xdsl_spirv.targets import Fragment

Corner = tuple[Index, Index]
"""Row and column of a fragment's first element in the result."""


Body = Callable[[Index, Index, Accumulator], None]


class Elements(Protocol):
    """Gives access to the elements of fragments by their places."""

    @property
    def width(self) -> int:
        """The number of elements that `for_each` may pass as one vector."""
        ...

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        """Calls body(row, column, elements) for each element, or `width` of them, of a fragment."""
        ...

    def whole(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        """Builds the fragment of element(row, column); `start` is any fragment of its type."""
        ...


class FragmentComponents:
    """Takes fragments apart into components, and puts them together."""

    def __init__(self, builder: KernelEmitter, fragment: Fragment, lane: SSAValue):
        self.builder = builder
        self._component = fragment.component
        self._lane = lane_places(builder, fragment, lane)

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        """body(row, column, component) for each of the fragment at `at`, or for `width` as one."""
        add = self.builder.add
        places = list(self._at(at))
        for first in range(0, len(places), width):
            row, column = places[first]
            if isinstance(value, tuple):
                body(row, column, tuple(add(spv.CompositeExtractOp(v, [first])) for v in value))
                continue
            numbers = range(first, first + width)
            values = [add(spv.CompositeExtractOp(value, [number])) for number in numbers]
            body(row, column, pack_elements(self.builder, values, values[0].type))

    @property
    def width(self) -> int:
        """The number of components that are consecutive in a row, aligned to that number."""
        return min(2, self._component.run(1))

    def whole(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        """Builds a fragment from its components; `start` is any fragment of its type."""
        return put_together(self.builder, (element(*place) for place in self._at(at)), start)

    def _at(self, at: Corner) -> Iterator[Corner]:
        b = self.builder
        row, column = (b.plus(begin, own) for begin, own in zip(at, self._lane, strict=True))
        for more_rows, more_columns in self._component.places:
            yield b.plus(row, more_rows), b.plus(column, more_columns)
