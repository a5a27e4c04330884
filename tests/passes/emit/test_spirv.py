"""Emitted structured control flow, built-ins and conversions compute correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.spirv import SpirvEmitter, built_in_variable, free_symbol

if TYPE_CHECKING:
    from tests.passes.conftest import Compute

NUMBERS = np.arange(-6, 70)


def test_a_loop_carries_its_values(compute: Compute):
    """The loop sums x + i for i from 0 to y - 1, in steps of 2."""

    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        bounds = b.index(0), y, b.index(2)
        (total,) = b.loop(
            bounds,
            [b.index(0)],
            lambda i, carried: [b.index(b.plus(carried[0], b.plus(x, i)))],
            spv.SLessThanOp,
        )
        return total

    total, _ = compute(write, NUMBERS[::-1], NUMBERS)
    steps = [range(0, y, 2) for y in NUMBERS]
    expected = [sum(x + i for i in s) for x, s in zip(NUMBERS[::-1], steps, strict=True)]
    assert total.tolist() == expected


def test_a_choice_has_the_values_of_the_arm_that_ran(compute: Compute):
    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        less = b.add(spv.SLessThanOp(x, y))
        (both,) = b.choose(less, [x.type], (lambda: [x], lambda: [b.index(b.times(y, 2))]))
        (one,) = b.when(b.add(spv.SLessThanOp(both, b.index(0))), lambda: [b.index(7)], [both])
        assert b.when(True, lambda: [one]) == [one]
        assert b.when(False, lambda: [one], [x]) == [x]
        return one

    result, _ = compute(write, NUMBERS, NUMBERS[::-1])
    both = np.where(NUMBERS[::-1] > NUMBERS, NUMBERS, 2 * NUMBERS[::-1])
    assert np.array_equal(result, np.where(both < 0, 7, both))


def test_a_built_in_is_declared_once_and_loaded_once(compute: Compute):
    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        first = b.built_in(spv.BuiltIn.LocalInvocationId, 0)
        assert b.built_in(spv.BuiltIn.LocalInvocationId, 0) is first
        known = built_in_variable(b.module, spv.BuiltIn.GlobalInvocationId)
        assert known.sym_name.data == "id", "the module's own variable"
        assert free_symbol(b.module, "id") == "id_1"
        return first

    lanes, module = compute(write, NUMBERS, NUMBERS)
    assert lanes.tolist() == [n % 64 for n in range(len(NUMBERS))]
    variables = [op for op in module.body.block.ops if isinstance(op, spv.GlobalVariableOp)]
    assert [v.sym_name.data for v in variables].count("__builtin__LocalInvocationId__") == 1


def test_an_integer_of_another_width(compute: Compute):
    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        assert b.as_index(b.number(-1)) == 0xFFFFFFFF
        assert b.as_index(x) is x
        byte = b.resized(x, 8, sign=True)
        signed, unsigned = (b.resized(byte, 32, sign=sign) for sign in (True, False))
        return b.index(b.plus(signed, b.times(unsigned, 1000)))

    result, _ = compute(write, NUMBERS * 5, NUMBERS)
    bytes = (NUMBERS * 5).astype(np.int8)
    expected = bytes.astype(np.int64) + 1000 * bytes.view(np.uint8).astype(np.int64)
    assert np.array_equal(result, expected)
