"""
Integers of any signedness: an instruction, not a type, says how bits are read.

Where SPIR-V asks of an integer instruction only that its operands and its result have one width
and one number of components, each of them may be signed, unsigned or signless. One type is printed
once, as MLIR has it; otherwise the operands' types and the result's are:

    %s = spirv.IAdd %a, %b : i32
    %t = spirv.IAdd %x, %one : (i32, si32) -> i32
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.ir import Attribute, Operation, SSAValue
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
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import require, signless
from xdsl_spirv.dialects.spirv.rules_types import is_integer


def check_one_width(op: Operation, types: Sequence[Attribute]) -> None:
    """Refuse types that are not of one width and one number of components."""
    if any(signless(t) != signless(types[0]) for t in types):
        spelled = " and ".join(dict.fromkeys(map(str, types)))
        raise VerifyException(
            f"{op.name} has integers of one width and one number of components throughout, "
            f"not {spelled}; convert with spirv.UConvert or spirv.SConvert"
        )


@irdl_custom_directive
class OneOrEachType(CustomDirective):
    """`T` where all operands and the result have it, else `(T1, T2) -> T3`."""

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
    """`T1, T2`, and `-> T3` only where the result's type is not that of the first operand."""

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


class IntegerOperation(SPIRVOp, ABC):
    """Component by component on integers of one width, each of any signedness."""

    BY_SIGNATURE: ClassVar[bool] = True
    MATRICES: ClassVar[bool] = False
    """Whether cooperative matrices, of one type throughout (CM-26), are taken too."""

    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (OneOrEachType,)

    def __init__(self, *operands: Value, result_type: Attribute | None = None):
        """The result has the type of the first operand unless `result_type` is given."""
        of_first = SSAValue.get(operands[0]).type
        super().__init__(operands, [result_type or of_first])

    def verify_(self) -> None:
        types = [v.type for v in (*self.operands, self.result)]
        if self.MATRICES:
            rules.cm_26_arithmetic(types, floating=False)
        require(self, types, is_integer, "integer", matrices=self.MATRICES)
        check_one_width(self, types)


class IntegerUnary(IntegerOperation, ABC):
    """One operand: `spirv.X %a : type`."""

    operand = operand_def()
    assembly_format = "$operand `:` custom<OneOrEachType>(type(operands), type($result)) attr-dict"


class IntegerBinary(IntegerOperation, ABC):
    """Two operands: `spirv.X %a, %b : type`."""

    operand_1 = operand_def()
    operand_2 = operand_def()
    assembly_format = (
        "$operand_1 `,` $operand_2 attr-dict `:` "
        "custom<OneOrEachType>(type(operands), type($result))"
    )


class IntegerTernary(IntegerOperation, ABC):
    """Three operands: `spirv.X %x, %y, %z : type`."""

    x = operand_def()
    y = operand_def()
    z = operand_def()
    assembly_format = (
        "$x `,` $y `,` $z attr-dict `:` custom<OneOrEachType>(type(operands), type($result))"
    )
