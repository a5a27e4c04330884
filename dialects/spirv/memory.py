"""
Variables of functions, loads, stores, copies, and pointers into composites.

The verifier computes the pointee of an access chain from the base's type and the indices. MLIR
lacks InBoundsAccessChain, ArrayLength and CopyObject. For loads and stores, MLIR writes storage
class and pointee. If these do not determine the pointer's type (it is untyped, or has a stride),
the type is written: `spirv.Load %p : !spirv.untyped_ptr<StorageBuffer> -> f32`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OptionalOperandVariable,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv import rules
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constants import CONSTANT_INSTRUCTIONS, verify_lengths
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, StorageClass
from xdsl_spirv.dialects.spirv.folding import Foldable
from xdsl_spirv.dialects.spirv.pointers import (
    MAKE_AVAILABLE,
    MAKE_VISIBLE,
    POINTER,
    Allocates,
    MemoryAccessing,
    MemoryCopying,
    MemoryOperand,
    ReadsMemory,
    chain_type,
    is_plain,
    parse_storage_class,
    pointee_of,
    pointer_type,
    print_pointer,
    verify_chain,
    verify_fixed_size,
)
from xdsl_spirv.dialects.spirv.structure import AddressOfOp
from xdsl_spirv.dialects.spirv.types import (
    PointerType,
    RuntimeArrayType,
    StructType,
    UntypedPointerType,
)


@irdl_custom_directive
class PointerOfClass(CustomDirective):
    """Syntax of a pointer type. Its storage class also becomes a property of the operation."""

    pointer: TypeDirective
    storage_class: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.parse_pointer(parser, state)

    def parse_pointer(
        self, parser: Parser, state: ParsingState
    ) -> PointerType | UntypedPointerType:
        """Parses the pointer's type. Sets the types that follow from it."""
        start = parser.pos
        type = parser.parse_type()
        if not isinstance(type, PointerType | UntypedPointerType):
            parser.raise_error(f"expected a pointer's type, got {type}", start, parser.pos)
        self.pointer.set(state, (type,))
        self.storage_class.set(state, type.storage_class)
        return type

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.pointer.print(printer, state, op)


@irdl_custom_directive
class PointerToValue(PointerOfClass):
    """Like `PointerOfClass`. The type of an optional value follows from the pointer type, too."""

    pointer: TypeDirective
    storage_class: AttributeVariable
    value: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        type = self.parse_pointer(parser, state)
        if not isinstance(type, PointerType):
            parser.raise_error(f"expected a !spirv.ptr, got {type}", start, parser.pos)
        operand = cast(OptionalOperandVariable, self.value.inner)
        self.value.set(state, (type.pointee,) if state.operands[operand.index] else ())


class VariableOp(SPIRVOp):
    """OpVariable in a function: `spirv.Variable init(%c) : !spirv.ptr<f32, Function>`."""

    storage_class = prop_def(StorageClassAttr)
    initializer = opt_operand_def()
    result = result_def(PointerType)
    traits = traits_def(Allocates())
    custom_directives = (PointerToValue,)
    assembly_format = (
        "(`init` `(` $initializer^ `)`)? attr-dict `:` "
        "custom<PointerToValue>(type($result), $storage_class, type($initializer))"
    )

    def __init__(self, result_type: PointerType, initializer: Value | None = None):
        super().__init__(result_type.storage_class, result_type, initializer)

    def verify_(self) -> None:
        type = pointer_type(self.result)
        if self.storage_class != type.storage_class:
            raise VerifyException(
                f"the variable is in {self.storage_class.data.name}, "
                f"its pointer in {type.storage_class.data.name}: they must be the same"
            )
        rules.cm_07_storage(type.pointee, type.storage_class.data)
        verify_lengths(self, type.pointee)
        if self.storage_class.data != StorageClass.Function:
            raise VerifyException(
                "spirv.Variable requires the storage class Function: "
                f"use a spirv.GlobalVariable for {self.storage_class.data.name}"
            )
        if self.initializer is None:
            return
        if self.initializer.type != type.pointee:
            raise VerifyException(
                f"an initializer of type {self.initializer.type} cannot fill {type.pointee}"
            )
        if not isinstance(self.initializer.owner, (*CONSTANT_INSTRUCTIONS, AddressOfOp)):
            raise VerifyException(
                "an initializer must be a constant or a global variable: store the value instead"
            )


