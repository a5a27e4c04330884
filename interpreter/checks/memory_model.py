"""
Derives the memory order of instructions from the memory model that a module declares.

Under the Vulkan memory model each access states if it is non-private. It also states the scope for
which it makes its writes available or its reads visible. Barriers and atomics may do so for all
accesses before or after them.

The GLSL450 model has no such operands. It is interpreted as in the upgrade pass of SPIRV-Tools:
each access to Workgroup memory, or to a Coherent or Volatile variable, makes itself available and
visible. A barrier makes other buffers available and visible, within its own workgroup only. A
memory barrier directly before a control barrier orders the storage that it names on both sides.

The OpenCL model counts all memory as coherent. Device and QueueFamily are treated as one scope,
since a launch runs in one queue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import Pure

from xdsl_spirv.dialects.spirv import memory as memory_ops
from xdsl_spirv.dialects.spirv.atomic import AtomicOperation
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp, MemoryBarrierOp
from xdsl_spirv.dialects.spirv.constants import ConstantOp
from xdsl_spirv.dialects.spirv.enums import (
    Decoration,
    MemoryAccess,
    MemorySemantics,
    Scope,
    StorageClass,
)
from xdsl_spirv.dialects.spirv.raw import RawOp
from xdsl_spirv.dialects.spirv.structure import ModuleOp, ModuleVariable
from xdsl_spirv.dialects.spirv.types import PointerType, RuntimeArrayType, StructType
from xdsl_spirv.interpreter.checks.accessors import (
    SAME_DEVICE,
    SAME_INVOCATION,
    SAME_SUBGROUP,
    SAME_WORKGROUP,
)
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.pointers import CHAINS, accessed_pointer, is_write, root_of, storage_of
from xdsl_spirv.interpreter.spirv.image import operands_of

WORKGROUPS, BUFFERS, IMAGES = range(3)
"""Kinds of storage that invocations share. Barriers have a semantics bit for each kind."""

LEVELS = {
    Scope.Invocation: SAME_INVOCATION,
    Scope.Subgroup: SAME_SUBGROUP,
    Scope.Workgroup: SAME_WORKGROUP,
}
"""Maps scopes to levels. A scope that is not listed contains the whole launch."""


def level_of(scope: Scope) -> int:
    """Returns the level of a scope, for example `SAME_SUBGROUP` for Subgroup."""
    return LEVELS.get(scope, SAME_DEVICE)


@dataclass(frozen=True)
class Facts:
    """
    Memory-order properties of one access.

    `private` excludes the access from ordering. `available` and `visible` are the scope levels to
    which the access makes its write available, or its read visible. `scope` is the level of an
    atomic. `variable` is the name of the accessed variable.
    """

    private: bool = False
    available: int = SAME_INVOCATION
    visible: int = SAME_INVOCATION
    scope: int = SAME_INVOCATION
    plain: bool = False
    """True for an access to a buffer that is not coherent, in a module with the GLSL450 model."""
    variable: str | None = None


@dataclass(frozen=True)
class Semantics:
    """
    The memory semantics of a barrier or an atomic.

    `release` and `acquire` are bits of storage kinds. `available` and `visible` are the scope
    levels to which the instruction makes writes available and visible. `scope` is the
    instruction's level.
    """

    release: int = 0
    acquire: int = 0
    available: int = SAME_INVOCATION
    visible: int = SAME_INVOCATION
    scope: int = SAME_INVOCATION

    @property
    def both(self) -> int:
        """Bits of the storage kinds that are both released and acquired."""
        return self.release & self.acquire

    def within(self, level: int) -> Semantics:
        """Returns these semantics with their scope narrowed to `level` if it is wider."""
        return self if level >= self.scope else replace(self, scope=level)


NOTHING = Semantics()
_RELEASING = (
    MemorySemantics.Release
    | MemorySemantics.AcquireRelease
    | MemorySemantics.SequentiallyConsistent
)
_ACQUIRING = (
    MemorySemantics.Acquire
    | MemorySemantics.AcquireRelease
    | MemorySemantics.SequentiallyConsistent
)
_STORAGE = (
    (1 << WORKGROUPS, MemorySemantics.WorkgroupMemory),
    (1 << BUFFERS, MemorySemantics.UniformMemory | MemorySemantics.CrossWorkgroupMemory),
    (1 << IMAGES, MemorySemantics.ImageMemory),
)


class MemoryModel:
    """Derives the memory order of the instructions of one module."""

    def __init__(self, context: Context):
        self.context = context
        module = context.module
        model = str(module.properties.get("memory_model", "")) if _is_module(module) else ""
        self.vulkan = "Vulkan" in model
        self.glsl = "GLSL450" in model or "Simple" in model
        self._facts: dict[tuple[Operation, bool], Facts] = {}
        self._semantics: dict[tuple[Operation, str], Semantics] = {}

    def facts(self, op: Operation, write: bool) -> Facts:
        """
        Returns the memory-order properties of an instruction's reads (or writes, with `write`).
        """
        facts = self._facts.get((op, write))
        if facts is None:
            facts = self._facts[op, write] = self._read_facts(op, write)
        return facts

    def _read_facts(self, op: Operation, write: bool) -> Facts:
        pointer = accessed_pointer(op, write)
        variable = None if pointer is None else root_of(pointer)
        if isinstance(op, AtomicOperation):
            level = level_of(op.memory_scope.data)
            return Facts(False, level, level, level, variable=variable)
        if not self.vulkan:
            return self._older_facts(pointer, variable, op)
        flags, scope = self._operand(op, write)
        level = level_of(scope) if scope is not None else SAME_INVOCATION
        return Facts(
            private=not flags & MemoryAccess.NonPrivatePointer,
            available=level if flags & MemoryAccess.MakePointerAvailable else SAME_INVOCATION,
            visible=level if flags & MemoryAccess.MakePointerVisible else SAME_INVOCATION,
            variable=variable,
        )

    def _operand(self, op: Operation, write: bool) -> tuple[MemoryAccess, Scope | None]:
        """
        Returns the memory operand of an instruction's read or write. A copy has two: one for its
        read and one for its write.
        """
        if isinstance(op, RawOp):
            return _texel_operand(op, write)
        names = ["memory_access", "memory_operand"]
        prefix = ""
        if not write and op.properties.get("source_memory_access") is not None:
            names, prefix = ["source_memory_access"], "source_"
        flags: Any = next((op.properties[name] for name in names if op.properties.get(name)), None)
        scope = op.properties.get(f"{prefix}memory_scope")
        return (flags.data if flags is not None else MemoryAccess.None_), self._scope(scope)

    def _scope(self, scope: Attribute | None) -> Scope | None:
        return None if scope is None else self.context.scope(scope)

    def _older_facts(self, pointer: SSAValue | None, variable: str | None, op: Operation) -> Facts:
        """
        Derives the properties of an access from the decorations of its variable, under GLSL450 or
        OpenCL.
        """
        storage = storage_of(pointer)
        if storage == StorageClass.Workgroup:
            return Facts(False, SAME_WORKGROUP, SAME_WORKGROUP, variable=variable)
        flags, _ = self._operand(op, True)
        coherent = (
            not self.glsl
            or variable is None
            or pointer is None
            or bool(flags & MemoryAccess.Volatile)
            or self._is_coherent(pointer, variable)
        )
        level = SAME_DEVICE if coherent else SAME_INVOCATION
        return Facts(False, level, level, plain=not coherent, variable=variable)

    def _is_coherent(self, pointer: SSAValue, variable: str) -> bool:
        """True if the variable, or a member in its access chain, is Coherent or Volatile."""
        declared = self.context.symbols.get(variable)
        if declared is None or not {"coherent", "volatile"}.isdisjoint(declared.attributes):
            return True
        chain: list[Operation] = []
        owner = pointer.owner
        while isinstance(owner, CHAINS):
            chain.append(owner)
            owner = owner.operands[0].owner
        assert isinstance(declared, ModuleVariable)
        type = declared.object_type
        for link in reversed(chain):
            for index in () if isinstance(link, memory_ops.CopyObjectOp) else link.operands[1:]:
                if isinstance(type, StructType):
                    number = _constant(index)
                    if number is None or _has_coherent_member(type, number):
                        return True
                    type = type.member_types[number]
                else:
                    type = _element(type)
        return isinstance(type, StructType) and any(
            _has_coherent_member(type, number) for number in range(len(type.member_types))
        )

    def is_aliased(self, variable: str) -> bool:
        """True if the memory of a variable may be accessed through other variables, too."""
        declared = self.context.symbols.get(variable)
        return declared is not None and "aliased" in declared.attributes

    def is_restricted(self, variable: str) -> bool:
        """True if a variable is declared Restrict: no other variable refers to its memory."""
        declared = self.context.symbols.get(variable)
        return declared is not None and "restrict" in declared.attributes

    def semantics(self, op: Operation, name: str = "") -> Semantics:
        """Returns the semantics of a barrier, or the semantics in property `name` of an atomic."""
        semantics = self._semantics.get((op, name))
        if semantics is None:
            semantics = self._semantics[op, name] = self._read_semantics(op, name)
        return semantics

    def _read_semantics(self, op: Operation, name: str) -> Semantics:
        names = (name,) if name else ("memory_semantics", "semantics", "equal_semantics")
        attribute: Any = next((op.properties[n] for n in names if op.properties.get(n)), None)
        scope: Any = op.properties.get("memory_scope")
        if attribute is None or scope is None:
            return NOTHING
        flags, level = attribute.data, level_of(scope.data)
        storage = sum(bit for bit, mask in _STORAGE if flags & mask)
        available, visible = level, level
        if self.vulkan:
            available *= bool(flags & MemorySemantics.MakeAvailable)
            visible *= bool(flags & MemorySemantics.MakeVisible)
        elif self.glsl:
            available = visible = min(level, SAME_WORKGROUP)
        own = Semantics(
            release=storage if flags & _RELEASING else 0,
            acquire=storage if flags & _ACQUIRING else 0,
            available=available if flags & _RELEASING else SAME_INVOCATION,
            visible=visible if flags & _ACQUIRING else SAME_INVOCATION,
            scope=level,
        )
        return self._with_fences(op, own) if self.glsl and isinstance(op, ControlBarrierOp) else own

    def _with_fences(self, op: Operation, own: Semantics) -> Semantics:
        """
        Returns a barrier's semantics, joined with the semantics of memory barriers directly before
        it (GLSL450).

        In `memoryBarrierBuffer(); barrier();` every invocation executes the memory barrier before
        any invocation passes the control barrier. The memory barrier therefore applies to both
        sides. Availability and visibility are not joined.
        """
        before = op.prev_op
        while before is not None and (
            before.has_trait(Pure) or isinstance(before, MemoryBarrierOp)
        ):
            if isinstance(before, MemoryBarrierOp):
                fence = self.semantics(before)
                own = replace(
                    own,
                    release=own.release | fence.release,
                    acquire=own.acquire | fence.acquire,
                    scope=max(own.scope, min(fence.scope, SAME_WORKGROUP)),
                )
            before = before.prev_op
        return own


def weakest_store(model: MemoryModel, storage: int) -> int:
    """
    Returns the narrowest scope level to which a store makes its data available. Considers only
    stores to memory of kind `storage`. Returns `SAME_DEVICE` if there is none.
    """
    weakest = SAME_DEVICE
    for op in model.context.module.walk():
        if not is_write(op):
            continue
        pointer = accessed_pointer(op, True)
        own = storage_of(pointer)
        if (
            own == StorageClass.Generic
            or (_STORAGE_OF.get(own, BUFFERS) if own else BUFFERS) == storage
        ):
            weakest = min(weakest, model.facts(op, True).available)
    return weakest


_STORAGE_OF = {
    StorageClass.Workgroup: WORKGROUPS,
    StorageClass.UniformConstant: IMAGES,
    StorageClass.Image: IMAGES,
}
"""Maps storage classes to kinds of storage. All other classes are buffers."""


def _is_module(module: Operation) -> bool:
    return isinstance(module, ModuleOp)


def _texel_operand(op: RawOp, write: bool) -> tuple[MemoryAccess, Scope | None]:
    """Translates image operands to the equivalent memory operand and scope of a buffer access."""
    operands = operands_of(op)
    scope = operands.get("MakeTexelAvailable" if write else "MakeTexelVisible")
    level = None if scope is None else _constant(op.arguments[scope])
    pairs = (
        ("NonPrivateTexel", MemoryAccess.NonPrivatePointer),
        ("VolatileTexel", MemoryAccess.Volatile),
        ("MakeTexelAvailable", MemoryAccess.MakePointerAvailable),
        ("MakeTexelVisible", MemoryAccess.MakePointerVisible),
    )
    flags = MemoryAccess.None_
    for name, flag in pairs:
        flags |= flag if name in operands else MemoryAccess.None_
    return flags, None if level is None else Scope(level)


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if not isinstance(owner, ConstantOp):
        return None
    number: Any = getattr(owner.value, "value", None)
    return None if number is None else int(number.data)


def _has_coherent_member(type: StructType, number: int) -> bool:
    return any(
        decoration.member.data == number
        and decoration.decoration.data in (Decoration.Coherent, Decoration.Volatile)
        for decoration in type.member_decorations
    )


def _element(type: Attribute | None) -> Attribute | None:
    if isinstance(type, PointerType):
        return type.pointee
    if isinstance(type, RuntimeArrayType):
        return type.element_type
    return getattr(type, "element_type", None)
