"""
Computes products of small integers and floats as packed dot products of integers.

    sum of q * x   ->   2^-e * sum over d of 256^d * (sum of q * digit d of round(2^e * x))

A dot product multiplies four bytes at once, while a conversion to float takes two or three
instructions for each byte. The floats of one load share the exponent e, which scales the greatest
magnitude below 2^(8 * digits - 3). The error of each float is therefore below the greatest
magnitude times 2^(3 - 8 * digits). With three digits this is at most one rounding of the greatest
magnitude to binary32. An infinite or NaN element makes the sum of its load NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import BYTE, IN_EACH_BYTE, Affine, ScalarCode, Whole

PACKED_4X8 = spv.PackedVectorFormat.PackedVectorFormat4x8Bit

MANTISSA = 23

MIDDLE, MIDDLE_BITS = 1.5 * 2**MANTISSA, 0x4B400000
"""A float to which integers below 2^22 can be added exactly, and its bit pattern."""

WITHOUT_SIGN, INFINITE, NO_NUMBER = 0x7FFFFFFF, 0x7F800000, 0x7FC00000

GREATEST_EXPONENT = 254

LEAST_EXPONENT = 40
"""Lower bound of the greatest magnitude's exponent, so that binary32 can represent the scale."""

SIGNS = 0x80 * IN_EACH_BYTE

EVEN_BYTES, LOW_HALF, FULL = 0x00FF00FF, 0x0000FFFF, 0xFFFFFFFF

Slots: TypeAlias = tuple[int | None, ...]
"""Element index in one load for each byte of a word; None for an unused byte."""


