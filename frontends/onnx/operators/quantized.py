"""
Imports operators on quantized integers, which represent (integer - zero point) * scale.

Each operator is built as ONNX defines it: dequantized numbers are floats, and integer products
first subtract the zero points. The pass `linalg-quantized-to-contraction` converts both forms to
contractions of stored integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects import math

from xdsl_spirv.frontends.onnx import formats
from xdsl_spirv.frontends.onnx.dimensions import Map
from xdsl_spirv.frontends.onnx.nodes import Nodes, element_numbered, number_of
from xdsl_spirv.frontends.onnx.operators.images import repeat_elements
from xdsl_spirv.frontends.onnx.operators.products import multiply
from xdsl_spirv.frontends.onnx.operators.quantized_blocks import (
    Blocks,
    blocks_of,
    codes_of,
    floats_of,
)
from xdsl_spirv.frontends.onnx.operators.reductions import maximum_over, minimum_over
from xdsl_spirv.frontends.onnx.operators.shapes import axis_of
from xdsl_spirv.frontends.onnx.operators.windows import (
    ConvAttributes,
    convolve,
    kernel_of,
    window_of,
    with_bias,
)
from xdsl_spirv.frontends.onnx.registry import operator
from xdsl_spirv.frontends.onnx.scalars import Number, Scalars
from xdsl_spirv.frontends.onnx.values import F32, I32, U8, Element, Tensor

MICROSOFT = "com.microsoft"

Placed = tuple[Tensor, Map]
"""A scale or zero point, and the map of its dimensions to the tensor's dimensions."""


def along(b: Nodes, t: Tensor, x: Tensor, axis: int) -> Placed:
    """
    Returns a scale or zero point, and its map to the dimensions of `x`. A vector has one value for
    each index of `axis`.
    """
    if t.rank <= 1 and all(size == 1 for size in t.sizes):
        return b.reshape(t, []), []
    if t.rank > 1:
        # One value for each row or column of a matrix product.
        first = x.rank - t.rank
        return t, [None if size == 1 else i for i, size in enumerate(t.sizes, first)]
    axis = axis_of(b, axis, x.rank)
    if isinstance(x.sizes[axis], int) and t.sizes[0] != x.sizes[axis]:
        b.refuse(
            f"there are {t.sizes[0]} scales for {x.sizes[axis]} indices of axis {axis}",
            "give one scale for each index",
        )
    return t, [axis]


def _blocks(b: Nodes, t: Tensor, x: Tensor, axis: int, size: int) -> Tensor:
    """Repeats each block's scale or zero point for all elements of the block along the axis."""
    return b.slice(repeat_elements(b, t, {axis: size}), [0] * x.rank, x.sizes)


def placed(
    b: Nodes, x: Tensor, parameters: Sequence[Tensor], axis: int, block_size: int
) -> tuple[Tensor, list[Placed]]:
    """Splits blocks along `axis` into a new dimension. Maps parameters to the new dimensions."""
    if not block_size:
        return x, [along(b, t, x, axis) for t in parameters]
    axis = axis_of(b, axis, x.rank)
    count = parameters[0].sizes[axis] if parameters[0].rank == x.rank else 0
    if any(t.rank not in (0, x.rank) for t in parameters):
        b.refuse(
            f"blocks of {x} need scales of rank {x.rank}, not {parameters[0].rank}",
            "use a scale per block",
        )
    if count * block_size == x.sizes[axis]:
        apart = b.reshape(x, [*x.sizes[:axis], count, block_size, *x.sizes[axis + 1 :]])
        dimensions = [i for i in range(apart.rank) if i != axis + 1]
        return apart, [(t, dimensions if t.rank else []) for t in parameters]
    dimensions = list(range(x.rank))
    return x, [
        (_blocks(b, t, x, axis, block_size), dimensions) if t.rank else (t, []) for t in parameters
    ]


def rounded(
    s: Scalars, ratio: Number, zero: Number | None, element: Element, saturate: bool = True
) -> Number:
    """
    Rounds a quotient to nearest even, adds the zero point, and clamps to the type; NaN becomes the
    least number.

    For narrow floats, `saturate` clamps numbers out of range.
    """
    if element.is_narrow_float:
        return formats.written(
            s, ratio if zero is None else ratio + zero.to(F32), element, saturate
        )
    whole = s.unary(math.RoundEvenOp, ratio)
    if zero is not None:
        whole = whole + zero.to(I32).to(whole.element)
    low, high = element.least, element.greatest
    within = s.minimum(s.select(whole > low, whole, low), high)
    return within.to(I32).to(element)


