"""Code is inserted before an operation; arithmetic on built-ins goes to the function's start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.spirv import SpirvEmitter
from xdsl_spirv.passes.spirv.fallback.function_emitter import FunctionEmitter, ModuleEmitter

if TYPE_CHECKING:
    from tests.passes.conftest import Compute

NUMBERS = np.arange(200)


def before(store: spv.StoreOp, module: spv.ModuleOp) -> FunctionEmitter:
    emitters = ModuleEmitter(module)
    emitter = emitters.before(store)
    assert emitters.before(store) is emitter, "a function has one emitter"
    return emitter


@pytest.mark.parametrize(("divisor", "divides"), [(8, False), (6, True), (1, False)])
def test_a_power_of_two_divides_by_a_shift(divisor: int, divides: bool, compute: Compute):
    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        quotient, rest = b.divided(x, divisor), b.remainder(x, divisor)
        return b.index(b.plus(b.times(quotient, 1000), rest))

    result, module = compute(write, NUMBERS, NUMBERS, before)
    assert np.array_equal(result, NUMBERS // divisor * 1000 + NUMBERS % divisor)
    assert any(isinstance(op, spv.UDivOp | spv.UModOp) for op in module.walk()) == divides


def test_arithmetic_on_built_ins_is_written_at_the_start(compute: Compute):
    def write(b: SpirvEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
        lane = b.built_in(spv.BuiltIn.LocalInvocationId, 0)
        of_lane: Index = b.times(lane, 3)
        sums = b.index(b.plus(x, of_lane))
        assert isinstance(of_lane, SSAValue)
        first, *_, last = (value.owner for value in (of_lane, x, sums))
        assert isinstance(first, Operation)
        assert isinstance(last, Operation)
        assert first.is_before_in_block(last)
        assert isinstance(x.owner, Operation)
        assert first.is_before_in_block(x.owner)
        return sums

    result, _ = compute(write, NUMBERS, NUMBERS, before)
    assert np.array_equal(result, NUMBERS + NUMBERS % 64 * 3)
