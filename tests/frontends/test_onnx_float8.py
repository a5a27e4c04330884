"""Products with weights in 8-bit floats are packed and give onnxruntime's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
evaluating = pytest.importorskip("onnx.reference")
helper = onnx.helper

FLOATS = {
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
}
K, N = 96, 172


def model(
    name: str, dequantizes: bool, scale: Any = None, size: int = 0, axis: int = 1
) -> ModelProto:
    """Returns a product of `x` and constant weights, which are cast to f32 or dequantized."""
    random = np.random.default_rng(len(name))
    weights = random.normal(0, 1, (K, N)).astype(FLOATS[name])
    constants = [onnx.numpy_helper.from_array(weights, "w")]
    node = helper.make_node("Cast", ["w"], ["f"], to=onnx.TensorProto.FLOAT)
    if dequantizes:
        options = {"block_size": size} if size else {}
        constants.append(onnx.numpy_helper.from_array(np.float32(scale), "s"))
        node = helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=axis, **options)
    graph = helper.make_graph(
        [node, helper.make_node("MatMul", ["x", "f"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["m", K])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["m", N])],
        constants,
    )
    opset = [helper.make_opsetid("", 23)]
    return helper.make_model(graph, opset_imports=opset, ir_version=11)


def judge(proto: ModelProto, x: Array) -> Array:
    """Returns the results of onnxruntime, or of onnx's evaluator if onnxruntime lacks the type."""
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString())
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        session = evaluating.ReferenceEvaluator(proto)
    return session.run(None, {"x": x})[0]


BLOCKED = np.random.default_rng(1).uniform(0.5, 2, (K // 16, N))
CASES = [
    ("FLOAT8E4M3FN", {"dequantizes": False}),
    ("FLOAT8E5M2", {"dequantizes": True, "scale": 0.25}),
    ("FLOAT8E4M3FN", {"dequantizes": True, "scale": np.linspace(0.5, 2, N)}),
    ("FLOAT4E2M1", {"dequantizes": True, "scale": BLOCKED, "size": 16, "axis": 0}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize(("target", "rows"), [("lavapipe", 1), ("nvidia-h200", 33)])
def test_weights_stay_packed(name: str, options: Any, target: str, rows: int) -> None:
    proto = model(name, **options)
    program = compile_model(import_onnx(proto, dims={"m": rows}), target)
    weights = {b.name: b.bytes for b in program.manifest.buffers if b.kind == "weight"}
    bits = 4 if name == "FLOAT4E2M1" else 8
    scales = np.size(options.get("scale", [])) if np.ndim(options.get("scale", 0)) else N
    assert sum(weights.values()) <= K * N * bits // 8 + 4 * scales
    assert len(program.manifest.dispatches) == 1
    x = np.random.default_rng(rows).normal(0, 1, (rows, K)).astype(np.float32)
    bound = 2.0**-9 if target == "nvidia-h200" else 2.0**-20
    wanted = judge(proto, x)
    result = program(x, device="interpreter")
    np.testing.assert_allclose(result, wanted, atol=bound * abs(wanted).max() * 4)
