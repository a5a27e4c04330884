"""
Imports onnxruntime's operators, most of which its optimizer fuses from ONNX operators.

They are built from the functions of ONNX's operators, so that a model gives the same module before
and after optimization. `contrib_attention` and `contrib_norms` have more operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects import math
from xdsl.ir.affine import AffineDimExpr

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, exact_quotient
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators import (
    elementwise,
    indexing,
    products,
    quantized,
    reductions,
    shapes,
    transposed,
    windows,
)
from xdsl_spirv.frontends.onnx.operators.contrib_attention import MICROSOFT, part, plus
from xdsl_spirv.frontends.onnx.operators.contrib_norms import to_channels_first, to_channels_last
from xdsl_spirv.frontends.onnx.operators.elementwise import gelu, rounded_once
from xdsl_spirv.frontends.onnx.operators.recurrent import (
    Recurrence,
    RecurrentAttributes,
    Sequences,
    run_lstm,
)
from xdsl_spirv.frontends.onnx.operators.recurrent import activation as function_named
from xdsl_spirv.frontends.onnx.operators.windows import ConvAttributes, PoolAttributes
from xdsl_spirv.frontends.onnx.registry import REFUSED, operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import BOOL, I32, Tensor

NHWC = "com.ms.internal.nhwc"

# Current and former ONNX operators in other domains.
for _function, _name in (
    (gelu, "Gelu"),
    (indexing.trilu, "Trilu"),
    (indexing.gather_nd, "GatherND"),
    (reductions.layer_normalization, "LayerNormalization"),
):
    operator(_name, domain=MICROSOFT)(_function)


def _apply_activation(b: Nodes, x: Tensor, name: str, parameters: Sequence[float | None]) -> Tensor:
    if not name:
        return x
    alpha, beta = [*parameters, None, None][:2]
    if name == "Clip":
        low, high = -np.inf if alpha is None else alpha, np.inf if beta is None else beta
        return b.elementwise(lambda s, x: s.minimum(s.maximum(x, low), high), x)
    function = function_named(b, name, *(iter([] if p is None else [p]) for p in (alpha, beta)))
    return b.elementwise(rounded_once(function), x)


# Products


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    z: Tensor | None = None,
    /,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    attributes: ConvAttributes,
) -> Tensor:
    """Imports FusedConv: a convolution, an addition, and an activation."""
    result = plus(b, windows.conv(b, x, w, bias, attributes=attributes), z)
    return _apply_activation(b, result, activation, activation_params)


@operator("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def channels_last_conv(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    z: Tensor | None = None,
    /,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    attributes: ConvAttributes,
) -> Tensor:
    """Imports a convolution of an image with channels last."""
    if b.node.op_type == "NhwcConv":
        w = _weights_as_onnx(b, x.sizes[-1], w, attributes)
    z = None if z is None else to_channels_first(b, z)
    result = fused_conv(
        b, to_channels_first(b, x), w, bias, z,
        activation=activation, activation_params=activation_params, attributes=attributes,
    )  # fmt: skip
    return to_channels_last(b, result)


def _weights_as_onnx(b: Nodes, channels: Size, w: Tensor, attributes: ConvAttributes) -> Tensor:
    """
    Returns weights as outputs x channels x kernel. The tools of onnxruntime write NhwcConv's
    weights with channels last, unlike the operator's definition. Refuses weights whose order is
    ambiguous.
    """
    group, kernel_shape = attributes.group, attributes.kernel_shape
    kernels = [list(w.sizes[2:]), list(w.sizes[1:-1])]
    first, last = (
        size * group == channels and (kernel_shape is None or list(kernel_shape) == kernel)
        for size, kernel in zip((w.sizes[1], w.sizes[-1]), kernels, strict=True)
    )
    if first and last and set(w.sizes[1:]) != {1}:
        b.refuse(
            f"the order of the weights {w} is ambiguous: channels may be first or last",
            "use Transpose, Conv and Transpose",
        )
    return to_channels_first(b, w) if last else w


@operator("NhwcMaxPool", domain=MICROSOFT)
def channels_last_max_pool(b: Nodes, x: Tensor, /, *, attributes: PoolAttributes) -> Tensor:
    pooled = windows.max_pool(b, to_channels_first(b, x), attributes=attributes)
    return to_channels_last(b, pooled[0])


@operator("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose_with_pads(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    pads: Tensor | None = None,
    bias: Tensor | None = None,
    /,
    *,
    attributes: ConvAttributes,
    output_padding: Sequence[int] | None = None,
) -> Tensor:
    if pads is not None:
        attributes = replace(attributes, pads=shapes.integers(b, pads, "pads"))
    return transposed.conv_transpose(
        b, x, w, bias, attributes=attributes, output_padding=output_padding
    )


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    b: Nodes,
    x: Tensor,
    y: Tensor,
    z: Tensor | None = None,
    /,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **given: Any,
) -> Tensor:
    result = products.gemm(b, x, y, z, **given)
    return _apply_activation(b, result, activation, (activation_alpha, activation_beta))


@operator("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul(
    b: Nodes,
    x: Tensor,
    y: Tensor,
    /,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_axis: int = 0,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    x = _turn_matrix(b, x, transA, transBatchA)
    y = _turn_matrix(b, y, transB, transBatchB)
    result = products.multiply(b, x, y)
    if alpha != 1:
        result = b.elementwise(lambda s, x: x * alpha, result)
    return _apply_activation(b, result, activation, (activation_alpha, activation_beta))


def _turn_matrix(b: Nodes, t: Tensor, matrix: int, batch: int) -> Tensor:
    """Transposes a matrix operand of FusedMatMul according to `transA` and `transBatchA`."""
    order = list(range(t.rank))
    if batch and t.rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if matrix and t.rank > 1:
        order[-2:] = order[:-3:-1]
    return b.transpose(t, order)


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(b: Nodes, x: Tensor, w: Tensor, bias: Tensor | None = None, /) -> Tensor:
    return fast_gelu(b, products.multiply(b, x, w), bias)


# LSTM with integer products


class _Quantized(Recurrence):
    """An LSTM whose products have dynamically quantized operands and quantized weights."""

    def projected(self, direction: int) -> Tensor:
        plain, self.x = self.x, _through_bytes(self.b, self.x)
        result = super().projected(direction)
        self.x = plain
        return result

    def times_state(self, state: Tensor, weights: Tensor) -> Tensor:
        return super().times_state(_through_bytes(self.b, state), weights)


def _through_bytes(b: Nodes, x: Tensor) -> Tensor:
    """Quantizes a tensor dynamically to 8 bits, and dequantizes it."""
    return quantized.dequantize_linear(b, *quantized.dynamic_quantize_linear(b, x))


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    b: Nodes,
    sequences: Sequences,
    initial_c: Tensor | None,
    peepholes: Tensor | None,
    w_scale: Tensor,
    w_zero_point: Tensor,
    r_scale: Tensor,
    r_zero_point: Tensor,
    /,
    *,
    attributes: RecurrentAttributes,
    input_forget: int = 0,
) -> Sequence[Tensor]:
    """
    Imports DynamicQuantizeLSTM.

    Weights are directions x inputs x gates, with a scale for each direction or each gate.
    """

    def weights(t: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        sizes = [scale.sizes[0], 1, *(scale.sizes[1:] or [1])]
        scale, zero = b.reshape(scale, sizes), b.reshape(zero, sizes)

        def number(s: Scalars, zero: Number, scale: Number, x: Number) -> Number:
            return (x.to(I32) - zero.to(I32)).to(scale.element) * scale

        element = sequences.x.element
        return b.transpose(b.elementwise(number, zero, scale, t, element=element), [0, 2, 1])

    sequences = sequences._replace(
        w=weights(sequences.w, w_scale, w_zero_point), r=weights(sequences.r, r_scale, r_zero_point)
    )
    n = _Quantized(b, sequences, 4, ("Sigmoid", "Tanh", "Tanh"), attributes)
    return run_lstm(n, initial_c, peepholes, input_forget)


# Element by element


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(b: Nodes, x: Tensor, bias: Tensor | None = None, /) -> Tensor:
    return gelu(b, plus(b, x, bias), approximate="tanh")


@operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(b: Nodes, x: Tensor, bias: Tensor, /) -> Tensor:
    return gelu(b, plus(b, x, bias))


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(b: Nodes, x: Tensor, /, *, alpha: float = 1.702) -> Tensor:
    return b.elementwise(rounded_once(lambda s, x: x / (1 + s.exp(-(x * alpha)))), x)


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(b: Nodes, x: Tensor, bias: Tensor, /) -> Tensor:
    """Adds a bias to x, and multiplies the columns' first half by the gelu of the second half."""
    total = plus(b, x, bias)
    half = exact_quotient(x.sizes[-1], 2)
    if half is None:
        b.refuse(
            f"{x.sizes[-1]} elements do not divide into two halves",
            "use an even number of elements",
        )
    left, right = (part(b, total, x.rank - 1, start, half) for start in (0, half))
    return b.elementwise(lambda s, g, x: x * g, gelu(b, right), left)


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(b: Nodes, x: Tensor, bias: Tensor, skip: Tensor, /) -> Tensor:
    return plus(b, plus(b, x, bias), skip)


