"""
Reaches single elements of a fragment by their places.

An invocation has components of its own, if the target says where they are; else an instruction
calls a function for each element, which is told its place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import Accumulator, pack_elements
from xdsl_spirv.passes.kernel.matrix_functions import each_element
from xdsl_spirv.passes.kernel.matrix_values import lane_places, put_together
from xdsl_spirv.targets import Fragment

Corner = tuple[Index, Index]
"""Row and column of a fragment's first element in the result."""

Body = Callable[[Index, Index, Accumulator], None]


class FragmentElements(ABC):
    """Takes fragments apart into elements, and puts them together."""

    width = 1
    """The number of neighbours in a row that `for_each` may pass as one vector."""

    @abstractmethod
    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        """Calls body(row, column, elements) for each element, or `width` of them, of a fragment."""

    @abstractmethod
    def build_fragment(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        """Builds the fragment of element(row, column); `start` is any fragment of its type."""


class FragmentComponents(FragmentElements):
    """Reaches the components that an invocation holds."""

    def __init__(self, builder: KernelEmitter, fragment: Fragment, lane: SSAValue):
        self.builder = builder
        self._places = fragment.component.places
        self._lane = lane_places(builder, fragment, lane)
        self.width = min(2, fragment.component.run(1))

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
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

    def build_fragment(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        return put_together(self.builder, (element(*place) for place in self._at(at)), start)

    def _at(self, at: Corner) -> Iterator[Corner]:
        b = self.builder
        row, column = map(b.plus, at, self._lane)
        for more_rows, more_columns in self._places:
            yield b.plus(row, more_rows), b.plus(column, more_columns)


class ElementFunctions(FragmentElements):
    """Reaches every element in a function that an instruction calls."""

    def __init__(self, builder: KernelEmitter):
        self.builder = builder

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        def element(i: SSAValue, j: SSAValue, *values: SSAValue) -> SSAValue:
            row, column = map(self.builder.plus, at, (i, j))
            body(row, column, as_accumulator(values))
            return values[0]

        each_element(self.builder, element, *as_matrices(value))

    def build_fragment(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        b = self.builder
        return each_element(b, lambda i, j, _: element(*map(b.plus, at, (i, j))), start)


def as_matrices(value: Accumulator) -> tuple[SSAValue, ...]:
    """Lists the fragments of an accumulator, one for each part."""
    return value if isinstance(value, tuple) else (value,)


def as_accumulator(values: Sequence[SSAValue]) -> Accumulator:
    """Returns an element of each part; of a single part, the element."""
    return tuple(values) if len(values) > 1 else values[0]
