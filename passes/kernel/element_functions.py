"""
Computes on a fragment's elements and their places by an instruction that calls a function for each.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import Accumulator
from xdsl_spirv.passes.kernel.fragment_components import Body, Corner
from xdsl_spirv.passes.kernel.matrices import MatrixCode
from xdsl_spirv.passes.kernel.matrix_functions import each_element


class ElementFunctions:
    """Takes fragments apart and puts them together with functions of their elements."""

    def __init__(self, builder: KernelEmitter):
        self.builder = builder

    width = 1

    def for_each(self, at: Corner, value: Accumulator, width: int, body: Body) -> None:
        """Calls body(row, column, element) for each element of the fragment at `at`."""

        def element(i: SSAValue, j: SSAValue, *values: SSAValue) -> SSAValue:
            body(*self._place(at, i, j), values if isinstance(value, tuple) else values[0])
            return values[0]

        each_element(self.builder, element, *_matrices(value))

    def whole(
        self, at: Corner, start: SSAValue, element: Callable[[Index, Index], SSAValue]
    ) -> SSAValue:
        """Builds a fragment from `element`; `start` is any fragment of its type."""
        return each_element(self.builder, lambda i, j, _: element(*self._place(at, i, j)), start)

    def _place(self, at: Corner, i: Index, j: Index) -> Corner:
        return self.builder.plus(at[0], i), self.builder.plus(at[1], j)


def _matrices(value: Accumulator) -> tuple[SSAValue, ...]:
    return value if isinstance(value, tuple) else (value,)


class FunctionCode(MatrixCode):
    """Writes the epilogue of a subgroup's fragments as functions of their elements."""

    def results(self, row: Index, column: Index, accumulator: Accumulator) -> list[SSAValue]:
        """The results of the fragment that begins at `row` and `column`."""
        count = range(len(self.epilogue.results))
        return [self._result(number, row, column, accumulator) for number in count]

    def _result(self, number: int, row: Index, column: Index, accumulator: Accumulator) -> SSAValue:
        """Computes one result, widened to the accumulator type if its own type is narrower."""
        b, held = self.builder, self.epilogue.root.element_type
        element = self.epilogue.results[number].element_type

        def value(i: SSAValue, j: SSAValue, *values: SSAValue) -> SSAValue:
            accumulated = values if isinstance(accumulator, tuple) else values[0]
            result = self.code.values(b.plus(row, i), b.plus(column, j), accumulated)[number]
            if element == held:
                return result
            assert isinstance(held, AnyFloat), "asked of are_stored_as_matrices"
            return b.add(arith.ExtFOp(result, held))

        computed = each_element(b, value, *_matrices(accumulator))
        if element == held:
            return computed
        type = self._matrix(element)
        return b.add(spv.FConvertOp.create(operands=[computed], result_types=[type]))
