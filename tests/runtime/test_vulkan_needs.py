"""Needs of kernels and missing features of a device are found without a device."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.dialects.spirv.enums import Capability
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.needs import Feature, Needs, tables
from xdsl_spirv.runtime.requires import requirements, requires_of
from xdsl_spirv.runtime.vulkan.describe import schedules, target_of, text_of
from xdsl_spirv.runtime.vulkan.device import check_constants, parse_name, rank
from xdsl_spirv.runtime.vulkan.enums import Result
from xdsl_spirv.runtime.vulkan.errors import (
    DeviceLostError,
    MisfitError,
    OutOfMemoryError,
    VulkanError,
    name_of,
)
from xdsl_spirv.runtime.vulkan.features import Offer
from xdsl_spirv.runtime.vulkan.fit import lacks
from xdsl_spirv.runtime.vulkan.loader import Commands
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo, Heap, MemoryTypeInfo, QueueFamily
from xdsl_spirv.runtime.vulkan.work import Step
from xdsl_spirv.runtime.vulkan.worker import Offered
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.targets import CooperativeMatrixProperty, load
from xdsl_spirv.tools import devices
from xdsl_spirv.tools.main import main

KERNELS = Path(__file__).parent / "vulkan"
F16 = CooperativeMatrixProperty(16, 16, 16, "f16", "f16", "f32", "f32", False, "Subgroup")
TWELVE, ELEVEN = "VkPhysicalDeviceVulkan12Features", "VkPhysicalDeviceVulkan11Features"
MATRIX = "VkPhysicalDeviceCooperativeMatrixFeaturesKHR"
OFFER = Offer(
    (1, 3),
    frozenset({"VK_KHR_cooperative_matrix", "VK_KHR_shader_subgroup_rotate"}),
    frozenset(
        {
            Feature(TWELVE, "shaderFloat16"),
            Feature(TWELVE, "vulkanMemoryModel"),
            Feature(ELEVEN, "storageBuffer16BitAccess"),
            Feature(MATRIX, "cooperativeMatrix"),
            Feature("VkPhysicalDeviceShaderSubgroupRotateFeatures", "shaderSubgroupRotate"),
        }
    ),
    {"subgroupSupportedOperations": 0b111},
)
DEVICE = DeviceInfo(
    index=0,
    name="Imagined GPU 9",
    kind="discrete GPU",
    vendor=1,
    device=2,
    version=(1, 3, 0),
    driver="imagined",
    driver_version="1.0",
    device_uuid="00",
    driver_uuid="01",
    cache_uuid="02",
    subgroup_size=32,
    subgroup_size_range=(32, 64),
    subgroup_operations=("basic", "vote", "arithmetic"),
    subgroup_size_control=True,
    max_workgroup_size=(1024, 1024, 64),
    max_invocations=1024,
    max_grid=(65535, 65535, 65535),
    workgroup_memory_bytes=32768,
    storage_buffer_max_bytes=1 << 27,
    storage_buffer_alignment=16,
    storage_buffers=64,
    push_constant_bytes=128,
    max_allocation_bytes=1 << 30,
    max_allocations=4096,
    timestamp_period=1.0,
    queue=QueueFamily(0, 64),
    memory_types=(MemoryTypeInfo(15, 0),),
    heaps=(Heap(1 << 32, True),),
    compute_units=12,
    accelerated_dot=(),
    matrices=(F16,),
    flexible_matrices=(),
    offer=OFFER,
)
MATMUL = """
func.func @main(%A: tensor<16x32xf16>, %B: tensor<32x16xf16>) -> tensor<16x16xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<16x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<16x16xf32>) -> tensor<16x16xf32>
  %r = linalg.matmul ins(%A, %B : tensor<16x32xf16>, tensor<32x16xf16>)
                     outs(%init : tensor<16x16xf32>) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}
