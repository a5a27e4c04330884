"""
SPV_KHR_integer_dot_product, exactly.

Everything is computed modulo 2^64, which holds the low N bits of the exact sum for any N up to 64
(DOT-15). The saturating forms add that N-bit sum to the accumulator exactly and clamp (DOT-16); a
sum that overflowed before, undefined by DOT-17, is the wrapped one here.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv import dot_product as ops
from xdsl_spirv.dialects.spirv.dot_product import DotSignedness
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.numbers import Array, DType
from xdsl_spirv.interpreter.semantics import Function, value
from xdsl_spirv.interpreter.unit import Unit


def components(vector: Array, form: Plain, sign: bool) -> list[Array]:
    """A vector's components, or a packed scalar's bytes from the least significant (DOT-14)."""
    if not form.shape:
        vector = np.ascontiguousarray(vector)[..., None].view(np.int8)
    vector = vector if sign else numbers.unsigned(vector)
    return [vector[..., number] for number in range(vector.shape[-1])]


def _sum_dtype(component: DType, count: int, result: DType) -> DType:
    """
    The narrowest integer that holds the low bits of the sum: 32 bits where the result has them.
    """
    return numbers.I32 if result.itemsize <= 4 else numbers.I64


@value(ops.SDotOp, ops.UDotOp, ops.SUDotOp)
def dot(op: ops.DotOperation, unit: Unit) -> Function:
    """The low bits of the exact sum of products."""
    return _dot(op, unit)


def _dot(op: ops.IntegerDotOperation, unit: Unit) -> Function:
    forms = unit.plain(op.vector_1.type), unit.plain(op.vector_2.type)
    first_sign = op.SIGNEDNESS != DotSignedness.UNSIGNED
    second_sign = op.SIGNEDNESS == DotSignedness.SIGNED
    dtype = unit.plain(op.result.type).dtype
    wide = _sum_dtype(forms[0].dtype, 0, dtype)

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


@value(ops.SDotAccSatOp, ops.UDotAccSatOp, ops.SUDotAccSatOp)
def dot_accumulate(op: ops.DotAccumulateOperation, unit: Unit) -> Function:
    """The dot product added to the accumulator with saturation."""
    product = _dot(op, unit)
    sign = op.SIGNEDNESS != DotSignedness.UNSIGNED

    def call(vector_1: Array, vector_2: Array, accumulator: Array) -> Array:
        return saturating_add(product(vector_1, vector_2), accumulator, sign)

    return call


def saturating_add(a: Array, b: Array, sign: bool) -> Array:
    """a + b clamped to their type's range, read with or without sign."""
    if not sign:
        total = a + b
        overflow = numbers.unsigned(total) < numbers.unsigned(a)
        return np.where(overflow, total.dtype.type(-1), total)
    total = a + b
    overflow = ((a ^ total) & (b ^ total)) < 0
    limits = np.iinfo(total.dtype)
    limit = np.where(a < 0, total.dtype.type(limits.min), total.dtype.type(limits.max))
    return np.where(overflow, limit, total)
