"""Replicated composites, constant data, hints and NV cooperative matrices 2 execute correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

ACCUMULATOR = "!spirv.coopmatrix<4x8xf32, Subgroup, MatrixAcc>"
COMBINE = """
spirv.func @combine(%a: f32, %b: f32) -> f32 "None" {
  %s = spirv.FAdd %a, %b : f32
  spirv.ReturnValue %s : f32
}"""


def matrix(kernel: Kernel, buffer: int, type: str = ACCUMULATOR, stride: int = 8) -> str:
    """
    Adds a load of a row-major matrix from the start of a buffer. Returns the name of the matrix.
    """
    pointer, step = kernel.pointer(buffer, "%zero"), kernel.constant(stride)
    return kernel.op(
        f"spirv.KHR.CooperativeMatrixLoad {pointer}, {step}, <RowMajor> : "
        f"!spirv.ptr<f32, StorageBuffer>, i32 -> {type}"
    )


def put(kernel: Kernel, buffer: int, value: str, type: str, stride: int) -> Kernel:
    """Adds a store of a row-major matrix to the start of a buffer."""
    pointer, step = kernel.pointer(buffer, "%zero"), kernel.constant(stride)
    return kernel(
        f"spirv.KHR.CooperativeMatrixStore {pointer}, {value}, {step}, <RowMajor> : "
        f"!spirv.ptr<f32, StorageBuffer>, {type}, i32"
    )


def test_composites_of_one_repeated_value(kernel: Kernel) -> None:
    kernel.globals += [
        "spirv.SpecConstant @x = 7 : i32",
        "spirv.EXT.SpecConstantCompositeReplicate @v (@x) : vector<2xi32>",
    ]
    data = np.arange(32, dtype=np.int32)
    source = kernel.buffer("i32", data)
    out = kernel.buffer("vector<2xi32>", np.zeros((32, 2), np.int32), 2)
    whole = kernel.op(
        f"spirv.EXT.CompositeConstructReplicate {kernel.load(source)} : i32 -> vector<2xi32>"
    )
    constant = kernel.op("spirv.EXT.ConstantCompositeReplicate [5 : i32] : vector<2xi32>")
    chosen = kernel.op("spirv.mlir.referenceof @v : vector<2xi32>")
    first = kernel.op(f"spirv.IAdd {whole}, {constant} : vector<2xi32>")
    found = kernel.store(out, kernel.op(f"spirv.IAdd {first}, {chosen} : vector<2xi32>")).run()
    assert (found[1] == data[:, None] + 12).all()


def test_a_matrix_of_one_repeated_value(kernel: Kernel) -> None:
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    value = kernel.constant("2.5", "f32")
    filled = kernel.op(f"spirv.EXT.CompositeConstructReplicate {value} : f32 -> {ACCUMULATOR}")
    assert (put(kernel, out, filled, ACCUMULATOR, 8).run()[0] == 2.5).all()


def test_constant_data_lies_as_in_memory(kernel: Kernel) -> None:
    out = kernel.buffer("i16", np.zeros(32, np.int16))
    data = kernel.op("spirv.KHR.ConstantData [65538, 3] : !spirv.array<3 x i16>")
    parts = [
        kernel.op(f"spirv.CompositeExtract {data}[{i} : i32] : !spirv.array<3 x i16>")
        for i in range(3)
    ]
    for place, part in enumerate(parts):
        kernel.store(out, part, kernel.constant(place))
    kernel.intended = {"RACE-01"}
    assert kernel.run()[0][:3].tolist() == [2, 1, 3]


def test_hints_are_the_value(kernel: Kernel) -> None:
    data = np.arange(32, dtype=np.int32)
    source = kernel.buffer("i32", data)
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    value, limit = kernel.load(source), kernel.constant(32)
    kernel("spirv.Nop")
    below = kernel.op(f"spirv.SLessThan {value}, {limit} : i32")
    kernel(f"spirv.KHR.AssumeTrue {below}")
    expected = kernel.op(f"spirv.KHR.Expect {value}, {limit} : i32")
    frozen = kernel.op(f"spirv.KHR.Freeze {expected} : i32")
    assert (kernel.store(out, frozen).run()[1] == data).all()


def test_frozen_poison_is_defined(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.ones(32, np.int32))
    poison = kernel.op("spirv.KHR.Poison : i32")
    frozen = kernel.op(f"spirv.KHR.Freeze {poison} : i32")
    assert (kernel.store(out, frozen).run()[0] == 0).all()


def test_fma_is_rounded_once(kernel: Kernel) -> None:
    x, y, z = (np.full(32, v, np.float32) for v in (1 + 2**-12, 1 + 2**-12, -1 - 2**-11))
    buffers = [kernel.buffer("f32", v) for v in (x, y, z)]
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    operands = ", ".join(kernel.load(b) for b in buffers)
    found = kernel.store(out, kernel.op(f"spirv.KHR.Fma {operands} : f32")).run()
    assert (found[3] == np.float32(2.0**-24)).all()


def reduced(values: Array, how: str) -> Array:
    """Returns reductions of integers, which are exact in any order."""
    if how == "CooperativeMatrixReduce2x2":
        return values.reshape(2, 2, 4, 2).sum(axis=(1, 3))
    axes = {"Row": 1, "Column": 0, "Row|Column": (0, 1)}[how]
    return np.broadcast_to(values.sum(axis=axes, keepdims=True), (4, 8))


@pytest.mark.parametrize("how", ["Row", "Column", "Row|Column", "CooperativeMatrixReduce2x2"])
def test_reductions_combine_rows_columns_and_squares(
    kernel: Kernel, rng: np.random.Generator, how: str
) -> None:
    data = rng.integers(-50, 50, (4, 8)).astype(np.float32)
    small = how == "CooperativeMatrixReduce2x2"
    type = ACCUMULATOR.replace("4x8", "2x4") if small else ACCUMULATOR
    kernel.functions.append(COMBINE)
    source = kernel.buffer("f32", data.reshape(-1).copy())
    out = kernel.buffer("f32", np.zeros(8 if small else 32, np.float32))
    sums = kernel.op(
        f"spirv.NV.CooperativeMatrixReduce <{how}> {matrix(kernel, source)}, @combine : "
        f"{ACCUMULATOR} -> {type}"
    )
    found = put(kernel, out, sums, type, 4 if small else 8).run()
    assert (found[1] == reduced(data, how).reshape(-1)).all()


def test_a_function_of_every_component_and_its_place(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    data = rng.integers(-50, 50, (4, 8)).astype(np.float32)
    kernel.functions.append("""
