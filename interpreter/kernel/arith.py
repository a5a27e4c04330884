"""
Defines the semantics of `arith`: integers modulo 2^N, floats rounded after every operation.

`index` is a 64-bit integer. bfloat16 and 8-bit floats are computed in binary32 and rounded.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ShapedType, VectorType
from xdsl.ir import Operation

from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import numbers
from xdsl_spirv.interpreter.constants import constant_value
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.numbers import Array, scalar_dtype
from xdsl_spirv.interpreter.semantics import Function, constant, value, value_table
from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

_INTEGERS: dict[type[Operation], Function] = {
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
}
"""Functions of integers of more than one bit."""

_OF_ONE_BIT: dict[type[Operation], Function] = {
    arith.AddiOp: np.logical_xor,
    arith.SubiOp: np.logical_xor,
    # As a signed 1-bit integer, true is -1, which is less than 0.
    arith.MinSIOp: np.logical_or,
    arith.MaxSIOp: np.logical_and,
}
"""Functions of one-bit integers, which are numpy bools."""


@value(*_INTEGERS)
def integers(op: Operation, context: Context) -> Function:
    """Computes integer arithmetic modulo 2^N."""
    type_ = op.results[0].type
    if scalar_dtype(type_.element_type if isinstance(type_, VectorType) else type_) == numbers.BOOL:
        return _OF_ONE_BIT.get(type(op), _INTEGERS[type(op)])
    return _INTEGERS[type(op)]


value_table(
    {
        arith.AndIOp: np.bitwise_and,
        arith.OrIOp: np.bitwise_or,
        arith.XOrIOp: np.bitwise_xor,
        arith.ShLIOp: ew.shift_left,
        arith.ShRUIOp: ew.shift_right_logical,
        arith.ShRSIOp: ew.shift_right_arithmetic,
        arith.MulSIExtendedOp: ew.multiply_extended(sign=True),
        arith.MulUIExtendedOp: ew.multiply_extended(sign=False),
        arith.AddUIExtendedOp: ew.add_with_carry,
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
def arith_constant(op: arith.ConstantOp, context: Context) -> Array:
    """Returns the constant, uniform over all invocations."""
    return constant_value(op.value, op.result.type, context)


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
"""Maps each predicate of arith.cmpi to its comparison: eq, ne, slt, sle, ..., ugt, uge."""

_COMPARE_FLOATS: list[Function] = [np.equal, np.greater, np.greater_equal, np.less, np.less_equal]


@value(arith.CmpiOp)
def compare_integers(op: arith.CmpiOp, context: Context) -> Function:
    """Compares integers by the predicate. A bool counts as a 1-bit integer."""
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
    Returns the comparison of an arith.cmpf predicate (false, o{eq,..}, ord, u{..}, uno, true).
    """

    if predicate in (0, 15):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == 15)
    if predicate in (7, 14):
        return lambda a, b: ew.unordered(a, b) == (predicate == 14)
    if predicate == 6:
        return ew.ordered_not_equal
    if predicate == 13:
        return np.not_equal
    compare = _COMPARE_FLOATS[(predicate - 1) % 7]
    if predicate < 7:
        return compare
    return ew.or_unordered(compare)


@value(arith.CmpfOp)
def compare_floats(op: arith.CmpfOp, context: Context) -> Function:
    """Compares floats by the predicate."""
    return ew.in_binary32(float_comparison(op.predicate.value.data))


@value(arith.SelectOp)
def select(op: arith.SelectOp, context: Context) -> Function:
    """Selects the second operand where the condition holds, otherwise the third."""
    return ew.select(context.form(op.result.type), isinstance(op.cond.type, ShapedType))


CONVERSIONS: dict[type[Operation], ew.Conversion] = {
    arith.IndexCastOp: ew.sign_extend,
    arith.ExtSIOp: ew.sign_extend,
    arith.ExtUIOp: ew.zero_extend,
    IndexCastUIOp: ew.zero_extend,
    arith.TruncIOp: ew.zero_extend,
    arith.ExtFOp: numbers.float_to_float,
    arith.TruncFOp: numbers.float_to_float,
    arith.SIToFPOp: ew.signed_to_float,
    arith.UIToFPOp: ew.unsigned_to_float,
    arith.FPToSIOp: ew.float_to_signed,
    arith.FPToUIOp: ew.float_to_unsigned,
    arith.BitcastOp: lambda source, target, rounding: lambda a: a.view(target),
}


@value(*CONVERSIONS)
def convert(op: Operation, context: Context) -> Function:
    """Converts between element types as the operation requires."""
    source, target = (context.plain(v.type).dtype for v in (op.operands[0], op.results[0]))
    return CONVERSIONS[type(op)](source, target, context.options.bfloat16_rounding)
