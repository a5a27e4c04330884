"""
Instructions for OpenCL kernels only.

They are generic pointers, saturating conversions, lifetimes and flags, and Intel's subgroup blocks,
split barriers and roundings. MLIR has `spirv.GenericCastToPtrExplicit` and `spirv.INTEL.*`. It
cannot parse the text that it prints for `spirv.INTEL.SubgroupBlockWrite`, because its printer omits
the storage class. Use the generic form of this operation to exchange it with MLIR.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntegerAttr, IntegerType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import MemorySemanticsAttr, ScopeAttr, StorageClassAttr
from xdsl_spirv.dialects.spirv.barrier import ControlBarrier
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import (
    BinaryPredicate,
    is_ieee_float,
    is_integer,
    require,
    with_element,
)
from xdsl_spirv.dialects.spirv.conversion import Cast, NumericConversion, PointerCast
from xdsl_spirv.dialects.spirv.enums import MemorySemantics, StorageClass
from xdsl_spirv.dialects.spirv.pointer import storage_class
from xdsl_spirv.dialects.spirv.pointers import (
    POINTER,
    ReadsMemory,
    parse_storage_class,
    pointer_type,
    print_pointer,
)
from xdsl_spirv.dialects.spirv.types import PointerType


class GenericCastToPtrExplicitOp(PointerCast):
    """
    Converts a Generic pointer to the result's storage class. The result is null if the object has
    another class.
    """

    @property
    def storage(self) -> StorageClassAttr:
        """The instruction's Storage operand, which is the storage class of the result type."""
        return storage_class(self.result.type)

    def verify_(self) -> None:
        self.check_classes(source=True, target=False)


class GenericPtrMemSemanticsOp(SPIRVOp):
    """
    The memory semantics of the storage class that a Generic pointer refers to: `spirv.X %p :
    pointer type -> i32`.
    """

    pointer = operand_def(POINTER)
    result = result_def(IntegerType(32))
    traits = traits_def(Pure())
    assembly_format = "$pointer attr-dict `:` type($pointer) `->` type($result)"

    def verify_(self) -> None:
        if storage_class(self.pointer.type).data is not StorageClass.Generic:
            raise VerifyException(f"{self.name} takes a Generic pointer, not {self.pointer.type}")


class SaturatingConversion(NumericConversion, ABC):
    """Converts between signed and unsigned integers, clamped to the result's range."""


class SatConvertSToUOp(SaturatingConversion):
    """Converts signed to unsigned integers."""


class SatConvertUToSOp(SaturatingConversion):
    """Converts unsigned to signed integers."""


class LessOrGreaterOp(BinaryPredicate):
    """OpLessOrGreater, the older name of FOrdNotEqual: `spirv.LessOrGreater %a, %b : f32`."""

    def verify_(self) -> None:
        self.check_types(is_ieee_float, "floating-point")


class Lifetime(SPIRVOp, ABC):
    """Starts or ends a lifetime: `spirv.X %p, 0 : !spirv.ptr<f32, Function>` (0: all bytes)."""

    pointer = operand_def(POINTER)
    size = prop_def(IntegerAttr.constr(i32))
    assembly_format = "$pointer `,` $size attr-dict `:` type($pointer)"

    def __init__(self, pointer: Value, size: int = 0):
        super().__init__(pointer, size)

    def verify_(self) -> None:
        if storage_class(self.pointer.type).data is not StorageClass.Function:
            raise VerifyException(
                f"{self.name} requires a pointer to Function memory, not {self.pointer.type}"
            )
        if self.size.value.data < 0:
            raise VerifyException(f"{self.name}: the size must be at least 0 bytes")


class LifetimeStartOp(Lifetime):
    """Starts the object's lifetime. Its value is undefined at first."""


class LifetimeStopOp(Lifetime):
    """Ends the object's lifetime."""


class AtomicFlag(SPIRVOp, ABC):
    """Accesses a 32-bit flag atomically: `spirv.X <Device> <Acquire> %p : !spirv.ptr<i32, ...>`."""

    pointer = operand_def(POINTER)
    memory_scope = prop_def(ScopeAttr)
    semantics = prop_def(MemorySemanticsAttr)
    assembly_format = "$memory_scope $semantics $pointer attr-dict `:` type($pointer)"

    def check_pointer(self) -> None:
        """Checks that the pointee is a 32-bit integer."""
        if isinstance(self.pointer.type, PointerType) and self.pointer.type.pointee != i32:
            raise VerifyException(f"{self.name} requires a pointer to i32, not {self.pointer.type}")


