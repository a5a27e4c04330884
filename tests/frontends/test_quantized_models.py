"""Quantized ONNX models use integer kernels in every form that onnxruntime's quantizers write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compare.onnxruntime import differences, run_onnxruntime, tolerance_of
from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends import FrontendError, import_onnx
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run

if TYPE_CHECKING:
    from tests.frontends.conftest import Builder

GENERATOR = np.random.default_rng(11)


def dequantized(
    build: Builder, name: str, array: Array, scale: Any, zero: Any, axis: int = 1
) -> str:
    """Adds an integer constant and its dequantization."""
    given = [
        build.constant(name, array),
        build.constant(f"{name}.s", np.asarray(scale, np.float32)),
        build.constant(f"{name}.z", np.asarray(zero, array.dtype)),
    ]
    return build.node("DequantizeLinear", given, f"{name}.f", axis=axis)


def requantized(build: Builder, name: str, scale: float, zero: int) -> str:
    """Adds a quantization to unsigned bytes and a dequantization."""
    given = [
        build.constant(f"{name}.qs", np.float32(scale)),
        build.constant(f"{name}.qz", np.uint8(zero)),
    ]
    build.node("QuantizeLinear", [name, *given], f"{name}.q")
    return build.node("DequantizeLinear", [f"{name}.q", *given], f"{name}.d")


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
def test_qdq_computes_with_integers(per_channel: bool, build: Builder):
    """A padded convolution with bias and a product become one kernel each."""
    weights = GENERATOR.integers(-127, 128, (16, 4, 3, 3)).astype(np.int8)
    matrix = GENERATOR.integers(0, 256, (16 * 36, 12)).astype(np.uint8)
    by = GENERATOR.uniform(0.004, 0.01, 16) if per_channel else 0.006
    zeros = GENERATOR.integers(100, 140, 12) if per_channel else 121
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
    model = import_onnx(proto)
    tolerance = tolerance_of(model.module)
    program = compile_model(model, "lavapipe")
    between = {b.type for b in program.manifest.buffers if b.kind == "temporary" and b.bytes > 64}
    assert between == {"i8"}
    (found,) = differences(run(program, given), expected.results, tolerance)
    assert found.passed, str(found)
    assert found.max_abs <= 1e-4 * float(np.abs(expected.results["out"]).max())


def dynamic(x: Array) -> tuple[Any, Any, int]:
    """Returns integers, scale and zero point by the definition of DynamicQuantizeLinear."""
    high, low = max(x.max(), 0), min(x.min(), 0)
    scale = np.float32((high - low) / np.float32(255))
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(int), scale, zero


def test_dynamic_quantization_computes_with_integers(build: Builder):
    weights = GENERATOR.integers(-127, 128, (64, 48)).astype(np.int8)
    scales = GENERATOR.uniform(0.005, 0.02, 48).astype(np.float32)
    build.constant("w", weights)
    build.constant("w.s", scales)
    build.constant("w.z", np.zeros(48, np.int8))
    made = build.onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="d")
    build.nodes.append(made)
    build.node("MatMulInteger", ["q", "w", "z", "w.z"], "i")
    build.node("Cast", ["i"], "f", to=1)
    build.node("Mul", ["s", "w.s"], "both")
    build.node("Mul", ["f", "both"], "out")
    proto = build.model({"x": ("FLOAT", [4, 64])}, {"out": ("FLOAT", [4, 48])})
    x = GENERATOR.standard_normal((4, 64)).astype(np.float32)
    numbers, scale, zero = dynamic(x)
    truth = ((numbers - zero) @ weights.astype(int)) * (scale * scales).astype(np.float64)
    program = compile_model(import_onnx(proto), "lavapipe")
    assert any("8 -> s32" in layer.types for layer in program.layers)
    assert np.abs(run(program, {"x": x})["out"] - truth).max() <= 1e-6 * np.abs(truth).max()


def test_operators_of_quantized_numbers(build: Builder):
    """QLinearConv by channel, QLinearAdd and QLinearMatMul follow their definitions."""
    weights = GENERATOR.integers(-127, 128, (6, 4, 1, 1)).astype(np.int8)
    matrix = GENERATOR.integers(-127, 128, (5, 7)).astype(np.int8)
    scales = GENERATOR.uniform(0.004, 0.01, 6).astype(np.float32)
    bias = GENERATOR.integers(-999, 999, 6).astype(np.int32)
    for name, value in {
        "xs": np.float32(0.02),
        "xz": np.uint8(117),
        "w": weights,
        "ws": scales,
        "wz": np.zeros(6, np.int8),
        "ys": np.float32(0.05),
        "yz": np.uint8(131),
        "b": bias,
        "m": matrix,
        "ms": np.full(1, 0.01, np.float32),
        "mz": np.zeros(1, np.int8),
    }.items():
        build.constant(name, value)
    conv = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    build.node("QLinearConv", conv, "c")
    build.node(
        "QLinearAdd", ["c", "ys", "yz", "c", "ys", "yz", "ys", "yz"], "a", domain="com.microsoft"
    )
    build.node("QLinearMatMul", ["a", "ys", "yz", "m", "ms", "mz", "ys", "yz"], "out")
    proto = build.model({"x": ("UINT8", [1, 4, 3, 5])}, {"out": ("UINT8", [1, 6, 3, 7])})
    proto.opset_import.append(build.onnx.helper.make_opsetid("com.microsoft", 1))
    x = GENERATOR.integers(0, 256, (1, 4, 3, 5)).astype(np.uint8)

    def step(sums: Any, by: Any) -> Array:
        return np.clip(np.rint(sums * by / np.float64(np.float32(0.05))) + 131, 0, 255)

    sums = np.einsum("oc,nchw->nohw", weights[:, :, 0, 0].astype(int), x.astype(int) - 117)
    sums = sums + bias[:, None, None]
    c = step(sums, (np.float32(0.02) * scales.astype(np.float64))[:, None, None])
    a = np.clip(2 * (c - 131) + 131, 0, 255)
    truth = step((a - 131) @ matrix.astype(int), np.float64(np.float32(0.01)) * np.float32(0.05))
    found = run_reference(import_onnx(proto), {"x": x})["out"]
    assert found.dtype == np.uint8
    # A sum between two steps may round to either, which changes the rest by one step of `a`.
    assert np.abs(found.astype(int) - truth).max() <= 1
    assert (found != truth).mean() < 0.05


def test_an_unknown_operator_of_onnxruntime_is_refused(build: Builder):
    build.node("Frobnicate", ["x"], "out", domain="com.microsoft", name="the/node")
    proto = build.model({"x": ("FLOAT", [3])}, {"out": ("FLOAT", [3])})
    proto.opset_import.append(build.onnx.helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(FrontendError, match=r"Frobnicate: .*'com.microsoft'.*node 'the/node'"):
        import_onnx(proto)


def test_sums_of_float16_are_computed_in_float32(build: Builder):
    """In float16 the running sum of 4096 numbers near 1 would stop at 2048."""
    build.node("ReduceMean", ["x"], "out", axes=[1], keepdims=0)
    proto = build.model({"x": ("FLOAT16", [2, 4096])}, {"out": ("FLOAT16", [2])})
    x = np.ones((2, 4096), np.float16)
    found = run_reference(import_onnx(proto), {"x": x})["out"]
    assert found.dtype == np.float16
    assert found.tolist() == [1.0, 1.0]
