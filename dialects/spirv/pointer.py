"""
Operations that compare, subtract and form pointers, copy memory, and return the size of a pointee.

MLIR has none of these operations. The types of both operands are written, since one of two compared
pointers may be untyped.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import RawAccessChainOperandsAttr, StorageClassAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.dialects.spirv.constraints import MemoryOperands, is_integer
from xdsl_spirv.dialects.spirv.enums import (
    Capability,
    MemoryAccess,
    RawAccessChainOperands,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.pointers import (
    MAKE_AVAILABLE,
    MAKE_VISIBLE,
    POINTER,
    VARYING,
    MemoryCopying,
)
from xdsl_spirv.dialects.spirv.types import PointerType, UntypedPointerType


def storage_class(pointer: Attribute) -> StorageClassAttr:
    """Returns the storage class of a pointer type. Raises `VerifyException` for other types."""
    if not isinstance(pointer, PointerType | UntypedPointerType):
        raise VerifyException(f"expected a pointer, got {pointer}")
    return pointer.storage_class


class TwoPointers(SPIRVOp, ABC):
    """An operation on two pointers into the same storage class."""

    operand_1 = operand_def(POINTER)
    operand_2 = operand_def(POINTER)

    def check_pointers(self) -> None:
        """Checks that both pointers have the same type and storage class, and are not physical."""
        types = (self.operand_1.type, self.operand_2.type)
        classes = [storage_class(t) for t in types]
        if classes[0] != classes[1]:
            raise VerifyException(
                f"{self.name} takes pointers into one storage class, not {types[0]} and {types[1]}"
            )
        if all(isinstance(t, PointerType) for t in types) and types[0] != types[1]:
            raise VerifyException(
                f"{self.name} takes pointers of equal types, not {types[0]} and {types[1]}"
            )
        if classes[0].data is StorageClass.PhysicalStorageBuffer:
            raise VerifyException(
                f"{self.name} does not take physical pointers: convert both by "
                "spirv.ConvertPtrToU, then compare"
            )

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns the capability for variable pointers into the storage class (SPIR-V 2.16.1)."""
        storage = storage_class(self.operand_1.type).data
        if storage in VARYING:
            yield VARYING[storage], f"{self.name} in {storage.name}"


class PointerComparison(TwoPointers, ABC):
    """Compares two pointers for equality."""

    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand_1 `,` $operand_2 attr-dict `:` type($operand_1) `,` type($operand_2)"
    )

    def verify_(self) -> None:
        self.check_pointers()


class PtrEqualOp(PointerComparison):
    """OpPtrEqual: `spirv.PtrEqual %a, %b : !spirv.ptr<...>, !spirv.ptr<...>`."""


class PtrNotEqualOp(PointerComparison):
    """OpPtrNotEqual, the negation of spirv.PtrEqual."""


class PtrDiffOp(TwoPointers):
    """
    OpPtrDiff: the distance between two elements of an array, in elements.

    `spirv.PtrDiff %a, %b : !spirv.ptr<...>, !spirv.ptr<...> -> i32`.
    """

    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$operand_1 `,` $operand_2 attr-dict `:` type($operand_1) `,` type($operand_2) "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        self.check_pointers()
        if not is_integer(self.result.type):
            raise VerifyException(
                f"{self.name} must return an integer scalar, not {self.result.type}"
            )
        if not all(isinstance(o.type, PointerType) for o in self.operands):
            raise VerifyException(
                f"{self.name} counts elements, which untyped pointers do not have: convert both "
                "by spirv.ConvertPtrToU, then subtract"
            )


class CopyMemorySizedOp(MemoryCopying):
    """
    OpCopyMemorySized: `spirv.CopyMemorySized %to, %from, %bytes ["Aligned", 4] : T1, T2, i32`.

    Memory operands apply as in spirv.CopyMemory.
    """

    target = operand_def(POINTER)
    source = operand_def(POINTER)
    size = operand_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    custom_directives = (MemoryOperands,)
    assembly_format = (
        "operands custom<MemoryOperands>($memory_access, $alignment, $memory_scope) "
        "(`,` custom<MemoryOperands>($source_memory_access, $source_alignment, "
        "$source_memory_scope)^)? attr-dict `:` type(operands)"
    )

    def verify_(self) -> None:
        if not is_integer(self.size.type):
            raise VerifyException(f"{self.name}: the size must be an integer, not {self.size.type}")
        if constant_integer(self.size) == 0:
            raise VerifyException(f"{self.name}: the size must be at least 1 byte")
        two = self.source_memory.access is not None
        if two and self.memory.access is None:
            raise VerifyException(
                "the source has a memory operand, but the target has none: add one"
            )
        self.memory.verify(MAKE_VISIBLE if two else MemoryAccess.None_, "the target of a copy")
        self.source_memory.verify(MAKE_AVAILABLE, "the source of a copy")


class SizeOfOp(SPIRVOp):
    """OpSizeOf: the bytes of a pointee, `spirv.SizeOf %p : !spirv.ptr<f32, Function> -> i32`."""

    pointer = operand_def(PointerType)
    result = result_def(IntegerType(32))
    traits = traits_def(Pure())
    assembly_format = "$pointer attr-dict `:` type($pointer) `->` type($result)"


class RawAccessChainNVOp(SPIRVOp, name="spirv.NV.RawAccessChain"):
    """
    OpRawAccessChainNV: a pointer `element * stride + offset` bytes after the base.

    `spirv.NV.RawAccessChain %base[%stride, %element, %offset], <RobustnessPerElementNV> :
    !spirv.ptr<...>, i32, i32, i32 -> !spirv.ptr<...>`. SPV_NV_raw_access_chains.
    """

    FIELDS: ClassVar[Mapping[str, str]] = {"raw_access_chain_operands": "robustness"}
    base = operand_def(PointerType)
    byte_stride = operand_def()
    element_index = operand_def()
    byte_offset = operand_def()
    robustness = opt_prop_def(RawAccessChainOperandsAttr)
    result = result_def(PointerType)
    traits = traits_def(Pure())
    assembly_format = (
        "$base `[` $byte_stride `,` $element_index `,` $byte_offset `]` (`,` $robustness^)? "
        "attr-dict "
        "`:` type($base) `,` type($byte_stride) `,` type($element_index) `,` type($byte_offset) "
        "`->` type($result)"
    )

    def verify_(self) -> None:
        for operand in self.operands[1:]:
            if operand.type != IntegerType(32):
                raise VerifyException(f"{self.name} takes 32-bit integers, not {operand.type}")
        if storage_class(self.base.type) != storage_class(self.result.type):
            raise VerifyException(
                f"{self.name} cannot change the storage class: {self.base.type} to "
                f"{self.result.type}"
            )
        if self.robustness is None:
            return
        bits = RawAccessChainOperands
        element = self.robustness.data & bits.RobustnessPerElementNV
        if element and self.robustness.data & bits.RobustnessPerComponentNV:
            raise VerifyException(f"{self.name} is robust per component or per element, not both")
        if element and constant_integer(SSAValue.get(self.byte_stride)) == 0:
            raise VerifyException(f"{self.name}: RobustnessPerElementNV needs a stride above 0")
