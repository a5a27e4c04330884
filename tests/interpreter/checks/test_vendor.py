"""Undefined uses of vendors' instructions are found. Unchecked ones are documented."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.dialects.spirv import SPIRV
from xdsl_spirv.interpreter import semantics
from xdsl_spirv.interpreter.checks import Allowed, Checks, compiler
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel

DOCS = Path(__file__).resolve().parents[3] / "docs"
BYTES = "!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>"
OCTETS = "!spirv.ptr<!spirv.rtarray<i8, stride=1>, StorageBuffer>"
FOUR = "!spirv.coopvec<4xf32>"
MATRIX = "!spirv.NV.coopmatrix<8x8xf32, Subgroup>"
F32 = "!spirv.ptr<f32, StorageBuffer>"
TENSOR = "!spirv.arm.tensor<?x?xf32>"
AT = "!spirv.array<2 x i32>"
EIGHT: dict[str, Any] = {"local": (8, 1, 1), "subgroup_size": 8}
LAYER = (
    "(input_interpretation = Float32NV, matrix_interpretation = Float32NV, m = 4, k = 4, "
    "memory_layout = {layout}, transpose = false)"
)
VECTOR, NV = "spirv.NV.CooperativeVector", "spirv.NV.CooperativeMatrix"


def octets(kernel: Kernel, array: Array) -> str:
    """Adds a buffer with the array's bytes. Returns the pointer to its runtime array."""
    number = len(kernel.buffers)
    type = f"!spirv.ptr<{BYTES}, StorageBuffer>"
    kernel.buffers.append((type, "i8", array.reshape(-1).view(np.int8)))
    base = kernel.op(f"spirv.mlir.addressof @b{number} : {type}")
    return kernel.op(f"spirv.AccessChain {base}[%zero] : {type}, i32 -> {OCTETS}")


def floats(kernel: Kernel, count: int) -> str:
    return octets(kernel, np.ones(count, np.float32))


def at(kernel: Kernel, bytes: int = 16, index: str = "%id") -> str:
    return kernel.op(f"spirv.IMul {index}, {kernel.constant(bytes)} : i32")


def load(kernel: Kernel, pointer: str, offset: str) -> str:
    return kernel.op(f"{VECTOR}Load {pointer}[{offset}] : {OCTETS}, i32 -> {FOUR}")


def store(kernel: Kernel, pointer: str, offset: str, value: str) -> None:
    kernel(f"{VECTOR}Store {pointer}[{offset}], {value} : {OCTETS}, i32, {FOUR}")


def filled(kernel: Kernel, number: str) -> str:
    parts = ", ".join([kernel.constant(number, "f32")] * 4)
    return kernel.op(f"spirv.CompositeConstruct {parts} : (f32, f32, f32, f32) -> {FOUR}")


def undefined(kernel: Kernel) -> str:
    vector = filled(kernel, "1.0")
    part = kernel.op("spirv.Undef : f32")
    return kernel.op(f"spirv.CompositeInsert {part}, {vector}[2 : i32] : f32 into {FOUR}")


@pytest.mark.bug("a cooperative vector outside a buffer", rule="BOUNDS-01", op=f"{VECTOR}Load",
                 count=2)  # fmt: skip
def test_vector_bounds(kernel: Kernel, find: Find) -> None:
    data, out = floats(kernel, 6 * 4), floats(kernel, 8 * 4)
    found = load(kernel, data, at(kernel))
    checks = Checks.all(allow=(Allowed(rule="UNDEF-07"),))
    store(kernel, out, at(kernel), found)
    find(kernel, checks=checks, **EIGHT)
    assert [finding.rule for finding in checks.report.allowed] == ["UNDEF-07"]


@pytest.mark.bug("cooperative vectors that overlap", rule="RACE-01", op=f"{VECTOR}Load")
def test_vector_race(kernel: Kernel, find: Find) -> None:
    """A race is found if a vector load overlaps another invocation's vector store."""
    data = floats(kernel, 40)
    store(kernel, data, at(kernel), filled(kernel, "2.0"))
    more = kernel.op(f"spirv.IAdd {at(kernel)}, {kernel.constant(8)} : i32")
    store(kernel, floats(kernel, 32), at(kernel), load(kernel, data, more))
    assert f"{VECTOR}Store" in find(kernel, **EIGHT).notes[0]


