"""
Writes arithmetic on 64-bit integers as pairs of 32-bit words, modulo 2^64.

The low word comes first, as in memory. Every method takes and returns scalars. The code has no
branches, except in one function of the module that computes all divisions.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType, i32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, free_symbol
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter

WORDS = VectorType(i32, [2])
"""The type that replaces a 64-bit integer."""

BITS = 32


class Pair(NamedTuple):
    """The low and the high word of a 64-bit integer, both i32."""

    low: SSAValue
    high: SSAValue


class Words:
    """Writes arithmetic on pairs of words."""

    def __init__(self, code: SpirvEmitter, division: Division):
        self.code = code
        self.division = division

    # Pairs and values

    def pair(self, value: SSAValue) -> Pair:
        """Splits a `vector<2xi32>` into its words."""
        owner = value.owner
        if isinstance(owner, spv.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr):
            low, high = (int(word) for word in owner.value.get_values())
            return Pair(self.code.number(low), self.code.number(high))
        if isinstance(owner, spv.CompositeConstructOp) and len(owner.constituents) == len(
            Pair._fields
        ):
            return Pair(*owner.constituents)
        return Pair(self.code.component(value, 0), self.code.component(value, 1))

    def value(self, pair: Pair) -> SSAValue:
        """Joins a pair to a `vector<2xi32>`."""
        return self.code.add(spv.CompositeConstructOp(pair, WORDS))

    def number(self, value: int) -> Pair:
        return Pair(self.code.number(value), self.code.number(value >> BITS))

    def widened(self, low: SSAValue, *, sign: bool) -> Pair:
        """Returns an i32 extended to 64 bits."""
        return Pair(low, self._signs(low) if sign else self.code.number(0))

    def select(self, condition: SSAValue, a: Pair, b: Pair) -> Pair:
        return Pair(*(self.code.select(condition, x, y) for x, y in zip(a, b, strict=True)))

    # Bits

    def word_by_word(self, kind: type[Operation], *pairs: Pair) -> Pair:
        """Applies an operation without carries to the low words, and to the high words."""
        words = zip(*pairs, strict=True)
        return Pair(*(self.code.add(kind.create(operands=w, result_types=[i32])) for w in words))

    def left(self, a: Pair, shift: SSAValue) -> Pair:
        """Returns a << shift, for a shift of 0 to 63."""
        if (known := constant_integer(shift)) is not None:
            return self._left_by(a, known)
        small, rest = self._split(shift)
        low = self._op(spv.ShiftLeftLogicalOp, a.low, small)
        # Shifts by 32 - small in two steps, because a shift by 32 is undefined.
        halved = self._op(spv.ShiftRightLogicalOp, a.low, self.code.number(1))
        carried = self._op(spv.ShiftRightLogicalOp, halved, rest)
        high = self._op(spv.BitwiseOrOp, self._op(spv.ShiftLeftLogicalOp, a.high, small), carried)
        return self.select(self._is_whole(shift), Pair(self.code.number(0), low), Pair(low, high))

    def right(self, a: Pair, shift: SSAValue, *, sign: bool) -> Pair:
        """Returns a >> shift, for a shift of 0 to 63; arithmetic if `sign`."""
        kind = spv.ShiftRightArithmeticOp if sign else spv.ShiftRightLogicalOp
        if (known := constant_integer(shift)) is not None:
            return self._right_by(a, known, kind)
        small, rest = self._split(shift)
        high = self._op(kind, a.high, small)
        double = self._op(spv.ShiftLeftLogicalOp, a.high, self.code.number(1))
        carried = self._op(spv.ShiftLeftLogicalOp, double, rest)
        low = self._op(spv.BitwiseOrOp, self._op(spv.ShiftRightLogicalOp, a.low, small), carried)
        whole = Pair(high, self._signs(a.high) if sign else self.code.number(0))
        return self.select(self._is_whole(shift), whole, Pair(low, high))

    def _left_by(self, a: Pair, count: int) -> Pair:
        if count == 0:
            return a
        if count >= BITS:
            return Pair(self.code.number(0), self._shifted(spv.ShiftLeftLogicalOp, a.low, count))
        low, high = (self._shifted(spv.ShiftLeftLogicalOp, word, count) for word in a)
        carried = self._shifted(spv.ShiftRightLogicalOp, a.low, BITS - count)
        return Pair(low, self._op(spv.BitwiseOrOp, high, carried))

    def _right_by(self, a: Pair, count: int, kind: type[spv.Shift]) -> Pair:
        if count == 0:
            return a
        if count >= BITS:
            sign = kind is spv.ShiftRightArithmeticOp
            return self.widened(self._shifted(kind, a.high, count), sign=sign)
        low = self._shifted(spv.ShiftRightLogicalOp, a.low, count)
        carried = self._shifted(spv.ShiftLeftLogicalOp, a.high, BITS - count)
        return Pair(self._op(spv.BitwiseOrOp, low, carried), self._shifted(kind, a.high, count))

    def _shifted(self, kind: type[spv.Shift], word: SSAValue, count: int) -> SSAValue:
        count %= BITS
        return self._op(kind, word, self.code.number(count)) if count else word

    def _split(self, shift: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Returns the shift within a word (modulo 32), and 31 minus this shift."""
        small = self._op(spv.BitwiseAndOp, shift, self.code.number(BITS - 1))
        return small, self._op(spv.BitwiseXorOp, small, self.code.number(BITS - 1))

    def _is_whole(self, shift: SSAValue) -> SSAValue:
        """True at run time if a shift is 32 or more."""
        return self._op(spv.UGreaterThanEqualOp, shift, self.code.number(BITS))

    def _signs(self, word: SSAValue) -> SSAValue:
        return self._op(spv.ShiftRightArithmeticOp, word, self.code.number(BITS - 1))

    # Sums and products

    def add(self, a: Pair, b: Pair) -> Pair:
        low, carry = self._both(spv.IAddCarryOp, a.low, b.low)
        high = self._op(spv.IAddOp, a.high, b.high)
        return Pair(low, self._op(spv.IAddOp, high, carry))

    def subtract(self, a: Pair, b: Pair) -> Pair:
        low, borrow = self._both(spv.ISubBorrowOp, a.low, b.low)
        high = self._op(spv.ISubOp, a.high, b.high)
        return Pair(low, self._op(spv.ISubOp, high, borrow))

    def negated(self, a: Pair) -> Pair:
        return self.subtract(self.number(0), a)

    def multiply(self, a: Pair, b: Pair) -> Pair:
        low, high = self._both(spv.UMulExtendedOp, a.low, b.low)
        for x, y in ((a.low, b.high), (a.high, b.low)):
            high = self._op(spv.IAddOp, high, self._op(spv.IMulOp, x, y))
        return Pair(low, high)

    def high_product(self, a: Pair, b: Pair, *, sign: bool) -> Pair:
        """Returns the upper 64 bits of the 128-bit product."""
        _, first = self._both(spv.UMulExtendedOp, a.low, b.low)
        crossed = Pair(*self._both(spv.UMulExtendedOp, a.low, b.high))
        other = Pair(*self._both(spv.UMulExtendedOp, a.high, b.low))
        top = Pair(*self._both(spv.UMulExtendedOp, a.high, b.high))
        zero = self.code.number(0)
        # Neither sum exceeds 64 bits: (2^32 - 1)^2 + 2 (2^32 - 1) is 2^64 - 1.
        middle = self.add(crossed, Pair(first, zero))
        middle, carried = self.add(Pair(middle.low, zero), other), middle.high
        top = self.add(self.add(top, Pair(carried, zero)), Pair(middle.high, zero))
        if not sign:
            return top
        for x, y in ((a, b), (b, a)):
            correction = self.select(self.is_negative(x), y, self.number(0))
            top = self.subtract(top, correction)
        return top

    # Comparisons

    def equal(self, a: Pair, b: Pair) -> SSAValue:
        low, high = (self._op(spv.IEqualOp, x, y) for x, y in zip(a, b, strict=True))
        return self._op(spv.LogicalAndOp, low, high)

    def less(self, a: Pair, b: Pair, *, sign: bool) -> SSAValue:
        kind = spv.SLessThanOp if sign else spv.ULessThanOp
        low = self._op(spv.ULessThanOp, a.low, b.low)
        same = self._op(spv.IEqualOp, a.high, b.high)
        return self.code.select(same, low, self._op(kind, a.high, b.high))

    def least(self, a: Pair, b: Pair, *, sign: bool) -> Pair:
        return self.select(self.less(b, a, sign=sign), b, a)

    def most(self, a: Pair, b: Pair, *, sign: bool) -> Pair:
        return self.select(self.less(a, b, sign=sign), b, a)

    def is_negative(self, a: Pair) -> SSAValue:
        return self._op(spv.SLessThanOp, a.high, self.code.number(0))

    def is_zero(self, a: Pair) -> SSAValue:
        either = self._op(spv.BitwiseOrOp, a.low, a.high)
        return self._op(spv.IEqualOp, either, self.code.number(0))

    def magnitude(self, a: Pair) -> Pair:
        return self.select(self.is_negative(a), self.negated(a), a)

    def top_bit(self, a: Pair) -> SSAValue:
        """Returns the index of the highest set bit; -1 if no bit is set."""
        low, high = (self.code.add(spv.GLFindUMsbOp(word)) for word in a)
        above = self._op(spv.IAddOp, high, self.code.number(BITS))
        empty = self._op(spv.IEqualOp, a.high, self.code.number(0))
        return self.code.select(empty, low, above)

    # Divisions

    def divide(self, a: Pair, b: Pair) -> tuple[Pair, Pair]:
        """Returns unsigned quotient and remainder. SPIR-V leaves a division by 0 undefined."""
        operands = [self.value(a), self.value(b)]
        result = self.code.add(spv.FunctionCallOp(self.division.name, operands, QUOTIENT_REMAINDER))
        parts = [self.code.component(result, i) for i in range(4)]
        return Pair(*parts[:2]), Pair(*parts[2:])

    def divide_signed(self, a: Pair, b: Pair) -> tuple[Pair, Pair]:
        """Returns the quotient toward zero, and the remainder with the dividend's sign."""
        quotient, remainder = self.divide(self.magnitude(a), self.magnitude(b))
        negative, other = self.is_negative(a), self.is_negative(b)
        differ = self._op(spv.LogicalNotEqualOp, negative, other)
        return (
            self.select(differ, self.negated(quotient), quotient),
            self.select(negative, self.negated(remainder), remainder),
        )

    def modulo(self, a: Pair, b: Pair) -> Pair:
        """Returns the remainder with the divisor's sign."""
        _, remainder = self.divide_signed(a, b)
        differ = self._op(spv.LogicalNotEqualOp, self.is_negative(a), self.is_negative(b))
        exact = self.is_zero(remainder)
        adjusted = self.select(differ, self.add(remainder, b), remainder)
        return self.select(exact, remainder, adjusted)

    def _op(self, kind: type[Operation], *operands: SSAValue) -> SSAValue:
        return self.code.add(kind(*operands))

    def _both(
        self, kind: type[spv.ExtendedArithmetic], a: SSAValue, b: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        result = self.code.add(kind(a, b))
        return self.code.component(result, 0), self.code.component(result, 1)


QUOTIENT_REMAINDER = VectorType(i32, [4])


class Division:
    """The function of a module that computes divisions. It is written at its first use."""

    def __init__(self, module: spv.ModuleOp):
        self.module = module
        self._name: str | None = None

    @property
    def name(self) -> str:
        if self._name is None:
            self._name = free_symbol(self.module, "__divide64__")
            self._write(self._name)
        return self._name

    def _write(self, name: str) -> None:
        function = spv.FuncOp(name, ([WORDS, WORDS], [QUOTIENT_REMAINDER]))
        block = function.body.blocks[0]
        end = spv.ReturnValueOp(block.args[0])
        block.add_op(end)
        functions = self.module.body.block
        first = next(op for op in functions.ops if isinstance(op, spv.FuncOp))
        functions.insert_op_before(function, first)
        code = FunctionEmitter(function, self.module)
        code.before(end)
        words = Words(code, self)
        a, b = (words.pair(argument) for argument in block.args)
        high = code.add(spv.BitwiseOrOp(a.high, b.high))
        short = code.add(spv.IEqualOp(high, code.number(0)))
        arms = (lambda: _short_division(words, a, b), lambda: _long_division(words, a, b))
        parts = code.choose(short, [i32] * 4, arms)
        end.operands[0] = code.add(spv.CompositeConstructOp(parts, QUOTIENT_REMAINDER))


def _short_division(words: Words, a: Pair, b: Pair) -> list[SSAValue]:
    """Divides integers whose high words are 0."""
    code = words.code
    quotient = code.add(spv.UDivOp(a.low, b.low))
    remainder = code.add(spv.UModOp(a.low, b.low))
    return [quotient, a.high, remainder, a.high]


def _long_division(words: Words, a: Pair, b: Pair) -> list[SSAValue]:
    """Divides bit by bit: each step shifts out a dividend bit and shifts in a quotient bit."""
    code, one = words.code, words.code.number(1)
    zero = code.number(0)

    def step(_: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
        rest, dividend = Pair(*carried[2:]), Pair(*carried[:2])
        lost = code.add(spv.SLessThanOp(rest.high, zero))
        top = code.add(spv.ShiftRightLogicalOp(dividend.high, code.number(BITS - 1)))
        rest, dividend = words.left(rest, one), words.left(dividend, one)
        rest = Pair(code.add(spv.BitwiseOrOp(rest.low, top)), rest.high)
        below = words.less(rest, b, sign=False)
        fits = code.add(spv.LogicalOrOp(lost, code.add(spv.LogicalNotOp(below))))
        rest = words.select(fits, words.subtract(rest, b), rest)
        digit = code.select(fits, one, zero)
        return [code.add(spv.BitwiseOrOp(dividend.low, digit)), dividend.high, *rest]

    bounds = zero, code.number(2 * BITS), one
    return list(code.loop(bounds, [*a, zero, zero], step))  # pyright: ignore[reportArgumentType]
