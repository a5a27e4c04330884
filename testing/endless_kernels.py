"""Kernels in assembly that lose the device or never end. `NAME` is the entry point's name."""

from __future__ import annotations

LOST = """; SPIR-V
; Version: 1.6
               OpCapability Shader
               OpCapability Int64
               OpCapability VulkanMemoryModel
               OpCapability PhysicalStorageBufferAddresses
               OpMemoryModel PhysicalStorageBuffer64 Vulkan
               OpEntryPoint GLCompute %main "NAME" %id
               OpExecutionMode %main LocalSize 64 1 1
               OpDecorate %id BuiltIn GlobalInvocationId
       %void = OpTypeVoid
       %type = OpTypeFunction %void
       %uint = OpTypeInt 32 0
      %ulong = OpTypeInt 64 0
      %uint3 = OpTypeVector %uint 3
   %in_uint3 = OpTypePointer Input %uint3
         %id = OpVariable %in_uint3 Input
    %pointer = OpTypePointer PhysicalStorageBuffer %uint
       %base = OpConstant %ulong 123145302310912
     %stride = OpConstant %ulong 8589934592
       %main = OpFunction %void None %type
      %entry = OpLabel
        %ids = OpLoad %uint3 %id
          %i = OpCompositeExtract %uint %ids 0
       %wide = OpUConvert %ulong %i
     %offset = OpIMul %ulong %wide %stride
    %address = OpIAdd %ulong %base %offset
         %at = OpConvertUToPtr %pointer %address
      %value = OpLoad %uint %at Aligned 4
       %more = OpIAdd %uint %value %i
               OpStore %at %more Aligned 4
               OpReturn
               OpFunctionEnd
"""
"""Assembly of a kernel that loses the device: it writes to addresses from 0x7000_0000_0000 on."""

FOREVER = """; SPIR-V
; Version: 1.6
               OpCapability Shader
               OpCapability VulkanMemoryModel
               OpMemoryModel Logical Vulkan
               OpEntryPoint GLCompute %main "NAME" %flags
               OpExecutionMode %main LocalSize 1 1 1
               OpDecorate %flags DescriptorSet 0
               OpDecorate %flags Binding 2
               OpDecorate %array ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
       %type = OpTypeFunction %void
       %bool = OpTypeBool
       %uint = OpTypeInt 32 0
      %array = OpTypeRuntimeArray %uint
      %block = OpTypeStruct %array
%block_pointer = OpTypePointer StorageBuffer %block
      %flags = OpVariable %block_pointer StorageBuffer
%uint_pointer = OpTypePointer StorageBuffer %uint
       %zero = OpConstant %uint 0
        %one = OpConstant %uint 1
       %last = OpConstant %uint 4294967295
%queue_family = OpConstant %uint 5
       %main = OpFunction %void None %type
      %entry = OpLabel
       %flag = OpAccessChain %uint_pointer %flags %zero %zero
               OpStore %flag %zero
               OpBranch %head
       %head = OpLabel
               OpLoopMerge %end %next None
               OpBranch %body
       %body = OpLabel
      %value = OpAtomicIAdd %uint %flag %queue_family %zero %zero
       %done = OpIEqual %bool %value %last
               OpBranchConditional %done %end %next
       %next = OpLabel
               OpBranch %head
        %end = OpLabel
               OpStore %flag %one
               OpReturn
               OpFunctionEnd
"""
"""Assembly of a kernel that never ends: it waits for a value that no invocation writes."""
