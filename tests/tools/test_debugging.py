"""`xdsl-spirv interpret` runs entry points with checks, printed values and traces."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.testing.reports import json_and_text, missing_figures
from xdsl_spirv.tools.main import main

BUFFER = "!spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>, StorageBuffer>"
KERNEL = f"""spirv.module Logical Vulkan requires #spirv.vce<v1.3, [Shader], []> {{
  spirv.GlobalVariable @out bind(0, 0) : {BUFFER}
  spirv.GlobalVariable @id built_in("LocalInvocationIndex") : !spirv.ptr<i32, Input>
  spirv.func @main() "None" {{
    %zero = spirv.Constant 0 : i32
    %p = spirv.mlir.addressof @out : {BUFFER}
    %ip = spirv.mlir.addressof @id : !spirv.ptr<i32, Input>
    %i = spirv.Load "Input" %ip : i32
    %q = spirv.UDiv %i, %i : i32
    %e = spirv.AccessChain %p[%zero, %i] : {BUFFER}, i32, i32 -> !spirv.ptr<i32, StorageBuffer>
    spirv.Store "StorageBuffer" %e, %q : i32
    spirv.Return
  }}
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
}}
"""

DOUBLED = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {
    indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]
  } ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = arith.addf %v, %v : f32
    linalg.yield %y : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> list[str]:
    """Returns arguments that interpret `KERNEL`, whose first invocation divides 0 by 0."""
    source, data = tmp_path / "kernel.mlir", tmp_path / "out.npy"
    source.write_text(KERNEL)
    np.save(data, np.full(8, -1, np.int32))
    return ["interpret", str(source), "--grid", "1,1,1", "--buffer", f"0={data}"]


def test_a_kernel_runs_on_buffers(kernel: list[str], tmp_path: Path) -> None:
    output = tmp_path / "results.npz"
    assert main([*kernel, "-o", str(output)]) == 0
    assert np.load(output)["0.0"].tolist() == [0, *[1] * 7]


def test_findings_as_json(kernel: list[str]) -> None:
    found, text = json_and_text(*kernel, "--check", "all", status=1)
    assert found["findings"]
    assert all(finding["rule"] in text for finding in found["findings"])
    assert [result["name"] for result in found["results"]] == ["0.0"]
    assert not missing_figures(text.splitlines()[0], found)
    found, text = json_and_text(*kernel, "--print", "%q")
    (printed,) = found["printed"]
    assert printed["place"] in text
    assert printed["values"]["result"] == [[0, *[1] * 7]]


def test_values_of_a_body_are_printed_by_loop_index(tmp_path: Path) -> None:
    """For a function on tensors, values are printed by loop index and not by invocation."""
    source = tmp_path / "x.mlir"
    source.write_text(DOUBLED)
    trace = tmp_path / "t.jsonl"
    words = ["interpret", str(source), "--random", "0", "--print", "%y", "--trace", str(trace)]
    found, text = json_and_text(*words)
    (printed,) = found["printed"]
    assert np.size(printed["values"]["result"]) == 4
    assert printed["place"] in text
    assert "arith.addf" in trace.read_text()


PUSH = "!spirv.ptr<!spirv.struct<PC, (i32 [0], vector<2xf32> [8]), Block>, PushConstant>"


@pytest.fixture
def pushed(tmp_path: Path) -> list[str]:
    """Returns the arguments for a kernel that divides by a push constant."""
    source, data = tmp_path / "pushed.mlir", tmp_path / "out.npy"
    struct = PUSH.removeprefix("!spirv.ptr<").removesuffix(", PushConstant>")
    declared = f"""spirv.GlobalVariable @pc : {PUSH}
  spirv.RawGlobal "OpMemberName"({struct}, 0, "n")
  spirv.RawGlobal "OpMemberName"({struct}, 1, "v")
  spirv.GlobalVariable @out"""
    read = f"""%pp = spirv.mlir.addressof @pc : {PUSH}
    %np = spirv.AccessChain %pp[%zero] : {PUSH}, i32 -> !spirv.ptr<i32, PushConstant>
    %n = spirv.Load "PushConstant" %np : i32
    %q = spirv.IMul %n, %i"""
    text = KERNEL.replace("%q = spirv.UDiv %i, %i", read)
    source.write_text(text.replace("spirv.GlobalVariable @out", declared, 1))
    np.save(data, np.full(8, -1, np.int32))
    return ["interpret", str(source), "--grid", "1", "--buffer", f"0={data}"]


@pytest.mark.parametrize(
    "push", [["--push", "n=3", "--push", "v=[1, 2.5]"], ["--push-bytes", "03" + "00" * 15]]
)
def test_push_constants_are_passed(pushed: list[str], push: list[str], tmp_path: Path) -> None:
    output = tmp_path / "results.npz"
    assert main([*pushed, *push, "-o", str(output)]) == 0
    assert np.load(output)["0.0"].tolist() == [3 * i for i in range(8)]


@pytest.mark.parametrize(
    ("push", "message"),
    [
        ([], "uses the push constants @pc of 16 bytes, but no bytes were given"),
        (["--push", "n=3"], "the member v has no value"),
        (["--push", "n=x"], "--push n=x is not a value"),
        (["--push-bytes", "0300"], "but 2 bytes were given"),
        (["--push-bytes", "0z"], "is not hexadecimal"),
        (["--push-bytes", "00", "--push", "n=3"], "leave one out"),
    ],
)
def test_wrong_push_constants_are_refused(
    pushed: list[str], push: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*pushed, *push]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("grid", ["1", "1x1", "1,1", "1,1,1"])
def test_a_grid_may_leave_axes_out(kernel: list[str], grid: str) -> None:
    assert main([grid if each == "1,1,1" else each for each in kernel]) == 0


@pytest.mark.parametrize("grid", ["0", "-1", "1x1x1x1", "x", "", "1.5"])
def test_a_wrong_grid_is_refused(
    kernel: list[str], grid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"--grid={grid}" if each == "--grid" else each for each in kernel]
    arguments.remove("1,1,1")
    assert main(arguments) == 1
    assert f"--grid {grid} is not a grid" in capsys.readouterr().err


def test_findings_have_lines_and_fail(
    kernel: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "findings.json"
    assert main([*kernel, "--check", "all", "--check-json", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "UNDEF-04" in printed
    assert "%q = spirv.UDiv %i, %i, line 9" in printed
    (finding,) = json.loads(path.read_text())["findings"]
    assert finding["line"] == 11
    assert finding["count"] == 1


def test_allowed_findings_do_not_fail(
    kernel: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*kernel, "--check", "all", "--allow", "UNDEF-04:@out"]) == 0
    assert "0 findings, 1 allowed" in capsys.readouterr().out


def test_a_binary_is_checked_too(
    kernel: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    binary = tmp_path / "kernel.spv"
    assert main(["translate", kernel[1], "-o", str(binary), "--names", "--lines"]) == 0
    assert main(["interpret", str(binary), *kernel[2:], "--check", "undefined"]) == 1
    assert "UNDEF-04" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["%q", "#5", "9"])
def test_values_are_printed(
    kernel: list[str], capsys: pytest.CaptureFixture[str], where: str
) -> None:
    assert main([*kernel, "--print", where]) == 0
    assert "[[0 1 1 1 1 1 1 1]]" in capsys.readouterr().out
    assert main([*kernel, "--print", where, "--invocation", "0:3"]) == 0
    assert "line 9\n1\n" in capsys.readouterr().out


ARRAY = """#version 450
layout(local_size_x = 4) in;
layout(std430, binding = 1) buffer In { uint x[]; } from[2];
layout(std430, binding = 3) buffer Out { uint x[]; } to;
void main() {
    uint i = gl_LocalInvocationID.x;
    to.x[i] = from[0].x[i] + 10 * from[1].x[i];
}
"""


def test_an_array_of_buffers_is_passed(
    glslang: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, binary, output = tmp_path / "x.comp", tmp_path / "x.spv", tmp_path / "results.npz"
    source.write_text(ARRAY)
    subprocess.run([*glslang, "-V", source, "-o", binary], check=True, capture_output=True)
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", np.arange(4, dtype=np.uint32) + number)
    np.save(tmp_path / "out.npy", np.zeros(4, np.uint32))
    line = ["interpret", str(binary), "--grid", "1", "--check", "all", "-o", str(output)]
    line += ["--buffer", f"3={tmp_path / 'out.npy'}", "--buffer", f"1[0]={tmp_path / '0.npy'}"]
    other = f"={tmp_path / '1.npy'}"
    assert main([*line, "--buffer", f"0.1[1]{other}"]) == 0
    assert np.load(output)["0.3"].tolist() == [10, 21, 32, 43]
    assert np.load(output)["0.1[1]"].tolist() == [1, 2, 3, 4]
    capsys.readouterr()
    for wrong in ("1", "1[2]", "3[0]", "1[x]", "7[0]"):
        assert main([*line, "--buffer", f"{wrong}{other}"]) == 1
        said = capsys.readouterr().err
        assert "names no buffer" in said
        assert "0.1[NUMBER], from[NUMBER]" in said


def test_a_trace_is_written(kernel: list[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    assert main([*kernel, "--trace", str(path), "--break", "%q"]) == 0
    records = [json.loads(line) for line in path.read_text().splitlines()]
    division = next(record for record in records if record["op"] == "spirv.UDiv")
    assert division["line"] == 9
    assert division["active"] == 8


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--check", "everything"], "there is no check 'everything'"),
        (["--print", "%nothing"], "no instruction matches the breakpoint %nothing"),
        (["--print", "%q", "--invocation", "3"], "--invocation 3 is not an invocation"),
        (["--buffer", "7=x.npy"], "names no buffer"),
        (["--max-steps", "0"], "STEP-01"),
    ],
)
def test_mistakes_end_in_one_message(
    kernel: list[str], capsys: pytest.CaptureFixture[str], extra: list[str], message: str
) -> None:
    assert main([*kernel, *extra]) == 1
    assert message in capsys.readouterr().err


MATMUL = """
func.func @main(%A: tensor<9x7xf16>, %B: tensor<7x5xf16>) -> tensor<9x5xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<9x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<9x5xf32>) -> tensor<9x5xf32>
  %r = linalg.matmul ins(%A, %B : tensor<9x7xf16>, tensor<7x5xf16>)
                     outs(%init : tensor<9x5xf32>) -> tensor<9x5xf32>
  return %r : tensor<9x5xf32>
}
"""


def test_a_compiled_program_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, program = tmp_path / "x.mlir", tmp_path / "program"
    source.write_text(MATMUL)
    assert main(["compile", str(source), "--target", "lavapipe", "-o", str(program)]) == 0
    assert main(["run", str(program), "--random", "0", "--check", "--sanitize", "all"]) == 0
    assert "0 findings" in capsys.readouterr().out
    assert main(["interpret", str(source), "--random", "0", "--check", "all"]) == 0


def test_the_command_steps_after_a_breakpoint(
    kernel: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The breakpoint and each of three steps show their instruction."""
    assert main([*kernel, "--break", "%p", "--step", "3", "--invocation", "0:5"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("#")]
    names = ["spirv.mlir.addressof", "spirv.mlir.addressof", "spirv.Load", "spirv.UDiv"]
    assert [name in line for name, line in zip(names, lines, strict=True)] == [True] * 4


def test_invocations_run_in_the_given_order(
    kernel: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results.npz"
    assert main([*kernel, "--schedule-seed", "3", "-o", str(output)]) == 0
    assert np.load(output)["0.0"].tolist() == [0, *[1] * 7]
    assert main([*kernel, "--permute"]) == 0
    assert "0 findings" in capsys.readouterr().out
    assert main([*kernel, "--schedule-seed", "3", "--check", "all"]) == 1
    assert "excludes the options checks" in capsys.readouterr().err
