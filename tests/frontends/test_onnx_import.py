"""ONNX inputs keep names, types and values, and errors name the node."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.onnxruntime import differences, run_onnxruntime, tolerance_of
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.dialects.places import node_of
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.differential.onnx_graphs import assemble_model
from xdsl_spirv.testing.differential.onnx_judging import random_graph
from xdsl_spirv.tools.main import main

if TYPE_CHECKING:
    from onnx import ModelProto

    from tests.frontends.conftest import Builder

GENERATOR = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def convolution(build: Builder, weights: Array) -> ModelProto:
    """Returns a model: convolution, relu, mean over the image."""
    build.constant("w", weights)
    build.node("Conv", ["x:0", "w"], "c", pads=[1, 1, 1, 1], strides=[2, 2], name="first/conv")
    build.node("Relu", ["c"], "r")
    build.node("GlobalAveragePool", ["r"], "out:0")
    return build.model(
        {"x:0": ("FLOAT", ["n", 3, "h", "w"])}, {"out:0": ("FLOAT", ["n", len(weights), 1, 1])}
    )


def test_names_and_types_and_values_are_imported(build: Builder):
    weights = normal(16, 3, 5, 5)
    proto = convolution(build, weights)
    x = normal(2, 3, 12, 10)
    expected = run_onnxruntime(proto.SerializeToString(), {"x:0": x}, ["out:0"])
    model = import_onnx(proto, shapes={"x:0": x.shape})
    assert [str(v) for v in model.inputs] == ["x:0: 2x3x12x10xf32"]
    assert [str(v) for v in model.outputs] == ["out:0: 2x16x1x1xf32"]
    assert list(model.weights) == ["w"]
    assert np.array_equal(model.weights["w"], weights)
    assert "first/conv" in {node_of(op) for op in model.module.walk()}
    found = run_reference(model, {"x:0": x})
    tolerance = tolerance_of(model.module)
    assert tolerance.contractions == 1
    assert all(d.passed for d in differences(found, expected.results, tolerance))
    assert tolerance.relative < 1e-4


def test_small_constants_and_weights_do_not_pass_through_text(build: Builder):
    build.constant("big", normal(64, 64))
    build.constant("small", normal(64)[:4])
    build.node("MatMul", ["x", "big"], "y")
    build.node("Reshape", ["y", build.constant("shape", np.array([-1, 4]))], "z")
    build.node("Mul", ["z", "small"], "out")
    proto = build.model({"x": ("FLOAT", [2, 64])}, {"out": ("FLOAT", [32, 4])})
    model = import_onnx(proto)
    assert list(model.weights) == ["big"]
    assert len(str(model.module)) < 10_000


def test_data_in_other_files_is_mapped(onnx: ModuleType, build: Builder, tmp_path: Path):
    """Data of weights is memory-mapped, data of nodes is read."""
    weights, bias = normal(32, 32), normal(300)
    build.constant("w", weights)
    outside = onnx.numpy_helper.from_array(bias, "b")
    onnx.external_data_helper.set_external_data(outside, "b.bin", offset=0, length=bias.nbytes)
    outside.ClearField("raw_data")
    (tmp_path / "b.bin").write_bytes(bias.tobytes())
    build.node("Constant", [], "b", value=outside)
    build.node("ReduceSum", ["b"], "s", keepdims=0)
    build.node("MatMul", ["x", "w"], "y")
    build.node("Add", ["y", "s"], "out")
    proto = build.model({"x": ("FLOAT", [2, 32])}, {"out": ("FLOAT", [2, 32])})
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    model = import_onnx(path)
    assert isinstance(model.weights["w"].base, np.memmap)
    x = normal(2, 32)
    (found,) = run_reference(model, {"x": x}).values()
    assert np.allclose(found, x @ weights + bias.sum(), atol=1e-4)


def test_unsigned_stays_unsigned(build: Builder):
    build.node("Max", ["a", "b"], "out")
    kind = ("UINT8", [6])
    proto = build.model({"a": kind, "b": kind}, {"out": kind})
    model = import_onnx(proto)
    assert [v.type for v in (*model.inputs, *model.outputs)] == ["ui8"] * 3
    a, b = (np.array(x, np.uint8) for x in ([200, 3, 255, 0, 127, 128], [100, 4, 0, 1, 128, 127]))
    found = run_reference(model, {"a": a, "b": b})["out"]
    assert found.dtype == np.uint8
    assert found.tolist() == np.maximum(a, b).tolist()


def test_dynamic_dimensions_must_be_given(build: Builder):
    proto = convolution(build, normal(4, 3, 3, 3))
    with pytest.raises(FrontendError, match=r"dimensions n, h, w have no size.*dims=.*: N"):
        import_onnx(proto, {})
    with pytest.raises(FrontendError, match=r"no dimension 'batch' \(open dimensions: h, n"):
        import_onnx(proto, {"batch": 2})
    model = import_onnx(proto, {"n": 1, "h": 8, "x:0.3": 9})
    assert model.inputs[0].shape == (1, 3, 8, 9)
    with pytest.raises(FrontendError, match=r"fixes the dimension x:0.1 at 3, not 4"):
        import_onnx(proto, {"x:0.1": 4})


def unknown(build: Builder) -> ModelProto:
    """Returns the model with nodes of an unknown domain."""
    model = build.model({"x": ("FLOAT", [3])}, {"out": ("FLOAT", [3])})
    model.opset_import.append(build.onnx.helper.make_opsetid("somebody", 1))
    return model


@pytest.mark.parametrize("number", range(12))
def test_the_shape_of_an_output_is_inferred(number: int):
    """Outputs of random graphs have the shapes that onnxruntime computes."""
    pytest.importorskip("onnxruntime")
    _, graph = random_graph(5, number, ("several",))
    model = assemble_model([graph])
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    shapes = {output.name: output.shape for output in import_onnx(model).outputs}
    assert shapes == {name: graph.results[name].shape for name in graph.expected}


def test_a_constant_that_is_ragged_is_refused_by_name(build: Builder):
    build.node("Relu", ["x"], "y")
    model = build.model({"x": ("FLOAT", [2, 2])}, {"y": ("FLOAT", [2, 2])})
    with pytest.raises(FrontendError, match="the value of 'x' is invalid: "):
        import_onnx(model, constants={"x": [[1], [1, 2]]})


def test_an_unsupported_operator_is_named_with_its_node(build: Builder):
    build.node("Relu", ["x"], "r")
    build.node("Frobnicate", ["r"], "out", name="the/pool", domain="somebody")
    with pytest.raises(FrontendError, match=r"Frobnicate.*'somebody'.*node 'the/pool'"):
        import_onnx(unknown(build))


def test_nodes_without_names_get_names(build: Builder):
    build.node("Frobnicate", ["x"], "out", name="", domain="somebody")
    with pytest.raises(FrontendError, match="node 'Frobnicate_out'"):
        import_onnx(unknown(build))


def test_an_attribute_of_an_old_opset_is_refused_with_a_remedy(build: Builder):
    build.node("Add", ["x", "x"], "out", broadcast=1, axis=0)
    model = build.model({"x": ("FLOAT", [3])}, {"out": ("FLOAT", [3])})
    model.opset_import[0].version = 6
    with pytest.raises(FrontendError, match=r"'axis' is unknown.*Add.*convert.* opset 7"):
        import_onnx(model)


def test_an_invalid_model_is_refused_with_the_reason(build: Builder):
    build.node("Relu", ["nowhere"], "out")
    proto = build.model({"x": ("FLOAT", [3])}, {"out": ("FLOAT", [3])})
    with pytest.raises(FrontendError, match=r"not valid: .*nowhere"):
        import_onnx(proto)


def test_types_without_buffers_are_refused(build: Builder):
    build.node("Identity", ["x"], "out")
    proto = build.model({"x": ("STRING", [3])}, {"out": ("STRING", [3])})
    with pytest.raises(FrontendError, match=r"elements of the type string are .* \(input 'x'"):
        import_onnx(proto)


@pytest.mark.parametrize(
    ("operator", "inputs", "given"),
    [
        ("Cast", ["x"], {"to": 8}),
        ("Constant", [], {"value_string": "a"}),
        ("Constant", [], {"value_strings": ["a", "b"]}),
    ],
)
def test_an_operator_that_makes_text_is_named(
    operator: str, inputs: list[str], given: dict[str, Any], build: Builder
):
    build.node(operator, inputs, "s", **given)
    build.node("Size", ["s"], "out")
    proto = build.model({"x": ("FLOAT", [3])}, {"out": ("INT64", [])})
    with pytest.raises(FrontendError, match=rf"{operator}: .*(string|text).*operator {operator}"):
        import_onnx(proto)


BROKEN: dict[str, bytes] = {
    "text": b"this is not a model",
    "empty": b"",
    "bytes": bytes(range(256)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(
    name: str, onnx: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.onnx"
    path.write_bytes(BROKEN[name])
    command = ["compile", str(path), "--target", "lavapipe", "-o", str(tmp_path / "out")]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert str(path) in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_refused(
    onnx: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["run", str(tmp_path / "none.onnx")]) == 1
    assert "error: cannot read the model: the file does not exist" in capsys.readouterr().err


def test_run_compares_with_onnxruntime(
    build: Builder, onnx: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.onnx"
    onnx.save(convolution(build, normal(4, 3, 3, 3)), path)
    np.save(tmp_path / "x.npy", normal(1, 3, 8, 8))
    command = ["run", str(path), "--device", "reference", "--input", f"x:0={tmp_path / 'x.npy'}"]
    assert main([*command, "-o", str(tmp_path / "y.npz")]) == 0
    said = capsys.readouterr().out
    assert "compared with onnxruntime" in said
    assert "out:0: max abs error" in said
    assert np.load(tmp_path / "y.npz")["out:0"].shape == (1, 4, 1, 1)


def test_a_wrong_result_fails(build: Builder):
    proto = convolution(build, normal(4, 3, 3, 3))
    x = normal(1, 3, 8, 8)
    expected = run_onnxruntime(proto.SerializeToString(), {"x:0": x}, ["out:0"]).results
    model = import_onnx(proto, shapes={"x:0": x.shape})
    found = run_reference(model, {"x:0": x})
    found["out:0"][0, 1] += 1e-3
    assert not differences(found, expected, tolerance_of(model.module))[0].passed


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    path = tmp_path / "x.onnx"
    path.write_bytes(b"")
    with pytest.raises(FrontendError, match=r"onnx is not installed; pip install 'xdsl-spirv\["):
        import_onnx(path)
