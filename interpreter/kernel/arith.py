"""
`arith`: integers modulo 2^N, floats rounded after every operation.

`index` is a 64-bit integer. bfloat16 and 8-bit floats are computed in binary32 and rounded.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ShapedType

from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.constants import constant_value
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.semantics import Function, constant, value, value_table
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

value_table(
    {
        arith.AddiOp: np.add,
        arith.SubiOp: np.subtract,
        arith.MuliOp: np.multiply,
        arith.DivSIOp: ew.divide_signed,
        arith.DivUIOp: ew.divide_unsigned,
        arith.RemSIOp: ew.remainder_signed,
        arith.RemUIOp: ew.remainder_unsigned,
        arith.FloorDivSIOp: np.floor_divide,
        arith.CeilDivSIOp: ew.ceiling_divide_signed,
        arith.CeilDivUIOp: ew.ceiling_divide_unsigned,
        arith.MinSIOp: np.minimum,
        arith.MaxSIOp: np.maximum,
        arith.MinUIOp: ew.on_unsigned(np.minimum),
        arith.MaxUIOp: ew.on_unsigned(np.maximum),
        arith.AndIOp: np.bitwise_and,
        arith.OrIOp: np.bitwise_or,
        arith.XOrIOp: np.bitwise_xor,
        arith.ShLIOp: ew.shift_left,
        arith.ShRUIOp: ew.shift_right_logical,
        arith.ShRSIOp: ew.shift_right_arithmetic,
        arith.MulSIExtendedOp: ew.multiply_extended(sign=True),
        arith.MulUIExtendedOp: ew.multiply_extended(sign=False),
        arith.AddfOp: ew.in_binary32(np.add),
        arith.SubfOp: ew.in_binary32(np.subtract),
        arith.MulfOp: ew.in_binary32(np.multiply),
        arith.DivfOp: ew.in_binary32(np.divide),
        arith.NegfOp: np.negative,
        arith.MaximumfOp: ew.in_binary32(np.maximum),
        arith.MinimumfOp: ew.in_binary32(np.minimum),
        arith.MaxnumfOp: ew.in_binary32(np.fmax),
        arith.MinnumfOp: ew.in_binary32(np.fmin),
    }
)


@constant(arith.ConstantOp)
def arith_constant(op: arith.ConstantOp, unit: Unit) -> Array:
    """The constant, uniform."""
    return constant_value(op.value, op.result.type, unit)


@value(arith.AddUIExtendedOp)
def add_with_carry(op: arith.AddUIExtendedOp, unit: Unit) -> Function:
    """The sum modulo 2^N, and whether it overflowed."""

    def call(a: Array, b: Array) -> tuple[Array, Array]:
        total = a + b
        return total, numbers.unsigned(total) < numbers.unsigned(a)

    return call


_COMPARE_INTEGERS: list[Function] = [
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    ew.on_unsigned(np.less),
    ew.on_unsigned(np.less_equal),
    ew.on_unsigned(np.greater),
    ew.on_unsigned(np.greater_equal),
]
"""By arith.cmpi's predicate: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""

_COMPARE_FLOATS: list[Function] = [np.equal, np.greater, np.greater_equal, np.less, np.less_equal]


@value(arith.CmpiOp)
def compare_integers(op: arith.CmpiOp, unit: Unit) -> Function:
    """By predicate; bools compare as 1-bit integers."""
    function = _COMPARE_INTEGERS[op.predicate.value.data]
    if scalar_dtype(op.lhs.type) == numbers.BOOL and op.predicate.value.data > 1:
        sign = op.predicate.value.data < 6
        # As a signed 1-bit integer true is -1.
        return lambda a, b: function(
            *[np.where(x, -1 if sign else 1, 0).astype(np.int64) for x in (a, b)]
        )
    return function


