"""
Converts narrow floats and integers (a code in a byte each) to numbers and back.

Devices do not compute in these types. The code is in the low bits of a byte; reads ignore the high
bits. Bodies convert between a code and `Element.computed` with integer arithmetic
(`upstream/narrow_floats`).
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
"""Type of powers of two: code c means 2^(c - 127), and 255 means NaN."""

ROUNDINGS = {"up": (0x7FFFFF, 0x400000), "nearest": (0x400000, 0x5FFFFF), "down": (0, 0x7FFFFF)}
"""
Maps each `round_mode` to the number that is added to the bits of an f32 before truncation, and to
the largest bit pattern that becomes code 0.
"""


def read(s: Scalars, x: Number) -> Number:
    """Converts a code to a number of the type `x.element.computed`."""
    element = x.element
    code = s.reinterpret(x, U8)
    if not element.is_narrow_float:
        # The arithmetic shift right extends the sign.
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
    Converts a number to the nearest code of a narrow type, with ties to even.

    A float beyond the range becomes the greatest float with `saturate`, else infinity or NaN. For
    a narrow integer type, a float's fraction is dropped, and only the low bits are kept.
    """
    x = s.wide(x)
    if not element.is_narrow_float:
        whole = x.to(I32) if x.element.is_float else x
        return s.reinterpret(whole.to(U8) & ((1 << element.bits) - 1), element)
    if element.name == POWERS and not x.element.is_float and x.element.bits > 16:
        raise TypeError(
            f"{x.element} cannot be converted to {element} directly; cast to a float first"
        )
    exact = x if x.element == F64 else x.to(F32)
    if element.name == POWERS:
        single = s.as_number(to_single(Bits(s.builder, exact.value)).value, F32)
        return s.reinterpret(_power(s, single, saturate, round_mode).to(U8), element)
    code = truncate(s.builder, exact.value, NARROW_FLOATS[element.name], saturate)
    return s.as_number(code, element)


def _power(s: Scalars, x: Number, saturate: bool, round_mode: str) -> Number:
    """Converts the magnitude of an f32 to the stored exponent of a power of two."""
    magnitude = s.reinterpret(x, I32) & 0x7FFFFFFF
    more, last = ROUNDINGS[round_mode]
    code = s.select(magnitude <= last, 0, (magnitude + more) >> 23)
    limit = 254 if saturate else 255
    code = s.select(code > 254, limit, code)
    if not saturate:
        code = s.select(magnitude < 0x400000, 255, code)
    return s.select(magnitude > INFINITY, 255, code)
