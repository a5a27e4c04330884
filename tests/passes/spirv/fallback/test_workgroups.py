"""The passes find a module's workgroup size, or the reason why it is unknown."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_spirv.passes.spirv.fallback.workgroups import workgroup_size
from xdsl_spirv.passes.spirv.specialize import SpecializePass
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.text.assembler import assemble

TEXT = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
{mode}
{decoration}
OpDecorate %n SpecId 0
%void = OpTypeVoid
%u32 = OpTypeInt 32 0
%v3 = OpTypeVector %u32 3
%eight = OpConstant %u32 8
%two = OpConstant %u32 2
%n = OpSpecConstant %u32 3
%m = OpSpecConstantOp %u32 IMul %n %two
{size}
%function = OpTypeFunction %void
%main = OpFunction %void None %function
%entry = OpLabel
OpReturn
OpFunctionEnd
"""
MODE = "OpExecutionMode %main LocalSize 4 1 1"
IDS = "OpExecutionModeId %main LocalSizeId %m %two %two"
BUILT_IN = "OpDecorate %size BuiltIn WorkgroupSize"
PLAIN = "%size = OpConstantComposite %v3 %eight %two %two"
SPLAT = "%size = OpConstantComposite %v3 %two %two %two"
DERIVED = "%size = OpSpecConstantComposite %v3 %m %two %two"


@pytest.mark.parametrize(
    ("mode", "decoration", "size", "invocations"),
    [
        (MODE, "", "", 4),
        (MODE, BUILT_IN, PLAIN, 32),
        (MODE, BUILT_IN, SPLAT, 8),
        (MODE, BUILT_IN, DERIVED, 24),
        (IDS, "", "", 24),
    ],
)
def test_the_size_of_a_workgroup_is_found(mode: str, decoration: str, size: str, invocations: int):
    text = TEXT.format(mode=mode, decoration=decoration, size=size)
    module = decode(assemble(text).encode())
    found = workgroup_size(module)
    if "%m " in size + mode:
        # A size that the launch determines is unknown at compile time.
        assert isinstance(found, str)
        assert "or run spirv-specialize" in found
        SpecializePass(defaults=True).apply(context(), ModuleOp([module]))
        found = workgroup_size(module)
    assert found == invocations
