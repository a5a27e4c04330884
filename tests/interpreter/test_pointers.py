"""Pointers into several memories, physical addresses, untyped pointers and byte copies work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import Checks

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

FLOATS = "!spirv.ptr<f32, StorageBuffer>"
PHYSICAL = "!spirv.ptr<f32, PhysicalStorageBuffer>"
RAW = "!spirv.untyped_ptr<StorageBuffer>"
HALVES = "!spirv.array<2 x i16, stride=2>"
OWN = "!spirv.untyped_ptr<Function>"


def three(kernel: Kernel, rng: np.random.Generator, n: int = 64) -> tuple[Any, Any, int]:
    """
    Adds two buffers of numbers and a buffer for results. Returns the numbers, and the index of the
    third buffer.
    """
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    kernel.buffer("f32", x)
    kernel.buffer("f32", y)
    return x, y, kernel.buffer("f32", np.zeros(n, np.float32))


def test_a_pointer_chosen_by_lane(kernel: Kernel, rng: np.random.Generator) -> None:
    """OpSelect chooses pointers into two buffers, for reads, writes and comparison."""
    x, y, out = three(kernel, rng)
    before = y.copy()
    same = kernel.buffer("i32", np.zeros(64, np.int32))
    odd = kernel.op(f"spirv.BitwiseAnd %id, {kernel.constant(1)} : i32")
    is_odd = kernel.op(f"spirv.IEqual {odd}, %one : i32")
    a, b = kernel.pointer(0), kernel.pointer(1)
    chosen = kernel.op(f"spirv.Select {is_odd}, {b}, {a} : i1, {FLOATS}")
    kernel.store(out, kernel.op(f'spirv.Load "StorageBuffer" {chosen} : f32'))
    equal = kernel.op(f"spirv.PtrEqual {chosen}, {b} : {FLOATS}, {FLOATS}")
    one = kernel.constant(1)
    kernel.store(same, kernel.op(f"spirv.Select {equal}, {one}, %zero : i1, i32"))
    kernel(f'spirv.Store "StorageBuffer" {chosen}, {kernel.constant("7.0", "f32")} : f32')
    kernel.run((1, 1, 1), (64, 1, 1))
    odds = np.arange(64) % 2 == 1
    assert (kernel.buffers[out][2] == np.where(odds, before, kernel.buffers[out][2])).all()
    assert (kernel.buffers[same][2] == odds).all()
    assert (y == np.where(odds, 7, before)).all()
    assert (x == np.where(odds, x, 7)).all()


def test_an_atomic_through_a_pointer_that_a_branch_chose(kernel: Kernel) -> None:
    counts = [kernel.buffer("i32", np.zeros(4, np.int32)) for _ in range(2)]
    pointer = "!spirv.ptr<i32, StorageBuffer>"
    a, b = (kernel.pointer(buffer, "%zero") for buffer in counts)
    low = kernel.op(f"spirv.ULessThan %id, {kernel.constant(10)} : i32")
    chosen = kernel.name()
    kernel(f"""
      {chosen} = spirv.mlir.selection -> {pointer} {{
        spirv.BranchConditional {low}, ^merge({a} : {pointer}), ^else
      ^else:
        spirv.Branch ^merge({b} : {pointer})
      ^merge(%p: {pointer}):
        spirv.mlir.merge %p : {pointer}
      }}""")
    kernel.op(f"spirv.AtomicIAdd <Device> <None> {chosen}, %one : {pointer}")
    kernel.run((1, 1, 1), (64, 1, 1))
    assert [kernel.buffers[c][2][0] for c in counts] == [10, 54]


@pytest.mark.parametrize("checked", [False, True])
def test_physical_addresses_in_a_buffer(
    kernel: Kernel, rng: np.random.Generator, checked: bool
) -> None:
    x = rng.standard_normal(64).astype(np.float32)
    y = rng.standard_normal(64).astype(np.float32)
    addresses = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    table = kernel.buffer("i64", addresses)
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    kernel.buffers += [("", "f32", x), ("", "f32", y)]  # buffers 2 and 3, without variables
    kernel.intended = None  # A second run would use copies at other addresses.
    odd = kernel.op(f"spirv.BitwiseAnd %id, {kernel.constant(1)} : i32")
    start = kernel.load(table, odd)
    wide = kernel.op("spirv.UConvert %id : i32 to i64")
    four = kernel.constant(4, "i64")
    offset = kernel.op(f"spirv.IMul {wide}, {four} : i64")
    address = kernel.op(f"spirv.IAdd {start}, {offset} : i64")
    pointer = kernel.op(f"spirv.ConvertUToPtr {address} : i64 to {PHYSICAL}")
    found = kernel.op(f'spirv.Load "PhysicalStorageBuffer" {pointer} ["Aligned", 4] : f32')
    back = kernel.op(f"spirv.ConvertPtrToU {pointer} : {PHYSICAL} to i64")
    again = kernel.op(f"spirv.ISub {back}, {start} : i64")
    narrow = kernel.op(f"spirv.ConvertSToF {again} : i64 to f32")
    kernel.store(out, kernel.op(f"spirv.FAdd {found}, {narrow} : f32"))
    checks = Checks.all() if checked else None
    kernel.run((1, 1, 1), (64, 1, 1), checks=checks)
    i = np.arange(64)
    assert (kernel.buffers[out][2] == np.where(i % 2, y, x) + (4 * i).astype(np.float32)).all()
    assert checks is None or not checks.report.findings


def test_addresses_of_inactive_invocations_need_no_alignment(kernel: Kernel) -> None:
    """Odd addresses are masked and not read."""
    x = np.arange(8, dtype=np.int32)
    table = kernel.buffer("i64", x.ctypes.data + np.arange(32, dtype=np.int64) % 2 * 5)
    out = kernel.buffer("i32", np.full(32, -1, np.int32))
    kernel.buffers += [("", "i32", x)]
    kernel.intended = None
    odd = kernel.op(f"spirv.BitwiseAnd %id, {kernel.constant(1)} : i32")
    even = kernel.op(f"spirv.IEqual {odd}, %zero : i32")
    integer = PHYSICAL.replace("f32", "i32")
    pointer = kernel.op(f"spirv.ConvertUToPtr {kernel.load(table)} : i64 to {integer}")
    kernel(f"spirv.mlir.selection {{ spirv.BranchConditional {even}, ^read, ^merge\n ^read:")
    found = kernel.op(f'spirv.Load "PhysicalStorageBuffer" {pointer} ["Aligned", 4] : i32')
    kernel.store(out, found)
    kernel("spirv.Branch ^merge\n ^merge: spirv.mlir.merge }")
    kernel.run()
    assert kernel.buffers[out][2].tolist() == [0, -1] * 16


def test_an_address_outside_of_all_buffers_is_refused(kernel: Kernel) -> None:
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    kernel.intended = None
    number = kernel.constant(4096, "i64")
    pointer = kernel.op(f"spirv.ConvertUToPtr {number} : i64 to {PHYSICAL}")
    kernel.store(
        out, kernel.op(f'spirv.Load "PhysicalStorageBuffer" {pointer} ["Aligned", 4] : f32')
    )
    with pytest.raises(InterpreterError, match="outside no buffer"):
        kernel.run()


def test_pointers_are_subtracted_in_elements(kernel: Kernel, rng: np.random.Generator) -> None:
    three(kernel, rng)
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    a, b = kernel.pointer(0), kernel.pointer(0, "%one")
    kernel.store(out, kernel.op(f"spirv.PtrDiff {a}, {b} : {FLOATS}, {FLOATS} -> i32"))
    assert (kernel.run((1, 1, 1), (64, 1, 1))[out] == np.arange(64) - 1).all()


def test_bytes_are_copied_and_sizes_counted(kernel: Kernel, rng: np.random.Generator) -> None:
    x, _, out = three(kernel, rng)
    size = kernel.op(f"spirv.SizeOf {kernel.pointer(0)} : {FLOATS} -> i32")
    kernel(
        f"spirv.CopyMemorySized {kernel.pointer(out)}, {kernel.pointer(0)}, {size} : "
        f"{FLOATS}, {FLOATS}, i32"
    )
    assert (kernel.run((1, 1, 1), (64, 1, 1))[out] == x).all()


def test_a_raw_chain_counts_bytes(kernel: Kernel, rng: np.random.Generator) -> None:
    x, _, out = three(kernel, rng, 128)
    stride, skip = kernel.constant(8), kernel.constant(4)
    first = kernel.pointer(0, "%zero")
    pointer = kernel.op(
        f"spirv.NV.RawAccessChain {first}[{stride}, %id, {skip}] : "
        f"{FLOATS}, i32, i32, i32 -> {FLOATS}"
    )
    kernel.store(out, kernel.op(f'spirv.Load "StorageBuffer" {pointer} : f32'))
    assert (kernel.run((2, 1, 1))[out][:64] == x[1::2]).all()


def test_untyped_variables_steps_and_atomics(kernel: Kernel) -> None:
    words = np.zeros(8, np.int32)
    struct = "!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>"
    kernel.globals.append(f"spirv.KHR.UntypedGlobalVariable @raw {struct} bind(0, 0) : {RAW}")
    kernel.buffers.append(("", "i32", words))
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    raw = kernel.op(f"spirv.mlir.addressof @raw : {RAW}")
    low = kernel.op(f"spirv.BitwiseAnd %id, {kernel.constant(3)} : i32")
    place = kernel.op(f"spirv.KHR.UntypedPtrAccessChain i32, {raw}[{low}] : {RAW}, i32 -> {RAW}")
    kernel.op(f"spirv.AtomicIAdd <Device> <None> {place}, %id : {RAW}, i32")
    own = kernel.op(f"spirv.KHR.UntypedVariable {HALVES} : {OWN}")
    kernel(f"spirv.Store {own}, %id : {OWN}, i32")
    two = kernel.constant(1)
    high = kernel.op(f"spirv.KHR.UntypedAccessChain {HALVES}, {own}[{two}] : {OWN}, i32 -> {OWN}")
    kernel(f"spirv.Store {high}, {kernel.constant(3, 'i16')} : {OWN}, i16")
    kernel.store(out, kernel.op(f"spirv.Load {own} : {OWN} -> i32"))
    kernel.run((1, 1, 1), (64, 1, 1))
    i = np.arange(64)
    assert (kernel.buffers[out][2] == i + (3 << 16)).all()
    assert words[:4].tolist() == [i[i % 4 == k].sum() for k in range(4)]
