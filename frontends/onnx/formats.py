"""
Floats and integers of few bits: converts their codes, a byte each, to numbers and back.

No device computes in these types, so such a tensor is stored as bytes: the code in the low bits,
zeros above, which are ignored by reads. Bodies convert a code to `Element.computed` and back by
integer arithmetic (`upstream/narrow_floats`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv.frontends.onnx.values import F16, F32, F64, I32, U8, Element
from xdsl_spirv.upstream.narrow_floats import (
    INFINITY,
    NARROW_FLOATS,
    Bits,
    extend,
    is_part_of_half,
    to_single,
    truncate,
)

if TYPE_CHECKING:
    from xdsl_spirv.frontends.onnx.scalars import Number, Scalars

POWERS = "f8E8M0FNU"
"""Type whose code is an exponent: 2^(code - 127); code 255 is NaN."""

ROUNDINGS = {"up": (0x7FFFFF, 0x400000), "nearest": (0x400000, 0x5FFFFF), "down": (0, 0x7FFFFF)}
"""For each `round_mode`, the number added to f32's bits, and the last bits that round to 2^-127."""


def read(s: Scalars, x: Number) -> Number:
    """Converts a code to its number, in the type in which `x` is computed."""
    element = x.element
    code = s.reinterpret(x, U8)
    if not element.is_narrow_float:
        # Shifted up and down again, so that the sign becomes the highest bit.
        unused = 8 - element.bits
        return (s.reinterpret(code << unused, element.computed)) >> unused
    if element.name == POWERS:
        word = code.to(I32)
        bits = s.select(word.equals(0), 0x400000, word << 23)
        return s.reinterpret(s.select(word.equals(255), INFINITY + 1, bits), F32)
    type = NARROW_FLOATS[element.name]
    number = extend(s.builder, code.value, type)
    return s.as_number(number, F16 if is_part_of_half(type) else F32).to(F32)


def written(
    s: Scalars, x: Number, element: Element, saturate: bool = True, round_mode: str = "up"
) -> Number:
    """
    Converts a number to the nearest code; ties go to the even one.

    With `saturate`, a number beyond the greatest becomes the greatest, else infinity or NaN.
    Integers keep their low bits, floats lose their fraction.
    """
    x = s.wide(x)
    if not element.is_narrow_float:
        whole = x.to(I32) if x.element.is_float else x
        return s.reinterpret(whole.to(U8) & ((1 << element.bits) - 1), element)
    if element.name == POWERS and not x.element.is_float and x.element.bits > 16:
        raise TypeError(
            f"{x.element} cannot be converted to {element} directly: cast it to a float before"
        )
    exact = x if x.element == F64 else x.to(F32)
    if element.name == POWERS:
        single = s.as_number(to_single(Bits(s.builder, exact.value)).value, F32)
        return s.reinterpret(_power(s, single, saturate, round_mode).to(U8), element)
    code = truncate(s.builder, exact.value, NARROW_FLOATS[element.name], saturate)
    return s.as_number(code, element)


def _power(s: Scalars, x: Number, saturate: bool, round_mode: str) -> Number:
    """Returns the exponent of an f32 without its sign."""
    magnitude = s.reinterpret(x, I32) & 0x7FFFFFFF
    more, last = ROUNDINGS[round_mode]
    code = s.select(magnitude <= last, 0, (magnitude + more) >> 23)
    limit = 254 if saturate else 255
    code = s.select(code > 254, limit, code)
    if not saturate:
        code = s.select(magnitude < 0x400000, 255, code)
    return s.select(magnitude > INFINITY, 255, code)
