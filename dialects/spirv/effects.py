"""
What operations do to memory and to the other invocations, as stock passes ask it.

An operation without such a trait is taken to do anything: it stays, and nothing is moved or merged
across it. That holds of atomics, barriers, calls, and of what ends an invocation or leaves a
construct; so a construct with one of those inside has an effect of its own.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, MemoryReadEffect

from xdsl_spirv.dialects.spirv.attributes import MemoryAccessAttr
from xdsl_spirv.dialects.spirv.enums import Decoration, MemoryAccess
from xdsl_spirv.dialects.spirv.types import PointerType, StructType


class ReadsMemory(MemoryEffect):
    """Reads; a volatile read may not be removed or repeated either."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        effects = {EffectInstance(MemoryEffectKind.READ)}
        if any(map(_says_volatile, op.properties.values())) or any(map(_is_volatile, op.operands)):
            effects.add(EffectInstance(MemoryEffectKind.WRITE))
        return effects


class ReadsInvocations(MemoryReadEffect):
    """
    Reads values of other invocations.

    An unused one goes. Two equal ones are one as long as nothing between them may end an
    invocation. Under a condition it would see fewer invocations, so it is not speculatable.
    """


class Allocates(MemoryEffect):
    """Makes the variable that the result points to."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        return {EffectInstance(MemoryEffectKind.ALLOC, op.results[0])}


def _says_volatile(attribute: Attribute) -> bool:
    volatile = MemoryAccess.Volatile
    return isinstance(attribute, MemoryAccessAttr) and bool(attribute.data & volatile)


def _is_volatile(pointer: SSAValue) -> bool:
    """Whether a decoration of the variable or of a struct on the way makes an access volatile."""
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
    """Whether the variable that an operation makes or names is decorated so."""
    from xdsl_spirv.dialects.spirv.structure import AddressOfOp
    from xdsl_spirv.upstream.symbols import find_symbol

    variable = find_symbol(maker, maker.variable) if isinstance(maker, AddressOfOp) else maker
    return variable is None or "volatile" in variable.attributes
