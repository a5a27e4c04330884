"""`run` and `compile` cache programs, and reuse one only for the same request."""

from __future__ import annotations

from pathlib import Path

import pytest

from xdsl_spirv.tools import models
from xdsl_spirv.tools.main import main

MODULE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
    -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDSL_SPIRV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "WORTH_KEEPING", 0.0)
    path = tmp_path / "x.mlir"
    path.write_text(MODULE)
    return path


def ran(capsys: pytest.CaptureFixture[str], model: Path, *options: str) -> str:
    assert main(["run", str(model), "--random", "1", "--device", "interpreter", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    return next(line for line in lines if " for " in line and "dispatch" in line)


def test_a_second_run_reads_what_the_first_compiled(
    model: Path, capsys: pytest.CaptureFixture[str]
):
    assert ran(capsys, model, "--target", "lavapipe").startswith("compiled for lavapipe")
    assert ran(capsys, model, "--target", "lavapipe").startswith("read from the cache for lava")
    anew = ("--target", "lavapipe", "--no-cache")
    assert ran(capsys, model, *anew).startswith("compiled for")
    assert ran(capsys, model, "--target", "nvidia-h200").startswith("compiled for nvidia-h200")
    model.write_text(MODULE.replace("linalg.add", "linalg.mul"))
    assert ran(capsys, model, "--target", "lavapipe").startswith("compiled for")


def test_a_damaged_program_is_compiled_anew(model: Path, capsys: pytest.CaptureFixture[str]):
    ran(capsys, model, "--target", "lavapipe")
    (manifest,) = (model.parent / "cache").rglob("program.json")
    manifest.write_text("{")
    assert ran(capsys, model, "--target", "lavapipe").startswith("compiled for")


def test_files_beside_an_onnx_model_count(tmp_path: Path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (pip install '.[onnx]')")
    from xdsl_spirv.frontends.onnx_file import external_files

    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y)'
    proto = onnx.parser.parse_model(text + " <float[4] w = {1, 2, 3, 4}> { y = Mul(x, w) }")
    (tensor,) = proto.graph.initializer
    tensor.ClearField("float_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    onnx.save(proto, str(tmp_path / "x.onnx"))
    assert [file.name for file in external_files(tmp_path / "x.onnx")] == ["w.bin"]
