"""
onnxruntime's own operators give onnxruntime's results.

Operators without a CPU kernel in onnxruntime are compared with numpy.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.model import compile_model, run_reference
from xdsl_spirv.dialects.schedule import AttentionOp
from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.frontends.onnx.importer import import_onnx
from xdsl_spirv.frontends.onnx.registry import registered
from xdsl_spirv.runtime.modules import context
from xdsl_spirv.testing.differential.onnx_references import run_onnxruntime
from xdsl_spirv.testing.single_nodes import Array, declare_results
from xdsl_spirv.testing.single_nodes import NodeCase as Case

pytestmark = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx or onnxruntime is not installed",
)

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = np.random.default_rng(7)


def normal(*shape: int, dtype: DTypeLike = np.float32) -> Array:
    return GENERATOR.standard_normal(shape).astype(dtype)


def integers(low: int, high: int, shape: tuple[int, ...], dtype: DTypeLike = np.int32) -> Array:
    return GENERATOR.integers(low, high, shape).astype(dtype)


X = normal(2, 3, 8)
BERT = {"num_heads": 2}
WEIGHTS, BIAS = normal(8, 24) / 3, normal(24)
HEADS = [normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8)]
SELF = [normal(2, 3, 8) for _ in range(3)]
PAST = [normal(2, 2, 4, 4), normal(2, 2, 4, 4)]
MASK = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
IMAGE, KERNEL = normal(1, 4, 6, 5), normal(6, 4, 3, 3)
REGIONS = np.array([[0.1, 0.2, 0.9, 0.7], [-0.1, 0, 0.5, 1.2], [1, 1, 0, 0]], np.float32)
ANGLES = [np.cos(normal(9, 2)), np.sin(normal(9, 2))]


def attention_cases() -> list[Case]:
    def fused(title: str, *more: Array | None, **attributes: Any) -> Case:
        given = [X, WEIGHTS, BIAS, *more]
        return Case("Attention", given, BERT | attributes, (1, 2), title=title)

    several = integers(0, 2, (2, 3, 3))
    past = normal(2, 2, 2, 4, 4)
    with_past = fused("past", None, past, unidirectional=1)
    with_past.outputs = (0, 1)
    masked_past = fused("past-mask", integers(0, 2, (2, 7)), past, unidirectional=1)
    masked_past.outputs = (0, 1)
    sizes = {"qkv_hidden_sizes": [8, 8, 4]}

    def without_bias(x: Array, weights: Array) -> list[Array]:
        case = Case("Attention", [x, weights, np.zeros_like(BIAS)], BERT, (1, 2))
        return run_onnxruntime(case.model(), case.name_inputs())

    return [
        fused("plain"),
        fused("mask", MASK),
        fused("hidden", np.zeros((2, 3), np.int32), mask_filter_value=-3.4028234663852886e38),
        fused("mask-3d", several),
        fused("lengths", np.array([2, 3], np.int32)),
        fused("ends", np.array([2, 3, 1, 0], np.int32)),
        fused("bias", MASK, None, normal(2, 2, 3, 3), scale=0.7),
        fused("bias-of-all", None, None, normal(1, 1, 3, 3)),
        fused("causal", None, unidirectional=1),
        fused("causal-mask", MASK, unidirectional=1),
        with_past,
        masked_past,
        Case("Attention", [X, WEIGHTS[:, :20], BIAS[:20]], BERT | sizes, (1, 2)),
        # Some builds of onnxruntime crash without a bias.
        Case("Attention", [X, WEIGHTS], BERT, title="no-bias", expected=without_bias),
    ]


def multi_head_cases() -> list[Case]:
    def of(title: str, given: list[Array | None], outputs: Any = (0,), **attributes: Any) -> Case:
        return Case("MultiHeadAttention", given, BERT | attributes, outputs=outputs, title=title)

    heads: list[Array | None] = [*HEADS]
    own: list[Array | None] = [*SELF]
    keys = integers(0, 2, (2, 5))
    packed = np.stack([t.reshape(2, 5, 2, 4) for t in HEADS[1:]], 3)
    apart = [t.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3).copy() for t in HEADS[1:]]
    cross = [HEADS[0], *apart]
    decoder: list[Array | None] = [*(t[:, :1].copy() for t in SELF), None, None, *PAST]
    return [
        of("cross", heads),
        of("bias", [*heads, BIAS]),
        of("mask", [*heads, None, keys]),
        of("lengths", [*heads, None, np.array([2, 5], np.int32)]),
        of("mask-3d", [*heads, None, integers(0, 2, (2, 3, 5))]),
        of("added", [*heads, None, None, normal(1, 2, 3, 5)], scale=2.0),
        of("nothing-seen", [*own, None, None, np.full((1, 1, 3, 3), -np.inf, np.float32)]),
        of("past", [*own, None, None, None, *PAST], (0, 1, 2)),
        of("past-bias-mask", [*own, BIAS, integers(0, 2, (2, 7)), None, *PAST], (0, 1, 2)),
        of("causal", own, unidirectional=1),
        of("causal-past", [*own, None, None, None, *PAST], (0, 1, 2), unidirectional=1),
        alike(of("packed-kv", [HEADS[0], packed, None]), of("", heads)),
        of("heads", [*cross]),
        of("heads-bias", [*cross, BIAS]),
        alike(of("packed", [np.stack([t.reshape(2, 3, 2, 4) for t in SELF], 3)]), of("", own)),
        alike(
            Case("DecoderMaskedMultiHeadAttention", decoder, BERT, outputs=(0, 1, 2)),
            of("", [*decoder[:3], None, None, None, *PAST], (0, 1, 2)),
        ),
    ]


def alike(case: Case, other: Case) -> Case:
    """
    Returns `case`, whose operator onnxruntime cannot run. The expected result is onnxruntime's
    result of `other`.
    """
    case.expected = lambda *_: run_onnxruntime(other.model(), other.name_inputs())
    return case


def group_query_cases() -> list[Case]:
    def of(
        title: str, length: int, lengths: list[int], total: int, past: int | None, **given: Any
    ) -> Case:
        before = [None if past is None else normal(2, 2, past, 16) for _ in range(2)]
        sizes = {"num_heads": 4, "kv_num_heads": 2}
        inputs: list[Array | None] = [
            normal(2, length, 64), normal(2, length, 32), normal(2, length, 32), *before,
            np.array(lengths, np.int32), np.array(total, np.int32), *given.pop("more", ()),
        ]  # fmt: skip
        return Case(
            "GroupQueryAttention", inputs, sizes | given, (6,), outputs=(0, 1, 2), title=title
        )

    sink = normal(4)
    packed = of("packed", 3, [2, 2], 3, None)
    packed.inputs[:3] = [np.concatenate([x for x in packed.inputs[:3] if x is not None], 2), None]
    packed.inputs.insert(2, None)
    angles = [np.cos(normal(9, 8)), np.sin(normal(9, 8))]
    rotary: dict[str, Any] = {"do_rotary": 1, "more": angles}
    return [
        of("prompt", 3, [2, 2], 3, None),
        of("all", 3, [2, 2], 3, None, causal=0),
        of("window", 5, [4, 4], 5, None, local_window_size=2),
        of("cap", 3, [2, 2], 3, None, softcap=2.0, scale=0.3),
        of("smooth", 3, [2, 2], 3, None, smooth_softmax=1),
        of("sink", 3, [2, 2], 3, None, more=[None, None, None, None, sink]),
        of(
            "nothing-seen",
            3,
            [2, 2],
            3,
            None,
            more=[None, None, None, np.full((1, 1, 3, 3), -np.inf, np.float32)],
        ),
        of("added", 3, [2, 2], 3, None, more=[None, None, None, normal(1, 1, 3, 3)]),
        of("rotary", 3, [2, 2], 3, None, **rotary),
        of("interleaved", 3, [2, 2], 3, None, rotary_interleaved=1, **rotary),
        of("token", 1, [4, 4], 5, 4, **rotary),
        of("buffer", 1, [4, 4], 5, 8),
        of("window-token", 1, [4, 4], 5, 4, local_window_size=3),
        packed,
    ]


def rotary_cases() -> list[Case]:
    places = np.array([[3, 0, 5], [1, 7, 8]])
    given = [*ANGLES]
    four = normal(2, 2, 3, 4)
    part_of = {"rotary_embedding_dim": 4, "num_heads": 2}
    kind = "RotaryEmbedding"
    return [
        Case(kind, [four, places, *given]),
        Case(kind, [four, places, *given], {"interleaved": 1}),
        Case(kind, [normal(2, 3, 8), np.array([2]), *given], title="from"),
        Case(kind, [normal(2, 3, 16), places, *given], part_of, title="part"),
    ]


def linear_cases() -> list[Case]:
    four = normal(2, 3, 4, 5)
    conv = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3], "strides": [1, 2]}
    activations: list[tuple[str, list[float]]] = [
        ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.7]),
        ("HardSigmoid", [0.3, 0.4]),
    ]  # fmt: skip
    gemm = {"alpha": 0.5, "beta": 2.0, "transA": 1, "transB": 1, "activation": "LeakyRelu"}
    cases = [
        Case("FusedConv", [IMAGE, KERNEL, normal(6)], conv | _activation(name, parameters), (1, 2))
        for name, parameters in activations
    ]
    z = normal(1, 6, 6, 3)
    cases += [
        Case("FusedConv", [IMAGE, KERNEL, None, z], conv | {"activation": "Relu"}, title="z"),
        Case("FusedConv", [normal(1, 4, 6), normal(4, 1, 3)], {"group": 4}, title="deep"),
        Case(
            "FusedGemm", [normal(4, 3), normal(5, 4), normal(5)], gemm | {"activation_alpha": 0.2}
        ),
        Case("FusedGemm", [normal(3, 4), normal(4, 5)], {"activation": "Relu"}),
        Case("TransposeMatMul", [normal(4, 3), normal(5, 4)], {"transA": 1, "transB": 1}),
        Case("FusedMatMul", [normal(4), normal(4, 5)], {"alpha": 3.0, "transA": 1}, title="vector"),
    ]
    turned = [(a, c, d, e) for a in (0, 1) for c in (0, 1) for d in (0, 1) for e in (0, 1)]
    for a, c, d, e in turned:
        names = ("transA", "transB", "transBatchA", "transBatchB")
        flags = {n: v for n, v in zip(names, (a, c, d, e), strict=True) if v}
        # Rows x columns of the product, then transposed according to the flags.
        x, y = four, normal(2, 3, 5, 6)
        x, y = (t.swapaxes(2, 3) if f else t for t, f in ((x, a), (y, c)))
        x, y = (t.transpose(2, 0, 1, 3) if f else t for t, f in ((x, d), (y, e)))
        both = [np.ascontiguousarray(x), np.ascontiguousarray(y)]
        cases.append(Case("FusedMatMul", both, {"alpha": 0.25, **flags}))
    return cases


def _activation(name: str, parameters: list[float]) -> dict[str, Any]:
    return {"activation": name} | ({"activation_params": parameters} if parameters else {})


def elementwise_cases() -> list[Case]:
    edges = np.array([0.0, -0.0, 30, -30, 1e-30, np.inf, np.nan, 0.5], np.float32)
    half = normal(2, 3, 8, dtype=np.float16)
    return [
        Case("Gelu", [edges]),
        Case("Gelu", [X]),
        Case("FastGelu", [X]),
        Case("FastGelu", [X, normal(8)], title="bias"),
        Case("BiasGelu", [X, normal(8)]),
        Case("QuickGelu", [X]),
        Case("QuickGelu", [X], {"alpha": -1.0}),
        Case("Trilu", [normal(3, 4), np.array(-1)], {"upper": 0}, (1,)),
        Case("ExpandDims", [X, np.array(-2, np.int32)], constant=(1,)),
        Case("GatherND", [normal(3, 4), integers(-3, 3, (2, 2), np.int64)]),
        Case("Pad", [X, np.array([0, 1, 2, 1, 0, -1]), np.array([2.5], np.float32)], {}, (1, 2)),
        Case("UnfoldTensor", [X], {"dim": 2, "size": 3, "step": 2}),
        Case("UnfoldTensor", [X], {"size": 8}),
        Case("GridSample", [IMAGE, normal(1, 3, 2, 2)], {"padding_mode": "border"}),
        Case("CDist", [normal(3, 4), normal(5, 4)], {"metric": "euclidean"}),
        Case("CDist", [normal(3, 4), normal(5, 4)]),
        Case("Inverse", [normal(1, 3, 3)]),
        Case("Inverse", [np.array([[0, 2], [1, 1]], np.float32)]),
        Case("CropAndResize", [IMAGE, REGIONS, np.zeros(3, np.int32), np.array([3, 1], np.int32)],
             {"extrapolation_value": 7.0}, (3,)),
        Case("CropAndResize", [IMAGE, REGIONS, np.zeros(3, np.int32), np.array([1, 4], np.int32)],
             {"mode": "nearest"}, (3,)),
        Case("Range", [np.array(2), np.array(9), np.array(3)], constant=(0, 1, 2)),
        Case(
            "BiasAdd", [X, normal(8), normal(2, 3, 8)],
            expected=lambda x, bias, skip: x + bias + skip,
        ),
        Case("BiasSplitGelu", [half, normal(8, dtype=np.float16)], expected=_split_gelu),
        Case(
            "ComplexMulConj", [normal(3, 2), normal(1, 2)],
            expected=lambda a, b: _parts(_complex(a) * _complex(b).conj()),
        ),
        Case(
            "ComplexMul", [normal(3, 2), normal(3, 2)],
            expected=lambda a, b: _parts(_complex(a) * _complex(b)),
        ),
        Case("Rfft", [normal(2, 10)], expected=lambda x: _parts(np.fft.rfft(x))),
        Case(
            "Irfft", [normal(2, 6, 2)], {"signal_ndim": 1},
            expected=lambda x: np.fft.irfft(_complex(x)),
        ),
        Case(
            "BiasSoftmax", [normal(2, 2, 3, 4), normal(2, 1, 1, 4)],
            {"axis": 3, "is_inner_broadcast": 1}, expected=lambda x, y: _softmax(x + y),
        ),
        Case(
            "MulInteger",
            [integers(0, 255, (3, 4), np.uint8), np.array(9, np.uint8),
             integers(0, 255, (4,), np.uint8), np.array(200, np.uint8)],
            expected=lambda x, p, y, q: (x.astype(np.int32) - p) * (y.astype(np.int32) - q),
        ),
        Case(
            "ReduceSumInteger", [integers(-128, 127, (3, 400), np.int8)],
            {"axes": [-1], "keepdims": 0}, expected=lambda x: x.sum(1, dtype=np.int32),
        ),
        Case(
            "IsAllFinite", [X, np.array([np.inf], np.float32)],
            expected=lambda x, y: np.array(False),
        ),
        Case(
            "IsAllFinite", [X, np.array([np.inf], np.float32)], {"isnan_only": 1},
            expected=lambda x, y: np.array(True),
        ),
        Case("BiasDropout", [X, normal(8), X], expected=lambda x, c, y: x + c + y),
    ]  # fmt: skip


def _complex(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1]


def _parts(x: Array) -> Array:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _split_gelu(x: Array, bias: Array) -> Array:
    import math

    left, right = np.split((x + bias).astype(np.float64), 2, -1)
    return (left * right * 0.5 * (1 + np.vectorize(math.erf)(right / 2**0.5))).astype(np.float16)


def _group_norm(x: Array, gamma: Array, beta: Array, skip: Any = 0, bias: Any = 0) -> list[Array]:
    """Returns silu of a group norm with 2 groups of channels, and the sum that is normalized."""
    total = x + skip + bias
    grouped = total.reshape(2, -1, 2, 2)
    moved = grouped - grouped.mean((1, 3), keepdims=True)
    normal = moved / np.sqrt((moved**2).mean((1, 3), keepdims=True) + 1e-5)
    scaled = normal.reshape(x.shape) * gamma + beta
    return [scaled / (1 + np.exp(-scaled)), total]


def normalization_cases() -> list[Case]:
    gamma, beta, bias = normal(8), normal(8), normal(8)
    half = [x.astype(np.float16) for x in (X, gamma)]
    words = integers(0, 9, (2, 3))
    tables = [normal(9, 8), normal(5, 8)]
    segments: list[Array | None] = [integers(0, 2, (2, 3)), *tables, normal(2, 8)]
    plain: list[Array | None] = [words, None, *tables, None, gamma, beta]
    norm = {"groups": 2, "activation": 1}
    image = normal(2, 3, 3, 4)
    scales = [normal(4), normal(4)]
    skips = [normal(2, 3, 8), normal(1, 3, 8), normal(3, 8)]
    return [
        Case("SimplifiedLayerNormalization", [X, gamma], {"epsilon": 1e-3}, domain=""),
        Case("SimplifiedLayerNormalization", half, domain="", title="half"),
        Case("SkipLayerNormalization", [X, skips[0], gamma]),
        *(Case("SkipLayerNormalization", [X, skip, gamma, beta, bias]) for skip in skips),
        Case("SkipLayerNormalization", [X, X, gamma, None, bias], outputs=(0, 3), title="sum"),
        Case("SkipSimplifiedLayerNormalization", [X, skips[0], gamma, bias], outputs=(0, 3)),
        Case("EmbedLayerNormalization", [words, *segments, gamma, beta], outputs=(0, 1)),
        Case("EmbedLayerNormalization", plain, {"epsilon": 0.5}, outputs=(0, 1)),
        Case("EmbedLayerNormalization", [*plain, MASK], outputs=(0, 1, 2), title="mask"),
        Case("EmbedLayerNormalization", [*plain, None, integers(0, 5, (1, 3))], outputs=(0, 1)),
        Case("GroupNorm", [image, *scales], norm, expected=lambda *x: _group_norm(*x)[:1]),
        Case(
            "SkipGroupNorm", [image, *scales, normal(2, 3, 3, 4), normal(4)], norm,
            outputs=(0, 1), expected=_group_norm,
        ),
    ]  # fmt: skip


CASES = [
    *attention_cases(),
    *multi_head_cases(),
    *group_query_cases(),
    *rotary_cases(),
    *linear_cases(),
    *elementwise_cases(),
    *normalization_cases(),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_gives_the_results_of_onnxruntime(case: Case):
    model = case.model()
    if case.expected is None:
        expected = run_onnxruntime(model, case.name_inputs())
    else:
        result = case.expected(*case.inputs)
        expected = result if isinstance(result, list) else [result]
    declare_results(model, expected)
    imported = import_onnx(model)
    imported.module.verify()
    results = run_reference(imported, case.name_inputs())
    for computed, truth in zip(results.values(), expected, strict=True):
        assert computed.dtype == truth.dtype
        assert computed.shape == truth.shape
        if truth.dtype.kind != "f":
            np.testing.assert_array_equal(computed, truth)
            continue
        tolerance = 4e-3 if truth.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(computed, truth, rtol=tolerance, atol=tolerance)


def images() -> list[Case]:
    window = {"pads": [1, 1, 1, 1], "strides": [2, 1], "activation": "Relu"}
    last = IMAGE.transpose(0, 2, 3, 1).copy()
    plain = Case("FusedConv", [IMAGE, KERNEL, normal(6)], window)
    weights = KERNEL.transpose(0, 2, 3, 1).copy()
    pool = {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1], "strides": [1, 2]}
    byte = integers(0, 255, last.shape, np.uint8)
    deep = {"group": 2, "strides": [2, 2], "output_padding": [1, 0], "dilations": [1, 2]}
    pads = np.array([1, 0, 0, 1])

    def channels_last(*_: Array) -> list[Array]:
        return [
            y.transpose(0, 2, 3, 1) for y in run_onnxruntime(plain.model(), plain.name_inputs())
        ]

    given = [last, KERNEL, plain.inputs[2]]
    quiet = {"pads": [1, 1, 1, 1], "strides": [2, 1]}
    return [
        Case("NhwcFusedConv", [*given], window, expected=channels_last),
        Case("NhwcMaxPool", [byte], pool),
        Case("ConvTransposeWithDynamicPads", [IMAGE, normal(4, 3, 3, 2), pads], deep, (2,)),
        Case("NhwcConv", [last, weights], quiet, expected=lambda x, w: _nhwc(quiet)),
        Case("NhwcConv", [last, KERNEL], quiet, expected=lambda x, w: _nhwc(quiet), title="first"),
        Case(
            "Conv", [last, KERNEL], quiet, domain="com.ms.internal.nhwc",
            expected=lambda x, w: _nhwc(quiet),
        ),
    ]  # fmt: skip


def _nhwc(window: dict[str, Any]) -> list[Array]:
    plain = Case("FusedConv", [IMAGE, KERNEL], window)
    return [y.transpose(0, 2, 3, 1) for y in run_onnxruntime(plain.model(), plain.name_inputs())]


def quantized_cases() -> list[Case]:
    x, w = integers(0, 255, (2, 3, 8), np.uint8), integers(-128, 127, (8, 24), np.int8)
    scale, columns = np.array(0.02, np.float32), np.abs(normal(24)) / 30
    zero, zeros = np.array(120, np.uint8), np.zeros(24, np.int8)
    past = normal(2, 2, 2, 4, 4)
    given = [x, w, BIAS, scale]
    causal = BERT | {"unidirectional": 1}

    def lstm(title: str, directions: int, gates: int, **attributes: Any) -> Case:
        sizes = (directions, gates) if gates > 1 else (directions,)
        whole = [integers(-128, 127, (directions, n, 16), np.int8) for n in (3, 4)]
        scales = [np.abs(GENERATOR.standard_normal(sizes)).astype(np.float32) / 40] * 2
        zeros = [np.zeros(sizes, np.int8)] * 2
        given = [normal(5, 1, 3), *whole, normal(directions, 32), None, None, None, None]
        given += [scales[0], zeros[0], scales[1], zeros[1]]
        places = (1, 2, 8, 9, 10, 11)
        options = {"hidden_size": 4} | attributes
        return Case("DynamicQuantizeLSTM", given, options, places, (0, 1, 2), title=title)

    return [
        lstm("plain", 1, 1),
        lstm("gates", 1, 16, direction="reverse"),
        lstm("both", 2, 16, direction="bidirectional", clip=0.5),
        Case("QAttention", [*given, scale, None, zero, np.array(0, np.int8)], BERT, (1,)),
        Case("QAttention", [*given, columns, MASK, zero, zeros], BERT, (1, 4), title="columns"),
        Case(
            "QAttention", [*given, scale, None, zero, np.array(3, np.int8), past], causal, (1,),
            (0, 1),
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("case", [*images(), *quantized_cases()], ids=str)
def test_an_operator_on_images_or_integers_gives_the_results_of_onnxruntime(case: Case):
    test_an_operator_gives_the_results_of_onnxruntime(case)


REFUSED = [
    (Case("Conv", [IMAGE, KERNEL], domain="com.microsoft.nchwc"), "ORT_ENABLE_EXTENDED"),
    (Case("Unique", [normal(3)]), "cut the model before"),
    (Case("PackedAttention", [X, WEIGHTS, BIAS], BERT), "MultiHeadAttention"),
    (Case("BiasGelu", [X, BIAS], {"else": 3}), "leave the attribute out"),
    (Case("Attention", [X, WEIGHTS], BERT | {"do_rotary": 1}), "RotaryEmbedding"),
    (Case("GroupQueryAttention", [X, X, X], BERT | {"kv_num_heads": 2}), "compare the node with"),
    (Case("NhwcConv", [normal(1, 6, 5, 3), normal(4, 3, 3, 3)]), "Transpose"),
    (Case("CDist", [X[0], X[1]], {"metric": "cosine"}), "euclidean"),
    (Case("NotThere", [X]), "replace the node"),
]


@pytest.mark.parametrize(("case", "remedy"), REFUSED, ids=lambda case: str(case)[:30])
def test_refusals_name_the_node_and_the_remedy(case: Case, remedy: str):
    model = case.model()
    declare_results(model, [X])
    with pytest.raises(FrontendError, match="'it'") as error:
        import_onnx(model)
    assert case.operator in str(error.value)
    assert remedy in str(error.value)


def half(*shape: int) -> Array:
    return normal(*shape, dtype=np.float16)


LONG = [half(1, 16, 32) for _ in range(3)]
RECOGNISED = [
    Case("Attention", [LONG[0], half(32, 96), half(96)], BERT, (1, 2)),
    Case("Attention", [LONG[0], half(32, 96), half(96), np.ones((1, 16), np.int32)], BERT, (1, 2)),
    Case("MultiHeadAttention", [*LONG], BERT),
    Case("MultiHeadAttention", [*LONG], BERT | {"unidirectional": 1}),
    Case(
        "GroupQueryAttention",
        [LONG[0], half(1, 16, 16), half(1, 16, 16), None, None, np.array([15], np.int32),
         np.array(16, np.int32)],
        {"num_heads": 4, "kv_num_heads": 2}, (6,), (0, 1, 2),
    ),
    Case("Attention", [half(1, 2, 16, 16)] * 3, {"is_causal": 1}, domain=""),
]  # fmt: skip


@pytest.mark.parametrize("case", RECOGNISED, ids=str)
def test_attention_is_recognised(case: Case):
    """Every attention operator becomes one operation of the schedule dialect."""
    model = case.model()
    if not case.domain:
        model.opset_import[0].version = 23
    kept = [np.zeros((1, 2, 16, 8), np.float16)] * (len(case.outputs) - 1)
    declare_results(model, [case.inputs[0], *kept])
    module = import_onnx(model).module
    spec = "linalg-to-contraction,form-attention{target=lavapipe}"
    PassPipeline.parse_spec(Universe.get_multiverse().all_passes, spec).apply(context(), module)
    assert sum(isinstance(op, AttentionOp) for op in module.walk()) == 1


def test_the_page_lists_the_operators():
    page = (ROOT / "docs/onnx.md").read_text()
    table = page.split("<!-- operators of com.microsoft -->")[1].split("<!-- end -->")[0]
    names = {entry.name for entry in registered() if entry.domain == "com.microsoft"}
    assert set(re.findall(r"`(\w+)`", table)) == names


@pytest.mark.parametrize("title", ["smooth", "sink"])
def test_sinks_are_a_part_of_attention(title: str):
    (case,) = (case for case in group_query_cases() if case.title == title)
    model = case.model()
    declare_results(model, run_onnxruntime(model, case.name_inputs()))
    program = compile_model(import_onnx(model), "lavapipe")
    assert [layer.path for layer in program.layers] == ["loops", "attention"]
