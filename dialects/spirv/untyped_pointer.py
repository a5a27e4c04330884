"""
SPV_KHR_untyped_pointers: pointers without a pointee type.

Each access gives a type instead. An access chain gives the type that it indexes. A load or store
gives the value's type (`spirv.Load %p : !spirv.untyped_ptr<StorageBuffer> -> f32`, memory.py).
MLIR has none of these operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyOf,
    BaseAttr,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr, parse_integer
from xdsl_spirv.dialects.spirv.base import SPIRVOp, Value
from xdsl_spirv.dialects.spirv.constraints import is_integer
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.memory import PointerOfClass
from xdsl_spirv.dialects.spirv.pointer import storage_class
from xdsl_spirv.dialects.spirv.pointers import POINTER, Allocates, chain_type
from xdsl_spirv.dialects.spirv.structure import print_number
from xdsl_spirv.dialects.spirv.types import (
    PointerType,
    RuntimeArrayType,
    StructType,
    UntypedPointerType,
)

NUMBER = AnyOf((BaseAttr(IntegerAttr), FlatSymbolRefAttrConstr))
"""A number that SPIR-V takes from a constant instruction."""


@irdl_custom_directive
class NumberOrSymbol(CustomDirective):
    """Syntax of a 32-bit constant, `4`, or of a specialization constant's `@name`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        symbol = parser.parse_optional_symbol_name()
        number = parse_integer(parser) if symbol is None else SymbolRefAttr(symbol)
        self.value.set(state, number)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_number(printer, self.value.get(op))

    def is_present(self, op: IRDLOperation) -> bool:
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        return True


class UntypedVariableOp(SPIRVOp, name="spirv.KHR.UntypedVariable"):
    """
    OpUntypedVariableKHR in a function, with a data type.

    `spirv.KHR.UntypedVariable init(%c : f32) f32 : !spirv.untyped_ptr<Function>`.
    """

    storage_class = prop_def(StorageClassAttr)
    data_type = prop_def(TypeAttribute)
    initializer = opt_operand_def()
    result = result_def(UntypedPointerType)
    traits = traits_def(Allocates())
    custom_directives = (PointerOfClass,)
    assembly_format = (
        "(`init` `(` $initializer^ `:` type($initializer) `)`)? $data_type attr-dict `:` "
        "custom<PointerOfClass>(type($result), $storage_class)"
    )

    def __init__(
        self,
        data_type: TypeAttribute,
        initializer: Value | None = None,
        result_type: UntypedPointerType | None = None,
    ):
        result_type = result_type or UntypedPointerType(StorageClass.Function)
        super().__init__(result_type.storage_class, data_type, result_type, initializer)

    def verify_(self) -> None:
        if self.storage_class != storage_class(self.result.type):
            raise VerifyException(
                f"the variable is in {self.storage_class.data.name}, but its pointer has type "
                f"{self.result.type}"
            )
        if self.storage_class.data is not StorageClass.Function:
            raise VerifyException(
                f"{self.name} requires the storage class Function: use a "
                f"spirv.KHR.UntypedGlobalVariable for {self.storage_class.data.name}"
            )
        if self.initializer is not None and self.initializer.type != self.data_type:
            raise VerifyException(
                f"an initializer of type {self.initializer.type} cannot fill {self.data_type}"
            )


def _verify_untyped_chain(op: Operation, base_type: Attribute, indexes: Sequence[SSAValue]) -> None:
    base, result = op.operands[0], op.results[0]
    if storage_class(base.type) != storage_class(result.type):
        raise VerifyException(
            f"{op.name} cannot change the storage class: {base.type} to {result.type}"
        )
    chain_type(PointerType(base_type, storage_class(base.type)), indexes)


