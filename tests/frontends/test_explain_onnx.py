"""`explain` shows how each node of an ONNX file is compiled, even if the import fails."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from onnx import ModelProto

    from tests.frontends.conftest import Builder


def explained(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> Any:
    assert main(["explain", *arguments, "--target", "lavapipe", "--format", "json"]) == status
    return json.loads(capsys.readouterr().out)


def saved(onnx: ModuleType, model: ModelProto, tmp_path: Path) -> str:
    path = str(tmp_path / "model.onnx")
    onnx.save(model, path)
    return path


def weights(rng: np.random.Generator) -> Array:
    return rng.standard_normal((16, 16)).astype(np.float32)


def test_nodes_and_the_layers_that_compute_them(
    onnx: ModuleType, build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    build.constant("w", weights(np.random.default_rng(0)))
    build.node("MatMul", ["x", "w"], "y", name="first")
    build.node("Relu", ["y"], "z", name="act")
    build.node("Softmax", ["z"], "s", name="soft", axis=1)
    model = build.model({"x": ("FLOAT", ["batch", 16])}, {"s": ("FLOAT", ["batch", 16])})
    path = saved(onnx, model, tmp_path)
    found = explained(capsys, 0, path, "--dim", "batch=4")
    assert [(n["node"], n["status"], n["dispatches"]) for n in found["nodes"]] == [
        ("first", "kernel", [0]),
        ("act", "kernel", [0]),
        ("soft", "kernel", [1]),
    ]
    assert found["layers"][0]["layer"]["operators"] == ["MatMul", "Relu"]
    assert main(["explain", path, "--target", "lavapipe"]) == 1
    assert "give --dim batch=N" in capsys.readouterr().err


def test_a_dispatch_that_transposes_a_weight_belongs_to_the_node_that_reads_it(
    onnx: ModuleType, build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for name, *shape in (("w1", 32, 3, 3, 3), ("w2", 32, 1, 5, 5), ("w3", 64, 32, 3, 3)):
        build.constant(name, np.ones(shape, np.float32))
    build.node("Conv", ["x", "w1"], "a", name="stem", pads=[1] * 4, strides=[2, 2])
    build.node("Conv", ["a", "w2"], "b", name="depthwise", pads=[2] * 4, group=32)
    build.node("Conv", ["b", "w3"], "c", name="last", pads=[1] * 4, strides=[2, 2])
    model = build.model({"x": ("FLOAT", [1, 3, 64, 64])}, {"c": ("FLOAT", [1, 64, 16, 16])})
    path = saved(onnx, model, tmp_path)
    assert main(["explain", path, "--target", "nvidia-h200", "--format", "json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    turned = {"w1": "stem", "w3": "last"}
    assert {e["reads"][0]: e["layer"]["nodes"] for e in layers if e["once"]} == {
        weight: [node] for weight, node in turned.items()
    }
    assert [e["layer"]["nodes"] for e in layers if not e["once"]] == [
        ["stem"],
        ["depthwise"],
        ["last"],
    ]


def test_nodes_without_a_kernel_are_explained(
    onnx: ModuleType, build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rng = np.random.default_rng(0)
    build.constant("w", rng.standard_normal((8, 3, 1, 1)).astype(np.float32))
    for name in ("scale", "shift", "mean", "variance"):
        build.constant(name, rng.uniform(0.5, 1, 8).astype(np.float32))
    build.constant("half", np.full(1, 0.5, np.float32))
    build.node("Conv", ["x", "w"], "c", name="conv")
    norm = ["c", "scale", "shift", "mean", "variance"]
    build.node("BatchNormalization", norm, "n", name="norm")
    build.node("Dropout", ["n"], "d", name="drop")
    build.node("Shape", ["d"], "size", name="shape")
    build.node("Reshape", ["d", "size"], "r", name="reshape")
    build.node("Sqrt", ["half"], "root", name="root")
    build.node("Mul", ["r", "root"], "y", name="scaled")
    shape = ("FLOAT", [1, 3, 4, 4])
    model = build.model({"x": shape}, {"y": ("FLOAT", [1, 8, 4, 4])})
    path = saved(onnx, model, tmp_path)
    found = explained(capsys, 0, path)
    statuses = {n["node"]: n["status"] for n in found["nodes"]}
    assert statuses == {
        "conv": "kernel",
        "norm": "kernel",
        "drop": "no kernel",
        "shape": "folded",
        "reshape": "no kernel",
        "root": "folded",
        "scaled": "kernel",
    }
    assert {tuple(n["dispatches"]) for n in found["nodes"] if n["status"] == "kernel"} == {(0,)}
    assert main(["explain", path, "--target", "lavapipe"]) == 0
    text = capsys.readouterr().out
    assert "without a separate kernel: 1 Dropout, 1 Reshape" in text
    assert "folded at compile time: 1 Shape, 1 Sqrt" in text


def test_all_refused_nodes_and_the_nodes_after_them_are_listed(
    onnx: ModuleType, build: Builder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    build.constant("w", weights(np.random.default_rng(0)))
    build.node("MatMul", ["x", "w"], "y", name="good")
    build.constant("p", np.array([0, 0, 1, 1]))
    build.node("Pad", ["y", "p"], "s", name="culprit", mode="around")
    build.node("Relu", ["s"], "r", name="behind")
    build.node("Frobnicate", ["r"], "f", name="unknown", domain="somebody")
    build.node("Neg", ["f"], "out", name="lost")
    model = build.model({"x": ("FLOAT", [16, 16])}, {"out": ("FLOAT", ["n"])})
    model.opset_import.append(onnx.helper.make_opsetid("somebody", 1))
    found = explained(capsys, 1, saved(onnx, model, tmp_path))
    assert [n["status"] for n in found["nodes"]] == [
        "supported",
        "not supported",
        "supported",
        "not supported",
        "not tried",
    ]
    assert "'around'" in found["nodes"][1]["reason"]
    assert "'somebody'" in found["nodes"][3]["reason"]