"""


def compiled(target: str) -> Needs:
    (code,) = compile_module(parse_text(MATMUL), target).code.values()
    return Needs.of(code.binary)


def lacking(device: DeviceInfo, needs: Needs) -> list[str]:
    return lacks(device, requires_of({"kernel": needs}, None))


def test_the_needs_of_a_kernel_are_derived_from_its_binary():
    needs = compiled("nvidia-h200")
    assert needs.version == (1, 6)
    assert {"Shader", "Float16", "CooperativeMatrixKHR", "VulkanMemoryModel"} <= needs.capabilities
    assert needs.extensions == {"SPV_KHR_cooperative_matrix"}
    assert needs.matrices == {F16}
    ((name, entry),) = needs.entry_points.items()
    assert name.startswith("matmul_16x16x32")
    assert entry.workgroup_size == (32, 1, 1)
    assert 0 < entry.workgroup_bytes <= 49152
    other = Needs.of(assemble((KERNELS / "address.spvasm").read_text()).encode())
    assert "PhysicalStorageBufferAddresses" in other.capabilities
    assert other.matrices == frozenset()


def test_a_device_with_all_features_lacks_none():
    assert lacking(DEVICE, compiled("nvidia-h200")) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"matrices": ()}, "the cooperative-matrix shape 16x16x16 f16 x f16 + f32 -> f32"),
        ({"version": (1, 1, 0)}, "SPIR-V 1.6 (it takes 1.3)"),
        ({"workgroup_memory_bytes": 100}, "bytes of Workgroup memory for matmul_16x16x32"),
        ({"max_invocations": 16}, "workgroups of 32 invocations for matmul_16x16x32"),
        (
            {"offer": dataclasses.replace(OFFER, features=frozenset())},
            "Float16 (shaderFloat16 (PhysicalDeviceVulkan12Features) or VK_AMD_gpu_shader_half",
        ),
    ],
)
def test_missing_features_of_a_device_are_named(change: dict[str, object], text: str):
    device = dataclasses.replace(DEVICE, **change)  # pyright: ignore[reportArgumentType]
    assert text in "; ".join(lacking(device, compiled("nvidia-h200")))


def test_flexible_dimensions_hold_multiples():
    granule = dataclasses.replace(F16, m=8, n=8)
    device = dataclasses.replace(DEVICE, matrices=(), flexible_matrices=((granule, 0),))
    assert lacking(device, compiled("nvidia-h200")) == []


def test_the_newer_of_two_structures_is_enabled_where_there_is_one():
    found = OFFER.enable(requirements(["GroupNonUniformRotateKHR"], []))
    assert found.missing == []
    assert found.features == {
        Feature("VkPhysicalDeviceShaderSubgroupRotateFeatures", "shaderSubgroupRotate")
    }
    assert found.extensions == {"VK_KHR_shader_subgroup_rotate"}
    core = Feature("VkPhysicalDeviceVulkan14Features", "shaderSubgroupRotate")
    newer = Offer((1, 4), OFFER.extensions, frozenset({core}))
    found = newer.enable(requirements(["GroupNonUniformRotateKHR"], []))
    assert found.features == {core}
    assert found.extensions == set()


def test_subgroup_operations_are_a_mask():
    assert OFFER.enable(requirements(["GroupNonUniformArithmetic"], [])).missing == []
    (missing,) = OFFER.enable(requirements(["GroupNonUniformShuffle"], [])).missing
    assert missing.startswith("GroupNonUniformShuffle (subgroupSupportedOperations")


SUMS = """
func.func @main(%a: tensor<7x64x{type}>, %i: tensor<7x{type}>) -> tensor<7x{type}> {{
  %r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
      affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}}
      ins(%a : tensor<7x64x{type}>) outs(%i : tensor<7x{type}>) {{
    ^bb0(%x: {type}, %y: {type}):
      %s = {op} %x, %y : {type}
      linalg.yield %s : {type}
  }} -> tensor<7x{type}>
  return %r : tensor<7x{type}>
}}
"""


@pytest.mark.parametrize(
    ("type", "op", "narrow"),
    [("f16", "arith.maximumf", True), ("i8", "arith.addi", True), ("f32", "arith.addf", False)],
)
def test_group_operations_on_other_than_32_bits(type: str, op: str, narrow: bool):
    """Such operations need a feature without a capability (VUID-RuntimeSpirv-None-06275)."""
    text = SUMS.format(type=type, op=op)
    (code,) = compile_module(parse_text(text), "nvidia-h200").code.values()
    assert "GroupNonUniform" in code.text
    needs = Needs.of(code.binary)
    assert bool(needs.uses) is narrow
    found = OFFER.enable(requirements([], [], needs.uses))
    assert found.features == set()
    if narrow:
        assert "shaderSubgroupExtendedTypes" in found.missing[0]
    feature = Feature(TWELVE, "shaderSubgroupExtendedTypes")
    newer = dataclasses.replace(OFFER, features=frozenset({feature}))
    assert newer.enable(requirements([], [], needs.uses)).features == (
        {feature} if narrow else set()
    )


USES = """
OpCapability Shader
OpCapability GroupNonUniformRotateKHR
OpCapability AtomicFloat32AddEXT
OpCapability Int64
OpCapability Int8
OpCapability ShaderClockKHR
OpExtension "SPV_KHR_subgroup_rotate"
OpExtension "SPV_EXT_shader_atomic_float_add"
OpExtension "SPV_KHR_shader_clock"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 8 1 1
OpDecorate %byte SpecId 4
OpDecorate %flag SpecId 5
OpDecorate %long SpecId 6
%void = OpTypeVoid
%bool = OpTypeBool
%u8 = OpTypeInt 8 0
%u32 = OpTypeInt 32 0
%u64 = OpTypeInt 64 0
%f32 = OpTypeFloat 32
%pair = OpTypeVector %u32 2
%byte = OpSpecConstant %u8 200
%flag = OpSpecConstantTrue %bool
%long = OpSpecConstant %u64 5
%four = OpConstant %u32 4
%zero = OpConstant %u32 0
%subgroup = OpConstant %u32 3
%half = OpConstant %f32 0.5
%null = OpConstantNull %f32
%null64 = OpConstantNull %u64
%pointer = OpTypePointer Workgroup %f32
%shared = OpVariable %pointer Workgroup{initializer}
%pointer64 = OpTypePointer Workgroup %u64
%shared64 = OpVariable %pointer64 Workgroup
%function = OpTypeFunction %void
%main = OpFunction %void None %function
%entry = OpLabel
{body}
OpReturn
OpFunctionEnd
"""


@pytest.mark.parametrize(
    ("body", "initializer", "members"),
    [
        ("", "", set[str]()),
        ("", " %null", {"shaderZeroInitializeWorkgroupMemory"}),
        ("%r = OpGroupNonUniformRotateKHR %u32 %subgroup %four %four", "", set[str]()),
        (
            "%r = OpGroupNonUniformRotateKHR %u32 %subgroup %four %four %four",
            "",
            {"shaderSubgroupRotateClustered"},
        ),
        (
            "%r = OpAtomicFAddEXT %f32 %shared %four %zero %half",
            "",
            {"shaderSharedFloat32AtomicAdd"},
        ),
        ("%r = OpAtomicLoad %f32 %shared %four %zero", "", {"shaderSharedFloat32Atomics"}),
        ("OpAtomicStore %shared %four %zero %half", "", {"shaderSharedFloat32Atomics"}),
        ("%r = OpAtomicLoad %u64 %shared64 %four %zero", "", {"shaderSharedInt64Atomics"}),
        ("%r = OpReadClockKHR %u64 %subgroup", "", {"shaderSubgroupClock"}),
    ],
)
def test_some_features_are_needed_without_a_capability(
    body: str, initializer: str, members: set[str]
):
    text = USES.format(body=body, initializer=initializer)
    needs = Needs.of(assemble(text).encode())
    assert {feature.member for use in needs.uses for feature in use.features} == members
    for use in needs.uses:
        assert str(use.features[0]) in OFFER.enable(requirements([], [], [use])).missing[0]
        newer = dataclasses.replace(OFFER, version=(1, 4), features=frozenset(use.features))
        assert newer.enable(requirements([], [], [use])).features == {use.features[0]}


SHARED = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %a %b
OpExecutionMode %main LocalSize 8 1 1
{decorations}
%void = OpTypeVoid
%u32 = OpTypeInt 32 0
%n = OpSpecConstant %u32 1000
%zero = OpSpecConstant %u32 0
%length = OpSpecConstantOp %u32 {length}
%array = OpTypeArray %u32 %length
%one = OpTypeStruct %array
%other = OpTypeStruct %array %u32
%to_one = OpTypePointer Workgroup %one
%to_other = OpTypePointer Workgroup %other
%a = OpVariable %to_one Workgroup
%b = OpVariable %to_other Workgroup
%function = OpTypeFunction %void
%main = OpFunction %void None %function
%entry = OpLabel
OpReturn
OpFunctionEnd
"""
BLOCKS = """OpDecorate %one Block
OpDecorate %other Block
OpDecorate %array ArrayStride 4
OpMemberDecorate %one 0 Offset 0
OpMemberDecorate %other 0 Offset 0
OpMemberDecorate %other 1 Offset 20000"""


