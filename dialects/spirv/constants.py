"""
Declares constants and specialization constants.

`spirv.Constant` represents OpConstantTrue, OpConstantFalse, OpConstant and OpConstantComposite. A
composite's value is a `dense` literal or an array of its constituents' values. A cooperative matrix
has one constituent, the value of all components, so its value is a scalar.

A specialization constant is a symbol of the module; `spirv.mlir.referenceof` makes an SSA value of
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FlatSymbolRefAttrConstr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    VectorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute, TypedAttribute
from xdsl.irdl import lazy_traits_def, operand_def, prop_def, region_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, HasParent, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.folding import Foldable, integer_attribute
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MatrixType,
    PointerType,
    Repeated,
    RuntimeArrayType,
    StructType,
    known_size,
)
from xdsl_spirv.dialects.spirv.types_declared import DYNAMIC, CooperativeVectorType, TensorArmType
from xdsl_spirv.upstream.kept_bodies import KeptBody
from xdsl_spirv.upstream.symbols import find_symbol


def constituent_types(composite: Attribute) -> Sequence[Attribute] | None:
    """
    Returns the types of a composite's constituents in order. Returns None if the type is not a
    composite.

    A cooperative matrix has one constituent (CM-08). A tensor has one for each index of its first
    dimension. If an array's length is a specialization constant, its element type is returned once.
    """
    match composite:
        case VectorType():
            return [composite.element_type] * composite.get_shape()[0]
        case ArrayType():
            return Repeated(composite.element_type, known_size(composite.length) or 1)
        case MatrixType():
            return [composite.column_type] * composite.columns.data
        case StructType():
            return composite.member_types
        case CooperativeVectorType():
            return Repeated(composite.element_type, known_size(composite.length) or 1)
        case CooperativeMatrixType():
            return [composite.element_type]
        case TensorArmType() if composite.shape.data and DYNAMIC not in composite.extents:
            first, *rest = composite.extents
            element = TensorArmType(rest, composite.element_type) if rest else None
            return Repeated(element or composite.element_type, first)
        case _:
            return None


class ConstantOp(SPIRVOp, HasFolderInterface):
    """
    OpConstant, OpConstantTrue, OpConstantFalse or OpConstantComposite:
    `spirv.Constant dense<0.0> : vector<2xf32>`.
    """

    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, value: Attribute, result_type: Attribute | None = None):
        """
        Creates a constant. `result_type` is required if the value has no type, or if its type is
        not the type of the constant.
        """
        if result_type is None:
            if not isinstance(value, TypedAttribute):
                raise ValueError(
                    "spirv.Constant: an array of values has no type; give a result_type"
                )
            result_type = value.get_type()
        super().__init__(value, result_type)

    def fold(self) -> Sequence[Attribute]:
        return (self.value,)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        attributes = parser.parse_optional_attr_dict()
        from xdsl_spirv.dialects.spirv.dense import DenseLiteral

        literal = DenseLiteral.parse_optional(parser)
        if literal is None:
            value = _parse_value(parser)
            needs_type = not isinstance(value, TypedAttribute)
            result_type = None if needs_type else value.get_type()
        else:
            parser.parse_punctuation(":")
            type = parser.parse_type()
            value = literal.attribute(parser, type)
            result_type = None if isinstance(type, TensorType) else type
        if result_type is None:
            parser.parse_punctuation(":")
            result_type = parser.parse_type()
        op = cls(value, result_type)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        type = self.result.type
        if isinstance(type, CooperativeMatrixType):
            printer.print_string("dense<")
            _print_scalar(printer, self.value)
            printer.print_string(">")
        elif isinstance(type, TensorArmType) and isinstance(self.value, DenseIntOrFPElementsAttr):
            self.value.print_without_type(printer)
        else:
            printer.print_attribute(self.value)
            if isinstance(self.value, TypedAttribute) and self.value.get_type() == type:
                return
        printer.print_string(" : ")
        printer.print_attribute(type)

    def verify_(self) -> None:
        verify_constant(self.value, self.result.type)


def _parse_value(parser: Parser) -> Attribute:
    """Parses an attribute. Reports a number that does not fit its type as a parse error."""
    start = parser.pos
    try:
        return parser.parse_attribute()
    except (VerifyException, OverflowError) as error:
        parser.raise_error(str(error), start, parser.pos)


def _print_scalar(printer: Printer, value: Attribute) -> None:
    if isinstance(value, FloatAttr):
        printer.print_float(value.value.data, value.type)
    elif isinstance(value, IntegerAttr):
        printer.print_int(value.value.data)


def verify_constant(value: Attribute, type: Attribute) -> None:
    """Raises `VerifyException` if `value` is not a value of `type`."""
    if isinstance(value, IntegerAttr | FloatAttr):
        if value.type != (type.element_type if isinstance(type, CooperativeMatrixType) else type):
            raise VerifyException(
                f"a value of type {value.type} cannot be a constant of type {type}"
            )
        return
    if isinstance(value, DenseIntOrFPElementsAttr):
        _verify_dense(value, type)
        return
    if not isinstance(value, ArrayAttr):
        raise VerifyException(
            f"{value} cannot be a constant: write a number, a dense literal or an array"
        )
    types = constituent_types(type)
    rules.cm_08_one_constituent(type, len(value))
    if types is None or isinstance(type, CooperativeMatrixType | RuntimeArrayType):
        raise VerifyException(f"a list of values cannot be a constant of type {type}")
    if isinstance(type, ArrayType) and known_size(type.length) is None:
        raise VerifyException(
            "an array whose length is a specialization constant cannot have a list of values"
        )
    if len(types) != len(value):
        raise VerifyException(f"{type} has {len(types)} constituents, but {len(value)} are given")
    for constituent, expected in zip(value, types, strict=True):
        verify_constant(constituent, expected)


def _verify_dense(value: DenseIntOrFPElementsAttr, type: Attribute) -> None:
    if value.get_type() == (type.literal_type if isinstance(type, TensorArmType) else type):
        return
    shape: list[int | None] = []
    element = type
    while isinstance(element, ArrayType):
        shape.append(known_size(element.length))
        element = element.element_type
    if isinstance(element, VectorType):
        shape.extend(element.get_shape())
        element = element.get_element_type()
    if not isinstance(type, ArrayType) or element != value.get_element_type():
        raise VerifyException(
            f"{value.get_type()} cannot be the value of a constant of type {type}"
        )
    if tuple(shape) != value.get_shape():
        raise VerifyException(
            f"a dense value of shape {list(value.get_shape())} cannot fill {type}: "
            f"its shape is {shape}"
        )


def constant_integer(value: SSAValue) -> int | None:
    """Returns the integer that a `spirv.Constant` defines. Returns None for other values."""
    if isinstance(value.owner, ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


class ConstantNullOp(SPIRVOp, HasFolderInterface):
    """OpConstantNull, the zero of any type: `spirv.ConstantNull : !spirv.coopmatrix<...>`."""

    result = result_def()
    traits = traits_def(Pure(), ConstantLike())
    assembly_format = "attr-dict `:` type($result)"

    def fold(self) -> Sequence[Attribute] | None:
        """Returns the zero of a scalar or of a vector of numbers. Returns None for other types."""
        type_ = self.result.type
        element = type_.element_type if isinstance(type_, VectorType) else type_
        if not isinstance(element, IntegerType | AnyFloat):
            return None
        if isinstance(type_, VectorType):
            zeros = BytesAttr(bytes(element.compile_time_size * type_.get_shape()[0]))
            return (DenseIntOrFPElementsAttr(VectorType(element, type_.get_shape()), zeros),)
        if isinstance(element, IntegerType):
            return (integer_attribute(0, element),)
        return (FloatAttr(0.0, element),)


class UndefOp(SPIRVOp):
    """OpUndef: `spirv.Undef : f32`."""

    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


class ConstantSymbol(SPIRVOp, ABC):
    """A constant of the module that other operations refer to by its symbol."""

    @property
    @abstractmethod
    def constant_type(self) -> Attribute:
        """The type of the constant."""


class SpecConstantOp(ConstantSymbol):
    """
    OpSpecConstant, OpSpecConstantTrue or OpSpecConstantFalse:
    `spirv.SpecConstant @m spec_id(5) = 16 : i32`.
    """

    sym_name = prop_def(SymbolNameConstraint())
    default_value = prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())

    def __init__(
        self, sym_name: str, default_value: IntegerAttr | FloatAttr, spec_id: int | None = None
    ):
        super().__init__(sym_name, default_value)
        if spec_id is not None:
            self.attributes["spec_id"] = IntegerAttr(spec_id, 64)

    @property
    def spec_id(self) -> int | None:
        """The literal of the SpecId decoration. None without this decoration."""
        value = self.attributes.get("spec_id")
        return value.value.data if isinstance(value, IntegerAttr) else None

    @property
    def type(self) -> Attribute:
        """The type of the constant."""
        value = self.default_value
        return value.get_type() if isinstance(value, TypedAttribute) else value

    @property
    def constant_type(self) -> Attribute:
        return self.type

    @classmethod
    def parse(cls, parser: Parser) -> SpecConstantOp:
        name = parser.parse_symbol_name().data
        spec_id = None
        if parser.parse_optional_keyword("spec_id"):
            with parser.in_parens():
                spec_id = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation("=")
        start = parser.pos
        value = _parse_value(parser)
        if not isinstance(value, IntegerAttr | FloatAttr):
            parser.raise_error(
                "a specialization constant must be a number or Boolean", start, parser.pos
            )
        op = cls(name, value, spec_id)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.spec_id is not None:
            printer.print_string(f" spec_id({self.spec_id})")
        printer.print_op_attributes(self.attributes, reserved_attr_names=("spec_id",))
        printer.print_string(" = ")
        printer.print_attribute(self.default_value)

    def verify_(self) -> None:
        if not isinstance(self.default_value, IntegerAttr | FloatAttr):
            raise VerifyException(
                f"a specialization constant's default must be a number, not {self.default_value}"
            )
        spec_id = self.attributes.get("spec_id")
        if spec_id is None:
            return
        if not isinstance(spec_id, IntegerAttr) or spec_id.value.data < 0:
            raise VerifyException("spec_id must be a number of at least 0")


class SpecConstantCompositeOp(ConstantSymbol):
    """
    OpSpecConstantComposite: `spirv.SpecConstantComposite @v (@x, @y) : vector<2xi32>`.

    A cooperative matrix has one constituent (CM-08).
    """

    sym_name = prop_def(SymbolNameConstraint())
    constituents = prop_def(ArrayAttr[SymbolRefAttr])
    type = prop_def(TypeAttribute)
    traits = traits_def(SymbolOpInterface())

    @property
    def constant_type(self) -> Attribute:
        return self.type

    @classmethod
    def parse(cls, parser: Parser) -> SpecConstantCompositeOp:
        name = parser.parse_symbol_name().data
        constituents = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_symbol_name
        )
        parser.parse_punctuation(":")
        op = cls(name, [constituent.data for constituent in constituents], parser.parse_type())
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" (")
        printer.print_list(self.constituents, printer.print_attribute)
        printer.print_string(") : ")
        printer.print_attribute(self.type)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        types = constituent_types(self.type)
        if types is None:
            raise VerifyException(f"{self.type} is not a composite type")
        verify_lengths(self, self.type)
        rules.cm_08_one_constituent(self.type, len(self.constituents))
        if len(types) != len(self.constituents):
            raise VerifyException(
                f"{self.type} has {len(types)} constituents, but {len(self.constituents)} are given"
            )
        if self.parent_op() is None:
            return
        for symbol, expected in zip(self.constituents, types, strict=True):
            if (type := type_of_constant(self, symbol)) != expected:
                raise VerifyException(f"{symbol} has type {type}, but {expected} is needed here")


def type_of_constant(user: Operation, symbol: SymbolRefAttr) -> Attribute:
    """
    Returns the type of the specialization constant `symbol`, looked up from `user`.

    Raises `VerifyException` if the module has no such constant.
    """
    constant = find_symbol(user, symbol)
    if not isinstance(constant, ConstantSymbol):
        raise VerifyException(
            f"{symbol} is not a specialization constant of the module: "
            f"declare spirv.SpecConstant {symbol}"
        )
    return constant.constant_type


def verify_lengths(user: Operation, type: Attribute) -> None:
    """Raises `VerifyException` if the lengths of arrays in `type` are not integer constants."""
    match type:
        case ArrayType():
            verify_lengths(user, type.element_type)
            if isinstance(type.length, SymbolRefAttr) and user.parent_op() is not None:
                length_type = type_of_constant(user, type.length)
                if not isinstance(length_type, IntegerType):
                    raise VerifyException(
                        f"{type.length} is an array's length and must be an integer, not "
                        f"{length_type}"
                    )
        case RuntimeArrayType():
            verify_lengths(user, type.element_type)
        case StructType():
            for member in type.member_types:
                if not isinstance(member, PointerType):
                    verify_lengths(user, member)
        case _:
            return


class ReferenceOfOp(SPIRVOp, name="spirv.mlir.referenceof"):
    """The value of a specialization constant: `spirv.mlir.referenceof @m : i32`."""

    spec_const = prop_def(FlatSymbolRefAttrConstr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$spec_const attr-dict `:` type($result)"

    def verify_(self) -> None:
        if self.parent_op() is None:
            return
        type = type_of_constant(self, self.spec_const)
        if type != self.result.type:
            raise VerifyException(
                f"{self.spec_const} has type {type}, but the result has type {self.result.type}"
            )


SPECIALIZABLE = frozenset(
    f"spirv.{name}"
    for name in (
        "SConvert UConvert FConvert SNegate Not IAdd ISub IMul UDiv SDiv UMod SRem SMod "
        "ShiftRightLogical ShiftRightArithmetic ShiftLeftLogical BitwiseOr BitwiseXor BitwiseAnd "
        "VectorShuffle CompositeExtract CompositeInsert LogicalOr LogicalAnd LogicalNot "
        "LogicalEqual LogicalNotEqual Select IEqual INotEqual ULessThan SLessThan UGreaterThan "
        "SGreaterThan ULessThanEqual SLessThanEqual UGreaterThanEqual SGreaterThanEqual"
    ).split()
)
"""Operations that OpSpecConstantOp allows with the Shader capability (SPIR-V 3.49.6)."""


class YieldOp(SPIRVOp, name="spirv.mlir.yield"):
    """Ends the region of a `spirv.SpecConstantOperation`. Not an instruction."""

    operand = operand_def()
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(SpecConstantOperationOp)))
    assembly_format = "attr-dict $operand `:` type($operand)"


class SpecConstantOperationOp(SPIRVOp, HasFolderInterface):
    """
    OpSpecConstantOp: `spirv.SpecConstantOperation wraps "spirv.IAdd"(%a, %b) : (i32, i32) -> i32`.

    The region contains the wrapped operation in its generic form, and a `spirv.mlir.yield`.
    """

    result = result_def()
    body = region_def("single_block")
    traits = traits_def(Pure(), KeptBody())

    def __init__(self, wrapped: Operation):
        body = Region(Block([wrapped, YieldOp(wrapped.results[0])]))
        super().__init__(wrapped.results[0].type, body)

    @property
    def wrapped(self) -> Operation:
        """The operation that is evaluated at specialization."""
        first = self.body.block.first_op
        if first is None:
            raise VerifyException(
                "the region of spirv.SpecConstantOperation has no operation to wrap"
            )
        return first

    def fold(self) -> Sequence[Attribute] | None:
        """
        Returns the result of the wrapped operation if all operands are constants, otherwise None.
        """
        wrapped = self.wrapped
        constants = [ConstantLike.get_constant_value(operand) for operand in wrapped.operands]
        if not isinstance(wrapped, Foldable) or None in constants:
            return None
        value = wrapped.evaluate(constants)
        if isinstance(value, SSAValue):
            value = ConstantLike.get_constant_value(value)
        return None if value is None else (value,)

    @classmethod
    def parse(cls, parser: Parser) -> SpecConstantOperationOp:
        parser.parse_keyword("wraps")
        start = parser.pos
        wrapped = parser.parse_operation()
        if len(wrapped.results) != 1:
            parser.raise_error(f"{wrapped.name} does not have one result", start, parser.pos)
        return cls(wrapped)

    def print(self, printer: Printer) -> None:
        printer.print_string(f' wraps "{self.wrapped.name}"')
        printer.print_op_with_default_format(self.wrapped)

    def verify_(self) -> None:
        operations = list(self.body.block.ops)
        if len(operations) != 2 or not isinstance(operations[-1], YieldOp):
            raise VerifyException(
                "a spirv.SpecConstantOperation must contain one operation and a spirv.mlir.yield"
            )
        wrapped = operations[0]
        if wrapped.name not in SPECIALIZABLE:
            raise VerifyException(f"{wrapped.name} cannot be evaluated at specialization")
        for operand in wrapped.operands:
            if not isinstance(operand.owner, SPECIALIZATION_OPERANDS):
                raise VerifyException(
                    "an operand of a spirv.SpecConstantOperation must be a constant, "
                    "a specialization constant or another spirv.SpecConstantOperation"
                )
        if operations[-1].operands[0].type != self.result.type:
            raise VerifyException(
                f"the operation yields {operations[-1].operands[0].type}, "
                f"but the result has type {self.result.type}"
            )


class SPIRVConstants(ConstantMaterializationInterface):
    """Creates a `spirv.Constant` for the result of folding."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> ConstantOp | None:
        try:
            verify_constant(value, type)
        except VerifyException:
            return None
        return ConstantOp(value, type)


CONSTANT_INSTRUCTIONS = (
    ConstantOp,
    ConstantNullOp,
    ReferenceOfOp,
    SpecConstantOperationOp,
)
"""Operations that are encoded as constant instructions."""

SPECIALIZATION_OPERANDS = (*CONSTANT_INSTRUCTIONS, UndefOp)
