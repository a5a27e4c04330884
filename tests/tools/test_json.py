"""`--json` prints exactly one object to standard output, or nothing after an error."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.jobs.job import Job, Result
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.testing.reports import json_and_text, missing_figures
from xdsl_spirv.tools.main import COMMANDS, main
from xdsl_spirv.tools.report import plain

EXP = """
func.func @main(%x: tensor<4xf32> {program.name = "x"}) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    (folder / "x.mlir").write_text(EXP)
    return folder


@pytest.fixture
def said(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`said(command)` returns the object that a command prints."""
    monkeypatch.chdir(folder)

    def run(command: str, status: int = 0) -> Any:
        assert main(command.split()) == status
        return json.loads(capsys.readouterr().out)

    return run


def test_a_program(said: Any):
    (dispatch,) = said("compile x.mlir --target lavapipe -o p --json")["dispatches"]
    assert dispatch["grid"][1:] == [1, 1]
    listed = said("run p --list --json")
    assert listed["target"] == "lavapipe"
    assert listed["requires"]["vulkan"] == "1.3"
    assert [(v["kind"], v["name"], v["type"], v["shape"]) for v in listed["values"]] == [
        ("input", "x", "f32", [4]),
        ("output", "result0", "f32", [4]),
    ]
    found = said("run p --random 0 --device interpreter --check --json")
    (result,) = found["results"]
    assert (result["name"], result["shape"], result["type"]) == ("result0", [4], "float32")
    (comparison,) = found["comparisons"]
    assert comparison["passed"]
    kernel = next(Path("p/kernels").glob("*.spv"))
    assert said(f"validate {kernel} --json") == {"findings": []}


def test_passes(said: Any):
    found = said("check-passes x.mlir -p fold-constants,form-dispatches --inputs 1 --json")
    assert found["inputs"] == 1
    changed = {row["pass"]: row["changed"] for row in found["passes"]}
    assert changed == {"fold-constants": False, "form-dispatches": True}
    assert found["finding"] is None


def test_interpreted_results(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    found, text = json_and_text("interpret", "x.mlir", "--random", "0", "--check", "all")
    (result,) = found["results"]
    assert (result["name"], result["shape"], result["type"]) == ("result0", [4], "float32")
    assert 0 < result["least"] < result["mean"] < result["greatest"]
    assert found["findings"] == found["allowed"] == []
    assert not missing_figures(text, found)


def test_a_debugger_prints_no_json(folder: Path, capsys: pytest.CaptureFixture[str]):
    words = ["interpret", str(folder / "x.mlir"), "--random", "0", "--break", "%y", "--json"]
    assert main(words) == 1
    assert "the debugger cannot print JSON" in capsys.readouterr().err


def test_explained_layers(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    found = json_and_text_of_explain("x.mlir")
    (layer,) = found["layers"]
    assert layer["layer"]["path"] == "loops"
    assert found["schema"] == "xdsl-spirv-explanation"


def json_and_text_of_explain(path: str) -> Any:
    """Returns the JSON of `explain`, after comparing the text's rows with it."""
    words = ["explain", path, "--target", "nvidia-h200"]
    texts: list[str] = []
    for option in ((), ("--json",)):
        printed = io.StringIO()
        with redirect_stdout(printed):
            assert main([*words, *option]) == 0
        texts.append(printed.getvalue())
    found = json.loads(texts[1])
    rows = re.findall(r"^(\d+)  (\S+) .*?(\d+x\d+x\d+) ", texts[0], re.MULTILINE)
    expected = [
        (str(row["dispatch"]), row["layer"]["path"], "x".join(map(str, row["grid"])))
        for row in found["layers"]
    ]
    assert rows == expected
    return found


def test_counts_of_a_store(tmp_path: Path):
    with Store(tmp_path / "s.db") as store:
        for number in range(3):
            result = Result("ok" if number else "wrong", {}, "is odd", device="d", driver="1")
            store.add(Job("nothing", {"number": number}), result)
    found, text = json_and_text("results", str(tmp_path / "s.db"), "--failures")
    assert {row["status"]: row["count"] for row in found["counts"]} == {"ok": 2, "wrong": 1}
    assert [(row["status"], row["cause"]) for row in found["failures"]] == [("wrong", "is odd")]
    assert not missing_figures(text, found)


WITHOUT_FIGURES = {
    "worker", "translate", "disassemble", "assemble", "completion", "opt", "serve", "debug",
    "language-server", "reduce",
}  # fmt: skip
"""Commands without a JSON object: they write files or other formats."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_FIGURES))
def test_every_command_with_figures_has_json(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "--json " in capsys.readouterr().out


def test_an_error_prints_no_object(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["run", str(folder / "none"), "--random", "0", "--json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")


def test_values_are_json():
    kinds = [
        np.float32(1),
        np.int64(2),
        float("nan"),
        float("inf"),
        Path("x"),
        (1, "a"),
        {"k": None},
    ]
    assert plain(kinds) == [1.0, 2, None, None, "x", [1, "a"], {"k": None}]