class RowDigits:
    """
    Elements of a row as integers of `digits` signed bytes with a common power-of-two scale.

    The code is emitted in the scope in which the object is created.
    """

    def __init__(
        self,
        b: HoistingEmitter,
        elements: Sequence[SSAValue],
        digits: int,
        of_unit: Callable[[SSAValue], SSAValue] | None = None,
    ):
        """`of_unit` reduces the greatest magnitude over all invocations that share the scale."""
        self.b, self.elements, self.digits = b, elements, digits
        self.depth = b.depth
        self._known: dict[object, SSAValue] = {}
        greatest = reduce(self._greater, map(self._magnitude, elements))
        if of_unit is not None:
            greatest = of_unit(greatest)
        exponent = b.add(arith.ShRUIOp(greatest, b.i32(MANTISSA)))
        exponent = b.add(arith.MaxUIOp(exponent, b.i32(LEAST_EXPONENT)))
        exponent = b.add(arith.MinUIOp(exponent, b.i32(GREATEST_EXPONENT)))
        bits = BYTE * digits - 3
        up = arith.SubiOp(b.i32(GREATEST_EXPONENT + bits), exponent)
        self._factor = self._power(b.add(up))
        down = self._power(b.add(arith.SubiOp(exponent, b.i32(bits))))
        finite = b.add(arith.CmpiOp(greatest, b.i32(INFINITE), "ult"))
        nothing = b.add(arith.BitcastOp(b.i32(NO_NUMBER), f32))
        self.scale = b.select(finite, down, nothing)
        """Factor that converts the integers back to floats; NaN if an element is not finite."""
        self._integers = [self._integer(x) for x in elements]

    def _magnitude(self, x: SSAValue) -> SSAValue:
        bits = self.b.add(arith.BitcastOp(x, i32))
        return self.b.add(arith.AndIOp(bits, self.b.i32(WITHOUT_SIGN)))

    def _greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxUIOp(x, y))

    def _power(self, exponent: SSAValue) -> SSAValue:
        bits = self.b.add(arith.ShLIOp(exponent, self.b.i32(MANTISSA)))
        return self.b.add(arith.BitcastOp(bits, f32))

    def _integer(self, x: SSAValue) -> SSAValue:
        """Returns an element's integer plus 128 in each byte, which makes all bytes unsigned."""
        b = self.b
        rounded = b.add(math.FmaOp(x, self._factor, b.number(MIDDLE, f32)))
        added = sum(0x80 << BYTE * digit for digit in range(self.digits))
        number = b.add(arith.BitcastOp(rounded, i32))
        return b.add(arith.AddiOp(number, b.number(added - MIDDLE_BITS, i32)))

    def word(self, digit: int, slots: Slots) -> SSAValue:
        """Returns a word with byte `digit` of each of four integers; 0 for an unused byte."""
        key = digit, slots
        if key not in self._known:
            with self.b.at(self.depth):
                self._known[key] = self._word(digit, slots)
        return self._known[key]

    def _word(self, digit: int, slots: Slots) -> SSAValue:
        if None not in slots:
            return self._full_word(digit, [number for number in slots if number is not None])
        b, turned = self.b, SIGNS
        word: SSAValue | None = None
        for slot, number in enumerate(slots):
            if number is None:
                turned &= ~(0x80 << BYTE * slot)
                continue
            moved = self._moved(self._integers[number], BYTE * (slot - digit))
            byte = b.add(arith.AndIOp(moved, b.number(0xFF << BYTE * slot, i32)))
            word = byte if word is None else b.add(arith.OrIOp(word, byte))
        assert word is not None
        return b.add(arith.XOrIOp(word, b.number(turned, i32)))

    def _full_word(self, digit: int, numbers: Sequence[int]) -> SSAValue:
        """
        Builds a word of digits (bytes of four integers) without unused bytes.

        Words of different digits share the first step of this byte transpose.
        """
        b, half_word = self.b, 2 * BYTE
        low, high = (self._pair(digit % 2, *numbers[i : i + 2]) for i in (0, 2))
        if digit < 2:
            low, high = self._masked(low, LOW_HALF), self._moved(high, half_word)
        else:
            low, high = self._moved(low, -half_word), self._masked(high, ~LOW_HALF)
        return b.add(arith.XOrIOp(b.add(arith.OrIOp(low, high)), b.number(SIGNS, i32)))

    def _pair(self, odd: int, first: int, second: int) -> SSAValue:
        """Interleaves the even or the odd bytes of two integers."""
        key = "pair", odd, first, second
        if key not in self._known:
            x, y = self._integers[first], self._integers[second]
            x, y = (self._moved(x, -BYTE), y) if odd else (x, self._moved(y, BYTE))
            x, y = self._masked(x, EVEN_BYTES), self._masked(y, ~EVEN_BYTES)
            self._known[key] = self.b.add(arith.OrIOp(x, y))
        return self._known[key]

    def _masked(self, x: SSAValue, mask: int) -> SSAValue:
        return self.b.add(arith.AndIOp(x, self.b.number(mask & FULL, i32)))

    def _moved(self, x: SSAValue, left: int) -> SSAValue:
        if left == 0:
            return x
        kind = arith.ShLIOp if left > 0 else arith.ShRUIOp
        return self.b.add(kind(x, self.b.i32(abs(left))))

    def total(self, numbers: Sequence[int]) -> SSAValue:
        """Returns the float sum of the elements with these indices."""
        key = tuple(numbers)
        if key not in self._known:
            with self.b.at(self.depth):
                self._known[key] = self._total(numbers)
        return self._known[key]

    def _total(self, numbers: Sequence[int]) -> SSAValue:
        terms = [self.elements[number] for number in numbers]
        return reduce(lambda x, y: self.b.add(arith.AddfOp(x, y)), terms)

    def product(self, words: Sequence[tuple[SSAValue, Slots]]) -> SSAValue:
        """Returns the sum of the products of elements and the signed bytes in `words`."""
        b = self.b
        result: SSAValue | None = None
        for digit in reversed(range(self.digits)):
            dots = b.i32(MIDDLE_BITS)
            for word, slots in words:
                dot = b.add(spv.SDotOp(self.word(digit, slots), word, i32, PACKED_4X8))
                dots = b.add(arith.AddiOp(dots, dot))
            number = b.add(arith.BitcastOp(dots, f32))
            number = b.add(arith.AddfOp(number, b.number(-MIDDLE, f32)))
            base = b.number(float(1 << BYTE), f32)
            result = number if result is None else b.add(math.FmaOp(result, base, number))
        assert result is not None
        return b.add(arith.MulfOp(result, self.scale))


def words_of(
    code: ScalarCode, elements: Sequence[tuple[int, Affine]]
) -> tuple[list[tuple[SSAValue, Slots]], int] | None:
    """
    Packs a column's elements as words of four signed bytes, with the element index of each byte.

    Also returns the offset that was subtracted from each element: 0 or 128. Returns None if an
    element is not a byte of a word.
    """
    slots: dict[SSAValue, list[int | None]] = {}
    unsigned: set[bool] = set()
    for number, element in elements:
        whole = element.value
        if not isinstance(whole, Whole):
            return None
        bits = whole.bits
        if bits.up or bits.low % BYTE + bits.count > BYTE:
            return None
        unsigned.add(bits.count == BYTE and not whole.signed)
        own = slots.setdefault(code.in_cells(bits), [None] * 4)
        if own[bits.low // BYTE] is not None:
            return None
        own[bits.low // BYTE] = number
    if len(unsigned) != 1:
        return None
    if not unsigned.pop():
        return [(word, tuple(own)) for word, own in slots.items()], 0
    signs = code.b.number(SIGNS, i32)
    words = [(code.b.add(arith.XOrIOp(word, signs)), tuple(own)) for word, own in slots.items()]
    return words, 0x80
