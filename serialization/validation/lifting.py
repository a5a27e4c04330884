"""
A binary's types and constants as the dialect's, so that the dialect's rules can be asked.

Only what the rules of the four extensions look at is lifted. Anything else becomes a text that
names it, which no rule takes for a number, a vector or a matrix.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_spirv.dialects.spirv.attributes import (
    CooperativeMatrixLayoutAttr,
    CooperativeMatrixOperandsAttr,
    MemoryAccessAttr,
    MemoryModelAttr,
    PackedVectorFormatAttr,
    ScopeAttr,
)
from xdsl_spirv.dialects.spirv.constants import ConstantOp, ReferenceOfOp
from xdsl_spirv.dialects.spirv.enums import (
    Capability,
    CooperativeMatrixLayout,
    CooperativeMatrixOperands,
    CooperativeMatrixUse,
    MemoryAccess,
    MemoryModel,
    PackedVectorFormat,
    Scope,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType, PointerType
from xdsl_spirv.serialization.decode.types import MAX_INTEGER_BITS
from xdsl_spirv.serialization.raw.operands import enum_table
from xdsl_spirv.serialization.validation.instructions import Instruction
from xdsl_spirv.serialization.validation.module import CONSTANTS, Module
from xdsl_spirv.serialization.validation.types import Type

FLOATS: dict[str, Attribute] = {
    "Float16": Float16Type(),
    "Float32": Float32Type(),
    "Float64": Float64Type(),
    "BFloat16KHR": BFloat16Type(),
    "Float8E4M3EXT": Float8E4M3FNType(),
    "Float8E5M2EXT": Float8E5M2Type(),
}


class Lifter:
    """Lifts what one module declares; each type once."""

    def __init__(self, m: Module):
        self.m = m
        self._types: dict[int, Attribute] = {}
        self._values: dict[int, SSAValue] = {}

    def type(self, type_: Type | None) -> Attribute:
        """The dialect's type, or a text that names one it does not have."""
        if type_ is None:
            return StringAttr("no type")
        found = self._types.get(type_.id)
        if found is None:
            try:
                found = self._lift(type_)
            except (VerifyException, ValueError, KeyError, OverflowError):
                found = StringAttr(str(type_))  # Its own declaration is reported.
            self._types[type_.id] = found
        return found

    def _lift(self, type_: Type) -> Attribute:
        match type_.kind:
            case "Bool":
                return i1
            case "Int" if type_.width <= MAX_INTEGER_BITS:
                signedness = Signedness.SIGNED if type_.signed else Signedness.SIGNLESS
                return IntegerType(type_.width, signedness)
            case "Float":
                return FLOATS[type_.encoding or f"Float{type_.width}"]
            case "Vector" if type_.element is not None:
                return VectorType(self.type(type_.element), (type_.lanes,))
            case "CooperativeMatrixKHR":
                return self.matrix_or_error(type_)
            case "Pointer":
                return self.pointer(type_)
            case _:
                return StringAttr(str(type_))

    def matrix_or_error(self, type_: Type) -> CooperativeMatrixType | Attribute:
        """A cooperative matrix type. Raises `VerifyException` with the rule that it breaks."""
        words = type_.at.words
        if len(words) < 7:
            return StringAttr(str(type_))
        scope, rows, columns, use = words[3:7]
        known_use = self.m.integer(use, default=True)
        if known_use is None or known_use not in set(CooperativeMatrixUse):
            return StringAttr(str(type_))
        known_scope = self.m.integer(scope)
        if known_scope is not None and known_scope not in set(Scope):
            return StringAttr(str(type_))
        return CooperativeMatrixType(
            self._size(rows),
            self._size(columns),
            self.type(type_.element),
            self.symbol(scope) if known_scope is None else Scope(known_scope),
            CooperativeMatrixUse(known_use),
        )

    def _size(self, id: int) -> int | SymbolRefAttr:
        known = self.m.integer(id)
        return self.symbol(id) if known is None else known & 0xFFFFFFFF

    def symbol(self, id: int) -> SymbolRefAttr:
        """A name for a constant that is not known yet."""
        return SymbolRefAttr(self.m.names.get(id) or f"id_{id}")

    def pointer(self, type_: Type) -> Attribute:
        """A pointer to what is lifted; a type that is none comes out as it is."""
        if type_.kind != "Pointer":
            return self.type(type_)
        held = self.m.pointee(type_)
        shallow = held is not None and (held.is_scalar_or_vector or held.is_matrix)
        pointee = self.type(held) if shallow else StringAttr(str(held))
        storage = enum_table("StorageClass").names
        value = next((v for v, n in storage.items() if n == type_.storage), None)
        if value is None:
            return StringAttr(str(type_))
        return PointerType(pointee, StorageClass(value))

    def value(self, id: int) -> SSAValue:
        """A value of the right type, whose owner tells what is known of it."""
        found = self._values.get(id)
        if found is None:
            found = self._values[id] = self._value(id)
        return found

    def _value(self, id: int) -> SSAValue:
        type_ = self.type(self.m.type_of(id))
        number = self.m.integer(id)
        if number is not None and isinstance(type_, IntegerType):
            return ConstantOp(IntegerAttr(number, type_)).result
        if self.m.op_of(id) in CONSTANTS:
            return ReferenceOfOp(self.m.names.get(id) or f"id_{id}", type_).result
        return Block(arg_types=[type_]).args[0]

    def packed_format(self, i: Instruction) -> PackedVectorFormatAttr | None:
        values = i.values("PackedVectorFormat")
        known = values and values[0] in set(PackedVectorFormat)
        return PackedVectorFormatAttr(PackedVectorFormat(values[0])) if known else None

    def memory_access(self, mask: int | None) -> MemoryAccessAttr | None:
        return None if mask is None else MemoryAccessAttr(MemoryAccess(mask))

    def matrix_operands(self, mask: int) -> CooperativeMatrixOperandsAttr:
        return CooperativeMatrixOperandsAttr(CooperativeMatrixOperands(mask))

    def matrix_layout(self, value: int) -> CooperativeMatrixLayoutAttr:
        return CooperativeMatrixLayoutAttr(CooperativeMatrixLayout(value))

    def scope(self, value: int | None) -> ScopeAttr | None:
        return ScopeAttr(Scope(value)) if value in set(Scope) else None

    def memory_model(self, value: int) -> MemoryModelAttr | None:
        return MemoryModelAttr(MemoryModel(value)) if value in set(MemoryModel) else None

    def capabilities(self, names: Iterable[str]) -> frozenset[Capability]:
        return frozenset(Capability[n] for n in names if n in Capability.__members__)
