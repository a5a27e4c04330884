"""
Quantized operators give onnxruntime's results on unmodified models.

The cases cover both signs; zero points at the ends of the range, by channel or omitted; known and
computed scales; one-sided padding; blocks. Integers must be equal. Only a quotient near the
midpoint of two integers may give either of them, because onnxruntime computes in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from onnx import ModelProto


onnx = pytest.importorskip("onnx")
MICROSOFT = "com.microsoft"
U8, I8 = np.dtype(np.uint8), np.dtype(np.int8)
BYTES = [U8, I8]
PAIRS = [(U8, U8), (U8, I8), (I8, I8)]
"""Operand types that onnxruntime multiplies."""


def numbers(dtype: DTypeLike, *shape: int, seed: int = 0) -> Array:
    """Returns random integers of a type's full range, including both ends."""
    limits = np.iinfo(dtype)
    array = np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)
    array.flat[:1], array.flat[-1:] = limits.min, limits.max
    return array


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(0.01, 0.1, shape).astype(np.float32)


class Graph:
    """A model built node by node. Arrays are inputs, or constants if `known`."""

    def __init__(self, opset: int = 21, known: bool = False):
        self.opset, self.known = opset, known
        self.nodes: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}

    def add(
        self, kind: str, *operands: Any, domain: str = "", results: int = 1, **attributes: Any
    ) -> Any:
        """Adds a node. Returns the name of its result or the names of its results."""
        names = [self._name(operand) for operand in operands]
        number = len(self.nodes)
        outputs = [f"r{number}_{i}" for i in range(results)]
        node = onnx.helper.make_node(kind, names, outputs, f"{kind}_{number}", domain=domain)
        for key, value in attributes.items():
            node.attribute.append(onnx.helper.make_attribute(key, value))
        self.nodes.append(node)
        return outputs[0] if results == 1 else outputs

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def _name(self, operand: Any) -> str:
        if operand is None or isinstance(operand, str):
            return operand or ""
        if self.known:
            return self.constant(operand)
        name = f"x{len(self.inputs)}"
        self.inputs[name] = np.asarray(operand)
        return name

    def model(self, *outputs: str) -> ModelProto:
        helper = onnx.helper
        values = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.inputs.items()
        ]
        graph = helper.make_graph(
            self.nodes,
            "g",
            values,
            [onnx.ValueInfoProto(name=name) for name in outputs],
            [onnx.numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def run(self, *outputs: str) -> tuple[list[Array], list[Array]]:
        """Returns the results of the imported module and of onnxruntime."""
        runtime = pytest.importorskip("onnxruntime")
        model = self.model(*outputs)
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = runtime.InferenceSession(model.SerializeToString(), options)
        expected = session.run(list(outputs), self.inputs)
        results = run_reference(import_onnx(typed(model, *expected)), self.inputs)
        return [results[name] for name in outputs], expected


def typed(model: ModelProto, *expected: Any) -> ModelProto:
    """Returns the model with the types of the expected results."""
    helper = onnx.helper
    for value, array in zip(model.graph.output, expected, strict=True):
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(helper.make_tensor_value_info(value.name, number, array.shape))
    return model


def steps_apart(result: Any, expected: Any) -> int:
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    apart = np.abs(result.astype(np.int64) - expected.astype(np.int64))
    assert (apart > 0).mean() <= 0.02
    return int(apart.max(initial=0))


ZEROS = {"none": None, "least": 0.0, "middle": 0.5, "greatest": 1.0}
"""Zero points by their relative position in the type's range."""


def zero_point(dtype: DTypeLike, place: str, *shape: int) -> Array | None:
    part = ZEROS[place]
    if part is None:
        return None
    limits = np.iinfo(dtype)
    return np.full(shape, round(limits.min + part * (limits.max - limits.min)), dtype)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("dtype", "place"),
    [(U8, "none")]
    + [(t, p) for t in (U8, I8, np.uint16, np.int16) for p in ("least", "middle", "greatest")],
)
def test_quantize_and_dequantize(dtype: DTypeLike, place: str, known: bool):
    graph = Graph()
    x = floats(3, 5) * np.float32(30)
    x[0, :3] = np.nan, np.inf, -np.inf
    x[1] = np.array([0.5, 1.5, -0.5, 2.5, -2.5], np.float32) * np.float32(0.25)
    scale = np.array(0.25, np.float32)
    parameters = [scale, zero_point(dtype, place)]
    if known:
        parameters = [None if p is None else graph.constant(p) for p in parameters]
    q = graph.add("QuantizeLinear", x, *parameters)
    y = graph.add("DequantizeLinear", q, *parameters)
    results, expected = graph.run(q, y)
    assert np.array_equal(results[0], expected[0])
    assert np.array_equal(results[1], expected[1])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_scales_along_an_axis(dtype: DTypeLike, size: int, axis: int):
    """A vector of one scale applies to the whole tensor, whatever the axis."""
    graph = Graph()
    shape = [3, 3, 3]
    shape[axis] = size
    scale, zero = positive(size), numbers(dtype, size)
    q = graph.add("QuantizeLinear", floats(*shape), scale, zero, axis=axis)
    y = graph.add("DequantizeLinear", q, scale, zero, axis=axis)
    results, expected = graph.run(q, y)
    assert steps_apart(results[0], expected[0]) <= 1
    assert np.allclose(results[1], expected[1], atol=0.1)


@pytest.mark.parametrize("size", [8, 7])
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_of_blocks(axis: int, size: int):
    graph = Graph()
    shape = [size, 3] if axis == 0 else [3, size]
    of_blocks = [2 if n == size else n for n in shape]
    scale, zero = positive(*of_blocks), numbers(np.int8, *of_blocks, seed=1)
    q = graph.add("QuantizeLinear", floats(*shape), scale, zero, axis=axis, block_size=4)
    y = graph.add("DequantizeLinear", q, scale, zero, axis=axis, block_size=4)
    results, expected = graph.run(q, y)
    assert steps_apart(results[0], expected[0]) <= 1
    assert np.allclose(results[1], expected[1], atol=0.1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_scales_of_narrow_floats(dtype: DTypeLike):
    graph = Graph(opset=19)
    scale = np.array([0.1, 0.25, 3.0]).astype(dtype)
    y = graph.add("DequantizeLinear", numbers(np.int8, 4, 3), scale, axis=1)
    model = typed(graph.model(y), np.zeros((4, 3), dtype))
    (result,) = run_reference(import_onnx(model), graph.inputs).values()
    expected = graph.inputs["x0"].astype(np.float32) * scale.astype(np.float32)
    assert np.array_equal(result.astype(np.float32), expected.astype(dtype).astype(np.float32))


@pytest.mark.parametrize(("opset", "precision"), [(21, 0), (23, 0), (25, 0), (23, 1), (23, 10)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_quotients_are_rounded_to_the_type_of_the_scale(
    dtype: DTypeLike, opset: int, precision: int
):
    graph = Graph(opset)
    named: dict[str, Any] = {"precision": precision} if precision else {}
    x = floats(20, 30).astype(dtype)
    y = graph.add("QuantizeLinear", x, np.float16(0.0176).astype(dtype), np.int8(9), **named)
    results, expected = graph.run(y)
    assert np.array_equal(results[0], expected[0])


def test_int32_is_dequantized():
    graph = Graph()
    x = np.array([-(1 << 31), (1 << 31) - 1, 0, 12345], np.int32)
    y = graph.add("DequantizeLinear", x, np.float32(0.003))
    results, expected = graph.run(y)
    assert np.array_equal(results[0], expected[0])


@pytest.mark.parametrize("number", [0.0, 3.5, -3.5])
def test_dynamic_quantization_of_one_number(number: float):
    """An all-zero tensor gets the scale 1."""
    graph = Graph()
    outputs = graph.add("DynamicQuantizeLinear", np.full((2, 3), number, np.float32), results=3)
    results, expected = graph.run(*outputs)
    for result, other in zip(results, expected, strict=True):
        assert np.array_equal(result, other)


# Products of integers


@pytest.mark.parametrize("place", ZEROS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_matmul_integer(a: Any, b: Any, place: str):
    graph = Graph()
    known = graph.constant(numbers(b, 5, 4, seed=1))
    y = graph.add(
        "MatMulInteger",
        numbers(a, 2, 3, 5),
        known,
        zero_point(a, place),
        zero_point(b, place, 4),
    )
    results, expected = graph.run(y)
    assert np.array_equal(results[0], expected[0])


PADS = [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 2, 1]]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("place", ZEROS)
def test_conv_integer(place: str, pads: Sequence[int]):
    """Padding is zero after the zero point is subtracted."""
    graph = Graph()
    x, w = numbers(np.uint8, 1, 3, 6, 5), numbers(np.uint8, 4, 3, 3, 2, seed=1)
    zeros = zero_point(np.uint8, place), zero_point(np.uint8, place)
    y = graph.add("ConvInteger", x, w, *zeros, pads=list(pads))
    results, expected = graph.run(y)
    assert np.array_equal(results[0], expected[0])


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("place", ["least", "middle", "greatest"])
@pytest.mark.parametrize(("x", "w"), PAIRS)
def test_qlinear_conv(x: Any, w: Any, place: str, pads: Sequence[int]):
    graph = Graph(known=True)
    graph.inputs["x"] = numbers(x, 1, 4, 6, 5)
    weights = numbers(w, 4, 2, 3, 2, seed=1)
    y = graph.add(
        "QLinearConv",
        "x",
        np.float32(0.02),
        zero_point(x, place),
        weights,
        positive(4),
        np.zeros(4, I8) if w == I8 else np.full(4, 128, U8),
        np.float32(0.7),
        zero_point(x, "middle"),
        np.array([1000, -1000, 0, 7], np.int32),
        pads=list(pads),
        group=2,
    )
    results, expected = graph.run(y)
    assert steps_apart(results[0], expected[0]) <= 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("of_columns", [False, True])
def test_qlinear_matmul(of_columns: bool, known: bool):
    graph = Graph(known=known)
    graph.inputs["x"] = numbers(np.uint8, 2, 3, 5)
    shape = [4] if of_columns else []
    y = graph.add(
        "QLinearMatMul",
        "x",
        np.float32(0.02),
        np.uint8(3),
        numbers(np.int8, 5, 4, seed=1),
        positive(*shape),
        np.zeros(shape, np.int8),
        np.float32(0.5),
        np.uint8(200),
    )
    results, expected = graph.run(y)
    assert steps_apart(results[0], expected[0]) <= 1


@pytest.mark.parametrize("bias", ["none", "steps", "floats"])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [0, 0, 1, 1]])
@pytest.mark.parametrize("zero", [0, 128, 255])
def test_qdq_convolution(zero: int, pads: Sequence[int], channels: bool, bias: str):
    """A float bias is added without quantization."""
    graph, y = qdq_convolution(zero, pads, channels, bias)
    (result,), (expected,) = graph.run(y)
    assert np.abs(result - expected).max() <= 1e-6 * 27 * np.abs(expected).max()


@pytest.mark.parametrize("channels", [False, True])
def test_qdq_multiplies_bytes(channels: bool):
    graph, y = qdq_convolution(128, [0, 0, 1, 1], channels, "floats")
    model = typed(graph.model(y), np.zeros((1, 4, 5, 5), np.float32))
    program = compile_model(import_onnx(model), "lavapipe")
    assert [layer.types for layer in program.layers if "coop" in layer.path] == ["s8 x s8 -> s32"]


def qdq_convolution(zero: int, pads: Sequence[int], channels: bool, bias: str) -> tuple[Graph, str]:
    graph = Graph(known=True)
    graph.inputs["x"] = floats(1, 3, 6, 6)
    parameters = np.float32(0.05), np.uint8(zero)
    x = graph.add("QuantizeLinear", "x", *parameters)
    x = graph.add("DequantizeLinear", x, *parameters)
    shape = [4] if channels else []
    scale = positive(*shape)
    weights = numbers(np.int8, 4, 3, 3, 3)
    w = graph.add("DequantizeLinear", weights, scale, np.zeros(shape, np.int8), axis=0)
    operands = [x, w]
    if bias == "steps":
        integers = np.array([300, -300, 5, 0], np.int32)
        operands.append(graph.add("DequantizeLinear", integers, scale * parameters[0], axis=0))
    elif bias == "floats":
        operands.append(graph.constant(np.array([0.1234, -7.7, 1e-6, 3], np.float32)))
    return graph, graph.add("Conv", *operands, pads=list(pads))


OPEN: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "MatMul": ("x [n, t, 64]", (64, 48), (2, 7, 64)),
    "Conv <pads = [1, 1, 1, 1]>": ("x [n, 8, h, v]", (16, 8, 3, 3), (2, 8, 5, 6)),
}


@pytest.mark.parametrize("operator", OPEN)
def test_bytes_of_open_sizes_are_multiplied(operator: str):
    runtime = pytest.importorskip("onnxruntime")
    declared, filters, sizes = OPEN[operator]
    name, _, dimensions = declared.partition(" ")
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> g (float{dimensions} {name}) => (y)
        <float s = {{0.03}}, uint8 z = {{120}}, float u = {{0.02}}, int8 o = {{0}},
         float r = {{0.2}}>
        {{ a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = DequantizeLinear(w, u, o)
           d = {operator} (b, c) e = QuantizeLinear(d, r, z) y = DequantizeLinear(e, r, z) }}"""
    )
    weights = onnx.numpy_helper.from_array(numbers(np.int8, *filters), "w")
    model.graph.initializer.append(weights)
    x = floats(*sizes)
    session = runtime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    program = compile_model(
        import_onnx(onnx.shape_inference.infer_shapes(model), dynamic=True), "lavapipe"
    )
    assert [layer.path for layer in program.layers][-1] == "cooperative-matrix"
    steps = np.round((program(x=x) - expected) / np.float32(0.2))
    assert np.abs(steps).max() <= 1
    assert np.mean(steps != 0) <= 0.02


def test_zero_points_from_data_are_padded():
    """A convolution of bytes pads with a zero point that is computed at run time."""
    graph = Graph()
    x, _, zero = graph.add("DynamicQuantizeLinear", floats(1, 8, 6, 6), results=3)
    weights = graph.constant(numbers(np.int8, 16, 8, 3, 3))
    y = graph.add("ConvInteger", x, weights, zero, pads=[1, 0, 1, 1])
    model = typed(graph.model(y), np.zeros((1, 16, 6, 5), np.int32))
    program = compile_model(import_onnx(model), "lavapipe")
    assert [layer.types for layer in program.layers if "coop" in layer.path] == ["s8 x s8 -> s32"]


# onnxruntime's own operators


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
def test_pointwise(kind: str, dtype: DTypeLike):
    graph = Graph()
    y = graph.add(
        kind,
        numbers(dtype, 2, 3, 4),
        np.float32(0.0313),
        zero_point(dtype, "middle"),
        numbers(dtype, 3, 1, seed=1),
        np.float32(0.0479),
        zero_point(dtype, "greatest"),
        np.float32(0.06),
        zero_point(dtype, "middle"),
        domain=MICROSOFT,
    )
    results, expected = graph.run(y)
    assert steps_apart(results[0], expected[0]) <= 1


UNARY: dict[str, dict[str, Any]] = {
    "QLinearSigmoid": {},
    "QLinearLeakyRelu": {"alpha": 0.3},
    "QLinearSoftmax": {"axis": 1, "opset": 12},
    "QLinearSoftmax ": {"axis": -1, "opset": 13},
    "QLinearGlobalAveragePool": {"channels_last": 0},
    "QLinearGlobalAveragePool ": {"channels_last": 1},
    "QLinearAveragePool": {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]},
    "QLinearAveragePool ": {"kernel_shape": [2, 2], "strides": [2, 1], "channels_last": 1},
}


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str, dtype: DTypeLike):
    graph = Graph(known=True)
    graph.inputs["x"] = numbers(dtype, 1, 4, 5, 6)
    scale = 1 / 256 if "max" in kind or "Sigmoid" in kind else 0.029
    zero = zero_point(dtype, "least" if "max" in kind or "Sigmoid" in kind else "middle")
    parameters = np.float32(0.03), zero_point(dtype, "middle"), np.float32(scale), zero
    y = graph.add(kind.strip(), "x", *parameters, domain=MICROSOFT, **UNARY[kind])
    results, expected = graph.run(y)
    assert steps_apart(results[0], expected[0]) <= 1


def test_concat_and_where():
    graph = Graph(known=True)
    graph.inputs |= {"a": numbers(np.uint8, 2, 3), "b": numbers(np.uint8, 2, 3, seed=1)}
    graph.inputs["condition"] = np.array([[True, False, True]])
    a = "a", np.float32(0.05), np.uint8(3)
    b = "b", np.float32(0.02), np.uint8(200)
    of_result = np.float32(0.06), np.uint8(100)
    both = graph.add("QLinearConcat", *of_result, *a, *b, axis=-1, domain=MICROSOFT)
    chosen = graph.add("QLinearWhere", "condition", *a, *b, *of_result, domain=MICROSOFT)
    results, expected = graph.run(both, chosen)
    assert steps_apart(results[0], expected[0]) <= 1
    assert steps_apart(results[1], expected[1]) <= 1


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_products_to_floats(known: bool, bias: bool):
    graph = Graph(known=known)
    graph.inputs |= {"x": numbers(np.uint8, 2, 3, 5), "f": floats(3, 5)}
    weights, zeros = numbers(np.int8, 5, 4, seed=1), numbers(np.int8, 4)
    more = [floats(4)] if bias else []
    scales = np.float32(0.02), positive(4)
    y = graph.add(
        "MatMulIntegerToFloat", "x", weights, *scales, np.uint8(7), zeros, *more, domain=MICROSOFT
    )
    z = graph.add("DynamicQuantizeMatMul", "f", weights, scales[1], zeros, *more, domain=MICROSOFT)
    for result, expected in zip(*graph.run(y, z), strict=True):
        assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_qgemm(transposed: bool, quantized: bool):
    graph = Graph(known=True)
    graph.inputs["x"] = numbers(np.uint8, 5, 3) if transposed else numbers(np.uint8, 3, 5)
    weights = numbers(np.int8, 4, 5) if transposed else numbers(np.int8, 5, 4)
    y = graph.add(
        "QGemm",
        "x",
        np.float32(0.02),
        np.uint8(100),
        weights,
        positive(4),
        np.zeros(4, np.int8),
        np.array([100, -100, 7, 0], np.int32),
        *((np.float32(1.5), np.uint8(9)) if quantized else ()),
        domain=MICROSOFT,
        transA=int(transposed),
        transB=int(transposed),
        alpha=0.5,
    )
    (result,), (expected,) = graph.run(y)
    if quantized:
        assert steps_apart(result, expected) <= 1
    else:
        assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, "none"), (4, "packed"), (4, "floats"), (8, "none"), (8, "packed")]
)
def test_weights_of_few_bits(bits: int, zeros: str, known: bool):
    """Blocks have 16 elements, except the last one, which has 8."""
    k, n, size = 40, 6, 16
    graph = Graph(known=known)
    graph.inputs["x"] = floats(2, 3, k)
    operands: list[Any] = [numbers(np.uint8, n, 3, size * bits // 8), positive(n * 3)]
    if zeros == "packed":
        operands.append(numbers(np.uint8, n * (2 if bits == 4 else 3), seed=1))
    elif zeros == "floats":
        operands.append(floats(n * 3))
    y = graph.add(
        "MatMulNBits", "x", *operands, domain=MICROSOFT, K=k, N=n, bits=bits, block_size=size
    )
    (result,), (expected,) = graph.run(y)
    assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_gathered_rows_are_dequantized(bits: int, zeros: bool):
    graph = Graph(known=True)
    graph.inputs["i"] = np.array([[3, 0], [-1, 2]], np.int64)
    table = numbers(np.uint8, 5, 32 * bits // 8)
    operands = [positive(5, 2), *([numbers(np.uint8, 5, 2 * bits // 8)] if zeros else [])]
    y = graph.add(
        "GatherBlockQuantized", table, "i", *operands, domain=MICROSOFT, bits=bits, block_size=16
    )
    (result,), (expected,) = graph.run(y)
    assert np.array_equal(result, expected)


def test_scales_that_do_not_fit_are_refused():
    graph = Graph()
    y = graph.add("DequantizeLinear", numbers(np.int8, 2, 3), positive(4), axis=1)
    model = typed(graph.model(y), np.zeros((2, 3), np.float32))
    with pytest.raises(FrontendError, match="4 scales for 3 indices of axis 1"):
        import_onnx(model)
