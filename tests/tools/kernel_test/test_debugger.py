"""An editor can debug a kernel over the debug adapter protocol."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdsl_spirv.testing.protocol_client import Debugger
from xdsl_spirv.tools.debugger.adapter import Adapter
from xdsl_spirv.tools.debugger.connection import Connection
from xdsl_spirv.tools.main import main

KERNEL = """#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float sums[]; };
layout(push_constant) uniform Parameters { uint n; float scale; };
shared float tile[64];
float scaled(float v) {
    float r = v * scale;
    return r;
}
void main() {
    uint i = gl_GlobalInvocationID.x, l = gl_LocalInvocationID.x;
    float value = i < n ? x[i] : 0.0;
    tile[l] = scaled(value);
    for (uint s = 32; s > 0; s /= 2) {
        if (l < s)
            tile[l] += tile[l + s];
        barrier();
    }
    if (l == 0)
        sums[gl_WorkGroupID.x] = tile[0];
}
"""
DESCRIPTION = """kernel = "sum.comp"
grid = 2
[push-constants]
n = 100
scale = 0.5
[buffers.Input]
type = "f32"
size = 100
content = "range"
[buffers.Output]
type = "f32"
size = 2
content = "zeros"
"""
TRIANGLE = """
spirv.module Logical GLSL450 requires #spirv.vce<v1.3, [Shader], []> {
  spirv.GlobalVariable @out bind(0, 0) :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<si32, stride=4> [0]), Block>, StorageBuffer>
  spirv.GlobalVariable @id built_in("LocalInvocationIndex") : !spirv.ptr<si32, Input>
  spirv.func @main() "None" {
    %zero = spirv.Constant 0 : si32
    %at = spirv.mlir.addressof @id : !spirv.ptr<si32, Input>
    %i = spirv.Load "Input" %at : si32
    %square = spirv.IMul %i, %i : si32
    %sum = spirv.IAdd %square, %i : si32
    %out = spirv.mlir.addressof @out :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<si32, stride=4> [0]), Block>, StorageBuffer>
    %p = spirv.AccessChain %out[%zero, %i] :
      !spirv.ptr<!spirv.struct<(!spirv.rtarray<si32, stride=4> [0]), Block>, StorageBuffer>,
      si32, si32 -> !spirv.ptr<si32, StorageBuffer>
    spirv.Store "StorageBuffer" %p, %sum : si32
    spirv.Return
  }
  spirv.EntryPoint "GLCompute" @main, @id
  spirv.ExecutionMode @main "LocalSize", 8, 1, 1
}
"""


@pytest.fixture
def kernel(glslang: list[str], tmp_path: Path) -> str:
    (tmp_path / "sum.kernel.toml").write_text(DESCRIPTION)
    path = tmp_path / "sum.comp"
    path.write_text(KERNEL)
    return str(path)


@pytest.fixture
def editor() -> Iterator[Debugger]:
    """Yields a client of a debugger in this process."""
    ends = [os.fdopen(end, mode) for pair in (os.pipe(), os.pipe())
            for end, mode in zip(pair, ("rb", "wb"), strict=True)]  # fmt: skip
    requests, to_debugger, answers, from_debugger = ends
    adapter = Adapter(Connection(requests, from_debugger))  # pyright: ignore
    thread = threading.Thread(target=adapter.serve, daemon=True)
    thread.start()
    client = Debugger(to_debugger, answers)  # pyright: ignore
    yield client
    client.ask("disconnect")
    thread.join(20)
    assert not thread.is_alive()
    for end in ends:
        end.close()


def test_a_missing_barrier_is_found_and_stepped_through(kernel: str, editor: Debugger):
    editor.launch(kernel, [])
    assert editor.stop() == "exception"
    info = editor.ask("exceptionInfo", threadId=editor.thread)
    assert info["exceptionId"] == "RACE-01"
    assert "put a barrier" in info["description"]
    assert editor.line() == 17
    variables = editor.scope(0)
    assert variables["s"]["value"] == "32"
    assert variables["s"]["presentationHint"]["attributes"] == ["uniform"]
    assert variables["l"]["value"] == "0   (0 to 31 by invocation)"
    assert variables["l"]["presentationHint"]["attributes"] == ["divergent"]
    assert editor.value("tile[l + s]") == "16.0   (16.0 to 31.5 by invocation)"
    assert editor.value("is && l < s") == "there is no variable 'is' here"  # a keyword of Python
    # Invocation 40 does not take the branch, and stays at its last line.
    (waiting,) = editor.frames(41)
    assert (waiting["name"], waiting["line"]) == ("main (inactive)", 16)
    lines = [(editor.go("stepBack"), editor.line()) for _ in range(4)]
    assert lines == [("step", 17), ("step", 16), ("step", 15), ("step", 14)]
    assert editor.value("tile[0]") == "undefined"
    assert editor.go("next") == "step"
    assert editor.value("tile[2]") == "1.0"
    assert editor.go("continue") == "exception"
    editor.ask("continue", threadId=editor.thread)
    assert editor.event("exited") == {"exitCode": 1}
    editor.event("terminated")


def test_breakpoints_hold_by_condition_in_an_invocation(kernel: str, editor: Debugger):
    given = [{"line": 8, "condition": "v > 20.0 && !(v < 30)"}, {"line": 10}, {"line": 99}]
    verified = editor.launch(kernel, given)
    assert [(b["verified"], b.get("line")) for b in verified] == [
        (True, 8), (True, 12), (False, None)]  # fmt: skip
    editor.ask("setBreakpoints", source={"path": kernel}, breakpoints=given[:1])
    assert editor.stop() == "breakpoint"
    if editor.line() == 12:  # The kernel was at this line before the breakpoints changed.
        editor.go("continue")
    assert (editor.line(), editor.thread) == (8, 31)
    assert [frame["name"] for frame in editor.frames()] == ["scaled", "main"]
    assert editor.value("v") == "30.0   (0.0 to 63.0 by invocation)"
    assert editor.go("next") == "step"
    assert editor.value("r * 2") == "30.0   (0.0 to 63.0 by invocation)"
    assert editor.go("stepOut") == "step"
    assert editor.frames()[0]["name"] == "main"
    assert editor.value("v") == "there is no variable 'v' here"
    assert editor.value("x[200]") == "x[200] is out of range: the array has 100 elements"
    assert editor.go("reverseContinue") == "breakpoint"
    assert editor.line() == 8


def test_arrays_are_read_in_pages_and_focus_moves(kernel: str, editor: Debugger):
    editor.launch(kernel, [{"line": 20}])
    while editor.stop() == "exception":
        editor.ask("continue", threadId=editor.thread)
    buffers = editor.scope(1)
    assert list(buffers) == ["n", "scale", "x", "tile", "sums"]
    assert buffers["x"]["indexedVariables"] == 100
    page = editor.variables(buffers["x"]["variablesReference"], start=97, count=10)
    assert [(v["name"], v["value"]) for v in page] == [
        ("[97]", "97.0"), ("[98]", "98.0"), ("[99]", "99.0")]  # fmt: skip
    lanes = editor.variables(editor.scope(0)["i"]["variablesReference"], start=7, count=1)
    assert (lanes[0]["name"], lanes[0]["value"]) == ("invocation 7", "7")
    editor.value("focus 1:5", context="repl")
    editor.stop()
    assert editor.value("i") == "69   (64 to 127 by invocation)"
    names = [thread["name"] for thread in editor.ask("threads")["threads"]]
    assert len(names) == 64
    assert names[5] == "invocation 5 of workgroup 1"
    # The debugger follows the workgroup into a branch that the focused invocation does not take.
    editor.value("follow workgroup", context="repl")
    editor.stop()
    assert editor.go("next") == "step"
    assert editor.line() == 21
    assert editor.value("l") == "0"


def test_lines_of_text_are_stepped_through(tmp_path: Path, editor: Debugger):
    path = tmp_path / "triangle.mlir"
    path.write_text(TRIANGLE)
    editor.launch(str(path), [{"line": 11}], args=["--grid", "1", "--buffer", "0.0=i32:8:zeros"])
    assert editor.stop() == "breakpoint"
    assert editor.value("%square") == "0   (0 to 49 by invocation)"
    assert editor.go("next", granularity="instruction") == "step"
    assert editor.go("next") == "step"
    assert editor.scope(3)["%sum"]["value"] == "0   (0 to 56 by invocation)"
    assert editor.go("stepBack") == "step"


def test_a_kernel_without_a_description_is_launched_as_assumed(kernel: str, editor: Debugger):
    Path(kernel).with_name("sum.kernel.toml").unlink()
    editor.launch(kernel, [])
    assert "no sum.kernel.toml describes the launch" in editor.event("output")["output"]
    assert editor.stop() == "exception"


def test_errors_are_told_to_the_editor(kernel: str, editor: Debugger):
    editor.ask("initialize")
    assert "there is no" in editor.ask("launch", program=kernel + "x")["failed"]
    assert "args: unrecognized" in editor.ask("launch", program=kernel, args=["--gird"])["failed"]
    Path(kernel).write_text(KERNEL.replace("float r", "flot r"))
    assert "sum.comp:8" in editor.ask("launch", program=kernel)["failed"]
    assert "not a request" in editor.ask("fly")["failed"]


def test_an_editor_starts_the_debugger(kernel: str):
    command = [sys.executable, "-m", "xdsl_spirv.tools.main", "debug", kernel, "--dap"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        editor = Debugger(process.stdin, process.stdout)
        editor.ask("initialize")
        assert not editor.ask("launch", stopOnEntry=True)
        editor.event("initialized")
        editor.ask("configurationDone")
        assert (editor.stop(), editor.line()) == ("entry", 12)
        editor.ask("disconnect")
        assert process.wait(20) == 0


def test_a_terminal_controls_the_debugger(
    kernel: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The end of the input ends the session."""
    typed = ["p l", "tile[l + s]", "locals", "b", "b", "break 20", "c", "c", "wrong", "help"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(typed)))
    assert main(["debug", kernel]) == 0
    _, *said = capsys.readouterr().out.split("\n> ")
    assert said[0].startswith("0   (0 to 31 by invocation)")
    assert said[1].startswith("16.0   (16.0 to 31.5 by invocation)")
    assert "  s = 32\n" in f"{said[2]}\n"
    assert said[4].endswith(f"{kernel}:16: if (l < s)")
    assert said[5] == "breakpoint at line 20"
    assert "RACE-01" in said[6]
    assert said[8] == "error: there is no variable 'wrong' here"
    assert "break LINE" in said[9]


def test_a_terminal_is_asked_for_a_kernel(capsys: pytest.CaptureFixture[str]):
    assert main(["debug"]) == 2
    assert "--port" in capsys.readouterr().err
