"""
Represents instructions, types and decorations for which the dialect has no class.

A raw operation has the instruction's name and its operands in the grammar's order, so that no part
of a module is lost. The dialect does not know its meaning. An operand is a value, a symbol, a type,
a constant of the module, an extended instruction set, or a literal (a word or a string).

    %r = spirv.Raw "OpImageRead"(%image, %at, 0) : (!spirv.raw<...>, vector<2xi32>) -> vector<4xf32>
    spirv.RawGlobal @file "OpString"("add.comp")
    spirv.RawGlobal @size "OpSpecConstantOp"("OpIMul", @m, const(4 : i32)) : i32

MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    FunctionType,
    IntAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute, TypedAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, OptionalSymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import ConstantSymbol
from xdsl_spirv.dialects.spirv.enums import BuiltIn, Decoration

VALUE = UnitAttr()
"""Stands for an SSA operand in the list of a raw operation's operands."""


@irdl_attr_definition
class ExtendedSetAttr(Data[str]):
    """An imported extended instruction set, by name."""

    name = "spirv.extended_set"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data)


@irdl_attr_definition
class ConstantRefAttr(ParametrizedAttribute):
    """A constant of the module as an operand: its value and its type."""

    name = "spirv.constant_ref"
    value: Attribute
    type: Attribute

    def __init__(self, value: Attribute, type: Attribute):
        super().__init__(value, type)


def _parse_operand(parser: AttrParser) -> Attribute:
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return IntAttr(number)
    text = parser.parse_optional_str_literal()
    if text is not None:
        return StringAttr(text)
    data = parser.parse_optional_bytes_literal()
    if data is not None:
        return BytesAttr(data)
    symbol = parser.parse_optional_symbol_name()
    if symbol is not None:
        return SymbolRefAttr(symbol)
    if parser.parse_optional_keyword("set"):
        with parser.in_parens():
            return ExtendedSetAttr(parser.parse_str_literal())
    if parser.parse_optional_keyword("const"):
        with parser.in_parens():
            value = parser.parse_attribute()
            if parser.parse_optional_punctuation(":"):
                return ConstantRefAttr(value, parser.parse_type())
        if not isinstance(value, TypedAttribute):
            parser.raise_error("the value of this constant has no type; write const(value : type)")
        return ConstantRefAttr(value, value.get_type())
    return parser.parse_type()


def _print_operand(printer: Printer, operand: Attribute) -> None:
    match operand:
        case IntAttr():
            printer.print_string(str(operand.data))
        case StringAttr():
            printer.print_string_literal(operand.data)
        case BytesAttr():
            printer.print_bytes_literal(operand.data)
        case ExtendedSetAttr():
            printer.print_string("set(")
            printer.print_string_literal(operand.data)
            printer.print_string(")")
        case ConstantRefAttr():
            printer.print_string("const(")
            printer.print_attribute(operand.value)
            value = operand.value
            if not isinstance(value, TypedAttribute) or value.get_type() != operand.type:
                printer.print_string(" : ")
                printer.print_attribute(operand.type)
            printer.print_string(")")
        case _:
            printer.print_attribute(operand)


def _verify_operand(operand: Attribute) -> None:
    literal = IntAttr | StringAttr | BytesAttr | SymbolRefAttr | ExtendedSetAttr | ConstantRefAttr
    if not isinstance(operand, literal | TypeAttribute):
        raise VerifyException(f"{operand} cannot be an operand of a raw operation")


@irdl_attr_definition
class RawType(ParametrizedAttribute, TypeAttribute):
    """
    A type without a class, given by its declaration: `!spirv.raw<"OpTypeImage"(f32, 1, 0, 0, 0, 2,
    4)>`.
    """

    name = "spirv.raw"
    instruction: StringAttr
    layout: ArrayAttr[Attribute]

    def __init__(self, instruction: str, layout: Sequence[Attribute] = ()):
        super().__init__(StringAttr(instruction), ArrayAttr(layout))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            instruction = parser.parse_str_literal()
            layout = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_operand(parser)
            )
        return StringAttr(instruction), ArrayAttr(layout)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.instruction.data)
            with printer.in_parens():
                printer.print_list(self.layout, lambda o: _print_operand(printer, o))

    def verify(self) -> None:
        for operand in self.layout:
            _verify_operand(operand)