spirv.func @each(%row: i32, %column: i32, %x: f32, %scale: f32) -> f32 "None" {
  %ten = spirv.Constant 10 : i32
  %tens = spirv.IMul %row, %ten : i32
  %place = spirv.IAdd %tens, %column : i32
  %p = spirv.ConvertSToF %place : i32 to f32
  %zero = spirv.Constant 0.0 : f32
  %up = spirv.FOrdGreaterThan %x, %zero : f32
  %r = spirv.mlir.selection -> f32 {
    spirv.BranchConditional %up, ^yes, ^merge(%zero : f32)
  ^yes:
    %s = spirv.FMul %x, %scale : f32
    %t = spirv.FAdd %s, %p : f32
    spirv.Branch ^merge(%t : f32)
  ^merge(%v: f32):
    spirv.mlir.merge %v : f32
  }
  spirv.ReturnValue %r : f32
}""")
    source = kernel.buffer("f32", data.reshape(-1).copy())
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    scale = kernel.constant("3.0", "f32")
    mapped = kernel.op(
        f"spirv.NV.CooperativeMatrixPerElementOp {matrix(kernel, source)}, @each({scale}) : "
        f"{ACCUMULATOR}, f32 -> {ACCUMULATOR}"
    )
    found = put(kernel, out, mapped, ACCUMULATOR, 8).run()
    place = np.arange(4)[:, None] * 10 + np.arange(8)
    assert (found[1] == np.where(data > 0, data * 3 + place, 0).reshape(-1)).all()


def test_a_function_sees_the_component_of_another_matrix(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    """glslang adds the matrix as an argument of `coopMatPerElementNV`."""
    data, other = (rng.integers(-50, 50, (4, 8)).astype(np.float32) for _ in range(2))
    kernel.functions.append("""