def quantized(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    element: Element,
    axis: int = 1,
    block_size: int = 0,
    precision: Element = F32,
    saturate: bool = True,
) -> Tensor:
    """
    Quantizes floats or i32 to the type `element`, with a scale and a zero point.

    There is one scale, or one per index of `axis`, or one per block of `block_size` elements along
    `axis`. The quotient is rounded to `precision`.
    """
    parameters = [scale] if zero is None or is_zero(zero) else [scale, zero]
    whole, places = placed(b, x, parameters, axis, block_size)

    def body(s: Scalars, x: Number, scale: Number, zero: Number | None = None) -> Number:
        ratio = x.to(precision).to(F32) / scale.to(precision).to(F32)
        return rounded(s, ratio.to(precision).to(F32), zero, element, saturate)

    result = b.mapped(body, [(whole, range(whole.rank)), *places], whole.sizes, element)
    return b.reshape(result, x.sizes)


def dequantized(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    element: Element = F32,
    axis: int = 1,
    block_size: int = 0,
) -> Tensor:
    """
    Converts quantized integers or narrow floats to floats of the type `element`.

    There is one scale, or one per index of `axis`, or one per block of `block_size` elements along
    `axis`.
    """
    if not x.element.is_narrow_float:
        # Integer contractions need bytes, so known weights of few bits are widened.
        x = b.convert(x, x.element.computed)
    parameters = [scale] if zero is None or is_zero(zero) else [scale, zero]
    whole, places = placed(b, x, parameters, axis, block_size)

    def body(s: Scalars, x: Number, scale: Number, zero: Number | None = None) -> Number:
        number = x.to(F32 if x.element.is_narrow_float else I32)
        number = number if zero is None else number - zero.to(number.element)
        return (number.to(F32) * scale.to(F32)).to(element)

    result = b.mapped(body, [(whole, range(whole.rank)), *places], whole.sizes, element)
    return b.reshape(result, x.sizes)


def is_zero(zero: Tensor) -> bool:
    """True if all zero points are known to be 0."""
    return zero.numbers is not None and not zero.numbers.astype(np.float32).any()


class Quantized(NamedTuple):
    """A quantized operand: integers, scale and zero point (three inputs of an operator)."""

    tensor: Tensor
    scale: Tensor
    zero: Tensor | None

    def floats(self, b: Nodes) -> Tensor:
        """Dequantizes the integers."""
        return dequantized(b, self.tensor, self.scale, self.zero)


class Steps(NamedTuple):
    """The scale and the zero point of a result (two inputs of an operator)."""

    scale: Tensor
    zero: Tensor | None = None

    def quantize(self, b: Nodes, floats: Tensor, given: Tensor) -> Tensor:
        """Quantizes floats to the type of the zero point, or if absent, to the type of `given`."""
        element = given.element if self.zero is None else self.zero.element
        return quantized(b, floats, self.scale, self.zero, element)


@operator("QuantizeLinear", since=23)
def quantize_linear_in_type_of_scale(
    b: Nodes,
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    /,
    *,
    precision: int = 0,
    **given: Any,
) -> Tensor:
    """Imports QuantizeLinear with a quotient in the scale's type, unless `precision` is given."""
    precision = precision or number_of(scale.element.name)
    return quantize_linear(b, x, scale, zero, precision=precision, **given)


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain=MICROSOFT)
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
    """Imports QuantizeLinear of older opsets, with a quotient in f32, as in onnxruntime."""
    element = zero.element if zero is not None else U8
    if output_dtype:
        element = element_numbered(output_dtype)
    exact = element_numbered(precision) if precision else F32
    return quantized(b, x, scale, zero, element, axis, block_size, exact, bool(saturate))


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain=MICROSOFT)
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
    if x.rank == 2 and (block_size or x.element.is_narrow_float):
        axis = axis_of(b, axis, x.rank)
        # Without blocks, each row has one scale, and its elements are along the other axis.
        lies = axis if block_size else 1 - axis if scale.rank and scale.sizes != (1,) else 0
        packed = (
            floats_of(x, scale, lies, block_size)
            if x.element.is_narrow_float
            else _known_blocks(x, scale, zero, lies, block_size)
        )
        if packed is not None:
            return packed.rows(b, element, transposed=lies == 0)
    return dequantized(b, x, scale, zero, element, axis, block_size)


