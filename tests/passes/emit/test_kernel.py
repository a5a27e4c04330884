"""Emitted loops, branches, memory accesses and signed indices compute correctly."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects import gpu, scf
from xdsl.dialects.builtin import IndexType, MemRefType, f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import UNROLLED, KernelEmitter

if TYPE_CHECKING:
    from tests.passes.conftest import WriteCode

INDEX = IndexType()
NUMBERS = np.arange(-3, 5, dtype=np.int32)


@pytest.mark.parametrize(("lower", "upper", "step"), [(0, 10, 3), (2, 9, 2), (4, 4, 1)])
def test_a_loop_carries_values(lower: int, upper: int, step: int, write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        def body(i: Index, carried: tuple[SSAValue, SSAValue]) -> list[SSAValue]:
            total, last = carried
            return [b.index(b.plus(total, b.times(i, x))), b.index(b.plus(last, i))]

        zero = b.number(0)
        return list(b.loop(upper, step, [zero, zero], body, lower=lower, unrolled=True))  # pyright: ignore

    code = write_code([INDEX], write)
    numbers = range(lower, upper, step)
    assert code.run(7) == [7 * sum(numbers), sum(numbers)]
    (loop,) = (op for op in code.operations if isinstance(op, scf.ForOp))
    assert UNROLLED in loop.attributes


def test_a_single_iteration_needs_no_loop(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        def body(i: Index, carried: tuple[SSAValue]) -> list[SSAValue]:
            assert i == 0
            return [b.index(b.plus(carried[0], 5))]

        return list(b.loop(4, 4, [x], body))  # pyright: ignore

    code = write_code([INDEX], write)
    assert code.run(2) == [7]
    assert code.count(scf.ForOp) == 0


def test_only_the_chosen_branch_runs(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue, memory: SSAValue) -> list[SSAValue]:
        small = b.less(x, 2)
        assert isinstance(small, SSAValue)
        one, two = b.number(1, f32), b.number(2, f32)
        b.when(small, partial(b.store, one, memory, [0]), partial(b.store, two, memory, [1]))
        b.when(True, partial(b.store, two, memory, [2]))
        b.when(False, partial(b.store, two, memory, [3]), partial(b.store, one, memory, [3]))
        return [b.load(memory, [3])]

    code = write_code([INDEX, MemRefType(f32, [4])], write)
    memory = np.zeros(4, np.float32)
    assert code.run(-5, memory) == [1]
    assert memory.tolist() == [1, 0, 2, 1]
    code.run(3, memory)
    assert memory.tolist() == [1, 2, 2, 1]
    assert code.count(scf.IfOp) == 1


def test_signed_indices_compute_correctly(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        assert (b.least(3, 5), b.greatest(3, 5), b.minus(3, 5), b.less(-1, 0)) == (3, 5, -2, True)
        return [b.index(y) for y in (b.least(x, 1), b.greatest(x, 1), b.minus(x, 2))]

    least, greatest, minus = write_code([INDEX], write, invocations=8).run(NUMBERS)
    assert np.array_equal(least, np.minimum(NUMBERS, 1))
    assert np.array_equal(greatest, np.maximum(NUMBERS, 1))
    assert np.array_equal(minus, NUMBERS - 2)


def test_invocations_have_ids_and_share_memory(write_code: WriteCode):
    def write(b: KernelEmitter, x: SSAValue) -> list[SSAValue]:
        assert b.subgroup_id(1) == 0
        own = b.thread_id()
        assert b.thread_id() is own
        tile = b.allocate(i32, [8], "tile")
        b.store(x, tile, [own])
        b.barrier()
        other = b.remainder(b.plus(own, 3), 8)
        return [b.load(tile, [other]), b.lane_id(), b.index(b.subgroup_id(2))]

    code = write_code([i32], write, invocations=8)
    loaded, lanes, subgroups = code.run(NUMBERS, subgroup_size=4)
    assert np.array_equal(loaded, np.roll(NUMBERS, -3))
    assert lanes.tolist() == [0, 1, 2, 3] * 2
    assert subgroups.tolist() == [0] * 4 + [1] * 4
    assert code.count(gpu.ThreadIdOp) == 1
