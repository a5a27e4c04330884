"""`xdsl-spirv opt` runs xDSL's driver on binaries and assembly."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.universe import Universe
from xdsl.xdsl_opt_main import xDSLOptMain

from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.tools.main import main

TEXT = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main"
OpExecutionMode %main LocalSize 64 1 1
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%one = OpConstant %uint 1
%main = OpFunction %void None %function
%entry = OpLabel
%unused = OpIAdd %uint %one %one
OpReturn
OpFunctionEnd
"""


@pytest.fixture(params=["spv", "spvasm"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"kernel.{request.param}"
    path.write_bytes(assemble(TEXT).encode() if request.param == "spv" else TEXT.encode())
    return path


def test_a_kernel_becomes_a_module(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["opt", str(file)]) == 0
    printed = capsys.readouterr().out
    assert 'spirv.EntryPoint "GLCompute" @main' in printed
    assert "spirv.IAdd" in printed


def test_passes_and_targets_take_it(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["opt", "-p", "dce", "-t", "spirv-assembly", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "OpEntryPoint GLCompute" in printed
    assert "OpIAdd" not in printed


def test_other_files_are_refused_as_modules(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "x.spv").write_bytes(b"\x03\x02#\x07")
    (tmp_path / "x.spvasm").write_text("OpCapability\n  Nonsense\n")
    assert main(["opt", str(tmp_path / "x.spv")]) == 1
    assert "x.spv" in capsys.readouterr().err
    assert main(["opt", str(tmp_path / "x.spvasm")]) == 1
    assert "x.spvasm:2:3" in capsys.readouterr().err


def test_a_binary_is_written_to_the_output(file: Path, tmp_path: Path):
    place = tmp_path / "out.spv"
    assert main(["opt", str(file), "-t", "spirv-binary", "-o", str(place)]) == 0
    again = tmp_path / "again.spv"
    assert main(["opt", str(place), "-t", "spirv-binary", "-o", str(again)]) == 0
    assert place.read_bytes() == again.read_bytes() != b""
    given = ["opt", str(file), "-t", f'spirv-binary{{file="{again}"}}', "-o", str(place)]
    assert main(given) == 1


def test_stock_xdsl_opt_has_no_front_ends():
    universe = {"all_dialects", "all_passes", "all_targets"}
    assert set(vars(Universe())) - {"all_frontends"} == universe
    stock = xDSLOptMain(args=[])
    assert set(stock.available_frontends) == {"mlir"}
    assert {"spirv-assembly", "spirv-binary"} <= set(stock.available_targets)


LOCATED = """#loc2 = loc("x.mlir":1:14)
!i = i32
module {
  func.func @f(%a: !i loc("x.mlir":1:14)) -> !i {
    %b = arith.addi %a, %a : i32 loc(#loc3)
    return %b : i32 loc(#loc2)
  } loc(#loc)
}
#loc = loc("x.mlir":1:1)
#loc3 = loc("x.mlir":2:7)
"""


def test_aliases_may_be_defined_after_the_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "located.mlir"
    path.write_text(LOCATED)
    assert main(["opt", "--print-debuginfo", str(path)]) == 0
    printed = capsys.readouterr().out
    assert '%b = arith.addi %a, %a : i32 loc("x.mlir":2:7)' in printed
    assert '} loc("x.mlir":1:1)' in printed


def test_an_alias_has_one_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "twice.mlir"
    path.write_text(LOCATED + '#loc = loc("x.mlir":3:1)\n')
    assert main(["opt", str(path)]) != 0
    assert "re-declaration of alias '#loc'" in capsys.readouterr().err
