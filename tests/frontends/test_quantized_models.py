"""Quantized ONNX models: integer kernels of every form that onnxruntime's quantizers write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.frontends import import_onnx
from xdsl_spirv.frontends.torch_mlir_process import TorchMLIR
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.model import compile_model
from xdsl_spirv.runtime.model_check import differences, run_onnxruntime, tolerance_of

GENERATOR = np.random.default_rng(11)


def dequantized(build: Any, name: str, array: Any, scale: Any, zero: Any, axis: int = 1) -> str:
    """A constant of integers, dequantized."""
    given = [
        build.constant(name, array),
        build.constant(f"{name}.s", np.asarray(scale, np.float32)),
        build.constant(f"{name}.z", np.asarray(zero, array.dtype)),
    ]
    return build.node("DequantizeLinear", given, f"{name}.f", axis=axis)


def requantized(build: Any, name: str, scale: float, zero: int) -> str:
    """Quantized to bytes without a sign and back."""
    given = [
        build.constant(f"{name}.qs", np.float32(scale)),
        build.constant(f"{name}.qz", np.uint8(zero)),
    ]
    build.node("QuantizeLinear", [name, *given], f"{name}.q")
    return build.node("DequantizeLinear", [f"{name}.q", *given], f"{name}.d")


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
def test_qdq_computes_with_integers(per_channel: bool, build: Any, worker: TorchMLIR):
    """A padded convolution with a bias and a product, each in one kernel, bytes between them."""
    weights = GENERATOR.integers(-127, 128, (16, 4, 3, 3)).astype(np.int8)
    matrix = GENERATOR.integers(0, 256, (16 * 36, 12)).astype(np.uint8)
    by = GENERATOR.uniform(0.004, 0.01, 16) if per_channel else 0.006
    zeros = GENERATOR.integers(100, 128, 12) if per_channel else 121
    zero = np.zeros(16, int) if per_channel else 0
    x = requantized(build, "x", 0.02, 117)
    w = dequantized(build, "w", weights, by, zero, axis=0)
    bias = GENERATOR.integers(-999, 999, 16).astype(np.int32)
    b = dequantized(build, "b", bias, np.multiply(by, 0.02), zero, axis=0)
    build.node("Conv", [x, w, b], "c", pads=[1, 1, 1, 1])
    build.node("Relu", ["c"], "r")
    r = requantized(build, "r", 0.03, 0)
    build.constant("shape", np.array([1, 16 * 36]))
    build.node("Reshape", [r, "shape"], "flat")
    m = dequantized(build, "m", matrix, np.full(12, 0.005) if per_channel else 0.005, zeros)
    build.node("MatMul", ["flat", m], "out")
    proto = build.model({"x": ("FLOAT", [1, 4, 6, 6])}, {"out": ("FLOAT", [1, 12])})
    given = {"x": GENERATOR.standard_normal((1, 4, 6, 6)).astype(np.float32)}
    expected = run_onnxruntime(proto.SerializeToString(), given, ["out"])
    model = import_onnx(proto, worker=worker)
    tolerance = tolerance_of(model.module)
    program = compile_model(model, "lavapipe")
    between = {b.type for b in program.manifest.buffers if b.kind == "temporary" and b.bytes > 64}
    assert between == {"i8"}
    (found,) = differences(run(program, given), expected.results, tolerance)
    assert found.passed, str(found)
    assert found.max_abs <= 1e-4 * float(np.abs(expected.results["out"]).max())
