"""
Defines the semantics of bit instructions, which are elementwise and ignore signedness.

A shift by the operand's width or more, undefined in SPIR-V, gives 0 or copies of the sign.
"""

from __future__ import annotations

import numpy as np

from xdsl_spirv.dialects.spirv import bit as ops
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.numbers import Array, unsigned
from xdsl_spirv.interpreter.semantics import Function, value, value_of, value_table

value_table(
    {
        ops.BitwiseAndOp: np.bitwise_and,
        ops.BitwiseOrOp: np.bitwise_or,
        ops.BitwiseXorOp: np.bitwise_xor,
        ops.NotOp: np.invert,
        ops.BitReverseOp: ew.reverse_bits,
        ops.ShiftLeftLogicalOp: ew.shift_left,
        ops.ShiftRightLogicalOp: ew.shift_right_logical,
        ops.ShiftRightArithmeticOp: ew.shift_right_arithmetic,
    }
)


@value(ops.BitCountOp)
def bit_count(op: ops.BitCountOp, context: Context) -> Function:
    """Counts the set bits, in the result's type."""
    dtype = context.plain(op.result.type).dtype
    return lambda a: np.bitwise_count(unsigned(a)).astype(dtype)


def _for_components(amount: Array, like: Array) -> Array:
    """Reshapes a scalar Offset or Count so that it broadcasts over all components."""
    return amount.reshape(amount.shape + (1,) * (like.ndim - amount.ndim)).astype(np.int64)


def _low_bits(count: Array, dtype: np.dtype) -> Array:
    width = dtype.itemsize * 8
    full = np.array(-1, dtype)
    amount = (width - np.clip(count, 0, width)).astype(np.int64)
    return ew.shift_right_logical(np.broadcast_to(full, amount.shape), amount)


@value_of(ops.BitFieldInsertOp)
def insert_field(base: Array, insert: Array, offset: Array, count: Array) -> Array:
    """Replaces `count` bits of Base, starting at bit `offset`, by the low bits of `insert`."""
    offset, count = _for_components(offset, base), _for_components(count, base)
    field = ew.shift_left(_low_bits(count, base.dtype), offset)
    return (base & ~field) | (ew.shift_left(insert, offset) & field)


@value_of(ops.BitFieldUExtractOp)
def extract_field_unsigned(base: Array, offset: Array, count: Array) -> Array:
    """Extracts `count` bits, starting at bit `offset`. The result is zero-extended."""
    offset, count = _for_components(offset, base), _for_components(count, base)
    return ew.shift_right_logical(base, offset) & _low_bits(count, base.dtype)


@value_of(ops.BitFieldSExtractOp)
def extract_field_signed(base: Array, offset: Array, count: Array) -> Array:
    """
    Extracts `count` bits, starting at bit `offset`. The result is sign-extended, or 0 if `count` is
    0.
    """
    offset, count = _for_components(offset, base), _for_components(count, base)
    width = base.dtype.itemsize * 8
    high = ew.shift_left(base, width - offset - count)
    field = ew.shift_right_arithmetic(high, width - count)
    return np.where(count == 0, base.dtype.type(0), field)
