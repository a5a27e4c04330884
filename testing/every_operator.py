"""
A program with one handmade kernel, which shows if a runner keeps the signedness of instructions.

Some of its instructions interpret integers as signed, others as unsigned, regardless of the
integers' types. Its constants include values for which WGSL has no literals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.manifest import (
    PADDING,
    SCHEMA,
    VERSION,
    Binding,
    Buffer,
    Dispatch,
    EntryPoint,
    Kernel,
    Manifest,
)
from xdsl_spirv.runtime.program import KernelCode, Program, program_requires
from xdsl_spirv.serialization.text.assembler import assemble

COUNT = 64
LOCAL = 16

BINARY = "SDiv UDiv SRem UMod IAdd ISub IMul BitwiseAnd"
SHIFTS = "ShiftRightArithmetic ShiftRightLogical ShiftLeftLogical"
COMPARISONS = (
    "SLessThan SLessThanEqual SGreaterThan SGreaterThanEqual ULessThan ULessThanEqual "
    "UGreaterThan UGreaterThanEqual IEqual"
)
OF_SET = {
    **{"SMin": 2, "SMax": 2, "UMin": 2, "UMax": 2, "SAbs": 1, "SSign": 1},
    **{"FindSMsb": 1, "FindUMsb": 1, "SClamp": 3, "UClamp": 3},
}

HEAD = """
OpCapability Shader
%set = OpExtInstImport "GLSL.std.450"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "every" %a %b %c %out %id
OpExecutionMode %main LocalSize 16 1 1
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %words ArrayStride 4
OpDecorate %floats ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %blockf Block
OpMemberDecorate %blockf 0 Offset 0
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 1
OpDecorate %c DescriptorSet 0
OpDecorate %c Binding 2
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 3
%void = OpTypeVoid
%bool = OpTypeBool
%u32 = OpTypeInt 32 0
%i32 = OpTypeInt 32 1
%f32 = OpTypeFloat 32
%v3 = OpTypeVector %u32 3
%words = OpTypeRuntimeArray %u32
%floats = OpTypeRuntimeArray %f32
%block = OpTypeStruct %words
%blockf = OpTypeStruct %floats
%to_block = OpTypePointer StorageBuffer %block
%to_blockf = OpTypePointer StorageBuffer %blockf
%to_word = OpTypePointer StorageBuffer %u32
%to_float = OpTypePointer StorageBuffer %f32
%to_id = OpTypePointer Input %v3
%a = OpVariable %to_block StorageBuffer
%b = OpVariable %to_block StorageBuffer
%c = OpVariable %to_blockf StorageBuffer
%out = OpVariable %to_block StorageBuffer
%id = OpVariable %to_id Input
%zero = OpConstant %u32 0
%one = OpConstant %u32 1
%three = OpConstant %u32 3
%seven = OpConstant %u32 7
%last = OpConstant %u32 31
%stride = OpConstant %u32 {stride}
%one_i32 = OpConstant %i32 1
%infinite = OpConstant %f32 !0xff800000
{numbers}
%function = OpTypeFunction %void
%main = OpFunction %void None %function
%entry = OpLabel
%ids = OpLoad %v3 %id
%i = OpCompositeExtract %u32 %ids 0
%base = OpIMul %u32 %i %stride
%pa = OpAccessChain %to_word %a %zero %i
%pb = OpAccessChain %to_word %b %zero %i
%pc = OpAccessChain %to_float %c %zero %i
%u32_a = OpLoad %u32 %pa
%u32_b = OpLoad %u32 %pb
%f = OpLoad %f32 %pc
%i32_a = OpBitcast %i32 %u32_a
%i32_b = OpBitcast %i32 %u32_b
%shift = OpBitwiseAnd %u32 %u32_b %last
"""


def _instructions() -> Iterator[tuple[str, str]]:
    for type in ("u32", "i32"):
        a, b = f"%{type}_a", f"%{type}_b"
        for name in BINARY.split():
            yield type, f"Op{name} %{type} {a} {b}"
        for name in SHIFTS.split():
            yield type, f"Op{name} %{type} {a} %shift"
        for name in COMPARISONS.split():
            yield "bool", f"Op{name} %bool {a} {b}"
        for name, count in OF_SET.items():
            operands = (a, b, a)[:count] if count < 3 else (a, b, b)
            yield type, f"OpExtInst %{type} %set {name} {' '.join(operands)}"
        for name in ("BitFieldSExtract", "BitFieldUExtract"):
            yield type, f"Op{name} %{type} {a} %three %seven"
        yield type, f"OpSNegate %{type} {a}"
        yield "f32", f"OpConvertSToF %f32 {a}"
        yield "f32", f"OpConvertUToF %f32 {a}"
        yield type, f"OpConvertFToS %{type} %near"
    yield "bool", "OpIsNan %bool %f"
    yield "bool", "OpIsInf %bool %f"
    yield "bool", "OpFOrdEqual %bool %f %infinite"
    yield "f32", "OpExtInst %f32 %set NMax %near %infinite"


def _kernel() -> tuple[bytes, int]:
    instructions = list(_instructions())
    numbers = "\n".join(f"%n{k} = OpConstant %u32 {k + 1000}" for k in range(len(instructions)))
    lines = [HEAD.format(stride=len(instructions), numbers=numbers)]
    lines.append("%near = OpExtInst %f32 %set NClamp %f %low %high")
    for k, (type, instruction) in enumerate(instructions):
        lines.append(f"%r{k} = {instruction}")
        value = f"%w{k}"
        if type == "bool":
            lines.append(f"{value} = OpSelect %u32 %r{k} %one %zero")
        elif type == "u32":
            value = f"%r{k}"
        else:
            lines.append(f"{value} = OpBitcast %u32 %r{k}")
        lines.append(f"%x{k} = OpISub %u32 %n{k} %thousand")
        lines.append(f"%k{k} = OpIAdd %u32 %base %x{k}")
        lines.append(f"%p{k} = OpAccessChain %to_word %out %zero %k{k}")
        lines.append(f"OpStore %p{k} {value}")
    text = "\n".join([*lines, "OpReturn", "OpFunctionEnd", ""])
    limits = "%low = OpConstant %f32 -1000\n%high = OpConstant %f32 1000\n"
    text = text.replace("%function =", limits + "%thousand = OpConstant %u32 1000\n%function =", 1)
    return assemble(text).encode(), len(instructions)


def instructions_at(columns: Iterable[int]) -> list[str]:
    """Returns the instructions that compute the given columns of the result."""
    instructions = list(_instructions())
    return [instructions[column][1] for column in columns]


def program() -> Program:
    """Returns the program `out = f(a, b, c)` for all instructions."""
    binary, results = _kernel()
    buffers = (
        Buffer("a", "input", "ui32", (COUNT,)),
        Buffer("b", "input", "ui32", (COUNT,)),
        Buffer("c", "input", "f32", (COUNT,)),
        Buffer("out", "output", "ui32", (COUNT, results)),
    )
    bindings = tuple(Binding(0, number, buffer.name) for number, buffer in enumerate(buffers))
    manifest = Manifest(
        schema=SCHEMA,
        version=VERSION,
        generator="by hand",
        target="webgpu",
        subgroup_size=8,
        function="main",
        arguments=("a", "b", "c"),
        results=("out",),
        buffers=buffers,
        kernels=(Kernel("every", "every.spv", None, (EntryPoint("every", (LOCAL, 1, 1)),)),),
        dispatches=(Dispatch("every", "every", (COUNT // LOCAL, 1, 1), bindings),),
        padding=PADDING,
    )
    manifest = replace(manifest, requires=program_requires(manifest, {"every": binary}))
    return Program(manifest, {"every": KernelCode(binary)}, {})


def inputs() -> dict[str, Array]:
    """Returns integers of both signs with nonzero divisors, and floats with infinities and NaN."""
    rng = np.random.default_rng(7)
    a = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    b = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32) >> rng.integers(0, 28, COUNT).astype("u4")
    c = rng.uniform(-9, 9, COUNT).astype(np.float32)
    c[:4] = (np.inf, -np.inf, np.nan, 0)
    return {"a": a, "b": np.maximum(b, 1), "c": c}
