"""
Builds onnxruntime's operators on quantized tensors (`com.microsoft`) from ONNX's operators.

An operator without products is dequantized, computed on floats and quantized again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.frontends.blocks import dequantize
from xdsl_spirv.frontends.onnx.nodes import Nodes
from xdsl_spirv.frontends.onnx.operators.contrib_norms import to_channels_first, to_channels_last
from xdsl_spirv.frontends.onnx.operators.quantized import (
    MICROSOFT,
    Quantized,
    Steps,
    along,
    dequantized,
    dynamic_quantize_linear,
    matmul_integer,
    qlinear_conv,
    scaled,
)
from xdsl_spirv.frontends.onnx.operators.quantized_blocks import (
    Blocks,
    blocks_of,
    by_groups,
    codes_of,
)
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of
from xdsl_spirv.frontends.onnx.operators.windows import ConvAttributes
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, U8, Element, Tensor

Maybe: TypeAlias = Tensor | None


# Operators that are computed on floats

for _name in ("Add", "Mul"):

    def _pointwise(name: str) -> None:
        @operator(f"QLinear{name}", domain=MICROSOFT)
        def pointwise(b: Nodes, x: Quantized, y: Quantized, z: Steps, /) -> Tensor:
            return z.quantize(b, b.apply(name, x.floats(b), y.floats(b)), x.tensor)

        del pointwise

    _pointwise(_name)


@operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(b: Nodes, condition: Tensor, x: Quantized, y: Quantized, z: Steps, /) -> Tensor:
    return z.quantize(b, b.apply("Where", condition, x.floats(b), y.floats(b)), x.tensor)


@operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(b: Nodes, y: Steps, /, *parts: Tensor, axis: int) -> Tensor:
    """Concatenates quantized tensors. `parts` holds tensor, scale and zero point of each."""
    assert y.zero is not None
    floats = [Quantized(*parts[i : i + 3]).floats(b) for i in range(0, len(parts), 3)]
    return y.quantize(b, b.apply("Concat", *floats, axis=axis), y.zero)


for _name in ("Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool"):

    def _on_floats(name: str) -> None:
        @operator(f"QLinear{name}", domain=MICROSOFT)
        def on_floats(
            b: Nodes, x: Quantized, y: Steps, /, *, channels_last: int = 0, **attributes: Any
        ) -> Tensor:
            """Dequantizes the image, applies the ONNX operator, and quantizes the result."""
            floats = to_channels_first(b, x.floats(b), channels_last)
            result = b.apply(name, floats, **attributes)
            return y.quantize(b, to_channels_last(b, result, channels_last), x.tensor)

        del on_floats

    _on_floats(_name)


@operator("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(b: Nodes, x: Quantized, y: Steps, /, *, opset: int, axis: int = -1) -> Tensor:
    return y.quantize(b, b.apply("Softmax", x.floats(b), opset=opset, axis=axis), x.tensor)


@operator("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(
    b: Nodes,
    x: Quantized,
    y: Steps,
    /,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
) -> Tensor:
    which = list(range(x.tensor.rank)) if axes is None else list(axes)
    known = Tensor.of(np.array(which, np.int64))
    mean = b.apply("ReduceMean", x.floats(b), known, keepdims=keepdims)
    return y.quantize(b, mean, x.tensor)


# Products


@operator("QLinearConv", domain=MICROSOFT)
def qlinear_conv_of_channels(
    b: Nodes,
    x: Quantized,
    w: Quantized,
    y: Steps,
    bias: Maybe = None,
    /,
    *,
    attributes: ConvAttributes,
    channels_last: int = 0,
) -> Tensor:
    """Convolves quantized images. The weights always have channels first."""
    x = x._replace(tensor=to_channels_first(b, x.tensor, channels_last))
    result = qlinear_conv(b, x, w, y, bias, attributes=attributes)
    assert isinstance(result, Tensor)
    return to_channels_last(b, result, channels_last)


def _product(
    b: Nodes, x: Tensor, y: Tensor, scales: Sequence[Tensor], zeros: Sequence[Maybe], bias: Maybe
) -> Tensor:
    """Computes an integer matrix product, scales it to floats, and adds a bias."""
    total = matmul_integer(b, x, y, *zeros)
    assert isinstance(total, Tensor)
    places = [
        along(b, scales[0], total, total.rank - 2),
        along(b, scales[1], total, total.rank - 1),
    ]
    result = scaled(b, total, places)
    return result if bias is None else b.apply("Add", result, bias)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    b: Nodes,
    x: Tensor,
    y: Tensor,
    x_scale: Tensor,
    y_scale: Tensor,
    x_zero: Maybe = None,
    y_zero: Maybe = None,
    bias: Maybe = None,
    /,
) -> Tensor:
    return _product(b, x, y, (x_scale, y_scale), (x_zero, y_zero), bias)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    b: Nodes, x: Tensor, y: Tensor, y_scale: Tensor, y_zero: Maybe = None, bias: Maybe = None, /
) -> Tensor:
    whole, scale, zero = dynamic_quantize_linear(b, x)
    assert isinstance(whole, Tensor)
    assert isinstance(scale, Tensor)
    return _product(b, whole, y, (scale, y_scale), (zero, y_zero), bias)


@operator("QGemm", domain=MICROSOFT)
def qgemm(
    b: Nodes,
    x: Quantized,
    y: Quantized,
    bias: Maybe = None,
    z_scale: Maybe = None,
    z_zero: Maybe = None,
    /,
    *,
    transA: int = 0,
    transB: int = 0,
    alpha: float = 1.0,
) -> Tensor:
    """Imports QGemm. The bias is an integer whose scale is the product of the operands' scales."""
    a = b.transpose(x.tensor, [1, 0]) if transA else x.tensor
    c = b.transpose(y.tensor, [1, 0]) if transB else y.tensor
    total = matmul_integer(b, a, c, x.zero, y.zero)
    assert isinstance(total, Tensor)
    if bias is not None:
        total = b.apply("Add", bias, total)
    places = along(b, x.scale, total, 0), along(b, y.scale, total, 1)
    return scaled(b, total, places, z_scale, z_zero, alpha)


