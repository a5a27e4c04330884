"""
GLSL.std.450: instructions with different operand and result types.

They are packing, lengths, matrix operations, and functions with two results (in a struct or through
a pointer).
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import VectorType, f32, f64, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    OperandsDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import (
    UnaryOperation,
    component_count,
    is_ieee_float,
    is_integer,
    require,
    signless,
    with_element,
)
from xdsl_spirv.dialects.spirv.glsl import check_floats
from xdsl_spirv.dialects.spirv.types import MatrixType, PointerType, StructType


@irdl_custom_directive
class TypedOperands(CustomDirective):
    """Syntax of operands that are each followed by their type: `%a : f32, %b : i32`."""

    values: OperandsDirective
    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        types: list[Attribute] = []

        def operand() -> UnresolvedOperand:
            value = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            types.append(parser.parse_type())
            return value

        values = parser.parse_comma_separated_list(parser.Delimiter.NONE, operand)
        if len(values) != len(state.operands):
            cause = f"expected {len(state.operands)} operands, got {len(values)}"
            parser.raise_error(cause, start, parser.pos)
        state.operands = [(value,) for value in values]
        self.types.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        printer.print_list(op.operands, lambda value: _print_typed(printer, value))


def _print_typed(printer: Printer, value: SSAValue) -> None:
    printer.print_operand(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)


class GLTyped(SPIRVOp, ABC):
    """
    An operation with a type after each operand: `spirv.GL.X %a : type, %b : type -> type`.

    Operands have the names of the instruction's operands.
    """

    result = result_def()

    custom_directives = (TypedOperands,)
    assembly_format = "attr-dict custom<TypedOperands>(operands, type(operands)) `->` type($result)"

    def expect(self, what: str, wanted: Attribute, actual: Attribute) -> None:
        """Raises `VerifyException` if types differ. Their signedness may differ."""
        if signless(wanted) != signless(actual):
            raise VerifyException(f"{self.name}: the {what} must be {wanted}, not {actual}")


class GLFMixOp(GLTyped, result="x"):
    """Interpolates linearly: x * (1 - a) + y * a."""

    traits = traits_def(Pure())
    x = operand_def()
    y = operand_def()
    a = operand_def()

    def verify_(self) -> None:
        check_floats(self)
        for what, type_ in (("y", self.y), ("a", self.a), ("result", self.result)):
            self.expect(what, self.x.type, type_.type)


class GLLdexpOp(GLTyped, result="x"):
    """Scales by a power of two: x * 2^exp."""

    traits = traits_def(Pure())
    x = operand_def()
    exp = operand_def()

    def verify_(self) -> None:
        require(self, [self.x.type], is_ieee_float, "floating-point")
        require(self, [self.exp.type], is_integer, "integer")
        self.expect("result", self.x.type, self.result.type)
        if component_count(self.x.type) != component_count(self.exp.type):
            raise VerifyException(
                f"{self.name}: {self.x.type} and {self.exp.type} have different numbers of "
                "components"
            )


class GLRefractOp(GLTyped, result="i"):
    """Refracts an incident vector at a surface with a normal and a ratio of refractive indices."""

    traits = traits_def(Pure())
    i = operand_def()
    n = operand_def()
    eta = operand_def()

    def verify_(self) -> None:
        check_floats(self)
        self.expect("n", self.i.type, self.n.type)
        self.expect("eta", rules.element_of(self.i.type), self.eta.type)
        self.expect("result", self.i.type, self.result.type)


class GLStructForm(GLTyped, ABC):
    """An operation that returns two results in a struct."""

    traits = traits_def(Pure())
    operand = operand_def()

    def __init__(self, operand: Value, result_type: Attribute | None = None):
        value = SSAValue.get(operand)
        result_type = result_type or StructType(self.members(value.type))
        super().__init__(operand=value, result_type=result_type)

    def members(self, operand: Attribute) -> list[Attribute]:
        """Returns the types of the struct's members for an operand type."""
        return [operand, operand]

    def verify_(self) -> None:
        check_floats(self)
        type_ = self.result.type
        members = list(type_.member_types) if isinstance(type_, StructType) else []
        wanted = self.members(self.operand.type)
        if [signless(m) for m in members] != wanted:
            raise VerifyException(
                f"{self.name} must return a struct of ({', '.join(map(str, wanted))}), not {type_}"
            )


class GLModfStructOp(GLStructForm):
    """Splits a float into its fractional and its integer part."""


class GLFrexpStructOp(GLStructForm):
    """Splits a float into a significand in [0.5, 1) and an exponent."""

    def members(self, operand: Attribute) -> list[Attribute]:
        return [operand, with_element(operand, i32)]


