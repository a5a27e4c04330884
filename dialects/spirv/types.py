"""
The types that SPIR-V adds to MLIR's builtin integers, floats and vectors.

A size that SPIR-V takes from a constant instruction (an array's length, a cooperative matrix's
rows, columns and scope) is a number, or a reference to a specialization constant of the module,
written `@name`. MLIR's syntax only allows numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, overload

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttrConstr,
    IntAttr,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    _FloatType,  # pyright: ignore[reportPrivateUsage]
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import AnyOf, BaseAttr, irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import TYPE, LocatedAttribute, SpelledAttribute, Spelling, or_symbol
from xdsl_spirv.dialects.spirv.attributes import (
    CooperativeMatrixUseAttr,
    DecorationAttr,
    ScopeAttr,
    StorageClassAttr,
    as_attribute,
    name_of,
)
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixUse, Decoration, Scope, StorageClass
from xdsl_spirv.dialects.spirv.rules_types import cm_04_component_type, cm_05_constant

FloatType: TypeAlias = _FloatType
"""Any builtin floating-point type, including bf16 and 8-bit floats."""

Size: TypeAlias = IntAttr | SymbolRefAttr
"""
A number that SPIR-V takes from a constant. It is known, or given by the symbol of a specialization
constant.
"""

SIZE = BaseAttr(IntAttr) | FlatSymbolRefAttrConstr


WORD = 2**32 - 1
"""The largest unsigned 32-bit number."""


def size(value: int | str | Size) -> Size:
    """Creates a size from an int, or from the name of a specialization constant."""
    if isinstance(value, int):
        return IntAttr(value)
    return SymbolRefAttr(value) if isinstance(value, str) else value


def known_size(value: Size) -> int | None:
    """Returns the number of a size. Returns None for a specialization constant."""
    return value.data if isinstance(value, IntAttr) else None


class Repeated(Sequence[Attribute]):
    """A sequence of equal types, for example an array's constituents. Stores the type only once."""

    def __init__(self, element: Attribute, times: int):
        self.element = element
        self.times = min(max(times, 0), sys.maxsize)

    def __len__(self) -> int:
        return self.times

    @overload
    def __getitem__(self, index: int) -> Attribute: ...
    @overload
    def __getitem__(self, index: slice) -> Repeated: ...
    def __getitem__(self, index: int | slice) -> Attribute | Repeated:
        if isinstance(index, slice):
            return Repeated(self.element, len(range(self.times)[index]))
        if not -self.times <= index < self.times:
            raise IndexError(index)
        return self.element


def _parse_number(parser: AttrParser) -> IntAttr:
    return IntAttr(parser.parse_shape_dimension(allow_dynamic=False))


def _before_x(spelling: Spelling, delimiter: str) -> Spelling:
    """Returns a spelling that is followed by the delimiter of a shape, `x`."""
    parse, print_value = spelling

    def parse_before_x(parser: AttrParser) -> Attribute:
        value = parse(parser)
        parser.parse_shape_delimiter()
        return value

    def print_before_x(printer: Printer, value: Attribute) -> None:
        print_value(printer, value)
        printer.print_string(delimiter if isinstance(value, IntAttr) else " x ")

    return parse_before_x, print_before_x


_NUMBER: Spelling = _parse_number, lambda printer, value: printer.print_int(value.data)
DIMENSION = _before_x(or_symbol(_NUMBER), "x")
"""The spelling `16x` or `@rows x `."""
LENGTH = _before_x(or_symbol(_NUMBER), " x ")
"""The spelling `16 x ` or `@length x `."""
SCOPE = or_symbol(name_of(ScopeAttr))

MATRIX = ("rows", DIMENSION), ("columns", DIMENSION), ("element_type", TYPE), None, ("scope", SCOPE)
"""The spelling of a cooperative matrix: `16x8xf16, Subgroup`."""


def _parse_stride(parser: AttrParser) -> IntAttr:
    if not parser.parse_optional_punctuation(","):
        return IntAttr(0)
    parser.parse_keyword("stride")
    parser.parse_punctuation("=")
    return IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False))


def _print_stride(printer: Printer, stride: IntAttr) -> None:
    if stride.data:
        printer.print_string(f", stride={stride.data}")


STRIDE: Spelling = _parse_stride, _print_stride