@pytest.mark.bug("an undefined component of a cooperative vector", rule="UNDEF-02",
                 op=f"{VECTOR}Store")  # fmt: skip
def test_vector_undefined(kernel: Kernel, find: Find) -> None:
    store(kernel, floats(kernel, 32), at(kernel), undefined(kernel))
    find(kernel, **EIGHT)


@pytest.mark.parametrize("layout", ["RowMajorNV", "ColumnMajorNV"])
@pytest.mark.bug("a matrix times an undefined vector", rule="UNDEF-02", op=f"{VECTOR}Store")
def test_product_of_undefined(kernel: Kernel, find: Find, layout: str) -> None:
    out = floats(kernel, 32)
    weights = floats(kernel, 16)
    types = f"{FOUR}, {OCTETS}, i32, i32 -> {FOUR}"
    product = kernel.op(
        f"{VECTOR}MatrixMul {undefined(kernel)}, {weights}[%zero] {LAYER.format(layout=layout)} "
        f"stride {kernel.constant(16)}, : {types}".replace(", :", " :")
    )
    store(kernel, out, at(kernel), product)
    find(kernel, **EIGHT)


@pytest.mark.parametrize("layout", ["RowMajorNV", "ColumnMajorNV"])
@pytest.mark.bug("a cooperative vector's matrix beyond a buffer", rule="BOUNDS-01",
                 op=f"{VECTOR}MatrixMul")  # fmt: skip
def test_product_bounds(kernel: Kernel, find: Find, layout: str) -> None:
    out, weights = floats(kernel, 32), floats(kernel, 14)
    vector = filled(kernel, "1.0")
    product = kernel.op(
        f"{VECTOR}MatrixMul {vector}, {weights}[%zero] {LAYER.format(layout=layout)} "
        f"stride {kernel.constant(16)} : {FOUR}, {OCTETS}, i32, i32 -> {FOUR}"
    )
    store(kernel, out, at(kernel), product)
    checks = Checks.all(allow=(Allowed(rule="UNDEF-07"),))
    find(kernel, checks=checks, **EIGHT)


@pytest.mark.bug("a sum of vectors outside a buffer", rule="BOUNDS-01",
                 op=f"{VECTOR}ReduceSumAccumulate", count=2)  # fmt: skip
def test_sum_bounds(kernel: Kernel, find: Find) -> None:
    data = floats(kernel, 6 * 4)
    vector = filled(kernel, "1.0")
    kernel(f"{VECTOR}ReduceSumAccumulate {data}[{at(kernel)}], {vector} : {OCTETS}, i32, {FOUR}")
    find(kernel, **EIGHT)
    assert (kernel.buffers[0][2].view(np.float32) == 2).all()


@pytest.mark.bug("an undefined vector is added to memory", rule="UNDEF-02",
                 op=f"{VECTOR}ReduceSumAccumulate")  # fmt: skip
def test_sum_of_undefined(kernel: Kernel, find: Find) -> None:
    data = floats(kernel, 4)
    kernel(
        f"{VECTOR}ReduceSumAccumulate {data}[%zero], {undefined(kernel)} : {OCTETS}, i32, {FOUR}"
    )
    find(kernel, **EIGHT)


@pytest.mark.bug("a sum of vectors and a plain load", rule="RACE-01", op=f"{VECTOR}Load")
def test_sum_race(kernel: Kernel, find: Find) -> None:
    data, out = floats(kernel, 4), floats(kernel, 32)
    vector = filled(kernel, "1.0")
    kernel(f"{VECTOR}ReduceSumAccumulate {data}[%zero], {vector} : {OCTETS}, i32, {FOUR}")
    store(kernel, out, at(kernel), load(kernel, data, "%zero"))
    find(kernel, **EIGHT)


