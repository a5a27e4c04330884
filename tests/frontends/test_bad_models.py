"""A user's mistake with a model gives one message with the cause, and no output is written."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from tests.frontends.conftest import Builder


@pytest.fixture
def mlp(onnx: ModuleType, build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes a model with an input `x` of batch x 16 to the working directory."""
    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    build.constant("w", weights)
    build.node("MatMul", ["x", "w"], "y", name="product")
    build.node("Relu", ["y"], "z", name="act")
    model = build.model({"x": ("FLOAT", ["batch", 16])}, {"z": ("FLOAT", ["batch", 16])})
    onnx.save(model, "mlp.onnx")
    for name, array in {
        "good": np.zeros((4, 16), np.float32),
        "wide": np.zeros((4, 17), np.float32),
        "double": np.zeros((4, 16), np.float64),
        "flat": np.zeros(16, np.float32),
    }.items():
        np.save(f"{name}.npy", array)
    Path("text.npy").write_text("no array")
    return "mlp.onnx"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs a command, which must fail and write no files. Returns the error message."""
    before = sorted(map(str, Path().iterdir()))
    assert main(list(arguments)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said
    assert sorted(map(str, Path().iterdir())) == before
    return said


def late(given: list[str], message: str) -> object:
    """Returns the parameters of a fault that is found after the import, for `make test-long`."""
    return pytest.param(given, message, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "give --dim batch=N"),
        (["--dim", "btach=4"], "no dimension 'btach' (open dimensions: batch"),
        (["--dim", "batch=many"], "write --dim NAME=SIZE"),
        (["--dim", "x.1=17", "--dim", "batch=4"], "fixes the dimension x.1 at 16, not 17"),
        late(
            ["--dim", "batch=4", "--input", "y=good.npy"],
            "no input 'y' (inputs: x: 4x16xf32",
        ),
        (["--dim", "batch=4", "--input", "x=none.npy"], "none.npy"),
        (["--input", "x=text.npy"], "not a numpy array"),
        late(["--input", "x=wide.npy"], "16"),
        (["--input", "x=flat.npy"], "2 dimensions, but the given shape has 1"),
        late(["--input", "x=double.npy"], ".astype('float32')"),
        late(["--dim", "batch=8", "--input", "x=good.npy"], "reshape it to 8x16"),
        (["--dim", "batch=4", "--target", "gpu"], "known targets are"),
        (["--dim", "batch=4", "--device", "tpu"], "tpu"),
        (["--dim", "batch=4", "--only", "fma"], "write --only"),
        late(["--dim", "batch=4", "--except", "fma=nobody"], "layers: product, act"),
        (["--dim", "batch=100000000000"], "the input 'x' is too large: 100000000000x16xf32"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_options_are_refused_with_one_message(
    given: list[str], message: str, mlp: str, capsys: pytest.CaptureFixture[str]
):
    assert message in refused(capsys, "run", mlp, *given)


@pytest.mark.parametrize("command", ["run", "compile", "explain"])
def test_files_that_are_not_models_are_refused(
    command: str, mlp: str, capsys: pytest.CaptureFixture[str]
):
    rest = [] if command == "run" else ["--target", "lavapipe"]
    rest += ["-o", "out"] if command == "compile" else []
    data = Path(mlp).read_bytes()
    Path("half.onnx").write_bytes(data[: len(data) // 2])
    Path("text.onnx").write_text("a model")
    Path("empty.onnx").write_bytes(b"")
    for name in ("half.onnx", "text.onnx", "empty.onnx", "none.onnx"):
        assert name in refused(capsys, command, name, *rest)


def test_unknown_operators_are_refused(
    onnx: ModuleType, build: Builder, mlp: str, capsys: pytest.CaptureFixture[str]
):
    build.nodes.clear()
    build.node("MatMul", ["x", "w"], "y", name="product")
    node = build.node("Frobnicate", ["y"], "z", name="mystery")
    assert node == "z"
    build.nodes[-1].domain = "somebody"
    model = build.model({"x": ("FLOAT", [4, 16])}, {"z": ("FLOAT", [4, 16])})
    model.opset_import.append(onnx.helper.make_opsetid("somebody", 1))
    onnx.save(model, "custom.onnx")
    for command in (["run"], ["compile", "--target", "lavapipe", "-o", "out"]):
        said = refused(capsys, command[0], "custom.onnx", *command[1:])
        assert "mystery" in said
        assert "Frobnicate" in said


def test_a_compiled_model_checks_its_inputs(mlp: str, capsys: pytest.CaptureFixture[str]):
    compiled = ["compile", mlp, "--dim", "batch=4", "--target", "lavapipe", "-o", "out"]
    assert main(compiled) == 0
    capsys.readouterr()
    assert "--input x=x.npy" in refused(capsys, "run", "out")
    assert "reshape it to 4x16" in refused(capsys, "run", "out", "--input", "x=wide.npy")
    assert "float32" in refused(capsys, "run", "out", "--input", "x=double.npy")
    Path("out/kernels").rename("elsewhere")
    assert "cannot be read" in refused(capsys, "run", "out", "--input", "x=good.npy")