@irdl_attr_definition
class PointerType(SpelledAttribute, TypeAttribute):
    """
    OpTypePointer: `!spirv.ptr<f32, StorageBuffer>`.

    `!spirv.ptr<f32, PhysicalStorageBuffer, stride=4>` has an ArrayStride in bytes, the step of
    spirv.PtrAccessChain. 0 means no ArrayStride.
    """

    name = "spirv.ptr"
    SPELLING: ClassVar[Any] = (
        ("pointee", TYPE),
        None,
        ("storage_class", name_of(StorageClassAttr)),
        ("stride", STRIDE),
    )
    pointee: Attribute
    storage_class: StorageClassAttr
    stride: IntAttr

    def __init__(
        self,
        pointee: Attribute,
        storage_class: StorageClass | StorageClassAttr,
        stride: int = 0,
    ):
        super().__init__(pointee, as_attribute(storage_class), IntAttr(stride))


@irdl_attr_definition
class UntypedPointerType(SpelledAttribute, TypeAttribute):
    """OpTypeUntypedPointerKHR: `!spirv.untyped_ptr<StorageBuffer>`."""

    name = "spirv.untyped_ptr"
    SPELLING: ClassVar[Any] = (("storage_class", name_of(StorageClassAttr)),)
    storage_class: StorageClassAttr

    def __init__(self, storage_class: StorageClass | StorageClassAttr):
        super().__init__(as_attribute(storage_class))


@irdl_attr_definition
class ArrayType(SpelledAttribute, TypeAttribute):
    """
    OpTypeArray: `!spirv.array<4 x f32, stride=4>`. The stride in bytes is 0 without ArrayStride.
    """

    name = "spirv.array"
    SPELLING: ClassVar[Any] = (("length", LENGTH), ("element_type", TYPE), ("stride", STRIDE))
    length: Size = param_def(SIZE)
    element_type: Attribute
    stride: IntAttr

    def __init__(self, length: int | str | Size, element_type: Attribute, stride: int = 0):
        super().__init__(size(length), element_type, IntAttr(stride))

    def verify(self) -> None:
        length = known_size(self.length)
        if length is not None and not 0 < length <= WORD:
            raise VerifyException(f"an array's length must be from 1 to {WORD}, not {length}")


@irdl_attr_definition
class RuntimeArrayType(SpelledAttribute, TypeAttribute):
    """OpTypeRuntimeArray: `!spirv.rtarray<f32, stride=4>`."""

    name = "spirv.rtarray"
    SPELLING: ClassVar[Any] = (("element_type", TYPE), ("stride", STRIDE))
    element_type: Attribute
    stride: IntAttr

    def __init__(self, element_type: Attribute, stride: int = 0):
        super().__init__(element_type, IntAttr(stride))


@irdl_attr_definition
class MatrixType(SpelledAttribute, TypeAttribute):
    """OpTypeMatrix: `!spirv.matrix<3 x vector<4xf32>>`, with 2 to 4 columns."""

    name = "spirv.matrix"
    SPELLING: ClassVar[Any] = (("columns", _before_x(_NUMBER, " x ")), ("column_type", TYPE))
    columns: IntAttr
    column_type: VectorType

    def __init__(self, columns: int, column_type: VectorType):
        super().__init__(IntAttr(columns), column_type)

    def verify(self) -> None:
        if self.columns.data not in (2, 3, 4):
            raise VerifyException(f"a matrix must have 2 to 4 columns, not {self.columns.data}")


@irdl_attr_definition
class MemberDecorationAttr(ParametrizedAttribute):
    """A decoration of a struct's member, with an optional literal."""

    name = "spirv.member_decoration"
    member: IntAttr
    decoration: DecorationAttr
    value: IntAttr | NoneAttr

    def __init__(self, member: int, decoration: Decoration, value: int | None = None):
        super().__init__(IntAttr(member), DecorationAttr(decoration), _optional_literal(value))

    @property
    def text(self) -> str:
        """The decoration as text: `NonWritable`, or `MatrixStride=16`."""
        return _decoration_text(self.decoration, self.value)


@irdl_attr_definition
class StructDecorationAttr(ParametrizedAttribute):
    """A decoration of a whole struct (such as `Block`), with an optional literal."""

    name = "spirv.struct_decoration"
    decoration: DecorationAttr
    value: IntAttr | NoneAttr

    def __init__(self, decoration: Decoration, value: int | None = None):
        super().__init__(DecorationAttr(decoration), _optional_literal(value))

    @property
    def text(self) -> str:
        """The decoration as text, such as `Block`."""
        return _decoration_text(self.decoration, self.value)


def _optional_literal(value: int | None) -> IntAttr | NoneAttr:
    return NoneAttr() if value is None else IntAttr(value)


