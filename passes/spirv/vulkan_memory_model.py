"""
Translates a module from the GLSL450 memory model to the Vulkan memory model.

In the Vulkan model an access is private to its invocation unless it is marked, and a barrier makes
writes available and visible only if its semantics say so (SPIR-V, appendix on the memory model).
So accesses to shared memory become non-private, release semantics get MakeAvailable, and acquire
semantics get MakeVisible.
"""

from __future__ import annotations

from xdsl.ir import Operation

from xdsl_spirv.dialects import spv

SHARED = frozenset(
    {
        spv.StorageClass.CrossWorkgroup,
        spv.StorageClass.PhysicalStorageBuffer,
        spv.StorageClass.StorageBuffer,
        spv.StorageClass.Uniform,
        spv.StorageClass.Workgroup,
    }
)
"""Storage classes that several invocations read and write."""

ACCESSES = {
    "spirv.Load": "memory_access",
    "spirv.Store": "memory_access",
    "spirv.KHR.CooperativeMatrixLoad": "memory_operand",
    "spirv.KHR.CooperativeMatrixStore": "memory_operand",
}

BOTH = spv.MemorySemantics.AcquireRelease | spv.MemorySemantics.SequentiallyConsistent
RELEASES = spv.MemorySemantics.Release | BOTH
ACQUIRES = spv.MemorySemantics.Acquire | BOTH


def use_vulkan_memory_model(module: spv.ModuleOp) -> None:
    """Sets the Vulkan memory model, and adapts the operands of accesses and barriers."""
    module.memory_model = spv.MemoryModelAttr(spv.MemoryModel.Vulkan)
    for op in module.walk():
        field = ACCESSES.get(op.name)
        if field is not None:
            _share(op, field)
        for name, attribute in op.properties.items():
            if isinstance(attribute, spv.MemorySemanticsAttr):
                op.properties[name] = spv.MemorySemanticsAttr(_semantics(attribute.data))


def _share(op: Operation, field: str) -> None:
    pointer = op.operands[0].type
    if not isinstance(pointer, spv.PointerType) or pointer.storage_class.data not in SHARED:
        return
    before = op.properties.get(field)
    access = before.data if isinstance(before, spv.MemoryAccessAttr) else spv.MemoryAccess.None_
    op.properties[field] = spv.MemoryAccessAttr(access | spv.MemoryAccess.NonPrivatePointer)


def _semantics(before: spv.MemorySemantics) -> spv.MemorySemantics:
    """Returns `before` with MakeAvailable and MakeVisible; replaces SequentiallyConsistent."""
    after = before
    if before & RELEASES:
        after |= spv.MemorySemantics.MakeAvailable
    if before & ACQUIRES:
        after |= spv.MemorySemantics.MakeVisible
    if before & spv.MemorySemantics.SequentiallyConsistent:
        after &= ~spv.MemorySemantics.SequentiallyConsistent
        after |= spv.MemorySemantics.AcquireRelease
    return after
