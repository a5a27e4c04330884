"""
Pointers in operations: their kinds and syntax, the types that indices select, and memory effects.

Beyond MLIR's syntax, MakePointerAvailable and MakePointerVisible have a scope:
`["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)]`.

xDSL's passes query the traits. An operation without traits for memory effects counts as having all
effects. No pass removes, moves or merges such an operation. Atomics, barriers, calls, and
operations that end an invocation or leave a construct have no such traits.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import AnyOf, BaseAttr, opt_prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.keyed import or_symbol
from xdsl_spirv.dialects.spirv.attributes import (
    MemoryAccessAttr,
    ScopeAttr,
    StorageClassAttr,
    as_attribute,
    in_brackets,
    parse_integer,
)
from xdsl_spirv.dialects.spirv.base import Argument, SPIRVOp
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.dialects.spirv.enums import (
    Capability,
    Decoration,
    MemoryAccess,
    Scope,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
    UntypedPointerType,
)
from xdsl_spirv.dialects.spirv.types_declared import CooperativeVectorType

POINTER = BaseAttr(PointerType) | BaseAttr(UntypedPointerType)
"""Constraint of a typed or untyped pointer."""

VARYING: Mapping[StorageClass, Capability] = {
    StorageClass.StorageBuffer: Capability.VariablePointersStorageBuffer,
    StorageClass.Workgroup: Capability.VariablePointers,
    StorageClass.PhysicalStorageBuffer: Capability.PhysicalStorageBufferAddresses,
}
"""Maps a storage class to the capability for variable pointers into it."""


def pointer_type(value: SSAValue) -> PointerType:
    """Returns the type of a typed pointer. Raises `VerifyException` for other values."""
    if not isinstance(value.type, PointerType):
        raise VerifyException(f"expected a !spirv.ptr, got {value.type}")
    return value.type


def pointee_of(pointer: Attribute) -> Attribute:
    """Returns the pointee of a typed pointer. Raises `VerifyException` for other types."""
    if not isinstance(pointer, PointerType):
        raise VerifyException(f"expected a !spirv.ptr, got {pointer}")
    return pointer.pointee


def is_plain(pointer: SSAValue) -> bool:
    """True if the pointer's type follows from its storage class and pointee."""
    return isinstance(pointer.type, PointerType) and not pointer.type.stride.data


def parse_storage_class(parser: Parser) -> StorageClass | None:
    """
    Parses `"StorageBuffer"`. Returns None if the whole type of the pointer is written instead.
    """
    start = parser.pos
    text = parser.parse_optional_str_literal()
    if text is None:
        return None
    storage_class = StorageClassAttr.from_text(text)
    if storage_class is None:
        parser.raise_error(f"{text!r} is not a StorageClass", start, parser.pos)
    return storage_class


def print_pointer(printer: Printer, pointer: SSAValue, *, plain: bool = True) -> None:
    """Prints ` "StorageBuffer" %p` if `plain`, otherwise ` %p`."""
    printer.print_string(" ")
    if plain:
        storage_class = pointer_type(pointer).storage_class
        printer.print_string(f'"{storage_class.spell(storage_class.data)}" ')
    printer.print_operand(pointer)


def verify_fixed_size(type: Attribute, what: str) -> None:
    """
    Raises `VerifyException` if the size of a loaded or copied type is not fixed, but depends on the
    buffer.
    """
    if isinstance(type, RuntimeArrayType) or (
        isinstance(type, StructType)
        and any(isinstance(member, RuntimeArrayType) for member in type.member_types)
    ):
        raise VerifyException(
            f"{what} {type}, which has no fixed size: access an element with spirv.AccessChain"
        )


def constituent_type(composite: Attribute, index: SSAValue) -> Attribute:
    """
    Returns the type that `index` selects in `composite`. Raises `VerifyException` if there is none.
    """
    match composite:
        case (
            VectorType()
            | ArrayType()
            | RuntimeArrayType()
            | CooperativeMatrixType()
            | CooperativeVectorType()
        ):
            return composite.element_type
        case MatrixType():
            return composite.column_type
        case StructType():
            member = constant_integer(index)
            count = len(composite.member_types)
            if member is None:
                raise VerifyException(
                    f"an index into {composite} must be a spirv.Constant: "
                    "a struct's members differ in type"
                )
            if not 0 <= member < count:
                raise VerifyException(
                    f"{composite} has {count} members, so member {member} does not exist"
                )
            return composite.member_types[member]
        case _:
            raise VerifyException(f"{composite} is not a composite, so no index can follow")


