"""Cooperative vectors, matrices, dot products and tensors of single vendors execute correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.interpreter import InterpreterError
from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

FLOATS = "!spirv.ptr<f32, StorageBuffer>"
OCTETS = "!spirv.ptr<!spirv.rtarray<i8, stride=1>, StorageBuffer>"
BYTES = "!spirv.struct<(!spirv.rtarray<i8, stride=1> [0]), Block>"


def octets(kernel: Kernel, array: Array) -> str:
    """Adds a buffer with the array's bytes. Returns the pointer to its runtime array."""
    number = len(kernel.buffers)
    type = f"!spirv.ptr<{BYTES}, StorageBuffer>"
    kernel.buffers.append((type, "i8", array.reshape(-1).view(np.int8)))
    base = kernel.op(f"spirv.mlir.addressof @b{number} : {type}")
    return kernel.op(f"spirv.AccessChain {base}[%zero] : {type}, i32 -> {OCTETS}")


def vector(kernel: Kernel, pointer: str, type: str, bytes: int) -> str:
    """Adds a load of this invocation's vector of `bytes` bytes. Returns the name of the vector."""
    at = kernel.op(f"spirv.IMul %id, {kernel.constant(bytes)} : i32")
    return kernel.op(f"spirv.NV.CooperativeVectorLoad {pointer}[{at}] : {OCTETS}, i32 -> {type}")


def keep(kernel: Kernel, pointer: str, value: str, type: str, bytes: int) -> None:
    """Adds a store of this invocation's vector of `bytes` bytes."""
    at = kernel.op(f"spirv.IMul %id, {kernel.constant(bytes)} : i32")
    kernel(f"spirv.NV.CooperativeVectorStore {pointer}[{at}], {value} : {OCTETS}, i32, {type}")


def settings(input: str, matrix: str, m: int, k: int, layout: str, bias: str = "") -> str:
    """Returns the attributes of a product of a matrix and a cooperative vector as text."""
    middle = f"bias_interpretation = {bias}, " if bias else ""
    return (
        f"(input_interpretation = {input}, matrix_interpretation = {matrix}, {middle}m = {m}, "
        f"k = {k}, memory_layout = {layout}, transpose = false)"
    )


