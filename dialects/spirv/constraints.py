"""
Base classes of the families: the types that operands may have, and the syntax that follows.

A family checks types in `verify_`, in words: the instruction's types, then the given ones. The
declarative types only tie operands and results that have one type, because MLIR's syntax prints
that type once. Custom directives are the pieces of MLIR's syntax that declarative formats have no
word for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BFloat16Type, IntegerAttr, IntegerType, VectorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AnyAttr, IRDLOperation, VarConstraint, operand_def, result_def, traits_def
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.pointers import MemoryOperand
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.rules_types import is_integer, refuse
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, FloatType, MatrixType, StructType


def is_bool(type_: Attribute) -> bool:
    """Whether a type is SPIR-V's Boolean."""
    return type_ == i1


def is_float(type_: Attribute) -> bool:
    """True for a float of any encoding."""
    return isinstance(type_, FloatType)


def is_ieee_float(type_: Attribute) -> bool:
    """A float that has arithmetic: IEEE 754 binary16, binary32 or binary64."""
    return is_float(type_) and not isinstance(type_, BFloat16Type) and width_of(type_) >= 16


def is_numeric(type_: Attribute) -> bool:
    """An integer or a float."""
    return is_integer(type_) or is_float(type_)


def width_of(type_: Attribute) -> int:
    """Returns the bits of an integer or float type; 0 for other types."""
    if isinstance(type_, IntegerType):
        return type_.width.data
    return type_.bitwidth if isinstance(type_, FloatType) else 0


def component_count(type_: Attribute) -> int:
    """Components of a vector; 1 for a scalar."""
    return type_.get_shape()[0] if isinstance(type_, VectorType) else 1


def with_element(type_: Attribute, element: Attribute) -> Attribute:
    """The scalar or vector type of the same shape with another component."""
    if isinstance(type_, VectorType):
        return VectorType(element, type_.get_shape())
    return element


def signless(type_: Attribute) -> Attribute:
    """An integer scalar or vector without its signedness; any other type as it is."""
    element = rules.element_of(type_)
    if not isinstance(element, IntegerType) or isinstance(type_, CooperativeMatrixType):
        return type_
    return with_element(type_, IntegerType(element.width))


Predicate = Callable[[Attribute], bool]


def require(
    op: Operation,
    operands: Sequence[Attribute],
    predicate: Predicate,
    expected: str,
    *,
    matrices: bool = False,
) -> None:
    """
    Refuse operands whose components `predicate` does not accept.

    `expected` names the components in the message; cooperative matrices pass only with `matrices`.
    """
    for type_ in operands:
        if isinstance(type_, VectorType):
            if type_.get_num_dims() != 1:
                raise VerifyException(f"{op.name} takes one-dimensional vectors, not {type_}")
        elif isinstance(type_, CooperativeMatrixType) and not matrices:
            refuse(
                "CM-26",
                f"{op.name} takes scalars and vectors, not {type_}",
                "compute on the components, or outside the matrix",
            )
        elif isinstance(type_, MatrixType):
            raise VerifyException(f"{op.name} takes scalars and vectors, not {type_}")
        if not predicate(rules.element_of(type_)):
            raise VerifyException(
                f"{op.name} takes {expected} scalars or vectors"
                f"{' or cooperative matrices' if matrices else ''}, not {type_}"
            )


def check_arithmetic(
    op: Operation, types: Sequence[Attribute], *, floating: bool, matrices: bool
) -> None:
    """Checks rules BF-09 and CM-26, then the types that the arithmetic instruction takes."""
    if floating:
        rules.bf_09_no_arithmetic(types)
    if matrices:
        rules.cm_26_arithmetic(types, floating=floating)
    predicate, expected = (is_ieee_float, "floating-point") if floating else (is_integer, "integer")
    require(op, types, predicate, expected, matrices=matrices)


