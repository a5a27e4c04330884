"""The race check finds unordered accesses and accepts ordered ones."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import MemoryBudget
from xdsl_spirv.interpreter.checks import Allowed, Checks, Finding
from xdsl_spirv.interpreter.checks.accessors import SAME_DEVICE, Accessors
from xdsl_spirv.interpreter.checks.horizons import Horizons
from xdsl_spirv.interpreter.checks.knowledge import Atomic, Knowledge
from xdsl_spirv.interpreter.checks.knowledge_tables import row
from xdsl_spirv.interpreter.checks.memory_model import Semantics

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

TILE = "!spirv.ptr<!spirv.array<64 x i32>, Workgroup>"
PART = "!spirv.ptr<i32, Workgroup>"
SEMANTICS = "AcquireRelease|WorkgroupMemory|UniformMemory|MakeAvailable|MakeVisible"
SHARED = '["NonPrivatePointer"]'
LOAD, STORE = "spirv.Load", "spirv.Store"
TWO: dict[str, Any] = {"local": (64, 1, 1)}


def barrier(semantics: str = SEMANTICS, scope: str = "Workgroup") -> str:
    return f"spirv.ControlBarrier <{scope}>, <Workgroup>, <{semantics}>"


class Tile:
    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        kernel.globals.append(f"spirv.GlobalVariable @tile : {TILE}")
        self.tile = kernel.op(f"spirv.mlir.addressof @tile : {TILE}")
        self.out = kernel.buffer("i32", np.zeros(256, np.int32))

    def part(self, index: str) -> str:
        return self.kernel.op(f"spirv.AccessChain {self.tile}[{index}] : {TILE}, i32 -> {PART}")

    def store(self, index: str, value: str = "%id", operand: str = SHARED) -> None:
        self.kernel(f'spirv.Store "Workgroup" {self.part(index)}, {value} {operand} : i32')

    def load(self, index: str, operand: str = SHARED) -> None:
        text = f'spirv.Load "Workgroup" {self.part(index)} {operand} : i32'
        self.kernel.store(self.out, self.kernel.op(text))

    def mirrored(self) -> str:
        return self.kernel.op(f"spirv.ISub {self.kernel.constant(63)}, %local : i32")

    def neighbour(self) -> str:
        """Returns the index of another invocation of the same subgroup."""
        return self.kernel.op("spirv.BitwiseXor %local, %one : i32")


@pytest.mark.bug(
    "a missing barrier between a write and a read", rule="RACE-01", op=LOAD, first=0, count=128
)
def test_read_after_write(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    tile.load(tile.mirrored())
    finding = find(kernel, (2, 1, 1), **TWO)
    assert "a read and an earlier write of @tile are not ordered" in finding.message
    assert "spirv.Store" in finding.notes[0]
    assert "invocation 63" in finding.notes[0]


@pytest.mark.bug(
    "a kernel that relies on a subgroup running in lockstep", rule="RACE-01", op=LOAD, count=32
)
def test_lockstep(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    tile.load(tile.neighbour())
    find(kernel)


@pytest.mark.bug(
    "a missing barrier between a read and a write", rule="RACE-01", op=STORE, first=0, count=64
)
def test_write_after_read(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier())
    tile.load(tile.mirrored())
    tile.store("%local")
    assert "a write and an earlier read" in find(kernel, **TWO).message


@pytest.mark.bug("a missing barrier at the end of a loop", rule="RACE-01", op=STORE, count=64)
def test_loop(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    mine, other = tile.part("%local"), tile.part(tile.mirrored())
    kernel(f"""
      spirv.mlir.loop {{
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %more = spirv.SLessThan %i, {kernel.constant(3)} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        spirv.Store "Workgroup" {mine}, %i {SHARED} : i32
        {barrier()}
        %value = spirv.Load "Workgroup" {other} {SHARED} : i32
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }}""")
    find(kernel, **TWO)


@pytest.mark.bug(
    "all invocations write one location with the same value", rule="RACE-01", op=STORE, count=63
)
def test_one_place(kernel: Kernel, find: Find) -> None:
    Tile(kernel).store("%zero", "%one")
    find(kernel, **TWO)


@pytest.mark.bug("workgroups share a buffer's element", rule="RACE-01", op=STORE)
@pytest.mark.parametrize(("budget", "count"), [(1, 32), (1 << 26, 64)])
def test_between_workgroups(kernel: Kernel, find: Find, budget: int, count: int) -> None:
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.store(out, "%one", "%lane")
    finding = find(kernel, (3, 1, 1), memory=MemoryBudget(budget))
    assert finding.count == count
    assert "of workgroup" in finding.notes[0]


@pytest.mark.bug(
    "a workgroup reads what another writes", rule="RACE-01", op=LOAD, first=0, count=32
)
def test_neighbouring_workgroups(kernel: Kernel, find: Find) -> None:
    data = kernel.buffer("i32", np.zeros(96, np.int32))
    kernel.store(data, "%id")
    kernel(barrier())
    least = kernel.op(f"spirv.GL.UMin %id, {kernel.constant(63)} : i32")
    kernel.load(data, least)
    find(kernel, (3, 1, 1), checks=Checks.all(allow=(Allowed(rule="RACE-02"),)))


@pytest.mark.bug("an atomic and a plain load", rule="RACE-01", op=LOAD, first=0)
def test_atomic_and_plain(kernel: Kernel, find: Find) -> None:
    counter = kernel.buffer("i32", np.zeros(32, np.int32))
    pointer = kernel.pointer(counter, "%zero")
    kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {pointer}, %one : !spirv.ptr<i32, StorageBuffer>"
    )
    kernel.load(counter, "%zero")
    find(kernel)


def test_atomics_do_not_race(kernel: Kernel, clean: Clean) -> None:
    counter = kernel.buffer("i32", np.zeros(32, np.int32))
    pointer = kernel.pointer(counter, "%zero")
    type = "!spirv.ptr<i32, StorageBuffer>"
    kernel.op(f"spirv.AtomicIAdd <Device> <Relaxed> {pointer}, %one : {type}")
    kernel.op(f"spirv.AtomicIIncrement <Device> <Relaxed> {pointer} : {type}")
    clean(kernel, (4, 1, 1))


@pytest.mark.bug("a barrier without MakeVisible", rule="RACE-03", op=LOAD, count=64)
def test_availability(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier("AcquireRelease|WorkgroupMemory"))
    tile.load(tile.mirrored())
    assert "ControlBarrier" in find(kernel, **TWO).notes[1]


@pytest.mark.bug("a barrier that orders another storage class", rule="RACE-03", op=LOAD, count=64)
def test_storage_class(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier("AcquireRelease|UniformMemory|MakeAvailable|MakeVisible"))
    tile.load(tile.mirrored())
    find(kernel, **TWO)


@pytest.mark.bug(
    "a barrier of subgroup scope between accesses of two subgroups",
    rule="RACE-03",
    op=LOAD,
    count=64,
)
def test_scope(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier(scope="Subgroup"))
    tile.load(tile.mirrored())
    find(kernel, **TWO)


def test_a_subgroups_barrier_orders_its_invocations(kernel: Kernel, clean: Clean) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier(scope="Subgroup"))
    tile.load(tile.neighbour())
    kernel(barrier(scope="Subgroup"))
    tile.store("%local")
    clean(kernel, (2, 1, 1), **TWO)


def test_reads_before_a_subgroups_barrier_are_no_longer_open(kernel: Kernel, clean: Clean) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier(scope="Subgroup"))
    tile.load(tile.neighbour())
    kernel(barrier(scope="Subgroup"))
    tile.load("%local")
    tile.store("%local")
    clean(kernel, (2, 1, 1), **TWO)


@pytest.mark.bug(
    "another subgroup writes memory that a subgroup's barrier ordered", rule="RACE-01", op=STORE
)
def test_reads_of_another_subgroup_stay_open(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier())
    tile.load(tile.neighbour())
    kernel(barrier(scope="Subgroup"))
    tile.load("%local")
    tile.store(tile.mirrored())
    find(kernel, **TWO)


@pytest.mark.bug("a private access to shared memory", rule="RACE-02", op=LOAD, count=64)
def test_private(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier())
    tile.load(tile.mirrored(), "")
    find(kernel, **TWO)


@pytest.mark.bug("half a tile is written after the barrier", rule="RACE-01", op=LOAD, first=0)
def test_late_write(kernel: Kernel, find: Find) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier())
    mine = tile.part("%local")
    kernel(f"""
      spirv.mlir.selection {{
        %high = spirv.UGreaterThanEqual %local, {kernel.constant(32)} : i32
        spirv.BranchConditional %high, ^yes, ^end
      ^yes:
        spirv.Store "Workgroup" {mine}, %one {SHARED} : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    tile.load(tile.mirrored())
    assert find(kernel, **TWO).count == 32


def test_barriers_order(kernel: Kernel, clean: Clean) -> None:
    tile = Tile(kernel)
    for _ in range(2):
        tile.store("%local")
        kernel(barrier())
        tile.load(tile.mirrored())
        kernel(barrier())
    clean(kernel, (3, 1, 1), **TWO)


def test_a_buffer_handed_on_by_an_atomic(kernel: Kernel, clean: Clean) -> None:
    """The last workgroup that counts itself reads the writes of all workgroups."""
    data = kernel.buffer("i32", np.zeros(8, np.int32))
    counter = kernel.buffer("i32", np.zeros(1, np.int32))
    mine, count = kernel.pointer(data, "%group"), kernel.pointer(counter, "%zero")
    kernel(f'spirv.Store "StorageBuffer" {mine}, %one {SHARED} : i32')
    type = "!spirv.ptr<i32, StorageBuffer>"
    flags = "AcquireRelease|UniformMemory|MakeAvailable|MakeVisible"
    old = kernel.op(f"spirv.AtomicIAdd <Device> <{flags}> {count}, %one : {type}")
    last = kernel.op(f"spirv.IEqual {old}, {kernel.constant(7)} : i32")
    first = kernel.pointer(data, "%zero")
    kernel(f"""
      spirv.mlir.selection {{
        spirv.BranchConditional {last}, ^yes, ^end
      ^yes:
        %value = spirv.Load "StorageBuffer" {first} {SHARED} : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    clean(kernel, (8, 1, 1), local=(1, 1, 1))


def test_a_finding_gives_the_number_of_its_executions() -> None:
    finding = Finding("RACE-01", "spirv.Load", "not ordered", times=2)
    assert "the instruction broke this rule in 2 executions" in str(finding)


def test_an_allowed_race_is_not_a_finding(kernel: Kernel) -> None:
    Tile(kernel).store("%zero", "%one")
    checks = Checks.all(allow=(Allowed(rule="RACE-01", text="@tile"),))
    kernel.run(checks=checks)
    assert not list(checks.report)
    assert [finding.rule for finding in checks.report.allowed] == ["RACE-01"]


MATRIX = "!spirv.coopmatrix<8x8xi32, Subgroup, MatrixAcc>"
OPS = "spirv.KHR.CooperativeMatrix"


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.bug(
    "a tile stored, then loaded as another matrix type without a barrier",
    rule="RACE-01",
    op=f"{OPS}Load",
)
def test_matrices(kernel: Kernel, request: pytest.FixtureRequest, ordered: bool) -> None:
    tile = Tile(kernel)
    start, eight = tile.part("%zero"), kernel.constant(8)
    matrix = kernel.op(f"spirv.Constant dense<7> : {MATRIX}")
    kernel(
        f"{OPS}Store {start}, {matrix}, {eight}, <RowMajor>, <NonPrivatePointer> "
        f": {PART}, {MATRIX}, i32"
    )
    if ordered:
        kernel(barrier())
    kernel.op(
        f"{OPS}Load {start}, {eight}, <ColumnMajor>, <NonPrivatePointer> : {PART}, i32 "
        "-> !spirv.coopmatrix<8x8xi32, Subgroup, MatrixA>"
    )
    if ordered:
        request.getfixturevalue("clean")(kernel, local=(8, 1, 1), subgroup_size=8)
    else:
        request.getfixturevalue("find")(kernel, local=(8, 1, 1), subgroup_size=8)


def test_a_matrix_may_be_loaded_by_some_subgroups_only(kernel: Kernel, clean: Clean) -> None:
    tile, eight = Tile(kernel), kernel.constant(8)
    mine = tile.part("%local")
    first = kernel.op(f"spirv.BitwiseAnd %local, {eight} : i32")
    kernel(f"""
      spirv.mlir.loop {{
        spirv.Branch ^header(%zero : i32)
      ^header(%turn: i32):
        %more = spirv.SLessThan %turn, {kernel.constant(16)} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %here = spirv.SLessThanEqual %turn, {first} : i32
        spirv.mlir.selection {{
          spirv.BranchConditional %here, ^then, ^behind
        ^then:
          spirv.Store "Workgroup" {mine}, %turn {SHARED} : i32
          {barrier(scope="Subgroup")}
          %row = spirv.AccessChain {tile.tile}[{first}] : {TILE}, i32 -> {PART}
          spirv.Branch ^load
        ^load:
          %matrix = {OPS}Load %row, %zero, <ColumnMajor>, <NonPrivatePointer>
            : {PART}, i32 -> {MATRIX}
          {barrier(scope="Subgroup")}
          spirv.Branch ^behind
        ^behind:
          spirv.mlir.merge
        }}
        spirv.Branch ^continue
      ^continue:
        %next = spirv.IAdd %turn, {eight} : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }}""")
    clean(kernel, local=(16, 1, 1), subgroup_size=8)


@pytest.mark.parametrize(("before", "behind"), list(product(range(3), range(3))))
def test_a_report_names_the_read_of_the_other_invocation(
    kernel: Kernel, before: int, behind: int
) -> None:
    tile = Tile(kernel)
    tile.store("%local")
    kernel(barrier())
    for _ in range(before):
        tile.load("%local")
    new = kernel.op("spirv.ISub %local, %one : i32")
    part = tile.part(tile.neighbour())
    read = kernel.op(f'spirv.Load "Workgroup" {part} {SHARED} : i32')
    kernel.store(tile.out, read)
    for _ in range(behind):
        tile.load("%local")
    tile.store("%local", new)
    checks = Checks.all()
    kernel.run((1, 1, 1), checks=checks, **TWO)
    (finding,) = [f for f in checks.report if f.rule == "RACE-01"]
    assert f"{read} = spirv.Load" in finding.notes[0], str(finding)


FENCE = "spirv.MemoryBarrier <Device>, <AcquireRelease|UniformMemory>"
PLAIN = barrier("AcquireRelease|WorkgroupMemory")
OTHER = "spirv.MemoryBarrier <Device>, <WorkgroupMemory>"
ORDERS = [lines for count in (1, 2, 3) for lines in product([FENCE, PLAIN, OTHER], repeat=count)]


@pytest.mark.parametrize("glsl", [True, False])
@pytest.mark.parametrize("lines", ORDERS)
def test_a_fence_before_a_barrier(kernel: Kernel, lines: tuple[str, ...], glsl: bool) -> None:
    """Under GLSL450 the fence orders buffers together with the barrier."""
    ordered = FENCE in lines and PLAIN in lines[lines.index(FENCE) :]
    buffer = kernel.buffer("i32", np.zeros(64, np.int32))
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel.models = "Logical GLSL450" if glsl else "Logical Vulkan"
    kernel.store(buffer, "%id")
    for line in lines:
        kernel(line)
    kernel.store(out, kernel.load(buffer, kernel.op("spirv.BitwiseXor %id, %one : i32")))
    checks = Checks.of("races")
    kernel.run((1, 1, 1), checks=checks, **TWO)
    assert (not list(checks.report)) == (ordered and glsl), str(checks.report)


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize(("scope", "lanes"), [("Workgroup", 64), ("Subgroup", None)])
def test_a_matrix_may_be_updated_in_place_by_its_scope(
    kernel: Kernel, scope: str, lanes: int | None, size: int
) -> None:
    ops, matrix = "spirv.KHR.CooperativeMatrix", f"!spirv.coopmatrix<16x16xf32, {scope}, MatrixAcc>"
    buffer = kernel.buffer("f32", np.ones(256, np.float32))
    place = f"{kernel.pointer(buffer, kernel.constant(0))}"
    stride, pointer = kernel.constant(16), "!spirv.ptr<f32, StorageBuffer>"
    for _ in range(2):
        loaded = kernel.op(f"{ops}Load {place}, {stride}, <RowMajor> : {pointer}, i32 -> {matrix}")
        twice = kernel.op(f"spirv.FAdd {loaded}, {loaded} : {matrix}")
        kernel(f"{ops}Store {place}, {twice}, {stride}, <RowMajor> : {pointer}, {matrix}, i32")
    checks = Checks.all()
    local = (lanes or size, 1, 1)
    (result,) = kernel.run((1, 1, 1), local=local, subgroup_size=size, checks=checks)
    assert not list(checks.report), str(checks.report)
    assert (result == 4).all()


def test_tables_of_messages_share_their_parts() -> None:
    count = 1024
    geometry = SimpleNamespace(grid=(16, 1, 1), invocations=64, workgroups=16)
    batch: Any = SimpleNamespace(
        shape=(16, 2, 32), geometry=geometry, lanes=32, subgroups=2, first=0
    )
    knowledge = Knowledge(True, fenced=False)
    knowledge.start(accessors := Accessors(batch))
    semantics = Semantics(2, 2, SAME_DEVICE, SAME_DEVICE, SAME_DEVICE)
    op: Any = None
    lanes = np.arange(count)
    local = Horizons(accessors, 1).snapshot()
    places, wrote = np.zeros(count, np.int64), np.ones(count, np.bool_)
    knowledge.add(
        Atomic(op, 7, SAME_DEVICE, True, 0, places, lanes, wrote, (semantics, semantics), local)
    )
    knowledge.replay()
    assert knowledge.rows(lanes[-1:], lanes[:1], 1)[0, row(0, 0)] == 7
    assert not knowledge.rows(lanes[:1], lanes[-1:], 1).any()
    parts: dict[int, Any] = {}
    waiting: list[Any] = list(knowledge.tables.states.values())
    while waiting:
        part = waiting.pop()
        if isinstance(part, tuple) and id(part) not in parts:
            parts[id(part)] = part
            waiting += part
    assert len(parts) < 20 * count
