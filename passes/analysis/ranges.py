"""
Computes intervals of integer values, and of the floats that are converted to integers.

    linalg.index 1, of a loop of 80              [0, 79]
    arith.extui : i8 to i64                      [0, 255]
    arith.subi of that and the constant 128      [-128, 127]
    arith.fptosi of floor(index * 0.5)           [0, 39]

The interval of a tensor contains all of its elements. An integer operation that may overflow has
the whole range of its type, and so has an unknown operation. Integers are always signed; booleans
are 0 and 1. NaN is ignored, because it is never converted to a valid integer.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.upstream.scalar_extensions import IndexCastUIOp

INDEX_BITS = 64
"""Bits of an index in the reference semantics; kernels use 32 bits for addresses."""

MOST_ELEMENTS = (1 << 31) - 1
"""Largest number of elements of a program's buffer (docs/program.md)."""


@dataclass(frozen=True)
class Range:
    """The integers or floats from `low` to `high`, inclusive."""

    low: int | float
    high: int | float

    def hull(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def meet(self, other: Range) -> Range:
        """
        Returns the intersection. If it is empty (the code is never executed), returns this range.
        """
        low, high = max(self.low, other.low), min(self.high, other.high)
        return self if low > high else Range(low, high)

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


NOTHING = Range(numbers.inf, -numbers.inf)
"""The range of a tensor's elements before an operation has written them."""

ANY_FLOAT = Range(-numbers.inf, numbers.inf)


def signed(bits: int) -> Range:
    """Returns the range of signed integers with `bits` bits."""
    return Range(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def element(type: Attribute) -> Attribute:
    """Returns a tensor's element type, or the type itself."""
    return type.get_element_type() if isinstance(type, TensorType) else type


def everything(type: Attribute) -> Range:
    """Returns the range of all values of a type, or of a tensor's elements."""
    kind = element(type)
    if isinstance(kind, IndexType):
        return signed(INDEX_BITS)
    if isinstance(kind, IntegerType):
        return Range(0, 1) if kind.width.data == 1 else signed(kind.width.data)
    return ANY_FLOAT


Rule: TypeAlias = Callable[..., "Range | None"]
"""A function (op, *operands' ranges) that returns the result's range; None if it is unknown."""


def _corners(function: Callable[[int, int], int]) -> Rule:
    """Builds the rule of an operation that is monotonic in each operand."""

    def apply(_: Operation, x: Range, y: Range) -> Range:
        corners = [function(a, b) for a, b in product((x.low, x.high), (y.low, y.high))]  # type: ignore
        return Range(min(corners), max(corners))

    return apply


def _divide_ranges(quotient: Callable[[int, int], int]) -> Rule:
    """Builds the rule of a division, whose result is unknown if the divisor may be 0."""

    def apply(op: Operation, x: Range, y: Range) -> Range | None:
        return None if y.low <= 0 <= y.high else _corners(quotient)(op, x, y)

    return apply


def _toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _only_positive(rule: Rule) -> Rule:
    """Converts a signed operation's rule to the unsigned operation's, for nonnegative operands."""

    def apply(op: Operation, *operands: Range) -> Range | None:
        return None if any(x.low < 0 for x in operands) else rule(op, *operands)

    return apply


def _remainder(_: Operation, x: Range, y: Range) -> Range | None:
    """Returns the range of a remainder, which has the dividend's sign."""
    most = max(abs(y.low), abs(y.high)) - 1
    if most < 0:
        return None
    low = 0 if x.low >= 0 else max(x.low, -most)
    return Range(low, 0 if x.high <= 0 else min(x.high, most))


def _bitwise_and(op: Operation, *operands: Range) -> Range:
    """
    Returns the range of a bitwise `and`: from 0 to the smallest upper bound of a nonnegative
    operand.
    """
    highs = [operand.high for operand in operands if operand.low >= 0]
    return Range(0, min(highs)) if highs else _bits(op, *operands)


def _bits(op: Operation, *operands: Range) -> Range:
    """
    Returns the range of a bitwise `or` or `xor`: the result has no more bits than the operands.
    """
    if op.results[0].type == IntegerType(1):
        return Range(0, 1)
    width = max(_width(operand) for operand in operands)
    low = 0 if all(operand.low >= 0 for operand in operands) else -(1 << width)
    return Range(low, (1 << width) - 1)


def _width(interval: Range) -> int:
    """Returns the number of bits of the largest magnitude."""
    ends = (interval.low if interval.low >= 0 else -interval.low - 1, max(interval.high, 0))
    return max(int(end).bit_length() for end in ends)


def _shift_range(op: Operation, x: Range, y: Range) -> Range | None:
    bits = everything(op.results[0].type).high
    if y.low < 0 or y.high >= int(bits).bit_length():
        return None
    if isinstance(op, arith.ShLIOp):
        return _corners(lambda a, b: a << b)(op, x, y)
    if isinstance(op, arith.ShRUIOp) and x.low < 0:
        return None
    return _corners(lambda a, b: a >> b)(op, x, y)


def _extreme(function: Callable[[Any, Any], Any]) -> Rule:
    return lambda _, x, y: Range(function(x.low, y.low), function(x.high, y.high))


def _same(_: Operation, x: Range) -> Range:
    return x


def _sign_extended(op: Operation, x: Range) -> Range:
    if x.within(0, 1) and everything(op.operands[0].type) == Range(0, 1):
        return Range(-x.high, -x.low)
    return x


def _zero_extended(op: Operation, x: Range) -> Range:
    whole = everything(op.operands[0].type)
    return x if x.low >= 0 else Range(0, 2 * int(whole.high) + 1)


def _absolute(_: Operation, x: Range) -> Range:
    ends = abs(x.low), abs(x.high)
    return Range(0 if x.low <= 0 <= x.high else min(ends), max(ends))


EPSILONS = ((Float16Type, 2.0**-9), (BFloat16Type, 2.0**-6))
"""
Relative error bound of each type: four units in the last place. No device's division has a larger
error.
"""


def _round_ends(low: float, high: float, type: Attribute) -> Range:
    """Widens an interval by the rounding error of the float type."""
    if numbers.isnan(low) or numbers.isnan(high):
        return ANY_FLOAT
    eps = next((eps for kind, eps in EPSILONS if isinstance(element(type), kind)), 2.0**-21)
    off = [eps * abs(end) + 2.0**-24 * eps if numbers.isfinite(end) else 0 for end in (low, high)]
    return Range(low - off[0], high + off[1])


def _float(function: Callable[[float, float], float]) -> Rule:
    def apply(op: Operation, x: Range, y: Range) -> Range | None:
        try:
            corners = [float(function(a, b)) for a, b in product((x.low, x.high), (y.low, y.high))]
        except (ArithmeticError, ValueError):
            return None
        if any(map(numbers.isnan, corners)):
            return None
        return _round_ends(min(corners), max(corners), op.results[0].type)

    return apply


def _quotient(op: Operation, x: Range, y: Range) -> Range | None:
    return None if y.low <= 0 <= y.high else _float(lambda a, b: a / b)(op, x, y)


def _rising(function: Callable[[float], float]) -> Rule:
    """Returns the rule of a function that is exact and never decreases."""

    def apply(_: Operation, x: Range) -> Range:
        ends = (x.low, x.high)
        return Range(*(end if numbers.isinf(end) else float(function(end)) for end in ends))

    return apply


def _to_float(op: Operation, x: Range) -> Range:
    if isinstance(op, arith.UIToFPOp) and x.low < 0:
        return Range(0.0, numbers.inf)
    return _round_ends(float(x.low), float(x.high), op.results[0].type)


def _to_integer(_: Operation, x: Range) -> Range | None:
    """Returns the range of a conversion toward zero; values that do not fit are undefined."""
    if numbers.isinf(x.low) or numbers.isinf(x.high):
        return None
    return Range(numbers.trunc(x.low), numbers.trunc(x.high))


RULES: dict[type[Operation], Rule] = {
    arith.AddiOp: _corners(lambda a, b: a + b),
    arith.SubiOp: _corners(lambda a, b: a - b),
    arith.MuliOp: _corners(lambda a, b: a * b),
    arith.DivSIOp: _divide_ranges(_toward_zero),
    arith.FloorDivSIOp: _divide_ranges(lambda a, b: a // b),
    arith.CeilDivSIOp: _divide_ranges(lambda a, b: -(-a // b)),
    arith.DivUIOp: _only_positive(_divide_ranges(_toward_zero)),
    arith.CeilDivUIOp: _only_positive(_divide_ranges(lambda a, b: -(-a // b))),
    arith.RemSIOp: _remainder,
    arith.RemUIOp: _only_positive(_remainder),
    arith.MaxSIOp: _extreme(max),
    arith.MinSIOp: _extreme(min),
    arith.MaxUIOp: _only_positive(_extreme(max)),
    arith.MinUIOp: _only_positive(_extreme(min)),
    arith.AndIOp: _bitwise_and,
    arith.OrIOp: _bits,
    arith.XOrIOp: _bits,
    arith.ShLIOp: _shift_range,
    arith.ShRSIOp: _shift_range,
    arith.ShRUIOp: _shift_range,
    arith.ExtSIOp: _sign_extended,
    arith.ExtUIOp: _zero_extended,
    arith.TruncIOp: _same,
    arith.IndexCastOp: _same,
    IndexCastUIOp: _only_positive(_same),
    math.AbsIOp: _absolute,
    arith.SIToFPOp: _to_float,
    arith.UIToFPOp: _to_float,
    arith.FPToSIOp: _to_integer,
    arith.FPToUIOp: _to_integer,
    arith.AddfOp: _float(lambda a, b: a + b),
    arith.SubfOp: _float(lambda a, b: a - b),
    arith.MulfOp: _float(lambda a, b: a * b),
    arith.DivfOp: _quotient,
    arith.NegfOp: lambda _, x: Range(-x.high, -x.low),
    arith.MaximumfOp: _extreme(max),
    arith.MinimumfOp: _extreme(min),
    arith.ExtFOp: _same,
    arith.TruncFOp: lambda op, x: _round_ends(x.low, x.high, op.results[0].type),
}
"""Maps the class of an operation to the rule that computes its range."""


@cache
def _exact_rising_functions() -> dict[type[Operation], Rule]:
    """
    Returns the rules of exact functions of `math`. They are computed on demand, because they import
    numpy.
    """
    from xdsl_spirv.dialects.scalars.functions import RECORDS
    from xdsl_spirv.dialects.scalars.images import rising

    return {
        record.op: _rising(record.meaning)
        for record in RECORDS
        if record.image is rising and record.is_exact
    }


def compute_range(op: Operation, operands: Sequence[Range]) -> Range:
    """Returns the range of an operation of `arith` or `math`, from its operands' ranges."""
    if isinstance(op, arith.SelectOp):
        return _select_range(op, operands)
    if isinstance(op, arith.ConstantOp):
        return constant(op)
    whole = everything(op.results[0].type)
    rule = RULES.get(type(op)) or _exact_rising_functions().get(type(op))
    known = None if rule is None else rule(op, *operands)
    # A result that may overflow has the whole range of its type.
    fits = known is not None and whole.low <= known.low <= known.high <= whole.high
    return known if known is not None and fits else whole


def constant(op: arith.ConstantOp) -> Range:
    """Returns the range of a constant: of a number, or of a tensor's elements."""
    match op.value:
        case IntegerAttr(value=value):
            number = value.data
            if op.result.type == IntegerType(1):
                number = abs(number)
            return Range(number, number)
        case FloatAttr(value=value) if not numbers.isnan(value.data):
            return Range(value.data, value.data)
        case DenseIntOrFPElementsAttr() as dense:
            values = dense.get_values()
            known = [n for n in values if not isinstance(n, tuple) and n == n]
            if known and isinstance(element(dense.get_type()), AnyFloat | IntegerType):
                return Range(min(known), max(known)).meet(everything(dense.get_type()))
        case _:
            pass
    return everything(op.result.type)


LESS = {"slt", "sle", "olt", "ole", "ult", "ule"}
GREATER = {"sgt", "sge", "ogt", "oge", "ugt", "uge"}
"""Predicates of greater-than comparisons of floats and signed integers."""


def _predicate(op: Operation) -> str:
    if isinstance(op, arith.CmpiOp):
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        return "" if name.startswith("u") else name
    if isinstance(op, arith.CmpfOp):
        return arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    return ""


def _select_range(op: arith.SelectOp, operands: Sequence[Range]) -> Range:
    """Returns the union of both operands' ranges, each limited by the condition."""
    condition, true, false = operands
    owner = op.cond.owner
    if condition.low == condition.high:
        return true if condition.low else false
    if isinstance(owner, arith.CmpiOp | arith.CmpfOp):
        true = _clamp_side(op.lhs, true, owner, op, operands, True)
        false = _clamp_side(op.rhs, false, owner, op, operands, False)
    return true.hull(false)


def _clamp_side(
    value: SSAValue,
    own: Range,
    compare: arith.CmpiOp | arith.CmpfOp,
    op: arith.SelectOp,
    operands: Sequence[Range],
    holds: bool,
) -> Range:
    other, its = (op.rhs, operands[2]) if holds else (op.lhs, operands[1])
    name = _predicate(compare)
    if name not in LESS | GREATER or {value, other} != {compare.lhs, compare.rhs}:
        return own
    # The condition limits the operand that is taken if it holds, its negation the other operand.
    is_less = ((name in LESS) == (value is compare.lhs)) == holds
    return own.meet(Range(-numbers.inf, its.high) if is_less else Range(its.low, numbers.inf))
