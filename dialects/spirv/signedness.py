"""
Integer operations that accept any signedness, because the instruction determines how bits are read.

For many integer instructions, SPIR-V only requires that operands and result have the same width and
number of components. Each may be signed, unsigned or signless. Equal types are printed once, as in
MLIR. Otherwise, the operands' types and the result type are printed:

    %s = spirv.IAdd %a, %b : i32
    %t = spirv.IAdd %x, %one : (i32, si32) -> i32
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import require, signless
from xdsl_spirv.dialects.spirv.rules_types import is_integer


def check_one_width(op: Operation, types: Sequence[Attribute]) -> None:
    """Raises `VerifyException` if widths or numbers of components differ."""
    if any(signless(t) != signless(types[0]) for t in types):
        spelled = " and ".join(dict.fromkeys(map(str, types)))
        raise VerifyException(
            f"{op.name} needs integers with equal widths and numbers of components, "
            f"not {spelled}; convert with spirv.UConvert or spirv.SConvert"
        )


@irdl_custom_directive
class OneOrEachType(CustomDirective):
    """Syntax of types: `T` if operands and result have equal types, otherwise `(T1, T2) -> T3`."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_type
        )
        if types is None:
            result = parser.parse_type()
            types = [result] * len(state.operands)
        else:
            parser.parse_punctuation("->")
            result = parser.parse_type()
        self.operands.set(state, types)
        self.result.set(state, (result,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        (result,) = self.result.get(op)
        types = self.operands.get(op)
        if any(t != result for t in types):
            with printer.in_parens():
                printer.print_list(types, printer.print_attribute)
            printer.print_string(" -> ")
        printer.print_attribute(result)


@irdl_custom_directive
class BaseAndFurtherTypes(CustomDirective):
    """Syntax of types: `T1, T2`, and `-> T3` if the result type is not `T1`."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        result = parser.parse_type() if parser.parse_optional_punctuation("->") else types[0]
        self.operands.set(state, types)
        self.result.set(state, (result,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        (result,) = self.result.get(op)
        types = self.operands.get(op)
        printer.print_list(types, printer.print_attribute)
        if types[0] != result:
            printer.print_string(" -> ")
            printer.print_attribute(result)


class IntegerOperation(SPIRVOp, ABC, result=lambda first: first):
    """An elementwise operation on integers of one width and any signedness."""

    BY_SIGNATURE: ClassVar[bool] = True
    MATRICES: ClassVar[bool] = False
    """True if operands may be cooperative matrices of one type (rule CM-26 in docs/rules.md)."""

    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (OneOrEachType,)

    def verify_(self) -> None:
        types = [v.type for v in (*self.operands, self.result)]
        if self.MATRICES:
            rules.cm_26_arithmetic(types, floating=False)
        require(self, types, is_integer, "integer", matrices=self.MATRICES)
        check_one_width(self, types)


class IntegerUnary(IntegerOperation, ABC):
    """An integer operation with one operand: `spirv.X %a : type`."""

    operand = operand_def()
    assembly_format = "$operand `:` custom<OneOrEachType>(type(operands), type($result)) attr-dict"


class IntegerBinary(IntegerOperation, ABC):
    """An integer operation with two operands: `spirv.X %a, %b : type`."""

    operand_1 = operand_def()
    operand_2 = operand_def()
    assembly_format = (
        "$operand_1 `,` $operand_2 attr-dict `:` "
        "custom<OneOrEachType>(type(operands), type($result))"
    )


class IntegerTernary(IntegerOperation, ABC):
    """An integer operation with three operands: `spirv.X %x, %y, %z : type`."""

    x = operand_def()
    y = operand_def()
    z = operand_def()
    assembly_format = (
        "$x `,` $y `,` $z attr-dict `:` custom<OneOrEachType>(type(operands), type($result))"
    )
