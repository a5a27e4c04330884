"""Workgroup memory, layouts, access chains, variables and bounds behave as specified."""

from __future__ import annotations

import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.interpreter import InterpreterError, MemoryBudget, Options, dispatch
from xdsl_spirv.serialization.encode.target import find_module

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel, Parse


@pytest.mark.parametrize("budget", [1, 1 << 26])
def test_workgroups_have_separate_workgroup_memory(kernel: Kernel, budget: int) -> None:
    """A workgroup reads only its own writes to Workgroup memory."""
    kernel.globals.append(
        "spirv.GlobalVariable @tile : !spirv.ptr<!spirv.array<64 x i32>, Workgroup>"
    )
    out = kernel.buffer("i32", np.zeros(256, np.int32))
    type = "!spirv.ptr<!spirv.array<64 x i32>, Workgroup>"
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    part = "!spirv.ptr<i32, Workgroup>"
    mine = kernel.op(f"spirv.AccessChain {tile}[%local] : {type}, i32 -> {part}")
    kernel(f'spirv.Store "Workgroup" {mine}, %id ["NonPrivatePointer"] : i32')
    semantics = "AcquireRelease|WorkgroupMemory|MakeAvailable|MakeVisible"
    kernel(f"spirv.ControlBarrier <Workgroup>, <Workgroup>, <{semantics}>")
    index = kernel.op(f"spirv.ISub {kernel.constant(63)}, %local : i32")
    other = kernel.op(f"spirv.AccessChain {tile}[{index}] : {type}, i32 -> {part}")
    value = kernel.op(f'spirv.Load "Workgroup" {other} ["NonPrivatePointer"] : i32')
    kernel.store(out, value)
    (found,) = kernel.run((4, 1, 1), (64, 1, 1), 16, memory=MemoryBudget(budget))
    assert found.reshape(4, 64).tolist() == [[64 * g + 63 - i for i in range(64)] for g in range(4)]


def test_unwritten_workgroup_memory_is_nan(kernel: Kernel) -> None:
    type = "!spirv.ptr<!spirv.array<4 x f32>, Workgroup>"
    kernel.globals.append(f"spirv.GlobalVariable @tile : {type}")
    out = kernel.buffer("f32", np.zeros(32, np.float32))
    tile = kernel.op(f"spirv.mlir.addressof @tile : {type}")
    part = kernel.op(f"spirv.AccessChain {tile}[%one] : {type}, i32 -> !spirv.ptr<f32, Workgroup>")
    kernel.store(out, kernel.op(f'spirv.Load "Workgroup" {part} : f32'))
    kernel.intended = {"UNDEF-01"}
    assert np.isnan(kernel.run()[0]).all()


STRUCT = (
    "!spirv.struct<(f32 [0], vector<3xi16> [8], !spirv.array<2 x f64, stride=16> [16], i8 [44])>"
)


def test_offsets_and_strides_of_a_struct(kernel: Kernel) -> None:
    stride = 48
    rows = [(i / 4, [i, -i, 7], [i * 0.5, i * 2.0], i) for i in range(32)]
    data = bytearray(32 * stride)
    for i, (a, b, c, d) in enumerate(rows):
        struct.pack_into("<f4x3h2xd8xd4xb", data, i * stride, a, *b, *c, d)
    array = np.frombuffer(data, np.uint8)
    source = kernel.buffer(STRUCT, array)
    kernel.buffers[source] = (
        f"!spirv.ptr<!spirv.struct<(!spirv.rtarray<{STRUCT}, stride=48> [0]), Block>"
        ", StorageBuffer>",
        STRUCT,
        array,
    )
    whole = kernel.load(source)
    out = kernel.buffer("f64", np.zeros(32))
    parts = [
        kernel.op(f"spirv.CompositeExtract {whole}[{path}] : {STRUCT}")
        for path in ("0 : i32", "1 : i32, 1 : i32", "2 : i32, 1 : i32", "3 : i32")
    ]
    wide = [
        kernel.op(f"spirv.FConvert {parts[0]} : f32 to f64"),
        kernel.op(f"spirv.ConvertSToF {parts[1]} : i16 to f64"),
        parts[2],
        kernel.op(f"spirv.ConvertSToF {parts[3]} : i8 to f64"),
    ]
    total = wide[0]
    for part in wide[1:]:
        total = kernel.op(f"spirv.FAdd {total}, {part} : f64")
    kernel.store(out, total)
    pointer = kernel.pointer(source)
    base = f"!spirv.ptr<{STRUCT}, StorageBuffer>"
    two = kernel.constant(2)
    second = kernel.op(
        f"spirv.AccessChain {pointer}[{two}, %one] : {base}, i32, i32"
        " -> !spirv.ptr<f64, StorageBuffer>"
    )
    kernel(f'spirv.Store "StorageBuffer" {second}, {kernel.constant("-1.0", "f64")} : f64')
    kernel.run()
    assert kernel.buffers[out][2].tolist() == [a + b[1] + c[1] + d for a, b, c, d in rows]
    for i, (a, b, c, d) in enumerate(rows):
        expected = (a, *b, c[0], -1.0, d)
        assert struct.unpack_from("<f4x3h2xd8xd4xb", array.tobytes(), i * stride) == expected


