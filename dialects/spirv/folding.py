"""
What OpSpecConstantOp computes, once its operands are known.

By the instruction's name; numbers are Python's, cut to the result's width as SPIR-V says. What is
undefined there (a division by zero, a shift beyond the width) has no value here, and neither has an
operation on composites.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, Signedness
from xdsl.ir import Attribute

Number: TypeAlias = IntegerAttr | FloatAttr


def _width(t: Attribute) -> int:
    return t.width.data if isinstance(t, IntegerType) else 0


def integer_attribute(value: int, t: IntegerType) -> IntegerAttr:
    """An integer cut to its type, as the dialect writes it: signed unless the type is unsigned."""
    width = t.width.data
    if width == 1:
        return IntegerAttr.from_bool(bool(value & 1))
    value &= (1 << width) - 1
    if value >> (width - 1) and t.signedness.data is not Signedness.UNSIGNED:
        value -= 1 << width
    return IntegerAttr(value, t)


def _unsigned(number: IntegerAttr) -> int:
    return number.value.data & ((1 << _width(number.type)) - 1)


def _signed(number: IntegerAttr) -> int:
    width, value = _width(number.type), _unsigned(number)
    return value - (1 << width) if value >> (width - 1) else value


def _divide(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Binary: TypeAlias = Callable[[int, int], int]

UNSIGNED: Mapping[str, Binary] = {
    "OpIAdd": lambda a, b: a + b,
    "OpISub": lambda a, b: a - b,
    "OpIMul": lambda a, b: a * b,
    "OpUDiv": lambda a, b: a // b,
    "OpUMod": lambda a, b: a % b,
    "OpBitwiseOr": lambda a, b: a | b,
    "OpBitwiseXor": lambda a, b: a ^ b,
    "OpBitwiseAnd": lambda a, b: a & b,
    "OpLogicalOr": lambda a, b: a | b,
    "OpLogicalAnd": lambda a, b: a & b,
    "OpLogicalEqual": lambda a, b: int(a == b),
    "OpLogicalNotEqual": lambda a, b: int(a != b),
    "OpIEqual": lambda a, b: int(a == b),
    "OpINotEqual": lambda a, b: int(a != b),
    "OpULessThan": lambda a, b: int(a < b),
    "OpUGreaterThan": lambda a, b: int(a > b),
    "OpULessThanEqual": lambda a, b: int(a <= b),
    "OpUGreaterThanEqual": lambda a, b: int(a >= b),
}
SIGNED: Mapping[str, Binary] = {
    "OpSDiv": _divide,
    "OpSRem": lambda a, b: a - b * _divide(a, b),
    "OpSMod": lambda a, b: a % b,
    "OpSLessThan": lambda a, b: int(a < b),
    "OpSGreaterThan": lambda a, b: int(a > b),
    "OpSLessThanEqual": lambda a, b: int(a <= b),
    "OpSGreaterThanEqual": lambda a, b: int(a >= b),
}
SHIFTS = ("OpShiftLeftLogical", "OpShiftRightLogical", "OpShiftRightArithmetic")


def fold(name: str, operands: Sequence[Number], result: Attribute) -> Number | None:
    """The value of an instruction on constants; None where it has none that is known here."""
    if name == "OpSelect":
        condition, first, second = operands
        known = isinstance(condition, IntegerAttr)
        return (first if condition.value.data else second) if known else None
    if name == "OpFConvert" and isinstance(operands[0], FloatAttr):
        return _float(operands[0].value.data, result)
    integers = [o for o in operands if isinstance(o, IntegerAttr)]
    if len(integers) != len(operands) or not isinstance(result, IntegerType):
        return None
    try:
        value = _integer(name, integers)
    except ZeroDivisionError:
        return None
    return None if value is None else integer_attribute(value, result)


def _float(value: float, t: Attribute) -> Number | None:
    if not isinstance(t, AnyFloat):
        return None
    try:
        return FloatAttr(next(t.iter_unpack(t.pack((value,)))), t)
    except OverflowError:
        return None


def _integer(name: str, operands: Sequence[IntegerAttr]) -> int | None:
    if name in UNSIGNED and len(operands) == 2:
        return UNSIGNED[name](_unsigned(operands[0]), _unsigned(operands[1]))
    if name in SIGNED and len(operands) == 2:
        return SIGNED[name](_signed(operands[0]), _signed(operands[1]))
    if name in SHIFTS and len(operands) == 2:
        return _shift(name, operands[0], _unsigned(operands[1]))
    if len(operands) != 1:
        return None
    match name:
        case "OpSNegate":
            return -_signed(operands[0])
        case "OpNot":
            return ~_unsigned(operands[0])
        case "OpLogicalNot":
            return 1 - _unsigned(operands[0])
        case "OpUConvert" | "OpBitcast" | "OpCopyObject":
            return _unsigned(operands[0])
        case "OpSConvert":
            return _signed(operands[0])
        case _:
            return None


def _shift(name: str, base: IntegerAttr, count: int) -> int | None:
    if count >= _width(base.type):
        return None
    if name == "OpShiftLeftLogical":
        return _unsigned(base) << count
    return (_signed(base) if name == "OpShiftRightArithmetic" else _unsigned(base)) >> count
