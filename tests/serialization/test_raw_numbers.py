"""Numbers of every type are assembled and printed as by Khronos' tools."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from xdsl_spirv.serialization.raw.binary import decode
from xdsl_spirv.serialization.raw.errors import SPIRVAssemblyError
from xdsl_spirv.serialization.raw.literals import FORMATS, NumberType, format_number, parse_number
from xdsl_spirv.serialization.text.assembler import assemble
from xdsl_spirv.serialization.text.disassembler import disassemble

Assemble = Callable[..., bytes]
Disassemble = Callable[..., str]

FLOATS = [NumberType(width, True, False, encoding) for width, encoding in FORMATS]
INTEGERS = [
    NumberType(width, False, signed) for width in (8, 16, 32, 64) for signed in (False, True)
]


def declaration(number: NumberType) -> str:
    if number.is_float:
        return f"%t = OpTypeFloat {number.width} {number.encoding or ''}"
    return f"%t = OpTypeInt {number.width} {int(number.signed)}"


def texts(number: NumberType, rng: random.Random) -> list[str]:
    """Returns spellings of numbers, near the edges of a type and in its range."""
    if not number.is_float:
        top = 1 << number.width
        values = [0, 1, top // 2 - 1, top // 2, top - 1, -1, -(top // 2), rng.randrange(top)]
        return [str(v) for v in values] + [f"0x{v:x}" for v in values if v >= 0]
    decimals = [f"{rng.uniform(-4, 4):.{rng.randrange(1, 20)}g}" for _ in range(15)]
    # For 8-bit floats, spirv-as converts decimals that are subnormal in f32 to wrong values, and
    # all decimals from 256 on to 448.
    least, most = (-37, 2) if number.width == 8 else (-50, 38)
    decimals += [f"{rng.uniform(1, 9)}e{rng.randrange(least, most)}" for _ in range(15)]
    decimals += ["0", "-0.0", "1", "-2.", ".5", "1e0", "65504", "65519.9", "448"]
    top = 8 if number.width == 8 else 15
    hexadecimals = [
        f"{rng.choice(('', '-'))}0x1.{rng.randrange(1 << 12):03x}p{rng.randrange(-30, top):+d}"
        for _ in range(15)
    ]
    return decimals + hexadecimals + ["0x0p+0", "0x1p-14", "0x1p-24", "0x1p-149", "0x1p-133"]


@pytest.mark.parametrize("number", FLOATS + INTEGERS, ids=str)
def test_numbers_are_read_as_spirv_as_does(number: NumberType, spirv_as: Assemble):
    rng = random.Random(number.width)
    readable: list[str] = []
    for text in texts(number, rng):
        line = f"{declaration(number)}\n%c = OpConstant %t {text}"
        try:
            expected = spirv_as(line)
        except ValueError:
            with pytest.raises(SPIRVAssemblyError):
                assemble(line)
            continue
        assert assemble(line).encode()[20:] == expected[20:], text
        readable.append(text)
    assert len(readable) > 5


@pytest.mark.parametrize("number", FLOATS + INTEGERS, ids=str)
def test_numbers_are_printed_as_spirv_dis_does(number: NumberType, spirv_dis: Disassemble):
    rng = random.Random(1)
    bits = {rng.getrandbits(number.width) for _ in range(300)}
    bits |= {0, 1, (1 << number.width) - 1, 1 << (number.width - 1)}
    if number.width <= 16 and number.is_float:
        bits |= set(range(0, 1 << number.width, 17))
    lines = [
        f"%{i + 2} = OpConstant %1 {format_number(value, number)}"
        for i, value in enumerate(sorted(bits))
    ]
    module = assemble("\n".join([declaration(number).replace("%t", "%1"), *lines]))
    values = [i.operands[2].value for i in list(module)[1:]]
    assert values == sorted(bits)
    assert disassemble(module) == spirv_dis(module.encode())
    assert assemble(disassemble(module, raw_ids=True)).encode() == module.encode()


def test_decimals_round_to_the_nearest_float():
    single = NumberType(32, True)
    rng = random.Random(2)
    for _ in range(300):
        # The midpoint of two floats, and its neighbours, which would round twice via a double.
        bits = rng.randrange(1 << 23, 0x7F000000)
        low, high = (struct.unpack("<f", struct.pack("<I", b))[0] for b in (bits, bits + 1))
        half = (low + high) / 2
        digits = f"{half:.1150f}".rstrip("0")
        if "." in digits and len(digits) < 380:
            assert parse_number(digits, single) == bits + (bits & 1)
            assert parse_number(digits + "1", single) == bits + 1


def test_eight_bit_floats_reach_their_largest():
    number = NumberType(8, True, False, "Float8E4M3EXT")
    assert [parse_number(t, number) for t in ("240", "256", "448", "-448")] == [
        0x77,
        0x78,
        0x7E,
        0xFE,
    ]
    with pytest.raises(ValueError, match="480 is beyond the type's 8 bits"):
        parse_number("480", number)
    with pytest.raises(ValueError, match="65536 is beyond the type's 8 bits"):
        parse_number("65536", NumberType(8, True, False, "Float8E5M2EXT"))


def test_numpy_agrees_on_halves():
    half = NumberType(16, True)
    for bits in range(0, 0x7C00, 7):
        value = float(np.uint16(bits).view(np.float16))
        assert parse_number(format_number(bits, half), half) == bits
        assert parse_number(f"{value:.30f}", half) == bits


@pytest.mark.parametrize("text", ["nan", "inf", "1e", "0x", "1.2.3", "--1", "0x1.8", "1" * 500])
def test_texts_that_are_not_numbers_are_refused(text: str):
    for number in (NumberType(32, True), NumberType(32, False, True)):
        with pytest.raises(ValueError, match=r"."):
            parse_number(text, number)


def test_a_type_without_literals_carries_words():
    module = assemble("%1 = OpTypeInt 128 0\n%2 = OpConstant %1 !1 !2 !3 !4")
    text = disassemble(module, raw_ids=True)
    assert "%2 = OpConstant %1 !0x00000001 !0x00000002 !0x00000003 !0x00000004" in text
    assert assemble(text).encode() == module.encode() == decode(module.encode()).encode()
