"""Recurrences with a dynamic number of steps (one or more) give onnxruntime's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv import compile
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'
GRU = """agraph (float[T, B, 3] x, int32[B] n, float[2, 12, 3] w, float[2, 12, 4] r, float[2, 24] b)
    => (float[T, 2, B, 4] y, float[2, B, 4] h) {
    y, h = GRU<hidden_size = 4, direction = "bidirectional">(x, w, r, b, n) }"""
SCAN = """agraph (float[T, 2, 3] x, float[2, 3] s0, float[3, 3] w)
    => (float[2, 3] s, float[2, T] y) {
    s, y = Scan<num_scan_inputs = 1, scan_input_directions = [1], scan_output_axes = [1],
        body = g (float[2, 3] s1, float[2, 3] e) => (float[2, 3] s3, float[2] r) {
            m = MatMul(s1, w) a = Add(m, e) s3 = Tanh(a) r = ReduceMax<axes = [1], keepdims = 0>(s3)
        }>(s0, x) }"""
LOOP = """agraph (float[T, 2, 3] x, float[2, 3] s0) => (float[2, 3] s, float[T, 2, 3] y) {
    zero = Constant<value_int = 0>() sizes = Shape(x) k = Gather(sizes, zero)
    s, y = Loop<
        body = g (int64 i, bool c, float[2, 3] s1) => (bool d, float[2, 3] s2, float[2, 3] o)
        { d = Identity(c) e = Gather<axis = 0>(x, i) a = Add(s1, e) s2 = Tanh(a) o = Neg(a)
        }>(k, , s0) }"""


@pytest.mark.parametrize("text", [GRU, SCAN, LOOP], ids=["gru", "scan", "loop"])
def test_a_dynamic_number_of_steps_gives_the_results_of_onnxruntime(text: str):
    model: Any = onnx.parser.parse_model(HEAD + text)
    names = {"T", "B"} & {
        d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim
    }
    program = compile(model, "lavapipe", dims=dict.fromkeys(names))
    (loop,) = program.manifest.loops
    assert loop.steps == "T"
    session = onnxruntime.InferenceSession(model.SerializeToString())
    generator = np.random.default_rng(3)
    for steps in (1, 6):
        inputs: dict[str, Any] = {}
        for value in session.get_inputs():
            sizes: dict[Any, int] = {"T": steps, "B": 2}
            shape = [sizes.get(size) or size for size in value.shape]
            inputs[value.name] = generator.uniform(-1, 1, shape).astype(np.float32)
        if "n" in inputs:
            inputs["n"] = np.array([steps, max(1, steps // 2)], np.int32)
        checks = Checks.all()
        results = run(program, inputs, checks=checks)
        assert not checks.report, str(checks.report)
        for result, expected in zip(results.values(), session.run(None, inputs), strict=True):
            np.testing.assert_allclose(result, expected, 1e-4, 1e-5)


STEPS = """agraph (float[{steps}, 1, 8] x, float[1, 48, 8] w, float[1, 48, 16] r, float[1, 96] b)
    => (float[{steps}, 1, 1, 16] y, float[1, 1, 16] h) {{
    y, h = GRU<hidden_size = 16, linear_before_reset = 1>(x, w, r, b) }}"""


@pytest.mark.parametrize("steps", [40, 41])
def test_a_step_is_one_dispatch(steps: int):
    """On a GPU, the kernel of the state's product also computes the gates of a sequence."""
    model: Any = onnx.parser.parse_model(HEAD + STEPS.format(steps=steps))
    program = compile(model, "nvidia-h200")
    (loop,) = program.manifest.loops
    assert (loop.steps, loop.dispatches) == (20, 2)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    generator = np.random.default_rng(steps)
    inputs = {
        value.name: generator.uniform(-1, 1, value.shape).astype(np.float32)
        for value in session.get_inputs()
    }
    checks = Checks.all()
    results = run(program, inputs, checks=checks)
    assert not checks.report, str(checks.report)
    for result, expected in zip(results.values(), session.run(None, inputs), strict=True):
        np.testing.assert_allclose(result, expected, 1e-4, 1e-5)
