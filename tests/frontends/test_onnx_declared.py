"""Sizes and axes that data decides come from the shape that the model declares for its result."""

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx

onnx = pytest.importorskip("onnx")
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
X = np.arange(12, dtype=np.float32).reshape(4, 1, 3)
CASES = {
    "Reshape": ("int64[2] s", "float[2, 6]", "z = Reshape(x, s)", [2, -1]),
    "Expand": ("int64[3] s", "float[4, 2, 3]", "z = Expand(x, s)", [1, 2, 1]),
    "Tile": ("int64[3] s", "float[4, 2, 6]", "z = Tile(x, s)", [1, 2, 2]),
    "an axis that is kept": ("int64[1] s", "float[4, 1, 1]", "z = ReduceSum(x, s)", [-1]),
    "an axis that is not": ("int64[2] s", "float[4]", "z = ReduceL2<keepdims=0>(x, s)", [2, 1]),
    "no axis": ("int64[0] s", "float[1, 1, 1]", "z = ReduceMax(x, s)", []),
    "Squeeze": ("int64[1] s", "float[4, 3]", "z = Squeeze(x, s)", [1]),
    "TopK": ("int64[1] s", "float[4, 1, 2]", "z, i = TopK(x, s)", [2]),
}


def model_of(given: str, result: str, body: str) -> Any:
    text = f"{HEAD} g (float[4, 1, 3] x, {given}) => ({result} z) {{ {body} }}"
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("name", CASES)
def test_a_declared_result_decides(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    given, result, body, data = CASES[name]
    model = model_of(given, result, body)
    inputs = {"x": X, "s": np.array(data, np.int64)}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    actual = run_reference(import_onnx(model), inputs)["z"]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ("float[a, b, c]", "z = Expand(x, s)"),
        ("float[4, 3]", "y = Reshape(x, w) z = ReduceSum<keepdims = 0>(y, t)"),
    ],
)
def test_what_a_declaration_leaves_open_is_refused(result: str, body: str) -> None:
    text = f"""{HEAD} g (float[4, 3, 3] x, int64[3] s, int64[1] t) => ({result} z)
        <int64[3] w = {{4, 3, 3}}> {{ {body} }}"""
    with pytest.raises(FrontendError, match=r"are computed .*make them constants"):
        import_onnx(onnx.parser.parse_model(text))
