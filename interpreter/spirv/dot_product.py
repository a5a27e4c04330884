"""
Executes SPV_KHR_integer_dot_product exactly.

All sums are computed modulo 2^64, which contains the low N bits of the exact sum for any N up to 64
(DOT-15). The saturating forms add this N-bit sum to the accumulator exactly and clamp the result
(DOT-16). If the sum itself overflows, which DOT-17 leaves undefined, the wrapped sum is added.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv import dot_product as ops
from xdsl_spirv.dialects.spirv.dot_product import DotSignedness
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.numbers import Array, DType
from xdsl_spirv.interpreter.semantics import Function, value


def components(vector: Array, form: Plain, sign: bool) -> list[Array]:
    """Returns a vector's components, or a packed scalar's bytes, lowest first (DOT-14)."""
    if not form.shape:
        vector = np.ascontiguousarray(vector)[..., None].view(np.int8)
    vector = vector if sign else numbers.unsigned(vector)
    return [vector[..., number] for number in range(vector.shape[-1])]


def four_bytes(vector_1: Array, vector_2: Array, sign: bool) -> Array:
    """
    Returns the 32-bit dot products of vectors of four bytes along the last axis. The bytes are
    signed if `sign` is True.
    """
    kind = "i" if sign else "u"
    products = np.multiply(
        vector_1.astype(kind + "2"), vector_2.astype(kind + "2"), dtype=kind + "2", order="C"
    )
    pairs = products.view(kind + "4")
    low = np.left_shift(pairs, 16)
    np.right_shift(low, 16, out=low)
    np.right_shift(pairs, 16, out=pairs)
    low += pairs
    return np.add(low[..., 0], low[..., 1]).view(np.int32)


@value(ops.SDotOp, ops.UDotOp, ops.SUDotOp)
def dot(op: ops.DotOperation, context: Context) -> Function:
    """Computes the low bits of the exact dot product."""
    return _dot(op, context)


def _dot(op: ops.IntegerDotOperation, context: Context) -> Function:
    forms = context.plain(op.vector_1.type), context.plain(op.vector_2.type)
    first_sign = op.SIGNEDNESS != DotSignedness.UNSIGNED
    second_sign = op.SIGNEDNESS == DotSignedness.SIGNED
    dtype = context.plain(op.result.type).dtype
    if all(form.dtype.itemsize == 1 or not form.shape for form in forms) and all(
        form.shape in ((), (4,)) for form in forms
    ):
        return _bytes(forms[0], forms[1], first_sign, second_sign, dtype)
    # Any integer type with enough bits gives the right low bits of the sum.
    wide = numbers.I32 if dtype.itemsize <= 4 else numbers.I64

    def call(vector_1: Array, vector_2: Array) -> Array:
        pairs = zip(
            components(vector_1, forms[0], first_sign),
            components(vector_2, forms[1], second_sign),
            strict=True,
        )
        total = None
        for x, y in pairs:
            product = np.multiply(x.astype(wide), y.astype(wide))
            total = product if total is None else np.add(total, product, out=total)
        assert total is not None
        return total.astype(dtype, copy=False)

    return call


def _bytes(
    first: Plain, second: Plain, first_sign: bool, second_sign: bool, result: DType
) -> Function:
    def octets(vector: Array, form: Plain, sign: bool) -> Array:
        packed = vector if form.shape else np.ascontiguousarray(vector)[..., None]
        return packed.view(np.int8 if sign else np.uint8)

    def call(vector_1: Array, vector_2: Array) -> Array:
        x = octets(vector_1, first, first_sign)
        y = octets(vector_2, second, second_sign)
        return four_bytes(x, y, first_sign or second_sign).astype(result, copy=False)

    return call


@value(ops.SDotAccSatOp, ops.UDotAccSatOp, ops.SUDotAccSatOp)
def dot_accumulate(op: ops.DotAccumulateOperation, context: Context) -> Function:
    """Adds the dot product to the accumulator with saturation."""
    product = _dot(op, context)
    sign = op.SIGNEDNESS != DotSignedness.UNSIGNED

    def call(vector_1: Array, vector_2: Array, accumulator: Array) -> Array:
        return saturating_add(product(vector_1, vector_2), accumulator, sign)

    return call


def saturating_add(a: Array, b: Array, sign: bool) -> Array:
    """Computes a + b, clamped to the range of their type. `sign` states if the type is signed."""
    if not sign:
        total = a + b
        overflow = numbers.unsigned(total) < numbers.unsigned(a)
        return np.where(overflow, total.dtype.type(-1), total)
    total = a + b
    overflow = ((a ^ total) & (b ^ total)) < 0
    limits = np.iinfo(total.dtype)
    limit = np.where(a < 0, total.dtype.type(limits.min), total.dtype.type(limits.max))
    return np.where(overflow, limit, total)
