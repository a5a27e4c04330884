"""Permuted orders of invocations change the results of races, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError, Options, dispatch
from xdsl_spirv.interpreter.checks import Allowed, Checks
from xdsl_spirv.interpreter.options import Schedule
from xdsl_spirv.testing.differential import generate
from xdsl_spirv.testing.differential import interpret as run_generated
from xdsl_spirv.testing.differential.running import buffers_of, module_of

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

TILE = "!spirv.ptr<!spirv.array<64 x i32>, Workgroup>"
PART = "!spirv.ptr<i32, Workgroup>"
SEMANTICS = "AcquireRelease|WorkgroupMemory|UniformMemory|MakeAvailable|MakeVisible"
BARRIER = f"spirv.ControlBarrier <Workgroup>, <Workgroup>, <{SEMANTICS}>"
SHARED = '["NonPrivatePointer"]'
TWO: dict[str, Any] = {"local": (64, 1, 1)}
BUFFER = "!spirv.ptr<i32, StorageBuffer>"


class Tile:
    """Workgroup memory of 64 integers, and a buffer for the values read from it."""

    def __init__(self, kernel: Kernel, size: int = 256):
        self.kernel = kernel
        kernel.globals.append(f"spirv.GlobalVariable @tile : {TILE}")
        self.tile = kernel.op(f"spirv.mlir.addressof @tile : {TILE}")
        self.out = kernel.buffer("i32", np.zeros(size, np.int32))

    def at(self, index: str) -> str:
        return self.kernel.op(f"spirv.AccessChain {self.tile}[{index}] : {TILE}, i32 -> {PART}")

    def store(self, index: str, value: str) -> None:
        self.kernel(f'spirv.Store "Workgroup" {self.at(index)}, {value} {SHARED} : i32')

    def load(self, index: str) -> str:
        return self.kernel.op(f'spirv.Load "Workgroup" {self.at(index)} {SHARED} : i32')


def mirrored(kernel: Kernel) -> str:
    return kernel.op(f"spirv.ISub {kernel.constant(63)}, %local : i32")


def missing(kernel: Kernel) -> None:
    """Adds code that reads a value that another invocation writes, without a barrier."""
    tile = Tile(kernel)
    tile.store("%local", "%id")
    kernel.store(tile.out, tile.load(mirrored(kernel)))


def present(kernel: Kernel) -> None:
    tile = Tile(kernel)
    tile.store("%local", "%id")
    kernel(BARRIER)
    kernel.store(tile.out, tile.load(mirrored(kernel)))


def loop(kernel: Kernel, last: str) -> None:
    """
    Adds a loop of three iterations: each writes a value, and adds a value that another invocation
    wrote.

    The code `last` ends each iteration.
    """
    tile = Tile(kernel)
    mine, other = tile.at("%local"), tile.at(mirrored(kernel))
    total = kernel.name()
    kernel(f"""
      {total} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %zero : i32, i32)
      ^header(%i: i32, %sum: i32):
        %more = spirv.SLessThan %i, {kernel.constant(3)} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %next = spirv.IAdd %i, %one : i32
        %scaled = spirv.IMul %next, %id : i32
        spirv.Store "Workgroup" {mine}, %scaled {SHARED} : i32
        {BARRIER}
        %value = spirv.Load "Workgroup" {other} {SHARED} : i32
        %more_sum = spirv.IAdd %sum, %value : i32
        {last}
        spirv.Branch ^continue
      ^continue:
        spirv.Branch ^header(%next, %more_sum : i32, i32)
      ^merge:
        spirv.mlir.merge %sum : i32
      }}""")
    kernel.store(tile.out, total)


def neighbours(kernel: Kernel) -> None:
    """Adds code that reads an element that another workgroup writes."""
    data = kernel.buffer("i32", np.zeros(256, np.int32))
    out = kernel.buffer("i32", np.zeros(256, np.int32))
    kernel.store(data, "%id")
    kernel(BARRIER)
    end = kernel.constant(255)
    kernel.store(out, kernel.load(data, kernel.op(f"spirv.ISub {end}, %id : i32")))


def subgroups(kernel: Kernel) -> None:
    """Adds code that reads an element that another subgroup writes. Subgroups stay converged."""
    tile = Tile(kernel)
    total = kernel.op("spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %id : i32 -> i32")
    tile.store("%local", total)
    kernel.store(tile.out, tile.load(mirrored(kernel)))


RACY: dict[str, tuple[Callable[[Any], None], tuple[int, int, int]]] = {
    "a missing barrier": (missing, (2, 1, 1)),
    "a missing barrier at a loop's end": (lambda kernel: loop(kernel, ""), (2, 1, 1)),
    "workgroups": (neighbours, (4, 1, 1)),
    "subgroups": (subgroups, (2, 1, 1)),
}


@pytest.mark.bug("a missing order that shows in the results", rule="SCHED-01", op="spirv.Store")
@pytest.mark.parametrize("name", RACY)
def test_a_race_changes_results(name: str, new_kernel: type[Kernel]) -> None:
    make, grid = RACY[name]
    kernel = new_kernel()
    make(kernel)
    checks = Checks.of("permute")
    kernel.run(grid, checks=checks, **TWO)
    assert [finding.rule for finding in checks.report] == ["SCHED-01"], str(checks.report)
    (finding,) = checks.report
    assert finding.op == "spirv.Store"
    assert "in lockstep" in finding.values[0]
    assert "in schedule" in finding.values[0]


@pytest.mark.parametrize("name", RACY)
def test_a_race_is_reported_with_its_consequence(name: str, new_kernel: type[Kernel]) -> None:
    make, grid = RACY[name]
    for allow in ((), (Allowed(check="races"),)):
        kernel = new_kernel()
        make(kernel)
        checks = Checks.of("races,permute", allow=allow)
        kernel.run(grid, checks=checks, **TWO)
        expected = list(checks.report.allowed if allow else checks.report.findings)
        assert {finding.check for finding in expected} == {"races"}
        assert len(checks.report.findings) == (0 if allow else len(expected))
        notes = "\n".join(expected[0].notes)
        assert "depend on the order in which invocations run" in notes
        assert "in lockstep" in notes
        assert "stored by" in notes


def correct(kernel: Kernel) -> None:
    """Adds code without races: barriers, a group operation and a branch."""
    loop(kernel, BARRIER)
    total = kernel.op("spirv.GroupNonUniformIAdd <Subgroup> <Reduce> %id : i32 -> i32")
    chosen = kernel.op(f"spirv.SLessThan %lane, {kernel.constant(7)} : i32")
    out = kernel.buffer("i32", np.zeros(256, np.int32))
    pointer = kernel.pointer(out)
    kernel(f"""
      spirv.mlir.selection {{
        spirv.BranchConditional {chosen}, ^then, ^merge
      ^then:
        spirv.Store "StorageBuffer" {pointer}, {total} : i32
        spirv.Branch ^merge
      ^merge:
        spirv.mlir.merge
      }}""")


def counted(kernel: Kernel) -> None:
    """Adds an atomic addition of all indices. No invocation reads the sum."""
    counter = kernel.buffer("i32", np.zeros(4, np.int32))
    kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {kernel.pointer(counter, '%zero')}, %id : {BUFFER}"
    )


def ticket(kernel: Kernel) -> None:
    """
    Adds code that stores the order in which invocations reach an atomic. A device may choose any
    order.
    """
    counter = kernel.buffer("i32", np.zeros(1, np.int32))
    out = kernel.buffer("i32", np.zeros(256, np.int32))
    number = kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {kernel.pointer(counter, '%zero')}, %one : {BUFFER}"
    )
    kernel.store(out, "%id", number)


@pytest.mark.parametrize("make", [present, correct, counted, ticket])
@pytest.mark.parametrize("names", ["permute", "races,permute"])
def test_correct_kernels_have_no_findings(
    make: Callable[[Any], None], names: str, new_kernel: type[Kernel]
) -> None:
    kernel = new_kernel()
    make(kernel)
    checks = Checks.of(names)
    kernel.run((4, 1, 1), checks=checks, **TWO)
    assert not list(checks.report), str(checks.report)


@pytest.mark.parametrize("start", [0, pytest.param(12, marks=pytest.mark.long)])
def test_generated_kernels_do_not_depend_on_the_order(start: int) -> None:
    for seed in range(start, start + 12):
        kernel = generate(seed)
        module = module_of(kernel)
        expected = run_generated(kernel, module)
        found = buffers_of(kernel)
        dispatch(
            module,
            "main",
            kernel.machine.groups,
            {(0, number): array for number, array in found.items()},
            kernel.spec_constants,
            kernel.push_constants,
            options=Options(subgroup_size=kernel.machine.subgroup, schedule=Schedule(seed)),
        )
        for number, array in expected.items():
            assert array.tobytes() == found[number].tobytes(), f"{kernel.family} {seed}"


def test_a_seed_is_one_order(new_kernel: type[Kernel]) -> None:
    """Equal seeds give equal results of a racy kernel, and some seeds give other results."""
    seeds = [run_seed(new_kernel, seed) for seed in (0, 1, 2, 3, 0, 1, 2, 3)]
    assert seeds[:4] == seeds[4:]
    assert len(set(seeds)) > 1


def run_seed(new_kernel: type[Kernel], seed: int) -> bytes:
    kernel = new_kernel()
    kernel.intended = None
    neighbours(kernel)
    return kernel.run((4, 1, 1), schedule=Schedule(seed), **TWO)[1].tobytes()


def test_waiting_invocations_let_others_run(new_kernel: type[Kernel]) -> None:
    kernel = new_kernel()
    kernel.intended = None
    flag = kernel.buffer("i32", np.zeros(1, np.int32))
    pointer = kernel.pointer(flag, "%zero")
    first = kernel.op("spirv.IEqual %local, %zero : i32")
    kernel(f"""
      spirv.mlir.selection {{
        spirv.BranchConditional {first}, ^wait, ^set
      ^wait:
        spirv.mlir.loop {{
          spirv.Branch ^header
        ^header:
          %seen = spirv.AtomicLoad <Device> <Acquire|UniformMemory> {pointer} : {BUFFER}
          %more = spirv.IEqual %seen, %zero : i32
          spirv.BranchConditional %more, ^continue, ^merge
        ^continue:
          spirv.Branch ^header
        ^merge:
          spirv.mlir.merge
        }}
        spirv.Branch ^merge
      ^set:
        spirv.AtomicStore <Device> <Release|UniformMemory> {pointer}, %one : {BUFFER}
        spirv.Branch ^merge
      ^merge:
        spirv.mlir.merge
      }}""")
    for seed in range(4):
        kernel.buffers[flag][2][:] = 0
        (result,) = kernel.run(schedule=Schedule(seed), **TWO)
        assert result[0] == 1


def test_options_that_exclude_a_schedule() -> None:
    with pytest.raises(InterpreterError, match="excludes the options checks"):
        Options(schedule=Schedule(0), checks=Checks.all())
    with pytest.raises(InterpreterError, match="seed"):
        Schedule(-1)


def test_an_error_in_a_part_is_the_launchs_error(new_kernel: type[Kernel]) -> None:
    import threading

    before = threading.active_count()
    kernel = new_kernel()
    kernel.intended = None
    out = kernel.buffer("i32", np.zeros(10, np.int32))
    kernel(BARRIER)
    kernel.store(out, "%id")
    with pytest.raises(InterpreterError, match="outside the buffer @b0"):
        kernel.run(schedule=Schedule(0), **TWO)
    assert threading.active_count() == before


def test_a_consequence_is_reported_only_with_its_race(new_kernel: type[Kernel]) -> None:
    """The consequence of one race is not reported with another race."""
    kernel = new_kernel()
    kernel.intended = None
    missing(kernel)
    other = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel.store(other, "%one", "%zero")
    checks = Checks.all(allow=())
    kernel.run((2, 1, 1), checks=checks, **TWO)
    notes = {f.message.partition(" of ")[2]: "\n".join(f.notes) for f in checks.report}
    tile = next(text for name, text in notes.items() if "@tile" in name)
    buffer = next(text for name, text in notes.items() if "@b1" in name)
    assert "depend on the order" in tile
    assert "depend on the order" not in buffer


@pytest.mark.parametrize("name", ["races", "permute"])
def test_a_program_that_fails_unchecked_is_not_run_again(
    new_kernel: type[Kernel], name: str
) -> None:
    kernel = new_kernel()
    kernel.intended = None
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.store(out, "%id", "%id")
    kernel.store(out, "%one", "%zero")
    checks = Checks.of(f"{name},bounds,permute")
    kernel.run((2, 1, 1), checks=checks, **TWO)
    rules = {finding.rule for finding in checks.report}
    assert "BOUNDS-01" in rules
    assert "SCHED-01" not in rules
