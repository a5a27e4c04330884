"""`xdsl-spirv validate` prints findings, and returns an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.tools.main import main

VALID = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 1 1 1
%void = OpTypeVoid
%fn = OpTypeFunction %void
%u32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%one = OpConstant %u32 1
%half = OpConstant %f32 0.5
%main = OpFunction %void None %fn
%entry = OpLabel
%sum = OpIAdd %u32 %one %one
OpReturn
OpFunctionEnd
"""
MODULE = """
spirv.module Logical GLSL450 requires #spirv.vce<v1.6, [Shader], []> {
  spirv.func @main() "None" {
    %one = spirv.Constant 1 : i32
    %r = spirv.IAdd %one, %one : i32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main
"""
MODE = '  spirv.ExecutionMode @main "LocalSize", 1, 1, 1\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> None:
    Path("x.spv").write_bytes(assemble(text).encode())


def test_a_valid_binary_has_no_findings(capsys: pytest.CaptureFixture[str]):
    write(VALID)
    assert main(["validate", "x.spv"]) == 0
    assert capsys.readouterr().out == ""


SHARED = """
%count = OpConstant %u32 10240
%array = OpTypeArray %f32 %count
%pointer = OpTypePointer Workgroup %array
%to = OpTypePointer Workgroup %f32
%tile = OpVariable %pointer Workgroup
%main = OpFunction"""


@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        ((), 0, "warning: VUL-10: the entry point uses 40960 bytes of Workgroup memory, but only"),
        (("--target", "lavapipe"), 1, "error: LIMIT-02: the entry point uses 40960 bytes"),
        (("--target", "nvidia-h200"), 0, ""),
    ],
)
def test_too_much_workgroup_memory_is_found(
    target: tuple[str, ...], status: int, said: str, capsys: pytest.CaptureFixture[str]
):
    text = VALID.replace("%main = OpFunction", SHARED.lstrip())
    used = "%entry = OpLabel\n%at = OpAccessChain %to %tile %one"
    write(text.replace("%entry = OpLabel", used).replace('GLCompute %main "main"', MAIN))
    assert main(["validate", "x.spv", *target]) == status
    out = capsys.readouterr().out
    assert said in out
    assert bool(out) == bool(said)


MAIN = 'GLCompute %main "main" %tile'


@pytest.mark.parametrize(
    ("length", "status", "said"),
    [
        ("IMul %n %n", 1, "error: LIMIT-02: the entry point uses 40000 bytes"),
        ("IAdd %n %n", 0, ""),
        (
            "UDiv %n %none",
            1,
            "error: LIMIT-02: the entry point uses an unknown amount of Workgroup memory, and "
            "lavapipe has 32768: the value of %",
        ),
    ],
)
def test_workgroup_memory_of_a_derived_length(
    length: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
):
    numbers = "%n = OpSpecConstant %u32 100\n%none = OpSpecConstant %u32 0\n"
    derived = f"{numbers}%count = OpSpecConstantOp %u32 {length}"
    shared = SHARED.lstrip().replace("%count = OpConstant %u32 10240", derived)
    text = VALID.replace("%main = OpFunction", shared)
    used = "%entry = OpLabel\n%at = OpAccessChain %to %tile %one"
    write(text.replace("%entry = OpLabel", used).replace('GLCompute %main "main"', MAIN))
    assert main(["validate", "x.spv", "--target", "lavapipe"]) == status
    out = capsys.readouterr().out
    assert said in out
    assert bool(out) == bool(said)


def test_every_finding_is_printed(capsys: pytest.CaptureFixture[str]):
    write(VALID.replace("%one %one", "%one %half").replace("LocalSize 1", "LocalSize 0"))
    assert main(["validate", "x.spv"]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("x.spv: error: MOD-05: a workgroup size cannot be 0; use at least 1 ")
    assert second.startswith("x.spv: error: OPR-01: operand_2 ")
    assert second.endswith("instruction 12 OpIAdd %9)")


def test_findings_are_printed_as_json(capsys: pytest.CaptureFixture[str]):
    write(VALID.replace("%one %one", "%one %half"))
    assert main(["validate", "x.spv", "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["rule"] == "OPR-01"
    assert finding["severity"] == "error"
    assert finding["instruction"] == "OpIAdd"
    assert finding["index"] == 12
    assert finding["word"] > 5


def test_a_warning_does_not_fail(capsys: pytest.CaptureFixture[str]):
    extension = 'OpCapability Shader\nOpExtension "SPV_NV_cooperative_matrix2"'
    write("; Version: 1.3\n" + VALID.lstrip().replace("OpCapability Shader", extension))
    assert main(["validate", "x.spv"]) == 0
    assert "warning: EXT-05" in capsys.readouterr().out


def test_the_environment_decides(capsys: pytest.CaptureFixture[str]):
    write(VALID.replace("OpExecutionMode %main LocalSize 1 1 1\n", ""))
    assert main(["validate", "x.spv", "--target-env", "spv1.6"]) == 0
    assert main(["validate", "x.spv"]) == 1
    assert "MOD-04" in capsys.readouterr().out


def test_an_mlir_module_is_validated(capsys: pytest.CaptureFixture[str]):
    Path("x.mlir").write_text(MODULE + MODE + "}\n")
    assert main(["validate", "x.mlir"]) == 0
    Path("x.mlir").write_text(MODULE + "}\n")
    assert main(["validate", "x.mlir"]) == 1
    out = capsys.readouterr().out
    assert "MOD-04" in out
    assert 'spirv.EntryPoint "GLCompute" @main' in out


def test_an_mlir_module_that_breaks_a_rule_of_the_dialect(capsys: pytest.CaptureFixture[str]):
    rotation = """
    %three = spirv.Constant 3 : si32
    %v = spirv.GroupNonUniformRotateKHR <Subgroup> %one, %three : i32, si32 -> i32
    """
    text = MODULE.replace("%r = spirv.IAdd %one, %one : i32", rotation)
    text = text.replace("[Shader]", "[Shader, GroupNonUniformRotateKHR]")
    text = text.replace("[]", "[SPV_KHR_subgroup_rotate]")
    Path("x.mlir").write_text(text + MODE + "}\n")
    assert main(["validate", "x.mlir"]) == 1
    out = capsys.readouterr().out
    assert "ROT-05: Delta must be an integer scalar of Signedness 0, not si32" in out
    assert "spirv.GroupNonUniformRotateKHR" in out
    assert out.count("ROT-05") == 1


def test_differences_from_spirv_val_are_printed(spirv_val: str, capsys: pytest.CaptureFixture[str]):
    write(VALID)
    assert main(["validate", "x.spv", "--spirv-val"]) == 0
    assert capsys.readouterr().out == ""
    switch = "OpSelectionMerge %end None\nOpSwitch %one %end 0 %case 0 %case\n%case = OpLabel\n"
    switch += "OpBranch %end\n%end = OpLabel\nOpReturn"
    write(VALID.replace("OpReturn", switch))
    assert main(["validate", "x.spv", "--spirv-val"]) == 1
    out = capsys.readouterr().out
    assert "difference: CFG-02: refused here, but accepted by spirv-val (known: " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["x.spv"],
            "error: the module has 3 bytes, fewer than the 4 of the magic number (at word 0)",
        ),
        (["nowhere.spv"], "error: cannot read the input: No such file"),
        (["x.spv", "--target-env", "opencl2.0"], "error: the target environment"),
    ],
)
def test_mistakes_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    Path("x.spv").write_bytes(b"abc")
    assert main(["validate", *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)
