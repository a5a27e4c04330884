"""Violations of the extensions' dynamic rules are found, such as divergent invocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

OPS = "spirv.KHR.CooperativeMatrix"
LOAD, STORE, MULADD = f"{OPS}Load", f"{OPS}Store", f"{OPS}MulAdd"
EIGHT: dict[str, Any] = {"local": (8, 1, 1), "subgroup_size": 8}
ROTATE = "spirv.GroupNonUniformRotateKHR"


def coop(element: str, use: str = "Acc") -> str:
    return f"!spirv.coopmatrix<8x8x{element}, Subgroup, Matrix{use}>"


def load(kernel: Kernel, buffer: int, type: str, stride: str = "", start: str = "%zero") -> str:
    element = kernel.buffers[buffer][1]
    pointer = kernel.pointer(buffer, start)
    stride = stride or kernel.constant(8)
    return kernel.op(
        f"{LOAD} {pointer}, {stride}, <RowMajor> : !spirv.ptr<{element}, StorageBuffer>, i32 "
        f"-> {type}"
    )


def store_text(kernel: Kernel, buffer: int, matrix: str, type: str, stride: str = "") -> str:
    """Returns a row-major cooperative store, after defining its operands."""
    element = kernel.buffers[buffer][1]
    pointer = kernel.pointer(buffer, "%zero")
    stride = stride or kernel.constant(8)
    return (
        f"{STORE} {pointer}, {matrix}, {stride}, <RowMajor> "
        f": !spirv.ptr<{element}, StorageBuffer>, {type}, i32"
    )


def matrix(kernel: Kernel, element: str = "f32", use: str = "Acc", data: Any = None) -> str:
    dtypes: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i32": np.int32}
    values = np.zeros(64, dtypes[element]) if data is None else data
    return load(kernel, kernel.buffer(element, values), coop(element, use))


def below_four(kernel: Kernel, body: str) -> Kernel:
    """Adds code that runs `body` in the invocations 0 to 3 only."""
    return kernel(f"""
      spirv.mlir.selection {{
        %low = spirv.ULessThan %lane, {kernel.constant(4)} : i32
        spirv.BranchConditional %low, ^yes, ^end
      ^yes:
        {body}
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")


def leave_from_four_on(kernel: Kernel) -> None:
    """Adds code by which all invocations except 0 to 3 return."""
    kernel(f"""
      spirv.mlir.selection {{
        %high = spirv.UGreaterThanEqual %lane, {kernel.constant(4)} : i32
        spirv.BranchConditional %high, ^leave, ^end
      ^leave:
        spirv.Return
      ^end:
        spirv.mlir.merge
      }}""")


@pytest.mark.bug("a cooperative store in divergent flow", rule="CM-27", op=STORE, first=4, count=4)
def test_divergent_store(kernel: Kernel, find: Find) -> None:
    value = matrix(kernel)
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    below_four(kernel, store_text(kernel, out, value, coop("f32")))
    finding = find(kernel, **EIGHT)
    assert "4 invocations are here, 4 are missing" in finding.message
    assert "BranchConditional" in finding.notes[1]


@pytest.mark.bug("a cooperative load in divergent flow", rule="CM-27", op=LOAD, first=4, count=4)
def test_divergent_load(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("f32", np.zeros(64, np.float32))
    pointer, stride = kernel.pointer(source, "%zero"), kernel.constant(8)
    below_four(
        kernel,
        f"%m = {LOAD} {pointer}, {stride}, <RowMajor> : !spirv.ptr<f32, StorageBuffer>, i32 "
        f"-> {coop('f32')}",
    )
    find(kernel, **EIGHT)


@pytest.mark.bug(
    "a MulAdd after some invocations have returned", rule="CM-27", op=MULADD, first=4, count=4
)
def test_divergent_multiplication(kernel: Kernel, find: Find) -> None:
    a, b, c = matrix(kernel, "f16", "A"), matrix(kernel, "f16", "B"), matrix(kernel)
    leave_from_four_on(kernel)
    types = f"{coop('f16', 'A')}, {coop('f16', 'B')} -> {coop('f32')}"
    kernel.op(f"{MULADD} {a}, {b}, {c} : {types}")
    find(kernel, **EIGHT)


@pytest.mark.bug("cooperative arithmetic in divergent flow", rule="CM-27", op="spirv.FAdd", first=4)
def test_divergent_arithmetic(kernel: Kernel, find: Find) -> None:
    value = matrix(kernel)
    below_four(kernel, f"%sum = spirv.FAdd {value}, {value} : {coop('f32')}")
    find(kernel, **EIGHT)


@pytest.mark.bug(
    "a tile's pointer that differs between invocations", rule="CM-27", op=LOAD, first=1, count=7
)
def test_pointer(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("f32", np.zeros(256, np.float32))
    start = kernel.op(f"spirv.IMul %lane, {kernel.constant(8)} : i32")
    load(kernel, source, coop("f32"), start=start)
    finding = find(kernel, **EIGHT)
    assert "32, 64, 96, 128" in finding.values[0]


@pytest.mark.bug(
    "a tile's Stride that differs between invocations", rule="CM-27", op=LOAD, first=1, count=7
)
def test_stride(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("f32", np.zeros(256, np.float32))
    four = kernel.op(f"spirv.IMul %lane, {kernel.constant(4)} : i32")
    load(kernel, source, coop("f32"), kernel.op(f"spirv.IAdd {four}, {kernel.constant(8)} : i32"))
    find(kernel, **EIGHT)


@pytest.mark.bug(
    "MatrixTimesScalar whose scalar is the invocation's number",
    rule="CM-27",
    op="spirv.MatrixTimesScalar",
    first=1,
    count=7,
)
def test_scalar(kernel: Kernel, find: Find) -> None:
    scalar = kernel.op("spirv.ConvertUToF %lane : i32 to f32")
    kernel.op(f"spirv.MatrixTimesScalar {matrix(kernel)}, {scalar} : {coop('f32')}, f32")
    find(kernel, **EIGHT)


@pytest.mark.bug(
    "a matrix filled with the invocation's number",
    rule="CM-09",
    op="spirv.CompositeConstruct",
    first=1,
    count=7,
)
def test_constituent(kernel: Kernel, find: Find) -> None:
    scalar = kernel.op("spirv.ConvertUToF %lane : i32 to f32")
    kernel.op(f"spirv.CompositeConstruct {scalar} : (f32) -> {coop('f32')}")
    find(kernel, **EIGHT)


@pytest.mark.bug("a store with a Stride of 0", rule="CM-12", op=STORE, count=8)
def test_stride_of_zero(kernel: Kernel, find: Find) -> None:
    value = matrix(kernel)
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    stride = kernel.load(kernel.buffer("i32", np.zeros(8, np.int32)))
    kernel(store_text(kernel, out, value, coop("f32"), stride))
    find(kernel, **EIGHT)


@pytest.mark.bug("a load with a negative Stride", rule="CM-12", op=LOAD, count=8)
def test_negative_stride(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("f32", np.zeros(64, np.float32))
    stride = kernel.load(kernel.buffer("i32", np.full(8, -8, np.int32)))
    load(kernel, source, coop("f32"), stride)
    find(kernel, **EIGHT)


@pytest.mark.bug("A*B overflows before it saturates", rule="CM-24", op=MULADD, count=8)
def test_inner_overflow(kernel: Kernel, find: Find) -> None:
    full = np.full(64, 127, np.int8)
    a, b = matrix(kernel, "i8", "A", full), matrix(kernel, "i8", "B", full.copy())
    c = matrix(kernel, "i8")
    types = f"{coop('i8', 'A')}, {coop('i8', 'B')} -> {coop('i8')}"
    flags = "<ASigned|BSigned|CSigned|ResultSigned|AccSat>"
    kernel.op(f"{MULADD} {a}, {b}, {c}, {flags} : {types}")
    assert "A*B there: 129032" in find(kernel, **EIGHT).values[0]


@pytest.mark.parametrize("kind", ["S", "U"])
@pytest.mark.bug("a dot product overflows before it saturates", rule="DOT-17", op="", first=3)
def test_dot_overflow(
    kernel: Kernel, find: Find, request: pytest.FixtureRequest, kind: str
) -> None:
    request.node.get_closest_marker("bug").kwargs["op"] = f"spirv.{kind}DotAccSat"
    values = np.zeros(128, np.int8)
    values[12:16] = 100
    a = kernel.load(kernel.buffer("vector<4xi8>", values, 4))
    zero = kernel.constant(0, "i8")
    kernel.op(f"spirv.{kind}DotAccSat {a}, {a}, {zero} : vector<4xi8> -> i8")
    assert "sum of products: 40000" in find(kernel).values[0]


def test_dot_at_the_limit(kernel: Kernel, clean: Clean) -> None:
    values = np.zeros(128, np.int8)
    values[12:16] = (11, 2, 1, 1)
    a = kernel.load(kernel.buffer("vector<4xi8>", values, 4))
    kernel.op(f"spirv.SDotAccSat {a}, {a}, {kernel.constant(0, 'i8')} : vector<4xi8> -> i8")
    clean(kernel)


@pytest.mark.bug(
    "a rotation whose Delta differs between invocations",
    rule="ROT-08",
    op=ROTATE,
    first=1,
    count=31,
)
def test_delta(kernel: Kernel, find: Find) -> None:
    kernel.op(f"{ROTATE} <Subgroup> %id, %lane : i32, i32 -> i32")
    find(kernel)


@pytest.mark.bug("a cluster larger than the subgroup", rule="ROT-08", op=ROTATE, count=32)
def test_rotate_cluster(kernel: Kernel, find: Find) -> None:
    size = kernel.constant(64)
    kernel.op(f"{ROTATE} <Subgroup> %id, %one, cluster_size({size}) : i32, i32, i32 -> i32")
    find(kernel)


@pytest.mark.bug("a rotation that reads inactive invocations", rule="ROT-08", op=ROTATE, first=3)
def test_rotate_inactive(kernel: Kernel, find: Find) -> None:
    below_four(kernel, f"%r = {ROTATE} <Subgroup> %id, %one : i32, i32 -> i32")
    assert any("BranchConditional" in note for note in find(kernel).notes)


@pytest.mark.bug(
    "a broadcast whose source differs between invocations",
    rule="GROUP-01",
    op="spirv.GroupNonUniformBroadcast",
    first=1,
    count=31,
)
def test_broadcast(kernel: Kernel, find: Find) -> None:
    kernel.op("spirv.GroupNonUniformBroadcast <Subgroup> %id, %lane : i32, i32")
    find(kernel)


@pytest.mark.bug(
    "a reduction over clusters larger than the subgroup",
    rule="GROUP-02",
    op="spirv.GroupNonUniformIAdd",
    count=32,
)
def test_reduction_cluster(kernel: Kernel, find: Find) -> None:
    size = kernel.constant(64)
    kernel.op(
        "spirv.GroupNonUniformIAdd <Subgroup> <ClusteredReduce> %id "
        f"cluster_size({size}) : i32, i32 -> i32"
    )
    find(kernel)


BARRIER = (
    "spirv.ControlBarrier <Workgroup>, <Workgroup>, "
    "<AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible>"
)


@pytest.mark.bug(
    "a barrier in divergent flow", rule="BARRIER-01", op="spirv.ControlBarrier", first=4, count=60
)
def test_divergent_barrier(kernel: Kernel, find: Find) -> None:
    kernel(f"""
      spirv.mlir.selection {{
        %low = spirv.ULessThan %local, {kernel.constant(4)} : i32
        spirv.BranchConditional %low, ^yes, ^end
      ^yes:
        {BARRIER}
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    find(kernel, local=(64, 1, 1))


@pytest.mark.bug(
    "a barrier that some invocations do not reach because they have returned",
    rule="BARRIER-01",
    op="spirv.ControlBarrier",
    first=4,
    count=28,
)
def test_barrier_after_return(kernel: Kernel, find: Find) -> None:
    leave_from_four_on(kernel)
    kernel(BARRIER)
    find(kernel)


def test_a_whole_workgroup_may_leave(kernel: Kernel, clean: Clean) -> None:
    kernel(f"""
      spirv.mlir.selection {{
        %high = spirv.UGreaterThanEqual %group, {kernel.constant(2)} : i32
        spirv.BranchConditional %high, ^leave, ^end
      ^leave:
        spirv.Return
      ^end:
        spirv.mlir.merge
      }}""")
    kernel(BARRIER)
    kernel.op(f"{ROTATE} <Subgroup> %id, %one : i32, i32 -> i32")
    clean(kernel, (4, 1, 1), (48, 1, 1), 16)
