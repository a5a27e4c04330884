"""Records of the com.microsoft operators that onnxruntime's optimizer and tools write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdsl_spirv.testing.differential.onnx_draws import Draw, Operand
from xdsl_spirv.testing.differential.onnx_operators import record
from xdsl_spirv.testing.differential.onnx_operators_more import products, spatial, window
from xdsl_spirv.testing.differential.onnx_operators_rest import given, scale, zero_point
from xdsl_spirv.testing.differential.onnx_references import CONTRIB, NotComputed


def contrib(names: str, draw: Callable[[Draw], Any], bound: str = "sum") -> None:
    """Declares operators of onnxruntime. Their inputs are f32 if the operator allows it."""

    def of_f32(d: Draw) -> None:
        for position in range(len(d.schema.inputs)):
            if np.float32 in d.allowed(position):
                d.use(np.float32, position)
        draw(d)

    record(names, of_f32, bound, CONTRIB, chains=False)


def _bias(d: Draw) -> None:
    x = d.main(least=1, most=3)
    d.add(x, d.values(1, x.shape[-1:]) if d.name == "BiasGelu" or d.chance(0.6) else None)


def _matmul(d: Draw) -> None:
    a, b = products(d)
    if len(a) < 2 or len(b) < 2:
        raise NotComputed("products are only drawn for matrices")
    ta, tb = d.number(0, 1), d.number(0, 1)
    a, b = (*a[:-2], *(a[:-3:-1] if ta else a[-2:])), (*b[:-2], *(b[:-3:-1] if tb else b[-2:]))
    d.add(d.values(0, a), d.values(1, b), transA=ta, transB=tb, alpha=(0.5, -2.0))


def _gemm(d: Draw) -> None:
    a, b = products(d, batch=False)
    third = d.values(2, (b[1],)) if d.chance(0.6) else None
    d.add(
        d.values(0, a),
        d.values(1, b),
        third,
        activation=d.pick(("Relu", "Tanh", "LeakyRelu")),
        activation_alpha=(0.01,),
        alpha=(0.5,),
        beta=(2.0,),
    )


def _fused_conv(d: Draw) -> None:
    rank = d.number(1, 2)
    named = window(d, rank)
    x = d.values(0, (1, d.number(1, 3), *spatial(d, rank)))
    w = d.values(1, (d.number(1, 3), x.shape[1], *named["kernel_shape"]))
    activation = d.pick(("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid"))
    numbers = {"LeakyRelu": [0.2], "Clip": [-0.5, 1.0], "HardSigmoid": [0.2, 0.5]}
    d.add(
        x,
        w,
        d.values(2, w.shape[:1]) if d.chance(0.5) else None,
        activation=activation,
        activation_params=numbers.get(activation),
        **named,
    )


def _skip_norm(d: Draw) -> None:
    shape = (d.number(1, 2), d.number(1, 3), d.number(1, 8))
    last = shape[-1:]
    rest = [d.values(2, last) if d.chance(0.5) else None for _ in range(2)]
    if "Simplified" in d.name:
        rest = rest[:1]
    d.add(d.values(0, shape), d.values(0, shape), d.values(0, last), *rest, epsilon=(1e-5, 1e-2))


def _heads(d: Draw) -> tuple[int, int, int, int, int]:
    return d.number(1, 2), d.number(1, 2), d.number(1, 3), d.number(1, 4), 2 * d.number(1, 2)


def _attention(d: Draw) -> None:
    batch, heads, time, _, size = _heads(d)
    hidden = heads * size
    x = d.values(0, (batch, time, hidden))
    mask = None
    if d.chance(0.4):
        flags = np.ones((batch, time), np.int32)
        flags[:, time - d.number(0, time - 1) :] = 0
        mask = given(flags)
    d.add(
        x,
        d.values(1, (hidden, 3 * hidden)),
        d.values(2, (3 * hidden,)),
        mask,
        num_heads=heads,
        unidirectional=(0, 1),
        scale=(0.3,),
    )


def _multi_head(d: Draw) -> None:
    batch, heads, time, keys, size = _heads(d)
    hidden = heads * size
    shapes = [(batch, time, hidden), (batch, keys, hidden), (batch, keys, hidden)]
    bias = d.values(3, (3 * hidden,)) if d.chance(0.4) else None
    extra = d.values(5, (1, heads, time, keys)) if d.chance(0.3) else None
    d.add(*(d.values(0, s) for s in shapes), bias, None, extra, num_heads=heads, scale=(0.3,))


def _rotary(d: Draw) -> None:
    batch, heads, time, _, size = _heads(d)
    caches = [d.values(0, (4, size // 2)) for _ in range(2)]
    d.add(
        d.values(0, (batch, heads, time, size)),
        given(np.array([d.number(0, 1)])),
        *caches,
        interleaved=(0, 1),
    )


def _embed(d: Draw) -> None:
    batch, time, size = d.number(1, 2), d.number(1, 3), d.number(1, 6)
    ids = [d.values(0, (batch, time), 0, 3, np.int32) for _ in range(2)]
    tables = [d.values(2, (4, size)) for _ in range(3)]
    d.add(*ids, *tables, d.values(2, (size,)), d.values(2, (size,)), outputs=2)


def points(d: Draw) -> list[Operand]:
    """Returns a random scale and a random zero point."""
    return [scale(d), zero_point(d, d.dtype(0))]


def _byte_pair(d: Draw) -> None:
    x = d.values(0, d.shape(1, 3))
    y = d.values(0, d.narrowed(x.shape))
    d.add(x, *points(d), y, *points(d), *points(d))


def _byte_unary(d: Draw) -> None:
    named: dict[str, Any] = {}
    shape = d.shape(1, 3)
    if "Pool" in d.name:
        shape = (1, d.number(1, 2), *spatial(d, 2))
        named = {"kernel_shape": [2, d.number(1, 3)]} if "Average" in d.name else {}
        named = {} if "Global" in d.name else named
    d.add(d.values(0, shape), *points(d), *points(d), alpha=(0.1,), **named)


def _byte_softmax(d: Draw) -> None:
    shape = d.shape(1, 3)
    # onnxruntime multiplies by the integer part of 1 / scale here.
    result = given(np.float32(d.pick((1 / 256, 0.01, 0.5)))), zero_point(d, d.dtype(0))
    axis, opset = d.axis(len(shape)), d.pick((12, 13))
    d.add(d.values(0, shape), *points(d), *result, axis=axis, opset=opset)


def _byte_where(d: Draw) -> None:
    shape = d.shape(1, 3)
    x, y = d.values(1, shape), d.values(1, d.narrowed(shape))
    d.add(
        d.values(0, d.narrowed(shape)),
        x,
        scale(d),
        zero_point(d, d.dtype(1)),
        y,
        scale(d),
        zero_point(d, d.dtype(1)),
        scale(d),
        zero_point(d, d.dtype(1)),
    )


def _to_float(d: Draw) -> None:
    a, b = products(d, batch=False)
    if d.name == "DynamicQuantizeMatMul":
        zero = zero_point(d, d.dtype(1)) if d.chance(0.5) else None
        d.add(
            d.values(0, a),
            d.values(1, b),
            scale(d),
            zero,
            d.values(0, (b[1],)) if d.chance(0.5) else None,
        )
        return
    zeros = [zero_point(d, d.dtype(i)) if d.chance(0.5) else None for i in range(2)]
    d.add(
        d.values(0, a),
        d.values(1, b),
        scale(d),
        scale(d),
        *zeros,
        d.values(2, (b[1],)) if d.chance(0.5) else None,
    )


def _bits(d: Draw) -> None:
    block, rows, columns = 16, 16 * d.number(1, 2), d.number(1, 4)
    blocks = rows // block
    weights = d.rng.integers(0, 256, (columns, blocks, block // 2)).astype(np.uint8)
    zeros = d.rng.integers(0, 256, (columns * ((blocks + 1) // 2),)).astype(np.uint8)
    factors = d.values(2, (columns * blocks,), 0.01, 0.1)
    constants = [d.graph.constant(a) for a in (weights, factors.array)]
    d.add(
        d.values(0, (d.number(1, 3), rows)),
        *constants,
        d.graph.constant(zeros) if d.chance(0.5) else None,
        K=rows,
        N=columns,
        bits=4,
        block_size=block,
    )


def _quantize(d: Draw) -> None:
    x = d.values(0, d.shape())
    kind = d.dtype(0) if d.name == "DequantizeLinear" else np.dtype(d.pick((np.uint8, np.int8)))
    if d.name == "DequantizeLinear" and kind.itemsize > 1:
        raise NotComputed("DequantizeLinear is only drawn for 8-bit types")
    d.add(x, scale(d), zero_point(d, kind))


contrib("Gelu QuickGelu", lambda d: d.add(d.main(), alpha=(1.702, 1.0)))
contrib("BiasGelu FastGelu", _bias)
contrib("FusedMatMul TransposeMatMul", _matmul)
contrib("FusedGemm", _gemm)
contrib("FusedConv", _fused_conv)
contrib("SkipLayerNormalization SkipSimplifiedLayerNormalization", _skip_norm)
contrib("EmbedLayerNormalization", _embed)
contrib("Attention", _attention)
contrib("MultiHeadAttention", _multi_head)
contrib("RotaryEmbedding", _rotary)
contrib(
    "ExpandDims",
    lambda d: d.add(d.main(1, 3), d.graph.constant(np.array(d.number(0, 1), np.int32))),
)
contrib(
    "CDist",
    lambda d: d.add(
        d.values(0, (3, 4)), d.values(0, (d.number(1, 3), 4)), metric=("euclidean", "sqeuclidean")
    ),
)
contrib("QLinearAdd QLinearMul", _byte_pair, "step")
contrib(
    "QLinearSigmoid QLinearLeakyRelu QLinearAveragePool QLinearGlobalAveragePool",
    _byte_unary,
    "step",
)
contrib("QLinearSoftmax", _byte_softmax, "step")
contrib("QLinearWhere", _byte_where, "step")
contrib("MatMulIntegerToFloat", _to_float)
contrib("DynamicQuantizeMatMul", _to_float)
contrib("MatMulNBits", _bits)
contrib("QuantizeLinear", _quantize, "step")
contrib("DequantizeLinear", _quantize)

WITHOUT_KERNEL = (
    "BiasAdd BiasDropout BiasSoftmax BiasSplitGelu ComplexMul ComplexMulConj FusedMatMulActivation "
    "GemmFastGelu GroupNorm SkipGroupNorm IsAllFinite MulInteger NhwcConv NhwcFusedConv Rfft Irfft "
    "LayerNormalization QLinearReduceMean ReduceSumInteger RelativePositionBias "
    "SimplifiedLayerNormalization"
)
NHWC = (
    "AveragePool BatchNormalization Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool "
    "GlobalMaxPool InstanceNormalization LRN LpPool MaxPool SpaceToDepth"
)
ML = (
    "ArrayFeatureExtractor Binarizer LinearClassifier LinearRegressor Normalizer SVMClassifier "
    "SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor"
)
ELSEWHERE = (
    "ConvTransposeWithDynamicPads CropAndResize DecoderMaskedMultiHeadAttention "
    "DynamicQuantizeLSTM GatherBlockQuantized GroupQueryAttention MoE NhwcMaxPool Pad QAttention "
    "QGemm QLinearConcat QLinearConv Range Trilu GridSample GatherND Unique UnfoldTensor Inverse "
    "MatMulInteger16 QMoE"
)
EXCEPTIONS: dict[tuple[str, str], str] = {
    **{(CONTRIB, n): "onnxruntime has no kernel on the CPU" for n in WITHOUT_KERNEL.split()},
    **{("com.ms.internal.nhwc", n): "onnxruntime has no kernel on the CPU" for n in NHWC.split()},
    **{("ai.onnx.ml", n): "tests/frontends/test_onnx_classical.py covers it" for n in ML.split()},
    **{(CONTRIB, n): "tests/frontends compares it with onnxruntime" for n in ELSEWHERE.split()},
}
"""Maps operators that the importer supports but random graphs do not contain to the reason."""
