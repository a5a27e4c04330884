"""Sizes and axes that data determines are taken from the declared shape of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx

if TYPE_CHECKING:
    from onnx import ModelProto


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
    "an axis of several": ("int64 s", "float[4, 1, 3]", "z = CumSum(x, s)", -3),
    "the last one": ("int64 s", "float[4, 1, 3]", "z = CumSum<reverse=1>(x, s)", 2),
    "axes of several": (
        "int64[2] s",
        "float[2]",
        "y = Reshape(x, w) q = ReduceSum<keepdims=0>(y, s) z = Abs(q)",
        [-1, 1],
    ),
    "Unsqueeze": ("int64[2] s", "float[4, 1, 1, 3, 1]", "z = Unsqueeze(x, s)", [-1, 1]),
    "Split": ("int64[2] s", "float[3, 1, 3] y, float[1, 1, 3]", "z, y = Split(x, s)", [1, 3]),
    "a start": ("int64[2] s", "float[2, 1, 3]", "z = Slice(x, s, e)", [-3, 0]),
    "a start backwards": ("int64[2] s", "float[4, 1, 2]", "z = Slice(x, s, m, n, p)", [2, -1]),
    "axes of a slice": ("int64[2] s", "float[4, 1, 2]", "z = Slice(x, f, m, s, p)", [2, -2]),
    "pads": ("int64[4] s", "float[4, 3, 5]", "z = Pad(x, s, , n)", [1, 1, 1, 1]),
    "less": ("int64[4] s", "float[4, 1, 4]", 'z = Pad<mode="edge">(x, s, , n)', [-1, 0, 2, 0]),
    "around": ("int64[2] s", "float[4, 1, 9]", 'z = Pad<mode="wrap">(x, s, , v)', [2, 4]),
    "mirrored": ("int64[2] s", "float[4, 1, 7]", 'z = Pad<mode="reflect">(x, s, , v)', [2, 2]),
    "Compress": ("bool[3] s", "float[4, 1, 2]", "z = Compress<axis=2>(x, s)", [True, False, True]),
    "scales": ("float[3] s", "float[6, 1, 2]", 'z = Resize<mode="linear">(x, , s)', [1.6, 1, 0.7]),
    "scales of some": (
        "float[2] s",
        "float[2, 1, 1]",
        'z = Resize<mode="linear", antialias=1, axes=[0, 2]>(x, , s)',
        [0.65, 0.5],
    ),
    "a ratio": (
        "int64[2] s",
        "float[8, 1, 6]",
        'z = Resize<axes=[0, 2], keep_aspect_ratio_policy="not_larger">(x, , , s)',
        [9, 6],
    ),
    "Range": ("int64 s", "int64[3]", "z = Range(s, t, d)", 5),
}
CONSTANTS = """int64[3] w = {2, 3, 2}, int64[2] e = {-1, 7}, int64[2] f = {9, -1}, int64 t = {-2},
    int64[2] m = {-9, 9}, int64[2] n = {-1, 1}, int64[2] p = {-2, 1}, int64[1] v = {2},
    int64 d = {-3}"""


def model_of(given: str, result: str, body: str) -> ModelProto:
    text = f"{HEAD} g (float[4, 1, 3] x, {given}) => ({result} z) <{CONSTANTS}> {{ {body} }}"
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_taken_from_a_declared_result(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    given, result, body, data = CASES[name]
    model = model_of(given, result, body)
    kind = np.bool_ if "bool" in given else np.float32 if "float" in given else np.int64
    array = np.array(data, kind)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [value.name for value in session.get_inputs()]
    inputs = {n: a for n, a in {"x": X, "s": array}.items() if n in names}
    (expected,) = session.run(["z"], inputs)
    actual = run_reference(import_onnx(model), inputs)["z"]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ("float[a, b, c]", "z = Expand(x, s)"),
        ("float[a, 3]", "y = Reshape(x, w) z = ReduceSum<keepdims = 0>(y, t)"),
    ],
)
def test_open_declarations_are_refused(result: str, body: str) -> None:
    text = f"""{HEAD} g (float[4, 3, 3] x, int64[3] s, int64[1] t) => ({result} z)
        <int64[3] w = {{4, 3, 3}}> {{ {body} }}"""
    with pytest.raises(FrontendError, match=r"are computed .*make them constants"):
        import_onnx(onnx.parser.parse_model(text))