class LoadOp(MemoryAccessing, result=pointee_of):
    """OpLoad: `spirv.Load "StorageBuffer" %p ["Aligned", 4] : f32`."""

    BY_SIGNATURE: ClassVar[bool] = True
    pointer = operand_def(POINTER)
    result = result_def()
    traits = traits_def(ReadsMemory())

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        storage_class = parse_storage_class(parser)
        operand = parser.parse_unresolved_operand()
        memory = MemoryOperand.parse_optional(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if storage_class is None:
            pointer = parser.resolve_operand(operand, type)
            parser.parse_punctuation("->")
            type = parser.parse_type()
        else:
            pointer = parser.resolve_operand(operand, PointerType(type, storage_class))
        op = cls(pointer, memory=memory, result_type=type)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        plain = is_plain(self.pointer)
        print_pointer(printer, self.pointer, plain=plain)
        self.memory.print(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if not plain:
            printer.print_attribute(self.pointer.type)
            printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        if isinstance(self.pointer.type, PointerType):
            pointee = self.pointer.type.pointee
            if self.result.type != pointee:
                raise VerifyException(
                    f"a load through a pointer to {pointee} cannot return {self.result.type}"
                )
        verify_fixed_size(self.result.type, "cannot load")
        self.memory.verify(MAKE_AVAILABLE, "a load")


class StoreOp(MemoryAccessing):
    """OpStore: `spirv.Store "StorageBuffer" %p, %v ["Aligned", 4] : f32`."""

    BY_SIGNATURE: ClassVar[bool] = True
    pointer = operand_def(POINTER)
    object = operand_def()
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        storage_class = parse_storage_class(parser)
        pointer = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        value = parser.parse_unresolved_operand()
        memory = MemoryOperand.parse_optional(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if storage_class is None:
            to: Attribute = type
            parser.parse_punctuation(",")
            type = parser.parse_type()
        else:
            to = PointerType(type, storage_class)
        op = cls(
            parser.resolve_operand(pointer, to), parser.resolve_operand(value, type), memory=memory
        )
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        plain = is_plain(self.pointer)
        print_pointer(printer, self.pointer, plain=plain)
        printer.print_string(", ")
        printer.print_operand(self.object)
        self.memory.print(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if not plain:
            printer.print_attribute(self.pointer.type)
            printer.print_string(", ")
        printer.print_attribute(self.object.type)

    def verify_(self) -> None:
        if isinstance(self.pointer.type, PointerType):
            pointee = self.pointer.type.pointee
            if self.object.type != pointee:
                raise VerifyException(
                    f"a value of type {self.object.type} cannot be stored "
                    f"through a pointer to {pointee}"
                )
        self.memory.verify(MAKE_VISIBLE, "a store")


class CopyMemoryOp(MemoryCopying):
    """
    OpCopyMemory: `spirv.CopyMemory "Function" %to, "StorageBuffer" %from : f32`.

    The first memory operand applies to the target, and also to the source if it is the only one.
    """

    target = operand_def(POINTER)
    source = operand_def(POINTER)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def parse(cls, parser: Parser) -> CopyMemoryOp:
        to_storage = parse_storage_class(parser)
        target = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        from_storage = parse_storage_class(parser)
        source = parser.parse_unresolved_operand()
        memory = MemoryOperand.parse_optional(parser)
        source_memory = MemoryOperand()
        if parser.parse_optional_punctuation(","):
            source_memory = MemoryOperand.parse_optional(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        to: Attribute = parser.parse_type()
        if to_storage is None or from_storage is None:
            parser.parse_punctuation(",")
            of: Attribute = parser.parse_type()
        else:
            to, of = PointerType(to, to_storage), PointerType(to, from_storage)
        op = cls(
            parser.resolve_operand(target, to),
            parser.resolve_operand(source, of),
            memory=memory,
            source_memory=source_memory,
        )
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        plain = is_plain(self.target) and is_plain(self.source)
        print_pointer(printer, self.target, plain=plain)
        printer.print_string(",")
        print_pointer(printer, self.source, plain=plain)
        self.memory.print(printer)
        if self.source_memory.access is not None:
            printer.print_string(",")
            self.source_memory.print(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if plain:
            printer.print_attribute(pointer_type(self.target).pointee)
        else:
            printer.print_list((self.target.type, self.source.type), printer.print_attribute)

    def verify_(self) -> None:
        pointers = (self.target.type, self.source.type)
        pointees = [t.pointee for t in pointers if isinstance(t, PointerType)]
        if not pointees:
            raise VerifyException(
                "one side of a copy must have a typed pointer, which says how much is copied: "
                "use spirv.CopyMemorySized"
            )
        if pointees[0] != pointees[-1]:
            raise VerifyException(
                f"cannot copy {pointees[1]} to {pointees[0]}: the types must be the same"
            )
        verify_fixed_size(pointees[0], "cannot copy")
        two = self.source_memory.access is not None
        if two and self.memory.access is None:
            raise VerifyException(
                "the source has a memory operand, but the target has none: add one"
            )
        self.memory.verify(MAKE_VISIBLE if two else MemoryAccess.None_, "the target of a copy")
        self.source_memory.verify(MAKE_AVAILABLE, "the source of a copy")


class AccessChain(SPIRVOp, HasCanonicalizationPatternsInterface, ABC):
    """Returns a pointer to a part of the base's pointee."""

    base = operand_def(PointerType)
    indexes = var_operand_def(IntegerType)
    result = result_def(PointerType)
    traits = traits_def(Pure())

    assembly_format = (
        "$base `[` $indexes `]` attr-dict `:` type($base) `,` type($indexes) `->` type($result)"
    )

    def __init__(
        self, base: Value, indexes: Sequence[Value], result_type: PointerType | None = None
    ):
        base = SSAValue.get(base)
        values = [SSAValue.get(index) for index in indexes]
        super().__init__(base, values, result_type or chain_type(pointer_type(base), values))

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (ChainOfChains(),)

    def verify_(self) -> None:
        verify_chain(self.base, self.indexes, self.result)


class PtrAccessChain(SPIRVOp, ABC):
    """
    Returns a pointer to a part of element `element` of an array. The base points to element 0.
    """

    base = operand_def(PointerType)
    element = operand_def(IntegerType)
    indexes = var_operand_def(IntegerType)
    result = result_def(PointerType)
    traits = traits_def(Pure())
    assembly_format = (
        "$base `[` $element ($indexes^)? `]` attr-dict `:` "
        "type($base) `,` type($element) (`,` type($indexes)^)? `->` type($result)"
    )

    def __init__(
        self,
        base: Value,
        element: Value,
        indexes: Sequence[Value] = (),
        result_type: PointerType | None = None,
    ):
        base = SSAValue.get(base)
        values = [SSAValue.get(index) for index in indexes]
        result_type = result_type or chain_type(pointer_type(base), values)
        super().__init__(base, element, values, result_type)

    def verify_(self) -> None:
        verify_chain(self.base, self.indexes, self.result)


# fmt: off
class AccessChainOp(AccessChain):
    """OpAccessChain: `spirv.AccessChain %p[%i] : !spirv.ptr<...>, i32 -> !spirv.ptr<...>`."""
class InBoundsAccessChainOp(AccessChain):
    """OpInBoundsAccessChain: an access chain that stays inside the object."""
class PtrAccessChainOp(PtrAccessChain):
    """OpPtrAccessChain: `spirv.PtrAccessChain %p[%e %i] : ..., i32, i32 -> !spirv.ptr<...>`."""
class InBoundsPtrAccessChainOp(PtrAccessChain):
    """OpInBoundsPtrAccessChain: a pointer access chain that stays inside the array."""
# fmt: on


class ArrayLengthOp(SPIRVOp):
    """
    OpArrayLength: the length of the runtime array that ends a struct in a buffer.

    `spirv.ArrayLength %p[1] : !spirv.ptr<!spirv.struct<...>, StorageBuffer> -> i32`.
    """

    structure = operand_def(PointerType)
    array_member = prop_def(IntegerAttr.constr(i32))
    result = result_def(IntegerType(32))
    traits = traits_def(Pure())
    assembly_format = (
        "$structure `[` $array_member `]` attr-dict `:` type($structure) `->` type($result)"
    )

    def verify_(self) -> None:
        struct = pointer_type(self.structure).pointee
        if not isinstance(struct, StructType):
            raise VerifyException(f"expected a pointer to a struct, not to {struct}")
        last = len(struct.member_types) - 1
        member = self.array_member.value.data
        if member != last or not isinstance(struct.member_types[last], RuntimeArrayType):
            raise VerifyException(
                f"member {member} of {struct} is not a runtime array that ends the struct"
            )


class CopyObjectOp(Foldable):
    """OpCopyObject: returns its operand, `spirv.CopyObject %x : !spirv.coopmatrix<...>`."""

    T: ClassVar = VarConstraint("T", AnyAttr())
    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand)"

    def evaluate(self, operands: Sequence[Attribute | None]) -> SSAValue:
        return self.operand


class ChainOfChains(RewritePattern):
    """
    Joins two access chains if the first one computes the base of the second one.

        spirv.AccessChain %p[%i]; spirv.AccessChain %0[%j]  ->  spirv.AccessChain %p[%i, %j]
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        assert isinstance(op, AccessChain)
        inner = op.base.owner
        if not isinstance(inner, AccessChain) or op.attributes or inner.attributes:
            return
        joined = type(op) if type(op) is type(inner) else AccessChainOp
        chain = joined.build(
            operands=[inner.base, [*inner.indexes, *op.indexes]], result_types=[op.result.type]
        )
        rewriter.replace(op, chain)
