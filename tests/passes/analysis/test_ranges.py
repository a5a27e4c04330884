"""The interval of an operation contains all results for operands in their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import f16, f32, i1, i8, i16, i32
from xdsl.ir import Attribute, Block, Operation

from xdsl_spirv.passes.analysis.ranges import (
    ANY_FLOAT,
    RULES,
    Range,
    compute_range,
    everything,
    signed,
)
from xdsl_spirv.passes.emit.kernel import KernelEmitter

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

BINARY = [
    kind
    for kind in RULES
    if issubclass(
        kind, arith.SignlessIntegerBinaryOperation | arith.FloatingPointLikeBinaryOperation
    )
]
DTYPES = {i8: np.int8, f32: np.float32}


@pytest.mark.parametrize("kind", BINARY, ids=lambda kind: kind.name)
def test_every_result_is_in_its_interval(kind: Any, write_code: WriteCode):
    type = i8 if issubclass(kind, arith.SignlessIntegerBinaryOperation) else f32
    rng = np.random.default_rng(len(kind.name))

    def write(b: KernelEmitter, *values: Any) -> list[Any]:
        return [b.add(kind(*values))]

    code = write_code([type, type], write, invocations=64)
    op: Operation = kind(*Block(arg_types=[type, type]).args)  # pyright: ignore
    for _ in range(8):
        ends = np.sort(rng.integers(-128, 128, (2, 2)) >> rng.integers(0, 7, (2, 1)))
        drawn = [rng.integers(low, high + 1, 64) for low, high in ends]
        for numbers, pair in zip(drawn, ends, strict=True):
            numbers[:2], numbers[2:4] = pair, pair[::-1]
        if "div" in kind.name or "rem" in kind.name:
            drawn[1][drawn[1] == 0] = ends[1][1] or 1
            ends[1][1] = max(ends[1][1], drawn[1].max())
        if "sh" in kind.name:
            ends[1] = drawn[1][:] = drawn[1][0] % 8
        bounds = compute_range(
            op, [Range(*map(float if type == f32 else int, pair)) for pair in ends]
        )
        (results,) = code.run(*(numbers.astype(DTYPES[type]) for numbers in drawn))
        assert bounds.low <= results.min(), ends
        assert results.max() <= bounds.high, ends


@pytest.mark.parametrize(
    ("kind", "source", "to", "given", "expected"),
    [
        (arith.ExtUIOp, i8, i32, (-1, 5), (0, 255)),
        (arith.ExtUIOp, i8, i32, (3, 5), (3, 5)),
        (arith.ExtSIOp, i1, i8, (0, 1), (-1, 0)),
        (arith.TruncIOp, i32, i8, (0, 127), (0, 127)),
        (arith.TruncIOp, i32, i8, (0, 128), (-128, 127)),
        (arith.FPToSIOp, f32, i16, (-2.9, 7.9), (-2, 7)),
        (arith.FPToSIOp, f32, i8, (0.0, 200.0), (-128, 127)),
        (arith.UIToFPOp, i8, f32, (-1, 1), (0.0, np.inf)),
    ],
)
def test_conversions(
    kind: Any,
    source: Attribute,
    to: Attribute,
    given: tuple[float, float],
    expected: tuple[float, float],
):
    op = kind(Block(arg_types=[source]).args[0], to)
    assert compute_range(op, [Range(*given)]) == Range(*expected)


def test_a_rounded_conversion_is_widened_by_its_error():
    op = arith.SIToFPOp(Block(arg_types=[i32]).args[0], f16)
    bounds = compute_range(op, [Range(0, 2049)])
    assert bounds.low <= 0
    assert 2050 <= bounds.high <= 2060, "2049 rounds to 2048 or 2050"


def test_a_condition_limits_both_sides_of_a_select():
    """`x < y ? x : y` is at most max(x, y), and at least min(x, y)."""
    x, y = Block(arg_types=[i32, i32]).args
    less = arith.CmpiOp(x, y, "slt")
    op = arith.SelectOp(less, x, y)
    assert compute_range(op, [Range(0, 1), Range(0, 100), Range(10, 20)]) == Range(0, 20)
    assert compute_range(op, [Range(1, 1), Range(0, 100), Range(10, 20)]) == Range(0, 100)


def test_constants_and_types():
    assert compute_range(arith.ConstantOp.from_int_and_width(-3, 8), []) == Range(-3, -3)
    assert compute_range(arith.ConstantOp.from_int_and_width(1, 1), []) == Range(0, 1).meet(
        Range(1, 1)
    )
    assert everything(i1) == Range(0, 1)
    assert everything(f32) == ANY_FLOAT
    x, y = Block(arg_types=[i8, i8]).args
    total = arith.AddiOp(x, y)
    assert compute_range(total, [Range(-128, 0), Range(-1, 0)]) == signed(8), "it may overflow"
    assert Range(0, 4).hull(Range(8, 9)) == Range(0, 9)
    assert Range(0, 4).meet(Range(8, 9)) == Range(0, 4), "code that never runs keeps what is known"
