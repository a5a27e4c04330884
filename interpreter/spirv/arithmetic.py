"""
Defines the semantics of arithmetic: integers modulo 2^N, floats rounded after every instruction.

On a cooperative matrix an instruction is elementwise. Matrices stored as binary32 are rounded to
their component type before and after it. A dot product of floats narrower than 64 bits sums
binary32 products in order, and the sum is rounded once (BF-08 for bfloat16).
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import arithmetic as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.numbers import F32, F64, Array
from xdsl_spirv.interpreter.semantics import Function, value, value_table

COMPONENTWISE: dict[type[Operation], Function] = {
    ops.IAddOp: np.add,
    ops.ISubOp: np.subtract,
    ops.IMulOp: np.multiply,
    ops.SDivOp: ew.divide_signed,
    ops.UDivOp: ew.divide_unsigned,
    ops.SRemOp: ew.remainder_signed,
    ops.SModOp: ew.modulo_signed,
    ops.UModOp: ew.remainder_unsigned,
    ops.SNegateOp: np.negative,
    ops.FAddOp: ew.half_in_binary32(np.add),
    ops.FSubOp: ew.half_in_binary32(np.subtract),
    ops.FMulOp: ew.half_in_binary32(np.multiply),
    ops.FDivOp: ew.half_in_binary32(np.divide),
    ops.FRemOp: np.fmod,
    ops.FModOp: np.mod,
    ops.FNegateOp: np.negative,
}
"""
Maps elementwise instructions on scalars, vectors and cooperative matrices (CM-26) to functions.
"""


@value(*COMPONENTWISE)
def componentwise(op: Operation, context: Context) -> Function:
    """Applies the operation's function in `COMPONENTWISE` to each component."""
    return on_components(COMPONENTWISE[type(op)], op, context)


def on_components(function: Function, op: Operation, context: Context) -> Function:
    """
    Wraps a function of components so that it also accepts cooperative matrices stored as binary32.
    """
    form = context.form(op.results[0].type)
    if not isinstance(form, CooperativeMatrix) or form.carrier == form.dtype:
        return function
    dtype, carrier = form.dtype, form.carrier

    def call(*operands: Array) -> Array:
        return function(*[operand.astype(dtype) for operand in operands]).astype(carrier)

    return call


def add_carry(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the low bits of the sum, and the carry."""
    total, carry = ew.add_with_carry(a, b)
    return total, carry.astype(total.dtype)


def subtract_borrow(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns the low bits of the difference, and the borrow."""
    borrow = numbers.unsigned(a) < numbers.unsigned(b)
    difference = a - b
    return difference, borrow.astype(difference.dtype)


value_table(
    {
        ops.IAddCarryOp: add_carry,
        ops.ISubBorrowOp: subtract_borrow,
        ops.SMulExtendedOp: ew.multiply_extended(sign=True),
        ops.UMulExtendedOp: ew.multiply_extended(sign=False),
        ops.VectorTimesScalarOp: lambda vector, scalar: vector * scalar[..., None],
        # Column j is the first vector times component j of the second.
        ops.OuterProductOp: lambda a, b: a[..., None, :] * b[..., :, None],
        ops.TransposeOp: lambda matrix: np.swapaxes(matrix, -1, -2),
    }
)


@value(ops.MatrixTimesScalarOp)
def matrix_times_scalar(op: ops.MatrixTimesScalarOp, context: Context) -> Function:
    """Multiplies components by a scalar. A cooperative matrix needs a uniform scalar (CM-27)."""
    form = context.form(op.result.type)
    if not isinstance(form, CooperativeMatrix):
        return lambda matrix, scalar: matrix * scalar[..., None, None]
    dtype, carrier = form.dtype, form.carrier

    def call(matrix: Array, scalar: Array) -> Array:
        product = matrix.astype(dtype, copy=False) * scalar[:, :, :1, None]
        return product.astype(carrier, copy=False)

    return call


def sum_of_products(a: Array, b: Array, axis: int, dtype: numbers.DType) -> Array:
    """
    Sums products in order along an axis. Computes in binary64, or in binary32 and rounds the sum
    once.
    """
    wide = F64 if dtype == F64 else F32
    a, b = a.astype(wide, copy=False), b.astype(wide, copy=False)
    a, b = np.broadcast_arrays(np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0))
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total.astype(dtype, copy=False)


def _result_dtype(op: Operation, context: Context) -> numbers.DType:
    return context.plain(op.results[0].type).dtype


@value(ops.DotOp)
def dot(op: ops.DotOp, context: Context) -> Function:
    """Computes the dot product of two vectors."""
    assert isinstance(op.vector_1.type, VectorType)
    dtype, rounding = _result_dtype(op, context), context.options.bfloat16_rounding
    if dtype == numbers.BFLOAT16:
        return lambda a, b: numbers.to_bfloat16(sum_of_products(a, b, -1, F32), rounding)
    return lambda a, b: sum_of_products(a, b, -1, dtype)


@value(ops.VectorTimesMatrixOp)
def vector_times_matrix(op: ops.VectorTimesMatrixOp, context: Context) -> Function:
    """Computes the vector's dot product with each column."""
    dtype = _result_dtype(op, context)
    return lambda vector, matrix: sum_of_products(vector[..., None, :], matrix, -1, dtype)


@value(ops.MatrixTimesVectorOp)
def matrix_times_vector(op: ops.MatrixTimesVectorOp, context: Context) -> Function:
    """Computes the sum of the columns weighted by the vector's components."""
    dtype = _result_dtype(op, context)
    return lambda matrix, vector: sum_of_products(matrix, vector[..., :, None], -2, dtype)


@value(ops.MatrixTimesMatrixOp)
def matrix_times_matrix(op: ops.MatrixTimesMatrixOp, context: Context) -> Function:
    """Computes the product of two matrices."""
    dtype = _result_dtype(op, context)

    def call(left: Array, right: Array) -> Array:
        return sum_of_products(left[..., None, :, :], right[..., :, :, None], -2, dtype)

    return call