def test_vectors_at_aligned_and_unaligned_places(kernel: Kernel) -> None:
    """vector<4xi32> moves as one element at stride 16, and by component at stride 4."""
    data = np.arange(256, dtype=np.int32)
    a = kernel.buffer("vector<4xi32>", data.copy(), 4)
    out = kernel.buffer("vector<4xi32>", np.zeros(128, np.int32), 4)
    odd = np.zeros(256, np.int32)
    b = kernel.buffer("vector<4xi32>", odd, 1)
    value = kernel.load(a)
    kernel.store(out, value)
    kernel.store(b, value, kernel.op(f"spirv.IMul %id, {kernel.constant(5)} : i32"))
    kernel.run()
    assert (kernel.buffers[out][2] == data[:128]).all()
    assert (odd[:160].reshape(32, 5)[:, :4] == data[:128].reshape(32, 4)).all()
    assert (odd[:160].reshape(32, 5)[:, 4] == 0).all()


def test_lanes_have_separate_function_arrays(kernel: Kernel) -> None:
    type = "!spirv.ptr<!spirv.array<8 x i32>, Function>"
    part = "!spirv.ptr<i32, Function>"
    out = kernel.buffer("i32", np.zeros(32, np.int32))
    array = kernel.op(f"spirv.Variable : {type}")
    eight = kernel.constant(8)
    slot = kernel.op(f"spirv.UMod %lane, {eight} : i32")
    kernel(f"""
      spirv.mlir.loop {{
        spirv.Branch ^header(%zero : i32)
      ^header(%i: i32):
        %more = spirv.SLessThan %i, {eight} : i32
        spirv.BranchConditional %more, ^body, ^merge
      ^body:
        %p = spirv.AccessChain {array}[%i] : {type}, i32 -> {part}
        %v = spirv.IMul %i, %lane : i32
        spirv.Store "Function" %p, %v : i32
        %next = spirv.IAdd %i, %one : i32
        spirv.Branch ^header(%next : i32)
      ^merge:
        spirv.mlir.merge
      }}""")
    mine = kernel.op(f"spirv.AccessChain {array}[{slot}] : {type}, i32 -> {part}")
    kernel(f'spirv.Store "Function" {mine}, %one : i32')
    three = kernel.op(f"spirv.AccessChain {array}[{kernel.constant(3)}] : {type}, i32 -> {part}")
    kernel.store(out, kernel.op(f'spirv.Load "Function" {three} : i32'))
    assert kernel.run()[0].tolist() == [1 if i % 8 == 3 else 3 * i for i in range(32)]


