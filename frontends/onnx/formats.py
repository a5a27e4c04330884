"""
Floats and integers of few bits: how their codes, a byte each, become numbers and back.

No device computes in them, so a tensor of such a type is one of bytes: the code in the low bits,
zeros above it, which are ignored when it is read. Bodies convert a code to `Element.computed` and
back, by arithmetic on integers that a declaration of the format's bits decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects import math

from xdsl_spirv.frontends.onnx.values import F32, F64, I32, U8, Element

if TYPE_CHECKING:
    from xdsl_spirv.frontends.onnx.scalars import Number, Scalars

INFINITY = 0x7F800000
"""The bits of f32's infinity; larger ones are NaN."""


@dataclass(frozen=True)
class Format:
    """
    A float with a sign: the bits of exponent and mantissa, and the exponent's bias.

    `infinity` and `nan` are codes without a sign, None if there is none; a NaN that is the code of
    -0 says that zero has no sign.
    """

    exponent: int
    mantissa: int
    bias: int
    infinity: int | None = None
    nan: int | None = None

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def greatest(self) -> int:
        """The code of the greatest finite number."""
        return min(code - 1 for code in (self.infinity, self.nan, self.sign) if code is not None)


FORMATS = {
    "f8E4M3FN": Format(4, 3, 7, nan=0x7F),
    "f8E4M3FNUZ": Format(4, 3, 8, nan=0x80),
    "f8E5M2": Format(5, 2, 15, infinity=0x7C, nan=0x7E),
    "f8E5M2FNUZ": Format(5, 2, 16, nan=0x80),
    "f6E2M3FN": Format(2, 3, 1),
    "f6E3M2FN": Format(3, 2, 3),
    "f4E2M1FN": Format(2, 1, 1),
}

POWERS = "f8E8M0FNU"
"""The type whose code is an exponent: 2^(code - 127), and 255 is NaN."""

ROUNDINGS = {"up": (0x7FFFFF, 0x400000), "nearest": (0x400000, 0x5FFFFF), "down": (0, 0x7FFFFF)}
"""By `round_mode`: what is added to f32's bits, and the last bits that round to 2^-127."""


def read(s: Scalars, x: Number) -> Number:
    """The number that a code stands for, in the type that `x` is computed in."""
    element = x.element
    code = s.reinterpret(x, U8)
    if not element.is_narrow_float:
        # Shifted up and down again, so that the sign is the code's highest bit.
        unused = 8 - element.bits
        return (s.reinterpret(code << unused, element.computed)) >> unused
    word = code.to(I32)
    if element.name == POWERS:
        bits = s.select(word.equals(0), 0x400000, word << 23)
        return s.reinterpret(s.select(word.equals(255), INFINITY + 1, bits), F32)
    format = FORMATS[element.name]
    magnitude = word & (format.sign - 1)
    small = magnitude.to(F32) * 2.0 ** (1 - format.bias - format.mantissa)
    bits = (magnitude << (23 - format.mantissa)) + ((127 - format.bias) << 23)
    number = s.select(magnitude < 1 << format.mantissa, small, s.reinterpret(bits, F32))
    if format.infinity is not None:
        number = s.select(magnitude.equals(format.infinity), float("inf"), number)
        number = s.select(magnitude > format.infinity, float("nan"), number)
    signed = s.select((word & format.sign).differs(0), -number, number)
    if format.nan is None or format.infinity is not None:
        return signed
    has_sign = format.nan < format.sign
    return s.select((magnitude if has_sign else word).equals(format.nan), float("nan"), signed)


def written(
    s: Scalars, x: Number, element: Element, saturate: bool = True, round_mode: str = "up"
) -> Number:
    """
    The code of the number nearest to `x`, of two equally near ones the even one.

    A number beyond the greatest becomes that with `saturate`, else infinity or NaN. Integers keep
    their low bits, floats without their fraction.
    """
    x = s.wide(x)
    if not element.is_narrow_float:
        whole = x.to(I32) if x.element.is_float else x
        return s.reinterpret(whole.to(U8) & ((1 << element.bits) - 1), element)
    if element.name == POWERS and not x.element.is_float and x.element.bits > 16:
        raise TypeError(f"{x.element} becomes {element}: cast it to a float before")
    single = _odd(s, x) if x.element == F64 else x.to(F32)
    code = _power if element.name == POWERS else _code
    return s.reinterpret(code(s, single, element.name, saturate, round_mode).to(U8), element)


def _odd(s: Scalars, x: Number) -> Number:
    """
    Rounds an f64 to f32 to odd: an inexact result has its last bit set, so that it is never a tie.

    Rounding the result again gives the same number as rounding once.
    """
    single = x.to(F32)
    beyond = s.absolute(single).to(F64) > s.absolute(x)
    bits = s.reinterpret(single, I32)
    odd = s.select(beyond, bits - 1, bits) | 1
    return s.reinterpret(s.select(single.to(F64).differs(x), odd, bits), F32)


def _code(s: Scalars, x: Number, name: str, saturate: bool, round_mode: str) -> Number:
    """The code of a f32, with its sign; `round_mode` is for powers alone."""
    format = FORMATS[name]
    bits = s.reinterpret(x, I32)
    magnitude = bits & 0x7FFFFFFF
    dropped = 23 - format.mantissa
    odd = (magnitude >> dropped) & 1
    rounded = (magnitude + odd + ((1 << (dropped - 1)) - 1)) >> dropped
    normal = rounded - ((127 - format.bias) << format.mantissa)
    is_small = magnitude < (128 - format.bias) << 23
    steps = s.select(is_small, s.absolute(x), 0) * 2.0 ** (format.bias - 1 + format.mantissa)
    code = s.select(is_small, s.unary(math.RoundEvenOp, steps).to(I32), normal)
    beyond = format.nan if format.infinity is None else format.infinity
    limit = format.greatest if saturate or beyond is None else beyond
    code = s.select(code > format.greatest, limit, code)
    # Where there is no NaN it becomes -0, as in ml_dtypes.
    nan = format.sign if format.nan is None else format.nan
    code = s.select(magnitude > INFINITY, nan, code)
    signed = s.select(bits < 0, code | format.sign, code)
    if format.nan != format.sign:
        return signed
    return s.select(code.equals(0) | code.equals(nan), code, signed)


def _power(s: Scalars, x: Number, name: str, saturate: bool, round_mode: str) -> Number:
    """The exponent of a f32 without its sign."""
    magnitude = s.reinterpret(x, I32) & 0x7FFFFFFF
    more, last = ROUNDINGS[round_mode]
    code = s.select(magnitude <= last, 0, (magnitude + more) >> 23)
    limit = 254 if saturate else 255
    code = s.select(code > 254, limit, code)
    if not saturate:
        code = s.select(magnitude < 0x400000, 255, code)
    return s.select(magnitude > INFINITY, 255, code)
