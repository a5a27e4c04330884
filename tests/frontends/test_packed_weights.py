"""One kernel reads ONNX's block-quantized weights packed, and gives onnxruntime's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.compiler import compile
from xdsl_spirv.frontends.onnx.operators.quantized_blocks import by_groups
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(3)


def model(
    nodes: list[Any], given: dict[str, Any], weights: dict[str, Any], shape: list[int]
) -> ModelProto:
    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)]
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(proto: ModelProto, given: dict[str, Any], bytes: int, kernels: int = 1) -> None:
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    # onnxruntime would quantize the activations and multiply bytes.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    (expected,) = session.run(["y"], given)
    program = compile(proto, "lavapipe")
    result = program(**given)
    assert len(program.manifest.dispatches) == kernels
    assert sum(b.bytes for b in program.manifest.buffers if b.kind == "weight") <= bytes
    assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()


def few_bits(k: int, n: int, bits: int, size: int, zeros: bool) -> dict[str, Array]:
    blocks = -(-k // size)
    arrays: dict[str, Any] = {
        "w": RANDOM.integers(0, 256, (n, blocks, size * bits // 8), np.uint8),
        "s": RANDOM.uniform(0.01, 0.1, n * blocks).astype(np.float32),
    }
    if zeros:
        packed = -(-blocks * bits // 8)
        arrays["z"] = RANDOM.integers(0, 256, n * packed, np.uint8)
    return arrays


@pytest.mark.parametrize(
    ("m", "k", "n", "bits", "size", "zeros"),
    [(1, 96, 40, 4, 32, True), (35, 256, 33, 4, 128, False), (34, 64, 40, 8, 32, True)],
)
def test_products_read_packed_weights(
    m: int, k: int, n: int, bits: int, size: int, zeros: bool
) -> None:
    arrays = few_bits(k, n, bits, size, zeros)
    attributes = {"K": k, "N": n, "bits": bits, "block_size": size}
    node = onnx.helper.make_node(
        "MatMulNBits", ["x", *arrays], ["y"], domain=MICROSOFT, **attributes
    )
    given = {"x": RANDOM.normal(0, 1, (m, k)).astype(np.float32)}
    blocks = n * k // size
    check(model([node], given, arrays, [m, n]), given, n * k * bits // 8 + 5 * blocks)


def test_columns_of_a_group_are_gathered() -> None:
    """A separate kernel gathers the columns of the activations."""
    k, n, size = 128, 40, 32
    arrays = few_bits(k, n, 4, size, False)
    groups = RANDOM.permutation(np.repeat(np.arange(k // size), size)).astype(np.int32)
    attributes = {"K": k, "N": n, "bits": 4, "block_size": size}
    names = ["x", "w", "s", "", "g"]
    node = onnx.helper.make_node("MatMulNBits", names, ["y"], domain=MICROSOFT, **attributes)
    given = {"x": RANDOM.normal(0, 1, (5, k)).astype(np.float32)}
    proto = model([node], given, {**arrays, "g": groups}, [5, n])
    check(proto, given, n * k // 2 + 4 * n * k // size + 8 * k, kernels=2)
    order = by_groups(groups, size)
    assert order is not None
    assert (groups[order] == np.repeat(np.arange(k // size), size)).all()
    assert by_groups(np.zeros(k, np.int32), size) is None


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_dequantized_by_blocks_and_multiplied(axis: int, signed: bool) -> None:
    k, n, size = 128, 40, 32
    numbers = RANDOM.integers(-8, 8, (k, n)) + (0 if signed else 8)
    dtype = ml_dtypes.int4 if signed else ml_dtypes.uint4
    scales = RANDOM.uniform(0.01, 0.1, (k // size, n)).astype(np.float32)
    turn = (lambda a: np.ascontiguousarray(a.T)) if axis else (lambda a: a)
    arrays = {"w": turn(numbers.astype(np.int8)).astype(dtype), "s": turn(scales)}
    if not signed:
        arrays["z"] = turn(RANDOM.integers(0, 16, scales.shape).astype(np.int8)).astype(dtype)
    dequantize = onnx.helper.make_node(
        "DequantizeLinear", [*arrays], ["d"], axis=axis, block_size=size
    )
    nodes = [dequantize, onnx.helper.make_node("Gemm", ["x", "d"], ["y"], transB=axis)]
    given = {"x": RANDOM.normal(0, 1, (3, k)).astype(np.float32)}
    check(model(nodes, given, arrays, [3, n]), given, n * k // 2 + 5 * scales.size)


def test_rows_of_a_packed_table_are_dequantized() -> None:
    table = RANDOM.integers(-8, 8, (50, 64)).astype(ml_dtypes.int4)
    arrays = {"w": table, "s": RANDOM.uniform(0.01, 0.1, (50, 2)).astype(np.float32)}
    node = onnx.helper.make_node(
        "GatherBlockQuantized", ["w", "i", "s"], ["y"], domain=MICROSOFT, block_size=32
    )
    given = {"i": np.array([[3, 49, 0]], np.int64)}
    proto = model([node], given, arrays, [1, 3, 64])
    program = compile(proto, "lavapipe")
    assert sum(b.bytes for b in program.manifest.buffers if b.kind == "weight") <= 50 * (32 + 8)
    options = runtime.SessionOptions()
    session = runtime.InferenceSession(proto.SerializeToString(), options)
    np.testing.assert_array_equal(program(given["i"]), session.run(["y"], given)[0])
