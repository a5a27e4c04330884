"""
Reads and prints the numbers of assembly texts by type, exactly as Khronos' tools do.

An integer is decimal or hexadecimal. A zero or normal 32- or 64-bit float is printed with the
fewest decimal digits that identify the value, at most 9 or 17. Any other float (narrow, subnormal,
infinite, NaN) is printed as a hexadecimal float. For infinities and NaNs the printed exponent is
one above that of the largest finite number: an infinity is `0x1p+128`, a NaN `0x1.8p+128`. The
fraction is printed unchanged.
"""

from __future__ import annotations

import math
import re
import struct
from fractions import Fraction
from typing import NamedTuple


class NumberType(NamedTuple):
    """A scalar type, with the properties that determine the text and the words of its literals."""

    width: int
    is_float: bool
    signed: bool = False
    encoding: str | None = None
    """The FPEncoding of a float. None means IEEE 754."""

    @property
    def words(self) -> int:
        return 2 if self.width > 32 else 1


class FloatFormat(NamedTuple):
    exponent_bits: int
    fraction_bits: int
    has_infinity: bool = True
    """
    True if the largest exponent is reserved for infinities and NaNs. Otherwise, a NaN is only the
    pattern with all exponent and fraction bits set.
    """

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1


UINT32 = NumberType(32, False)
FLOAT32 = NumberType(32, True)
MAX_WIDTH = 64
"""Width in bits of the widest scalar that has literals (SPIR-V 2.16.1: 8, 16, 32 or 64)."""

FORMATS: dict[tuple[int, str | None], FloatFormat] = {
    (16, None): FloatFormat(5, 10),
    (32, None): FloatFormat(8, 23),
    (64, None): FloatFormat(11, 52),
    (16, "BFloat16KHR"): FloatFormat(8, 7),
    (8, "Float8E4M3EXT"): FloatFormat(4, 3, False),
    (8, "Float8E5M2EXT"): FloatFormat(5, 2),
}

_HEX_FLOAT = re.compile(r"(-?)0[xX]([0-9a-fA-F]*)(?:\.([0-9a-fA-F]*))?[pP]([+-]?[0-9]{1,9})")
_DECIMAL = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]{1,40})|([0-9]{1,40}))")


def literal_type(width: int, is_float: bool, signed: bool, encoding: str | None) -> NumberType:
    """
    Returns the type of literals with these properties. Raises `ValueError` if SPIR-V does not
    define such literals.
    """
    number = NumberType(width, is_float, signed, encoding)
    if is_float and (width, encoding) not in FORMATS:
        raise ValueError(
            f"SPIR-V has no literals of {width}-bit floats{f' of {encoding}' if encoding else ''}"
        )
    if not is_float and not 0 < width <= MAX_WIDTH:
        raise ValueError(f"SPIR-V has no literals of {width}-bit integers")
    return number


def value_of(words: list[int], number: NumberType) -> int | None:
    """
    Returns the bits of a literal. Returns None if its words have bits beyond the type's width.

    In words, narrow signed integers are sign-extended, other numbers are zero-extended (SPIR-V
    2.2.1).
    """
    bits = words[0] | (words[1] << 32 if len(words) > 1 else 0)
    value = bits & ((1 << number.width) - 1)
    return value if words_of(value, number) == words else None


def words_of(value: int, number: NumberType) -> list[int]:
    """Returns the words that encode a literal with these bits. Inverse of `value_of`."""
    if not number.is_float and number.signed and value >> (number.width - 1) & 1:
        value -= 1 << number.width
    if number.words == 1:
        return [value & 0xFFFFFFFF]
    return [value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF]


def format_number(value: int, number: NumberType) -> str:
    """Returns the assembly text of a number with these bits."""
    if not number.is_float:
        negative = number.signed and value >> (number.width - 1) & 1
        return str(value - (1 << number.width) if negative else value)
    layout = FORMATS[number.width, number.encoding]
    if number.width >= 32:
        exponent = value >> layout.fraction_bits & ((1 << layout.exponent_bits) - 1)
        largest = (1 << layout.exponent_bits) - 1
        zero = not value << 1 & ((1 << number.width) - 1)
        if zero or 0 < exponent < largest:
            if number.width == 32:
                return f"{struct.unpack('<f', struct.pack('<I', value))[0]:.9g}"
            return f"{struct.unpack('<d', struct.pack('<Q', value))[0]:.17g}"
    return _format_hex(value, number.width, layout)


def _format_hex(value: int, width: int, layout: FloatFormat) -> str:
    sign = "-" if value >> (width - 1) & 1 else ""
    bits = layout.fraction_bits
    exponent = value >> bits & ((1 << layout.exponent_bits) - 1)
    fraction = value & ((1 << bits) - 1)
    if not exponent and not fraction:
        return f"{sign}0x0p+0"
    power = exponent - layout.bias
    if not exponent:
        shift = bits + 1 - fraction.bit_length()
        fraction = fraction << shift & ((1 << bits) - 1)
        power = 1 - layout.bias - shift
    nibbles = (bits + 3) // 4
    digits = f"{fraction << (nibbles * 4 - bits):0{nibbles}x}".rstrip("0")
    return f"{sign}0x1{'.' if digits else ''}{digits}p{power:+d}"