spirv.func @each(%row: i32, %column: i32, %x: f32, %y: f32) -> f32 "None" {
  %r = spirv.FSub %x, %y : f32
  spirv.ReturnValue %r : f32
}""")
    source, beside = (kernel.buffer("f32", x.reshape(-1).copy()) for x in (data, other))
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    mapped = kernel.op(
        f"spirv.NV.CooperativeMatrixPerElementOp {matrix(kernel, source)}, "
        f"@each({matrix(kernel, beside)}) : {ACCUMULATOR}, {ACCUMULATOR} -> {ACCUMULATOR}"
    )
    found = put(kernel, out, mapped, ACCUMULATOR, 8).run()
    assert (found[2] == (data - other).reshape(-1)).all()


def test_accumulators_become_operands(kernel: Kernel, rng: np.random.Generator) -> None:
    data = rng.integers(-50, 50, (4, 8)).astype(np.float32)
    source = kernel.buffer("f32", data.reshape(-1).copy())
    out, same = (kernel.buffer("f32", np.zeros(32, np.float32)) for _ in range(2))
    loaded = matrix(kernel, source)
    turned = "!spirv.coopmatrix<8x4xf32, Subgroup, MatrixB>"
    operand = ACCUMULATOR.replace("MatrixAcc", "MatrixA")
    transposed = kernel.op(
        f"spirv.NV.CooperativeMatrixTranspose {loaded} : {ACCUMULATOR} to {turned}"
    )
    converted = kernel.op(
        f"spirv.NV.CooperativeMatrixConvert {loaded} : {ACCUMULATOR} to {operand}"
    )
    put(kernel, out, transposed, turned, 4)
    found = put(kernel, same, converted, operand, 8).run()
    assert (found[1] == data.T.reshape(-1)).all()
    assert (found[2] == data.reshape(-1)).all()


def test_coordinates_are_those_of_the_component(kernel: Kernel) -> None:
    data = np.arange(32, dtype=np.float32)
    source = kernel.buffer("f32", data)
    out = kernel.buffer("vector<2xi32>", np.zeros((32, 2), np.int32), 2)
    held = kernel.buffer("f32", np.zeros(32, np.float32))
    loaded = matrix(kernel, source)
    place = kernel.op(
        f"spirv.EXT.CooperativeMatrixGetCoordinate {loaded}, %zero : {ACCUMULATOR}, i32 -> "
        "vector<2xi32>"
    )
    component = kernel.op(f"spirv.CompositeExtract {loaded}[0 : i32] : {ACCUMULATOR}")
    kernel.store(out, place)
    kernel.store(held, component)
    kernel.intended = None
    found = kernel.run(component_mapping="opaque")
    assert (found[1] @ (8, 1) == found[2]).all()
    assert sorted(found[2].tolist()) == data.tolist()


STRUCT = "!spirv.struct<(i32 [0], !spirv.rtarray<i32, stride=4> [4])>"


def test_untyped_pointers_are_read_as_the_access_says(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    data = rng.integers(-(2**31), 2**31, 32).astype(np.int32)
    source = kernel.buffer("i32", data)
    halves = kernel.buffer("i16", np.zeros(32, np.int16))
    length = kernel.buffer("i32", np.zeros(32, np.int32))
    pointer = "!spirv.untyped_ptr<StorageBuffer>"
    kernel.globals.append(f"spirv.KHR.UntypedGlobalVariable @raw {STRUCT} bind(0, 3) : {pointer}")
    target = np.zeros(33, np.int32)
    kernel.buffers.append(("", "i32", target))
    raw = kernel.op(f"spirv.mlir.addressof @raw : {pointer}")
    place = kernel.op(
        f"spirv.KHR.UntypedAccessChain {STRUCT}, {raw}[%one, %id] : {pointer}, i32, i32 -> "
        f"{pointer}"
    )
    kernel(f"spirv.Store {place}, {kernel.load(source)} : {pointer}, i32")
    low = kernel.op(f"spirv.Load {place} : {pointer} -> i16")
    count = kernel.op(f"spirv.KHR.UntypedArrayLength {STRUCT}, {raw}[1] : {pointer} -> i32")
    kernel.store(halves, low)
    kernel.store(length, count)
    found = kernel.run()
    assert (found[3] == [0, *data]).all()
    assert (found[1] == data.astype(np.int16)).all()
    assert (found[2] == 32).all()
