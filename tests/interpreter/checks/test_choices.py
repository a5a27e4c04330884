"""Results that depend on an implementation's choice are found, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.interpreter.checks.choices import mappings_of
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.checks.conftest import Clean, Find
    from tests.interpreter.conftest import Kernel, Parse

OPS = "spirv.KHR.CooperativeMatrix"
MULADD = f"{OPS}MulAdd"
EIGHT: dict[str, Any] = {"local": (8, 1, 1), "subgroup_size": 8}
SHARED = '["NonPrivatePointer"]'
BARRIER = (
    "spirv.ControlBarrier <Workgroup>, <Workgroup>, "
    "<AcquireRelease|UniformMemory|MakeAvailable|MakeVisible>"
)


def coop(use: str = "Acc", element: str = "f32") -> str:
    return f"!spirv.coopmatrix<8x8x{element}, Subgroup, Matrix{use}>"


def load(kernel: Kernel, values: Array, use: str) -> str:
    buffer = kernel.buffer("f32", values)
    pointer, eight = kernel.pointer(buffer, "%zero"), kernel.constant(8)
    return kernel.op(
        f"{OPS}Load {pointer}, {eight}, <RowMajor> : !spirv.ptr<f32, StorageBuffer>, i32 "
        f"-> {coop(use)}"
    )


def store(kernel: Kernel, buffer: int, matrix: str, operand: str = "") -> None:
    pointer, eight = kernel.pointer(buffer, "%zero"), kernel.constant(8)
    kernel(
        f"{OPS}Store {pointer}, {matrix}, {eight}, <RowMajor>{operand} "
        f": !spirv.ptr<f32, StorageBuffer>, {coop()}, i32"
    )


@pytest.mark.bug(
    "a kernel that assumes the row and column of a component",
    rule="CHOICE-01",
    op="spirv.CompositeExtract",
)
def test_mapping(kernel: Kernel, find: Find) -> None:
    matrix = load(kernel, np.arange(64, dtype=np.float32), "Acc")
    out = kernel.buffer("f32", np.zeros(8, np.float32))
    kernel.store(out, kernel.op(f"spirv.CompositeExtract {matrix}[2 : i32] : {coop()}"))
    finding = find(kernel, **EIGHT)
    assert "column-major" in finding.message


def test_elementwise_functions_do_not_depend_on_the_mapping(kernel: Kernel, clean: Clean) -> None:
    matrix = load(kernel, np.arange(64, dtype=np.float32), "Acc")
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    for number in range(8):
        part = kernel.op(f"spirv.CompositeExtract {matrix}[{number} : i32] : {coop()}")
        part = kernel.op(f"spirv.FAdd {part}, {part} : f32")
        matrix = kernel.op(
            f"spirv.CompositeInsert {part}, {matrix}[{number} : i32] : f32 into {coop()}"
        )
    store(kernel, out, matrix)
    clean(kernel, **EIGHT)
    assert kernel.buffers[out][2].tolist() == [2.0 * n for n in range(64)]


def total(kernel: Kernel, use: str) -> None:
    """Adds code that sums all elements of a 16x16 matrix: each invocation sums its components."""
    matrix = f"!spirv.coopmatrix<16x16xi8, Subgroup, Matrix{use}>"
    data = kernel.buffer("i8", np.arange(256, dtype=np.int8) % 3)
    pointer, stride = kernel.pointer(data, "%zero"), kernel.constant(16)
    loaded = kernel.op(
        f"{OPS}Load {pointer}, {stride}, <RowMajor> : !spirv.ptr<i8, StorageBuffer>, i32 "
        f"-> {matrix}"
    )
    variable = kernel.op(f"spirv.Variable : !spirv.ptr<{matrix}, Function>")
    kernel(f'spirv.Store "Function" {variable}, {loaded} : {matrix}')
    length = kernel.op(f"{OPS}Length : {matrix}")
    own = kernel.name()
    kernel(f"""
      {own} = spirv.mlir.loop -> i32 {{
        spirv.Branch ^header(%zero, %zero : i32, i32)
      ^header(%i: i32, %sum: i32):
        %more = spirv.SLessThan %i, {length} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %p = spirv.AccessChain {variable}[%i] : !spirv.ptr<{matrix}, Function>, i32
          -> !spirv.ptr<i8, Function>
        %part = spirv.Load "Function" %p : i8
        %wide = spirv.SConvert %part : i8 to i32
        %added = spirv.IAdd %sum, %wide : i32
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^continue
      ^continue:
        spirv.Branch ^header(%next, %added : i32, i32)
      ^merge:
        spirv.mlir.merge %sum : i32
      }}""")
    whole = kernel.op(f"spirv.GroupNonUniformIAdd <Subgroup> <Reduce> {own} : i32 -> i32")
    kernel.store(kernel.buffer("i32", np.zeros(32, np.int32)), whole)


@pytest.mark.bug("a kernel that assumes that only one invocation holds a component",
                 rule="CHOICE-01", op=f"{OPS}Length")  # fmt: skip
def test_components_that_several_invocations_hold(kernel: Kernel, find: Find) -> None:
    """RDNA 3 stores each component of A in two invocations."""
    total(kernel, "A")
    assert "amd-rdna3" in find(kernel).message


def test_components_that_one_invocation_holds(kernel: Kernel, clean: Clean) -> None:
    total(kernel, "Acc")
    clean(kernel)
    assert (kernel.buffers[1][2] == kernel.buffers[0][2].sum(dtype=np.int32)).all()


@pytest.mark.parametrize(
    ("size", "use", "lanes", "asks", "expected"),
    [
        ("16x16xf16", "A", 32, True, {"nvidia", "amd-rdna3", "amd-rdna4"}),
        ("16x16xf16", "A", 32, False, {"nvidia", "amd-rdna4"}),
        ("16x16xf32", "Acc", 64, False, {"amd-rdna3", "amd-rdna4"}),
        ("8x16xf16", "A", 16, False, {"intel-xe2"}),
        ("32x16xi8", "B", 16, False, {"intel-xe2"}),
        ("8x8xf32", "Acc", 8, True, set()),
    ],
)
def test_only_maps_of_devices_with_such_matrices_are_tried(
    size: str, use: str, lanes: int, asks: bool, expected: set[str], parse: Parse
) -> None:
    matrix = f"!spirv.coopmatrix<{size}, Subgroup, Matrix{use}>"
    length = f"%n = {OPS}Length : {matrix}" if asks else ""
    module = parse(f"""
      spirv.module Logical Vulkan {{
        spirv.func @main() "None" {{
          %m = spirv.ConstantNull : {matrix}
          {length}
          spirv.Return
        }}
      }}""")
    found = mappings_of([module], lanes)
    assert set(found) == {"row-major", "column-major", "opaque"} | expected


def product(kernel: Kernel, rng: np.random.Generator) -> tuple[str, Array]:
    """
    Adds a product whose last bits depend on the summation order. Returns the product's name, and
    the exact result in binary64.
    """
    a, b = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    first, second = load(kernel, a, "A"), load(kernel, b, "B")
    zero = kernel.op(f"spirv.Constant dense<1.0> : {coop()}")
    types = f"{coop('A')}, {coop('B')} -> {coop()}"
    result = kernel.op(f"{MULADD} {first}, {second}, {zero} : {types}")
    wide = a.reshape(8, 8).astype(np.float64) @ b.reshape(8, 8).astype(np.float64) + 1
    return result, wide


@pytest.mark.bug("a comparison that depends on the last bits of a sum", rule="CHOICE-02", op=MULADD)
def test_order(kernel: Kernel, find: Find, rng: np.random.Generator) -> None:
    matrix, wide = product(kernel, rng)
    sums, exact = (kernel.buffer("f32", np.zeros(64, np.float32)) for _ in range(2))
    kernel.buffers[exact][2][:] = wide.astype(np.float32).reshape(-1)
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    store(kernel, sums, matrix, ", <NonPrivatePointer>")
    kernel(BARRIER)
    for row in range(8):
        eight = kernel.constant(8 * row)
        index = kernel.op(f"spirv.IAdd %lane, {eight} : i32")
        pointer = kernel.pointer(sums, index)
        value = kernel.op(f'spirv.Load "StorageBuffer" {pointer} {SHARED} : f32')
        same = kernel.op(f"spirv.FOrdEqual {value}, {kernel.load(exact, index)} : f32")
        kernel.store(out, kernel.op(f"spirv.Select {same}, %one, %zero : i1, i32"), index)
    find(kernel, **EIGHT)


@pytest.mark.bug(
    "the last bits of a sum, stored through an untyped pointer", rule="CHOICE-02", op=MULADD
)
def test_order_through_untyped_pointers(
    kernel: Kernel, find: Find, rng: np.random.Generator
) -> None:
    """The bytes of a float are stored and read as an integer."""
    matrix, _ = product(kernel, rng)
    raw = "!spirv.untyped_ptr<StorageBuffer>"
    array = "!spirv.struct<(!spirv.rtarray<i32, stride=4> [0]), Block>"
    number = len(kernel.buffers)
    kernel.globals.append(f"spirv.KHR.UntypedGlobalVariable @raw {array} bind(0, {number}) : {raw}")
    kernel.buffers.append(("", "i32", np.zeros(64, np.int32)))
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    base, eight = kernel.op(f"spirv.mlir.addressof @raw : {raw}"), kernel.constant(8)
    start = kernel.op(
        f"spirv.KHR.UntypedAccessChain {array}, {base}[%zero, %zero] : {raw}, i32, i32 -> {raw}"
    )
    kernel(
        f"{OPS}Store {start}, {matrix}, {eight}, <RowMajor>, <NonPrivatePointer> "
        f": {raw}, {coop()}, i32"
    )
    kernel(BARRIER)
    for row in range(8):
        index = kernel.op(f"spirv.IAdd %lane, {kernel.constant(8 * row)} : i32")
        place = kernel.op(
            f"spirv.KHR.UntypedAccessChain {array}, {base}[%zero, {index}] : {raw}, i32, i32 -> "
            f"{raw}"
        )
        value = kernel.op(f"spirv.Load {place} {SHARED} : {raw} -> i32")
        kernel.store(out, value, index)
    find(kernel, **EIGHT)


def test_last_bits_are_within_the_interval(
    kernel: Kernel, clean: Clean, rng: np.random.Generator
) -> None:
    matrix, _ = product(kernel, rng)
    store(kernel, kernel.buffer("f32", np.zeros(64, np.float32)), matrix)
    clean(kernel, **EIGHT)


@pytest.mark.bug(
    "an integer that depends on the rounding of a bfloat16", rule="CHOICE-03", op="spirv.FConvert"
)
def test_bfloat16(kernel: Kernel, find: Find) -> None:
    source = kernel.buffer("f32", np.full(32, 259.0, np.float32))
    narrow = kernel.op(f"spirv.FConvert {kernel.load(source)} : f32 to bf16")
    wide = kernel.op(f"spirv.FConvert {narrow} : bf16 to f32")
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.store(out, kernel.op(f"spirv.ConvertFToS {wide} : f32 to i32"))
    assert "260 and 258" in find(kernel).values[0]


def test_a_rounded_float_is_within_the_interval(kernel: Kernel, clean: Clean) -> None:
    source = kernel.buffer("f32", np.full(32, 259.0, np.float32))
    narrow = kernel.op(f"spirv.FConvert {kernel.load(source)} : f32 to bf16")
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    kernel.store(out, kernel.op(f"spirv.FConvert {narrow} : bf16 to f32"))
    clean(kernel)


@pytest.mark.bug("a loop that does not end", rule="STEP-01", op="spirv.Branch")
def test_a_loop_that_does_not_end(kernel: Kernel) -> None:
    kernel("""
      spirv.mlir.loop {
        spirv.Branch ^header
      ^header:
        %yes = spirv.Constant true
        spirv.BranchConditional %yes, ^body, ^merge
      ^body:
        spirv.Branch ^continue
      ^continue:
        spirv.Branch ^header
      ^merge:
        spirv.mlir.merge
      }""")
    with pytest.raises(InterpreterError, match="STEP-01: more than 1000 blocks"):
        kernel.run(max_steps=1000)
    with pytest.raises(InterpreterError, match="STEP-01"):
        kernel.run(max_steps=1000, checks=Checks.all())


def test_counters(kernel: Kernel) -> None:
    values = np.array([2**31 - 1, 5, -(2**31), 7] * 8, np.int32)
    value = kernel.load(kernel.buffer("i32", values))
    kernel.op(f"spirv.IAdd {value}, {value} : i32")
    small = kernel.load(kernel.buffer("f32", np.full(32, 1e-30, np.float32)))
    kernel.op(f"spirv.FMul {small}, {small} : f32")
    tiny = kernel.load(kernel.buffer("f32", np.full(32, 1e-20, np.float32)))
    kernel.op(f"spirv.FMul {tiny}, {tiny} : f32")
    zero = kernel.op("spirv.Constant 0.0 : f32")
    kernel.op(f"spirv.FDiv {tiny}, {zero} : f32")
    checks = Checks.of("counters")
    kernel.run(checks=checks)
    counts = [count for count in checks.report.counters.values()]
    assert counts == [{"wrapped": 16}, {"subnormal": 32}, {"infinite": 32}]
