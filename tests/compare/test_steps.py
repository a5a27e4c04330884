"""A quantized result may differ by one step of the model, and by no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compare.onnxruntime import differences, tolerance_of
from xdsl_spirv.frontends import import_onnx

onnx = pytest.importorskip("onnx")
h, T = onnx.helper, onnx.TensorProto


def model_of(scale: Any, behind: list[tuple[str, dict[str, Any]]]) -> bytes:
    axis = {"axis": 1} if np.ndim(scale) else {}
    zero = np.zeros(np.shape(scale), np.int8)
    constants = {"s": np.asarray(scale, np.float32), "z": zero, "sizes": np.array([1, 2, 1, 9])}
    nodes = [
        h.make_node("Resize", ["x", "", "", "sizes"], ["r"], mode="linear"),
        h.make_node("QuantizeLinear", ["r", "s", "z"], ["q"], **axis),
        h.make_node("DequantizeLinear", ["q", "s", "z"], ["y0"], **axis),
    ]
    for number, (kind, attributes) in enumerate(behind):
        nodes.append(h.make_node(kind, [f"y{number}"], [f"y{number + 1}"], **attributes))
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", T.FLOAT, [1, 2, 1, 6])],
        [h.make_tensor_value_info(f"y{len(behind)}", T.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [h.make_opsetid("", 18)]
    return h.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


BEHIND: dict[str, tuple[dict[str, Any], float]] = {
    **{name: ({}, 1.0) for name in ("Relu", "Identity", "Neg", "Flatten", "Softmax")},
    "Transpose": ({"perm": [0, 2, 3, 1]}, 1.0), "Clip": ({}, 1.0),
}  # fmt: skip
"""Operators after a quantization, and the factor by which they scale its step."""


@pytest.mark.parametrize("seed", range(12))
def test_moves_keep_the_step_of_a_quantization_and_functions_do_not(seed: int):
    drawn = np.random.default_rng(seed)
    scale = float(2.0 ** drawn.integers(-4, 5))
    names = [str(drawn.choice(list(BEHIND))) for _ in range(drawn.integers(0, 6))]
    names = [name for k, name in enumerate(names) if name not in names[:k]]
    step = 0.0 if {"Softmax", "Neg"} & {*names} else scale
    module = import_onnx(
        onnx.load_from_string(model_of(scale, [(name, BEHIND[name][0]) for name in names]))
    ).module
    assert tolerance_of(module).results == (step,), names


@pytest.mark.parametrize(
    ("scale", "behind", "step"),
    [
        (1.0, [], 1.0),
        (0.25, [("Relu", {}), ("Transpose", {"perm": [0, 2, 3, 1]})], 0.25),
        ([0.5, 2.0], [("Identity", {})], 2.0),
        (8.0, [("Softmax", {})], 0.0),
    ],
)
def test_a_result_may_be_off_by_its_own_step(
    scale: Any, behind: list[tuple[str, dict[str, Any]]], step: float
):
    tolerance = tolerance_of(import_onnx(onnx.load_from_string(model_of(scale, behind))).module)
    assert tolerance.results == (step,)
    truth = np.full((1, 2, 1, 9), 3.0, np.float32)
    for off, passed in ((step, True), (1.5 * step + 0.2, False)):
        (found,) = differences({"y": truth + np.float32(off)}, {"y": truth}, tolerance)
        assert found.passed == passed
