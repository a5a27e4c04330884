"""`requires` of program.json lists what a device must have, derived from the kernels."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.needs import Feature
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.requires import Requirement, Requires, Way, requirements
from xdsl_spirv.runtime.vulkan.describe import NAMES, OPERATIONS
from xdsl_spirv.targets import load
from xdsl_spirv.testing.state_programs import compiled

MATMUL = """
func.func @main(%a: tensor<?x256xf16>, %b: tensor<256x256xf16>) -> tensor<?x256xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x256xf16>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x256xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x256xf32>) -> tensor<?x256xf32>
  %c = linalg.matmul ins(%a, %b : tensor<?x256xf16>, tensor<256x256xf16>)
                     outs(%i : tensor<?x256xf32>) -> tensor<?x256xf32>
  return %c : tensor<?x256xf32>
}"""


@cache
def program(target: str) -> Program:
    return compile(parse_text(MATMUL), target)


def required(target: str) -> Requires:
    requires = program(target).manifest.requires
    assert requires is not None
    return requires


def test_a_program_says_what_its_kernels_need():
    requires = required("nvidia-h200")
    assert (requires.vulkan, requires.spirv, requires.subgroup_size) == ("1.3", "1.6", 32)
    assert requires.full_subgroups
    ways = {r.because: r.any for r in requires.features}
    assert ways["CooperativeMatrixKHR"] == (
        Way(
            "cooperativeMatrix",
            "VkPhysicalDeviceCooperativeMatrixFeaturesKHR",
            extensions=("VK_KHR_cooperative_matrix",),
        ),
    )
    assert ways["VulkanMemoryModel"] == (
        Way("vulkanMemoryModel", "VkPhysicalDeviceVulkan12Features"),
    )
    assert "Shader" not in ways
    limits = {limit.limit: limit.least for limit in requires.limits}
    (kernel,) = program("nvidia-h200").manifest.kernels
    (entry,) = kernel.entry_points
    assert limits["maxComputeWorkGroupInvocations"] == entry.workgroup_size[0]
    assert limits["maxPushConstantsSize"] == entry.push_constant_bytes == 4
    assert limits["maxPerStageDescriptorStorageBuffers"] == 3
    assert 0 < limits["maxComputeSharedMemorySize"] <= load("nvidia-h200").workgroup_memory_bytes


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_a_program_needs_nothing_that_its_target_lacks(target: str):
    known = load(target)
    requires = required(target)
    assert set(requires.cooperative_matrices) <= set(known.cooperative_matrix)
    words = {(f.structure, f.member): name for name, own in NAMES.items() for f in own}
    bits = {f"VK_SUBGROUP_FEATURE_{op.upper()}_BIT": name for name, op in OPERATIONS.items()}
    for requirement in requires.features:
        named = [words.get((w.structure or "", w.feature or "")) for w in requirement.any]
        named += [bits.get(way.bit or "") for way in requirement.any]
        assert not any(named) or known.features & set(named), requirement


def test_features_are_listed_for_the_version_of_vulkan():
    """For Vulkan 1.3, only one of the two structures that contain a feature is listed."""
    structure = "VkPhysicalDeviceShaderSubgroupRotateFeatures"
    (rotate,) = requirements(["GroupNonUniformRotateKHR"], [], vulkan=(1, 3))
    assert [way.structure for way in rotate.any] == ["VkPhysicalDeviceVulkan14Features", structure]
    assert [way.version for way in rotate.any] == ["1.4", "1.4"]
    (narrow,) = requirements(["StorageBuffer16BitAccess"], [], vulkan=(1, 3))
    assert narrow.any == (Way("storageBuffer16BitAccess", "VkPhysicalDeviceVulkan11Features"),)
    (narrow,) = requirements(["StorageBuffer16BitAccess"], [], vulkan=(1, 1))
    assert len(narrow.any) == 2
    assert list(requirements(["Shader"], ["SPV_KHR_float_controls"], vulkan=(1, 3))) == []
    assert str(narrow) == (
        "StorageBuffer16BitAccess ("
        f"{Feature('VkPhysicalDeviceVulkan11Features', 'storageBuffer16BitAccess')} or "
        f"{Feature('VkPhysicalDevice16BitStorageFeatures', 'storageBuffer16BitAccess')})"
    )


@pytest.mark.long
def test_all_functions_count():
    requires = compiled().manifest.requires
    assert requires is not None
    limits = {limit.limit: limit for limit in requires.limits}
    assert limits["maxStorageBufferRange"].least == 4 * 32 * 8


def without(manifest: dict[str, Any], *names: str) -> None:
    for name in names:
        manifest.pop(name, None)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    program("lavapipe").save(tmp_path / "p")
    return tmp_path / "p"


def rewrite(folder: Path, change: Any) -> None:
    manifest = json.loads((folder / "program.json").read_text())
    change(manifest)
    (folder / "program.json").write_text(json.dumps(manifest))


def test_requirements_are_saved_and_loaded(saved: Path):
    assert Program.load(saved).manifest == program("lavapipe").manifest
    assert isinstance(required("lavapipe").features[0], Requirement)


def test_programs_without_requirements_are_read(saved: Path):
    def older(manifest: dict[str, Any]) -> None:
        manifest.update(version=3)
        without(manifest, "requires", "padding")
        without(manifest["kernels"][0]["entry_points"][0], "push_constant_bytes")

    rewrite(saved, older)
    assert Program.load(saved).manifest.requires is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 7}, "version 7 is unknown: versions 1 to 6 are .*update xdsl-spirv"),
        ({"version": 0}, "version 0 is unknown.*compile the program again"),
        ({"version": True}, "version True is unknown"),
        ({"version": "5"}, "version '5' is unknown"),
        ({"schema": "iree"}, "the schema must be 'xdsl-spirv-program', not 'iree'"),
        ({"requires": {"vulkan": "1.3"}}, r"the field 'spirv' is missing .program.json.requires"),
    ],
)
def test_other_formats_are_refused_by_name(saved: Path, change: dict[str, Any], message: str):
    rewrite(saved, lambda manifest: manifest.update(change))
    with pytest.raises(ProgramError, match=message):
        Program.load(saved)
