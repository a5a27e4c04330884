"""Workgroup memory is initialized where requested, and its elements have the declared offsets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.text.assembler import assemble

BLOCKS = """
OpCapability Shader
OpCapability WorkgroupMemoryExplicitLayoutKHR
OpExtension "SPV_KHR_workgroup_memory_explicit_layout"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %out INTERFACE
OpExecutionMode %main LocalSize 1 1 1
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
ANNOTATIONS
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
VARIABLES
%p_out = OpTypePointer StorageBuffer %blockREAD
%out = OpVariable %p_out StorageBuffer
%main = OpFunction %void None %fn
%entry = OpLabel
OpCopyMemory %out %bREAD
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
OpDecorate %p_wg ArrayStride BYTES
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
%next = OpPtrAccessChain %p_wg %d0 %uSTEP
%v = OpLoad %u32 %next
%o = OpAccessChain %p_out %out %u0
OpStore %o %v
OpReturn
OpFunctionEnd
"""
EXPLICIT = """
OpDecorate %held Block
OpMemberDecorate %held 0 Offset 0
OpDecorate %words ArrayStride BYTES
"""


def run(assembly: str, count: int, checks: Checks | None = None) -> list[int]:
    out = np.ones(count, np.uint32)
    module, options = decode(assemble(assembly).encode()), Options(checks=checks)
    dispatch(module, "main", (1, 1, 1), {(0, 0): out}, options=options)
    return out.tolist()


@pytest.mark.parametrize("seed", range(16))
def test_an_initializer_covers_the_words_of_overlapping_variables(seed: int):
    rng = np.random.default_rng(seed)
    sizes = rng.permutation([2, 3, 5, 8])[: int(rng.integers(2, 5))].tolist()
    cleared, listed = rng.random((2, len(sizes))) < 0.5
    read = int(rng.integers(len(sizes)))
    listed[read] = True
    annotations, variables = "", ""
    for k, size in enumerate(sizes):
        annotations += f"OpDecorate %b{k} Aliased\nOpMemberDecorate %block{k} 0 Offset 0\n"
        annotations += f"OpDecorate %block{k} Block\nOpDecorate %words{k} ArrayStride 4\n"
        variables += f"%n{k} = OpConstant %u32 {size}\n%words{k} = OpTypeArray %u32 %n{k}\n"
        variables += f"%block{k} = OpTypeStruct %words{k}\n%null{k} = OpConstantNull %block{k}\n"
        variables += f"%p{k} = OpTypePointer Workgroup %block{k}\n"
        initializer = f"%null{k}" if cleared[k] else ""
        variables += f"%b{k} = OpVariable %p{k} Workgroup {initializer}\n"
    text = BLOCKS.replace("ANNOTATIONS", annotations).replace("VARIABLES", variables)
    interface = " ".join(f"%b{k}" for k in range(len(sizes)) if listed[k])
    text = text.replace("INTERFACE", interface).replace("READ", str(read))
    words = run(text, sizes[read])
    covered = max([0, *np.array(sizes)[cleared & listed].tolist()])
    assert [word == 0 for word in words] == [k < covered for k in range(sizes[read])]
    checks = Checks.of("undefined")
    run(text, sizes[read], checks)
    assert bool(list(checks.report)) == (covered < sizes[read]), str(checks.report)


@pytest.mark.parametrize(
    ("decorations", "stride", "step"), list(product(["", EXPLICIT], [4, 8, 12, 32], [1, 2]))
)
def test_a_pointer_step_moves_by_the_stride(decorations: str, stride: int, step: int):
    text = STRIDE.replace("DECORATIONS", decorations).replace("BYTES", str(stride))
    assert run(text.replace("STEP", str(step)), 1) == [step]
