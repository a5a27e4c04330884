"""In the Vulkan memory model, accesses and barriers say that memory is shared."""

from __future__ import annotations

import pytest

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.spirv.vulkan_memory_model import use_vulkan_memory_model
from xdsl_spirv.runtime.modules import parse_text

FUNCTION = """spirv.module Logical GLSL450 {{
  spirv.func @f(%p: !spirv.ptr<i32, {storage}>, %x: i32) "None" {{
    {code}
    spirv.Return
  }}
}}"""

Semantics = spv.MemorySemantics
Access = spv.MemoryAccess


def rewrite(code: str, storage: str = "Workgroup") -> spv.ModuleOp:
    (module,) = parse_text(FUNCTION.format(code=code, storage=storage)).ops
    assert isinstance(module, spv.ModuleOp)
    use_vulkan_memory_model(module)
    module.verify()
    return module


def accesses(module: spv.ModuleOp) -> list[Access | None]:
    """Returns the memory operands of the loads and stores, None where there are none."""
    ops = [op for op in module.walk() if isinstance(op, spv.LoadOp | spv.StoreOp)]
    return [None if op.memory_access is None else op.memory_access.data for op in ops]


def test_the_module_names_the_model():
    assert rewrite("").memory_model.data is spv.MemoryModel.Vulkan


@pytest.mark.parametrize("storage", ["Workgroup", "StorageBuffer", "Uniform", "CrossWorkgroup"])
def test_accesses_to_shared_memory_are_not_private(storage: str):
    code = f'''%v = spirv.Load "{storage}" %p ["Volatile"] : i32
    %w = spirv.Load "{storage}" %p : i32
    spirv.Store "{storage}" %p, %v : i32'''
    shared = Access.NonPrivatePointer
    assert accesses(rewrite(code, storage)) == [shared | Access.Volatile, shared, shared]


@pytest.mark.parametrize("storage", ["Function", "Private"])
def test_accesses_to_own_memory_do_not_change(storage: str):
    code = f'''%v = spirv.Load "{storage}" %p : i32
    spirv.Store "{storage}" %p, %v ["Volatile"] : i32'''
    assert accesses(rewrite(code, storage)) == [None, Access.Volatile]


MAKE = Semantics.MakeAvailable | Semantics.MakeVisible


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Acquire", Semantics.Acquire | Semantics.MakeVisible),
        ("Release", Semantics.Release | Semantics.MakeAvailable),
        ("AcquireRelease", Semantics.AcquireRelease | MAKE),
        ("SequentiallyConsistent", Semantics.AcquireRelease | MAKE),
        ("None", Semantics.None_),
    ],
)
def test_barriers_make_writes_available_and_visible(before: str, after: Semantics):
    """The Vulkan model has no sequential consistency: such a barrier acquires and releases."""
    memory = "" if before == "None" else "|WorkgroupMemory"
    module = rewrite(f"spirv.MemoryBarrier <Workgroup>, <{before}{memory}>")
    (op,) = (op for op in module.walk() if isinstance(op, spv.MemoryBarrierOp))
    expected = after if before == "None" else after | Semantics.WorkgroupMemory
    assert op.memory_semantics.data == expected
