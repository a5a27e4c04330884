"""Operators on empty tensors give onnxruntime's results, as imported and compiled."""

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime.execution import run

onnx = pytest.importorskip("onnx")
WEIGHTS = """
    <int64[1] one = {1}, int64[1] zero = {0}, int64[0] none = {}, int64[2] rows = {0, -1},
     int64[3] wide = {2, 2, 3}, int64[6] pads = {0, 1, 0, 0, 1, 0}, int64[2] no_rows = {0, 1},
     int64[2] parts = {0, 3}, float[3] ones = {1, 1, 1}, float[4] twice = {1, 1, 2, 2},
     float[2, 2, 1, 1] w = {1, 2, 3, 4}>"""
CASES = {
    "neg": ("float[2, 0, 3]", "z = Neg(x)"),
    "identity": ("float[2, 0, 3]", "z = Identity(x)"),
    "sum": ("float[2, 0, 3]", "z = ReduceSum<keepdims = 0>(x, one)"),
    "max": ("float[2, 0, 3]", "z = ReduceMax(x, one)"),
    "concat": ("float[2, 0, 3]", "y = ConstantOfShape(wide) z = Concat<axis = 1>(x, y)"),
    "matmul": ("float[2, 0]", "t = Transpose(x) z = MatMul(x, t)"),
    "gemm of no rows": ("float[0, 2]", "z = Gemm<transB = 1>(x, x)"),
    "reshape": ("float[2, 0, 3]", "z = Reshape(x, rows)"),
    "pad": ("float[2, 0, 3]", "z = Pad(x, pads)"),
    "softmax": ("float[2, 0, 3]", "z = Softmax(x)"),
    "slice": ("float[4]", "z = Slice(x, one, one)"),
    "expand": ("float[1, 3]", "z = Expand(x, no_rows)"),
    "gather": ("float[4, 3]", "z = Gather(x, none)"),
    "normalization": ("float[0, 3]", "z = LayerNormalization(x, ones)"),
    "arg max": ("float[0, 3]", "i = ArgMax<axis = 1>(x) z = Cast<to = 1>(i)"),
    "top of none": ("float[4, 3]", "z, i = TopK(x, zero)"),
    "convolution": ("float[0, 2, 5, 5]", "z = Conv(x, w)"),
    "pooling": ("float[0, 2, 5, 5]", "z = MaxPool<kernel_shape = [2, 2]>(x)"),
    "resize": ("float[0, 2, 5, 5]", "z = Resize(x, , twice)"),
    "split": ("float[2, 3]", "z, y = Split<axis = 1>(x, parts)"),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_on_empty_tensors_give_the_results_of_onnxruntime(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    type, body = CASES[name]
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    model: Any = onnx.parser.parse_model(
        f"{head} g ({type} x) => (float[n] z) {WEIGHTS} {{{body}}}"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    x = np.ones([int(size) for size in type[6:-1].split(",")], np.float32)
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("z", 1, expected.shape))
    result = run_reference(import_onnx(model), {"x": x})["z"]
    program = compile_model(import_onnx(model), "lavapipe")
    for actual in (result, run(program, {"x": x})["z"]):
        assert actual.shape == expected.shape
        np.testing.assert_array_equal(actual, expected)