class UntypedAccessChain(SPIRVOp, ABC, result=lambda base: UntypedPointerType(storage_class(base))):
    """Returns a pointer to a part of the base's object, which has the type `base_type`."""

    base_type = prop_def(TypeAttribute)
    base = operand_def(POINTER)
    indexes = var_operand_def(IntegerType)
    result = result_def(UntypedPointerType)
    traits = traits_def(Pure())
    assembly_format = (
        "$base_type `,` $base `[` $indexes `]` attr-dict `:` "
        "type($base) (`,` type($indexes)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        _verify_untyped_chain(self, self.base_type, self.indexes)


class UntypedPtrAccessChain(
    SPIRVOp, ABC, result=lambda base: UntypedPointerType(storage_class(base))
):
    """
    Returns a pointer into element `element` of an array of `base_type`. The base points to element
    0.
    """

    base_type = prop_def(TypeAttribute)
    base = operand_def(POINTER)
    element = operand_def(IntegerType)
    indexes = var_operand_def(IntegerType)
    result = result_def(UntypedPointerType)
    traits = traits_def(Pure())
    assembly_format = (
        "$base_type `,` $base `[` $element ($indexes^)? `]` attr-dict `:` "
        "type($base) `,` type($element) (`,` type($indexes)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        _verify_untyped_chain(self, self.base_type, self.indexes)


class UntypedAccessChainOp(UntypedAccessChain, name="spirv.KHR.UntypedAccessChain"):
    """
    OpUntypedAccessChainKHR: returns a pointer to a part of an object of the given type.

    `spirv.KHR.UntypedAccessChain !spirv.rtarray<f32>, %p[%i] : !spirv.untyped_ptr<...>, i32 ->
    ...`
    """


class UntypedInBoundsAccessChainOp(UntypedAccessChain, name="spirv.KHR.UntypedInBoundsAccessChain"):
    """OpUntypedInBoundsAccessChainKHR: an access chain that stays inside the object."""


class UntypedPtrAccessChainOp(UntypedPtrAccessChain, name="spirv.KHR.UntypedPtrAccessChain"):
    """
    OpUntypedPtrAccessChainKHR: returns a pointer into one element of an array of the given type.

    `spirv.KHR.UntypedPtrAccessChain T, %p[%e %i] : !spirv.untyped_ptr<...>, i32, i32 -> ...`.
    """


class UntypedInBoundsPtrAccessChainOp(
    UntypedPtrAccessChain, name="spirv.KHR.UntypedInBoundsPtrAccessChain"
):
    """OpUntypedInBoundsPtrAccessChainKHR: a pointer access chain that stays inside the array."""


class UntypedArrayLengthOp(SPIRVOp, name="spirv.KHR.UntypedArrayLength"):
    """
    OpUntypedArrayLengthKHR: the length of the runtime array that ends a struct of a given type.

    `spirv.KHR.UntypedArrayLength !spirv.struct<...>, %p[1] : !spirv.untyped_ptr<...> -> i32`.
    """

    structure = prop_def(TypeAttribute)
    pointer = operand_def(POINTER)
    array_member = prop_def(IntegerAttr.constr(i32))
    result = result_def(IntegerType(32))
    traits = traits_def(Pure())
    assembly_format = (
        "$structure `,` $pointer `[` $array_member `]` attr-dict `:` "
        "type($pointer) `->` type($result)"
    )

    def verify_(self) -> None:
        if not isinstance(self.structure, StructType):
            raise VerifyException(f"{self.name} requires a struct, not {self.structure}")
        members, member = self.structure.member_types, self.array_member.value.data
        if member != len(members) - 1 or not isinstance(members[member], RuntimeArrayType):
            raise VerifyException(
                f"member {member} of {self.structure} is not a runtime array that ends the struct"
            )


class UntypedPrefetchOp(SPIRVOp, name="spirv.KHR.UntypedPrefetch"):
    """
    OpUntypedPrefetchKHR: loads bytes into a cache.

    `spirv.KHR.UntypedPrefetch %p, %bytes rw(0) locality(3) cache_type(1) :
    !spirv.untyped_ptr<...>, i32`. The hints are optional. A hint requires the previous ones.
    """

    HINTS: ClassVar[tuple[str, ...]] = ("rw", "locality", "cache_type")
    pointer = operand_def(UntypedPointerType)
    num_bytes = operand_def()
    rw = opt_prop_def(NUMBER)
    locality = opt_prop_def(NUMBER)
    cache_type = opt_prop_def(NUMBER)
    custom_directives = (NumberOrSymbol,)
    assembly_format = (
        "$pointer `,` $num_bytes (`rw` `(` custom<NumberOrSymbol>($rw)^ `)`)? "
        "(`locality` `(` custom<NumberOrSymbol>($locality)^ `)`)? "
        "(`cache_type` `(` custom<NumberOrSymbol>($cache_type)^ `)`)? attr-dict `:` "
        "type($pointer) `,` type($num_bytes)"
    )

    def verify_(self) -> None:
        if storage_class(self.pointer.type).data is not StorageClass.CrossWorkgroup:
            raise VerifyException(
                f"{self.name} requires a pointer to CrossWorkgroup memory, not {self.pointer.type}"
            )
        if not is_integer(self.num_bytes.type):
            raise VerifyException(
                f"{self.name}: bytes must be an integer, not {self.num_bytes.type}"
            )
        given = [name in self.properties for name in self.HINTS]
        if given != sorted(given, reverse=True):
            raise VerifyException(
                f"{self.name}: locality requires rw, and cache_type requires rw and locality"
            )
