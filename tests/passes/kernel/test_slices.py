"""Subgroups exchange the partial sums of K's slices, and each fragment gets all sums once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects import gpu
from xdsl.dialects.builtin import MemRefType, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Condition
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, matrix_type, store_matrix
from xdsl_spirv.passes.kernel.result_tile import Place
from xdsl_spirv.passes.kernel.slices import SliceSums

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct, WriteCode

STAGED = "a = staged<padding = 8, vector = 8>, b = staged<padding = 8, vector = 4>"
ACCUMULATOR = matrix_type("Acc", 8, 8, f32)


@pytest.mark.parametrize("in_rows", [False, True])
@pytest.mark.parametrize(
    ("tile", "slices"), [("16, 16, 64", 4), ("8, 16, 64", 2), ("8, 8, 64", 4), ("24, 8, 64", 2)]
)
def test_all_slices_are_added_up(
    tile: str, slices: int, in_rows: bool, plan_product: PlanProduct, write_code: WriteCode
):
    plan = plan_product("matrices", tile, f"1, 1, {slices}", STAGED)
    along_m, along_n, _ = plan.schedule.fragments
    count = along_m * along_n

    def write(b: KernelEmitter, partial: SSAValue, whole: SSAValue) -> list[SSAValue]:
        slice = b.subgroup_id(slices)
        place = Place(0, 0, 0, b.thread_id(), slice, b.lane_id(), 0, 0, slice)
        sums = SliceSums(b, plan, place, ACCUMULATOR, in_rows)
        assert sums.sums.tile is None
        own = [load_matrix(b, ACCUMULATOR, partial, (slice, n, 0, 0), 8) for n in range(count)]

        def finish(values: Sequence[SSAValue], numbers: Sequence[int], _: Condition) -> None:
            for number, value in zip(numbers, values, strict=True):
                # The old value is added, so that finishing a fragment twice is detected.
                before = load_matrix(b, ACCUMULATOR, whole, (number, 0, 0), 8)
                store_matrix(b, b.add(spv.FAddOp(before, value)), whole, (number, 0, 0), 8)

        sums.add(own, finish)
        return []

    types = MemRefType(f32, [slices, count, 8, 8]), MemRefType(f32, [count, 8, 8])
    code = write_code(types, write, invocations=8 * slices)
    partial = np.random.default_rng(1).integers(-99, 99, (slices, count, 8, 8)).astype(np.float32)
    whole = np.ones((count, 8, 8), np.float32)
    code.run(partial, whole)
    assert np.array_equal(whole, partial.sum(0) + 1)
    assert plan.sums is not None
    rounds = count // plan.sums.fragments
    assert code.count(gpu.BarrierOp) == 2 * rounds - 1, "one for each exchange, one between two"