@pytest.mark.parametrize("layout", ["RowMajorNV", "ColumnMajorNV"])
def test_a_layer_of_halves(kernel: Kernel, rng: np.random.Generator, layout: str) -> None:
    n, m, k, stride = 64, 6, 10, 48
    x = rng.integers(-3, 4, (n, k)).astype(np.float16)
    weights = rng.integers(-3, 4, (m, k)).astype(np.float16)
    bias = rng.integers(-3, 4, m).astype(np.float16)
    lines = weights if layout == "RowMajorNV" else weights.T
    stored = np.zeros((lines.shape[0], stride // 2), np.float16)
    stored[:, : lines.shape[1]] = lines
    found = np.zeros((n, m), np.float16)
    out, inputs = octets(kernel, found), octets(kernel, x)
    w, b = octets(kernel, stored), octets(kernel, bias)
    given, made = f"!spirv.coopvec<{k} x f16>", f"!spirv.coopvec<{m} x f16>"
    one = vector(kernel, inputs, given, 2 * k)
    twice = kernel.op(f"spirv.FAdd {one}, {one} : {given}")
    step = kernel.constant(stride)
    chosen = settings("Float16NV", "Float16NV", m, k, layout, "Float16NV")
    result = kernel.op(
        f"spirv.NV.CooperativeVectorMatrixMulAdd {twice}, {w}[%zero], {b}[%zero] {chosen} "
        f"stride {step} : {given}, {OCTETS}, i32, {OCTETS}, i32, i32 -> {made}"
    )
    keep(kernel, out, result, made, 2 * m)
    kernel.run((2, 1, 1))
    assert (found == 2 * x @ weights.T + bias).all()


def test_packed_bytes_and_saturation_to_them(kernel: Kernel, rng: np.random.Generator) -> None:
    n, m, k = 32, 5, 8
    weights = rng.integers(-128, 128, (m, k)).astype(np.int8)
    packed = rng.integers(-128, 128, (n, k)).astype(np.int8)
    wide = rng.integers(-300, 300, (n, k)).astype(np.int32)
    outs = [np.zeros((n, m), np.int32) for _ in range(2)]
    places = [octets(kernel, array) for array in (*outs, packed, wide, weights)]
    made, step = f"!spirv.coopvec<{m} x i32>", kernel.constant(k)
    flags = "<MatrixBSignedComponentsKHR|MatrixResultSignedComponentsKHR>"
    for number, (type, bytes, kind) in enumerate(
        [
            (f"!spirv.coopvec<{k // 4} x i32>", k, "SignedInt8PackedNV"),
            (f"!spirv.coopvec<{k} x i32>", 4 * k, "SignedInt8NV"),
        ]
    ):
        x = vector(kernel, places[2 + number], type, bytes)
        chosen = settings(kind, "SignedInt8NV", m, k, "RowMajorNV")
        result = kernel.op(
            f"spirv.NV.CooperativeVectorMatrixMul {x}, {places[4]}[%zero] {chosen} stride {step}, "
            f"{flags} : {type}, {OCTETS}, i32, i32 -> {made}"
        )
        keep(kernel, places[number], result, made, 4 * m)
    kernel.run()
    for out, inputs in zip(outs, (packed, np.clip(wide, -128, 127)), strict=True):
        assert (out == inputs.astype(np.int64) @ weights.T.astype(np.int64)).all()


def test_training_accumulates(kernel: Kernel, rng: np.random.Generator) -> None:
    n, m, k = 32, 3, 4
    a, b = (rng.integers(-3, 4, (n, size)).astype(np.float32) for size in (m, k))
    product, total = np.ones((m, k), np.float32), np.zeros(m, np.float32)
    places = [octets(kernel, array) for array in (a, b, product, total)]
    left, right = f"!spirv.coopvec<{m} x f32>", f"!spirv.coopvec<{k} x f32>"
    x, y = vector(kernel, places[0], left, 4 * m), vector(kernel, places[1], right, 4 * k)
    kernel(
        f"spirv.NV.CooperativeVectorOuterProductAccumulate {places[2]}[%zero], {x}, {y} "
        f"(memory_layout = RowMajorNV, matrix_interpretation = Float32NV) "
        f"stride {kernel.constant(4 * k)} : {OCTETS}, i32, {left}, {right}, i32"
    )
    kernel(
        f"spirv.NV.CooperativeVectorReduceSumAccumulate {places[3]}[%zero], {x} : "
        f"{OCTETS}, i32, {left}"
    )
    kernel.run()
    assert (product == a.T @ b + 1).all()
    assert (total == a.sum(0)).all()


@pytest.mark.parametrize(
    ("element", "dtype"), [("f16", np.float16), ("si8", np.int8), ("i8", np.uint8)]
)
def test_matrices_of_the_older_extension(
    kernel: Kernel, rng: np.random.Generator, element: str, dtype: DTypeLike
) -> None:
    wide = np.float32 if element == "f16" else np.int32
    sum = "f32" if element == "f16" else element[:-1] + "32"
    low = 0 if element == "i8" else -9
    a, b = (rng.integers(low, 9 if low else 255, (8, 8)).astype(dtype) for _ in range(2))
    c = rng.integers(-9, 9, (8, 8)).astype(wide)
    buffers = [
        kernel.buffer(t, x.reshape(-1)) for t, x in ((element, a), (element, b.T.copy()), (sum, c))
    ]
    out = kernel.buffer(sum, np.zeros(64, wide))
    eight = kernel.constant(8)
    rows, columns = (kernel.op(f"spirv.Constant {v}") for v in ("false", "true"))
    types = [f"!spirv.NV.coopmatrix<8x8x{t}, Subgroup>" for t in (element, element, sum)]
    loads = [
        kernel.op(
            f"spirv.NV.CooperativeMatrixLoad {kernel.pointer(buffer, '%zero')}, {eight}, {major} "
            f": !spirv.ptr<{t}, StorageBuffer>, i32, i1 -> {type}"
        )
        for buffer, major, t, type in zip(
            buffers, (rows, columns, rows), (element, element, sum), types, strict=True
        )
    ]
    d = kernel.op(
        f"spirv.NV.CooperativeMatrixMulAdd {', '.join(loads)} : "
        f"{types[0]}, {types[1]} -> {types[2]}"
    )
    kernel(
        f"spirv.NV.CooperativeMatrixStore {kernel.pointer(out, '%zero')}, {d}, {eight}, {rows} : "
        f"!spirv.ptr<{sum}, StorageBuffer>, {types[2]}, i32, i1"
    )
    found = kernel.run()[out].reshape(8, 8)
    assert (found == a.astype(np.int64) @ b.astype(np.int64) + c).all()


@pytest.mark.parametrize(
    ("name", "vector_type", "result", "dtype"),
    [
        ("FDot2MixAcc32", "vector<2xf16>", "f32", np.float16),
        ("FDot2MixAcc32", "vector<2xbf16>", "f32", ml_dtypes.bfloat16),
        ("FDot2MixAcc16", "vector<2xf16>", "f16", np.float16),
        ("FDot4MixAcc32", "vector<4xf8E4M3FN>", "f32", ml_dtypes.float8_e4m3fn),
    ],
)
def test_mixed_dot_products(
    kernel: Kernel,
    rng: np.random.Generator,
    name: str,
    vector_type: str,
    result: str,
    dtype: DTypeLike,
) -> None:
    parts = 4 if "Dot4" in name else 2
    a, b = (rng.integers(-8, 8, (64, parts)).astype(dtype) for _ in range(2))
    c = rng.integers(-8, 8, 64).astype(np.float32 if result == "f32" else dtype)
    x, y = (kernel.buffer(vector_type, array, parts) for array in (a, b))
    z, out = kernel.buffer(result, c), kernel.buffer(result, np.zeros_like(c))
    value = kernel.op(
        f"spirv.VALVE.{name} {kernel.load(x)}, {kernel.load(y)}, {kernel.load(z)} : "
        f"{vector_type} -> {result}"
    )
    found = kernel.store(out, value).run((2, 1, 1))[out]
    exact = (a.astype(np.float64) * b.astype(np.float64)).sum(1) + c
    assert (found == exact).all()


def test_rows_of_matrices_as_arrays(kernel: Kernel, rng: np.random.Generator) -> None:
    data = rng.integers(-99, 99, (32, 16)).astype(np.float16)
    words = "!spirv.array<8 x i32>"
    plain, part = "!spirv.array<16 x f16>", "!spirv.array<4 x f16>"
    matrix = "!spirv.coopmatrix<16x16xf16, Subgroup, MatrixA>"
    source = kernel.buffer("vector<4xf16>", data.reshape(-1), 4)
    out = kernel.buffer("vector<4xf16>", np.zeros((32, 4), np.float16), 4)
    pieces: list[str] = []
    for n in range(4):
        at = kernel.op(f"spirv.IMul %id, {kernel.constant(4)} : i32")
        at = kernel.op(f"spirv.IAdd {at}, {kernel.constant(n)} : i32")
        loaded = kernel.load(source, at)
        pieces += [
            kernel.op(f"spirv.CompositeExtract {loaded}[{c} : i32] : vector<4xf16>")
            for c in range(4)
        ]
    types = ", ".join(["f16"] * 16)
    row = kernel.op(f"spirv.CompositeConstruct {', '.join(pieces)} : ({types}) -> {plain}")
    made = kernel.op(f"spirv.QCOM.CompositeConstructCoopMat {row} : {plain} to {matrix}")
    twice = kernel.op(f"spirv.FAdd {made}, {made} : {matrix}")
    back = kernel.op(f"spirv.QCOM.CompositeExtractCoopMat {twice} : {matrix} to {words}")
    halves = kernel.op(f"spirv.QCOM.BitCastArray {back} : {words} to {plain}")
    last = kernel.op(
        f"spirv.QCOM.ExtractSubArray {halves}[{kernel.constant(12)}] : {plain}, i32 -> {part}"
    )
    final = [kernel.op(f"spirv.CompositeExtract {last}[{c} : i32] : {part}") for c in range(4)]
    four = kernel.op(
        f"spirv.CompositeConstruct {', '.join(final)} : (f16, f16, f16, f16) -> vector<4xf16>"
    )
    found = kernel.store(out, four).run((1, 1, 1), (32, 1, 1), 32)[out]
    assert (found[:16] == 2 * data[:16, 12:]).all()
    assert (found[16:] == 0).all()


def test_bfloat16_into_f32(kernel: Kernel, rng: np.random.Generator) -> None:
    x, y = (rng.standard_normal(64).astype(ml_dtypes.bfloat16) for _ in range(2))
    z = rng.standard_normal(64).astype(np.float32)
    buffers = [kernel.buffer("bf16", x), kernel.buffer("bf16", y), kernel.buffer("f32", z)]
    out = kernel.buffer("f32", np.zeros(64, np.float32))
    given = ", ".join(kernel.load(buffer) for buffer in buffers)
    value = kernel.op(f"spirv.QCOM.BFloat16MulAdd {given} : bf16 -> f32")
    found = kernel.store(out, value).run((2, 1, 1))[out]
    assert (found == (x.astype(np.float64) * y.astype(np.float64) + z).astype(np.float32)).all()


TENSOR = "!spirv.arm.tensor<?x?xf32>"
AT = "!spirv.array<2 x i32>"


def tensor(kernel: Kernel, array: Array) -> str:
    number = len(kernel.buffers)
    pointer = f"!spirv.ptr<{TENSOR}, UniformConstant>"
    kernel.globals.append(f"spirv.GlobalVariable @t{number} bind(0, {number}) : {pointer}")
    kernel.buffers.append(("", "f32", array))
    base = kernel.op(f"spirv.mlir.addressof @t{number} : {pointer}")
    return kernel.op(f'spirv.Load "UniformConstant" {base} : {TENSOR}')


def test_tensors_are_read_and_written(kernel: Kernel, rng: np.random.Generator) -> None:
    """A read returns the next two elements of a row. Elements out of bounds are 5.0."""
    data = rng.standard_normal((4, 9)).astype(np.float32)
    made = np.zeros((4, 9), np.float32)
    source, target = tensor(kernel, data), tensor(kernel, made)
    sizes = kernel.buffer("i32", np.zeros(36, np.int32))
    nine = kernel.op(f"spirv.ARM.TensorQuerySize {source}[%one] : {TENSOR}, i32 -> i32")
    row, column = (kernel.op(f"spirv.{op} %id, {nine} : i32") for op in ("UDiv", "UMod"))
    right = kernel.op(f"spirv.IAdd {column}, %one : i32")
    here, there = (
        kernel.op(f"spirv.CompositeConstruct {row}, {c} : (i32, i32) -> {AT}")
        for c in (column, right)
    )
    five, two = kernel.constant("5.0", "f32"), "!spirv.array<2 x f32>"
    run = kernel.op(
        f"spirv.ARM.TensorRead {source}[{there}], <OutOfBoundsValueARM> "
        f"outside({five}) : {TENSOR}, {AT}, f32 -> {two}"
    )
    parts = [kernel.op(f"spirv.CompositeExtract {run}[{n} : i32] : {two}") for n in range(2)]
    total = kernel.op(f"spirv.FAdd {parts[0]}, {parts[1]} : f32")
    kernel(f"spirv.ARM.TensorWrite {target}[{here}], {total} : {TENSOR}, {AT}, f32")
    kernel.store(sizes, nine).run((3, 1, 1), (12, 1, 1))
    padded = np.pad(data, [(0, 0), (0, 2)], constant_values=5)
    assert (made == padded[:, 1:10] + padded[:, 2:11]).all()
    assert (kernel.buffers[sizes][2] == 9).all()


def test_a_tensor_of_another_rank_is_refused(kernel: Kernel) -> None:
    tensor(kernel, np.zeros(4, np.float32))
    with pytest.raises(InterpreterError, match="an array of shape \\(4,\\) is given"):
        kernel.run()