class Carried(SPIRVOp, ABC):
    """An instruction inside a function that has no class in the dialect."""

    instruction = prop_def(StringAttr)
    layout = prop_def(ArrayAttr)
    arguments = var_operand_def()
    result = opt_result_def()

    def __init__(
        self,
        instruction: str,
        operands: Sequence[Attribute | SSAValue],
        result_type: Attribute | None = None,
    ):
        """
        Creates the operation. `operands` are in the grammar's order, without result type and
        result.
        """
        layout = [VALUE if isinstance(o, SSAValue) else o for o in operands]
        values = [o for o in operands if isinstance(o, SSAValue)]
        super().__init__(instruction, layout, values, result_type)

    @classmethod
    def parse(cls, parser: Parser) -> Carried:
        instruction = parser.parse_str_literal()
        values: list[UnresolvedOperand] = []

        def operand() -> Attribute:
            value = parser.parse_optional_unresolved_operand()
            if value is None:
                return _parse_operand(parser)
            values.append(value)
            return VALUE

        layout = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        result = None
        if not parser.parse_optional_punctuation("("):
            result = parser.parse_type()
        elif not parser.parse_optional_punctuation(")"):
            result = parser.parse_type()
            parser.parse_punctuation(")")
        resolved = iter(parser.resolve_operands(values, types, start))
        op = cls(instruction, [next(resolved) if o == VALUE else o for o in layout], result)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.instruction.data)
        values = iter(self.arguments)
        with printer.in_parens():
            for i, operand in enumerate(self.layout):
                printer.print_string(", " if i else "")
                if operand == VALUE:
                    printer.print_operand(next(values))
                else:
                    _print_operand(printer, operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : (")
        printer.print_list([v.type for v in self.arguments], printer.print_attribute)
        printer.print_string(") -> ")
        if self.result is None:
            printer.print_string("()")
        elif isinstance(self.result.type, FunctionType):
            # A function type also begins with a parenthesis.
            with printer.in_parens():
                printer.print_attribute(self.result.type)
        else:
            printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        count = 0
        for operand in self.layout:
            if operand == VALUE:
                count += 1
            else:
                _verify_operand(operand)
        if count != len(self.arguments):
            raise VerifyException(
                f"the instruction marks {count} operands as values, but "
                f"{len(self.arguments)} values are given"
            )


class RawOp(Carried):
    """An instruction without a class: `%r = spirv.Raw "OpSizeOf"(%p) : (!spirv.ptr<...>) -> i32`"""


class RawTerminatorOp(Carried):
    """A terminator without a class: `spirv.RawTerminator "OpTerminateInvocation"() : () -> ()`."""

    traits = traits_def(IsTerminator())


class RawGlobalOp(ConstantSymbol):
    """
    An instruction outside of functions without a class. If it has a result, it has a symbol.

    `spirv.RawGlobal @name "OpSpecConstantOp"("OpIAdd", @m, const(1 : i32)) : i32`. The opcode
    operand of OpSpecConstantOp is written as a name.
    """

    sym_name = opt_prop_def(StringAttr)
    instruction = prop_def(StringAttr)
    layout = prop_def(ArrayAttr)
    type = opt_prop_def(TypeAttribute)
    traits = traits_def(OptionalSymbolOpInterface())

    def __init__(
        self,
        sym_name: str | None,
        instruction: str,
        layout: Sequence[Attribute],
        type: Attribute | None = None,
    ):
        """
        Creates the operation. `layout` has the operands in the grammar's order, without result type
        and result.
        """
        super().__init__(instruction, layout, sym_name, type)

    @property
    def workgroup_size(self) -> ConstantRefAttr | None:
        """
        The decorated constant if this operation is the decoration `BuiltIn WorkgroupSize`. None for
        other operations.
        """
        if self.instruction.data != "OpDecorate":
            return None
        target, *rest = self.layout.data
        said = rest == [IntAttr(Decoration.BuiltIn), IntAttr(BuiltIn.WorkgroupSize)]
        return target if said and isinstance(target, ConstantRefAttr) else None

    @property
    def constant_like(self) -> bool:
        """True if the result is a value of the program. False for debug information."""
        return self.type is not None and not self.instruction.data.startswith("OpExtInst")

    @property
    def constant_type(self) -> Attribute:
        if self.type is None:
            raise VerifyException(f"{self.instruction.data} is not a constant")
        return self.type

    @classmethod
    def parse(cls, parser: Parser) -> RawGlobalOp:
        name = parser.parse_optional_symbol_name()
        instruction = parser.parse_str_literal()
        layout = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_operand(parser)
        )
        attributes = parser.parse_optional_attr_dict()
        type = parser.parse_type() if parser.parse_optional_punctuation(":") else None
        op = cls(None if name is None else name.data, instruction, layout, type)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        if self.sym_name is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" ")
        printer.print_string_literal(self.instruction.data)
        with printer.in_parens():
            printer.print_list(self.layout, lambda o: _print_operand(printer, o))
        printer.print_op_attributes(self.attributes)
        if self.type is not None:
            printer.print_string(" : ")
            printer.print_attribute(self.type)

    def verify_(self) -> None:
        for operand in self.layout:
            _verify_operand(operand)


class DecorateOp(SPIRVOp):
    """
    Decorates a block argument (OpPhi): `spirv.Decorate %x {relaxed_precision} : f32`.

    Decorations of an operation's result are attributes of the operation.
    """

    target = operand_def()
    assembly_format = "$target attr-dict `:` type($target)"
