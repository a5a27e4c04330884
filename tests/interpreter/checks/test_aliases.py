"""Races through several bindings of one memory are found, and alias promises are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.memories import copy_buffers

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

SHARED = '["NonPrivatePointer"]'
VISIBLE = '["MakePointerVisible|NonPrivatePointer", scope(<Workgroup>)]'
AVAILABLE = '["MakePointerAvailable|NonPrivatePointer", scope(<Workgroup>)]'
BARRIER = "spirv.ControlBarrier <Workgroup>, <Workgroup>, <AcquireRelease|UniformMemory>"
STORE, LOAD = "spirv.Store", "spirv.Load"


class Twice:
    """A kernel with one array at two bindings, or an array and a part of the array."""

    def __init__(self, kernel: Kernel, part: slice | None = None):
        self.kernel = kernel
        self.array = np.arange(64, dtype=np.int32)
        self.first = kernel.buffer("i32", self.array)
        self.second = kernel.buffer("i32", self.array if part is None else self.array[part])

    def load(self, buffer: int, index: str, operand: str = SHARED) -> str:
        pointer = self.kernel.pointer(buffer, index)
        return self.kernel.op(f'spirv.Load "StorageBuffer" {pointer} {operand} : i32')

    def store(self, buffer: int, index: str, value: str = "%id", operand: str = SHARED) -> None:
        pointer = self.kernel.pointer(buffer, index)
        self.kernel(f'spirv.Store "StorageBuffer" {pointer}, {value} {operand} : i32')

    def next(self) -> str:
        """Returns the index of the next invocation."""
        return self.kernel.op("spirv.IAdd %id, %one : i32")


def decorated(kernel: Kernel, which: int, word: str) -> None:
    """Adds the decoration `word` to buffer number `which`."""
    plain = kernel.text
    old = f"bind(0, {which}) :"
    kernel.text = lambda local: plain(local).replace(old, f"bind(0, {which}) {{{word}}} :")


@pytest.mark.bug("one array at two bindings", rule="RACE-01", op=STORE, count=31)
def test_a_race_through_two_bindings(kernel: Kernel, find: Find) -> None:
    twice = Twice(kernel)
    value = twice.load(twice.first, twice.next())
    twice.store(twice.second, "%id", value)
    assert "earlier read" in find(kernel).message


@pytest.mark.bug("an array and a part of it at two bindings", rule="RACE-01", op=STORE)
def test_a_race_through_overlapping_bindings(kernel: Kernel, find: Find) -> None:
    twice = Twice(kernel, slice(8, None))
    value = twice.load(twice.first, "%id")
    twice.store(twice.second, "%id", value)
    assert find(kernel).count == 24


@pytest.mark.bug(
    "a location written through one variable and read through another", rule="ALIAS-01", op=LOAD
)
def test_a_second_reference(kernel: Kernel, find: Find) -> None:
    """No barrier makes writes through one reference visible to another reference."""
    twice = Twice(kernel)
    twice.store(twice.first, "%id", operand=AVAILABLE)
    kernel(BARRIER)
    twice.load(twice.second, "%id", VISIBLE)
    assert "neither is declared to alias" in find(kernel).message


@pytest.mark.bug(
    "memory that a Restrict variable reads is written through another variable",
    rule="ALIAS-01",
    op=STORE,
)
def test_restrict(kernel: Kernel, find: Find) -> None:
    twice = Twice(kernel)
    decorated(kernel, twice.first, "restrict")
    value = twice.load(twice.first, "%id")
    twice.store(twice.second, "%id", value)
    assert "@b0 is declared restrict" in find(kernel).message


def test_a_copy_in_place_through_another_variable_is_no_race(kernel: Kernel, clean: Clean) -> None:
    """Each invocation reads an element before writing it through another variable."""
    twice = Twice(kernel)
    value = twice.load(twice.first, "%id")
    twice.store(twice.second, "%id", value)
    clean(kernel)


def test_variables_that_are_declared_to_alias(kernel: Kernel, clean: Clean) -> None:
    twice = Twice(kernel)
    decorated(kernel, twice.first, "aliased")
    decorated(kernel, twice.second, "aliased")
    twice.store(twice.first, "%id", operand=AVAILABLE)
    kernel(BARRIER)
    twice.load(twice.second, "%id", VISIBLE)
    clean(kernel)


def test_parts_that_do_not_overlap(kernel: Kernel, clean: Clean) -> None:
    twice = Twice(kernel, slice(32, None))
    value = twice.load(twice.first, "%id")
    twice.store(twice.second, "%id", value)
    clean(kernel)


def test_copies_share_memory_as_the_arrays_do() -> None:
    array = np.arange(8, dtype=np.int32)
    other = np.arange(4, dtype=np.float16)
    buffers = {(0, 0): array, (0, 1): array[2:6], (0, 2): other, (0, 3): array[:0]}
    copies = copy_buffers(buffers)
    copies[0, 1][:] = 7
    assert copies[0, 0].tolist() == [0, 1, 7, 7, 7, 7, 6, 7]
    assert array.tolist() == list(range(8))
    assert copies[0, 2].tolist() == other.tolist()
    assert copies[0, 3].size == 0
    assert not np.shares_memory(copies[0, 2], other)


def test_a_report_says_if_all_racing_writes_store_one_value(kernel: Kernel) -> None:
    buffer = kernel.buffer("i32", np.zeros(4, np.int32))
    kernel(f'spirv.Store "StorageBuffer" {kernel.pointer(buffer, "%zero")}, %one {SHARED} : i32')
    kernel(f'spirv.Store "StorageBuffer" {kernel.pointer(buffer, "%zero")}, %one {SHARED} : i32')
    kernel(f'spirv.Store "StorageBuffer" {kernel.pointer(buffer, "%one")}, %id {SHARED} : i32')
    checks = Checks(races=True)
    kernel.run(checks=checks)
    first, second, third = (finding.message for finding in checks.report)
    assert first.endswith("in the same instruction, all the same value")
    assert second.endswith("; both write the same value")
    assert third.endswith("in the same instruction")


def test_a_report_says_if_all_racing_vectors_are_equal(kernel: Kernel) -> None:
    vector = "vector<4xi32>"
    buffer = kernel.buffer(vector, np.zeros(12, np.int32), components=4)
    component = kernel.op(
        f"spirv.AccessChain {kernel.pointer(buffer, '%one')}[%one] : "
        f"!spirv.ptr<{vector}, StorageBuffer>, i32 -> !spirv.ptr<i32, StorageBuffer>"
    )
    kernel(f'spirv.Store "StorageBuffer" {component}, %one {SHARED} : i32')
    for value in ("%one", "%id"):
        new = kernel.op(
            f"spirv.CompositeConstruct {', '.join([value] * 4)} : (i32, i32, i32, i32) -> {vector}"
        )
        place = kernel.pointer(buffer, "%zero" if value == "%one" else kernel.constant(2))
        kernel(f'spirv.Store "StorageBuffer" {place}, {new} {SHARED} : {vector}')
    checks = Checks(races=True)
    kernel.run(checks=checks)
    messages = [f.message for f in checks.report if f.message.startswith("several")]
    assert [message.endswith("all the same value") for message in messages] == [True, True, False]


def test_workgroup_blocks_share_one_memory(kernel: Kernel) -> None:
    block = "!spirv.ptr<!spirv.struct<(!spirv.array<32 x i32, stride=4> [0]), Block>, Workgroup>"
    part = "!spirv.ptr<i32, Workgroup>"
    kernel.globals += [
        f"spirv.GlobalVariable @read {{aliased}} : {block}",
        f"spirv.GlobalVariable @written {{aliased}} : {block}",
    ]
    out = kernel.buffer("i32", np.full(32, -1, np.int32))
    last = kernel.op(f"spirv.ISub {kernel.constant(31)}, %id : i32")
    pointers = []
    for name, index in (("read", last), ("written", "%id")):
        base = kernel.op(f"spirv.mlir.addressof @{name} : {block}")
        chain = f"spirv.AccessChain {base}[%zero, {index}] : {block}, i32, i32 -> {part}"
        pointers.append(kernel.op(chain))
    kernel.store(out, kernel.op(f'spirv.Load "Workgroup" {pointers[0]} {SHARED} : i32'))
    kernel(f'spirv.Store "Workgroup" {pointers[1]}, %id {SHARED} : i32')
    checks = Checks.of("races")
    kernel.run(checks=checks)
    assert [(finding.rule, finding.op) for finding in checks.report] == [("RACE-01", STORE)]
