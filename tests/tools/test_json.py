"""`--json`: one object on standard output, and nothing else, whatever a command finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.tools.main import main
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
    """`said(command)`: the object that a command prints."""
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
    found = said("check-passes x.mlir -p fold-constants --inputs 1 --json")
    assert found["inputs"] == 1
    assert [row["pass"] for row in found["passes"]] == ["fold-constants"]
    assert found["finding"] is None


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