def chain_type(base: PointerType, indexes: Sequence[SSAValue]) -> PointerType:
    """
    Returns the type of an access chain's result. Raises `VerifyException` if the indices do not
    fit.
    """
    return PointerType(_chain_pointee(base, indexes), base.storage_class)


def _chain_pointee(base: PointerType, indexes: Sequence[SSAValue]) -> Attribute:
    type = base.pointee
    for index in indexes:
        if not isinstance(index.type, IntegerType):
            raise VerifyException(f"an index must be an integer, not {index.type}")
        type = constituent_type(type, index)
    return type


def verify_chain(base: SSAValue, indexes: Sequence[SSAValue], result: SSAValue) -> None:
    start, given = pointer_type(base), result.type
    pointee = _chain_pointee(start, indexes)
    # The result type determines the stride, and the chain does not.
    if (
        not isinstance(given, PointerType)
        or given.pointee != pointee
        or given.storage_class != start.storage_class
    ):
        expected = PointerType(pointee, start.storage_class)
        raise VerifyException(f"the indexes lead to {expected}, but the result has type {given}")


MAKE_AVAILABLE = MemoryAccess.MakePointerAvailable
MAKE_VISIBLE = MemoryAccess.MakePointerVisible

SCOPE = AnyOf((BaseAttr(ScopeAttr), FlatSymbolRefAttrConstr))
"""Attribute constraint: a known scope, or the symbol of a specialization constant."""

SCOPE_SPELLING = or_symbol(in_brackets(ScopeAttr))
"""The spelling of a scope: `<Workgroup>`, or `@scope` for a specialization constant."""


@dataclass(frozen=True)
class MemoryOperand:
    """A memory operand with its parameters (SPIR-V 3.26)."""

    access: MemoryAccessAttr | None = None
    alignment: IntegerAttr | None = None
    scope: ScopeAttr | SymbolRefAttr | None = None

    @classmethod
    def of(
        cls,
        access: MemoryAccess | None = None,
        alignment: int | None = None,
        scope: Scope | str | None = None,
    ) -> MemoryOperand:
        """Creates a memory operand. If `alignment` is given, also sets the bit Aligned."""
        if alignment is not None:
            access = (access or MemoryAccess.None_) | MemoryAccess.Aligned
        return cls(
            None if access is None else MemoryAccessAttr(access),
            None if alignment is None else IntegerAttr(alignment, i32),
            None if scope is None else cast(Any, as_attribute(scope)),
        )

    @classmethod
    def parse_optional(cls, parser: Parser) -> MemoryOperand:
        """Parses `["Volatile|Aligned", 4]` or nothing."""
        if not parser.parse_optional_punctuation("["):
            return cls()
        access = MemoryAccessAttr.parse_quoted(parser)
        alignment: IntegerAttr | None = None
        scope: Any = None
        while parser.parse_optional_punctuation(","):
            if parser.parse_optional_keyword("scope"):
                with parser.in_parens():
                    scope = SCOPE_SPELLING[0](parser)
            else:
                alignment = parse_integer(parser)
        parser.parse_punctuation("]")
        return cls(MemoryAccessAttr(access), alignment, scope)

    def print(self, printer: Printer) -> None:
        """Prints ` ["Volatile|Aligned", 4]` or nothing."""
        if self.access is None:
            return
        printer.print_string(f' ["{self.access.spell(self.access.data)}"')
        if self.alignment is not None:
            printer.print_string(f", {self.alignment.value.data}")
        if self.scope is not None:
            printer.print_string(", scope(")
            SCOPE_SPELLING[1](printer, self.scope)
            printer.print_string(")")
        printer.print_string("]")

    def verify(self, forbidden: MemoryAccess, what: str) -> None:
        """Raises `VerifyException` if a parameter is missing, or a bit of `forbidden` is set."""
        access = self.access.data if self.access else MemoryAccess.None_
        if bool(access & MemoryAccess.Aligned) != (self.alignment is not None):
            raise VerifyException(
                "the memory operand Aligned and an alignment go together: give both or neither"
            )
        if self.alignment is not None and self.alignment.value.data.bit_count() != 1:
            raise VerifyException(
                f"an alignment must be a power of two, not {self.alignment.value.data}"
            )
        if access & forbidden:
            raise VerifyException(
                f"{forbidden.name} is not allowed for {what}: remove {forbidden.name}"
            )
        if bool(access & (MAKE_AVAILABLE | MAKE_VISIBLE)) != (self.scope is not None):
            raise VerifyException(
                "MakePointerAvailable and MakePointerVisible need a scope, such as "
                "scope(<Workgroup>); other accesses must not have a scope"
            )
        if self.scope is not None and not access & MemoryAccess.NonPrivatePointer:
            raise VerifyException(
                "MakePointerAvailable and MakePointerVisible are for non-private pointers: "
                "add NonPrivatePointer"
            )

    def properties(self, prefix: str = "") -> dict[str, Attribute | None]:
        """Returns the properties by which an operation holds this memory operand."""
        return {
            f"{prefix}memory_access": self.access,
            f"{prefix}alignment": self.alignment,
            f"{prefix}memory_scope": self.scope,
        }


