"""With robustBufferAccess2, reads out of bounds return 0 and writes are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import Checks

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

TILE = "!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>"
BUFFER = "!spirv.ptr<!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>, StorageBuffer>"
VECTORS = "!spirv.ptr<i32, StorageBuffer>"


@pytest.mark.parametrize("robust", [False, True])
def test_loads_and_stores(kernel: Kernel, robust: bool) -> None:
    source = kernel.buffer("i32", np.arange(1, 21, dtype=np.int32))
    target = kernel.buffer("i32", np.zeros(10, np.int32))
    seen = kernel.buffer("i32", np.full(32, -1, np.int32))
    value = kernel.load(source)
    kernel.store(seen, value)
    kernel.store(target, value)
    before = kernel.op(f"spirv.ISub %id, {kernel.constant(5)} : i32")
    kernel.store(kernel.buffer("i32", np.zeros(32, np.int32)), kernel.load(source, before), before)
    if not robust:
        with pytest.raises(InterpreterError, match="outside the buffer @b0"):
            kernel.run()
        return
    source_after, target_after, seen_after, shifted = kernel.run(robust=True)
    assert shifted.tolist() == [*range(1, 21), *[0] * 12]
    assert source_after.tolist() == list(range(1, 21))
    assert seen_after.tolist() == [*range(1, 21), *[0] * 12]
    assert target_after.tolist() == list(range(1, 11))


def test_a_vector_is_checked_by_component(kernel: Kernel) -> None:
    source = kernel.buffer("vector<4xf32>", np.arange(1, 7, dtype=np.float32), 4)
    target = kernel.buffer("vector<4xf32>", np.zeros(7, np.float32), 4)
    seen = kernel.buffer("vector<4xf32>", np.full(12, -1, np.float32), 4)
    value = kernel.load(source)
    kernel.store(seen, value)
    kernel.store(target, kernel.op(f"spirv.FAdd {value}, {value} : vector<4xf32>"))
    _, written, read = kernel.run(local=(3, 1, 1), robust=True)
    assert read.tolist() == [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0]
    assert written.tolist() == [2, 4, 6, 8, 10, 12, 0]


def test_accesses_to_an_empty_buffer_are_out_of_bounds(kernel: Kernel) -> None:
    source = kernel.buffer("vector<4xi32>", np.zeros(0, np.int32), 4)
    target = kernel.buffer("vector<4xi32>", np.full(8, 7, np.int32), 4)
    kernel.store(source, kernel.load(target, "%zero"))
    kernel.store(target, kernel.load(source))
    assert kernel.run(local=(1, 1, 1), robust=True)[1].tolist() == [0, 0, 0, 0, 7, 7, 7, 7]


def test_atomics(kernel: Kernel) -> None:
    """Atomics out of bounds return 0 and change nothing, not even in the race check."""
    counters = kernel.buffer("i32", np.arange(16, dtype=np.int32))
    seen = kernel.buffer("i32", np.full(32, -1, np.int32))
    old = kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {kernel.pointer(counters)}, %one : {VECTORS}"
    )
    kernel.store(seen, old)
    counted, found = kernel.run(robust=True)
    assert counted.tolist() == list(range(1, 17))
    assert found.tolist() == [*range(16), *[0] * 16]


@pytest.mark.parametrize(
    "atomic",
    [
        "AtomicIAdd <Device> <Relaxed> {0}, %one",
        "AtomicExchange <Device> <Relaxed> {0}, %one",
        "AtomicCompareExchange <Device> <Relaxed> <Relaxed> {0}, %one, %zero",
        "AtomicSMax <Device> <Relaxed> {0}, %one",
    ],
)
def test_atomics_may_all_be_out_of_bounds(kernel: Kernel, atomic: str) -> None:
    counters = kernel.buffer("i32", np.zeros(16, np.int32))
    seen = kernel.buffer("i32", np.full(32, -1, np.int32))
    behind = kernel.op(f"spirv.IAdd %id, {kernel.constant(16)} : i32")
    pointer = kernel.pointer(counters, behind)
    kernel.store(seen, kernel.op(f"spirv.{atomic.format(pointer)} : {VECTORS}"))
    counted, found = kernel.run(robust=True)
    assert not counted.any()
    assert not found.any()


@pytest.mark.parametrize("checked", [False, True])
def test_cooperative_tiles(kernel: Kernel, checked: bool) -> None:
    elements = np.arange(1, 8 * 6 + 5, dtype=np.float32)
    kernel.buffer("f32", elements)
    kernel.buffer("f32", np.zeros(8 * 6 + 3, np.float32))
    seen = kernel.buffer("f32", np.full(64, -1, np.float32))
    pointers = [kernel.pointer(number, "%zero") for number in range(3)]
    stride = kernel.constant(8)
    scalar = "!spirv.ptr<f32, StorageBuffer>"
    tile = kernel.op(
        f"spirv.KHR.CooperativeMatrixLoad {pointers[0]}, {stride}, <RowMajor> : {scalar}, i32 "
        f"-> {TILE}"
    )
    for pointer in pointers[1:]:
        kernel(
            f"spirv.KHR.CooperativeMatrixStore {pointer}, {tile}, {stride}, <RowMajor> : "
            f"{scalar}, {TILE}, i32"
        )
    checks = Checks.all() if checked else None
    _, written, read = kernel.run(robust=True, checks=checks)
    if checks is not None:
        assert not list(checks.report), str(checks.report)
    assert read.tolist() == [*elements, *[0] * 12]
    assert written.tolist() == elements[:51].tolist()
    assert seen == 2


def test_workgroup_memory_and_push_constants_are_not_covered(kernel: Kernel) -> None:
    type = "!spirv.ptr<!spirv.array<4 x i32>, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    index = kernel.op(f"spirv.IMul %id, {kernel.constant(4096)} : i32")
    part = kernel.op(
        f"spirv.AccessChain {tile}[{index}] : {type}, i32 -> !spirv.ptr<i32, Workgroup>"
    )
    kernel.store(
        kernel.buffer("i32", np.zeros(32, np.int32)),
        kernel.op(f'spirv.Load "Workgroup" {part} : i32'),
    )
    with pytest.raises(InterpreterError, match="outside"):
        kernel.run(robust=True)


def test_other_faults_are_still_found(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(1, np.int32))
    kernel.store(out, "%id")
    kernel.store(out, "%id", "%zero")
    kernel.intended = {"RACE-01", "OVERLAP-01"}
    checks = Checks.of("races,overlap,bounds,undefined")
    kernel.run(robust=True, checks=checks)
    assert {finding.rule for finding in checks.report} == {"RACE-01", "OVERLAP-01"}
