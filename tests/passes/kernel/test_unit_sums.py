"""Products of bytes and floats by byte dot products have the documented accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import Affine, Bits, Known, ScalarCode, Whole, fields_of
from xdsl_spirv.passes.kernel.unit_sums import RowDigits, Slots, words_of

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

COUNT = 64
"""Number of rows of four elements, one for each invocation."""


def draw_rows(seed: int) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
    """Returns elements of different magnitudes, also within a row."""
    rng = np.random.default_rng(seed)
    scales = 2.0 ** rng.integers(-30, 30, (4, COUNT))
    return list((rng.standard_normal((4, COUNT)) * scales).astype(np.float32))


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("slots", [(0, 1, 2, 3), (3, None, 0, 2), (2, 1, 3, None)])
def test_the_error_of_a_product_is_within_its_bound(
    digits: int, slots: Slots, write_code: WriteCode
):
    def write(b: HoistingEmitter, *values: SSAValue) -> list[SSAValue]:
        *elements, word = values
        row = RowDigits(b, elements, digits)
        return [row.product([(word, slots)]), row.total([0, 2])]

    code = write_code([f32] * 4 + [i32], write, HoistingEmitter, invocations=COUNT)
    rows = draw_rows(digits)
    words = np.random.default_rng(9).integers(0, 1 << 32, COUNT, np.uint32).view(np.int32)
    product, total = code.run(*rows, words)
    bytes = words.view(np.int8).reshape(COUNT, 4).astype(np.float64)
    used = [(n, bytes[:, at]) for at, n in enumerate(slots) if n is not None]
    exact = sum(rows[n].astype(np.float64) * byte for n, byte in used)
    greatest = np.abs(rows).max(0).astype(np.float64)
    bound = greatest * 2.0 ** (3 - 8 * digits) * sum(np.abs(byte) for _, byte in used)
    rounding = 2.0**-22 * sum(np.abs(rows[n] * byte) for n, byte in used)
    assert (np.abs(product - exact) <= bound + rounding).all()
    assert np.array_equal(total, rows[0] + rows[2])
    assert code.count(spv.SDotOp) == digits


@pytest.mark.parametrize("element", [np.inf, -np.inf, np.nan])
def test_infinities_and_nan_make_the_product_nan(element: float, write_code: WriteCode):
    def write(b: HoistingEmitter, *values: SSAValue) -> list[SSAValue]:
        *elements, word = values
        return [RowDigits(b, elements, 3).product([(word, (0, 1, 2, 3))])]

    code = write_code([f32] * 4 + [i32], write, HoistingEmitter)
    assert np.isnan(code.run(1.0, 2.0, element, 3.0, 0x01010101)).all()
    assert code.run(1.0, 2.0, 0.0, 3.0, 0x01010101) == [6.0]


def test_packed_bytes_are_multiplied_without_unpacking(write_code: WriteCode):
    def write(b: HoistingEmitter, word: SSAValue, other: SSAValue) -> list[SSAValue]:
        code = ScalarCode(b, Known())
        wholes = [Affine(Whole(bits)) for bits in fields_of(word, 8)]
        found = words_of(code, list(enumerate(wholes)))
        assert found is not None
        ((signed, slots),), difference = found
        assert (slots, difference) == ((0, 1, 2, 3), 128)
        nibbles = [Affine(Whole(Bits(other, low, 4, 8))) for low in (4, 12, 28)]
        found = words_of(code, list(enumerate(nibbles)))
        assert found is not None
        ((low, slots),), difference = found
        assert (slots, difference) == ((0, 1, None, 2), 0)
        crossing = [(0, Affine(Whole(Bits(word, 5, 6, 32))))]
        assert words_of(code, crossing) is None, "bits of two bytes"
        assert words_of(code, [(0, Affine(word))]) is None, "no bits"
        mixed = [(0, wholes[0]), (1, nibbles[0])]
        assert words_of(code, mixed) is None, "bytes with and without sign"
        return [signed, low]

    code = write_code([i32, i32], write, HoistingEmitter)
    signed, low = code.run(np.int32(0x7F80FF00), np.int32(0x12345678))
    assert np.int32(signed).view("4i1").tolist() == [-128, 127, 0, -1]
    assert np.int32(low).view("4i1").tolist() == [7, 5, 3, 1], "the third byte has an empty slot"
