"""
SPV_NV_cooperative_vector: long vectors times matrices in memory, and accumulation for training.

The numbers that describe the matrix come from constant instructions and are written in
parentheses: `spirv.NV.CooperativeVectorMatrixMul %x, %w[%at] (input_interpretation = Float16NV,
..., m = 16, k = 32, memory_layout = RowMajorNV, transpose = false) : !spirv.coopvec<32 x f16>,
!spirv.ptr<...>, i32 -> !spirv.coopvec<16 x f16>`. MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Self

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import BOOLEAN, Spelling
from xdsl_spirv.dialects.spirv.attributes import (
    ComponentTypeAttr,
    CooperativeMatrixOperandsAttr,
    CooperativeVectorMatrixLayoutAttr,
    name_of,
)
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import MemoryOperands, is_integer
from xdsl_spirv.dialects.spirv.enums import CooperativeVectorMatrixLayout
from xdsl_spirv.dialects.spirv.pointers import (
    MAKE_AVAILABLE,
    MAKE_VISIBLE,
    POINTER,
    MemoryAccessing,
    ReadsMemory,
)
from xdsl_spirv.dialects.spirv.settings import (
    INTEGER,
    NUMBER,
    enumerant,
    parse_settings,
    print_settings,
)
from xdsl_spirv.dialects.spirv.types import known_size
from xdsl_spirv.dialects.spirv.types_declared import CooperativeVectorType

OFFSET_WIDTH = 32
"""Bits of an offset into a matrix or bias. The offset counts bytes."""


def _parse_place(parser: Parser) -> list[UnresolvedOperand]:
    place = [parser.parse_unresolved_operand()]
    with parser.in_square_brackets():
        place.append(parser.parse_unresolved_operand())
    return place


def _print_place(printer: Printer, pointer: SSAValue, offset: SSAValue) -> None:
    printer.print_operand(pointer)
    printer.print_string("[")
    printer.print_operand(offset)
    printer.print_string("]")


def _check_offset(op: Operation, offset: SSAValue) -> None:
    if not is_integer(offset.type) or getattr(offset.type, "bitwidth", 0) != OFFSET_WIDTH:
        raise VerifyException(f"{op.name}: an offset must be a 32-bit integer, not {offset.type}")


class VectorTimesMatrix(SPIRVOp, ABC):
    """
    A vector of K components times a matrix of M rows and K columns in memory.

    Each class declares the operands before the stride, in the grammar's order. `PLACES` lists the
    pairs of pointer and offset.
    """

    PLACES: ClassVar[int]
    SETTINGS: ClassVar[Mapping[str, Spelling]]
    input_interpretation = prop_def(enumerant(ComponentTypeAttr))
    matrix_interpretation = prop_def(enumerant(ComponentTypeAttr))
    m = prop_def(NUMBER)
    k = prop_def(NUMBER)
    memory_layout = prop_def(enumerant(CooperativeVectorMatrixLayoutAttr))
    transpose = prop_def(NUMBER)
    matrix_operands = opt_prop_def(CooperativeMatrixOperandsAttr)
    result = result_def(CooperativeVectorType)
    traits = traits_def(ReadsMemory())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        operands = [parser.parse_unresolved_operand()]
        for _ in range(cls.PLACES):
            parser.parse_punctuation(",")
            operands += _parse_place(parser)
        properties = parse_settings(parser, cls.SETTINGS)
        if parser.parse_optional_keyword("stride"):
            operands.append(parser.parse_unresolved_operand())
        if parser.parse_optional_punctuation(","):
            mask = CooperativeMatrixOperandsAttr.parse_parameter(parser)
            properties["matrix_operands"] = CooperativeMatrixOperandsAttr(mask)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        return cls.create(
            operands=parser.resolve_operands(operands, types, start),
            properties=properties,
            attributes=attributes,
            result_types=[parser.parse_type()],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operands[0])
        for place in range(self.PLACES):
            printer.print_string(", ")
            _print_place(printer, *self.operands[1 + 2 * place : 3 + 2 * place])
        print_settings(printer, self.properties, self.SETTINGS)
        if len(self.operands) > 1 + 2 * self.PLACES:
            printer.print_string(" stride ")
            printer.print_operand(self.operands[-1])
        if self.matrix_operands is not None:
            printer.print_string(", ")
            self.matrix_operands.print_parameter(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        for place in range(self.PLACES):
            _check_offset(self, self.operands[2 + 2 * place])
        type_ = self.result.type
        assert isinstance(type_, CooperativeVectorType)  # the result's constraint
        rows, length = self.m, known_size(type_.length)
        if isinstance(rows, IntegerAttr) and length not in (None, rows.value.data):
            raise VerifyException(
                f"{self.name} must return one component for each of {rows.value.data} rows, "
                f"not {type_}"
            )
        layout, strided = self.memory_layout, len(self.operands) > 1 + 2 * self.PLACES
        if isinstance(layout, CooperativeVectorMatrixLayoutAttr):
            optimal = layout.data in (
                CooperativeVectorMatrixLayout.InferencingOptimalNV,
                CooperativeVectorMatrixLayout.TrainingOptimalNV,
            )
            if not optimal and not strided:
                raise VerifyException(
                    f"{self.name}: the layout {layout.data.name} needs a stride, in bytes"
                )


class CooperativeVectorMatrixMulOp(VectorTimesMatrix, name="spirv.NV.CooperativeVectorMatrixMul"):
    """OpCooperativeVectorMatrixMulNV: multiplies a matrix by a vector."""

    PLACES: ClassVar[int] = 1
    SETTINGS: ClassVar[Mapping[str, Spelling]] = {
        "input_interpretation": name_of(ComponentTypeAttr),
        "matrix_interpretation": name_of(ComponentTypeAttr),
        "m": INTEGER,
        "k": INTEGER,
        "memory_layout": name_of(CooperativeVectorMatrixLayoutAttr),
        "transpose": BOOLEAN,
    }
    input = operand_def()
    matrix = operand_def(POINTER)
    matrix_offset = operand_def()
    matrix_stride = opt_operand_def()


class CooperativeVectorMatrixMulAddOp(
    VectorTimesMatrix, name="spirv.NV.CooperativeVectorMatrixMulAdd"
):
    """OpCooperativeVectorMatrixMulAddNV: matrix times vector plus a bias in memory."""

    PLACES: ClassVar[int] = 2
    SETTINGS: ClassVar[Mapping[str, Spelling]] = {
        "input_interpretation": name_of(ComponentTypeAttr),
        "matrix_interpretation": name_of(ComponentTypeAttr),
        "bias_interpretation": name_of(ComponentTypeAttr),
        "m": INTEGER,
        "k": INTEGER,
        "memory_layout": name_of(CooperativeVectorMatrixLayoutAttr),
        "transpose": BOOLEAN,
    }
    input = operand_def()
    matrix = operand_def(POINTER)
    matrix_offset = operand_def()
    bias = operand_def(POINTER)
    bias_offset = operand_def()
    matrix_stride = opt_operand_def()
    bias_interpretation = prop_def(enumerant(ComponentTypeAttr))


class CooperativeVectorLoadOp(MemoryAccessing, name="spirv.NV.CooperativeVectorLoad"):
    """
    Loads a vector from memory.

    `spirv.NV.CooperativeVectorLoad %p[%offset] : pointer type, i32 -> !spirv.coopvec<...>`.
    """

    pointer = operand_def(POINTER)
    offset = operand_def()
    result = result_def(CooperativeVectorType)
    traits = traits_def(ReadsMemory())
    custom_directives = (MemoryOperands,)
    assembly_format = (
        "$pointer `[` $offset `]` custom<MemoryOperands>($memory_access, $alignment, "
        "$memory_scope) attr-dict `:` type($pointer) `,` type($offset) `->` type($result)"
    )

    def verify_(self) -> None:
        _check_offset(self, self.offset)
        self.memory.verify(MAKE_AVAILABLE, "a load")


class CooperativeVectorStoreOp(MemoryAccessing, name="spirv.NV.CooperativeVectorStore"):
    """
    Stores a vector to memory.

    `spirv.NV.CooperativeVectorStore %p[%at], %v : pointer type, i32, !spirv.coopvec<...>`.
    """

    pointer = operand_def(POINTER)
    offset = operand_def()
    object = operand_def(CooperativeVectorType)
    traits = traits_def(MemoryWriteEffect())
    custom_directives = (MemoryOperands,)
    assembly_format = (
        "$pointer `[` $offset `]` `,` $object custom<MemoryOperands>($memory_access, $alignment, "
        "$memory_scope) attr-dict `:` type($pointer) `,` type($offset) `,` type($object)"
    )

    def verify_(self) -> None:
        _check_offset(self, self.offset)
        self.memory.verify(MAKE_VISIBLE, "a store")


class CooperativeVectorOuterProductAccumulateOp(
    SPIRVOp, name="spirv.NV.CooperativeVectorOuterProductAccumulate"
):
    """
    Adds the outer product of two vectors to a matrix in memory, each component atomically.

    `spirv.NV.CooperativeVectorOuterProductAccumulate %p[%at], %a, %b (memory_layout =
    TrainingOptimalNV, matrix_interpretation = Float16NV) : types`. A stride follows the
    parentheses.
    """

    SETTINGS: ClassVar[Mapping[str, Spelling]] = {
        "memory_layout": name_of(CooperativeVectorMatrixLayoutAttr),
        "matrix_interpretation": name_of(ComponentTypeAttr),
    }
    pointer = operand_def(POINTER)
    offset = operand_def()
    a = operand_def(CooperativeVectorType)
    b = operand_def(CooperativeVectorType)
    matrix_stride = opt_operand_def()
    memory_layout = prop_def(enumerant(CooperativeVectorMatrixLayoutAttr))
    matrix_interpretation = prop_def(enumerant(ComponentTypeAttr))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        operands = _parse_place(parser)
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        properties = parse_settings(parser, cls.SETTINGS)
        if parser.parse_optional_keyword("stride"):
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = parser.resolve_operands(operands, types, start)
        return cls.create(operands=values, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_place(printer, self.pointer, self.offset)
        for operand in (self.a, self.b):
            printer.print_string(", ")
            printer.print_operand(operand)
        print_settings(printer, self.properties, self.SETTINGS)
        if self.matrix_stride is not None:
            printer.print_string(" stride ")
            printer.print_operand(self.matrix_stride)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operand_types, printer.print_attribute)

    def verify_(self) -> None:
        _check_offset(self, self.offset)
        elements: list[Attribute] = [
            t.element_type for t in self.operand_types if isinstance(t, CooperativeVectorType)
        ]
        if elements[0] != elements[1]:
            raise VerifyException(
                f"{self.name} takes vectors with equal component types, not {self.a.type} and "
                f"{self.b.type}"
            )


class CooperativeVectorReduceSumAccumulateOp(
    SPIRVOp, name="spirv.NV.CooperativeVectorReduceSumAccumulate"
):
    """
    Adds a vector to a vector in memory, each component atomically.

    `spirv.NV.CooperativeVectorReduceSumAccumulate %p[%at], %v : !spirv.ptr<...>, i32,
    !spirv.coopvec<16 x f16>`.
    """

    pointer = operand_def(POINTER)
    offset = operand_def()
    v = operand_def(CooperativeVectorType)
    assembly_format = (
        "$pointer `[` $offset `]` `,` $v attr-dict `:` "
        "type($pointer) `,` type($offset) `,` type($v)"
    )

    def verify_(self) -> None:
        _check_offset(self, self.offset)
