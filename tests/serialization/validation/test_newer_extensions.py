"""Modules with extensions newer than spirv-val 2025.5 get the verdict of a newer spirv-val."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.validation import Severity, validate
from xdsl_spirv.tools import khronos

FETCHED = Path(__file__).resolve().parents[3] / ".glslang"
MODULE = """
; Version: 1.6
OpCapability Shader
HEAD
OpMemoryModel Logical GLSL450
OpEntryPoint MODEL %main "main" INTERFACE
MODE
ANNOTATION
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%one = OpConstant %u32 1
%two = OpConstant %u32 2
%order = OpConstant %u32 260
%real = OpConstant %f32 1
DECLARATION
%main = OpFunction %void None %fn
%entry = OpLabel
BODY
OpReturn
OpFunctionEnd
"""
COMPUTE = {"MODEL": "GLCompute", "MODE": "OpExecutionMode %main LocalSize 1 1 1"}
LONG = 'OpCapability LongVectorEXT\nOpExtension "SPV_EXT_long_vector"'
CASES: dict[str, tuple[dict[str, str], str, str]] = {
    "a vector of five": (
        {"HEAD": LONG, "DECLARATION": "%v = OpTypeVector %u32 5\n%zeros = OpConstantNull %v"},
        LONG, "TYP-03",
    ),
    "a vector of eight": (
        {"HEAD": LONG, "DECLARATION": "%v = OpTypeVector %u32 8\n%zeros = OpConstantNull %v"},
        LONG, "CAP-02",
    ),
    "a vector of one": (
        {
            "HEAD": LONG, "DECLARATION": "%v = OpTypeVector %u32 1",
            "BODY": "%made = OpCompositeConstruct %v %one",
        },
        LONG, "TYP-03",
    ),
    "a heap of descriptors": (
        {
            "HEAD": "OpCapability UntypedPointersKHR\nOpCapability DescriptorHeapEXT\n"
            'OpExtension "SPV_KHR_untyped_pointers"\nOpExtension "SPV_EXT_descriptor_heap"',
            "ANNOTATION": "OpDecorate %heap BuiltIn ResourceHeapEXT",
            "DECLARATION": "%p = OpTypeUntypedPointerKHR UniformConstant\n"
            "%heap = OpUntypedVariableKHR %p UniformConstant", "INTERFACE": "%heap",
        },
        "OpDecorate %heap BuiltIn ResourceHeapEXT", "VUL-01",
    ),
    "a split barrier of the workgroup": (
        {
            "HEAD": 'OpCapability SplitBarrierINTEL\nOpExtension "SPV_EXT_split_barrier"',
            "BODY": "OpControlBarrierArriveINTEL %two %two %order",
        },
        'OpCapability SplitBarrierINTEL\nOpExtension "SPV_EXT_split_barrier"', "CAP-01",
    ),
    "a derivative of a half": (
        {
            "HEAD": 'OpCapability Float16\nOpExtension "SPV_AMD_gpu_shader_half_float"',
            "MODEL": "Fragment", "MODE": "OpExecutionMode %main OriginUpperLeft",
            "DECLARATION": "%f16 = OpTypeFloat 16\n%half = OpConstant %f16 1",
            "BODY": "%slope = OpDPdx %f16 %half",
        },
        'OpExtension "SPV_AMD_gpu_shader_half_float"', "OPR-31",
    ),
}  # fmt: skip
"""Parts of a module, the lines that make it valid, and the rule that requires them."""


def build(parts: dict[str, str]) -> bytes:
    text = MODULE
    for name in ("HEAD", "MODEL", "INTERFACE", "MODE", "ANNOTATION", "DECLARATION", "BODY"):
        text = text.replace(name, (COMPUTE | parts).get(name, ""))
    return assemble(text).encode()


def find_rules(data: bytes) -> set[str]:
    return {f.rule for f in validate(data, "vulkan1.3") if f.severity is Severity.ERROR}


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "SPIRV_VAL" not in os.environ:
        if not (FETCHED / "run").exists():
            pytest.skip("no newer spirv-val: make glslang")
        script = tmp_path / "spirv-val"
        script.write_text(f'#!/bin/sh\nexec {FETCHED}/run {FETCHED}/bin/spirv-val "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("SPIRV_VAL", str(script))


@pytest.mark.parametrize("name", CASES)
def test_a_module_is_valid_only_with_its_extension(name: str, newer: None):
    parts, needed, rule = CASES[name]
    data = build(parts)
    assert find_rules(data) == set()
    assert khronos.spirv_val(data) == ""
    without = build({key: part.replace(needed, "") for key, part in parts.items()})
    assert rule in find_rules(without)
    assert khronos.spirv_val(without)
