"""A pointer made in a construct may be used after it, although no region yields a pointer."""

from __future__ import annotations

from xdsl_spirv.dialects.spirv.memory import AccessChainOp
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.text.assembler import assemble

# spirv-opt -O of `while (atomicAdd(turn[i + 1], 0) != 0) {} turn[i + 1] = 1;`.
WAITING = """
OpCapability Shader
OpExtension "SPV_KHR_storage_buffer_storage_class"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %id
OpExecutionMode %main LocalSize 1 1 1
OpDecorate %id BuiltIn LocalInvocationIndex
OpDecorate %turns ArrayStride 4
OpDecorate %Turns Block
OpMemberDecorate %Turns 0 Offset 0
OpDecorate %buffer DescriptorSet 0
OpDecorate %buffer Binding 0
%void = OpTypeVoid
%signature = OpTypeFunction %void
%uint = OpTypeInt 32 0
%bool = OpTypeBool
%zero = OpConstant %uint 0
%one = OpConstant %uint 1
%turns = OpTypeRuntimeArray %uint
%Turns = OpTypeStruct %turns
%to_Turns = OpTypePointer StorageBuffer %Turns
%to_uint = OpTypePointer StorageBuffer %uint
%input = OpTypePointer Input %uint
%id = OpVariable %input Input
%buffer = OpVariable %to_Turns StorageBuffer
%main = OpFunction %void None %signature
%entry = OpLabel
OpBranch %loop
%loop = OpLabel
OpLoopMerge %behind %again None
OpBranch %body
%body = OpLabel
%i = OpLoad %uint %id
%next = OpIAdd %uint %i %one
%turn = OpAccessChain %to_uint %buffer %zero %next
%old = OpAtomicLoad %uint %turn %one %zero
%waits = OpINotEqual %bool %old %zero
OpBranchConditional %waits %again %behind
%again = OpLabel
OpBranch %loop
%behind = OpLabel
OpStore %turn %one
OpReturn
OpFunctionEnd
"""


def test_the_access_chain_is_repeated_after_the_construct():
    module = decode(assemble(WAITING).encode())
    module.verify()
    chains = [op for op in module.walk() if isinstance(op, AccessChainOp)]
    assert len(chains) == 2
    inside, behind = chains
    assert [str(type) for type in inside.parent_op().result_types] == ["i32"]  # pyright: ignore
    assert behind.operands[0] is inside.operands[0]
    assert encode(decode(encode(module))) == encode(module)
