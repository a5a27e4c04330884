"""An editor gets diagnostics from the language server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xdsl_spirv.testing.protocol_client import LanguageClient
from xdsl_spirv.tools.language.diagnosing import diagnose
from xdsl_spirv.tools.language.explaining import definition, hover
from xdsl_spirv.tools.main import main


@pytest.fixture
def editor() -> Iterator[LanguageClient]:
    pytest.importorskip("pygls", reason="pygls is not installed")
    command = [sys.executable, "-m", "xdsl_spirv.tools.main", "language-server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        client = LanguageClient(process.stdin, process.stdout)
        client.ask("initialize", processId=None, rootUri=None, capabilities={})
        client.notify("initialized")
        yield client
        client.ask("shutdown")
        client.notify("exit")
        assert process.wait(20) == 0


def test_a_missing_barrier_is_a_diagnostic_until_it_is_saved(racy: Path, editor: LanguageClient):
    kernel = racy.with_name("sum.comp")
    uri, text = kernel.as_uri(), kernel.read_text()
    lines = text.split("\n")
    read = lines.index("            tile[l] += tile[l + s];")
    write = lines.index("    tile[l] = x[gl_GlobalInvocationID.x];")
    editor.open(uri, text)
    (race,) = editor.diagnostics(uri)
    assert (race["code"], race["severity"]) == ("RACE-01", 1)
    assert race["range"]["start"] == {"line": read, "character": 12}
    assert race["relatedInformation"][0]["location"]["range"]["start"]["line"] == write
    shown = editor.at("hover", uri, read, 14)["contents"]["value"]
    assert "OpFAdd" in shown
    assert editor.at("definition", uri, read, 14)["range"]["start"] == {"line": 4, "character": 13}
    lowered = editor.ask("xdsl-spirv/lowered", uri=uri)["lines"]
    assert "OpFAdd" in "".join(lowered[str(read + 1)])
    # The barrier is inserted, then the text is made invalid.
    for version, (old, new, codes) in enumerate(
        [("    for", "    barrier();\n    for", []), ("uint l", "unit l", ["COMPILE"])], 2
    ):
        kernel.write_text(text.replace(old, new, 1))
        editor.change(uri, text.replace(old, new, 1), version)
        assert [found["code"] for found in editor.diagnostics(uri)] == codes


def test_an_assumed_launch_is_marked(racy: Path):
    racy.unlink()
    race, note = diagnose(racy.with_name("sum.comp"))
    assert (race.problem.rule, race.unsure) == ("RACE-01", True)
    assert "were assumed" in note.problem.text


def test_errors_in_mlir_and_assembly_have_lines(tmp_path: Path):
    for name, text in {
        "x.mlir": "spirv.module Logical GLSL450 {\n  spirv.func @f( {\n}",
        "x.spvasm": "OpCapability Shader\nOpMemoryModel Logical Nonsense\n",
    }.items():
        (tmp_path / name).write_text(text)
        (found,) = diagnose(tmp_path / name)
        assert found.problem.location is not None
        assert (found.problem.rule, found.problem.location.line) == ("COMPILE", 2)


def test_instructions_are_explained_and_names_found():
    mlir = ["spirv.func @f(%a: i32) {", "  %2, %3 = spirv.IAddCarry %a, %b",
            "  spirv.FunctionCall @f(%3)"]  # fmt: skip
    path = Path("x.mlir")
    assert "**OpIAddCarry** (Arithmetic): *Result* = OpIAddCarry" in hover(path, mlir, 1, 14)
    places = [definition(path, mlir, 2, word) for word in ("%3", "%a", "@f", "%none")]
    assert places == [(1, 6), (0, 14), (0, 11), None]
    assembly = ["%1 = OpConstant %int 2", "%2 = OpIAdd %int %1 %1"]
    assert hover(Path("x.spvasm"), assembly, 1, 18) == "```\n%1 = OpConstant %int 2\n```"
    assert "SCO-01" in hover(Path("x.spvasm"), ["OpControlBarrier %2 %2 %3"], 0, 3)
    assert definition(Path("x.wgsl"), ["var<workgroup> tile: array<f32>;"], 0, "tile") == (0, 15)


def test_a_missing_pygls_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert main(["language-server"]) == 1
    assert "pip install 'xdsl-spirv[editor]'" in capsys.readouterr().err
