"""Mixtures of experts give onnxruntime's results, or numpy's if onnxruntime has no kernel."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import xdsl_spirv as xs
from xdsl_spirv.compiler.model import run_reference
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.differential.onnx_references import run_onnxruntime

if TYPE_CHECKING:
    from onnx import ModelProto


pytestmark = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx or onnxruntime is not installed",
)

GENERATOR = np.random.default_rng(11)
HIDDEN, INNER, EXPERTS = 32, 16, 5
SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1}
CLIPPED = {"activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 0.5}


def floats(*shape: int) -> Array:
    return (GENERATOR.standard_normal(shape) * 0.3).astype(np.float32)


def model_of(
    operator: str, x: Array, weights: list[Any], attributes: dict[str, Any], is_open: bool = False
) -> ModelProto:
    """Returns a model of one node. `is_open` makes the number of tokens dynamic."""
    onnx = import_module("onnx")
    helper = onnx.helper
    names = ["x", "router", *("" if w is None else f"w{i}" for i, w in enumerate(weights))]
    held = [
        onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights) if w is not None
    ]
    shapes: dict[str, list[Any]] = {
        "x": ["tokens", HIDDEN] if is_open else list(x.shape),
        "router": ["tokens" if is_open else x.size // HIDDEN, EXPERTS],
    }
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info(n, element, s) for n, s in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", element, None)]
    node = helper.make_node(operator, names, ["y"], name="it", domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", inputs, outputs, held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def results_of(model: ModelProto, x: Array, router: Array) -> tuple[Array, Array]:
    (result,) = run_reference(import_onnx(model), {"x": x, "router": router}).values()
    (expected,) = run_onnxruntime(model, {"x": x, "router": router})
    return result, expected


@pytest.mark.parametrize("tokens", [3, 40])
@pytest.mark.parametrize(
    "attributes",
    [
        {"k": 2},
        {"k": 1, "activation_type": "gelu", "normalize_routing_weights": 1},
        {"k": 5, "activation_type": "silu"},
        {"k": 2, "activation_type": "identity", "normalize_routing_weights": 1},
        {"k": 2, **SWIGLU},
        {"k": 3, **SWIGLU, **CLIPPED, "normalize_routing_weights": 1},
    ],
)
def test_experts_give_the_results_of_onnxruntime(attributes: dict[str, Any], tokens: int):
    rows = 2 * INNER if "swiglu_fusion" in attributes else INNER
    weights = [floats(EXPERTS, rows, HIDDEN), floats(EXPERTS, rows)]
    weights += [floats(EXPERTS, HIDDEN, INNER), floats(EXPERTS, HIDDEN)]
    x, router = floats(tokens, HIDDEN) * 3, floats(tokens, EXPERTS) * 3
    result, expected = results_of(model_of("MoE", x, weights, attributes), x, router)
    np.testing.assert_allclose(result, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
def test_gathered_weights_of_a_token_keep_their_type(target: str, tmp_path: Path):
    shapes = [(EXPERTS, INNER, HIDDEN), (EXPERTS, HIDDEN, INNER)]
    first, second, x = (floats(*shape).astype(np.float16) for shape in (*shapes, (3, HIDDEN)))
    router = floats(3, EXPERTS).astype(np.float16)
    model = model_of("MoE", x, [first, None, second], {"k": 2})
    import_module("onnx").save(model, tmp_path / "model.onnx")
    program = xs.compile(tmp_path / "model.onnx", target=target)
    matrices = {str(b.type) for b in program.manifest.buffers if len(b.shape) == 4}
    assert matrices == {"f16"}
    (result,) = run(program, {"x": x, "router": router}).values()
    wide = [values.astype(np.float32) for values in (x, router, first, second)]
    in_f32 = model_of("MoE", wide[0], [wide[2], None, wide[3]], {"k": 2})
    (expected,) = run_onnxruntime(in_f32, {"x": wide[0], "router": wide[1]})
    np.testing.assert_allclose(result, expected, atol=4e-3 * np.abs(expected).max())


def test_tokens_of_several_sequences():
    weights = [floats(EXPERTS, INNER, HIDDEN), None, floats(EXPERTS, HIDDEN, INNER)]
    x, router = floats(2, 7, HIDDEN), floats(14, EXPERTS) * 3
    result, expected = results_of(model_of("MoE", x, weights, {"k": 2}), x, router)
    np.testing.assert_allclose(result, expected, atol=2e-6)


def gate(x: Array, name: str) -> Array:
    return x / (1 + np.exp(-x)) if name in ("silu", "swiglu") else np.maximum(x, 0)


@pytest.mark.parametrize("activation", ["silu", "relu", "swiglu", "joined"])
def test_gates_beside_values(activation: str):
    """onnxruntime's CPU provider supports neither FC3 nor concatenated rows."""
    first, second, third = (
        floats(EXPERTS, *s) for s in ((INNER, HIDDEN), (HIDDEN, INNER), (INNER, HIDDEN))
    )
    weights: list[Any] = [first, None, second, None, third]
    attributes: dict[str, Any] = {"k": EXPERTS, "activation_type": activation}
    if activation == "joined":
        weights = [np.concatenate([first, third], 1), None, second]
        attributes |= {"activation_type": "swiglu", "swiglu_fusion": 2}
    x, router = floats(4, HIDDEN), floats(4, EXPERTS)
    powers = np.exp(router)
    expected = np.zeros_like(x)
    for expert in range(EXPERTS):
        name = "swiglu" if activation == "joined" else activation
        hidden = gate(x @ first[expert].T, name) * (x @ third[expert].T)
        expected += (powers / powers.sum(1, keepdims=True))[:, [expert]] * (
            hidden @ second[expert].T
        )
    model = import_onnx(model_of("MoE", x, weights, attributes))
    (result,) = run_reference(model, {"x": x, "router": router}).values()
    np.testing.assert_allclose(result, expected, atol=1e-5)