class GLPointerForm(GLTyped, ABC, result="operand"):
    """An operation that returns one result and writes a second one through a pointer."""

    operand = operand_def()
    pointer = operand_def(PointerType)
    traits = traits_def(MemoryWriteEffect())

    def written(self) -> Attribute:
        """The type of the written value, without signedness."""
        return self.operand.type

    def verify_(self) -> None:
        require(self, [self.operand.type], is_ieee_float, "floating-point")
        self.expect("result", self.operand.type, self.result.type)
        assert isinstance(self.pointer.type, PointerType)
        self.expect("pointee", self.written(), self.pointer.type.pointee)


class GLModfOp(GLPointerForm):
    """Returns the fractional part of a float and writes the integer part."""


class GLFrexpOp(GLPointerForm):
    """Returns the significand in [0.5, 1) of a float and writes the exponent."""

    def written(self) -> Attribute:
        return with_element(self.operand.type, i32)


class GLPacking(GLTyped, ABC):
    """Converts between a vector and a packed scalar, both of fixed types."""

    traits = traits_def(Pure())
    VECTOR: ClassVar[VectorType]
    PACKED: ClassVar[Attribute] = i32
    PACKS: ClassVar[bool]
    operand = operand_def()

    def __init__(self, operand: Value):
        result = self.PACKED if self.PACKS else self.VECTOR
        super().__init__(operand=operand, result_type=result)

    def verify_(self) -> None:
        source, target = (self.VECTOR, self.PACKED) if self.PACKS else (self.PACKED, self.VECTOR)
        self.expect("operand", source, self.operand.type)
        self.expect("result", target, self.result.type)


class GLPack(GLPacking, ABC):
    """Packs a vector into one scalar."""

    PACKS: ClassVar[bool] = True


class GLUnpack(GLPacking, ABC):
    """Unpacks a vector from one scalar."""

    PACKS: ClassVar[bool] = False


# fmt: off
class GLPackSnorm4x8Op(GLPack, vector=VectorType(f32, [4])): """Packs 4 floats in [-1, 1]."""
class GLPackUnorm4x8Op(GLPack, vector=VectorType(f32, [4])): """Packs 4 floats in [0, 1]."""
class GLPackSnorm2x16Op(GLPack, vector=VectorType(f32, [2])): """Packs 2 floats in [-1, 1]."""
class GLPackUnorm2x16Op(GLPack, vector=VectorType(f32, [2])): """Packs 2 floats in [0, 1]."""
class GLPackHalf2x16Op(GLPack, vector=VectorType(f32, [2])): """Packs two floats as f16."""
class GLPackDouble2x32Op(GLPack, vector=VectorType(i32, [2]), packed=f64):
    """Packs two words into an f64."""
class GLUnpackSnorm4x8Op(GLUnpack, vector=VectorType(f32, [4])):
    """Unpacks four floats in [-1, 1] from bytes."""
class GLUnpackUnorm4x8Op(GLUnpack, vector=VectorType(f32, [4])):
    """Unpacks four floats in [0, 1] from bytes."""
class GLUnpackSnorm2x16Op(GLUnpack, vector=VectorType(f32, [2])):
    """Unpacks two floats in [-1, 1] from 16 bits each."""
class GLUnpackUnorm2x16Op(GLUnpack, vector=VectorType(f32, [2])):
    """Unpacks two floats in [0, 1] from 16 bits each."""
class GLUnpackHalf2x16Op(GLUnpack, vector=VectorType(f32, [2])):
    """Unpacks two floats from f16."""
class GLUnpackDouble2x32Op(GLUnpack, vector=VectorType(i32, [2]), packed=f64):
    """Unpacks two words from an f64."""
# fmt: on


class GLVectorLength(SPIRVOp, ABC, result=rules.element_of):
    """A length or distance of vectors: `spirv.GL.Length %v : vector<3xf32> -> f32`."""

    result = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        check_floats(self)
        element = rules.element_of(self.operands[0].type)
        if self.result.type != element:
            raise VerifyException(f"{self.name} must return {element}, not {self.result.type}")


class GLLengthOp(GLVectorLength):
    """The length of a vector."""

    operand = operand_def()
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"


class GLDistanceOp(GLVectorLength):
    """The distance between two points."""

    p0 = operand_def()
    p1 = operand_def()
    assembly_format = "operands attr-dict `:` type($p0) `,` type($p1) `->` type($result)"


def _square(op: Operation, type_: Attribute) -> MatrixType:
    if not isinstance(type_, MatrixType) or component_count(type_.column_type) != (
        type_.columns.data
    ):
        raise VerifyException(f"{op.name} takes a square matrix, not {type_}")
    return type_


class GLDeterminantOp(SPIRVOp):
    """The determinant of a square matrix."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def verify_(self) -> None:
        matrix = _square(self, self.operand.type)
        if self.result.type != matrix.column_type.element_type:
            raise VerifyException(
                f"{self.name} must return the component type, not {self.result.type}"
            )


class GLMatrixInverseOp(UnaryOperation):
    """The inverse of a square matrix."""

    def verify_(self) -> None:
        _square(self, self.operand.type)