def test_stores_under_a_mask_leave_the_others_alone(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.full(32, -1, np.int32))
    shared = kernel.buffer("i32", np.full(4, -1, np.int32))
    variable = kernel.op("spirv.Variable : !spirv.ptr<i32, Function>")
    kernel(f'spirv.Store "Function" {variable}, %lane : i32')
    pointer, other = kernel.pointer(out), kernel.pointer(shared, "%zero")
    kernel(f"""
      spirv.mlir.selection {{
        %low = spirv.ULessThan %lane, {kernel.constant(5)} : i32
        spirv.BranchConditional %low, ^yes, ^end
      ^yes:
        spirv.Store "Function" {variable}, %zero : i32
        spirv.Store "StorageBuffer" {pointer}, %one : i32
        spirv.Store "StorageBuffer" {other}, %lane : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    last = kernel.buffer("i32", np.zeros(32, np.int32))
    kernel.store(last, kernel.op(f'spirv.Load "Function" {variable} : i32'))
    kernel.intended = {"OVERLAP-01", "RACE-01"}
    kernel.run()
    assert kernel.buffers[out][2].tolist() == [1] * 5 + [-1] * 27
    assert kernel.buffers[shared][2].tolist() == [4, -1, -1, -1]
    assert kernel.buffers[last][2].tolist() == [0] * 5 + list(range(5, 32))


def test_push_constants_spec_constants_and_array_length(kernel: Kernel) -> None:
    type = "!spirv.ptr<!spirv.struct<(i32 [0], f32 [8]), Block>, PushConstant>"
    kernel.globals += [
        f"spirv.GlobalVariable @push : {type}",
        "spirv.SpecConstant @factor spec_id(7) = 3 : i32",
    ]
    out = kernel.buffer("i32", np.zeros(37, np.int32))
    push = kernel.op(f"spirv.mlir.addressof @push : {type}")
    member = kernel.op(
        f"spirv.AccessChain {push}[%one] : {type}, i32 -> !spirv.ptr<f32, PushConstant>"
    )
    value = kernel.op(f'spirv.Load "PushConstant" {member} : f32')
    number = kernel.op(f"spirv.ConvertFToS {value} : f32 to i32")
    factor = kernel.op("spirv.mlir.referenceof @factor : i32")
    product = kernel.op(f"spirv.IMul {number}, {factor} : i32")
    kernel.store(out, product)
    data = struct.pack("<i4xf", 1, 21.5)
    assert kernel.run(push_constants=data)[0].tolist()[:32] == [63] * 32
    assert kernel.run(push_constants=data, spec_constants={7: 2})[0].tolist()[:32] == [42] * 32


@pytest.mark.parametrize("index", [-1, 32, 1 << 30])
def test_an_access_outside_a_buffer_is_refused(kernel: Kernel, index: int) -> None:
    source = kernel.buffer("f32", np.zeros(32, np.float32))
    kernel.load(source, kernel.constant(index))
    with pytest.raises(InterpreterError) as caught:
        kernel.run()
    message = str(caught.value)
    assert f"a load outside the buffer @b0 (set 0, binding 0): element {index} of 32" in message
    assert "at spirv.Load in spirv.func @main" in message


def test_only_active_lanes_are_checked(kernel: Kernel) -> None:
    out = kernel.buffer("i32", np.zeros(4, np.int32))
    pointer = kernel.pointer(out)
    kernel(f"""
      spirv.mlir.selection {{
        %inside = spirv.ULessThan %id, {kernel.constant(4)} : i32
        spirv.BranchConditional %inside, ^yes, ^end
      ^yes:
        spirv.Store "StorageBuffer" {pointer}, %id : i32
        spirv.Branch ^end
      ^end:
        spirv.mlir.merge
      }}""")
    assert kernel.run()[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"spec_constants": {9: 1}}, "no specialization constant with SpecId 9"),
        ({"subgroup_size": 12}, "the subgroup size 12 is not valid"),
        ({"grid": (1, -1, 1)}, r"the grid \(1, -1, 1\) and the workgroup .* must have valid sizes"),
    ],
)
def test_wrong_launches_are_refused(kernel: Kernel, change: dict[str, Any], cause: str) -> None:
    kernel.store(kernel.buffer("i32", np.zeros(32, np.int32)), "%one")
    with pytest.raises(InterpreterError, match=cause):
        kernel.run(**change)


def test_a_launch_keeps_to_its_memory_budget(parse: Parse) -> None:
    """The peak memory without buffers and program exceeds the budget by at most 25 %."""
    module = find_module(parse(cooperative_tiles()))

    def peak(bytes: int) -> int:
        options = Options(subgroup_size=32, memory=MemoryBudget(bytes))
        tracemalloc.start()
        dispatch(module, "main", (groups, 1, 1), dict(buffers), options=options)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    budget, groups = 2, 512
    buffers = {(0, n): np.ones(groups * 256, np.float32) for n in range(2)}
    peak(1 << 20)
    taken = peak(budget << 20) - peak(1 << 14)
    assert budget / 3 < taken / (1 << 20) <= 1.25 * budget


def cooperative_tiles() -> str:
    """Returns a kernel whose subgroups compute A * A + A on 16x16 tiles."""
    array = "!spirv.struct<(!spirv.rtarray<f32, stride=4> [0]), Block>"
    block, element = (f"!spirv.ptr<{t}, StorageBuffer>" for t in (array, "f32"))
    uses = ("A", "B", "Acc")
    tiles = {use: f"!spirv.coopmatrix<16x16xf32, Subgroup, Matrix{use}>" for use in uses}
    load = "spirv.KHR.CooperativeMatrixLoad %p0, %side, <RowMajor>"
    loads = "\n".join(f"%{use} = {load} : {element}, i32 -> {type}" for use, type in tiles.items())
    return f"""spirv.module Logical Vulkan {{
      spirv.GlobalVariable @b0 bind(0, 0) : {block}
      spirv.GlobalVariable @b1 bind(0, 1) : {block}
      spirv.GlobalVariable @group built_in("WorkgroupId") : !spirv.ptr<vector<3xi32>, Input>
      spirv.func @main() "None" {{
        %zero = spirv.Constant 0 : i32
        %side = spirv.Constant 16 : i32
        %size = spirv.Constant 256 : i32
        %gp = spirv.mlir.addressof @group : !spirv.ptr<vector<3xi32>, Input>
        %g = spirv.Load "Input" %gp : vector<3xi32>
        %x = spirv.CompositeExtract %g[0 : i32] : vector<3xi32>
        %at = spirv.IMul %x, %size : i32
        %v0 = spirv.mlir.addressof @b0 : {block}
        %v1 = spirv.mlir.addressof @b1 : {block}
        %p0 = spirv.AccessChain %v0[%zero, %at] : {block}, i32, i32 -> {element}
        %p1 = spirv.AccessChain %v1[%zero, %at] : {block}, i32, i32 -> {element}
        {loads}
        %r = spirv.KHR.CooperativeMatrixMulAdd %A, %B, %Acc : {tiles["A"]}, {tiles["B"]}
          -> {tiles["Acc"]}
        %s = spirv.FAdd %r, %Acc : {tiles["Acc"]}
        spirv.KHR.CooperativeMatrixStore %p1, %s, %side, <RowMajor> : {element}, {tiles["Acc"]}, i32
        spirv.Return
      }}
      spirv.EntryPoint "GLCompute" @main
      spirv.ExecutionMode @main "LocalSize", 32, 1, 1
    }}"""