def _known_blocks(
    x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, size: int
) -> Blocks | None:
    """Converts a matrix of known numbers to blocks along `axis`; None for other matrices."""
    bits, columns = x.element.bits, x.sizes[axis]
    if x.element.is_float or x.element.is_narrow_float or bits not in (2, 4, 8):
        return None
    if x.numbers is None or scale.numbers is None or scale.rank != 2:
        return None
    if not isinstance(columns, int) or columns % size:
        return None
    if zero is not None and (zero.numbers is None or zero.sizes != scale.sizes):
        return None
    codes = codes_of(x, 8 if x.element == U8 else bits)
    signed = x.element.least < 0
    zeros = None if zero is None else codes_of(zero, 8 if x.element == U8 else bits)
    if zeros is None and not signed:
        zeros = np.zeros(scale.numbers.shape, np.uint8)
    arrays = [None if a is None else a.T if axis == 0 else a for a in (codes, zeros)]
    scales = Tensor.of(scale.numbers.T if axis == 0 else scale.numbers)
    return blocks_of(arrays[0], scales, arrays[1], bits, size, x.name)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(b: Nodes, x: Tensor, /) -> Sequence[Tensor]:
    """Quantizes floats to uint8. The range covers all elements and 0; the scale of zeros is 1."""
    axes = range(x.rank)
    least, greatest = minimum_over(b, x, axes, False), maximum_over(b, x, axes, False)

    def scale_of(s: Scalars, low: Number, high: Number) -> Number:
        span = s.maximum(high, 0) - s.minimum(low, 0)
        return s.select(span.equals(0), 1, span / 255)

    def zero_point(s: Scalars, low: Number, scale: Number) -> Number:
        return rounded(s, 0 - s.minimum(low, 0) / scale, None, U8)

    scale = b.elementwise(scale_of, least, greatest)
    zero = b.elementwise(zero_point, least, scale, element=U8)
    return quantized(b, x, scale, zero, U8), scale, zero


# Products


def centered(b: Nodes, x: Tensor, zero: Tensor | None, axis: int = 0) -> Tensor:
    """Subtracts the zero point from integers, in i32."""
    if zero is None or is_zero(zero):
        return x
    return b.mapped(
        lambda s, x, z: x.to(I32) - z.to(I32),
        [(x, range(x.rank)), along(b, zero, x, axis)],
        x.sizes,
        I32,
    )


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
    attributes: ConvAttributes,
) -> Tensor:
    """Imports ConvInteger. The zero points are subtracted first, so that padding is 0."""
    window = window_of(b, x.sizes[2:], kernel_of(b, w, attributes.kernel_shape), attributes)
    return convolve(
        b, centered(b, x, x_zero), centered(b, w, w_zero), window, attributes.group, I32
    )


def scaled(
    b: Nodes,
    total: Tensor,
    scales: Sequence[Placed],
    y_scale: Tensor | None = None,
    y_zero: Tensor | None = None,
    alpha: float = 1,
) -> Tensor:
    """
    Multiplies i32 sums of products (`total`) by the scales of the operands and by `alpha`.
    Quantizes the result if `y_scale` is given.

    Like onnxruntime, multiplies the scales to one factor first.
    """
    places = [*scales, *([] if y_scale is None else [(b.reshape(y_scale, []), [])])]

    def product(*factors: Any) -> Any:
        first = factors[0] * factors[1]
        first = first if alpha == 1 else first * np.float32(alpha)
        return first if y_scale is None else first / factors[2]

    known = [t.numbers for t, _ in places]
    if all(array is not None for array in known) and sum(t.rank > 0 for t, _ in places) <= 1:
        factor = product(*(np.asarray(array, np.float32) for array in known))
        places = [(Tensor.of(np.asarray(factor)), max((m for _, m in places), key=len))]
    element = F32 if y_scale is None else U8 if y_zero is None else y_zero.element
    zeros = [] if y_zero is None or is_zero(y_zero) else [(b.reshape(y_zero, []), [])]

    def body(s: Scalars, total: Number, *rest: Number) -> Number:
        factors = [number.to(F32) for number in rest[: len(places)]]
        ratio = total.to(F32) * (factors[0] if len(factors) == 1 else product(*factors))
        if y_scale is None:
            return ratio
        return rounded(s, ratio, rest[-1] if zeros else None, element)

    operands = [(total, range(total.rank)), *places, *zeros]
    return b.mapped(body, operands, total.sizes, element)


@operator("QLinearMatMul")
def qlinear_matmul(b: Nodes, x: Quantized, y: Quantized, z: Steps, /) -> Tensor:
    total = matmul_integer(b, x.tensor, y.tensor, x.zero, y.zero)
    assert isinstance(total, Tensor)
    places = along(b, x.scale, total, total.rank - 2), along(b, y.scale, total, total.rank - 1)
    return scaled(b, total, places, z.scale, z.zero)


@operator("QLinearConv")
def qlinear_conv(
    b: Nodes,
    x: Quantized,
    w: Quantized,
    y: Steps,
    bias: Tensor | None = None,
    /,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    total = conv_integer(b, x.tensor, w.tensor, x.zero, w.zero, attributes=attributes)
    assert isinstance(total, Tensor)
    total = with_bias(b, total, bias)
    places = along(b, x.scale, total, 1), along(b, w.scale, total, 1)
    return scaled(b, total, places, y.scale, y.zero)