@pytest.mark.parametrize(("decorations", "size"), [("", 40004), (BLOCKS, 20004)])
def test_workgroup_memory_of_derived_lengths_and_of_blocks(decorations: str, size: int):
    text = SHARED.format(decorations=decorations, length="IMul %n %five").replace(
        "%length", "%five = OpConstant %u32 5\n%length", 1
    )
    needs = Needs.of(assemble(text).encode())
    assert needs.entry_points["main"].workgroup_bytes == size
    assert bool(lacking(DEVICE, needs)) is (size > 32768)
    with pytest.raises(ProgramError, match="size of a type is not known: the value of"):
        Needs.of(assemble(text.replace("IMul %n %five", "UDiv %n %zero")).encode())


MATRICES = """#version 450
#extension GL_KHR_cooperative_matrix : enable
#extension GL_EXT_shader_explicit_arithmetic_types : enable
#extension GL_KHR_memory_scope_semantics : enable
layout(local_size_x = 8) in;
layout(constant_id = 0) const uint half_size = 4;
const uint M = half_size * 2;
layout(binding = 0) buffer B { float16_t x[]; } b;
#define MATRIX(use) coopmat<float16_t, gl_ScopeSubgroup, M, M, gl_MatrixUse##use>
void main() {
    MATRIX(A) p = MATRIX(A)(1.0hf);
    MATRIX(B) q = MATRIX(B)(2.0hf);
    MATRIX(Accumulator) r = coopMatMulAdd(p, q, MATRIX(Accumulator)(0.0hf));
    coopMatStore(r, b.x, 0, 8, 0);
}
"""


