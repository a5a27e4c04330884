"""
Custom directives: the pieces of MLIR's syntax that declarative formats have no word for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.memory_operands import MemoryOperand
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.types import StructType


def _parse_types(parser: Parser) -> list[Attribute]:
    return parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)


def _print_types(printer: Printer, state: PrintingState, types: Sequence[Attribute]) -> None:
    state.print_whitespace(printer)
    printer.print_list(types, printer.print_attribute)


class TypeAndDerived(CustomDirective, ABC):
    """A type that is written, and types that follow from it and are not."""

    written: TypeDirective
    derived: TypeDirective

    @abstractmethod
    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        """The types that are not written. Raises `VerifyException` where there are none."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        type = parser.parse_type()
        try:
            derived = self.derive(type, state)
        except VerifyException as error:
            parser.raise_error(str(error), start, parser.pos)
        self.written.set(state, (type,))
        self.derived.set(state, derived)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.written.print(printer, state, op)


@irdl_custom_directive
class VectorAndElement(TypeAndDerived):
    """A vector's type, from which its components' follows."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        return (element_of(type),)


@irdl_custom_directive
class PairAndMembers(TypeAndDerived):
    """The type of a struct of two members, from which theirs follows."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        if not isinstance(type, StructType) or len(type.member_types) != 2:
            raise VerifyException("expected a struct of two members of one type")
        return (type.member_types[0],) * 2


@irdl_custom_directive
class SameType(TypeAndDerived):
    """A type that another value has, too."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        return (type,)


@irdl_custom_directive
class OneOrTwoTypes(CustomDirective):
    """`T` where both values have it, else `T1, T2`."""

    first: TypeDirective
    second: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = _parse_types(parser)
        self.first.set(state, types[:1])
        self.second.set(state, types[-1:])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        types = (*self.first.get(op), *self.second.get(op))
        _print_types(printer, state, types[:1] if types[0] == types[1] else types)


@irdl_custom_directive
class FactorsAndSum(CustomDirective):
    """`A, B -> R`, or `A, B, C -> R` where the addend's type is not the result's."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        types = _parse_types(parser)
        if len(types) not in (2, 3):
            parser.raise_error("expected the types of two factors", start, parser.pos)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        self.operands.set(state, [*types, result][:3])
        self.result.set(state, (result,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        types, (result,) = self.operands.get(op), self.result.get(op)
        _print_types(printer, state, types[:2] if types[2] == result else types)
        printer.print_string(" -> ")
        printer.print_attribute(result)


@irdl_custom_directive
class Indices(CustomDirective):
    """`[0 : i32, 1 : i32]`, without a space before."""

    indices: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        indices = parser.parse_attribute()
        if not isinstance(indices, ArrayAttr) or not all(
            isinstance(index, IntegerAttr) for index in indices
        ):
            parser.raise_error("expected indices such as [0 : i32, 1 : i32]", start, parser.pos)
        self.indices.set(state, indices)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        printer.print_attribute(op.properties[self.indices.name])


@irdl_custom_directive
class MemoryOperands(CustomDirective):
    """`["Volatile|Aligned", 4]`, or nothing."""

    access: AttributeVariable
    alignment: AttributeVariable
    scope: AttributeVariable

    def _operand(self, op: IRDLOperation) -> MemoryOperand:
        variables = (self.access, self.alignment, self.scope)
        return MemoryOperand(*(op.properties.get(v.name) for v in variables))  # pyright: ignore[reportArgumentType]

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operand = MemoryOperand.parse_optional(parser)
        for variable, value in (
            (self.access, operand.access),
            (self.alignment, operand.alignment),
            (self.scope, operand.scope),
        ):
            if value is not None:
                variable.set(state, value)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self._operand(op).print(printer)

    def is_present(self, op: IRDLOperation) -> bool:
        return self._operand(op).access is not None

    def is_anchorable(self) -> bool:
        return True
