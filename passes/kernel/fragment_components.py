"""
Accesses single elements of a cooperative matrix fragment with their row and column.

If the target defines the component positions, an invocation accesses its own components. Otherwise
an instruction calls a function for each element and passes its row and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import Accumulator, pack_elements
from xdsl_spirv.passes.kernel.matrix_functions import each_element
from xdsl_spirv.passes.kernel.matrix_values import lane_places
from xdsl_spirv.targets import Fragment

Corner = tuple[Index, Index]
"""Row and column of a fragment's first element in the result."""

Body = Callable[[Index, Index, Accumulator], None]


class FragmentComponents:
    """Accesses the components that the invocation holds."""

    def __init__(self, builder: KernelEmitter, fragment: Fragment, lane: SSAValue):
        self.builder = builder
        self._places = fragment.component.places
        self._lane = lane_places(builder, fragment, lane)
        self.width = min(2, fragment.component.run(1))
        """Largest number of neighbours in a row that `for_each` can pass as one vector."""

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        """Calls body(row, column, elements) for each group of `width` elements in a row."""
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

    def _at(self, at: Corner) -> Iterator[Corner]:
        b = self.builder
        row, column = map(b.plus, at, self._lane)
        for more_rows, more_columns in self._places:
            yield b.plus(row, more_rows), b.plus(column, more_columns)


class ElementFunctions:
    """Accesses elements in a function that an instruction calls for every element."""

    width = 1

    def __init__(self, builder: KernelEmitter):
        self.builder = builder

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        def element(i: SSAValue, j: SSAValue, *values: SSAValue) -> SSAValue:
            row, column = map(self.builder.plus, at, (i, j))
            body(row, column, as_accumulator(values))
            return values[0]

        each_element(self.builder, element, *as_matrices(value))


def as_matrices(value: Accumulator) -> tuple[SSAValue, ...]:
    """Returns the fragments of an accumulator: one for each part of the result."""
    return value if isinstance(value, tuple) else (value,)


def as_accumulator(values: Sequence[SSAValue]) -> Accumulator:
    """Returns the values as an accumulator: a tuple if there are several, else the value."""
    return tuple(values) if len(values) > 1 else values[0]