def test_sums_do_not_race(kernel: Kernel, clean: Clean) -> None:
    data = floats(kernel, 16)
    vector = filled(kernel, "1.0")
    kernel(f"{VECTOR}ReduceSumAccumulate {data}[%zero], {vector} : {OCTETS}, i32, {FOUR}")
    kernel(f"{VECTOR}ReduceSumAccumulate {data}[%zero], {vector} : {OCTETS}, i32, {FOUR}")
    clean(kernel, **EIGHT)


def matrix(kernel: Kernel, buffer: int, index: str = "%zero", stride: int = 8) -> str:
    pointer, rows = kernel.pointer(buffer, index), kernel.op("spirv.Constant false")
    return kernel.op(
        f"{NV}Load {pointer}, {kernel.constant(stride)}, {rows} : {F32}, i32, i1 -> {MATRIX}"
    )


def keep(kernel: Kernel, buffer: int, value: str, index: str = "%zero") -> None:
    pointer, rows = kernel.pointer(buffer, index), kernel.op("spirv.Constant false")
    kernel(f"{NV}Store {pointer}, {value}, {kernel.constant(8)}, {rows} : {F32}, {MATRIX}, i32, i1")


@pytest.mark.bug("an NV cooperative matrix beyond a buffer", rule="BOUNDS-04", op=f"{NV}Load")
def test_matrix_bounds(kernel: Kernel, find: Find) -> None:
    data, out = (kernel.buffer("f32", np.ones(n, np.float32)) for n in (60, 64))
    keep(kernel, out, matrix(kernel, data))
    find(kernel, checks=Checks.all(allow=(Allowed(rule="UNDEF-07"),)), **EIGHT)


@pytest.mark.bug(
    "an NV cooperative matrix whose pointer differs between invocations",
    rule="CM-27",
    op=f"{NV}Load",
)
def test_matrix_uniform(kernel: Kernel, find: Find) -> None:
    data, out = (kernel.buffer("f32", np.ones(n, np.float32)) for n in (256, 64))
    keep(kernel, out, matrix(kernel, data, "%lane"))
    find(kernel, checks=Checks.all(allow=(Allowed(rule="ALIGN-03"),)), **EIGHT)


@pytest.mark.bug("NV cooperative matrices of two subgroups race", rule="RACE-01", op=f"{NV}Load")
def test_matrix_race(kernel: Kernel, find: Find) -> None:
    """One subgroup stores the elements that another subgroup loads."""
    data, out = (kernel.buffer("f32", np.ones(n, np.float32)) for n in (128, 128))
    mine = at(kernel, 64, "%subgroup")
    twos = kernel.buffer("f32", np.full(64, 2, np.float32))
    keep(kernel, data, matrix(kernel, twos), mine)
    other = kernel.op(f"spirv.ISub {kernel.constant(64)}, {mine} : i32")
    keep(kernel, out, matrix(kernel, data, other), mine)
    find(kernel, local=(16, 1, 1), subgroup_size=8)


def tensor(kernel: Kernel, array: Array) -> str:
    number = len(kernel.buffers)
    pointer = f"!spirv.ptr<{TENSOR}, UniformConstant>"
    kernel.globals.append(f"spirv.GlobalVariable @t{number} bind(0, {number}) : {pointer}")
    kernel.buffers.append(("", "f32", array))
    base = kernel.op(f"spirv.mlir.addressof @t{number} : {pointer}")
    return kernel.op(f'spirv.Load "UniformConstant" {base} : {TENSOR}')


def place(kernel: Kernel, column: str) -> str:
    return kernel.op(f"spirv.CompositeConstruct %zero, {column} : (i32, i32) -> {AT}")


@pytest.mark.bug("a tensor's element read while another writes it", rule="RACE-01",
                 op="spirv.ARM.TensorRead", count=8)  # fmt: skip
def test_tensor_race(kernel: Kernel, find: Find) -> None:
    data = tensor(kernel, np.zeros((1, 8), np.float32))
    out = kernel.buffer("f32", np.zeros(8, np.float32))
    here = place(kernel, "%id")
    there = place(kernel, kernel.op(f"spirv.BitwiseXor %id, {kernel.constant(7)} : i32"))
    one = kernel.constant("1.0", "f32")
    kernel(f"spirv.ARM.TensorWrite {data}[{here}], {one} : {TENSOR}, {AT}, f32")
    kernel.store(out, kernel.op(f"spirv.ARM.TensorRead {data}[{there}] : {TENSOR}, {AT} -> f32"))
    find(kernel, **EIGHT)


