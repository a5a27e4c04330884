"""Outputs that cannot be written are refused before anything is read or computed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.runtime import ProgramError, run
from xdsl_spirv.tools.arrays import npz_bytes
from xdsl_spirv.tools.main import main

COMMANDS = {
    "run": "run none --random 1 -o {}",
    "run, states": "run none --random 1 --save-state {}",
    "interpret": "interpret none.mlir --random 1 -o {}",
    "check-passes": "check-passes none.mlir -p fold-constants -o {}",
    "explain": "explain none.mlir --target lavapipe -o {}",
    "translate": "translate none.mlir -o {}",
    "assemble": "assemble none.spvasm -o {}",
    "disassemble": "disassemble none.spv -o {}",
    "compile": "compile none.mlir --target lavapipe -o {}",
}

PLACES = {
    "no/x": "No such file or directory",
    "file/x": "Not a directory",
    ".": "Is a directory",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
def test_impossible_outputs_are_refused(
    command: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command == "compile" and place != "file/x":
        # The command creates folders, and replaces an empty one.
        return
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert main(COMMANDS[command].format(place).split()) == 1
    said = capsys.readouterr().err
    assert PLACES[place] in said
    assert said.startswith("error: cannot write the ")
    assert said.count("\n") == 1
    assert os.listdir(tmp_path) == ["file"]


def test_an_output_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The tests may run as the superuser, who may write anywhere.
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK)  # pyright: ignore
    assert main(["translate", "none.mlir", "-o", str(tmp_path / "x.spv")]) == 3
    assert "Permission denied" in capsys.readouterr().err


def test_outputs_may_be_standard_output_and_devices(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    for place in ("-", "/dev/null"):
        assert main(["translate", "none.mlir", "-o", place]) == 1
        assert b"cannot read the input" in capsysbinary.readouterr().err


def test_check_passes_needs_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-passes", "none.mlir", "-p", "fold-constants", "--inputs", "0"]) == 1
    assert "--inputs 0 would compare nothing" in capsys.readouterr().err


NAMES = ("file", "allow_pickle", "args", "kwds", "a/b", "../x", "é" * 50, "a\nb", "y" * 70_000)


def test_outputs_may_have_any_name(tmp_path: Path) -> None:
    arrays = {name: np.full(2, number) for number, name in enumerate(NAMES)}
    (tmp_path / "r.npz").write_bytes(npz_bytes(arrays))
    with np.load(tmp_path / "r.npz") as loaded:
        for name, array in arrays.items():
            key = next(k for k in loaded if k == name or k.startswith(name[:1000] + "-"))
            assert np.array_equal(loaded[key], array)


BLOCKS = """
func.func @main(%c: i1, %x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %r = linalg.matmul ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>)
    outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  cf.br ^bb3(%r : tensor<4x4xf32>)
^bb2:
  %s = linalg.add ins(%x, %y : tensor<4x4xf32>, tensor<4x4xf32>)
    outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  cf.br ^bb3(%s : tensor<4x4xf32>)
^bb3(%t: tensor<4x4xf32>):
  func.return %t : tensor<4x4xf32>
}
func.func private @other(tensor<4xf32>)
"""


def test_every_pass_on_a_function_of_several_blocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pass succeeds or refuses with the function's name."""
    from xdsl_spirv.universe import UNIVERSE

    (tmp_path / "x.mlir").write_text(BLOCKS)
    refused = 0
    for name in sorted(UNIVERSE.all_passes):
        status = main(["opt", str(tmp_path / "x.mlir"), "-p", name])
        said = capsys.readouterr().err
        assert status in (0, 1), f"{name}: {said}"
        refused += "@main has 4 blocks, but a program function has one" in said
    assert refused > 5


def test_an_error_of_a_program_names_no_hidden_file(tmp_path: Path) -> None:
    from xdsl_spirv.compiler import compile_module
    from xdsl_spirv.runtime.modules import parse_text

    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    program = compile_module(parse_text(text), "lavapipe")
    assert np.array_equal(run(program, {"x": np.ones(4, np.float32)})["result0"], np.ones(4))
    with pytest.raises(ProgramError) as raised:
        program.save(tmp_path / "p" / ("x" * 300))
    assert "/.x" not in str(raised.value)
    assert not list((tmp_path / "p").iterdir())
