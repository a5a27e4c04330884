"""Symbols of other compilers work: names with dots, names that are suffixes of others."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.interpreter import Options, dispatch
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.text.assembler import assemble

KERNEL = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "k.main" %index
OpExecutionMode %main LocalSize 8 1 1
OpName %main "k.main"
OpName %tile "p.0"
OpName %other "0"
OpName %scale "n.scale"
OpName %wrong "scale"
OpName %n "k.n"
OpName %m "n"
OpDecorate %index BuiltIn LocalInvocationIndex
OpDecorate %n SpecId 0
OpDecorate %m SpecId 1
OpDecorate %array ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block Block
OpDecorate %buffer DescriptorSet 0
OpDecorate %buffer Binding 0
%void = OpTypeVoid
%u32 = OpTypeInt 32 0
%function = OpTypeFunction %void
%of_one = OpTypeFunction %u32 %u32
%zero = OpConstant %u32 0
%two = OpConstant %u32 2
%n = OpSpecConstant %u32 8
%m = OpSpecConstant %u32 3
%array = OpTypeRuntimeArray %u32
%block = OpTypeStruct %array
%ptr_block = OpTypePointer StorageBuffer %block
%ptr_element = OpTypePointer StorageBuffer %u32
%ptr_input = OpTypePointer Input %u32
%index = OpVariable %ptr_input Input
%buffer = OpVariable %ptr_block StorageBuffer
%shared = OpTypeArray %u32 %n
%fewer = OpTypeArray %u32 %m
%ptr_shared = OpTypePointer Workgroup %shared
%ptr_fewer = OpTypePointer Workgroup %fewer
%ptr_u32 = OpTypePointer Workgroup %u32
%tile = OpVariable %ptr_shared Workgroup
%other = OpVariable %ptr_fewer Workgroup
%wrong = OpFunction %u32 None %of_one
%x = OpFunctionParameter %u32
%a = OpLabel
OpReturnValue %zero
OpFunctionEnd
%scale = OpFunction %u32 None %of_one
%y = OpFunctionParameter %u32
%b = OpLabel
%scaled = OpIMul %u32 %y %two
OpReturnValue %scaled
OpFunctionEnd
%main = OpFunction %void None %function
%entry = OpLabel
%i = OpLoad %u32 %index
%first = OpAccessChain %ptr_u32 %other %zero
OpStore %first %zero
%place = OpAccessChain %ptr_u32 %tile %i
OpStore %place %i
%value = OpLoad %u32 %place
%twice = OpFunctionCall %u32 %scale %value
%sum = OpIAdd %u32 %twice %n
%element = OpAccessChain %ptr_element %buffer %zero %i
OpStore %element %sum
OpReturn
OpFunctionEnd
"""


@pytest.mark.parametrize("checked", [False, True])
def test_symbols_may_contain_dots(checked: bool) -> None:
    module = decode(assemble(KERNEL).encode())
    checks = Checks.of("bounds,undefined") if checked else None
    array = np.zeros(8, np.uint32)
    dispatch(module, "k.main", (1, 1, 1), {(0, 0): array}, {0: 10}, options=Options(checks=checks))
    assert array.tolist() == [2 * i + 10 for i in range(8)]
    assert checks is None or not checks.report.findings


def test_an_instruction_with_operands_of_a_wrong_type_is_refused() -> None:
    """Taichi emits OpBitwiseAnd on Booleans, which is invalid."""
    wrong = "%both = OpLogicalEqual %bool %less %less\n%and = OpBitwiseAnd %bool %less %both"
    text = KERNEL.replace("%zero = ", "%bool = OpTypeBool\n%zero = ", 1)
    text = text.replace("%sum =", f"%less = OpULessThan %bool %i %two\n{wrong}\n%sum =")
    module = decode(assemble(text).encode())
    with pytest.raises(InterpreterError, match=r"OpBitwiseAnd is not supported with .*i1, i1"):
        dispatch(module, "k.main", (1, 1, 1), {(0, 0): np.zeros(8, np.uint32)})


def test_an_instruction_of_another_set_is_named() -> None:
    text = KERNEL.replace("OpMemoryModel", '%set = OpExtInstImport "OpenCL.std"\nOpMemoryModel')
    text = text.replace("%sum =", "%more = OpExtInst %u32 %set popcount %i\n%sum =")
    module = decode(assemble(text).encode())
    with pytest.raises(
        InterpreterError, match=r"OpExtInst of OpenCL\.std has no operation in the dialect"
    ):
        dispatch(module, "k.main", (1, 1, 1), {(0, 0): np.zeros(8, np.uint32)})


@pytest.mark.parametrize("name", ["IAdd", "IMul", "UMin", "UMax", "BitwiseXor"])
@pytest.mark.parametrize("group", ["Reduce", "InclusiveScan", "ExclusiveScan"])
def test_a_valid_instruction_without_semantics_is_unsupported(name: str, group: str) -> None:
    wanted = f"%sum = OpGroupNonUniform{name} %u32 %two Partitioned{group}NV %i %i"
    line = next(line for line in KERNEL.splitlines() if line.startswith("%sum ="))
    module = decode(assemble(KERNEL.replace(line, wanted)).encode())
    with pytest.raises(
        InterpreterError, match=f"is not supported with Partitioned{group}NV"
    ) as info:
        dispatch(module, "k.main", (1, 1, 1), {(0, 0): np.zeros(8, np.uint32)})
    assert "not valid" not in str(info.value)