def test_tensors_do_not_race_outside(kernel: Kernel, clean: Clean) -> None:
    data = tensor(kernel, np.zeros((1, 8), np.float32))
    out = kernel.buffer("f32", np.zeros(8, np.float32))
    one = kernel.constant("1.0", "f32")
    kernel(f"spirv.ARM.TensorWrite {data}[{place(kernel, '%id')}], {one} : {TENSOR}, {AT}, f32")
    beyond = place(kernel, kernel.op(f"spirv.IAdd %id, {kernel.constant(8)} : i32"))
    kernel.store(out, kernel.op(f"spirv.ARM.TensorRead {data}[{beyond}] : {TENSOR}, {AT} -> f32"))
    clean(kernel, **EIGHT)


@pytest.mark.bug("an undefined value written to a tensor", rule="UNDEF-02",
                 op="spirv.ARM.TensorWrite")  # fmt: skip
def test_tensor_undefined(kernel: Kernel, find: Find) -> None:
    data = tensor(kernel, np.zeros((1, 8), np.float32))
    value = kernel.op("spirv.Undef : f32")
    kernel(f"spirv.ARM.TensorWrite {data}[{place(kernel, '%id')}], {value} : {TENSOR}, {AT}, f32")
    find(kernel, **EIGHT)


@pytest.mark.bug("a tensor's undefined coordinate", rule="UNDEF-02", op="spirv.ARM.TensorRead")
def test_tensor_address(kernel: Kernel, find: Find) -> None:
    data = tensor(kernel, np.zeros((1, 8), np.float32))
    there = place(kernel, kernel.op("spirv.Undef : i32"))
    kernel.store(
        kernel.buffer("f32", np.zeros(8, np.float32)),
        kernel.op(f"spirv.ARM.TensorRead {data}[{there}] : {TENSOR}, {AT} -> f32"),
    )
    find(kernel, **EIGHT)


SEMANTICS = "AcquireRelease|UniformMemory|MakeAvailable|MakeVisible"
HALF = f"spirv.INTEL.ControlBarrier{{}} <Workgroup> <Workgroup> <{SEMANTICS}>"


def halves(kernel: Kernel, between: Callable[[], object] = lambda: None) -> None:
    data, out = (kernel.buffer("i32", np.zeros(8, np.int32)) for _ in range(2))
    kernel.store(data, "%id")
    kernel(HALF.format("Arrive"))
    between()
    kernel(HALF.format("Wait"))
    other = kernel.op(f"spirv.BitwiseXor %id, {kernel.constant(7)} : i32")
    kernel.store(out, kernel.load(data, other))


def test_a_barrier_in_two_halves_orders(kernel: Kernel) -> None:
    halves(kernel)
    checks = Checks.all(allow=(Allowed(rule="RACE-02"),))
    kernel.run(checks=checks, **EIGHT)
    assert not list(checks.report), str(checks.report)


@pytest.mark.bug("a store between a barrier's halves", rule="RACE-03", op="spirv.Load")
def test_between_halves(kernel: Kernel, find: Find) -> None:
    halves(kernel, lambda: kernel.store(0, "%one"))
    find(kernel, checks=Checks.all(allow=(Allowed(rule="RACE-02"),)), **EIGHT)


def unchecked() -> set[str]:
    """Returns instructions without a check, except functions of their operands' values."""
    semantics.load()
    for name in compiler.MODULES:
        import_module(f"xdsl_spirv.interpreter.checks.{name}")
    return {
        op.name
        for op in SPIRV.operations
        if op in semantics.TABLE
        and semantics.TABLE[op].kind == "action"
        and op not in compiler.CHECKED
    }


def test_unchecked_instructions_are_documented() -> None:
    text = (DOCS / "checks.md").read_text()
    table = text.partition("<!-- unchecked -->")[2].partition("<!-- end unchecked -->")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert {name.strip().strip("`") for name, _ in rows} == unchecked()
    assert all(len(reason.strip()) > 10 for _, reason in rows)