def test_cooperative_matrices_of_derived_sizes(glslang: list[str], tmp_path: Path):
    source, binary = tmp_path / "x.comp", tmp_path / "x.spv"
    source.write_text(MATRICES)
    line = [*glslang, "-V", "--target-env", "vulkan1.3", source, "-o", binary]
    subprocess.run(line, check=True, capture_output=True)
    types = ("f16", "f16", "f16", "f16")
    property = CooperativeMatrixProperty(8, 8, 8, *types, False, "Subgroup")
    assert Needs.of(binary.read_bytes()).matrices == {property}


def test_a_constant_is_given_as_many_bytes_as_it_has():
    needs = Needs.of(assemble(USES.format(body="", initializer="")).encode())
    assert needs.constants == {4: 1, 5: 4, 6: 8}
    step = Step("k", "main", (1, 1, 1), (), ((4, b"\x07"), (5, bytes(4)), (9, b"")), b"")
    check_constants(step, needs)
    wrong = dataclasses.replace(step, constants=((4, bytes(4)),))
    with pytest.raises(MisfitError, match="constant 4 has 1 bytes, but is given 4"):
        check_constants(wrong, needs)


def test_every_feature_of_the_table_has_a_structure():
    known = tables()["structures"]
    for rows in tables()["capabilities"].values():
        for row in rows:
            if "feature" in row:
                structure, member = row["feature"]
                assert member in known[structure]["members"]


