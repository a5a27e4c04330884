"""Workgroup memory: who clears it, and where its elements lie."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.interpreter import dispatch
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.text.assembler import assemble

ALIASED = """
OpCapability Shader
OpCapability WorkgroupMemoryExplicitLayoutKHR
OpExtension "SPV_KHR_workgroup_memory_explicit_layout"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %out INTERFACE
OpExecutionMode %main LocalSize 1 1 1
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %words ArrayStride 4
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
OpDecorate %cleared Aliased
OpDecorate %plain Aliased
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%four = OpConstant %u32 4
%words = OpTypeArray %u32 %four
%block = OpTypeStruct %words
%null = OpConstantNull %block
%p_out = OpTypePointer StorageBuffer %block
%p_wg = OpTypePointer Workgroup %block
%out = OpVariable %p_out StorageBuffer
%cleared = OpVariable %p_wg Workgroup %null
%plain = OpVariable %p_wg Workgroup
%main = OpFunction %void None %fn
%entry = OpLabel
OpCopyMemory %out %plain
OpReturn
OpFunctionEnd
"""

STRIDE = """
OpCapability Shader
OpCapability VariablePointers
OpCapability WorkgroupMemoryExplicitLayoutKHR
OpExtension "SPV_KHR_workgroup_memory_explicit_layout"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %data %out
OpExecutionMode %main LocalSize 1 1 1
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
OpDecorate %p_wg ArrayStride 8
DECORATIONS
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%u0 = OpConstant %u32 0
%u1 = OpConstant %u32 1
%u2 = OpConstant %u32 2
%u3 = OpConstant %u32 3
%words = OpTypeArray %u32 %u3
%held = OpTypeStruct %words
%block = OpTypeStruct %u32
%p_block = OpTypePointer StorageBuffer %block
%p_out = OpTypePointer StorageBuffer %u32
%p_held = OpTypePointer Workgroup %held
%p_wg = OpTypePointer Workgroup %u32
%out = OpVariable %p_block StorageBuffer
%data = OpVariable %p_held Workgroup
%main = OpFunction %void None %fn
%entry = OpLabel
%d0 = OpAccessChain %p_wg %data %u0 %u0
OpStore %d0 %u0
%d1 = OpAccessChain %p_wg %data %u0 %u1
OpStore %d1 %u1
%d2 = OpAccessChain %p_wg %data %u0 %u2
OpStore %d2 %u2
%next = OpPtrAccessChain %p_wg %d0 %u1
%v = OpLoad %u32 %next
%o = OpAccessChain %p_out %out %u0
OpStore %o %v
OpReturn
OpFunctionEnd
"""
EXPLICIT = """
OpDecorate %held Block
OpMemberDecorate %held 0 Offset 0
OpDecorate %words ArrayStride 8
"""


def run(assembly: str, count: int) -> list[int]:
    out = np.ones(count, np.uint32)
    dispatch(decode(assemble(assembly).encode()), "main", (1, 1, 1), {(0, 0): out})
    return out.tolist()


def test_a_block_of_the_interface_clears_those_that_alias_it():
    assert run(ALIASED.replace("INTERFACE", "%cleared %plain"), 4) == [0] * 4


def test_a_block_beside_the_interface_clears_nothing():
    assert run(ALIASED.replace("INTERFACE", "%plain"), 4) != [0] * 4


@pytest.mark.parametrize("decorations", ["", EXPLICIT])
def test_a_step_goes_to_the_next_element(decorations: str):
    assert run(STRIDE.replace("DECORATIONS", decorations), 1) == [1]
