"""Code is hoisted as far as its operands allow, and known index arithmetic emits no code."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, floordiv, mod, mul
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType, MemRefType, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter, may_be_negative

if TYPE_CHECKING:
    from tests.passes.conftest import Code, WriteCode

INDEX = IndexType()
SIZES = 3, 4, 5
ARITHMETIC = {"plus": add, "times": mul, "divided": floordiv, "remainder": mod}


def write_loop(
    b: HoistingEmitter, upper: int, body: Callable[[SSAValue], SSAValue], step: int = 1
) -> SSAValue:
    """Writes a loop from 0 to `upper` that sums the body's values."""
    block = Block(arg_types=[INDEX, INDEX])
    zero = b.number(0)
    with b.inside(block, fence=True):
        b.enter_loop(block.args[0], 0, upper, step)
        total = b.index(b.plus(block.args[1], body(block.args[0])))
        b.insert(scf.YieldOp(total))
    loop = scf.ForOp(zero, b.number(upper), b.number(step), [zero], Region(block))
    b.insert(loop)
    return loop.results[0]


def parents_of(code: Code, kind: type[arith.MuliOp | memref.LoadOp]) -> list[str]:
    """Returns the name of the operation around each operation of a kind."""
    parents = [op.parent_op() for op in code.operations if isinstance(op, kind)]
    return [op.name for op in parents if op is not None]


def test_arithmetic_of_outer_values_leaves_the_loop(write_code: WriteCode):
    def write(b: HoistingEmitter, x: SSAValue) -> list[SSAValue]:
        return [write_loop(b, 4, lambda i: b.index(b.plus(b.times(x, x), b.times(i, i))))]

    code = write_code([INDEX], write, HoistingEmitter)
    assert code.run(10) == [4 * 100 + 14]
    assert parents_of(code, arith.MuliOp) == ["gpu.func", "scf.for"]


def test_a_load_stays_in_a_loop_that_may_be_skipped(write_code: WriteCode):
    """A load stays in a loop that some invocations skip: its element may be out of bounds."""

    def write(b: HoistingEmitter, x: SSAValue, memory: SSAValue) -> list[SSAValue]:
        def body(_: SSAValue) -> SSAValue:
            loaded = b.load_once(memory, [x])
            assert b.load_once(memory, [x]) is loaded
            return b.add(arith.IndexCastOp(loaded, INDEX))

        return [write_loop(b, 3, body)]

    code = write_code([INDEX, MemRefType(i32, [4])], write, HoistingEmitter)
    assert code.run(2, np.arange(4, dtype=np.int32)) == [6]
    assert parents_of(code, memref.LoadOp) == ["scf.for"]


def test_recombined_digits_of_a_number_emit_no_code(write_code: WriteCode):
    def write(b: HoistingEmitter, x: SSAValue) -> list[SSAValue]:
        b.assume(x, 60)
        i, j, k = indices = b.delinearized(x, SIZES)
        assert b.linear(indices, SIZES) is x
        assert b.linear((i, j), SIZES[:2]) == b.divided(x, 5)
        assert b.linear((j, k), SIZES[1:]) == b.remainder(x, 20)
        assert b.reshaped(indices, SIZES, (3, 1, 20)) == (i, 0, b.remainder(x, 20))
        assert b.reshaped(indices, SIZES, (1, 12, 5)) == (0, b.divided(x, 5), k)
        return [b.index(index) for index in indices]

    code = write_code([INDEX], write, HoistingEmitter, invocations=60)
    expected = np.unravel_index(np.arange(60), SIZES)
    assert np.array_equal(code.run(np.arange(60, dtype=np.int32)), expected)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        pytest.param(lambda b, x: b.remainder(b.plus(b.times(x, 8), 3), 8), 3, id="rest"),
        pytest.param(lambda b, x: b.remainder(b.times(x, 12), 4), 0, id="multiple"),
        pytest.param(lambda b, x: b.divided(b.assume(x, 16), 16), 0, id="less than divisor"),
        pytest.param(lambda b, x: b.below(b.assume(x, 16), 16), True, id="below"),
        pytest.param(lambda b, x: b.below(b.times(b.assume(x, 4), 3), 10), True, id="product"),
        pytest.param(lambda b, x: b.below(b.plus(b.assume(x, 4), 3), 7), True, id="sum"),
        pytest.param(lambda b, x: b.remainder(x, 4) is b.remainder(x, 4), True, id="once"),
        pytest.param(lambda b, x: b.divided(b.plus(b.times(x, 8), 7), 8) is x, True, id="quotient"),
        pytest.param(
            lambda b, x: b.times(b.divided(b.times(x, 8), 4), 2) is b.times(b.times(x, 2), 2),
            True,
            id="factor",
        ),
    ],
)
def test_known_results_emit_no_code(
    write: Callable[[HoistingEmitter, SSAValue], Index | bool], expected: int | bool
):
    block = Block(arg_types=[INDEX])
    b = HoistingEmitter(InsertPoint.at_end(block))
    assert write(b, block.args[0]) == expected


def test_arithmetic_simplified_by_facts_is_right(write_code: WriteCode):
    rng = np.random.default_rng(5)
    for _ in range(40):
        kinds = rng.choice([*ARITHMETIC], 6)
        steps = [(str(kind), int(rng.choice([1, 2, 3, 4, 6, 8, 12]))) for kind in kinds]

        def write(b: HoistingEmitter, x: SSAValue) -> list[SSAValue]:
            value: Index = b.assume(x, 48)
            for kind, number in steps:
                value = getattr(b, kind)(value, number)
            return [b.index(value)]

        numbers = np.arange(48, dtype=np.int32)
        (results,) = write_code([INDEX], write, HoistingEmitter, invocations=48).run(numbers)
        for kind, number in steps:
            numbers = ARITHMETIC[kind](numbers, number)
        assert np.array_equal(results, numbers), steps


def test_a_difference_may_be_negative(write_code: WriteCode):
    def write(b: HoistingEmitter, x: SSAValue) -> list[SSAValue]:
        difference = b.index(b.minus(x, 5))
        assert may_be_negative(b.index(b.plus(difference, x)))
        assert may_be_negative(b.number(-1))
        assert not may_be_negative(b.index(b.times(x, 3)))
        return [difference]

    assert write_code([INDEX], write, HoistingEmitter).run(3) == [-2]
