"""
Operators on integers that stand for numbers: scale times the integer less a zero point.

Products of quantized tensors are written as products of integers with the zero points taken off,
so that contractions see integers. What is quantized and dequantized around float operators (QDQ) is
written as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import math

from xdsl_spirv.frontends.onnx import formats
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.reductions import maximum_over, minimum_over
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of
from xdsl_spirv.frontends.onnx.operators.windows import (
    convolve,
    kernel_of,
    window_of,
    with_bias,
)
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, U8, Element, Tensor


def along(b: Nodes, t: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """A scale or zero point of each tensor, slice of an axis or block, to broadcast with `x`."""
    if t.rank <= 1 and all(size == 1 for size in t.sizes):
        return b.reshape(t, [])
    axis = axis_of(b, axis, x.rank)
    if not block_size:
        return b.reshape(t, [*t.sizes, *[1] * (x.rank - 1 - axis)])
    # Blocks: every element of the scale is repeated along the axis.
    apart = [*t.sizes[: axis + 1], 1, *t.sizes[axis + 1 :]]
    spread = [*t.sizes[: axis + 1], block_size, *t.sizes[axis + 1 :]]
    whole = [*t.sizes[:axis], t.sizes[axis] * block_size, *t.sizes[axis + 1 :]]
    repeated = b.reshape(b.expand(b.reshape(t, apart), spread), whole)
    if whole[axis] != x.sizes[axis]:
        repeated = b.slice(repeated, [0] * x.rank, x.sizes, [1] * x.rank)
    return repeated


def quantize(s: Scalars, x: Number, scale: Number, zero: Number | int, element: Element) -> Number:
    """x / scale rounded to even, plus the zero point, within the type."""
    rounded = s.unary(math.RoundEvenOp, x / scale)
    if isinstance(zero, Number):
        rounded = rounded + zero.to(I32).to(rounded.element)
    low, high = element.least, element.greatest
    return s.minimum(s.maximum(rounded, low), high).to(I32).to(element)


@operator("QuantizeLinear")
def quantize_linear(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    element = zero.element if zero is not None else U8
    if output_dtype:
        element = element_numbered(output_dtype)
    parameters = [along(b, t, x, axis, block_size) for t in (scale, zero) if t is not None]

    def body(s: Scalars, *numbers: Number) -> Number:
        x, scale = numbers[-1].to(F32), numbers[0].to(F32)
        if element.is_narrow_float:
            ratio = x / scale if zero is None else x / scale + numbers[1].to(F32)
            return formats.written(s, ratio, element, bool(saturate))
        return quantize(s, x, scale, numbers[1] if zero is not None else 0, element)

    return b.elementwise(body, *parameters, x, element=element)


@operator("DequantizeLinear")
def dequantize_linear(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    element = element_numbered(output_dtype) if output_dtype else scale.element
    parameters = [along(b, t, x, axis, block_size) for t in (scale, zero) if t is not None]

    def body(s: Scalars, *numbers: Number) -> Number:
        computed = F32 if numbers[-1].element.is_narrow_float else I32
        x, scale = numbers[-1].to(computed), numbers[0]
        if zero is not None:
            x = x - numbers[1].to(computed)
        return (x.to(scale.element) * scale).to(element)

    return b.elementwise(body, *parameters, x, element=element)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(b: Nodes, x: Tensor, /) -> Sequence[Tensor]:
    """To uint8, by the range of all elements and zero."""
    axes = range(x.rank)
    low = b.elementwise(lambda s, x: s.minimum(x, 0), minimum_over(b, x, axes, False))
    high = b.elementwise(lambda s, x: s.maximum(x, 0), maximum_over(b, x, axes, False))
    scale = b.elementwise(lambda s, low, high: (high - low) / 255, low, high)

    def zero_point(s: Scalars, low: Number, scale: Number) -> Number:
        place = s.minimum(s.maximum(-low / scale, 0), 255)
        return s.unary(math.RoundEvenOp, place).to(I32).to(U8)

    zero = b.elementwise(zero_point, low, scale, element=U8)
    quantized = b.elementwise(
        lambda s, scale, zero, x: quantize(s, x, scale, zero, U8), scale, zero, x, element=U8
    )
    return quantized, scale, zero


def centered(b: Nodes, x: Tensor, zero: Tensor | None, axis: int = 0) -> Tensor:
    """Integers less their zero point, in i32."""
    if zero is None or (zero.numbers is not None and not zero.numbers.any()):
        return x
    spread = along(b, zero, x, axis)
    return b.elementwise(lambda s, z, x: x.to(I32) - z.to(I32), spread, x, element=I32)


@operator("MatMulInteger")
def matmul_integer(
    b: Nodes,
    x: Tensor,
    y: Tensor,
    x_zero: Tensor | None = None,
    y_zero: Tensor | None = None,
    /,
) -> Tensor:
    a = centered(b, x, x_zero, x.rank - 2)
    return multiply(b, a, centered(b, y, y_zero, y.rank - 1), I32)


@operator("ConvInteger")
def conv_integer(
    b: Nodes,
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Padding stands for zero: it is written after the zero point is taken off."""
    kernel = kernel_of(b, w, kernel_shape)
    window = window_of(b, x.sizes[2:], kernel, strides, dilations, pads, auto_pad)
    return convolve(b, centered(b, x, x_zero), centered(b, w, w_zero), window, group, I32)


def requantized(
    b: Nodes, total: Tensor, scales: Sequence[Tensor], y_scale: Tensor, y_zero: Tensor, axis: int
) -> Tensor:
    """An i32 sum of products in a quantized type, by the scales of both operands."""
    parameters = [along(b, t, total, axis) for t in (*scales, y_scale, y_zero)]

    def body(s: Scalars, *numbers: Number) -> Number:
        a, c, y, zero, total = numbers
        factor = a.to(F32) * c.to(F32)
        return quantize(s, total.to(F32) * factor, y.to(F32), zero, y_zero.element)

    return b.elementwise(body, *parameters, total, element=y_zero.element)


@operator("QLinearMatMul")
def qlinear_matmul(
    b: Nodes,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    z_scale: Tensor,
    z_zero: Tensor,
    /,
) -> Tensor:
    total = matmul_integer(b, x, y, x_zero, y_zero)
    assert isinstance(total, Tensor)
    return requantized(b, total, (x_scale, y_scale), z_scale, z_zero, total.rank - 1)


@operator("QLinearConv")
def qlinear_conv(
    b: Nodes,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    kernel = kernel_of(b, w, kernel_shape)
    window = window_of(b, x.sizes[2:], kernel, strides, dilations, pads, auto_pad)
    total = convolve(b, centered(b, x, x_zero), centered(b, w, w_zero), window, group, I32)
    return requantized(b, with_bias(b, total, bias), (x_scale, w_scale), y_scale, y_zero, 1)
