"""
Base classes of the operation families: allowed operand types, and the syntax of types.

The method `verify_` of a family checks types. Its messages give the required and the given types.
The declarative constraints only require equal types where MLIR's syntax prints one type for several
values. Custom directives cover MLIR's syntax that declarative formats cannot express.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, BFloat16Type, IntegerAttr, IntegerType, VectorType, i1
from xdsl.ir import Attribute, Operation
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
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.pointers import MemoryOperand
from xdsl_spirv.dialects.spirv.rules import element_of
from xdsl_spirv.dialects.spirv.rules_types import is_integer, refuse
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, FloatType, MatrixType, StructType


def is_bool(type_: Attribute) -> bool:
    """True for SPIR-V's Boolean type, `i1`."""
    return type_ == i1


def is_float(type_: Attribute) -> bool:
    """True for a float of any encoding."""
    return isinstance(type_, FloatType)


def is_ieee_float(type_: Attribute) -> bool:
    """True for floats with arithmetic: IEEE 754 binary16, binary32 and binary64."""
    return is_float(type_) and not isinstance(type_, BFloat16Type) and width_of(type_) >= 16


def is_numeric(type_: Attribute) -> bool:
    """True for integers and floats."""
    return is_integer(type_) or is_float(type_)


def width_of(type_: Attribute) -> int:
    """Returns the bits of an integer or float type. Returns 0 for other types."""
    if isinstance(type_, IntegerType):
        return type_.width.data
    return type_.bitwidth if isinstance(type_, FloatType) else 0


def component_count(type_: Attribute) -> int:
    """Returns the number of components of a vector. Returns 1 for a scalar."""
    return type_.get_shape()[0] if isinstance(type_, VectorType) else 1


def with_element(type_: Attribute, element: Attribute) -> Attribute:
    """Returns `element`, or a vector of it with as many components as the vector `type_` has."""
    if isinstance(type_, VectorType):
        return VectorType(element, type_.get_shape())
    return element


def signless(type_: Attribute) -> Attribute:
    """
    Removes the signedness of an integer type or a vector of integers. Returns other types
    unchanged.
    """
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
    Raises `VerifyException` if `predicate` rejects the component type of an operand.

    `expected` describes the accepted types in the message. `matrices` allows cooperative matrices.
    """
    for type_ in operands:
        if isinstance(type_, VectorType):
            if type_.get_num_dims() != 1:
                raise VerifyException(f"{op.name} takes one-dimensional vectors, not {type_}")
        elif isinstance(type_, CooperativeMatrixType) and not matrices:
            refuse(
                "CM-26",
                f"{op.name} takes scalars and vectors, not {type_}",
                "use an operation that accepts cooperative matrices",
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
    """
    Checks the operand types of arithmetic: bfloat16 is not allowed (BF-09), and matrices must have
    one type (CM-26).
    """
    if floating:
        rules.bf_09_no_arithmetic(types)
    if matrices:
        rules.cm_26_arithmetic(types, floating=floating)
    predicate, expected = (is_ieee_float, "floating-point") if floating else (is_integer, "integer")
    require(op, types, predicate, expected, matrices=matrices)


class UnaryOperation(SPIRVOp, ABC):
    """An operation with one operand and a result of the same type: `spirv.X %a : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand `:` type($operand) attr-dict"


class BinaryOperation(SPIRVOp, ABC):
    """An operation with two operands and a result of the same type: `spirv.X %a, %b : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    operand_1 = operand_def(T)
    operand_2 = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand_1 `,` $operand_2 attr-dict `:` type($result)"


class TernaryOperation(SPIRVOp, ABC):
    """An operation with three operands and a result of one type: `spirv.X %x, %y, %z : type`."""

    BY_SIGNATURE: ClassVar[bool] = True
    T: ClassVar = VarConstraint("T", AnyAttr())

    x = operand_def(T)
    y = operand_def(T)
    z = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$x `,` $y `,` $z attr-dict `:` type($result)"


class Cast(SPIRVOp, ABC):
    """A conversion: `spirv.X %a : operand type to result type`."""

    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


@irdl_custom_directive
class ComparedTypes(CustomDirective):
    """
    Syntax of the operand types of a comparison: `T` if they are equal, otherwise `(T1, T2)`. The
    result type is not written.
    """

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


class Predicating(SPIRVOp, ABC, result=lambda t: with_element(t, i1)):
    """
    An operation with a Boolean result for each component: `spirv.X %a, %b : operand type`.

    Integer types of different signedness are written in parentheses: `: (i32, si32)`. The result
    type, which is not printed, is `i1` in the operands' shape.
    """

    BY_SIGNATURE: ClassVar[bool] = True
    result = result_def()
    traits = traits_def(Pure())
    custom_directives = (ComparedTypes,)
    assembly_format = "operands `:` custom<ComparedTypes>(type(operands), type($result)) attr-dict"

    def check_types(self, predicate: Predicate, expected: str) -> None:
        """
        Checks component types, which must be equal except for signedness, and the result's shape.
        """
        types = [o.type for o in self.operands]
        require(self, types, predicate, expected)
        if any(signless(t) != signless(types[0]) for t in types):
            raise VerifyException(
                f"{self.name} must compare values of equal types, not {types[0]} and {types[1]}"
            )
        wanted = with_element(types[0], i1)
        if self.result.type != wanted:
            raise VerifyException(
                f"{self.name} must return {wanted} for {types[0]}, not {self.result.type}"
            )


class UnaryPredicate(Predicating, ABC):
    """A predicate of one value, applied to each component."""

    operand = operand_def()


class BinaryPredicate(Predicating, ABC):
    """A comparison of two values, component by component."""

    operand_1 = operand_def()
    operand_2 = operand_def()


def _parse_types(parser: Parser) -> list[Attribute]:
    return parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)


def _print_types(printer: Printer, state: PrintingState, types: Sequence[Attribute]) -> None:
    state.print_whitespace(printer)
    printer.print_list(types, printer.print_attribute)


class TypeAndDerived(CustomDirective, ABC):
    """Base class of syntax that writes one type, from which all other types follow."""

    written: TypeDirective
    derived: TypeDirective

    @abstractmethod
    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        """
        Returns the types that are not written. Raises `VerifyException` if they do not follow from
        `type`.
        """

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
    """Syntax that writes only the type of a vector. The component type follows from it."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        return (element_of(type),)


@irdl_custom_directive
class PairAndMembers(TypeAndDerived):
    """
    Syntax that writes the type of a struct with two members. The types of the members follow from
    it.
    """

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        if not isinstance(type, StructType) or len(type.member_types) != 2:
            raise VerifyException("expected a struct of two members of one type")
        return (type.member_types[0],) * 2


@irdl_custom_directive
class SameType(TypeAndDerived):
    """Syntax that omits a type that equals the type of another value."""

    written: TypeDirective
    derived: TypeDirective

    def derive(self, type: Attribute, state: ParsingState) -> Sequence[Attribute]:
        return (type,)


@irdl_custom_directive
class OneOrTwoTypes(CustomDirective):
    """Syntax of two types: `T` if they are equal, otherwise `T1, T2`."""

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
    """
    Syntax of a product's types: `A, B -> R`. If the addend's type differs from the result type: `A,
    B, C -> R`.
    """

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
    """Syntax of literal indices: `[0 : i32, 1 : i32]`, without a space before the bracket."""

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
    """Syntax of optional memory operands: `["Volatile|Aligned", 4]`."""

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
