"""Writes integer additions with saturation, for which SPIR-V has no core instruction."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.spirv import arithmetic, bit, logic
from xdsl_spirv.dialects.spirv.constraints import width_of
from xdsl_spirv.passes.emit.spirv import SpirvEmitter


def saturating_add(code: SpirvEmitter, a: SSAValue, b: SSAValue, *, sign: bool) -> SSAValue:
    """Returns a + b clamped to the range of their type, which is signed if `sign`."""
    width = width_of(a.type)
    total = code.add(arithmetic.IAddOp(a, b))
    if not sign:
        overflow = code.add(logic.ULessThanOp(total, a))
        return code.select(overflow, code.number(-1, a.type), total)
    changed = code.add(bit.BitwiseXorOp(a, total))
    both = code.add(bit.BitwiseAndOp(changed, code.add(bit.BitwiseXorOp(b, total))))
    overflow = code.add(logic.SLessThanOp(both, code.number(0, a.type)))
    negative = code.add(logic.SLessThanOp(a, code.number(0, a.type)))
    least, most = code.number(1 << (width - 1), a.type), code.number(-1 + (1 << width - 1), a.type)
    return code.select(overflow, code.select(negative, least, most), total)


def saturating_mixed_add(code: SpirvEmitter, a: SSAValue, b: SSAValue, *, sign: bool) -> SSAValue:
    """
    Returns a + b clamped to a's range. If `sign`, a is signed and b is unsigned; else the reverse.
    """
    total = code.add(arithmetic.IAddOp(a, b))
    if sign:
        most = code.number((1 << (width_of(a.type) - 1)) - 1, a.type)
        room = code.add(arithmetic.ISubOp(most, a))
        return code.select(code.add(logic.UGreaterThanOp(b, room)), most, total)
    zero, ones = code.number(0, a.type), code.number(-1, a.type)
    negative = code.add(logic.SLessThanOp(b, zero))
    above = code.add(logic.ULessThanOp(total, a))
    below = code.add(logic.UGreaterThanOp(total, a))
    limited = code.select(below, zero, total)
    return code.select(negative, limited, code.select(above, ones, total))


def clamp(code: SpirvEmitter, value: SSAValue, width: int, *, sign: bool) -> SSAValue:
    """Clamps an i32 to the range of integers of `width` bits, which are signed if `sign`."""
    assert value.type == IntegerType(32)
    least, most = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if sign else (0, (1 << width) - 1)
    less = logic.SLessThanOp if sign else logic.ULessThanOp
    high = code.number(most)
    value = code.select(code.add(less(high, value)), high, value)
    if not sign:
        return value
    low = code.number(least)
    return code.select(code.add(less(value, low)), low, value)