class MemoryAccessing(SPIRVOp, ABC):
    """An operation with a memory operand."""

    memory_access = opt_prop_def(MemoryAccessAttr)
    alignment = opt_prop_def(IntegerAttr)
    memory_scope = opt_prop_def(SCOPE)

    def __init__(
        self, *arguments: Argument, memory: MemoryOperand | None = None, **named: Argument
    ):
        """
        Takes the fields of the class. The argument `memory` replaces the fields of the memory
        operand.
        """
        super().__init__(*arguments, **(memory or MemoryOperand()).properties(), **named)

    @property
    def memory(self) -> MemoryOperand:
        """The memory operand with its parameters. In a copy, this operand belongs to the target."""
        return MemoryOperand(self.memory_access, self.alignment, self.memory_scope)


class MemoryCopying(MemoryAccessing, ABC):
    """
    A copy in memory. The first memory operand applies to the target, the second one to the source.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {"memory_access_2": "source_memory_access"}
    source_memory_access = opt_prop_def(MemoryAccessAttr)
    source_alignment = opt_prop_def(IntegerAttr)
    source_memory_scope = opt_prop_def(SCOPE)

    def __init__(
        self,
        *arguments: Argument,
        memory: MemoryOperand | None = None,
        source_memory: MemoryOperand | None = None,
    ):
        """
        Takes the fields of the class. One argument replaces the fields of each memory operand.
        """
        of_source = (source_memory or MemoryOperand()).properties("source_")
        super().__init__(*arguments, memory=memory, **of_source)

    @property
    def source_memory(self) -> MemoryOperand:
        """
        The second memory operand, which applies to the source. Empty if there is only one memory
        operand.
        """
        return MemoryOperand(
            self.source_memory_access, self.source_alignment, self.source_memory_scope
        )


class ReadsMemory(MemoryEffect):
    """Reads memory. A volatile read also counts as a write, so that it is not removed."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        effects = {EffectInstance(MemoryEffectKind.READ)}
        if any(map(_says_volatile, op.properties.values())) or any(map(_is_volatile, op.operands)):
            effects.add(EffectInstance(MemoryEffectKind.WRITE))
        return effects


class ReadsInvocations(MemoryReadEffect):
    """
    Reads values of other invocations.

    Passes may erase an unused operation with this trait. They may merge two equal operations,
    unless an operation between the two may end an invocation. They must not speculate the
    operation, because fewer invocations are active under a condition.
    """


class Allocates(MemoryEffect):
    """Allocates the variable that the result points to."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, op.results[0])}


def _says_volatile(attribute: Attribute) -> bool:
    volatile = MemoryAccess.Volatile
    return isinstance(attribute, MemoryAccessAttr) and bool(attribute.data & volatile)


def _is_volatile(pointer: SSAValue) -> bool:
    while isinstance(pointer.type, PointerType):
        struct, maker = pointer.type.pointee, pointer.owner
        if isinstance(struct, StructType) and any(
            decoration.decoration.data is Decoration.Volatile
            for decoration in struct.member_decorations
        ):
            return True
        if not isinstance(maker, Operation) or not maker.operands:
            return _variable_is_volatile(maker) if isinstance(maker, Operation) else False
        pointer = maker.operands[0]
    return False


def _variable_is_volatile(maker: Operation) -> bool:
    from xdsl_spirv.dialects.spirv.structure import AddressOfOp
    from xdsl_spirv.upstream.symbols import find_symbol

    variable = find_symbol(maker, maker.variable) if isinstance(maker, AddressOfOp) else maker
    return variable is None or "volatile" in variable.attributes
