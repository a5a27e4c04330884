"""
The types that SPIR-V adds to MLIR's builtin integers, floats and vectors.

A size that SPIR-V takes from a constant instruction (an array's length; a cooperative matrix's rows,
columns and scope) is either known here or a reference to a specialization constant of the module,
written `@name` in the place of the number. That is an extension of MLIR's syntax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    FloatAttr,
    IntAttr,
    NoneAttr,
    SymbolRefAttr,
    VectorType,
    _FloatType,  # pyright: ignore[reportPrivateUsage]
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import AnyOf, BaseAttr, irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import (
    CooperativeMatrixUseAttr,
    DecorationAttr,
    ScopeAttr,
    StorageClassAttr,
)
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Decoration, Scope, StorageClass
from xdsl_spirv.dialects.spirv.rules_types import cm_04_component_type, cm_05_constant

__all__ = ["FloatAttr"]

FloatType: TypeAlias = _FloatType
"""Any builtin floating-point type, bf16 and the 8-bit ones included."""

Size: TypeAlias = IntAttr | SymbolRefAttr
"""A number that SPIR-V takes from a constant: known, or a specialization constant's symbol."""

SIZE = BaseAttr(IntAttr) | FlatSymbolRefAttrConstr


def size(value: int | str | Size) -> Size:
    """An int is a known size, a string the symbol of a specialization constant."""
    if isinstance(value, int):
        return IntAttr(value)
    return SymbolRefAttr(value) if isinstance(value, str) else value


def known(value: Size) -> int | None:
    """The number, or None where a specialization constant decides."""
    return value.data if isinstance(value, IntAttr) else None


def _parse_dimension(parser: AttrParser) -> Size:
    """`16x` or `@rows x`, the delimiter included."""
    symbol = parser.parse_optional_symbol_name()
    dim: Size = (
        IntAttr(parser.parse_shape_dimension(allow_dynamic=False))
        if symbol is None
        else SymbolRefAttr(symbol)
    )
    parser.parse_shape_delimiter()
    return dim


def _print_dimension(printer: Printer, dim: Size) -> None:
    if isinstance(dim, IntAttr):
        printer.print_string(f"{dim.data}x")
    else:
        printer.print_attribute(dim)
        printer.print_string(" x ")


def _parse_stride(parser: AttrParser) -> IntAttr:
    """Optional `, stride=N`; 0 where absent."""
    if not parser.parse_optional_punctuation(","):
        return IntAttr(0)
    parser.parse_keyword("stride")
    parser.parse_punctuation("=")
    return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))


def _print_stride(printer: Printer, stride: IntAttr) -> None:
    if stride.data:
        printer.print_string(f", stride={stride.data}")


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """OpTypePointer: `!spirv.ptr<f32, StorageBuffer>`."""

    name = "spirv.ptr"
    pointee: Attribute
    storage_class: StorageClassAttr

    def __init__(self, pointee: Attribute, storage_class: StorageClass | StorageClassAttr):
        if isinstance(storage_class, StorageClass):
            storage_class = StorageClassAttr(storage_class)
        super().__init__(pointee, storage_class)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            pointee = parser.parse_type()
            parser.parse_punctuation(",")
            return pointee, StorageClassAttr(StorageClassAttr.parse_enumerant(parser))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)
            printer.print_string(f", {self.storage_class.spell(self.storage_class.data)}")