def _decoration_text(decoration: DecorationAttr, value: IntAttr | NoneAttr) -> str:
    literal = f"={value.data}" if isinstance(value, IntAttr) else ""
    return decoration.spell(decoration.data) + literal


def _parse_decoration(parser: AttrParser) -> tuple[Decoration, int | None]:
    decoration = DecorationAttr.parse_enumerant(parser)
    if not parser.parse_optional_punctuation("="):
        return decoration, None
    return decoration, parser.parse_integer(allow_boolean=False, allow_negative=False)


@irdl_attr_definition
class StructType(LocatedAttribute, TypeAttribute):
    """
    OpTypeStruct: `!spirv.struct<(f32 [0], i32 [4, NonWritable]), Block>`.

    A name before the members makes an identified struct, `!spirv.struct<node, (f32, ...)>`. Inside
    its members, `!spirv.struct<node>` refers to the struct. Either all members have offsets (in
    bytes), or none. Decorations are sorted by value, as in MLIR.
    """

    name = "spirv.struct"
    identifier: StringAttr
    members: ArrayAttr[Attribute] | NoneAttr
    offsets: ArrayAttr[IntAttr]
    member_decorations: ArrayAttr[MemberDecorationAttr]
    decorations: ArrayAttr[StructDecorationAttr]

    def __init__(
        self,
        members: Sequence[Attribute] | None,
        offsets: Sequence[int] = (),
        member_decorations: Sequence[MemberDecorationAttr] = (),
        decorations: Sequence[StructDecorationAttr | Decoration] = (),
        identifier: str = "",
    ):
        super().__init__(
            *self.parameters_of(members, offsets, member_decorations, decorations, identifier)
        )

    @staticmethod
    def parameters_of(
        members: Sequence[Attribute] | None,
        offsets: Sequence[int] = (),
        member_decorations: Sequence[MemberDecorationAttr] = (),
        decorations: Sequence[StructDecorationAttr | Decoration] = (),
        identifier: str = "",
    ) -> Sequence[Attribute]:
        """Returns the parameters of a struct type. Sorts the decorations, and verifies nothing."""
        whole = [StructDecorationAttr(d) if isinstance(d, Decoration) else d for d in decorations]
        return (
            StringAttr(identifier),
            NoneAttr() if members is None else ArrayAttr(members),
            ArrayAttr([IntAttr(offset) for offset in offsets]),
            ArrayAttr(sorted(member_decorations, key=lambda d: (d.member.data, d.decoration.data))),
            ArrayAttr(sorted(whole, key=lambda d: d.decoration.data)),
        )

    @property
    def is_reference(self) -> bool:
        """True for a reference to an enclosing identified struct by its name."""
        return isinstance(self.members, NoneAttr)

    @property
    def member_types(self) -> tuple[Attribute, ...]:
        """
        The types of the members, as seen outside of the struct.

        Inside, a member may refer to the struct itself by its name. This reference is replaced by
        the struct, whose own members still contain the reference.
        """
        if isinstance(self.members, NoneAttr):
            return ()
        if not self.identifier.data:
            return self.members.data
        resolved: tuple[Attribute, ...] | None = self.__dict__.get("_resolved")
        if resolved is None:
            enclosing = {self.identifier.data: self}
            resolved = tuple(_resolve(member, enclosing, frozenset()) for member in self.members)
            # Cached, since accesses are frequent; attributes are frozen.
            object.__setattr__(self, "_resolved", resolved)
        return resolved

    def offset(self, member: int) -> int | None:
        """
        Returns the explicit byte offset of a member. Returns None if the struct has no layout.
        """
        return self.offsets.data[member].data if self.offsets.data else None

    def decorations_of(self, member: int) -> tuple[MemberDecorationAttr, ...]:
        """Returns the decorations of a member, without Offset."""
        return tuple(d for d in self.member_decorations if d.member.data == member)

    def has_decoration(self, decoration: Decoration) -> bool:
        """True if the whole struct has the decoration."""
        return any(d.decoration.data == decoration for d in self.decorations)

    @classmethod
    def parse_body(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            identifier = parser.parse_optional_identifier() or ""
            if identifier and not parser.parse_optional_punctuation(","):
                return cls.parameters_of(None, identifier=identifier)
            start = parser.pos
            members = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: cls._parse_member(parser)
            )
            decorations: list[StructDecorationAttr] = []
            while parser.parse_optional_punctuation(","):
                decorations.append(StructDecorationAttr(*_parse_decoration(parser)))
        offsets = [offset for _, offset, _ in members if offset is not None]
        if offsets and len(offsets) != len(members):
            parser.raise_error(
                "either all members of a struct must have an offset, or none", start, parser.pos
            )
        return cls.parameters_of(
            [member for member, _, _ in members],
            offsets,
            [MemberDecorationAttr(i, *d) for i, (_, _, own) in enumerate(members) for d in own],
            decorations,
            identifier,
        )

    @staticmethod
    def _parse_member(
        parser: AttrParser,
    ) -> tuple[Attribute, int | None, list[tuple[Decoration, int | None]]]:
        member = parser.parse_type()
        offset: int | None = None
        decorations: list[tuple[Decoration, int | None]] = []
        if parser.parse_optional_punctuation("["):
            offset = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            if offset is None:
                decorations.append(_parse_decoration(parser))
            while parser.parse_optional_punctuation(","):
                decorations.append(_parse_decoration(parser))
            parser.parse_punctuation("]")
        return member, offset, decorations

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.identifier.data)
            if isinstance(self.members, NoneAttr):
                return
            if self.identifier.data:
                printer.print_string(", ")
            with printer.in_parens():
                for index, member in enumerate(self.members):
                    printer.print_string(", " if index else "")
                    self._print_member(printer, index, member)
            for decoration in self.decorations:
                printer.print_string(f", {decoration.text}")

    def _print_member(self, printer: Printer, index: int, member: Attribute) -> None:
        printer.print_attribute(member)
        offset = self.offset(index)
        notes = [] if offset is None else [str(offset)]
        notes += [d.text for d in self.decorations_of(index)]
        if notes:
            printer.print_string(f" [{', '.join(notes)}]")

    def verify(self) -> None:
        if isinstance(self.members, NoneAttr):
            if not self.identifier.data:
                raise VerifyException("a struct without a name must list its members")
            return
        count = len(self.members)
        if self.offsets.data and len(self.offsets) != count:
            raise VerifyException(
                f"a struct of {count} members has {len(self.offsets)} offsets: "
                "give an offset for every member, or for none"
            )
        for decoration in self.member_decorations:
            if decoration.member.data >= count:
                raise VerifyException(
                    f"a struct of {count} members has no member {decoration.member.data} to "
                    f"decorate with {decoration.text}"
                )
        for index, member in enumerate(self.members):
            if isinstance(member, RuntimeArrayType) and index != count - 1:
                raise VerifyException(
                    f"a runtime array must be the last member of a struct, not member {index}"
                )


