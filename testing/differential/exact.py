"""
Computes floats and conversions in Python integers and fractions, as a reference for new formats.

The module is independent of numpy and of the interpreter. A float is represented by its bit
pattern. Its value is a `Fraction`, an infinity or NaN. Results are rounded once, to nearest, ties
to even. The formats are IEEE 754 binary16, 32 and 64, bfloat16 (BF-05), and E4M3 and E5M2 of
SPV_EXT_float8. E4M3 has no infinities, and one NaN pattern for each sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Real: TypeAlias = "Fraction | float"
"""A finite value as a `Fraction`, or an infinity or NaN as a Python float."""

NAN = float("nan")
INFINITY = float("inf")


@dataclass(frozen=True)
class Format:
    """
    A binary float format. A `finite` format has no infinities, and its NaN has all exponent and
    fraction bits set.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    finite: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def top(self) -> int:
        """Largest value of the exponent field: all bits are set."""
        return (1 << self.exponent_bits) - 1

    @property
    def nan(self) -> int:
        """Returns a bit pattern that is NaN."""
        return (1 << (self.bits - 1)) - 1

    def split(self, pattern: int) -> tuple[int, int, int]:
        """Splits a bit pattern into sign, exponent field and fraction field."""
        fraction = pattern & ((1 << self.fraction_bits) - 1)
        exponent = pattern >> self.fraction_bits & self.top
        return pattern >> (self.bits - 1), exponent, fraction

    def value(self, pattern: int) -> Real:
        """Returns the value of a bit pattern."""
        sign, exponent, fraction = self.split(pattern)
        if exponent == self.top and not self.finite:
            return NAN if fraction else (-INFINITY if sign else INFINITY)
        if self.finite and pattern & self.nan == self.nan:
            return NAN
        significand = fraction + ((1 << self.fraction_bits) if exponent else 0)
        power = max(exponent, 1) - self.bias - self.fraction_bits
        size = Fraction(significand << power) if power >= 0 else Fraction(significand, 1 << -power)
        return -size if sign else size

    def is_nan(self, pattern: int) -> bool:
        """True if a pattern is NaN."""
        _, exponent, fraction = self.split(pattern)
        if self.finite:
            return pattern & self.nan == self.nan
        return exponent == self.top and fraction != 0

    def round(self, value: Real, negative_zero: bool = False) -> int:
        """
        Returns the bit pattern nearest to a value. Values beyond the largest number give infinity
        or NaN.
        """
        if isinstance(value, float):
            if value != value:
                return self.nan
            return self._signed(value < 0, self._overflow())
        sign = value < 0 or (value == 0 and negative_zero)
        return self._signed(sign, self._magnitude(Fraction(abs(value))))

    def _signed(self, sign: bool, magnitude: int) -> int:
        return magnitude | (sign << (self.bits - 1))

    def _overflow(self) -> int:
        return self.nan if self.finite else self.top << self.fraction_bits

    def _magnitude(self, value: Fraction) -> int:
        if value == 0:
            return 0
        n, d = value.numerator, value.denominator
        exponent = n.bit_length() - d.bit_length()
        if (n << -exponent if exponent < 0 else n) < (d << exponent if exponent > 0 else d):
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        power = exponent - self.fraction_bits
        n, d = (n << -power, d) if power < 0 else (n, d << power)
        whole, rest = divmod(n, d)
        whole += 2 * rest > d or (2 * rest == d and whole & 1)
        # A carry out of the significand increments the exponent automatically.
        pattern = whole + ((exponent + self.bias - 1) << self.fraction_bits)
        limit = self.nan if self.finite else self.top << self.fraction_bits
        return self._overflow() if pattern >= limit else pattern


FORMATS = {
    "f16": Format("f16", 5, 10),
    "f32": Format("f32", 8, 23),
    "f64": Format("f64", 11, 52),
    "bf16": Format("bf16", 8, 7),
    "f8E5M2": Format("f8E5M2", 5, 2),
    "f8E4M3FN": Format("f8E4M3FN", 4, 3, finite=True),
}


def integer(pattern: int, bits: int, sign: bool) -> int:
    """Returns the low bits of a number, interpreted as a signed or unsigned integer."""
    pattern &= (1 << bits) - 1
    return pattern - (1 << bits) if sign and pattern >> (bits - 1) else pattern


def limits(bits: int, sign: bool) -> tuple[int, int]:
    """Returns the smallest and the largest integer of a type with this number of bits."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)


def convert(pattern: int, source: str, target: str, sign: bool = True) -> int:
    """
    Applies FConvert, ConvertSToF, ConvertUToF, ConvertFToS, ConvertFToU, SConvert or UConvert.

    `sign` means that integers are signed. Conversions to bfloat16 and 8-bit floats round to
    binary32 first (BF-06). SPIR-V leaves a float outside of the integer's range undefined: the
    result is the nearest integer, and 0 for NaN, as documented for the interpreter.
    """
    if source[0] == "i":
        number = integer(pattern, int(source[1:]), sign)
        if target[0] == "i":
            return number & ((1 << int(target[1:])) - 1)
        return _to_float(Fraction(number), False, target)
    format = FORMATS[source]
    value = format.value(pattern)
    if target[0] != "i":
        return _to_float(value, bool(pattern >> (format.bits - 1)), target)
    bits = int(target[1:])
    low, high = limits(bits, sign)
    if isinstance(value, float):
        number = 0 if value != value else (high if value > 0 else low)
    else:
        number = min(max(int(value), low), high)
    return number & ((1 << bits) - 1)


def _to_float(value: Real, negative: bool, target: str) -> int:
    if target not in ("f16", "f32", "f64"):
        single = FORMATS["f32"]
        value = single.value(single.round(value, negative))
    return FORMATS[target].round(value, negative)


def same(a: int, b: int, type: str) -> bool:
    """True if two patterns are equal, or both are NaN."""
    if a == b:
        return True
    return type[0] != "i" and FORMATS[type].is_nan(a) and FORMATS[type].is_nan(b)


def multiply_add(
    a: list[list[int]],
    b: list[list[int]],
    c: list[list[int]],
    bits: int,
    signs: tuple[bool, bool, bool, bool],
    widths: tuple[int, int, int],
    saturating: bool = False,
) -> list[list[int]]:
    """
    Returns the bits of A * B modulo 2^bits, plus C (CM-23). The sum wraps, or saturates if
    requested.

    `signs` states for A, B, C and the result if they are signed. `widths` are the bits of a
    component of each.
    """
    columns = list(zip(*b, strict=True))
    rows: list[list[int]] = []
    for i, row in enumerate(a):
        rows.append([])
        for j, column in enumerate(columns):
            total = sum(
                integer(x, widths[0], signs[0]) * integer(y, widths[1], signs[1])
                for x, y in zip(row, column, strict=True)
            )
            addend = integer(c[i][j], widths[2], signs[2])
            if saturating:
                low, high = limits(bits, signs[3])
                total_sum = min(max(integer(total, bits, signs[3]) + addend, low), high)
            else:
                total_sum = total + addend
            rows[-1].append(total_sum & ((1 << bits) - 1))
    return rows