class AtomicFlagTestAndSetOp(AtomicFlag):
    """Sets the flag. The result is true if the flag was already set."""

    result = result_def(i1)

    def verify_(self) -> None:
        self.check_pointer()


class AtomicFlagClearOp(AtomicFlag):
    """Clears the flag."""

    def verify_(self) -> None:
        self.check_pointer()
        wrong = MemorySemantics.Acquire | MemorySemantics.AcquireRelease
        if self.semantics.data & wrong:
            raise VerifyException(
                f"{self.name} cannot have the semantics Acquire or AcquireRelease"
            )


# Intel


class SplitBarrier(ControlBarrier, ABC):
    """One half of a barrier: `spirv.X <Workgroup> <Workgroup> <AcquireRelease|WorkgroupMemory>`."""

    assembly_format = "$execution_scope $memory_scope $memory_semantics attr-dict"


class ControlBarrierArriveOp(SplitBarrier, name="spirv.INTEL.ControlBarrierArrive"):
    """The first half of a barrier, which does not wait (SPV_INTEL_split_barrier)."""


class ControlBarrierWaitOp(SplitBarrier, name="spirv.INTEL.ControlBarrierWait"):
    """The second half of a barrier, which waits for all invocations (SPV_INTEL_split_barrier)."""


class FloatRounding(Cast, ABC):
    """Converts between f32 and the bits of a shorter float. The shape does not change."""

    SOURCE: ClassVar[Attribute] = Float32Type()
    TARGET: ClassVar[Attribute] = Float32Type()

    def verify_(self) -> None:
        source = self.operand.type
        require(self, [source], lambda t: t == self.SOURCE, str(self.SOURCE))
        wanted = with_element(source, self.TARGET)
        if self.result.type != wanted:
            raise VerifyException(f"{self.name} must return {wanted}, not {self.result.type}")


class RoundFToTF32Op(FloatRounding, name="spirv.INTEL.RoundFToTF32"):
    """Rounds f32 to TF32, which has 10 bits of mantissa."""


class ConvertFToBF16Op(FloatRounding, name="spirv.INTEL.ConvertFToBF16"):
    """Converts f32 to the bits of a bfloat16 in an integer."""

    TARGET: ClassVar[Attribute] = IntegerType(16)


class ConvertBF16ToFOp(FloatRounding, name="spirv.INTEL.ConvertBF16ToF"):
    """Converts the bits of a bfloat16 in an integer to f32."""

    SOURCE: ClassVar[Attribute] = IntegerType(16)


def _check_block(op: Operation, pointer: SSAValue, value: Attribute) -> None:
    type_ = pointer_type(pointer)
    if rules.element_of(value) != type_.pointee or not is_integer(type_.pointee):
        raise VerifyException(
            f"{op.name}: a block must be an integer of type {type_.pointee} or a vector of these, "
            f"not {value}"
        )


class SubgroupBlockReadOp(SPIRVOp, name="spirv.INTEL.SubgroupBlockRead"):
    """
    Reads consecutive integers, one or several for each invocation: `spirv.X %p : ptr -> vector`.
    """

    ptr = operand_def(PointerType)
    result = result_def()
    traits = traits_def(ReadsMemory())
    assembly_format = "$ptr attr-dict `:` type($ptr) `->` type($result)"

    def verify_(self) -> None:
        _check_block(self, self.ptr, self.result.type)


class SubgroupBlockWriteOp(SPIRVOp, name="spirv.INTEL.SubgroupBlockWrite"):
    """
    Writes consecutive integers, one or several for each invocation: `spirv.INTEL.SubgroupBlockWrite
    "CrossWorkgroup" %p, %v : vector<2xi32>`.
    """

    ptr = operand_def(PointerType)
    value = operand_def()
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> SubgroupBlockWriteOp:
        storage = parse_storage_class(parser)
        if storage is None:
            parser.raise_error("expected the pointer's storage class in quotation marks")
        pointer = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        pointee = PointerType(rules.element_of(type_), storage)
        op = cls(parser.resolve_operand(pointer, pointee), parser.resolve_operand(value, type_))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        print_pointer(printer, self.ptr)
        printer.print_string(", ")
        printer.print_operand(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    def verify_(self) -> None:
        _check_block(self, self.ptr, self.value.type)
