"""`xdsl-spirv convert` writes valid models in other types, and reports the numeric errors."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.testing.reports import json_and_text, missing_figures
from xdsl_spirv.tools.main import main

onnx: ModuleType = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a small perceptron and samples of its inputs."""
    made = tmp_path_factory.mktemp("convert")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    weights = {
        "w0": RNG.uniform(-0.3, 0.3, (32, 48)).astype(np.float32),
        "b0": RNG.uniform(-0.3, 0.3, (48,)).astype(np.float32),
        "w1": RNG.uniform(-0.3, 0.3, (48, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "first"),
        helper.make_node("Add", ["a", "b0"], ["c"], "bias"),
        helper.make_node("Relu", ["c"], ["d"], "relu"),
        helper.make_node("MatMul", ["d", "w1"], ["y"], "second"),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", float32, ["batch", 32])],
        [helper.make_tensor_value_info("y", float32, ["batch", 8])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, made / "model.onnx")
    (made / "samples").mkdir()
    for number in range(4):
        x = RNG.uniform(-1, 1, (4, 32)).astype(np.float32)
        np.savez(made / "samples" / f"{number}.npz", x=x)
    return made


@pytest.mark.parametrize(
    ("options", "operator", "cosine"),
    [
        (("--to", "f16", "--dim", "batch=4"), "Cast", 0.9999),
        (("--to", "f16", "--all", "--calibration", "samples"), None, 0.9999),
        (("--to", "int8", "--calibration", "samples"), "QuantizeLinear", 0.98),
        (("--to", "int8", "--dynamic", "--dim", "batch=4"), "MatMulInteger", 0.98),
    ],
)
def test_a_model_is_converted(
    options: tuple[str, ...],
    operator: str | None,
    cosine: float,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    if "f16" in options:
        pytest.importorskip("onnxconverter_common")
    monkeypatch.chdir(folder)
    found, said = json_and_text("convert", "model.onnx", *options, "-o", "new.onnx")
    assert found["output"] == "new.onnx"
    assert [result["name"] for result in found["results"]] == ["y"]
    assert not missing_figures(said, found)
    (shown,) = re.findall(r"^output y .*cosine ([\d.]+)$", said, re.MULTILINE)
    assert float(shown) >= cosine
    converted = onnx.load("new.onnx")
    kinds = {node.op_type for node in converted.graph.node}
    assert operator is None or operator in kinds
    inner = onnx.TensorProto.FLOAT16 if "f16" in options else onnx.TensorProto.INT8
    assert any(weight.data_type == inner for weight in converted.graph.initializer)
    x = np.load("samples/0.npz")["x"]
    weights = {
        w.name: onnx.numpy_helper.to_array(w) for w in onnx.load("model.onnx").graph.initializer
    }
    wanted = np.maximum(x @ weights["w0"] + weights["b0"], 0) @ weights["w1"]
    given = x.astype(np.float16) if "--all" in options else x
    got = compile("new.onnx", "lavapipe", dims={"batch": 4})(given).astype(np.float64)
    assert float((got * wanted).sum() / np.linalg.norm(got) / np.linalg.norm(wanted)) >= cosine


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--to", "int8"), "needs samples of the model"),
        (("--to", "int8", "--calibration", "nowhere"), "the folder has no .npz files"),
        (
            ("--to", "int8", "--dynamic", "--calibration", "samples"),
            "leave out --dynamic or --calibration",
        ),
        (("--to", "f16"), "dynamic sizes"),
        (("--to", "f16", "--dim", "bath=4"), "no dimension 'bath'"),
    ],
)
def test_missing_inputs_are_reported_and_nothing_is_written(
    options: tuple[str, ...],
    cause: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(folder)
    assert main(["convert", "model.onnx", *options, "-o", "none.onnx"]) == 1
    assert cause in capsys.readouterr().err
    assert not Path("none.onnx").exists()


def test_a_model_that_leaves_the_range_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("onnxconverter_common")
    monkeypatch.chdir(folder)
    model = onnx.load("model.onnx")
    (first,) = (w for w in model.graph.initializer if w.name == "w0")
    first.CopyFrom(onnx.numpy_helper.from_array(np.full((32, 48), 3e4, np.float32), "w0"))
    onnx.save(model, "large.onnx")
    np.savez("large.npz", x=np.ones((4, 32), np.float32))
    Path("ones").mkdir(exist_ok=True)
    Path("large.npz").rename("ones/0.npz")
    words = ["convert", "large.onnx", "--to", "f16", "--calibration", "ones", "-o", "none.onnx"]
    assert main(words) == 1
    assert "is not finite" in capsys.readouterr().err
    assert not Path("none.onnx").exists()


def test_explain_advises_to_convert(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(folder)
    words = ["explain", "model.onnx", "--target", "nvidia-h200", "--dim", "batch=256"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert (
        "advice: 1 of 2 products multiply f32 on the path fma, because nvidia-h200 has no" in said
    )
    assert "xdsl-spirv convert model.onnx --to f16 --dim batch=256 -o half.onnx" in said
    assert main(["explain", "model.onnx", "--target", "qualcomm-adreno", "--dim", "batch=4"]) == 0
    assert "advice" not in capsys.readouterr().out