@irdl_attr_definition
class ArrayType(ParametrizedAttribute, TypeAttribute):
    """OpTypeArray: `!spirv.array<4 x f32, stride=4>`; the stride is ArrayStride in bytes, 0 if none."""

    name = "spirv.array"
    length: Size = param_def(SIZE)
    element_type: Attribute
    stride: IntAttr

    def __init__(self, length: int | str | Size, element_type: Attribute, stride: int = 0):
        super().__init__(size(length), element_type, IntAttr(stride))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            length = _parse_dimension(parser)
            return length, parser.parse_type(), _parse_stride(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if isinstance(self.length, IntAttr):
                printer.print_string(f"{self.length.data} x ")
            else:
                _print_dimension(printer, self.length)
            printer.print_attribute(self.element_type)
            _print_stride(printer, self.stride)

    def verify(self) -> None:
        if known(self.length) == 0:
            raise VerifyException("an array's length must be at least 1")


@irdl_attr_definition
class RuntimeArrayType(ParametrizedAttribute, TypeAttribute):
    """OpTypeRuntimeArray: `!spirv.rtarray<f32, stride=4>`."""

    name = "spirv.rtarray"
    element_type: Attribute
    stride: IntAttr

    def __init__(self, element_type: Attribute, stride: int = 0):
        super().__init__(element_type, IntAttr(stride))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parser.parse_type(), _parse_stride(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element_type)
            _print_stride(printer, self.stride)


@irdl_attr_definition
class MatrixType(ParametrizedAttribute, TypeAttribute):
    """OpTypeMatrix: `!spirv.matrix<3 x vector<4xf32>>`, 2 to 4 columns."""

    name = "spirv.matrix"
    columns: IntAttr
    column_type: VectorType

    def __init__(self, columns: int, column_type: VectorType):
        super().__init__(IntAttr(columns), column_type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            columns = parser.parse_shape_dimension(allow_dynamic=False)
            parser.parse_shape_delimiter()
            return IntAttr(columns), parser.parse_type()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.columns.data} x ")
            printer.print_attribute(self.column_type)

    def verify(self) -> None:
        if self.columns.data not in (2, 3, 4):
            raise VerifyException(f"a matrix has 2 to 4 columns, not {self.columns.data}")


@irdl_attr_definition
class MemberDecorationAttr(ParametrizedAttribute):
    """One decoration of a struct's member, with its literal if it takes one."""

    name = "spirv.member_decoration"
    member: IntAttr
    decoration: DecorationAttr
    value: Attribute

    def __init__(self, member: int, decoration: Decoration, value: Attribute | None = None):
        super().__init__(IntAttr(member), DecorationAttr(decoration), value or NoneAttr())


@irdl_attr_definition
class CooperativeMatrixType(ParametrizedAttribute, TypeAttribute):
    """
    OpTypeCooperativeMatrixKHR: `!spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>`.

    Rows, columns and scope may each be a specialization constant: `<@M x @N x f16, @scope, MatrixA>`.
    SPV_KHR_cooperative_matrix, 3.42.6.
    """

    name = "spirv.coopmatrix"
    rows: Size = param_def(SIZE)
    columns: Size = param_def(SIZE)
    element_type: Attribute
    scope: ScopeAttr | SymbolRefAttr = param_def(
        AnyOf((BaseAttr(ScopeAttr), FlatSymbolRefAttrConstr))
    )
    use: CooperativeMatrixUseAttr

    def __init__(
        self,
        rows: int | str | Size,
        columns: int | str | Size,
        element_type: Attribute,
        scope: Scope | str | ScopeAttr | SymbolRefAttr,
        use: CooperativeMatrixUse | CooperativeMatrixUseAttr,
    ):
        if isinstance(scope, Scope):
            scope = ScopeAttr(scope)
        elif isinstance(scope, str):
            scope = SymbolRefAttr(scope)
        if isinstance(use, CooperativeMatrixUse):
            use = CooperativeMatrixUseAttr(use)
        super().__init__(size(rows), size(columns), element_type, scope, use)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rows, columns = _parse_dimension(parser), _parse_dimension(parser)
            element_type = parser.parse_type()
            parser.parse_punctuation(",")
            symbol = parser.parse_optional_symbol_name()
            scope = (
                ScopeAttr(ScopeAttr.parse_enumerant(parser))
                if symbol is None
                else SymbolRefAttr(symbol)
            )
            parser.parse_punctuation(",")
            use = CooperativeMatrixUseAttr(CooperativeMatrixUseAttr.parse_enumerant(parser))
            return rows, columns, element_type, scope, use

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_dimension(printer, self.rows)
            _print_dimension(printer, self.columns)
            printer.print_attribute(self.element_type)
            printer.print_string(", ")
            if isinstance(self.scope, ScopeAttr):
                printer.print_string(self.scope.spell(self.scope.data))
            else:
                printer.print_attribute(self.scope)
            printer.print_string(f", {self.use.spell(self.use.data)}")

    def verify(self) -> None:
        cm_04_component_type(self.element_type)
        for what, size in (("rows", self.rows), ("columns", self.columns)):
            number = known(size)
            if number is not None:
                cm_05_constant(what, number)
