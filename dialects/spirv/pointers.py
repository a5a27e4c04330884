"""
Pointers in operations: which kinds there are, how they are written, where indexes lead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import BaseAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.dialects.spirv.enums import Capability, StorageClass
from xdsl_spirv.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    MatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
    UntypedPointerType,
    known,
)
from xdsl_spirv.dialects.spirv.types_declared import CooperativeVectorType

POINTER = BaseAttr(PointerType) | BaseAttr(UntypedPointerType)
"""A pointer of either kind."""

VARYING: Mapping[StorageClass, Capability] = {
    StorageClass.StorageBuffer: Capability.VariablePointersStorageBuffer,
    StorageClass.Workgroup: Capability.VariablePointers,
    StorageClass.PhysicalStorageBuffer: Capability.PhysicalStorageBufferAddresses,
}
"""What pointers into a storage class need to be computed, not only formed in place."""


def pointer_type(value: SSAValue) -> PointerType:
    """The type of a pointer operand; raises VerifyException for anything else."""
    if not isinstance(value.type, PointerType):
        raise VerifyException(f"expected a !spirv.ptr, got {value.type}")
    return value.type


def is_plain(pointer: SSAValue) -> bool:
    """Whether storage class and pointee determine the pointer's type."""
    return isinstance(pointer.type, PointerType) and not pointer.type.stride.data


def parse_storage_class(parser: Parser) -> StorageClass | None:
    """`"StorageBuffer"`, or nothing where types follow in full."""
    start = parser.pos
    text = parser.parse_optional_str_literal()
    if text is None:
        return None
    storage_class = StorageClassAttr.from_text(text)
    if storage_class is None:
        parser.raise_error(f"{text!r} is not a StorageClass", start, parser.pos)
    return storage_class


def print_pointer(printer: Printer, pointer: SSAValue, *, plain: bool = True) -> None:
    """` "StorageBuffer" %p`, without the storage class where the type follows in full."""
    printer.print_string(" ")
    if plain:
        storage_class = pointer_type(pointer).storage_class
        printer.print_string(f'"{storage_class.spell(storage_class.data)}" ')
    printer.print_operand(pointer)


def verify_fixed_size(type: Attribute, what: str) -> None:
    """What is loaded or copied as a whole has a size known without the buffer."""
    if isinstance(type, RuntimeArrayType) or (
        isinstance(type, StructType)
        and any(isinstance(member, RuntimeArrayType) for member in type.member_types)
    ):
        raise VerifyException(
            f"{what} {type}, which has no fixed size: go to an element with spirv.AccessChain"
        )


def constituent_type(composite: Attribute, index: SSAValue) -> Attribute:
    """The type that `index` selects in `composite`; raises VerifyException if it selects none."""
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
                raise VerifyException(f"{composite} has no member {member}, only {count} of them")
            return composite.member_types[member]
        case _:
            raise VerifyException(
                f"{composite} is not a composite: there are more indexes than it has levels"
            )


def chain_type(base: PointerType, indexes: Sequence[SSAValue]) -> PointerType:
    """The type of a chain's result; raises VerifyException if the indexes do not fit the base."""
    return PointerType(_chain_pointee(base, indexes), base.storage_class)


def _chain_pointee(base: PointerType, indexes: Sequence[SSAValue]) -> Attribute:
    type = base.pointee
    for index in indexes:
        if not isinstance(index.type, IntegerType):
            raise VerifyException(f"an index must be an integer, not {index.type}")
        value = constant_integer(index)
        length = known(type.length) if isinstance(type, ArrayType) else None
        if value is not None and length is not None and not 0 <= value < length:
            raise VerifyException(f"index {value} is outside of {type}")
        type = constituent_type(type, index)
    return type


def verify_chain(base: SSAValue, indexes: Sequence[SSAValue], result: SSAValue) -> None:
    start, given = pointer_type(base), result.type
    pointee = _chain_pointee(start, indexes)
    # The stride belongs to the result's type; no chain determines it.
    if (
        not isinstance(given, PointerType)
        or given.pointee != pointee
        or given.storage_class != start.storage_class
    ):
        expected = PointerType(pointee, start.storage_class)
        raise VerifyException(f"the indexes lead to {expected}, but the result is declared {given}")
