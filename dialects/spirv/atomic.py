"""
Atomics (SPIR-V 3.42.18): atomic accesses to memory, with a scope and semantics.

`spirv.AtomicIAdd <Device> <AcquireRelease|UniformMemory> %pointer, %value : !spirv.ptr<i32, ...>`.
After an untyped pointer's type follows the values' type: `!spirv.untyped_ptr<StorageBuffer>, i32`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import ClassVar

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import MemorySemanticsAttr, ScopeAttr
from xdsl_spirv.dialects.spirv.base import SPIRVOp
from xdsl_spirv.dialects.spirv.constraints import Predicate, is_ieee_float, is_integer, is_numeric
from xdsl_spirv.dialects.spirv.enums import Capability
from xdsl_spirv.dialects.spirv.pointers import POINTER
from xdsl_spirv.dialects.spirv.types import PointerType, UntypedPointerType

_PREDICATES: dict[str, Predicate] = {
    "integer": is_integer,
    "floating-point": is_ieee_float,
    "numerical": is_numeric,
}


@irdl_custom_directive
class PointerAndValues(CustomDirective):
    """
    Syntax of the types of an atomic: the pointer's type. If the pointer is untyped, the type of the
    values follows.
    """

    operands: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.parse_pointee(parser, state)

    def parse_pointee(self, parser: Parser, state: ParsingState) -> Attribute:
        start = parser.pos
        pointer = parser.parse_type()
        if isinstance(pointer, PointerType):
            pointee: Attribute = pointer.pointee
        elif isinstance(pointer, UntypedPointerType):
            parser.parse_punctuation(",")
            pointee = parser.parse_type()
        else:
            parser.raise_error("expected a pointer type", start, parser.pos)
        self.operands.set(state, [pointer, *[pointee] * (len(state.operands) - 1)])
        return pointee

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        pointer, *values = self.operands.get(op)
        printer.print_attribute(pointer)
        if isinstance(pointer, UntypedPointerType):
            printer.print_string(", ")
            printer.print_attribute((*op.result_types, *values)[0])


@irdl_custom_directive
class PointerAndPointee(PointerAndValues):
    """Like `PointerAndValues`, for operations whose result is the old value."""

    operands: TypeDirective
    result: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.result.set(state, (self.parse_pointee(parser, state),))


class AtomicOperation(SPIRVOp, ABC):
    """
    An atomic: a pointer, a scope, one or two semantics, and values of the pointee type.

    In the syntax, the values follow the pointer.
    """

    COMPONENT: ClassVar[str] = "integer"

    pointer = operand_def(POINTER)
    memory_scope = prop_def(ScopeAttr)
    custom_directives = (PointerAndValues, PointerAndPointee)

    @property
    def _value_type(self) -> Attribute:
        type_ = self.operands[0].type
        if isinstance(type_, PointerType):
            return type_.pointee
        return (*self.results, *self.operands[1:])[0].type

    def verify_(self) -> None:
        type_, pointee = self.operands[0].type, self._value_type
        if not _PREDICATES[self.COMPONENT](pointee):
            raise VerifyException(
                f"{self.name} needs a pointer to {self.COMPONENT} scalars, not {type_}"
            )
        for value in (*self.operands[1:], *self.results):
            if value.type != pointee:
                raise VerifyException(
                    f"{self.name}: values must have the pointee type {pointee}, not {value.type}"
                )

    def capabilities(self) -> Iterable[tuple[Capability, str]]:
        """Returns Int64Atomics for 64-bit integers. Other types need no capability."""
        type_ = self._value_type
        if isinstance(type_, IntegerType) and type_.width.data == 64:
            yield Capability.Int64Atomics, f"{self.name} on 64 bits"


def _pointee(pointer: Attribute) -> Attribute:
    return pointer.pointee if isinstance(pointer, PointerType) else pointer


class AtomicUpdate(AtomicOperation, ABC, result="value"):
    """Combines the value in memory with an operand, and returns the old value."""

    semantics = prop_def(MemorySemanticsAttr)
    pointer = operand_def(POINTER)
    value = operand_def()
    result = result_def()
    assembly_format = (
        "$memory_scope $semantics operands attr-dict `:` "
        "custom<PointerAndPointee>(type(operands), type($result))"
    )


class AtomicStep(AtomicOperation, ABC, result=_pointee):
    """An atomic without a value operand: a read, an increment or a decrement."""

    semantics = prop_def(MemorySemanticsAttr)
    result = result_def()
    assembly_format = (
        "$memory_scope $semantics operands attr-dict `:` "
        "custom<PointerAndPointee>(type(operands), type($result))"
    )


class AtomicCompare(AtomicOperation, ABC, result="value"):
    """Writes the value if memory equals the comparator, and returns the old value."""

    FIELDS: ClassVar[Mapping[str, str]] = {
        "equal": "equal_semantics",
        "unequal": "unequal_semantics",
    }
    equal_semantics = prop_def(MemorySemanticsAttr)
    unequal_semantics = prop_def(MemorySemanticsAttr)
    pointer = operand_def(POINTER)
    value = operand_def()
    comparator = operand_def()
    result = result_def()
    assembly_format = (
        "$memory_scope $equal_semantics $unequal_semantics operands attr-dict `:` "
        "custom<PointerAndPointee>(type(operands), type($result))"
    )


class AtomicStoreOp(AtomicOperation):
    """Writes a value atomically."""

    COMPONENT: ClassVar[str] = "numerical"
    semantics = prop_def(MemorySemanticsAttr)
    pointer = operand_def(POINTER)
    value = operand_def()
    assembly_format = (
        "$memory_scope $semantics operands attr-dict `:` custom<PointerAndValues>(type(operands))"
    )


# fmt: off
class AtomicLoadOp(AtomicStep, component="numerical"): """Reads the value atomically."""
class AtomicIIncrementOp(AtomicStep): """Adds one, and returns the old value."""
class AtomicIDecrementOp(AtomicStep): """Subtracts one, and returns the old value."""
class AtomicExchangeOp(AtomicUpdate, component="numerical"):
    """Writes the value, and returns the old value."""
class AtomicIAddOp(AtomicUpdate): """Adds the operand, and returns the old value."""
class AtomicISubOp(AtomicUpdate): """Subtracts the operand, and returns the old value."""
class AtomicSMinOp(AtomicUpdate): """Writes the signed minimum, and returns the old value."""
class AtomicUMinOp(AtomicUpdate): """Writes the unsigned minimum, and returns the old value."""
class AtomicSMaxOp(AtomicUpdate): """Writes the signed maximum, and returns the old value."""
class AtomicUMaxOp(AtomicUpdate): """Writes the unsigned maximum, and returns the old value."""
class AtomicAndOp(AtomicUpdate): """Writes the bitwise and, and returns the old value."""
class AtomicOrOp(AtomicUpdate): """Writes the bitwise or, and returns the old value."""
class AtomicXorOp(AtomicUpdate): """Writes the bitwise exclusive or, and returns the old value."""
class AtomicFAddEXTOp(AtomicUpdate, name="spirv.EXT.AtomicFAdd", component="floating-point"):
    """Adds a float, and returns the old value (SPV_EXT_shader_atomic_float_add)."""
class AtomicFMinEXTOp(AtomicUpdate, name="spirv.EXT.AtomicFMin", component="floating-point"):
    """Writes the float minimum, and returns the old value (SPV_EXT_shader_atomic_float_min_max)."""
class AtomicFMaxEXTOp(AtomicUpdate, name="spirv.EXT.AtomicFMax", component="floating-point"):
    """Writes the float maximum, and returns the old value (SPV_EXT_shader_atomic_float_min_max)."""
class AtomicCompareExchangeOp(AtomicCompare):
    """Writes the value if the old value equals the comparator, and returns the old value."""
class AtomicCompareExchangeWeakOp(AtomicCompare): """Like AtomicCompareExchange. Needs Kernel."""
# fmt: on
