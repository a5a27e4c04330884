"""The arithmetic of attention kernels gives numpy's results, and a state keeps its values apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    Float16Type,
    FloatAttr,
    IndexType,
    UnitAttr,
    VectorType,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import (
    EXCESS,
    LOG2_E,
    LOWEST,
    Numbers,
    State,
    moved_type,
    round_numbers,
)
from xdsl_spirv.passes.kernel.matrix_values import matrix_type

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

INDEX = IndexType()


def numbers(b: KernelEmitter, nan_to_zero: bool = False) -> Numbers[Any]:
    plan: Any = SimpleNamespace(op=SimpleNamespace(nan_to_zero=UnitAttr() if nan_to_zero else None))
    return Numbers(b, plan)


def test_arithmetic_on_numbers_is_numpys(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        n = numbers(b)
        doubled, half = n.plus(x, x), n.number(0.5)
        return [doubled, n.times(x, y), n.greater(x, y), n.power(x), n.quotient(x, y), half]

    x = np.array([3, -2, 0, 5], np.float32)
    y = np.array([-1, 4, 2, 0.5], np.float32)
    results = write_code([f32, f32], write, invocations=4).run(x, y, subgroup_size=4)
    expected = [x + x, x * y, np.maximum(x, y), np.exp2(x), x / y, np.full(4, 0.5)]
    np.testing.assert_allclose(results, expected)


def test_fragments_are_added_and_multiplied_by_operations_of_matrices(write_code: WriteCode):
    type = matrix_type("Acc", 16, 16, f32)

    def write(b: KernelEmitter) -> list[SSAValue]:
        n, one = numbers(b), b.add(spv.ConstantOp(FloatAttr(1.0, f32), type))
        n.plus(one, one)
        n.times(one, one)
        return []

    code = write_code([], write)
    assert [code.count(kind) for kind in (spv.FAddOp, spv.FMulOp)] == [1, 1]
    assert code.count(arith.AddfOp, arith.MulfOp) == 0


def test_differences_of_indices_are_signed(write_code: WriteCode):
    def write(b: KernelEmitter, a: SSAValue, c: SSAValue) -> list[SSAValue]:
        n = numbers(b)
        return [n.difference(a, c), n.difference(a, 7), n.as_signed(c)]

    assert write_code([INDEX, INDEX], write).run(3, 5) == [-2, -4, 5]


@pytest.mark.parametrize("nan_to_zero", [False, True])
def test_a_row_without_scores_gives_nan_or_zero(nan_to_zero: bool, write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue, total: SSAValue) -> list[SSAValue]:
        return [numbers(b, nan_to_zero).quotient(x, total)]

    x, total = np.array([0, 6, -6], np.float32), np.array([0, 4, 0.5], np.float32)
    code = write_code([f32, f32], write, invocations=3)
    (result,) = code.run(x, total, subgroup_size=4)
    np.testing.assert_array_equal(result, [0 if nan_to_zero else np.nan, 1.5, -12])
    assert code.count(arith.SelectOp) == nan_to_zero


def test_weighted_sums_multiply_each_vector_by_its_own_factor(write_code: WriteCode):
    def write(b: KernelEmitter, *given: SSAValue) -> list[SSAValue]:
        vectors, factors = [given[:2], given[2:4], given[4:6]], given[6:]
        return numbers(b).weigh(vectors, factors)

    results = write_code([f32] * 9, write).run(1, 2, 3, 4, 5, 6, 10, 100, 1000)
    assert results == [5310, 6420]


def test_vectors_without_a_factor_are_an_error():
    b: Any = None
    with pytest.raises(ValueError, match="shorter"):
        numbers(b).weigh([[], []], [])


def test_numbers_are_rounded_to_the_element_type(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        (half,) = round_numbers(b, [x], f16)
        (same,) = round_numbers(b, [x], f32)
        assert isinstance(half.type, Float16Type)
        return [half, same]

    x = np.float32(-2.7001)
    assert write_code([f32], write).run(x) == [np.float16(x), x]


@pytest.mark.parametrize(
    ("element", "count", "expected"),
    [
        (f16, 1, f16),
        (f32, 1, f32),
        (f16, 2, i32),
        (f16, 8, VectorType(i32, [4])),
        (i8, 4, i32),
        (i8, 8, VectorType(i32, [2])),
        (f32, 2, VectorType(f32, [2])),
        (f32, 4, VectorType(f32, [4])),
    ],
)
def test_loads_move_whole_words(element: Attribute, count: int, expected: Attribute):
    assert moved_type(element, count) == expected


def test_a_state_is_rebuilt_from_its_flat_values():
    values: list[SSAValue] = list(Block(arg_types=[f32] * 11).args)
    words = {"k": [values[6:8]], "v": [values[8:9], values[9:11]]}
    state = State([values[:2]], [values[2:4]], [values[4:5], values[5:6]], words)
    assert state.flat() == values
    other: list[SSAValue] = list(Block(arg_types=[f32] * 11).args)
    rebuilt = state.like(other)
    assert rebuilt.flat() == other
    assert (rebuilt.maxima, rebuilt.sums) == ([other[:2]], [other[2:4]])
    assert rebuilt.results == [other[4:5], other[5:6]]
    assert rebuilt.words == {"k": [other[6:8]], "v": [other[8:9], other[9:11]]}
    assert state.carried.flat() == values[:6]


def test_the_first_maximum_leaves_room_for_differences_of_scores():
    assert np.isfinite(np.float32(LOWEST))
    assert np.exp2(np.float32(LOWEST) - np.float32(LOWEST)) == 1
    assert np.exp2(np.float16(2 * EXCESS - 1)) <= np.finfo(np.float16).max
    assert np.isclose(2**LOG2_E, np.e)
