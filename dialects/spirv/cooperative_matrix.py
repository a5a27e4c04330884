"""
SPV_KHR_cooperative_matrix: load, store, multiply-add and length, in MLIR's syntax.

Extensions of MLIR's syntax: a layout may be the `@name` of a specialization constant, and the
stride is then optional. Memory operands for availability or visibility give a scope,
`scope(<Workgroup>)`, after the alignment. A MulAdd whose result and C have different component
types gives both, `A, B, C -> Result`.

Arithmetic, conversions and composites of cooperative matrices are ordinary instructions of other
families. Multiply-add and length do not access memory, but are not speculatable: all invocations
of the scope must execute them together (CM-27).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Self, TypeAlias

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, IntegerAttr, SymbolRefAttr, i32
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import (
    AnyOf,
    BaseAttr,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, NoMemoryEffect

from xdsl_spirv.dialects.keyed import or_symbol
from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import (
    CooperativeMatrixLayoutAttr,
    CooperativeMatrixOperandsAttr,
    MemoryAccessAttr,
    in_brackets,
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import FactorsAndSum
from xdsl_spirv.dialects.spirv.enums import (
    CooperativeMatrixLayout,
    CooperativeMatrixOperands,
    MemoryAccess,
    Scope,
)
from xdsl_spirv.dialects.spirv.pointers import SCOPE, SCOPE_SPELLING, MemoryOperand, ReadsMemory
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType

Layout: TypeAlias = CooperativeMatrixLayout | CooperativeMatrixLayoutAttr | SymbolRefAttr | str
"""A layout, or the symbol of a specialization constant with the layout."""


LAYOUT = or_symbol(in_brackets(CooperativeMatrixLayoutAttr))
"""The spelling of a layout: `<RowMajor>` or `@layout`."""


@irdl_custom_directive
class MatrixMemory(CustomDirective):
    """Syntax of memory operands: `, %stride, <RowMajor>, <Aligned>, 16, scope(<Workgroup>)`."""

    stride: OptionalOperandVariable
    layout: AttributeVariable
    access: AttributeVariable
    alignment: AttributeVariable
    scope: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parser.parse_punctuation(",")
        self.stride.parse(parser, state)
        if state.operands[self.stride.index]:
            parser.parse_punctuation(",")
        self.layout.set(state, LAYOUT[0](parser))
        while parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("scope"):
                with parser.in_parens():
                    self.scope.set(state, SCOPE_SPELLING[0](parser))
            elif (alignment := parser.parse_optional_integer(allow_boolean=False)) is not None:
                self.alignment.set(state, IntegerAttr(alignment, i32))
            else:
                access = MemoryAccessAttr.parse_parameter(parser)
                self.access.set(state, MemoryAccessAttr(access))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        stride, properties = self.stride.get(op), op.properties
        if stride is not None:
            printer.print_string(", ")
            printer.print_operand(stride)
        printer.print_string(", ")
        LAYOUT[1](printer, properties[self.layout.name])
        access = properties.get(self.access.name)
        if isinstance(access, MemoryAccessAttr):
            printer.print_string(", ")
            access.print_parameter(printer)
        alignment = properties.get(self.alignment.name)
        if isinstance(alignment, IntegerAttr):
            printer.print_string(f", {alignment.value.data}")
        scope = properties.get(self.scope.name)
        if scope is not None:
            printer.print_string(", scope(")
            SCOPE_SPELLING[1](printer, scope)
            printer.print_string(")")


class MatrixMemoryOperation(SPIRVOp, ABC):
    """
    Loads or stores a cooperative matrix, whose row (or column) i begins at `pointer[i * stride]`.

    The stride counts elements of the pointee type (CM-13).
    """

    FIELDS: ClassVar[Mapping[str, str]] = {"memory_layout": "matrix_layout"}

    pointer = operand_def()
    stride = opt_operand_def()
    matrix_layout = prop_def(
        AnyOf((BaseAttr(CooperativeMatrixLayoutAttr), FlatSymbolRefAttrConstr))
    )
    memory_operand = opt_prop_def(MemoryAccessAttr)
    alignment = opt_prop_def(IntegerAttr)
    memory_scope = opt_prop_def(SCOPE)
    custom_directives = (MatrixMemory,)

    def _verify_memory(self, *, store: bool) -> None:
        rules.cm_10_pointee(self.pointer.type)
        rules.cm_14_optional_operands(self.stride, self.memory_operand)
        rules.cm_11_layout(self.matrix_layout, self.stride)
        rules.cm_12_static_stride(self.stride, minimum=1 if store else 0)
        rules.cm_15_memory_operand(self.memory_operand, store=store)
        operand = MemoryOperand(self.memory_operand, self.alignment, self.memory_scope)
        operand.verify(MemoryAccess.None_, self.name)


class CooperativeMatrixLoadOp(MatrixMemoryOperation, name="spirv.KHR.CooperativeMatrixLoad"):
    """
    Loads a matrix from memory.

    `spirv.KHR.CooperativeMatrixLoad %p, %st, <RowMajor> : !spirv.ptr<f16, Workgroup>, i32 -> ...`
    """

    result = result_def()

    traits = traits_def(ReadsMemory())
    assembly_format = (
        "$pointer custom<MatrixMemory>($stride, $matrix_layout, $memory_operand, $alignment, "
        "$memory_scope) attr-dict `:` type($pointer) (`,` type($stride)^)? `->` type($result)"
    )

    def __init__(
        self,
        pointer: Value,
        stride: Value | None,
        layout: Layout,
        result_type: CooperativeMatrixType,
        memory_operand: MemoryAccess | None = None,
        alignment: int | None = None,
        memory_scope: Scope | None = None,
    ):
        super().__init__(
            pointer, layout, result_type, stride, memory_operand, alignment, memory_scope
        )

    def verify_(self) -> None:
        rules.cm_10_matrix("the result", self.result.type, "spirv.Load")
        self._verify_memory(store=False)


class CooperativeMatrixStoreOp(MatrixMemoryOperation, name="spirv.KHR.CooperativeMatrixStore"):
    """
    Stores a matrix to memory.

    `spirv.KHR.CooperativeMatrixStore %p, %m, %st, <RowMajor> : !spirv.ptr<f16, ...>, ..., i32`
    """

    pointer = operand_def()
    object = operand_def()
    stride = opt_operand_def()

    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$pointer `,` $object custom<MatrixMemory>($stride, $matrix_layout, $memory_operand, "
        "$alignment, $memory_scope) attr-dict `:` "
        "type($pointer) `,` type($object) (`,` type($stride)^)?"
    )

    def __init__(
        self,
        pointer: Value,
        object: Value,
        stride: Value | None,
        layout: Layout,
        memory_operand: MemoryAccess | None = None,
        alignment: int | None = None,
        memory_scope: Scope | None = None,
    ):
        super().__init__(pointer, layout, object, stride, memory_operand, alignment, memory_scope)

    def verify_(self) -> None:
        rules.cm_10_matrix("the object", self.object.type, "spirv.Store")
        self._verify_memory(store=True)


class CooperativeMatrixMulAddOp(SPIRVOp, name="spirv.KHR.CooperativeMatrixMulAdd", result="c"):
    """
    Computes `a * b + c` of matrices MxK, KxN and MxN (SPV_KHR_cooperative_matrix, 3.42.13).

    `spirv.KHR.CooperativeMatrixMulAdd %a, %b, %c, <ASigned|AccSat> : A, B -> C`. If the result and
    C have different component types, the types are `A, B, C -> Result`.
    """

    a = operand_def()
    b = operand_def()
    c = operand_def()
    matrix_operands = opt_prop_def(CooperativeMatrixOperandsAttr)
    result = result_def()

    traits = traits_def(NoMemoryEffect())
    custom_directives = (FactorsAndSum,)
    assembly_format = (
        "$a `,` $b `,` $c (`,` $matrix_operands^)? attr-dict `:` "
        "custom<FactorsAndSum>(type(operands), type($result))"
    )

    def __init__(
        self,
        a: Value,
        b: Value,
        c: Value,
        matrix_operands: CooperativeMatrixOperands | None = None,
        result_type: Attribute | None = None,
    ):
        super().__init__(a, b, c, matrix_operands or None, result_type)

    def verify_(self) -> None:
        types = (self.a.type, self.b.type, self.c.type, self.result.type)
        rules.cm_20_mul_add_shapes(*types)
        matrices = [t for t in types if isinstance(t, CooperativeMatrixType)]
        rules.cm_21_operands(self.matrix_operands, matrices)


class CooperativeMatrixLengthOp(SPIRVOp, name="spirv.KHR.CooperativeMatrixLength", result=i32):
    """
    The number of components of a matrix that each invocation stores (CM-18).

    `spirv.KHR.CooperativeMatrixLength : !spirv.coopmatrix<16x16xf32, Subgroup, MatrixAcc>`
    """

    FIELDS: ClassVar[Mapping[str, str]] = {"type": "cooperative_matrix_type"}

    cooperative_matrix_type = prop_def(TypeAttribute)
    result = result_def()

    traits = traits_def(NoMemoryEffect())

    def verify_(self) -> None:
        rules.cm_17_length(self.result.type, self.cooperative_matrix_type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        properties = {"cooperative_matrix_type": parser.parse_type()}
        return cls.create(properties=properties, attributes=attributes, result_types=[i32])

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.cooperative_matrix_type)
