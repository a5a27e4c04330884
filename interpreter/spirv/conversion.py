"""
Defines the semantics of conversions.

If the target type cannot represent a result, numbers.py defines the result. Cooperative matrices
are converted by component (CM-19).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv import conversion as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import CooperativeMatrix, Opaque, Plain
from xdsl_spirv.interpreter.memories import physical
from xdsl_spirv.interpreter.numbers import F16, F32, I64, Array, DType
from xdsl_spirv.interpreter.semantics import Function, same, value, value_table

SATURATING = "saturated_to_largest_float8_normal_conversion_ext"
"""Decoration (SPV_EXT_float8) of a conversion that saturates."""


def _dtypes(op: Operation, context: Context) -> tuple[DType, DType]:
    source, target = (context.form(v.type) for v in (op.operands[0], op.results[0]))
    if isinstance(source, Plain | CooperativeMatrix) and isinstance(target, type(source)):
        return source.dtype, target.dtype
    raise InterpreterError(f"cannot convert {op.operands[0].type} to {op.results[0].type}", op)


def _convert_carried(function: Function, op: Operation, context: Context) -> Function:
    """Wraps a conversion of components so that it also converts matrices stored as binary32."""
    source, target = (context.form(v.type) for v in (op.operands[0], op.results[0]))
    if not isinstance(source, CooperativeMatrix) or not isinstance(target, CooperativeMatrix):
        return function

    def call(matrix: Array) -> Array:
        converted = function(matrix.astype(source.dtype, copy=False))
        return converted.astype(target.carrier, copy=False)

    return call


CONVERSIONS: dict[type[Operation], ew.Conversion] = {
    ops.ConvertFToSOp: ew.float_to_signed,
    ops.ConvertFToUOp: ew.float_to_unsigned,
    ops.ConvertSToFOp: ew.signed_to_float,
    ops.ConvertUToFOp: ew.unsigned_to_float,
    ops.SConvertOp: ew.sign_extend,
    ops.UConvertOp: ew.zero_extend,
}


@value(*CONVERSIONS)
def converted(op: Operation, context: Context) -> Function:
    """Converts between component types by the function in `CONVERSIONS`."""
    convert = CONVERSIONS[type(op)](*_dtypes(op, context), context.options.bfloat16_rounding)
    return _convert_carried(convert, op, context)


@value(ops.FConvertOp)
def float_to_float(op: ops.FConvertOp, context: Context) -> Function:
    """
    Rounds to nearest even.

    A bfloat16 is rounded from binary32, by the option `bfloat16_rounding` (BF-06, BF-07). With the
    saturating decoration, numbers beyond the range of an 8-bit float, including infinity, become
    its largest finite number.
    """
    source, target = _dtypes(op, context)
    convert = numbers.float_to_float(source, target, context.options.bfloat16_rounding)
    if SATURATING not in op.attributes or target.itemsize > 1:
        return _convert_carried(convert, op, context)
    largest = np.asarray(ml_dtypes.finfo(target).max).astype(source)
    return _convert_carried(lambda value: convert(np.clip(value, -largest, largest)), op, context)


def quantize(a: Array) -> Array:
    """Rounds binary32 to the precision of binary16. Numbers below its normal range become 0."""
    rounded = a.astype(F16).astype(F32)
    tiny = np.abs(rounded) < np.finfo(np.float16).smallest_normal
    return np.where(tiny, np.copysign(np.float32(0), a), rounded)


# A pointer refers to its memory directly, so its storage class does not matter.
value_table(
    {
        ops.QuantizeToF16Op: quantize,
        ops.PtrCastToGenericOp: same,
        ops.GenericCastToPtrOp: same,
    }
)


@value(ops.BitcastOp)
def bitcast(op: ops.BitcastOp, context: Context) -> Function:
    """
    Reinterprets the bits. If the components change their width, the lowest bits form the first
    component.
    """
    source, target = (context.form(v.type) for v in (op.operand, op.result))
    if isinstance(source, Opaque) and isinstance(target, Opaque):
        return lambda pointer: pointer
    if isinstance(source, Plain) and isinstance(target, Opaque):
        return lambda a: context.memories.at(_addresses(a, source), None)
    if isinstance(source, Opaque) and isinstance(target, Plain):
        return lambda pointer: _as_words(physical(pointer), target)
    if isinstance(source, CooperativeMatrix):
        assert isinstance(target, CooperativeMatrix)
        return _convert_carried(lambda a: a.view(target.dtype), op, context)
    if not isinstance(source, Plain) or not isinstance(target, Plain):
        raise InterpreterError(f"cannot cast {op.operand.type} to {op.result.type}", op)
    if source.dtype.itemsize == target.dtype.itemsize:
        return lambda a: a.view(target.dtype)

    def call(a: Array) -> Array:
        flat = np.ascontiguousarray(a if source.shape else a[..., None])
        cast = flat.view(target.dtype)
        return cast if target.shape else cast[..., 0]

    return call


def _addresses(a: Array, form: Plain) -> Array:
    """Converts a 64-bit integer, or a vector of two 32-bit integers, to physical addresses."""
    if not form.shape:
        return a.view(I64)
    return np.ascontiguousarray(a).view(I64)[..., 0]


def _as_words(address: Array, form: Plain) -> Array:
    if not form.shape:
        return address.view(form.dtype)
    return np.ascontiguousarray(address[..., None]).view(form.dtype)
