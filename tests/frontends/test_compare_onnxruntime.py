"""`run --compare-layers` compares the reference results of an ONNX file with onnxruntime's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xdsl_spirv.compare.layers import LayerComparison, compare_layers
from xdsl_spirv.compare.onnx_layers import onnxruntime_values
from xdsl_spirv.compiler.model import compile_model
from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from tests.frontends.conftest import Builder


def compared(build: Builder, change: str = "") -> list[LayerComparison]:
    """Returns the comparison of a small model's layers. `change` damages a tensor."""
    rng = np.random.default_rng(0)
    first = build.constant("w1", rng.uniform(-1, 1, (32, 24)).astype(np.float32))
    second = build.constant("w2", rng.uniform(-1, 1, (24, 16)).astype(np.float32))
    build.node("MatMul", ["x", first], "wide", name="first")
    build.node("Tanh", ["wide"], "bent", name="tanh")
    build.node("MatMul", ["bent", second], "narrow", name="second")
    build.node("ReduceMean", ["narrow"], "mean", name="mean", axes=[1], keepdims=1)
    build.node("Sub", ["narrow", "mean"], "y", name="centred")
    model = build.model({"x": ("FLOAT", [8, 32])}, {"y": ("FLOAT", [8, 16])})
    data = model.SerializeToString()
    imported = import_onnx(model)
    program = compile_model(imported, "lavapipe")
    inputs = {"x": rng.uniform(-1, 1, (8, 32)).astype(np.float32)}
    theirs = onnxruntime_values(data, inputs, imported.nodes, program.layers)
    if change:
        (at,) = [at for at, (name, _) in theirs.items() if name == change]
        values = theirs[at][1].copy()
        values[3, 5] += 0.5
        theirs[at] = (change, values)
    return list(compare_layers(program, inputs, run, theirs=theirs))


def test_layers_agree_with_the_kernels_and_with_onnxruntime(build: Builder):
    found = compared(build)
    assert all(each.passed for each in found), list(map(str, found))
    assert {"bent", "y"} <= {each.tensor for each in found}


def test_the_first_node_that_differs_is_named(build: Builder):
    wrong = [each for each in compared(build, "bent") if not each.passed]
    assert wrong[0].tensor == "bent"
    assert wrong[0].place == (3, 5)
    text = str(wrong[0])
    assert "onnxruntime's 'bent'" in text
    assert "node:     first + tanh" in text
    assert f"kernel:   {wrong[0].layer.entry_point}" in text
