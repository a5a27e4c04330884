"""Small integers in a word become exact floats, in as few instructions as documented."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.bit_fields import (
    Affine,
    Bits,
    Known,
    Scalar,
    ScalarCode,
    Whole,
    fields_of,
    known_number,
)

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf, WriteCode

FILE = "kernel/bit_fields.mlir"
WORDS = (0, 0xFFFFFFFF, 0x01234567, 0x89ABCDEF, 0x80FF7F00)


def write_fields(op: GenericOp) -> Callable[..., list[SSAValue]]:
    """Returns a function that writes the code of `op` for each of the four bytes of a word."""

    def write(b: KernelEmitter, word: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known())
        numbers = [code.body(op, [bits], lambda _: 0) for bits in fields_of(word, 8)]
        return [code.value(number, f32) for number in numbers]

    return write


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("nibble", lambda x: x >> 4),
        ("low", lambda x: x & 3),
        ("signed", lambda x: x.astype(np.int8)),
    ],
)
def test_bits_become_their_number_without_a_conversion(
    name: str, meaning: Callable[[Any], Any], generic_of: GenericOf, write_code: WriteCode
):
    code = write_code([i32], write_fields(generic_of(FILE, name)))
    for word in WORDS:
        given = np.array(word, np.uint32)
        expected = meaning(given.reshape(1).view(np.uint8)).astype(np.float32)
        assert code.run(given.astype(np.int32)) == expected.tolist()
    conversions = arith.UIToFPOp, arith.SIToFPOp, arith.ExtUIOp, arith.TruncIOp
    assert code.count(*conversions) == 0
    assert code.count(arith.AddfOp, math.FmaOp) == 4
    assert code.count(arith.ShRUIOp) <= 1, "masks select bits where they are; only the top moves"


def test_bits_of_two_words_are_joined_for_all_bytes_at_once(
    generic_of: GenericOf, write_code: WriteCode
):
    op = generic_of(FILE, "joined")

    def write(b: KernelEmitter, low: SSAValue, high: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known())
        pairs = zip(fields_of(low, 8), fields_of(high, 8), strict=True)
        return [code.value(code.body(op, pair, lambda _: 0), f32) for pair in pairs]

    code = write_code([i32, i32], write)
    lows, highs = (np.array([word], np.uint32) for word in (0xFEDCBA98, 0x01000101))
    joined = lows.view(np.uint8) & 15 | (highs.view(np.uint8) & 1) << 4
    assert code.run(*lows.view(np.int32), *highs.view(np.int32)) == joined.tolist()
    # One mask per word and one join per four bytes, then one mask and exponent per element.
    assert code.count(arith.AndIOp) == 2 + 4
    assert code.count(arith.OrIOp) == 1 + 4


def test_a_field_as_an_integer_is_shifted_and_masked(write_code: WriteCode):
    def write(b: KernelEmitter, word: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known())
        middle, top = Bits(word, 5, 6, 32), Bits(word, 27, 5, 32)
        return [code.value(bits, i32) for bits in (middle, top, Bits(word, 0, 3, 32, up=4))]

    code = write_code([i32], write)
    word = 0xDEADBEEF
    assert code.run(np.uint32(word).view(np.int32)) == [word >> 5 & 63, word >> 27, (word & 7) << 4]
    assert code.count(arith.AndIOp) == 2, "the highest bits need no mask"


def test_shared_factors_and_addends_stay_apart(write_code: WriteCode):
    """(x * s - m) * t is one multiply-add per x: x * (s t) + (-m t)."""

    def write(b: KernelEmitter, *values: SSAValue) -> list[SSAValue]:
        *varying, scale, least, more = values
        code = ScalarCode(b, Known({"shared": {scale, least, more}}))
        results: list[SSAValue] = []
        for x in varying:
            scaled = code.copied(arith.MulfOp(x, scale), [x, scale])
            moved = code.copied(arith.SubfOp(x, least), [scaled, least])
            whole: Scalar = code.copied(arith.MulfOp(x, more), [moved, more])
            assert isinstance(whole, Affine)
            results.append(code.whole(whole))
        return results

    code = write_code([f32] * 7, write)
    x = np.arange(1, 5, dtype=np.float32)
    s, m, t = np.array([0.5, 8, 4], np.float32)
    assert code.run(*x, s, m, t) == ((x * s - m) * t).tolist()
    assert code.count(math.FmaOp) == 4
    assert code.count(arith.MulfOp) == 2
    assert code.count(arith.SubfOp) == 1


def test_a_kept_float_is_bits_until_it_is_needed(generic_of: GenericOf, write_code: WriteCode):
    op = generic_of(FILE, "low")

    def write(b: KernelEmitter, word: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known(), keeps=True)
        number = code.body(op, [fields_of(word, 8)[1]], lambda _: 0)
        assert number == Whole(Bits(word, 8, 2, 8))
        return [code.value(number, f32), code.value(number, f32)]

    code = write_code([i32], write)
    assert code.run(np.int32(0x0700)) == [3, 3]
    assert code.count(arith.BitcastOp) == 1, "equal numbers are written once"


def test_known_numbers_are_computed_by_the_compiler(generic_of: GenericOf, write_code: WriteCode):
    op = generic_of(FILE, "known")

    def write(b: KernelEmitter, word: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known())
        block = op.body.block
        shifted = next(inner for inner in block.ops if isinstance(inner, arith.ShRUIOp))
        assert known_number(b, shifted.lhs) == 255
        assert code.body(op, fields_of(word, 8)[:1], lambda _: 0, shifted.result) == 15
        return [word]

    assert write_code([i32], write).count() == 0
