"""
`spirv-to-glsl450-memory-model`: translates a module from the Vulkan memory model to GLSL450.

Under GLSL450 every access to Workgroup memory counts as non-private, and every barrier makes its
memory available and visible, so these operands are removed. A buffer through which invocations see
each other's writes must be Coherent, so variables with non-private accesses get this decoration.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.spirv.fallback.uniformity import variable_behind

NAME = "spirv-to-glsl450-memory-model"
refuse = refusals(NAME)

OF_VULKAN = (
    spv.MemoryAccess.NonPrivatePointer
    | spv.MemoryAccess.MakePointerAvailable
    | spv.MemoryAccess.MakePointerVisible
)
ORDERS = (
    spv.MemorySemantics.MakeAvailable
    | spv.MemorySemantics.MakeVisible
    | spv.MemorySemantics.OutputMemory
)
FIELDS = (("memory_access", "memory_scope"), ("source_memory_access", "source_memory_scope"))
BUFFERS = (spv.StorageClass.StorageBuffer, spv.StorageClass.Uniform)


@dataclass(frozen=True)
class GLSL450MemoryModelPass(ModulePass):
    """Translates modules from the Vulkan memory model to GLSL450."""

    name = NAME

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        for module in op.walk():
            if (
                isinstance(module, spv.ModuleOp)
                and module.memory_model.data is spv.MemoryModel.Vulkan
            ):
                use_glsl450_memory_model(module)


def use_glsl450_memory_model(module: spv.ModuleOp) -> None:
    """Translates a module from the Vulkan memory model to GLSL450."""
    for op in module.walk():
        _check(op)
    variables = {
        v.sym_name.data: v for v in module.body.block.ops if isinstance(v, spv.ModuleVariable)
    }
    for op in module.walk():
        for number, (access, scope) in enumerate(FIELDS):
            if isinstance(op.properties.get(access), spv.MemoryAccessAttr):
                _access(op, access, scope, op.operands[number], variables)
        for name, attribute in op.properties.items():
            if isinstance(attribute, spv.MemorySemanticsAttr):
                op.properties[name] = spv.MemorySemanticsAttr(attribute.data & ~ORDERS)
            elif isinstance(attribute, spv.ScopeAttr) and attribute.data is spv.Scope.QueueFamily:
                op.properties[name] = spv.ScopeAttr(spv.Scope.Device)
    module.memory_model = spv.MemoryModelAttr(spv.MemoryModel.GLSL450)


def _check(op: Operation) -> None:
    if any(isinstance(v.type, spv.CooperativeMatrixType) for v in (*op.operands, *op.results)):
        refuse(
            op,
            "CM-02: cooperative matrices need the Vulkan memory model: run "
            "spirv-cooperative-matrix-to-invocations first",
        )
    for attribute in op.properties.values():
        if isinstance(attribute, spv.MemorySemanticsAttr) and (
            attribute.data & spv.MemorySemantics.Volatile
        ):
            refuse(op, "GLSL450 has no memory semantics Volatile: remove it")


def _access(
    op: Operation,
    field: str,
    scope: str,
    pointer: SSAValue,
    variables: dict[str, spv.ModuleVariable],
) -> None:
    access = op.properties[field]
    assert isinstance(access, spv.MemoryAccessAttr)
    if access.data & spv.MemoryAccess.NonPrivatePointer:
        _make_coherent(op, pointer, variables)
    left = access.data & ~OF_VULKAN
    op.properties.pop(scope, None)
    if left:
        op.properties[field] = spv.MemoryAccessAttr(left)
    else:
        del op.properties[field]


def _make_coherent(
    op: Operation, pointer: SSAValue, variables: dict[str, spv.ModuleVariable]
) -> None:
    if not isinstance(pointer.type, spv.PointerType):
        refuse(
            op,
            f"{pointer.type} does not show which variable to decorate with Coherent: access the "
            f"variable directly",
        )
    storage = pointer.type.storage_class.data
    if storage not in (*BUFFERS, spv.StorageClass.PhysicalStorageBuffer):
        return
    root = variable_behind(pointer)
    if storage not in BUFFERS or not isinstance(root, spv.AddressOfOp):
        refuse(op, "no variable to decorate with Coherent is known: access a variable directly")
    variables[root.variable.string_value()].attributes["coherent"] = UnitAttr()