def pack(codes: Array, bits: int) -> Array:
    """Packs several codes per byte along the last dimension. Rows start at a byte."""
    count = 8 // bits
    beyond = -codes.shape[-1] % count
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, beyond)])
    parts = [codes[..., i::count] << (i * bits) for i in range(count)]
    return np.bitwise_or.reduce(parts).astype(np.uint8)


def draw_codes(rows: int, columns: int, bits: int, size: int, zeros: bool) -> list[Any]:
    """
    Returns random packed weights of `bits` bits, and their scales and zero points: one per row, or
    one per block of `size` columns.
    """
    blocks = columns // size if size else 1
    codes = GENERATOR.integers(0, 1 << bits, (EXPERTS, rows, columns))
    scales = GENERATOR.uniform(0.1, 1, (EXPERTS, rows, blocks)).astype(np.float32) / (1 << bits)
    middles = GENERATOR.integers(0, 1 << bits, (EXPERTS, rows, blocks))
    if not size:
        scales, middles = scales[..., 0], middles[..., 0]
    return [pack(codes, bits), scales, pack(middles, bits) if zeros else None]


@pytest.mark.parametrize("tokens", [3, 40])
@pytest.mark.parametrize(
    ("bits", "size", "zeros", "bound"),
    [
        (4, 0, False, 2e-6),
        (8, 0, True, 2e-6),
        (4, 0, True, 2e-6),
        (4, 16, True, 2e-6),
        (4, 32, False, 2e-6),
        # onnxruntime rounds activations to bytes here, which the operator's specification allows.
        (8, 16, True, 3e-2),
    ],
)
def test_weights_of_few_bits(bits: int, size: int, zeros: bool, bound: float, tokens: int):
    first, scales1, zeros1 = draw_codes(2 * INNER, HIDDEN, bits, size, zeros)
    second, scales2, zeros2 = draw_codes(HIDDEN, INNER, bits, size if size < 32 else 16, zeros)
    if size == 32:
        second, scales2, zeros2 = draw_codes(HIDDEN, 32, bits, size, zeros)
        first, scales1, zeros1 = draw_codes(64, HIDDEN, bits, size, zeros)
    rows = first.shape[1]
    weights = [first, scales1, floats(EXPERTS, rows), second, scales2, floats(EXPERTS, HIDDEN)]
    weights += [None, None, None, zeros1, zeros2]
    attributes = {"k": 2, **SWIGLU, "normalize_routing_weights": 1, "expert_weight_bits": bits}
    attributes |= {"block_size": size} if size else {}
    x, router = floats(tokens, HIDDEN), floats(tokens, EXPERTS) * 3
    result, expected = results_of(model_of("QMoE", x, weights, attributes), x, router)
    assert np.abs(result - expected).max() <= bound * np.abs(expected).max()