def test_the_table_has_the_names_of_capabilities_that_modules_declare():
    """The registry uses aliases for some capabilities."""
    named = [name for name in tables()["capabilities"] if name in Capability.__members__]
    assert [name for name in named if Capability[name].name != name] == []
    assert "CooperativeMatrixPerElementOperationsNV" in named


def test_results_have_names_and_remedies():
    assert name_of(-4) == "VK_ERROR_DEVICE_LOST"
    assert name_of(-999) == "VkResult -999"
    lost = VulkanError.of("vkQueueSubmit", -4)
    assert isinstance(lost, DeviceLostError)
    assert str(lost).startswith("vkQueueSubmit returned VK_ERROR_DEVICE_LOST; a kernel crashed")
    assert isinstance(VulkanError.of("vkAllocateMemory", -2), OutOfMemoryError)


def test_a_failing_call_raises_its_result():
    """A lost device and a missing command raise errors that name the call."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    lost = kind(lambda device: int(Result.ERROR_DEVICE_LOST))
    address = ctypes.cast(lost, ctypes.c_void_p).value
    commands = Commands(lambda name: address if name == b"vkDeviceWaitIdle" else None)
    with pytest.raises(DeviceLostError, match="vkDeviceWaitIdle returned VK_ERROR_DEVICE_LOST"):
        commands("vkDeviceWaitIdle", None)
    with pytest.raises(VulkanError, match="the driver has no command vkQueueWaitIdle"):
        commands("vkQueueWaitIdle", None)


def test_device_names_and_order():
    assert parse_name("vulkan") is None
    assert parse_name("vulkan:3") == 3
    for wrong in ("vulkan:", "vulkan:-1", "metal", "vulkan:one"):
        with pytest.raises(ProgramError, match="is not a Vulkan device"):
            parse_name(wrong)
    cpu = dataclasses.replace(DEVICE, kind="CPU")
    second = dataclasses.replace(DEVICE, index=1)
    assert sorted([cpu, second, DEVICE], key=rank) == [DEVICE, second, cpu]


def test_a_target_file_of_a_device(tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(text_of(target_of(DEVICE, "2026-01-01")))
    target = load(str(path))
    assert target.name == "imagined-gpu-9"
    assert target.compute_units == 12
    assert target.cooperative_matrix == (F16,)
    assert target.features == {
        *("cooperative-matrix", "float16", "storage-16-bit", "subgroup-arithmetic"),
        *("subgroup-rotate", "vulkan-memory-model"),
    }
    for tile in schedules(DEVICE.matrices, 32, 64):
        assert tile["subgroups"][0] * tile["subgroups"][1] * 32 <= 64


def test_a_target_file_says_that_a_driver_executes_on_a_processor(tmp_path: Path):
    models = {"CPU": load("lavapipe").model, "discrete GPU": load("nvidia-h200").model}
    for kind, model in models.items():
        path = tmp_path / f"{kind}.json"
        device = dataclasses.replace(DEVICE, kind=kind)
        path.write_text(text_of(target_of(device, "2026-01-01", compute_units=4)))
        target = load(str(path))
        assert target.processor == (kind == "CPU")
        assert target.model == model
        assert (target.residency.subgroups == 1) == target.processor


def test_a_clock_with_an_infinite_period_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """RADV without a GPU reports a timestamp period of infinity."""
    for period, said in ((1.0, "64 bits of 1 ns"), (float("inf"), "none")):
        info = dataclasses.replace(DEVICE, timestamp_period=period)
        offered = Offered("", (1, 3, 0), (info,))
        monkeypatch.setattr(devices, "list_devices", lambda offered=offered: offered)
        assert main(["devices"]) == 0
        assert re.search(rf"timestamps +{said}\n", capsys.readouterr().out)
