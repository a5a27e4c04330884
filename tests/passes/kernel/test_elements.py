"""Converting, packing and unpacking elements keeps their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import VectorType, bf16, f16, f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import (
    as_one,
    components_of,
    convert_factor,
    flipped_bits,
    inline_body,
    multiply_add,
    pack_elements,
    unpack_elements,
)

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf, WriteCode

FILE = "analysis/unpacking.mlir"


@pytest.mark.parametrize(
    ("source", "to", "signed", "given", "expected"),
    [
        (i8, i32, True, np.int8(-3), -3),
        (i8, i32, False, np.int8(-3), 253),
        (f16, f32, True, np.float16(0.1), np.float16(0.1)),
        (f32, f16, True, np.float32(0.1), np.float16(0.1)),
        (f32, f32, True, np.float32(0.1), np.float32(0.1)),
        # The integer contains the bits of a bfloat16.
        (i16, f32, True, np.int16(0x3FC0), 1.5),
        (i16, f32, True, np.uint16(0xC2F7).view(np.int16), -123.5),
    ],
)
def test_a_factor_is_converted_to_the_type_of_the_sum(
    source: Attribute,
    to: Attribute,
    signed: bool,
    given: np.generic,
    expected: float,
    write_code: WriteCode,
):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        return [convert_factor(b, x, to, signed)]

    assert write_code([source], write).run(given) == [expected]


@pytest.mark.parametrize(
    ("type", "dtype", "count"),
    [(f16, np.float16, 8), (i8, np.int8, 16), (i8, np.int8, 8), (f32, np.float32, 4)],
)
def test_packed_elements_are_unpacked_again(
    type: Attribute, dtype: type[np.generic], count: int, write_code: WriteCode
):
    def write(b: KernelEmitter, *values: SSAValue) -> list[SSAValue]:
        packed = pack_elements(b, values, type)
        words = packed.type.get_shape() if isinstance(packed.type, VectorType) else (1,)
        assert words[0] <= 4, "SPIR-V has no longer vectors"
        return [*unpack_elements(b, packed, type, count), *components_of(b, packed)]

    numbers = np.arange(-count, count, 2).astype(dtype)
    results = write_code([type] * count, write).run(*numbers)
    assert results[:count] == numbers.tolist()
    packed = np.array(results[count:])
    assert packed.tobytes() == numbers.tobytes(), "elements lie in order in the words"


def test_vectors_are_joined_to_words(write_code: WriteCode):
    def write(b: KernelEmitter, *values: SSAValue) -> list[SSAValue]:
        pairs = [pack_elements(b, values[n : n + 2], f16) for n in (0, 2, 4, 6)]
        return [as_one(b, pairs, VectorType(i32, [4]))]

    numbers = np.arange(8).astype(np.float16)
    (words,) = write_code([f16] * 8, write).run(*numbers)
    assert np.array_equal(words.view(np.float16), numbers)


def test_a_multiply_add_of_integers_wraps(write_code: WriteCode):
    def write(b: KernelEmitter, *values: SSAValue) -> list[SSAValue]:
        return [multiply_add(b, *values)]

    assert write_code([i32] * 3, write).run(1 << 30, 4, 7) == [7]
    third = np.float32(1 / 3)
    (fused,) = write_code([f32] * 3, write).run(third, np.float32(3), np.float32(-1))
    assert fused == float(third) * 3 - 1, "rounded once"


def test_a_body_is_inlined(generic_of: GenericOf, write_code: WriteCode):
    op = generic_of(FILE, "scaled_bytes")

    def write(b: KernelEmitter, x: SSAValue, scale: SSAValue) -> list[SSAValue]:
        return [inline_body(b, op, [x, scale])]

    assert write_code([i8, f32], write).run(np.int8(-7), np.float32(0.5)) == [-3.5]
    assert flipped_bits(op) is None
    assert flipped_bits(generic_of("kernel/elements.mlir", "flipped")) == -128


def test_bfloat16_stays_bfloat16(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        return [convert_factor(b, x, f32, True)]

    number = ml_dtypes.bfloat16(3.14)
    assert write_code([bf16], write).run(number) == [np.float32(number)]