# Packed weights


def unpacked(b: Nodes, t: Tensor, bits: int) -> Tensor:
    """Unpacks bytes with several numbers each along the last dimension, low bits first."""
    count = 8 // bits
    sizes = [*t.sizes[:-1], t.sizes[-1] * count]
    if t.numbers is not None:
        codes = t.numbers.view(np.uint8)
        shifts = np.arange(count, dtype=np.uint8) * bits
        numbers = (codes[..., None] >> shifts) & np.uint8((1 << bits) - 1)
        flat = numbers.reshape(*codes.shape[:-1], codes.shape[-1] * count)
        return Tensor.of(np.ascontiguousarray(flat), t.name)

    def body(s: Scalars, x: Number) -> Number:
        word = s.reinterpret(x, U8).to(I32) >> (s.index(t.rank).to(I32) * bits)
        return (word & ((1 << bits) - 1)).to(U8)

    apart = [*t.sizes, count]
    return b.reshape(b.mapped(body, [(t, range(t.rank))], apart, U8), sizes)


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_n_bits(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    zeros: Maybe = None,
    groups: Maybe = None,
    bias: Maybe = None,
    /,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int = 128,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """
    Imports MatMulNBits: weights of N rows and K columns are dequantized by blocks along K.

    `groups` gives for each column the block with its scale and zero point.
    """
    if bits not in (2, 4, 8) or weight_prepacked:
        b.refuse(
            f"weights of {bits} bits, with weight_prepacked {weight_prepacked}, are not supported",
            "use 4 bits or 8, and weight_prepacked = 0",
        )
    blocks = -(-K // block_size)
    w = b.reshape(w, [N, blocks, block_size * bits // 8])
    result = _known_product(b, x, w, scales, zeros, groups, K, bits, block_size)
    if result is None:
        weights = _weights(b, w, scales, zeros, groups, K, bits, block_size, x.element)
        rank = x.rank
        maps = [*range(rank - 1), rank], [rank - 1, rank]
        sizes = [*x.sizes[:-1], N]
        result = b.contract(x, maps[0], weights, maps[1], sizes, rank + 1, x.element)
    return result if bias is None else b.apply("Add", result, bias)


def _known_product(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    scales: Tensor,
    zeros: Maybe,
    groups: Maybe,
    columns: int,
    bits: int,
    size: int,
) -> Tensor | None:
    """
    Multiplies x by known weights, which stay packed. Returns None for other weights.

    The parameters are the same as in `_weights`.
    """
    codes, rows = codes_of(w, bits), w.sizes[0]
    if codes is None or not isinstance(rows, int):
        return None
    codes = codes.reshape(rows, -1)[:, :columns]
    if groups is not None:
        order = None if groups.numbers is None else by_groups(groups.numbers[:columns], size)
        if order is None:
            return None
        codes, places = codes[:, order], Tensor.of(order.astype(np.int64))
        x = b.apply("Gather", x, places, axis=x.rank - 1)
    zero = zeros if zeros is None or zeros.element.is_float else codes_of(zeros, bits)
    if zeros is not None and zero is None:
        return None
    packed = blocks_of(codes, scales, zero, bits, size, w.name)
    return None if packed is None else packed.product(b, x)


def _weights(
    b: Nodes,
    w: Tensor,
    scales: Tensor,
    zeros: Maybe,
    groups: Maybe,
    columns: int,
    bits: int,
    size: int,
    element: Element,
) -> Tensor:
    """
    Dequantizes weights that are not known at compile time, or have irregular groups.

    An element has `bits` bits, a block has `size` elements, and a row `columns` elements.
    """
    codes = unpacked(b, w, bits)
    rows, blocks, _ = codes.sizes
    parameters = [b.reshape(scales, [rows, blocks])]
    if zeros is None:
        parameters.append(Tensor.of(np.array(1 << (bits - 1), np.uint8)))
    elif zeros.element.is_float:
        parameters.append(b.reshape(zeros, [rows, blocks]))
    else:
        whole = unpacked(b, b.reshape(zeros, [rows, -(-blocks * bits // 8)]), bits)
        parameters.append(b.slice(whole, [0, 0], [rows, blocks], [1, 1]))
    sizes: list[Size] = list(codes.sizes)
    if groups is not None:
        sizes = [rows, blocks * size]
        codes = b.slice(b.reshape(codes, sizes), [0, 0], [rows, columns], [1, 1])
        places = b.slice(groups, [0], [columns], [1])
        parameters = [b.apply("Gather", t, places, axis=1) if t.rank else t for t in parameters]

    def body(s: Scalars, code: Number, scale: Number, zero: Number) -> Number:
        return ((code.to(F32) - zero.to(F32)) * scale.to(F32)).to(element)

    operands = [(t, range(t.rank)) for t in (codes, *parameters)]
    weights = b.mapped(body, operands, codes.sizes, element)
    if groups is not None:
        return weights
    return b.slice(b.reshape(weights, [rows, blocks * size]), [0, 0], [rows, columns], [1, 1])


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(
    b: Nodes,
    x: Tensor,
    indices: Tensor,
    scales: Tensor,
    zeros: Maybe = None,
    /,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """Imports GatherBlockQuantized: gathers rows of a packed table, and dequantizes these rows."""
    gathered, blocked = axis_of(b, gather_axis, x.rank), axis_of(b, quantize_axis, x.rank)
    if gathered == blocked:
        b.refuse(
            f"the node gathers along axis {gathered}, which is the axis of the blocks",
            "gather along another axis",
        )
    packed = _known_table(x, scales, zeros, bits, block_size) if blocked == 1 else None
    if packed is not None:
        gather = {n: b.apply("Gather", t, indices, axis=0) for n, t in packed.planes.items()}
        rows = dequantize(b, packed.format, gather, scales.element)
        return b.part(rows, rows.rank - 1, 0, packed.columns)
    if zeros is None and x.element == U8:
        zeros = Tensor.of(np.array(1 << (bits - 1), np.uint8))
    elif zeros is not None and zeros.element == U8 and bits < 8:
        zeros = b.part(unpacked(b, zeros, bits), zeros.rank - 1, 0, scales.sizes[-1])
    rows = [
        b.apply("Gather", t, indices, axis=gathered) if t is not None and t.rank else t
        for t in (x, scales, zeros)
    ]
    codes, scale, zero = rows
    assert codes is not None
    assert scale is not None
    if x.element == U8 and bits < 8:
        codes = unpacked(b, codes, bits)
    axis = blocked + (indices.rank - 1 if blocked > gathered else 0)
    return dequantized(b, codes, scale, zero, scale.element, axis, block_size)


def _known_table(x: Tensor, scales: Tensor, zeros: Maybe, bits: int, size: int) -> Blocks | None:
    """Returns a table known at compile time as packed blocks, or None for other tables."""
    if x.rank != 2 or (x.element.narrow is None and x.element != U8):
        return None
    codes, known = codes_of(x, bits), scales.numbers
    zero = None if zeros is None else codes_of(zeros, bits)
    if codes is None or known is None or (zeros is not None and zero is None):
        return None
    if zeros is None and x.element != U8 and x.element.least == 0:
        zero = np.zeros(known.shape, np.uint8)
    return blocks_of(codes, scales, zero, bits, size, x.name)
