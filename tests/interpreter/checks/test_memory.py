"""Accesses out of bounds, unaligned accesses and overlapping stores are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

OPS = "spirv.KHR.CooperativeMatrix"
LOAD, STORE = f"{OPS}Load", f"{OPS}Store"
EIGHT: dict[str, Any] = {"local": (8, 1, 1), "subgroup_size": 8}
MATRIX = "!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>"


def load(kernel: Kernel, buffer: int, start: int, stride: int, type: str = MATRIX) -> str:
    element = kernel.buffers[buffer][1]
    pointer, step = kernel.pointer(buffer, kernel.constant(start)), kernel.constant(stride)
    return kernel.op(
        f"{LOAD} {pointer}, {step}, <RowMajor> : !spirv.ptr<{element}, StorageBuffer>, i32 "
        f"-> {type}"
    )


def store(kernel: Kernel, buffer: int, value: str, start: str, stride: int) -> Kernel:
    pointer, step = kernel.pointer(buffer, start), kernel.constant(stride)
    return kernel(
        f"{STORE} {pointer}, {value}, {step}, <RowMajor> "
        f": !spirv.ptr<f32, StorageBuffer>, {MATRIX}, i32"
    )


def numbers(count: int) -> Array:
    return np.arange(count, dtype=np.float32)


@pytest.mark.bug("a load outside a buffer", rule="BOUNDS-01", op="spirv.Load", first=20, count=12)
def test_load(kernel: Kernel, find: Find) -> None:
    kernel.load(kernel.buffer("i32", np.zeros(20, np.int32)))
    finding = find(kernel)
    assert finding.values == [
        "element of 4 bytes: 20, 21, 22, 23",
        "elements there are: 20",
    ]


@pytest.mark.bug("a store outside a buffer", rule="BOUNDS-01", op="spirv.Store", first=0, count=1)
def test_store(kernel: Kernel, find: Find) -> None:
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    index = kernel.op("spirv.ISub %id, %one : i32")
    kernel.store(out, "%id", index)
    find(kernel)
    assert kernel.buffers[out][2].tolist() == [*range(1, 32), *[0] * 33]


@pytest.mark.bug("an atomic outside a buffer", rule="BOUNDS-01", op="spirv.AtomicIAdd", first=8)
def test_atomic(kernel: Kernel, find: Find) -> None:
    out = kernel.buffer("i32", np.zeros(8, np.int32))
    pointer = kernel.pointer(out)
    kernel.op(
        f"spirv.AtomicIAdd <Device> <Relaxed> {pointer}, %one : !spirv.ptr<i32, StorageBuffer>"
    )
    find(kernel)
    assert kernel.buffers[out][2].tolist() == [1] * 8


@pytest.mark.bug(
    "an index beyond an array whose address is still inside the buffer",
    rule="BOUNDS-02",
    op="spirv.Load",
    first=4,
)
def test_array_in_struct(kernel: Kernel, find: Find) -> None:
    element = "!spirv.struct<(!spirv.array<4 x i32, stride=4> [0], i32 [16])>"
    source = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel.buffers[source] = (
        f"!spirv.ptr<!spirv.struct<(!spirv.rtarray<{element}, stride=20> [0]), Block>"
        ", StorageBuffer>",
        element,
        np.zeros(100, np.int32),
    )
    base = kernel.pointer(source, "%zero")
    five = kernel.op(f"spirv.GL.UMin %lane, {kernel.constant(4)} : i32")
    part = kernel.op(
        f"spirv.AccessChain {base}[%zero, {five}] : !spirv.ptr<{element}, StorageBuffer>, i32, i32 "
        "-> !spirv.ptr<i32, StorageBuffer>"
    )
    kernel.op(f'spirv.Load "StorageBuffer" {part} : i32')
    finding = find(kernel)
    assert "an index outside an array of 4" in finding.message
    assert "index: 4" in finding.notes


@pytest.mark.bug(
    "an index beyond a Function array", rule="BOUNDS-02", op="spirv.Store", first=8, count=24
)
def test_function_array(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<!spirv.array<8 x i32>, Function>"
    array = kernel.op(f"spirv.Variable : {type}")
    part = kernel.op(f"spirv.AccessChain {array}[%lane] : {type}, i32 -> !spirv.ptr<i32, Function>")
    kernel(f'spirv.Store "Function" {part}, %id : i32')
    assert find(kernel).remedy == "check the index against the number of elements"


@pytest.mark.bug("a constant index beyond a Function array", rule="BOUNDS-02", op="spirv.Store")
def test_constant_index(kernel: Kernel, find: Find) -> None:
    type = "!spirv.ptr<!spirv.array<2 x i32>, Function>"
    array, two = kernel.op(f"spirv.Variable : {type}"), kernel.constant(2)
    part = kernel.op(f"spirv.AccessChain {array}[{two}] : {type}, i32 -> !spirv.ptr<i32, Function>")
    kernel(f'spirv.Store "Function" {part}, %id : i32')
    assert "index: 2" in find(kernel).notes


@pytest.mark.bug(
    "a constant component beyond a vector inside the buffer", rule="BOUNDS-03", op="spirv.Load"
)
def test_constant_component(kernel: Kernel, find: Find) -> None:
    vector = kernel.pointer(kernel.buffer("vector<4xi32>", np.zeros((64, 4), np.int32)))
    part = kernel.op(
        f"spirv.AccessChain {vector}[{kernel.constant(5)}] : "
        "!spirv.ptr<vector<4xi32>, StorageBuffer>, i32 -> !spirv.ptr<i32, StorageBuffer>"
    )
    kernel.op(f'spirv.Load "StorageBuffer" {part} : i32')
    find(kernel)


@pytest.mark.bug(
    "a component beyond a vector",
    rule="BOUNDS-03",
    op="spirv.VectorExtractDynamic",
    first=4,
    count=28,
)
def test_component(kernel: Kernel, find: Find) -> None:
    vector = kernel.op(
        "spirv.CompositeConstruct %id, %id, %id, %id : (i32, i32, i32, i32) -> vector<4xi32>"
    )
    kernel.op(f"spirv.VectorExtractDynamic {vector}[%lane] : vector<4xi32>, i32")
    find(kernel)


def test_a_pointer_that_is_not_used_may_be_outside(kernel: Kernel, clean: Clean) -> None:
    source = kernel.buffer("i32", np.zeros(4, np.int32))
    pointer = kernel.pointer(source)
    kernel(f"""
      spirv.mlir.selection {{
        %inside = spirv.ULessThan %id, {kernel.constant(4)} : i32
        spirv.BranchConditional %inside, ^yes, ^end
      ^yes:
        %value = spirv.Load "StorageBuffer" {pointer} : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    clean(kernel)


@pytest.mark.bug("a tile's last rows outside a buffer", rule="BOUNDS-04", op=LOAD, count=8)
def test_tile_rows(kernel: Kernel, find: Find) -> None:
    load(kernel, kernel.buffer("f32", numbers(72)), 0, 12)
    assert "rows 6 to 7, columns 0 to 7 of the 8x8 tile" in find(kernel, **EIGHT).message


@pytest.mark.bug("a tile's last columns outside a buffer", rule="BOUNDS-04", op=STORE, count=8)
def test_tile_columns(kernel: Kernel, find: Find) -> None:
    value = load(kernel, kernel.buffer("f32", numbers(64)), 0, 8)
    out = kernel.buffer("f32", np.zeros(60, np.float32))
    store(kernel, out, value, "%zero", 8)
    assert "rows 7, columns 4 to 7 of the 8x8 tile" in find(kernel, **EIGHT).message


@pytest.mark.bug("a cooperative load of 8-byte alignment", rule="ALIGN-03", op=LOAD, count=8)
def test_tile_pointer(kernel: Kernel, find: Find) -> None:
    load(kernel, kernel.buffer("f32", numbers(128)), 2, 8)
    assert find(kernel, **EIGHT).values == ["address: 8"]


@pytest.mark.bug("a Stride of 36 bytes", rule="ALIGN-03", op=LOAD, count=8)
def test_tile_stride(kernel: Kernel, find: Find) -> None:
    load(kernel, kernel.buffer("f32", numbers(128)), 0, 9)
    assert find(kernel, **EIGHT).values == ["Stride in bytes: 36"]


@pytest.mark.bug(
    "an access whose address is less aligned than its operand Aligned says",
    rule="ALIGN-02",
    op="spirv.Load",
    first=1,
)
def test_aligned_operand(kernel: Kernel, find: Find) -> None:
    pointer = kernel.pointer(kernel.buffer("i32", np.zeros(32, np.int32)))
    kernel.op(f'spirv.Load "StorageBuffer" {pointer} ["Aligned", 16] : i32')
    find(kernel)


@pytest.mark.bug("an array's stride below its elements' size", rule="ALIGN-01", op="spirv.Load")
def test_element(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.buffers[source] = (
        "!spirv.ptr<!spirv.struct<(!spirv.rtarray<i32, stride=6> [0]), Block>, StorageBuffer>",
        "i32",
        np.zeros(64, np.int32),
    )
    kernel.load(source)
    find(kernel)


@pytest.mark.bug("rows of one tile overlap", rule="OVERLAP-02", op=STORE, count=8)
def test_rows(kernel: Kernel, find: Find) -> None:
    value = load(kernel, kernel.buffer("f32", numbers(64)), 0, 8)
    store(kernel, kernel.buffer("f32", numbers(64)), value, "%zero", 4)
    find(kernel, **EIGHT, checks=_only("overlap"))


def _only(names: str) -> Checks:
    return Checks.of(names)


@pytest.mark.bug("two subgroups' tiles overlap", rule="OVERLAP-01", op=STORE, first=0, count=8)
def test_tiles(kernel: Kernel, find: Find) -> None:
    value = load(kernel, kernel.buffer("f32", numbers(64)), 0, 8)
    start = kernel.op(f"spirv.IMul %subgroup, {kernel.constant(32)} : i32")
    store(kernel, kernel.buffer("f32", numbers(128)), value, start, 8)
    find(kernel, local=(16, 1, 1), subgroup_size=8, checks=_only("overlap"))


@pytest.mark.bug(
    "all invocations write one location with different values",
    rule="OVERLAP-01",
    op="spirv.Store",
    first=0,
    count=31,
)
def test_lanes(kernel: Kernel, find: Find) -> None:
    kernel.store(kernel.buffer("i32", np.zeros(4, np.int32)), "%id", "%zero")
    find(kernel, checks=_only("overlap"))
