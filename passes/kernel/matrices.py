"""
Computes an epilogue on whole fragments, and accesses single elements of fragments.

Operands of the epilogue are loaded as matrices. Some devices call a function for each element,
with its row and column. If the target defines the component positions, an invocation accesses its
own components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.analysis.componentwise import MATRIX_OPERATIONS, homes, matrix_access
from xdsl_spirv.passes.analysis.epilogue import Placed
from xdsl_spirv.passes.analysis.linalg_code import number_of_type
from xdsl_spirv.passes.analysis.pointwise import body_ops
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import (
    Access,
    Accumulator,
    ElementCode,
    EpilogueCode,
    constant_of,
    pack_elements,
)
from xdsl_spirv.passes.kernel.matrix_values import (
    COLUMN_MAJOR,
    ROW_MAJOR,
    each_element,
    lane_places,
    load_matrix,
    matrix_type,
    put_together,
    store_matrix,
    take_apart,
)
from xdsl_spirv.passes.kernel.result_tile import ResultTile
from xdsl_spirv.targets import Fragment


class MatrixCode(EpilogueCode):
    """Computes the epilogue on a subgroup's fragments; loads each operand fragment once."""

    def __init__(self, builder: KernelEmitter, tile: ResultTile, code: ElementCode):
        super().__init__(builder, code.epilogue)
        self.tile, self.code = tile, code

    def store(self, row: Index, column: Index, accumulator: Accumulator) -> None:
        """Stores the results of the fragment that begins at `row` and `column`."""
        values = self.results(row, column, accumulator)
        for value, access in zip(values, self.code.results, strict=True):
            store_matrix(self.builder, value, *self._place(access, row, column))

    def results(self, row: Index, column: Index, accumulator: Accumulator) -> list[SSAValue]:
        """Computes the results of the fragment that begins at `row` and `column`."""
        known: dict[Placed, SSAValue] = {}
        load = partial(self._load, row, column)
        return [self.evaluate(placed, accumulator, known, load) for placed in self.epilogue.results]

    def _place(
        self, access: Access, row: Index, column: Index
    ) -> tuple[SSAValue, Sequence[Index], Size, spv.CooperativeMatrixLayout]:
        matrix = matrix_access(access.layout, (self.tile.m, self.tile.n))
        assert matrix is not None, "the epilogue has no form on matrices"
        place = (self.tile.offset(row, column, access.layout),)
        return access.memory, place, matrix.stride, ROW_MAJOR if matrix.by_rows else COLUMN_MAJOR

    def _matrix(self, element: Attribute) -> spv.CooperativeMatrixType:
        return matrix_type("Acc", self.tile.m, self.tile.n, element)

    def constant(self, value: SSAValue) -> SSAValue:
        """Returns a fragment with the scalar in every component."""
        owner = constant_of(self.builder, value).owner
        assert isinstance(owner, arith.ConstantOp)
        number = owner.value
        assert isinstance(number, IntegerAttr | FloatAttr)
        type = self._matrix(number.type)
        return self.builder.once((number, type), lambda: spv.ConstantOp(number, type))

    def _load(self, row: Index, column: Index, placed: Placed) -> SSAValue:
        access = self.code.operands[placed]
        at = self.tile.offset(row, column, access.layout)

        def load() -> SSAValue:
            type, place = self._matrix(placed.element_type), self._place(access, row, column)
            return load_matrix(self.builder, type, *place)

        return self.builder.remembered((self, placed, at), self.builder.depth, load)

    def body(self, op: linalg.ops.GenericOp, inputs: Sequence[SSAValue]) -> SSAValue:
        """Emits a body on whole fragments, or on components where no matrix form exists."""
        block = op.body.block
        places = homes(op)
        assert places is not None, "the epilogue has no form on matrices"
        known: dict[SSAValue, SSAValue] = dict(zip(block.args, inputs, strict=False))
        spread: dict[SSAValue, list[SSAValue]] = {}

        def whole(value: SSAValue) -> SSAValue:
            if value not in known:
                parts = spread.get(value)
                known[value] = self.constant(value) if parts is None else self._joined(parts)
            return known[value]

        def parts_of(value: SSAValue) -> list[SSAValue]:
            if value not in spread:
                if value in known:
                    spread[value] = take_apart(self.builder, known[value], self.components)
                else:
                    spread[value] = [constant_of(self.builder, value)] * self.components
            return spread[value]

        for body_op in body_ops(block):
            if isinstance(body_op, arith.ConstantOp):
                continue
            (result,) = body_op.results
            if places[result].spread:
                spread[result] = [
                    self._scalar(body_op, parts)
                    for parts in zip(*map(parts_of, body_op.operands), strict=True)
                ]
                continue
            whole_op = MATRIX_OPERATIONS[type(body_op)].create(
                operands=[whole(operand) for operand in body_op.operands],
                result_types=[self._matrix(result.type)],
            )
            known[result] = self.builder.add(whole_op)
        last = block.last_op
        assert last is not None
        return whole(last.operands[0])

    @property
    def components(self) -> int:
        """Number of components of a fragment in an invocation."""
        return self.tile.m * self.tile.n // self.tile.plan.target.subgroup_size

    def _joined(self, parts: Sequence[SSAValue]) -> SSAValue:
        b, type = self.builder, self._matrix(parts[0].type)
        zero = number_of_type(0.0, parts[0].type)
        return put_together(b, parts, b.once(("parts", type), lambda: spv.ConstantOp(zero, type)))

    def _scalar(self, op: Operation, operands: Sequence[SSAValue]) -> SSAValue:
        copy = op.clone(dict(zip(op.operands, operands, strict=True)), clone_name_hints=False)
        return self.builder.add(copy)


class FunctionCode(MatrixCode):
    """Computes the epilogue of a subgroup's fragments in a function called for each element."""

    def results(self, row: Index, column: Index, accumulator: Accumulator) -> list[SSAValue]:
        count = range(len(self.epilogue.results))
        return [self._result(number, row, column, accumulator) for number in count]

    def _result(self, number: int, row: Index, column: Index, accumulator: Accumulator) -> SSAValue:
        """Computes one result fragment."""
        b, held = self.builder, self.epilogue.root.element_type
        element = self.epilogue.results[number].element_type

        def value(i: SSAValue, j: SSAValue, *values: SSAValue) -> SSAValue:
            place = b.plus(row, i), b.plus(column, j)
            result = self.code.values(*place, as_accumulator(values))[number]
            if element == held:
                return result
            assert isinstance(held, AnyFloat), "a result cannot be stored as matrices"
            return b.add(arith.ExtFOp(result, held))

        computed = each_element(b, value, *as_matrices(accumulator))
        if element == held:
            return computed
        type = self._matrix(element)
        return b.add(spv.FConvertOp.create(operands=[computed], result_types=[type]))


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
