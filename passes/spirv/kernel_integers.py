"""
Converts integer operations that few kernels use: bit operations, and rounded divisions.

`kernel_scalars` converts the operations that addresses need: sums, products and unsigned
quotients.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.scalars.values import Values
from xdsl_spirv.dialects.spirv import arithmetic, bit, logic
from xdsl_spirv.passes.spirv.kernel_code import Compute
from xdsl_spirv.passes.spirv.kernel_scalars import by_kind, first, zero


def remainder_signed(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """Returns a - a / b * b, because Vulkan leaves SRem of a negative operand undefined."""
    quotient = v.op(arithmetic.SDivOp, a, b)
    return v.op(arithmetic.ISubOp, a, v.op(arithmetic.IMulOp, quotient, b))


def _inexact(v: Values, a: SSAValue, b: SSAValue, quotient: SSAValue) -> SSAValue:
    product = v.op(arithmetic.IMulOp, quotient, b)
    return v.test(logic.INotEqualOp, product, a)


def _signs_differ(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    return v.test(logic.SLessThanOp, v.op(bit.BitwiseXorOp, a, b), v.number(0))


def floor_divided(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """Returns the quotient rounded toward negative infinity."""
    quotient = v.op(arithmetic.SDivOp, a, b)
    down = v.as_type(i1).op(logic.LogicalAndOp, _inexact(v, a, b, quotient), _signs_differ(v, a, b))
    return v.select(down, v.op(arithmetic.ISubOp, quotient, v.number(1)), quotient)


def ceiling_divided(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    """Returns the quotient rounded toward positive infinity."""
    quotient = v.op(arithmetic.SDivOp, a, b)
    same = v.as_type(i1).op(logic.LogicalNotOp, _signs_differ(v, a, b))
    up = v.as_type(i1).op(logic.LogicalAndOp, _inexact(v, a, b, quotient), same)
    return v.select(up, v.op(arithmetic.IAddOp, quotient, v.number(1)), quotient)


def ceiling_divided_unsigned(v: Values, a: SSAValue, b: SSAValue) -> SSAValue:
    quotient = v.op(arithmetic.UDivOp, a, b)
    up = _inexact(v, a, b, quotient)
    return v.select(up, v.op(arithmetic.IAddOp, quotient, v.number(1)), quotient)


HANDLERS: dict[type[Operation], Compute] = {
    arith.RemSIOp: by_kind(zero, remainder_signed),
    arith.FloorDivSIOp: by_kind(first, floor_divided),
    arith.CeilDivSIOp: by_kind(first, ceiling_divided),
    arith.CeilDivUIOp: by_kind(first, ceiling_divided_unsigned),
    arith.AndIOp: by_kind(logic.LogicalAndOp, bit.BitwiseAndOp),
    arith.OrIOp: by_kind(logic.LogicalOrOp, bit.BitwiseOrOp),
    arith.XOrIOp: by_kind(logic.LogicalNotEqualOp, bit.BitwiseXorOp),
    arith.ShLIOp: by_kind(first, bit.ShiftLeftLogicalOp),
    arith.ShRUIOp: by_kind(first, bit.ShiftRightLogicalOp),
    arith.ShRSIOp: by_kind(first, bit.ShiftRightArithmeticOp),
}
