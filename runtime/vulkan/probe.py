"""Defines a minimal kernel that tests if a device computes: y[i] = 3 x[i] + 1."""

from __future__ import annotations

import struct

from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
from xdsl_spirv.serialization.text.assembler import assemble

GROUP = 64
KERNEL = f"""
; SPIR-V
; Version: 1.3
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "probe" %id
OpExecutionMode %main LocalSize {GROUP} 1 1
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %x DescriptorSet 0
OpDecorate %x Binding 0
OpDecorate %y DescriptorSet 0
OpDecorate %y Binding 1
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%uint3 = OpTypeVector %uint 3
%input = OpTypePointer Input %uint3
%id = OpVariable %input Input
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%buffer = OpTypePointer StorageBuffer %block
%x = OpVariable %buffer StorageBuffer
%y = OpVariable %buffer StorageBuffer
%element = OpTypePointer StorageBuffer %uint
%zero = OpConstant %uint 0
%one = OpConstant %uint 1
%three = OpConstant %uint 3
%main = OpFunction %void None %function
%entry = OpLabel
%ids = OpLoad %uint3 %id
%i = OpCompositeExtract %uint %ids 0
%from = OpAccessChain %element %x %zero %i
%value = OpLoad %uint %from
%product = OpIMul %uint %value %three
%sum = OpIAdd %uint %product %one
%to = OpAccessChain %element %y %zero %i
OpStore %to %sum
OpReturn
OpFunctionEnd
"""


def kernel() -> bytes:
    return assemble(KERNEL).encode()


def work(steps: int = 1, groups: int = 1) -> Work:
    """Returns work of `steps` consecutive dispatches of `groups` workgroups on two buffers."""
    size = 4 * GROUP * groups
    x, y = ("x", "y"), ("y", "x")
    return Work(
        buffers=(WorkBuffer("x", size, "output"), WorkBuffer("y", size, "output")),
        kernels={"probe": kernel()},
        steps=tuple(
            Step("probe", "probe", (groups, 1, 1), ((0, 0, a), (0, 1, b)))
            for a, b in (y if n % 2 else x for n in range(steps))
        ),
    )


def probe() -> tuple[Work, dict[str, bytes]]:
    """Returns a dispatch that reads an input and writes an output, and the input's value."""
    scaling = work()
    buffers = (WorkBuffer("x", 4 * GROUP, "input"), WorkBuffer("y", 4 * GROUP, "output"))
    data = struct.pack(f"<{GROUP}I", *range(GROUP))
    return Work(buffers, scaling.kernels, scaling.steps), {"x": data}


def expected() -> dict[str, bytearray]:
    return {"y": bytearray(struct.pack(f"<{GROUP}I", *(3 * i + 1 for i in range(GROUP))))}