@pytest.mark.parametrize("normalized", [0, 1])
def test_weights_of_results_beside_the_logits(normalized: int):
    first, scales1, _ = draw_codes(INNER, HIDDEN, 4, 0, False)
    second, scales2, _ = draw_codes(HIDDEN, INNER, 4, 0, False)
    x, router = floats(6, HIDDEN), floats(6, EXPERTS)
    weights = [first, scales1, None, second, scales2, *[None] * 7, np.abs(floats(6, EXPERTS))]
    attributes = {"k": 3, "activation_type": "silu", "normalize_routing_weights": normalized}
    result, expected = results_of(model_of("QMoE", x, weights, attributes), x, router)
    np.testing.assert_allclose(result, expected, atol=2e-6)


def test_a_program_keeps_weights_packed(tmp_path: Path):
    first, scales1, _ = draw_codes(2 * INNER, HIDDEN, 4, 0, False)
    second, scales2, _ = draw_codes(HIDDEN, INNER, 4, 0, False)
    x = floats(2, HIDDEN)
    attributes = {"k": 2, **SWIGLU, "normalize_routing_weights": 1}
    weights = [first, scales1, None, second, scales2]
    model = model_of("QMoE", x, weights, attributes, is_open=True)
    import_module("onnx").save(model, tmp_path / "model.onnx")
    program = xs.compile(tmp_path / "model.onnx", target="lavapipe", dims={"tokens": None})
    held = sum(weights.nbytes for weights in program.weights.values())
    assert held < 1.5 * sum(part.nbytes for part in (first, second, scales1, scales2))
    for tokens in (2, 40):
        x, router = floats(tokens, HIDDEN), floats(tokens, EXPERTS)
        (result,) = run(program, {"x": x, "router": router}).values()
        (expected,) = run_onnxruntime(model, {"x": x, "router": router})
        np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"k": 6}, "k is 6, but there are 5 experts"),
        ({"k": 1, "activation_type": "tanh"}, "activation_type is 'tanh'"),
        ({"k": 1, "activation_type": "swiglu"}, "there is no FC3"),
        ({"k": 1, **SWIGLU, "swiglu_fusion": 3}, "swiglu_fusion is 3"),
        ({"k": 1, "use_sparse_mixer": 1}, "use_sparse_mixer"),
    ],
)
def test_other_attributes_are_refused(attributes: dict[str, Any], message: str):
    x = floats(2, HIDDEN)
    weights = [floats(EXPERTS, INNER, HIDDEN), None, floats(EXPERTS, HIDDEN, INNER)]
    with pytest.raises(FrontendError, match=message):
        import_onnx(model_of("MoE", x, weights, attributes))


def test_weights_of_other_kinds_are_refused():
    known = {"k": 1, "normalize_routing_weights": 1}
    first, scales1, _ = draw_codes(INNER, HIDDEN, 4, 0, False)
    second, scales2, _ = draw_codes(HIDDEN, INNER, 4, 0, False)
    weights = [first, scales1, None, second, scales2]
    model = model_of("QMoE", floats(2, HIDDEN), weights, {**known, "expert_weight_bits": 3})
    with pytest.raises(FrontendError, match="weights of 3 bits"):
        import_onnx(model)
    model = model_of("QMoE", floats(2, HIDDEN), weights, {**known, "quant_type": "fp4"})
    with pytest.raises(FrontendError, match="use quant_type = 'int'"):
        import_onnx(model)
    model = model_of("QMoE", floats(2, HIDDEN), weights, {**known, "block_size": 20})
    with pytest.raises(
        FrontendError, match="32 elements of 4 bits do not divide into blocks of 20"
    ):
        import_onnx(model)
    model = model_of("QMoE", floats(2, HIDDEN), weights, {"k": 1})
    with pytest.raises(FrontendError, match="normalize_routing_weights is 0"):
        import_onnx(model)