def parse_number(text: str, number: NumberType) -> int:
    """Returns the bits of a number in assembly. Raises `ValueError` if the text does not fit."""
    if number.is_float:
        return _parse_float(text, number)
    return parse_integer(text, number.width, number.signed)


def parse_integer(text: str, width: int, signed: bool) -> int:
    """
    Returns the bits of an integer in assembly. Raises `ValueError` if the text does not fit.

    A hexadecimal integer may use all bits of a signed type, including the sign bit.
    """
    match = _INTEGER.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an integer")
    minus, hexadecimal, decimal = match.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(decimal)
    if minus:
        if not signed:
            raise ValueError(f"{text} is negative but the type is unsigned")
        value = -value
    top = 1 << (width if not signed or (hexadecimal and not minus) else width - 1)
    if value >= top or value < -(1 << (width - 1)):
        kind = "signed" if signed else "unsigned"
        raise ValueError(f"{text} does not fit in {kind} {width} bits")
    return value & ((1 << width) - 1)


def _parse_float(text: str, number: NumberType) -> int:
    layout = FORMATS[number.width, number.encoding]
    match = _HEX_FLOAT.fullmatch(text)
    if match is not None:
        return _parse_hex(match, number.width, layout)
    if _DECIMAL.fullmatch(text) is None:
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(f"'{text}' is not a number")
        raise ValueError(f"{text} is a hexadecimal integer: write a float as 0x1p+0 or 1.0")
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:60]} is beyond the type's {number.width} bits")
    if number.width == 64:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    single = _round_to_single(text, value)
    if number.width == 32:
        return single
    return _narrow(text, single, number.width, layout)


def _round_to_single(text: str, value: float) -> int:
    """Rounds a decimal number to the nearest 32-bit float, ties to even. Rounds only once."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        raise ValueError(f"{text[:60]} is beyond 32-bit floats") from None
    double = struct.unpack("<Q", struct.pack("<d", value))[0]
    if double & 0x1FFFFFFF != 0x10000000 or len(text) > 400:
        return bits
    exact, rounded = Fraction(text), Fraction(value)
    if exact == rounded:
        return bits
    away = abs(exact) > abs(rounded)
    truncated = _truncate_double(double)
    return truncated + 1 if away else truncated


def _truncate_double(double: int) -> int:
    exponent = (double >> 52 & 0x7FF) - 1023 + 127
    return double >> 63 << 31 | exponent << 23 | double >> 29 & 0x7FFFFF


def _narrow(text: str, single: int, width: int, layout: FloatFormat) -> int:
    """Rounds a 32-bit float to a narrow float. Rounds toward zero, as Khronos' assembler does."""
    sign = single >> 31 << (width - 1)
    power = (single >> 23 & 0xFF) - 127
    significand = single & 0x7FFFFF | 0x800000
    if power == -127:
        power, significand = -126, single & 0x7FFFFF
    exponent = power + layout.bias
    shift = 23 - layout.fraction_bits
    reached = exponent << layout.fraction_bits | (significand & 0x7FFFFF) >> shift
    infinity = ((1 << layout.exponent_bits) - 1) << layout.fraction_bits
    not_a_number = (1 << (width - 1)) - 1
    if reached >= (infinity if layout.has_infinity else not_a_number):
        raise ValueError(f"{text} is beyond the type's {width} bits")
    if not significand >> 23:
        return sign | (significand >> shift >> (1 - exponent))
    if exponent <= 0:
        return sign | significand >> (shift + 1 - exponent)
    return (
        sign
        | exponent << layout.fraction_bits
        | (significand >> shift) - (1 << layout.fraction_bits)
    )


def _parse_hex(match: re.Match[str], width: int, layout: FloatFormat) -> int:
    """Returns the bits of a hexadecimal float. Drops digits beyond the type's fraction."""
    minus, whole, part, power_text = match.groups()
    digits = whole + (part or "")
    if not digits or len(digits) > 400:
        raise ValueError(f"'{match[0][:60]}' has no digits, or more than 400")
    sign = 1 << (width - 1) if minus else 0
    significand = int(digits, 16)
    if not significand:
        return sign
    length = significand.bit_length()
    power = int(power_text) - 4 * len(part or "") + length - 1
    bits = layout.fraction_bits
    exponent = power + layout.bias
    if exponent > (1 << layout.exponent_bits) - 1:
        raise ValueError(f"{match[0]} is beyond the type's {width} bits")
    drop = length - 1 - bits + (1 - exponent if exponent <= 0 else 0)
    if drop > length + bits:
        return sign
    kept = significand >> drop if drop >= 0 else significand << -drop
    if exponent <= 0:
        return sign | kept
    return sign | exponent << bits | kept - (1 << bits)
