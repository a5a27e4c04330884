"""A staged tile equals the operand's tile in global memory, with zeros beyond the end of K."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, f16
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.result_tile import Part
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.schedule.tiles import StagedTile
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.passes.conftest import PlanProduct, WriteCode

INVOCATIONS = 16
A = np.arange(48 * 64, dtype=np.float16).reshape(48, 64) % 1009
B = np.arange(64 * 32, dtype=np.float16).reshape(64, 32) % 1009


def stage(
    write_code: WriteCode, tile: StagedTile, source: Array, number: int, k: int, **options: bool
) -> Array:
    """Stages a tile of the operand `source` from index `k` of K on. Returns the tile by rows."""

    def write(b: KernelEmitter, memory: SSAValue) -> list[SSAValue]:
        own = b.thread_id(INVOCATIONS)
        part = Part(0, number, own, INVOCATIONS, b.lane_id())
        operand = StagedOperand(b, memory, tile, part, **options)
        operand.store_all(operand.load_all(b.number(k)), b.number(k))
        b.barrier()
        rounds = range(0, tile.shape[0], INVOCATIONS)
        return [
            b.load(operand.memory, (b.plus(b.times(b.plus(own, first), tile.stride), column),))
            for first in rounds
            for column in range(tile.row_vectors)
        ]

    code = write_code([MemRefType(f16, source.shape)], write, invocations=INVOCATIONS)
    vectors = [np.ascontiguousarray(vector).view(np.float16) for vector in code.run(source.copy())]
    rows = [
        np.concatenate(vectors[first : first + tile.row_vectors], 1)
        for first in range(0, len(vectors), tile.row_vectors)
    ]
    return np.concatenate(rows)


@pytest.mark.parametrize("vector", [8, 4, 2])
@pytest.mark.parametrize(("number", "k"), [(0, 0), (2, 32)])
def test_rows_along_k_are_staged(
    vector: int, number: int, k: int, plan_product: PlanProduct, write_code: WriteCode
):
    staged = f"a = staged<padding = 8, vector = {vector}>, b = staged<vector = 4>"
    tile, _ = plan_product("matrices", "16, 16, 32", "2, 1", staged).staged
    found = stage(write_code, tile, A, number, k)
    assert np.array_equal(found, A[16 * number :][:16, k : k + 32])


@pytest.mark.parametrize(("number", "k"), [(0, 0), (1, 32)])
def test_rows_across_k_are_staged(
    number: int, k: int, plan_product: PlanProduct, write_code: WriteCode
):
    staged = "a = staged<vector = 8>, b = staged<padding = 4, vector = 4>"
    _, tile = plan_product("matrices", "16, 16, 32", "2, 1", staged).staged
    assert tile.k_axis == 0
    found = stage(write_code, tile, B, number, k)
    assert np.array_equal(found, B[k : k + 32, 16 * number :][:, :16])


def test_elements_beyond_the_end_of_k_are_zero(plan_product: PlanProduct, write_code: WriteCode):
    staged = "a = staged<vector = 8>, b = staged<vector = 4>"
    a, b = plan_product("matrices", "16, 16, 48", "2, 1", staged).staged
    beyond = np.zeros((16, 32), np.float16)
    assert np.array_equal(stage(write_code, a, A, 1, 48), np.hstack([A[16:32, 48:], beyond]))
    beyond = np.zeros((32, 16), np.float16)
    assert np.array_equal(stage(write_code, b, B, 0, 48), np.vstack([B[48:, :16], beyond]))


def test_rows_beyond_the_operand_are_read_inside_it(
    plan_product: PlanProduct, write_code: WriteCode
):
    staged = "a = staged<vector = 8>, b = staged<vector = 4>"
    tile, _ = plan_product("matrices", "32, 16, 32", "2, 1", staged).staged
    assert tile.guarded == (True, False)
    found = stage(write_code, tile, A, 1, 32)
    assert np.array_equal(found[:16], A[32:, 32:])
    zeroed = stage(write_code, tile, A, 1, 32, zeros_outside=True)
    assert np.array_equal(zeroed[:16], A[32:, 32:])
    assert not zeroed[16:].any()