class UnaryOperation(SPIRVOp, ABC):
    """One operand, a result of its type: `spirv.X %a : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand `:` type($operand) attr-dict"

    def __init__(self, operand: Value):
        super().__init__([operand], [SSAValue.get(operand).type])


class BinaryOperation(SPIRVOp, ABC):
    """Two operands and a result of one type: `spirv.X %a, %b : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    operand_1 = operand_def(T)
    operand_2 = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand_1 `,` $operand_2 attr-dict `:` type($result)"

    def __init__(self, operand_1: Value, operand_2: Value):
        super().__init__([operand_1, operand_2], [SSAValue.get(operand_1).type])


class TernaryOperation(SPIRVOp, ABC):
    """Three operands and a result of one type: `spirv.X %x, %y, %z : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    x = operand_def(T)
    y = operand_def(T)
    z = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y `,` $z attr-dict `:` type($result)"

    def __init__(self, x: Value, y: Value, z: Value):
        super().__init__([x, y, z], [SSAValue.get(x).type])


class Cast(SPIRVOp, ABC):
    """`spirv.X %a : operand type to result type`."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"

    def __init__(self, operand: Value, result_type: Attribute):
        super().__init__([operand], [result_type])


@irdl_custom_directive
class ComparedTypes(CustomDirective):
    """`T` where all operands have it, else `(T1, T2)`; the result's type follows."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        types = parser.parse_optional_comma_separated_list(
            Parser.Delimiter.PAREN, parser.parse_type
        )
        if types is None:
            types = [parser.parse_type()] * len(state.operands)
        self.operands.set(state, types)
        self.result.set(state, [with_element(type_, i1) for type_ in types[:1]])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        types = self.operands.get(op)
        if all(t == types[0] for t in types):
            printer.print_attribute(types[0])
            return
        with printer.in_parens():
            printer.print_list(types, printer.print_attribute)


class Predicating(SPIRVOp, ABC):
    """
    Operands of one type, a Boolean for each component: `spirv.X %a, %b : operand type`.

    Integers of several signedness have their types in parentheses: `: (i32, si32)`. The result's
    type is not printed: it is `i1` in the operands' shape.
    """

    BY_SIGNATURE: ClassVar[bool] = True
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (ComparedTypes,)
    assembly_format = "operands `:` custom<ComparedTypes>(type(operands), type($result)) attr-dict"

    def check_types(self, predicate: Predicate, expected: str) -> None:
        """The operands' components, one type but for signedness, and the result's shape."""
        types = [o.type for o in self.operands]
        require(self, types, predicate, expected)
        if any(signless(t) != signless(types[0]) for t in types):
            raise VerifyException(
                f"{self.name} compares values of one type, not {types[0]} and {types[1]}"
            )
        wanted = with_element(types[0], i1)
        if self.result.type != wanted:
            raise VerifyException(
                f"{self.name} gives {wanted} for {types[0]}, not {self.result.type}"
            )


class UnaryPredicate(Predicating, ABC):
    """A question about one value, component by component."""

    operand = operand_def()

    def __init__(self, operand: Value):
        value = SSAValue.get(operand)
        super().__init__([value], [with_element(value.type, i1)])


class BinaryPredicate(Predicating, ABC):
    """A comparison of two values, component by component."""

    operand_1 = operand_def()
    operand_2 = operand_def()

    def __init__(self, operand_1: Value, operand_2: Value):
        value = SSAValue.get(operand_1)
        super().__init__([value, operand_2], [with_element(value.type, i1)])


def _parse_types(parser: Parser) -> list[Attribute]:
    return parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)


def _print_types(printer: Printer, state: PrintingState, types: Sequence[Attribute]) -> None:
    state.print_whitespace(printer)
    printer.print_list(types, printer.print_attribute)


class TypeAndDerived(CustomDirective, ABC):
    """Syntax that writes one type; other types follow from it and are not written."""

    written: TypeDirective
    derived: TypeDirective

    @abstractmethod
    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        """Returns the types that the text leaves out. Raises `VerifyException` if it cannot."""

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
    """Syntax with the vector's type only; the type of its components follows."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        return (element_of(type),)


@irdl_custom_directive
class PairAndMembers(TypeAndDerived):
    """Syntax that writes a two-member struct type; the members' types follow from it."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        if not isinstance(type, StructType) or len(type.member_types) != 2:
            raise VerifyException("expected a struct of two members of one type")
        return (type.member_types[0],) * 2


@irdl_custom_directive
class SameType(TypeAndDerived):
    """Syntax for a type that is equal to another value's type and not written."""

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
