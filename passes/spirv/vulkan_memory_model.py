"""
A module of the GLSL450 memory model says the same under the Vulkan memory model.

There, an access that does not say otherwise is private to its invocation, and a barrier makes
nothing available or visible unless it says so (SPIR-V, appendix on the memory model). So accesses
to memory that invocations share become non-private, and acquiring and releasing get their two
bits.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.attributes import (
    MemoryAccessAttr,
    MemoryModelAttr,
    MemorySemanticsAttr,
)
from xdsl_spirv.dialects.spirv.enums import MemoryAccess, MemoryModel, MemorySemantics, StorageClass
from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.dialects.spirv.types import PointerType

SHARED = frozenset(
    {
        StorageClass.CrossWorkgroup,
        StorageClass.PhysicalStorageBuffer,
        StorageClass.StorageBuffer,
        StorageClass.Uniform,
        StorageClass.Workgroup,
    }
)
"""Storage that more than one invocation reads and writes."""

ACCESSES = {
    "spirv.Load": "memory_access",
    "spirv.Store": "memory_access",
    "spirv.KHR.CooperativeMatrixLoad": "memory_operand",
    "spirv.KHR.CooperativeMatrixStore": "memory_operand",
}

BOTH = MemorySemantics.AcquireRelease | MemorySemantics.SequentiallyConsistent
RELEASES = MemorySemantics.Release | BOTH
ACQUIRES = MemorySemantics.Acquire | BOTH


def use_vulkan_memory_model(module: ModuleOp) -> None:
    """Change the memory model to Vulkan, and with it what accesses and barriers say."""
    module.memory_model = MemoryModelAttr(MemoryModel.Vulkan)
    for op in module.walk():
        field = ACCESSES.get(op.name)
        if field is not None:
            _share(op, field)
        for name, attribute in op.properties.items():
            if isinstance(attribute, MemorySemanticsAttr):
                op.properties[name] = MemorySemanticsAttr(_semantics(attribute.data))


def _share(op: Operation, field: str) -> None:
    pointer = op.operands[0].type
    if not isinstance(pointer, PointerType) or pointer.storage_class.data not in SHARED:
        return
    before = op.properties.get(field)
    access = before.data if isinstance(before, MemoryAccessAttr) else MemoryAccess.None_
    op.properties[field] = MemoryAccessAttr(access | MemoryAccess.NonPrivatePointer)


def _semantics(before: MemorySemantics) -> MemorySemantics:
    """The two bits, and acquire-release for sequential consistency, which Vulkan has not."""
    after = before
    if before & RELEASES:
        after |= MemorySemantics.MakeAvailable
    if before & ACQUIRES:
        after |= MemorySemantics.MakeVisible
    if before & MemorySemantics.SequentiallyConsistent:
        after &= ~MemorySemantics.SequentiallyConsistent
        after |= MemorySemantics.AcquireRelease
    return after
