"""
SPV_NV_cooperative_matrix2, and the coordinates of SPV_EXT_cooperative_matrix_maintenance1.

Converts matrices between uses, transposes and reduces them, applies functions to elements, and
accesses memory through tensor layouts. Symbols name the functions that an instruction calls for
each element. All invocations of the scope execute the operations together (CM-27), so they are not
speculatable. MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, SymbolRefAttr, VectorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import CooperativeMatrixReduceAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import is_integer
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixReduce, CooperativeMatrixUse
from xdsl_spirv.dialects.spirv.function import FuncOp
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.upstream.symbols import find_symbol


def find_function(op: Operation, name: SymbolRefAttr) -> FuncOp | None:
    """
    Returns the function that an operation names. Returns None if the operation is outside of a
    module.

    Raises `VerifyException` if the symbol is not a function.
    """
    if op.parent_op() is None:
        return None
    callee = find_symbol(op, name)
    if not isinstance(callee, FuncOp):
        raise VerifyException(f"{op.name}: {name} is not a spirv.func of this module")
    return callee


def _same(op: Operation, *pairs: tuple[str, object, object]) -> None:
    for what, before, after in pairs:
        if before != after:
            raise VerifyException(
                f"{op.name} cannot change the {what}: {op.operands[0].type} to {op.results[0].type}"
            )


class MatrixConversion(SPIRVOp, ABC):
    """Converts a matrix to another type: `spirv.X %m : matrix type to matrix type`."""

    matrix = operand_def(CooperativeMatrixType)
    result = result_def(CooperativeMatrixType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$matrix attr-dict `:` type($matrix) `to` type($result)"

    @property
    def types(self) -> tuple[CooperativeMatrixType, CooperativeMatrixType]:
        """The types of the operand and the result."""
        before, after = self.matrix.type, self.result.type
        assert isinstance(before, CooperativeMatrixType)  # the constraints
        assert isinstance(after, CooperativeMatrixType)
        return before, after


class CooperativeMatrixConvertOp(MatrixConversion, name="spirv.NV.CooperativeMatrixConvert"):
    """Converts an accumulator to a MatrixA or MatrixB, without changing components."""

    def verify_(self) -> None:
        before, after = self.types
        _same(
            self,
            ("rows", before.rows, after.rows),
            ("columns", before.columns, after.columns),
            ("scope", before.scope, after.scope),
            ("component type", before.element_type, after.element_type),
        )
        accumulator = CooperativeMatrixUse.MatrixAccumulatorKHR
        if before.use != after.use and before.use.data is not accumulator:
            raise VerifyException(
                f"{self.name} can only change the use of an accumulator, not {before} to {after}"
            )


class CooperativeMatrixTransposeOp(MatrixConversion, name="spirv.NV.CooperativeMatrixTranspose"):
    """Transposes an accumulator to a MatrixB."""

    def verify_(self) -> None:
        before, after = self.types
        if (before.rows, before.columns) != (after.columns, after.rows):
            raise VerifyException(f"{after} is not the transpose of {before}")
        _same(
            self,
            ("scope", before.scope, after.scope),
            ("component type", before.element_type, after.element_type),
        )
        uses = (CooperativeMatrixUse.MatrixAccumulatorKHR, CooperativeMatrixUse.MatrixBKHR)
        if (before.use.data, after.use.data) != uses:
            raise VerifyException(
                f"{self.name} must convert an accumulator to a MatrixB, not {before} to {after}"
            )


class CooperativeMatrixReduceOp(SPIRVOp, name="spirv.NV.CooperativeMatrixReduce"):
    """
    Combines rows, columns or 2x2 squares by a function of two components.

    `spirv.NV.CooperativeMatrixReduce <Row|Column> %m, @combine : !spirv.coopmatrix<...> -> ...`.
    """

    matrix = operand_def(CooperativeMatrixType)
    reduce = prop_def(CooperativeMatrixReduceAttr)
    combine_func = prop_def(FlatSymbolRefAttrConstr)
    result = result_def(CooperativeMatrixType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "$reduce $matrix `,` $combine_func attr-dict `:` type($matrix) `->` type($result)"
    )

    def verify_(self) -> None:
        before, after = self.matrix.type, self.result.type
        assert isinstance(before, CooperativeMatrixType)  # the constraints
        assert isinstance(after, CooperativeMatrixType)
        _same(
            self,
            ("component type", before.element_type, after.element_type),
            ("scope", before.scope, after.scope),
            ("use", before.use, after.use),
        )
        if before.use.data is not CooperativeMatrixUse.MatrixAccumulatorKHR:
            raise VerifyException(f"{self.name} takes an accumulator, not {before}")
        self._verify_directions(before, after)
        function = find_function(self, self.combine_func)
        component = before.element_type
        if function is not None and (
            function.function_type.inputs.data != (component, component)
            or function.function_type.outputs.data != (component,)
        ):
            raise VerifyException(
                f"{self.name}: {self.combine_func} must take two {component} and return one, but "
                f"has type {function.function_type}"
            )

    def _verify_directions(
        self, before: CooperativeMatrixType, after: CooperativeMatrixType
    ) -> None:
        squares = CooperativeMatrixReduce.CooperativeMatrixReduce2x2
        directions = self.reduce.data
        if not directions or (directions & squares and directions != squares):
            raise VerifyException(f"{self.name} needs the mask Row, Column, Row|Column or 2x2")
        if directions == CooperativeMatrixReduce.Row:
            _same(self, ("rows", before.rows, after.rows))
        if directions == CooperativeMatrixReduce.Column:
            _same(self, ("columns", before.columns, after.columns))


class CooperativeMatrixPerElementOp(
    SPIRVOp, name="spirv.NV.CooperativeMatrixPerElementOp", result="matrix"
):
    """
    Applies a function to every component. The function gets the row, the column, the component and
    further arguments.

    `spirv.NV.CooperativeMatrixPerElementOp %m, @relu(%x) : !spirv.coopmatrix<...>, f32 -> ...`. If
    an argument is a matrix of the same shape, scope and use, the function may take its component at
    the same position.
    """

    matrix = operand_def(CooperativeMatrixType)
    func = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def()
    result = result_def(CooperativeMatrixType)
    assembly_format = (
        "$matrix `,` $func (`(` $arguments^ `)`)? attr-dict `:` "
        "type($matrix) (`,` type($arguments)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        before, after = self.matrix.type, self.result.type
        if before != after:
            raise VerifyException(f"{self.name} cannot change the type {before} to {after}")
        assert isinstance(before, CooperativeMatrixType)  # the operand's constraint
        function = find_function(self, self.func)
        if function is None:
            return
        inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
        first = inputs[:2]
        places = len(first) == 2 and all(is_integer(t) for t in first)
        if not places or inputs[2:3] != (before.element_type,) or outputs != inputs[2:3]:
            raise VerifyException(
                f"{self.name}: {self.func} must take a row, a column and an element, and return "
                f"an element ({before.element_type}), but has type {function.function_type}"
            )
        given = tuple(argument.type for argument in self.arguments)
        if len(inputs) != 3 + len(given) or any(
            taken not in (type, component_of(before, type))
            for taken, type in zip(inputs[3:], given, strict=True)
        ):
            raise VerifyException(
                f"{self.name}: {self.func} takes ({', '.join(map(str, inputs[3:]))}) after the "
                f"element, but the arguments are ({', '.join(map(str, given))})"
            )


def component_of(matrix: CooperativeMatrixType, argument: Attribute) -> Attribute | None:
    """
    Returns the component type of an argument that has the shape, scope and use of `matrix`. Returns
    None for other arguments.
    """
    if not isinstance(argument, CooperativeMatrixType):
        return None
    places = (argument.rows, argument.columns, argument.scope, argument.use)
    alike = places == (matrix.rows, matrix.columns, matrix.scope, matrix.use)
    return argument.element_type if alike else None


class CooperativeMatrixGetCoordinateOp(SPIRVOp, name="spirv.EXT.CooperativeMatrixGetCoordinate"):
    """
    The row and column of a component that this invocation stores.

    `spirv.EXT.CooperativeMatrixGetCoordinate %m, %i : !spirv.coopmatrix<...>, i32 ->
    vector<2xi32>`. SPV_EXT_cooperative_matrix_maintenance1.
    """

    matrix = operand_def(CooperativeMatrixType)
    index = operand_def()
    result = result_def(VectorType)
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "$matrix `,` $index attr-dict `:` type($matrix) `,` type($index) `->` type($result)"
    )

    def verify_(self) -> None:
        type_ = self.result.type
        if not is_integer(self.index.type):
            raise VerifyException(
                f"{self.name}: the index must be an integer, not {self.index.type}"
            )
        if type_.get_shape() != (2,) or not is_integer(type_.element_type):
            raise VerifyException(f"{self.name} must return two integers, not {type_}")
