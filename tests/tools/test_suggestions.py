"""Misspelled names get a suggestion in a uniform way."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.speech import as_command, did_you_mean, spoken
from xdsl_spirv.targets import TargetError, load
from xdsl_spirv.tools.main import main

EXP = """
func.func @main(%image: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.exp ins(%image : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile(parse_text(EXP), "lavapipe")


@pytest.fixture
def folder(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("image.mlir").write_text(EXP)
    np.save("image.npy", np.zeros(4, np.float32))
    program.save("program")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("compil x", "'compile'"),
        ("compile image.mlr --target lavapipe -o out", "'image.mlir'"),
        ("compile image.mlir --target lavapip -o out", "'lavapipe'"),
        ("compile image.mlir --target h200 -o out", "'nvidia-h200'"),
        ("compile image.mlir --targt lavapipe -o out", "--targt is not an option: .*'--target'"),
        ("compile image.mlir --target lavapipe -o out --tekst", "'--text'"),
        ("compile image.mlir --target lavapipe -o out --function man", "'main'"),
        ("compile image.mlir --target lavapipe -o out --only dto=x", "'dot'"),
        ("explain image.mlir --target lavapipe --sort shar", "'share'"),
        ("run program --device intepreter --random 0", "'interpreter'"),
        ("run program --device vulcan:0 --random 0", "'vulkan'"),
        ("run program --input imagee=image.npy", "'image'"),
        ("run program --input image=imag.npy", "'image.npy'"),
        ("run progrm --random 0", "'program'"),
        ("run program --function mian --random 0", "'main'"),
        ("translate image.mlir -p asign-schedule -o x.spv", "'assign-schedule'"),
        ("validate image.spv --target-env vulkan13", "'vulkan1.3'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_likely_name_is_suggested(command: str, said: str, capsys: pytest.CaptureFixture[str]):
    try:
        status = main(command.split())
    except SystemExit as end:
        status = end.code
    assert status in (1, 2)
    text = capsys.readouterr().err
    assert "did you mean" in text

    assert re.search(said, text.partition("did you mean")[2] if "--" not in said else text)


def test_nothing_is_suggested_for_unlike_names():
    assert did_you_mean("zebra", ["lavapipe", "nvidia-h200"], "name one") == "name one"
    assert did_you_mean("Lavapipe", ["lavapipe"]) == "did you mean 'lavapipe'?"
    assert did_you_mean("ad", ["nvidia-ada"], "name one") == "name one"


SPOKEN = [
    ("give --dim n=N --dim h=N", 'give dims={"n": N, "h": N}'),
    ("write --dim NAME=SIZE, or --dim A.0=?", 'write dims={"NAME": SIZE, "A.0": ?}'),
    ("--dim is for ONNX files", "dims is for ONNX files"),
    ("name the pairs: --state a=b", 'name the pairs: state={"a": "b"}'),
    ("give --input x=x.npy", "give x=array"),
    ("run it with --device interpreter", 'run it with device="interpreter"'),
    ("so many tokens: --context N", "so many tokens: context=N"),
    ("or give --weights", "or give weights"),
    ("see `xdsl-spirv devices --write-target FILE`", None),
]


@pytest.mark.parametrize(("command", "python"), SPOKEN)
def test_errors_in_python_name_arguments(command: str, python: str | None):
    assert spoken(command) == (python or command)
    with as_command():
        assert spoken(command) == command


def test_errors_name_arguments_or_options(program: Program, tmp_path: Path):
    with pytest.raises(ProgramError, match="give image=array"):
        program()
    with pytest.raises(TargetError, match="did you mean 'lavapipe'"):
        load("lavapip")
    model = tmp_path / "x.mlir"
    model.write_text(EXP)
    error = FrontendError("open", "", "write --dim NAME=SIZE")
    assert str(error).endswith('write dims={"NAME": SIZE}')
    with as_command():
        assert str(error).endswith("write --dim NAME=SIZE")


@pytest.mark.parametrize("how", ["call", "run", "session"])
def test_lists_are_accepted_as_arrays(program: Program, how: str):
    from xdsl_spirv.runtime import run

    given = {"image": [0, 1, 2, 3]}
    if how == "call":
        result = program(given["image"], device="interpreter")
    elif how == "run":
        (result,) = run(program, given).values()
    else:
        (result,) = program.session().run(None, given).values()
    np.testing.assert_allclose(result, np.exp(np.arange(4)), 1e-5)
    with pytest.raises(ProgramError, match="the value given does not fit"):
        program([[0, 1], [2]], device="interpreter")


def test_without_a_device_python_runs_where_the_command_does(
    program: Program, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDSL_SPIRV_DEVICE", "vulcan")
    with pytest.raises(ProgramError, match="there is no device 'vulcan'; did you mean 'vulkan'"):
        program([0.0] * 4)
    monkeypatch.setenv("XDSL_SPIRV_DEVICE", "interpreter")
    assert program([0.0] * 4).tolist() == [1.0] * 4


def test_unknown_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = EXP.replace("4xf32", "?xf32").replace("empty()", "empty(%n)")
    sizes = "%z = arith.constant 0 : index\n%n = tensor.dim %image, %z : tensor<?xf32>\n"
    named = '{program.name = "image", program.sizes = ["batch"]}'
    text = text.replace("  %e =", f"  {sizes}  %e =")
    text = text.replace("%image: tensor<?xf32>", f"%image: tensor<?xf32> {named}")
    compile(parse_text(text), "lavapipe").save(tmp_path / "p")
    assert main(["run", str(tmp_path / "p"), "--random", "0", "--dim", "bach=3"]) == 1
    said = "there is no size 'bach' (sizes: batch); did you mean 'batch'?"
    assert said in capsys.readouterr().err