def float_comparison(predicate: int) -> Function:
    """
    By arith.cmpf's predicate: false, o{eq,gt,ge,lt,le,ne}, ord, u{eq,gt,ge,lt,le,ne}, uno, true.
    """

    def unordered(a: Array, b: Array) -> Array:
        return np.isnan(a) | np.isnan(b)

    if predicate in (0, 15):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == 15)
    if predicate in (7, 14):
        return lambda a, b: unordered(a, b) == (predicate == 14)
    if predicate == 6:
        return lambda a, b: (a != b) & ~unordered(a, b)
    if predicate == 13:
        return np.not_equal
    compare = _COMPARE_FLOATS[(predicate - 1) % 7]
    if predicate < 7:
        return compare
    return lambda a, b: compare(a, b) | unordered(a, b)


@value(arith.CmpfOp)
def compare_floats(op: arith.CmpfOp, unit: Unit) -> Function:
    """By predicate."""
    return ew.in_binary32(float_comparison(op.predicate.value.data))


@value(arith.SelectOp)
def select(op: arith.SelectOp, unit: Unit) -> Function:
    """The second operand where the condition holds, else the third."""
    form = unit.form(op.result.type)
    scalar_condition = not isinstance(op.cond.type, ShapedType)
    if isinstance(form, Plain) and form.shape and scalar_condition:
        tail = (1,) * len(form.shape)
        return lambda c, a, b: np.where(c.reshape(c.shape + tail), a, b)
    return np.where


@value(arith.IndexCastOp)
def index_cast(op: arith.IndexCastOp, unit: Unit) -> Function:
    """Sign-extended or truncated."""
    return numbers.integer_to_integer(unit.plain(op.result.type).dtype, sign=True)


@value(arith.ExtSIOp)
def extend_signed(op: arith.ExtSIOp, unit: Unit) -> Function:
    """Sign-extended."""
    return numbers.integer_to_integer(unit.plain(op.result.type).dtype, sign=True)


@value(arith.ExtUIOp)
def extend_unsigned(op: arith.ExtUIOp, unit: Unit) -> Function:
    """Zero-extended."""
    return numbers.integer_to_integer(unit.plain(op.result.type).dtype, sign=False)


@value(IndexCastUIOp)
def index_cast_unsigned(op: IndexCastUIOp, unit: Unit) -> Function:
    """Zero-extended or truncated."""
    return numbers.integer_to_integer(unit.plain(op.result.type).dtype, sign=False)


@value(arith.TruncIOp)
def truncate(op: arith.TruncIOp, unit: Unit) -> Function:
    """The low bits."""
    return numbers.integer_to_integer(unit.plain(op.result.type).dtype, sign=False)


@value(arith.ExtFOp, arith.TruncFOp)
def convert_float(op: arith.ExtFOp | arith.TruncFOp, unit: Unit) -> Function:
    """Rounded to nearest even; bfloat16 as the options say."""
    source, target = (unit.plain(v.type).dtype for v in (op.operands[0], op.results[0]))
    return numbers.float_to_float(source, target, unit.options.bfloat16_rounding)


@value(arith.SIToFPOp)
def signed_to_float(op: arith.SIToFPOp, unit: Unit) -> Function:
    """Rounded to nearest even."""
    target = unit.plain(op.result.type).dtype
    return numbers.integer_to_float(target, sign=True, rounding=unit.options.bfloat16_rounding)


@value(arith.UIToFPOp)
def unsigned_to_float(op: arith.UIToFPOp, unit: Unit) -> Function:
    """Rounded to nearest even."""
    target = unit.plain(op.result.type).dtype
    return numbers.integer_to_float(target, sign=False, rounding=unit.options.bfloat16_rounding)


@value(arith.FPToSIOp)
def float_to_signed(op: arith.FPToSIOp, unit: Unit) -> Function:
    """Toward zero."""
    return numbers.float_to_integer(unit.plain(op.result.type).dtype, sign=True)


@value(arith.FPToUIOp)
def float_to_unsigned(op: arith.FPToUIOp, unit: Unit) -> Function:
    """Toward zero."""
    return numbers.float_to_integer(unit.plain(op.result.type).dtype, sign=False)


@value(arith.BitcastOp)
def bitcast(op: arith.BitcastOp, unit: Unit) -> Function:
    """The same bits as another type of the same width."""
    dtype = unit.plain(op.result.type).dtype
    return lambda a: a.view(dtype)
