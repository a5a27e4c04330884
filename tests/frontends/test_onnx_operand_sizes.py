"""Operands with sizes that ONNX does not allow are refused, as onnxruntime refuses them."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.frontends.onnx.operand_sizes import PARTS, RANKS, RULES

if TYPE_CHECKING:
    from onnx import ModelProto


onnx: ModuleType = pytest.importorskip("onnx")
parser: Any = pytest.importorskip("onnx.parser")
onnxruntime: Any = pytest.importorskip("onnxruntime")

X = "(float[3, 3] x) => (float[a, b] y) "
IMAGE = "(float[1, 2, 4] x) => (float[1, a, b] y) "
NORM = "<float[2] s = {0.5, 1.5}> "
GRAPHS = "<then_branch = t () => (float[3, 3] w) { w = Add(x, x) }, else_branch = e ()"
MODELS = {
    "Clip": X + "<float l = {0.0}, float h = {1.0}> { y = Clip(x, l, h) }",
    "CumProd": X + "<int64 k = {1}> { y = CumProd(x, k) }",
    "CumSum": X + "<int64 k = {1}> { y = CumSum(x, k) }",
    "DFT": "(float[3, 4, 1] x) => (float[3, 4, 2] y) <int64 n = {4}, int64 k = {1}> "
    "{ y = DFT(x, n, k) }",
    "DequantizeLinear": "(int8[3, 3] x) => (float[3, 3] y) <float s = {0.5}, int8 z = {1}> "
    "{ y = DequantizeLinear(x, s, z) }",
    "Dropout": X + "<float r = {0.5}, bool m = {0}> { y = Dropout(x, r, m) }",
    "If": X + "<bool c = {1}> { y = If(c)" + GRAPHS + " => (float[3, 3] v) { v = Mul(x, x) }> }",
    "Loop": X + "<int64 n = {2}, bool c = {1}> { y = Loop(n, c, x)"
    "<body = g (int64 i, bool ci, float[3, 3] v) => (bool co, float[3, 3] w) "
    "{ co = Identity(ci) w = Add(v, v) }> }",
    "OneHot": "(int64[2] x) => (float[2, 3] y) <int64 n = {3}, float[2] v = {0.0, 1.0}> "
    "{ y = OneHot(x, n, v) }",
    "Pad": X + "<int64[4] p = {1, 1, 1, 1}, float c = {2.0}> { y = Pad(x, p, c) }",
    "QuantizeLinear": "(float[3, 3] x) => (int8[3, 3] y) <float s = {0.5}, int8 z = {1}> "
    "{ y = QuantizeLinear(x, s, z) }",
    "Range": "(float[3] x) => (float[n] y) <float s = {0.0}, float e = {3.0}, float d = {1.0}> "
    "{ r = Range(s, e, d) y = Add(r, x) }",
    "TopK": X + "<int64[1] n = {2}> { y, i = TopK(x, n) }",
    "Trilu": X + "<int64 k = {1}> { y = Trilu(x, k) }",
    "BatchNormalization": IMAGE + NORM + "{ y = BatchNormalization(x, s, s, s, s) }",
    "InstanceNormalization": IMAGE + NORM + "{ y = InstanceNormalization(x, s, s) }",
    "Conv": IMAGE + "<float[1, 2, 1] w = {1.0, 2.0}, float[1] s = {0.5}> { y = Conv(x, w, s) }",
    "QLinearConv": "(int8[1, 2, 4] x) => (int8[1, 1, 4] y) <float s = {0.5}, int8 z = {1}, "
    "int8 q = {0}, int8[1, 2, 1] w = {1, 2}, int32[1] c = {3}> "
    "{ y = QLinearConv(x, s, z, w, s, q, s, z, c) }",
    "ConvTranspose": IMAGE + "<float[2, 1, 1] w = {1.0, 2.0}, float[1] s = {0.5}> "
    "{ y = ConvTranspose(x, w, s) }",
    "ReverseSequence": X + "<int64[3] n = {1, 2, 3}> { y = ReverseSequence(x, n) }",
    "Gemm": X + "<float[1, 3] c = {1.0, 2.0, 3.0}> { y = Gemm(x, x, c) }",
    "LayerNormalization": X + "<float[3] s = {1.0, 2.0, 3.0}> { y = LayerNormalization(x, s, s) }",
    "RMSNormalization": X + "<float[3] s = {1.0, 2.0, 3.0}> { y = RMSNormalization(x, s) }",
    "GatherElements": X + "<int64[1, 3] i = {0, 1, 2}> { y = GatherElements(x, i) }",
    "ScatterElements": X + "<int64[1, 3] i = {0, 1, 2}, float[1, 3] u = {4.0, 5.0, 6.0}> "
    "{ y = ScatterElements(x, i, u) }",
}  # fmt: skip
OPSETS = {"DFT": 20, "RMSNormalization": 23, "CumProd": 26}
PLACES = [
    *((name, place, 0) for name, rules in RULES.items() for place in rules),
    *((name, place, None) for name, rules in RANKS.items() for place in rules),
    *((name, 1, 1) for name in PARTS),
]


def model_of(name: str) -> ModelProto:
    version = OPSETS.get(name, 18)
    header = f'<ir_version: 10, opset_import: ["": {version}]> g '
    return parser.parse_model(header + MODELS[name])


def grown(name: str, place: int, axis: int | None) -> ModelProto:
    """Returns a model with an operand of twice the size along an axis, or with two more axes."""
    model = model_of(name)
    node = next(node for node in model.graph.node if node.op_type == name)
    node.input[place], operand = f"operand{place}", node.input[place]
    for tensor in [t for t in model.graph.initializer if t.name == operand]:
        array = onnx.numpy_helper.to_array(tensor)
        new = (
            np.stack([[array, array]]) if axis is None else np.repeat(np.atleast_1d(array), 2, axis)
        )
        model.graph.initializer.append(onnx.numpy_helper.from_array(new, node.input[place]))
    return model


def accepted_by_onnxruntime(model: ModelProto) -> bool:
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString())
        types = {"tensor(float)": np.float32, "tensor(int8)": np.int8, "tensor(int64)": np.int64}
        session.run(None, {i.name: np.ones(i.shape, types[i.type]) for i in session.get_inputs()})
    except Exception as error:
        return "NOT_IMPLEMENTED" in str(error)
    return True


@pytest.mark.parametrize("name", MODELS)
def test_valid_sizes_are_accepted(name: str):
    assert accepted_by_onnxruntime(model_of(name))
    import_onnx(model_of(name), dims={})


@pytest.mark.parametrize(("name", "place", "axis"), PLACES)
def test_other_sizes_are_refused(name: str, place: int, axis: int | None):
    model = grown(name, place, axis)
    with pytest.raises(FrontendError, match=r"the input \w+ has \d+ (element|dimension|row)"):
        import_onnx(model)
    if name != "CumProd":  # onnxruntime has no such check.
        assert not accepted_by_onnxruntime(model)