def _resolve(type: Attribute, known: Mapping[str, StructType], around: frozenset[str]) -> Attribute:
    """
    Replaces references to structs in a type.

    `known` maps identifiers to structs. References to the structs `around`, which enclose the
    result, remain.
    """
    if isinstance(type, StructType):
        name = type.identifier.data
        if name in around:
            return StructType(None, identifier=name)
        struct = known.get(name, type) if type.is_reference else type
        if isinstance(struct.members, NoneAttr):
            return type
        if name:
            known, around = {**known, name: struct}, around | {name}
        members = ArrayAttr([_resolve(member, known, around) for member in struct.members])
        parameters = (struct.offsets, struct.member_decorations, struct.decorations)
        return StructType.new((struct.identifier, members, *parameters))
    if isinstance(type, PointerType):
        pointee = _resolve(type.pointee, known, around)
        return PointerType(pointee, type.storage_class, type.stride.data)
    if isinstance(type, ArrayType):
        return ArrayType(type.length, _resolve(type.element_type, known, around), type.stride.data)
    if isinstance(type, RuntimeArrayType):
        return RuntimeArrayType(_resolve(type.element_type, known, around), type.stride.data)
    return type


@irdl_attr_definition
class CooperativeMatrixType(SpelledAttribute, TypeAttribute):
    """
    OpTypeCooperativeMatrixKHR: `!spirv.coopmatrix<16x8xf16, Subgroup, MatrixA>`.

    Rows, columns and scope may be specialization constants: `!spirv.coopmatrix<@M x @N x f16,
    @scope, MatrixA>`. SPV_KHR_cooperative_matrix, 3.42.6.
    """

    name = "spirv.coopmatrix"
    SPELLING: ClassVar[Any] = (*MATRIX, None, ("use", name_of(CooperativeMatrixUseAttr)))
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
        sizes = size(rows), size(columns)
        super().__init__(*sizes, element_type, as_attribute(scope), as_attribute(use))

    def verify(self) -> None:
        cm_04_component_type(self.element_type)
        for what, size in (("rows", self.rows), ("columns", self.columns)):
            number = known_size(size)
            if number is not None:
                cm_05_constant(what, number)
