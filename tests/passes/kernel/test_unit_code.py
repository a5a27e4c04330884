"""
The code for a unit (neighbouring packed weights) computes the same elements as the operation.

Covers: kernel/unpacked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import pytest
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f16, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_spirv.passes.analysis.unpacking import Unpacking, unpacking_of
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.unpacked import UnitCode
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.passes.conftest import Code, GenericOf, WriteCode

FILE = "analysis/unpacking.mlir"
COLUMNS = AffineMap.from_callable(lambda m, n, b, h, j: (n, b, h, j))
SIZES, GROUPS = (5, 3, 4, 2, 16), (range(0), range(1, 2), range(2, 5))


class UnitOf(Protocol):
    """`unit_of(name, words, scale)` returns the code that unpacks neighbouring words."""

    def __call__(self, name: str, words: int, scale: Attribute | None = None, /) -> Code: ...


@pytest.fixture
def unit_of(generic_of: GenericOf, write_code: WriteCode) -> UnitOf:
    def build(name: str, words: int, scale: Attribute | None = None) -> Code:
        unpacking = unpacking_of(generic_of(FILE, name), COLUMNS, SIZES, GROUPS)
        assert isinstance(unpacking, Unpacking)

        def write(b: KernelEmitter, *values: SSAValue) -> list[SSAValue]:
            planes = [values[:words], *([values[words:]] if scale else [])]
            return UnitCode(b, unpacking, planes, 1).elements()

        return write_code([i32] * words + ([] if scale is None else [scale]), write)

    return build


def nibbles(words: Array) -> Array:
    """Returns the low nibbles of all bytes, then the high ones."""
    bytes = words.view(np.uint8)
    return np.concatenate([bytes & 15, bytes >> 4])


def words_of(seed: int, count: int) -> Array:
    return np.random.default_rng(seed).integers(0, 1 << 32, count, np.uint32).view(np.int32)


@pytest.mark.parametrize("seed", range(3))
def test_scaled_nibbles_are_rounded_once(seed: int, unit_of: UnitOf):
    code = unit_of("scaled_nibbles", 4, f16)
    words, scale = words_of(seed, 4), np.float16(0.0371)
    elements = np.concatenate(code.run(*words, scale))
    assert elements.dtype == np.float16
    assert np.array_equal(elements, nibbles(words).astype(np.float16) * scale)
    assert code.count(arith.UIToFPOp, arith.SIToFPOp) == 0
    assert code.count(arith.ShRUIOp) == 4, "one for the odd bytes of each word, none for nibbles"


def test_small_integers_are_converted_in_pairs(unit_of: UnitOf):
    code = unit_of("centred_nibbles", 4)
    words = words_of(7, 4)
    elements = np.concatenate(code.run(*words))
    assert np.array_equal(elements, nibbles(words).astype(np.float16) - 8)
    # Two pairs per four elements. The 8 is part of the constant that the exponent adds.
    assert code.count(arith.AddfOp, math.FmaOp) == 16
    assert code.count(arith.SubfOp) == 0


def test_signed_bytes_become_floats(unit_of: UnitOf):
    code = unit_of("scaled_bytes", 8, f32)
    words, scale = words_of(3, 8), np.float32(1.7)
    elements = np.concatenate(code.run(*words, scale))
    assert np.array_equal(elements, words.view(np.int8).astype(np.float32) * scale)
    assert code.count(arith.SIToFPOp) == 0