@operator("BiasDropout", domain=MICROSOFT)
def bias_dropout(
    b: Nodes,
    x: Tensor,
    bias: Tensor,
    residual: Tensor | None = None,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    /,
    *,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Adds bias and residual to x. Dropout is refused unless it has no effect."""
    if training_mode is not None and (
        training_mode.numbers is None or bool(training_mode.numbers.any())
    ):
        b.refuse("training_mode is not false", "export the model for inference")
    kept = b.elementwise(lambda s, x: s.number(1, BOOL), x, element=BOOL)
    return plus(b, plus(b, x, bias), residual), kept


@operator("ComplexMul", "ComplexMulConj", domain=MICROSOFT)
def complex_product(b: Nodes, x: Tensor, y: Tensor, /) -> Tensor:
    """Multiplies complex numbers; the last dimension holds real and imaginary parts."""
    sign = -1 if b.node.op_type == "ComplexMulConj" else 1
    (a, c), (d, e) = ([part(b, t, t.rank - 1, i, 1) for i in (0, 1)] for t in (x, y))
    real = b.elementwise(lambda s, a, c, d, e: a * d - c * e * sign, a, c, d, e)
    other = b.elementwise(lambda s, a, c, d, e: c * d + a * e * sign, a, c, d, e)
    return b.concatenate([real, other], real.rank - 1)


@operator("MulInteger", domain=MICROSOFT)
def multiply_integers(
    b: Nodes, x: Tensor, x_zero: Tensor | None, y: Tensor, y_zero: Tensor | None = None, /
) -> Tensor:
    def less(t: Tensor, zero: Tensor | None) -> Tensor:
        return t if zero is None else b.elementwise(lambda s, z, x: x - z, zero, t)

    factors = [
        less(b.convert(t, I32), None if zero is None else b.convert(b.reshape(zero, []), I32))
        for t, zero in ((x, x_zero), (y, y_zero))
    ]
    return b.elementwise(lambda s, x, y: x * y, *factors)


@operator("ReduceSumInteger", domain=MICROSOFT)
def sum_of_integers(b: Nodes, x: Tensor, /, *, axes: Sequence[int], keepdims: int) -> Tensor:
    along = shapes.axes_of(b, axes, x.rank)
    return b.reduce(lambda s, x, total: total + x, 0, x, along, bool(keepdims), I32)


@operator("IsAllFinite", domain=MICROSOFT)
def is_all_finite(b: Nodes, *tensors: Tensor, isinf_only: int = 0, isnan_only: int = 0) -> Tensor:
    def bad(s: Scalars, x: Number) -> Number:
        if isinf_only or isnan_only:
            return s.is_infinite(x) if isinf_only else s.is_nan(x)
        return s.is_infinite(x) | s.is_nan(x)

    counts = [
        b.reduce(
            lambda s, x, most: s.maximum(most, x), 0,
            b.elementwise(lambda s, x: bad(s, x).to(I32), t, element=I32), range(t.rank), False,
        )
        for t in tensors
    ]  # fmt: skip
    worst = elementwise.combine(b, lambda s, x, y: s.maximum(x, y), counts)
    return b.elementwise(lambda s, x: x.equals(0), worst, element=BOOL)


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(b: Nodes, x: Tensor, axis: Tensor, /) -> Tensor:
    at = shapes.axis_of(b, shapes.integers(b, axis, "axis")[0], x.rank + 1)
    return b.reshape(x, [*x.sizes[:at], 1, *x.sizes[at:]])


@operator("Pad", domain=MICROSOFT)
def pad(
    b: Nodes, x: Tensor, pads: Tensor, value: Tensor | None = None, /, *, mode: str = "constant"
) -> Any:
    return b.apply("Pad", x, pads, value, mode=mode)


@operator("Range", domain=MICROSOFT)
def arithmetic_sequence(
    b: Nodes, start: Tensor, limit: Tensor, delta: Tensor | None = None, /
) -> Any:
    step = Tensor.of(np.array(1, start.element.dtype)) if delta is None else delta
    given = [t.numbers for t in (start, limit, step)]
    if any(t is None for t in given):
        return shapes.range_(b, start, limit, step)
    return Tensor.of(
        np.arange(*(t.item() for t in given if t is not None), dtype=start.element.dtype)
    )


@operator("UnfoldTensor", domain=MICROSOFT)
def unfold(b: Nodes, x: Tensor, /, *, dim: int = -1, size: int, step: int = 1) -> Tensor:
    """Collects all windows of a dimension in a new last dimension."""
    axis = shapes.axis_of(b, dim, x.rank)
    sizes = [*x.sizes, size]
    sizes[axis] = (x.sizes[axis] - size) // step + 1
    read: list[Any] = list(range(x.rank))
    read[axis] = AffineDimExpr(axis) * step + AffineDimExpr(x.rank)
    return b.mapped(lambda s, x: x, [(x, read)], sizes, x.element)


@operator("CDist", domain=MICROSOFT)
def distances(b: Nodes, x: Tensor, y: Tensor, /, *, metric: str = "sqeuclidean") -> Tensor:
    """Returns the distance between each row of `x` and each row of `y`."""
    if metric not in ("sqeuclidean", "euclidean"):
        b.refuse(
            f"metric is {metric!r}, which is not supported", "use 'sqeuclidean' or 'euclidean'"
        )
    sizes = [x.sizes[0], y.sizes[0]]
    element = reductions.sum_element(x.element)

    def add(s: Scalars, x: Number, y: Number, total: Number) -> Sequence[Number]:
        difference = x.to(element) - y.to(element)
        return [total + difference * difference]

    (squares,) = b.accumulate(add, [(0, element)], [(x, [0, 2]), (y, [1, 2])], sizes)
    if metric == "euclidean":
        squares = b.elementwise(lambda s, x: s.unary(math.SqrtOp, x), squares)
    return b.convert(squares, x.element)


@operator("GridSample", domain=MICROSOFT)
def grid_sample(b: Nodes, x: Tensor, grid: Tensor, /, **given: Any) -> Any:
    return b.apply("GridSample", x, grid, opset=16, **given)


# Transforms


@operator("Rfft", domain=MICROSOFT)
def real_fourier(
    b: Nodes, x: Tensor, /, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1
) -> Tensor:
    """Returns the first half of the spectrum; the last dimension holds real and imaginary parts."""
    count = _signal(b, x, -1, normalized, onesided, signal_ndim)
    angles = np.outer(np.arange(count), np.arange(count // 2 + 1)) % count * (2 * np.pi / count)
    waves = np.stack([np.cos(angles), -np.sin(angles)], -1).reshape(count, -1)
    spectrum = products.multiply(b, x, Tensor.of(waves.astype(x.element.dtype)))
    return b.reshape(spectrum, [*x.sizes[:-1], count // 2 + 1, 2])


@operator("Irfft", domain=MICROSOFT)
def inverse_real_fourier(
    b: Nodes, x: Tensor, /, *, normalized: int = 0, onesided: int = 1, signal_ndim: int
) -> Tensor:
    frequencies = _signal(b, x, -2, normalized, onesided, signal_ndim)
    count = 2 * (frequencies - 1)
    angles = np.outer(np.arange(frequencies), np.arange(count)) % count * (2 * np.pi / count)
    # Elements that have a mirror image in the full spectrum count twice.
    weight = np.full((frequencies, 1), 2.0)
    weight[0] = weight[-1] = 1
    waves = np.stack([np.cos(angles), -np.sin(angles)], 1) * weight[:, None] / count
    flat = b.reshape(x, [*x.sizes[:-2], 2 * frequencies])
    return products.multiply(b, flat, Tensor.of(waves.reshape(-1, count).astype(x.element.dtype)))


def _signal(
    b: Nodes, x: Tensor, axis: int, normalized: int, onesided: int, signal_ndim: int
) -> int:
    size = x.sizes[axis]
    if normalized or not onesided or signal_ndim != 1:
        b.refuse(
            "only signal_ndim = 1, normalized = 0 and onesided = 1 are supported",
            "use ONNX's DFT",
        )
    if not isinstance(size, int):
        b.refuse("the number of samples is dynamic", "give it: --dim")
    return size


# Operators on images with channels last, of onnxruntime's execution providers


def _with_channels_last(name: str) -> None:
    @operator(name, domain=NHWC)
    def function(b: Nodes, x: Tensor, *others: Tensor | None, **attributes: Any) -> Any:
        result = b.apply(name, to_channels_first(b, x), *others, **attributes)
        results = [result] if isinstance(result, Tensor) else result
        return [None if t is None else to_channels_last(b, t) for t in results]

    del function


for _name in (
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace",
    "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization", "LRN", "LpPool",
    "SpaceToDepth",
):  # fmt: skip
    _with_channels_last(_name)


# Refused operators

REFUSED["com.microsoft.nchwc"] = (
    "the operator uses a channel layout for specific processors",
    "optimize with ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL",
)
for _names, _cause, _remedy in (
    (
        ("NGramRepeatBlock", "BifurcationDetector", "RemovePadding", "RestorePadding"),
        "the size or the layout of the result depends on data",
        "cut the model before this node, and compute the node on the host",
    ),
    (
        ("Tokenizer", "MurmurHash3", "WordConvEmbedding"),
        "the operator reads text",
        "cut the model before this node, and compute the node on the host",
    ),
    (
        (
            "PackedAttention", "PackedMultiHeadAttention", "PagedAttention", "SparseAttention",
            "LongformerAttention", "DecoderAttention", "DecoderMaskedSelfAttention",
        ),
        "the operator attends to packed, paged or sparse keys",
        "export the model with MultiHeadAttention or GroupQueryAttention",
    ),
    (
        ("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"),
        "the operator runs other models in a loop",
        "compile only the decoder, and search on the host",
    ),
    (
        ("MaxpoolWithMask", "SampleOp", "TorchEmbedding", "EPContext", "Snpe"),
        "the operator is internal to onnxruntime",
        "export the model again without this operator",
    ),
):  # fmt: skip
    REFUSED.update(dict.fromkeys(_names, (_cause, _remedy)))
