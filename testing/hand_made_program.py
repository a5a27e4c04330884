"""
A program with a handwritten kernel that uses many features of the format at once.

It has buffers of five kinds, a dispatch that runs `once`, specialization and push constants of
several types. No compiled program has all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.manifest import (
    PADDING,
    SCHEMA,
    VERSION,
    WEIGHTS,
    Binding,
    Buffer,
    Dispatch,
    EntryPoint,
    Kernel,
    Manifest,
    PushConstant,
    SpecConstant,
    SpecValue,
)
from xdsl_spirv.runtime.program import KernelCode, Program, program_requires
from xdsl_spirv.serialization.text.assembler import assemble

COUNT = 24

KERNEL = """
OpCapability Shader
OpCapability Int64
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "scale" %a %b %out %push %id
OpExecutionMode %main LocalSize 8 1 1
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %factor SpecId 0
OpDecorate %negative SpecId 1
OpDecorate %more SpecId 7
OpDecorate %words ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %pushed Block
OpMemberDecorate %pushed 0 Offset 0
OpMemberDecorate %pushed 1 Offset 8
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 1
OpDecorate %b Binding 2
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 5
%void = OpTypeVoid
%bool = OpTypeBool
%u32 = OpTypeInt 32 0
%i64 = OpTypeInt 64 1
%i32 = OpTypeInt 32 1
%f32 = OpTypeFloat 32
%v3 = OpTypeVector %u32 3
%factor = OpSpecConstant %f32 1.5
%negative = OpSpecConstantFalse %bool
%more = OpSpecConstant {integer} 0
%zero = OpConstant %u32 0
%one = OpConstant %u32 1
%words = OpTypeRuntimeArray %f32
%block = OpTypeStruct %words
%pushed = OpTypeStruct %f32 %i64
%to_block = OpTypePointer StorageBuffer %block
%to_word = OpTypePointer StorageBuffer %f32
%to_pushed = OpTypePointer PushConstant %pushed
%to_float = OpTypePointer PushConstant %f32
%to_long = OpTypePointer PushConstant %i64
%to_id = OpTypePointer Input %v3
%a = OpVariable %to_block StorageBuffer
%b = OpVariable %to_block StorageBuffer
%out = OpVariable %to_block StorageBuffer
%push = OpVariable %to_pushed PushConstant
%id = OpVariable %to_id Input
%function = OpTypeFunction %void
%main = OpFunction %void None %function
%entry = OpLabel
%ids = OpLoad %v3 %id
%i = OpCompositeExtract %u32 %ids 0
%pa = OpAccessChain %to_word %a %zero %i
%pb = OpAccessChain %to_word %b %zero %i
%po = OpAccessChain %to_word %out %zero %i
%va = OpLoad %f32 %pa
%vb = OpLoad %f32 %pb
%pf = OpAccessChain %to_float %push %zero
%vf = OpLoad %f32 %pf
%pl = OpAccessChain %to_long %push %one
%vl = OpLoad %i64 %pl
%both = OpIAdd %i64 %vl %more
%vi = OpConvertSToF %f32 %both
%product = OpFMul %f32 %va %factor
%s1 = OpFAdd %f32 %product %vb
%s2 = OpFAdd %f32 %s1 %vf
%s3 = OpFAdd %f32 %s2 %vi
%minus = OpFNegate %f32 %s3
%r = OpSelect %f32 %negative %minus %s3
OpStore %po %r
OpReturn
OpFunctionEnd
"""


def program(weight: Array, integer: str = "i64") -> Program:
    """
    Returns the program `y = -(1.5 x + t + 0.25 - 3)` with `t = 2 w + w + 5`. `t` is computed once
    for all runs.

    `integer` is the type of the specialization constant 5. With "i32" the program has no i64.
    """
    bound = [("w", "w", "t"), ("x", "t", "y")]
    buffers = (
        Buffer("x", "input", "f32", (COUNT,)),
        Buffer("w", "weight", "f32", (COUNT,)),
        Buffer("t", "temporary", "f32", (COUNT,), offset=256),
        Buffer("y", "output", "f32", (COUNT,)),
    )
    settings = [
        ((SpecValue(0, 2.0), SpecValue(7, 5)), (0.0, 0), True),
        ((SpecValue(1, True),), (0.25, -3), False),
    ]
    dispatches = tuple(
        Dispatch(
            "scale",
            "scale",
            (COUNT // 8, 1, 1),
            (Binding(0, 0, a), Binding(1, 2, b), Binding(0, 5, out)),
            constants,
            (PushConstant(0, "f32", number), PushConstant(8, integer, added)),
            once,
        )
        for (a, b, out), (constants, (number, added), once) in zip(bound, settings, strict=True)
    )
    constants = (
        SpecConstant(0, "f32", 1.5),
        SpecConstant(1, "i1", False),
        SpecConstant(7, integer, 0),
    )
    text = KERNEL.replace("{integer}", f"%{integer}")
    if integer == "i32":
        for line in ("OpCapability Int64\n", "%i64 = OpTypeInt 64 1\n"):
            text = text.replace(line, "")
        text = text.replace("%i64", "%i32")
    binary = assemble(text).encode()
    entry_point = EntryPoint("scale", (8, 1, 1), 16 if integer == "i64" else 12)
    manifest = Manifest(
        schema=SCHEMA,
        version=VERSION,
        generator="by hand",
        target="lavapipe",
        subgroup_size=8,
        function="main",
        arguments=("x",),
        results=("y",),
        buffers=buffers,
        kernels=(Kernel("scale", "scale.spv", None, (entry_point,), constants),),
        dispatches=dispatches,
        weights=WEIGHTS,
        memory=256 + 4 * COUNT,
        padding=PADDING,
    )
    manifest = replace(manifest, requires=program_requires(manifest, {"scale": binary}))
    return Program(manifest, {"scale": KernelCode(binary)}, {"w": weight})


def expected(x: Array, weight: Array) -> Array:
    """Returns the correct result of `program`."""
    return -(1.5 * x + 3 * weight + 5 + np.float32(0.25) - 3)
