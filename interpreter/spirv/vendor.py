"""
Executes matrices, dot products and conversions of vendor-specific extensions.

Choices that the extensions leave open are made as for the KHR extensions. A MulAdd works as in
cooperative_matrix.py. A dot product of small floats is exact in binary64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness

from xdsl_spirv.dialects.scalars import meanings
from xdsl_spirv.dialects.spirv import vendor as ops
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixOperands, CooperativeMatrixUse
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.numbers import F32, F64, I64, Array
from xdsl_spirv.interpreter.semantics import Function, action, value, value_table
from xdsl_spirv.interpreter.spirv.cooperative_matrix import (
    float_multiply_add,
    integer_multiply_add,
    load,
    matrix_form,
    store,
)


@action(ops.CooperativeMatrixLoadNVOp, ops.CooperativeMatrixStoreNVOp)
def move(op: Any, context: Context) -> Function:
    """
    Compiles a load or store. Its last operand, which must be uniform, selects column-major layout.
    """
    stage = load if op.results else store
    ways = [stage(op, context, by_rows) for by_rows in (True, False)]

    def call(batch: Batch, *operands: Any) -> Any:
        *given, column_major = operands
        return ways[bool(column_major.reshape(-1)[0])](batch, *given)

    return call


@value(ops.CooperativeMatrixMulAddNVOp)
def multiply_add(op: ops.CooperativeMatrixMulAddNVOp, context: Context) -> Function:
    """Computes A * B + C. The component types state if integers are signed."""
    a, b, c = (matrix_form(v.type, context) for v in (op.a, op.b, op.c))
    if numbers.is_float(c.dtype):
        wide = F64 if F64 in (a.dtype, b.dtype, c.dtype) else F32
        return float_multiply_add(c.dtype, wide, context.options.bfloat16_rounding)
    flags = CooperativeMatrixOperands
    signs = {
        flags.MatrixASignedComponentsKHR: op.a,
        flags.MatrixBSignedComponentsKHR: op.b,
        flags.MatrixCSignedComponentsKHR: op.c,
        flags.MatrixResultSignedComponentsKHR: op.result,
    }
    bits = flags(0)
    for bit, operand in signs.items():
        element = getattr(operand.type, "element_type", None)
        if isinstance(element, IntegerType) and element.signedness.data == Signedness.SIGNED:
            bits |= bit
    return integer_multiply_add(a, b, c, bits)


@value(ops.FDot2MixAcc32Op, ops.FDot2MixAcc16Op, ops.FDot4MixAcc32Op)
def mixed_dot(op: ops.MixedDotProduct, context: Context) -> Function:
    """Sums the components' products and the accumulator, and rounds once."""
    dtype = context.plain(op.result.type).dtype

    def call(a: Array, b: Array, accumulator: Array) -> Array:
        total = (a.astype(F64) * b.astype(F64)).sum(axis=3) + accumulator.astype(F64)
        return total.astype(dtype)

    return call


@value(ops.BitCastArrayOp)
def bitcast_array(op: ops.BitCastArrayOp, context: Context) -> Function:
    """Reinterprets the bits of an array. The lowest bits form the first element."""
    dtype = context.plain(op.result.type).dtype
    return lambda array: np.ascontiguousarray(array).view(dtype)


def _by_columns(form: CooperativeMatrix) -> bool:
    """True if an invocation holds a column of the matrix (B), False if it holds a row."""
    return form.use == CooperativeMatrixUse.MatrixBKHR


@action(ops.CompositeConstructCoopMatOp)
def construct(op: ops.CompositeConstructCoopMatOp, context: Context) -> Function:
    """
    Builds a matrix from one array per lane. The array of lane i is row i (for B, column i). Surplus
    lanes are ignored.
    """
    form = matrix_form(op.result.type, context)
    count = form.columns if _by_columns(form) else form.rows

    def call(batch: Batch, array: Array) -> Array:
        lines = np.broadcast_to(array, (*array.shape[:2], batch.lanes, array.shape[3]))
        bits = np.ascontiguousarray(lines[:, :, :count]).view(form.dtype)
        matrix = bits.astype(form.carrier, copy=False)
        return matrix.swapaxes(2, 3) if _by_columns(form) else matrix

    return call


@action(ops.CompositeExtractCoopMatOp)
def extract(op: ops.CompositeExtractCoopMatOp, context: Context) -> Function:
    """Returns row i (for B, column i) of a matrix as the array of lane i. Surplus lanes get 0."""
    form, result = matrix_form(op.source.type, context), context.plain(op.result.type)

    def call(batch: Batch, matrix: Array) -> Array:
        lines = matrix.swapaxes(2, 3) if _by_columns(form) else matrix
        lines = np.ascontiguousarray(lines.astype(form.dtype, copy=False)).view(result.dtype)
        given = np.zeros((*lines.shape[:2], batch.lanes, lines.shape[3]), result.dtype)
        count = min(batch.lanes, lines.shape[2])
        given[:, :, :count] = lines[:, :, :count]
        return given

    return call


@value(ops.ExtractSubArrayOp)
def extract_part(op: ops.ExtractSubArrayOp, context: Context) -> Function:
    """Returns consecutive elements of an array, starting at an index."""
    (count,) = context.plain(op.result.type).shape

    def call(array: Array, index: Array) -> Array:
        places = index.astype(I64)[..., None] + np.arange(count)
        places = np.clip(places, 0, array.shape[3] - 1)
        lead = np.broadcast_shapes(array.shape[:3], places.shape[:3])
        array = np.broadcast_to(array, (*lead, array.shape[3]))
        return np.take_along_axis(array, np.broadcast_to(places, (*lead, count)), axis=3)

    return call


# The product of two bfloat16 is exact in binary32.
value_table(
    {
        ops.BFloat16MulAddOp: lambda a, b, c: meanings.fused_multiply_add(
            a.astype(F32), b.astype(F32), c
        )
    }
)
