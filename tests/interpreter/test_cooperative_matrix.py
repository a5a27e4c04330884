"""CM-13, CM-18, CM-23, CM-25: cooperative matrices agree with Python's exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.interpreter import InterpreterError

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

OPS = "spirv.KHR.CooperativeMatrix"


def coop(rows: int, columns: int, element: str, use: str, scope: str = "Subgroup") -> str:
    return f"!spirv.coopmatrix<{rows}x{columns}x{element}, {scope}, Matrix{use}>"


def load(kernel: Kernel, buffer: int, type: str, stride: int, start: str, layout: str) -> str:
    """Adds a cooperative load from element `start` of a buffer."""
    element = kernel.buffers[buffer][1]
    pointer = kernel.pointer(buffer, start)
    return kernel.op(
        f"{OPS}Load {pointer}, {kernel.constant(stride)}, <{layout}> "
        f": !spirv.ptr<{element}, StorageBuffer>, i32 -> {type}"
    )


def store(
    kernel: Kernel, buffer: int, matrix: str, type: str, stride: int, start: str, layout: str
) -> None:
    """Adds a cooperative store to element `start` of a buffer."""
    element = kernel.buffers[buffer][1]
    pointer = kernel.pointer(buffer, start)
    kernel(
        f"{OPS}Store {pointer}, {matrix}, {kernel.constant(stride)}, <{layout}> "
        f": !spirv.ptr<{element}, StorageBuffer>, {type}, i32"
    )


@pytest.mark.parametrize("layout", ["RowMajor", "ColumnMajor"])
@pytest.mark.parametrize(
    ("pointee", "components"), [("f16", 1), ("vector<4xf16>", 4), ("vector<2xi32>", 4)]
)
def test_cm_13_the_stride_counts_elements_of_the_pointee(
    kernel: Kernel, layout: str, pointee: str, components: int
) -> None:
    data = np.arange(512, dtype=np.float16)
    parts = 2 if "i32" in pointee else components
    source = kernel.buffer(pointee, data.view(np.int32).copy() if "i32" in pointee else data, parts)
    out = kernel.buffer("f16", np.zeros(64, np.float16))
    type = coop(8, 8, "f16", "A")
    stride, first = 16 // components, 4 // components
    kernel.intended = {"ALIGN-03"}  # The first row begins at 8 bytes.
    matrix = load(kernel, source, type, stride, kernel.constant(first), layout)
    store(kernel, out, matrix, type, 8, "%zero", "RowMajor")
    found = kernel.run(subgroup_size=8, local=(8, 1, 1))[1].reshape(8, 8)
    lines = np.array([[4 + 16 * i + j for j in range(8)] for i in range(8)])
    assert (found == (lines if layout == "RowMajor" else lines.T)).all()


def test_cm_13_every_subgroup_has_its_own_matrix(kernel: Kernel) -> None:
    data = np.arange(8 * 64, dtype=np.int32)
    source = kernel.buffer("i32", data.copy())
    out = kernel.buffer("i32", np.zeros_like(data))
    type = coop(8, 8, "i32", "Acc")
    tiles = kernel.op(f"spirv.IMul %group, {kernel.constant(4)} : i32")
    tile = kernel.op(f"spirv.IAdd {tiles}, %subgroup : i32")
    start = kernel.op(f"spirv.IMul {tile}, {kernel.constant(64)} : i32")
    matrix = load(kernel, source, type, 8, start, "RowMajor")
    doubled = kernel.op(f"spirv.IAdd {matrix}, {matrix} : {type}")
    store(kernel, out, doubled, type, 8, start, "RowMajor")
    found = kernel.run((2, 1, 1), (64, 1, 1), 16)[1]
    assert (found == data * 2).all()


def bits(value: int, width: int, sign: bool) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if sign and value >> (width - 1) else value


FLAGS = [
    "",
    "ASigned",
    "BSigned",
    "ASigned|BSigned",
    "ASigned|BSigned|CSigned|ResultSigned",
    "AccSat",
    "ASigned|BSigned|CSigned|ResultSigned|AccSat",
    "ASigned|CSigned|ResultSigned|AccSat",
]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize(("width", "result"), [(8, 32), (8, 8), (16, 32), (32, 32), (16, 64)])
def test_cm_23_integer_muladd_is_exact(
    kernel: Kernel, rng: np.random.Generator, flags: str, width: int, result: int
) -> None:
    m, n, k = 4, 8, 16
    narrow, wide = np.iinfo(f"i{width // 8}"), np.iinfo(f"i{result // 8}")
    a = rng.integers(narrow.min, narrow.max, (m, k), narrow.dtype, endpoint=True)
    b = rng.integers(narrow.min, narrow.max, (k, n), narrow.dtype, endpoint=True)
    c = rng.integers(wide.min, wide.max, (m, n), wide.dtype, endpoint=True)
    saturating = "AccSat" in flags
    if saturating:
        # CM-24: overflow in A*B is undefined, so the products are small.
        a, b = (a & 3).astype(a.dtype), (b & 1).astype(b.dtype)
        c[0], c[1], c[2], c[3] = wide.max, wide.min, wide.max - 5, -1
    types = (
        coop(m, k, f"i{width}", "A"),
        coop(k, n, f"i{width}", "B"),
        coop(m, n, f"i{result}", "Acc"),
    )
    sources = [kernel.buffer(f"i{x.itemsize * 8}", x.reshape(-1).copy()) for x in (a, b, c)]
    out = kernel.buffer(f"i{result}", np.zeros(m * n, wide.dtype))
    values = [
        load(kernel, source, type, stride, "%zero", "RowMajor")
        for source, type, stride in zip(sources, types, (k, n, n), strict=True)
    ]
    operands = f", <{flags}>" if flags else ""
    total = kernel.op(
        f"{OPS}MulAdd {', '.join(values)}{operands} : {types[0]}, {types[1]} -> {types[2]}"
    )
    store(kernel, out, total, types[2], n, "%zero", "RowMajor")
    found = kernel.run(subgroup_size=8, local=(8, 1, 1))[3].reshape(m, n)
    for i in range(m):
        for j in range(n):
            product = sum(
                bits(int(a[i, x]), width, "ASigned" in flags)
                * bits(int(b[x, j]), width, "BSigned" in flags)
                for x in range(k)
            )
            sign = "ResultSigned" in flags
            exact = bits(product, result, sign) + bits(int(c[i, j]), result, "CSigned" in flags)
            if saturating:
                low = -(1 << result - 1) if sign else 0
                exact = min(max(exact, low), (1 << result - sign) - 1)
            assert int(found[i, j]) == bits(exact, result, True), (i, j)


@pytest.mark.parametrize(
    ("element", "accumulator", "dtype"),
    [("f16", "f32", np.float32), ("f16", "f16", np.float16), ("f32", "f32", np.float32),
     ("f64", "f64", np.float64), ("bf16", "f32", np.float32)],
)  # fmt: skip
def test_cm_25_float_muladd_is_within_the_bound(
    kernel: Kernel, rng: np.random.Generator, element: str, accumulator: str, dtype: DTypeLike
) -> None:
    import ml_dtypes

    narrow = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
    m, n, k = 8, 4, 16
    a = rng.standard_normal((m, k)).astype(narrow[element])
    b = rng.standard_normal((k, n)).astype(narrow[element])
    c = rng.standard_normal((m, n)).astype(dtype)
    types = coop(m, k, element, "A"), coop(k, n, element, "B"), coop(m, n, accumulator, "Acc")
    sources = [
        kernel.buffer(element, a.T.copy().reshape(-1)),
        kernel.buffer(element, b.reshape(-1).copy()),
        kernel.buffer(accumulator, c.reshape(-1).copy()),
    ]
    out = kernel.buffer(accumulator, np.zeros(m * n, dtype))
    values = [
        load(kernel, source, type, stride, "%zero", layout)
        for source, type, stride, layout in zip(
            sources, types, (m, n, n), ("ColumnMajor", "RowMajor", "RowMajor"), strict=True
        )
    ]
    total = kernel.op(f"{OPS}MulAdd {', '.join(values)} : {types[0]}, {types[1]} -> {types[2]}")
    store(kernel, out, total, types[2], n, "%zero", "RowMajor")
    found = kernel.run(subgroup_size=8, local=(8, 1, 1))[3].reshape(m, n)
    inner = 2.0**-53 if element == "f64" else 2.0**-24
    unit = float(np.finfo(dtype).eps) / 2
    for i in range(m):
        for j in range(n):
            terms = [Fraction(float(a[i, x])) * Fraction(float(b[x, j])) for x in range(k)]
            terms.append(Fraction(float(c[i, j])))
            size = float(sum(map(abs, terms)))
            bound = (k + 1) * inner * size + unit * abs(float(sum(terms)))
            assert abs(float(Fraction(float(found[i, j])) - sum(terms))) <= bound * 1.0001


def test_cm_25_f16_accumulators_are_rounded_once(kernel: Kernel) -> None:
    # 2048 + 16 ones: an accumulation in binary16 would never leave 2048.
    k = 16
    types = coop(8, k, "f16", "A"), coop(k, 8, "f16", "B"), coop(8, 8, "f16", "Acc")
    out = kernel.buffer("f16", np.zeros(64, np.float16))
    ones = [kernel.op(f"spirv.Constant dense<1.0> : {type}") for type in types[:2]]
    start = kernel.op(f"spirv.Constant dense<2048.0> : {types[2]}")
    total = kernel.op(
        f"{OPS}MulAdd {ones[0]}, {ones[1]}, {start} : {types[0]}, {types[1]} -> {types[2]}"
    )
    store(kernel, out, total, types[2], 8, "%zero", "RowMajor")
    assert (kernel.run(subgroup_size=8, local=(8, 1, 1))[0] == 2064).all()


@pytest.mark.parametrize("mapping", ["row-major", "column-major", "opaque"])
def test_cm_18_components_are_reached_through_the_mapping(kernel: Kernel, mapping: str) -> None:
    type = coop(8, 8, "i32", "Acc")
    data = np.arange(64, dtype=np.int32)
    source = kernel.buffer("i32", data.copy())
    out, parts = (kernel.buffer("i32", np.zeros(64, np.int32)) for _ in range(2))
    matrix = load(kernel, source, type, 8, "%zero", "RowMajor")
    pointer = f"!spirv.ptr<{type}, Function>"
    variable = kernel.op(f"spirv.Variable : {pointer}")
    kernel(f'spirv.Store "Function" {variable}, {matrix} : {type}')
    for index in range(4):
        number = kernel.constant(index)
        part = kernel.op(
            f"spirv.AccessChain {variable}[{number}] : {pointer}, i32 -> !spirv.ptr<i32, Function>"
        )
        value = kernel.op(f'spirv.Load "Function" {part} : i32')
        kernel.store(
            parts, value, kernel.op(f"spirv.IAdd %id, {kernel.constant(16 * index)} : i32")
        )
        negative = kernel.op(f"spirv.SNegate {value} : i32")
        kernel(f'spirv.Store "Function" {part}, {negative} : i32')
    changed = kernel.op(f'spirv.Load "Function" {variable} : {type}')
    store(kernel, out, changed, type, 8, "%zero", "RowMajor")
    kernel.intended = {"CHOICE-01"}
    kernel.run(local=(16, 1, 1), subgroup_size=16, component_mapping=mapping)
    assert (kernel.buffers[out][2] == -data).all(), "each component belongs to one invocation"
    shares = kernel.buffers[parts][2]
    assert sorted(shares.tolist()) == data.tolist()
    if mapping == "row-major":
        assert shares.tolist() == data.tolist()
    if mapping == "column-major":
        assert shares.tolist() == data.reshape(8, 8).T.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("rows", "size", "expected"), [(8, 16, 4), (8, 64, 1), (2, 32, 1), (16, 8, 16)]
)
def test_cm_18_length_is_the_number_of_an_invocations_components(
    kernel: Kernel, rows: int, size: int, expected: int
) -> None:
    out = kernel.buffer("i32", np.zeros(64, np.int32))
    kernel.store(out, kernel.op(f"{OPS}Length : {coop(rows, 8, 'f16', 'A')}"))
    assert (kernel.run(local=(64, 1, 1), subgroup_size=size)[0] == expected).all()


def test_cm_18_extract_and_insert(kernel: Kernel) -> None:
    type = coop(8, 8, "f16", "A")
    source = kernel.buffer("f16", np.arange(64, dtype=np.float16))
    out = kernel.buffer("f16", np.zeros(64, np.float16))
    matrix = load(kernel, source, type, 8, "%zero", "RowMajor")
    first = kernel.op(f"spirv.CompositeExtract {matrix}[0 : i32] : {type}")
    matrix = kernel.op(f"spirv.CompositeInsert {first}, {matrix}[1 : i32] : f16 into {type}")
    store(kernel, out, matrix, type, 8, "%zero", "RowMajor")
    kernel.intended = {"CHOICE-01"}
    found = kernel.run(local=(16, 1, 1), subgroup_size=16)[1]
    expected = np.arange(64)
    expected[16:32] = expected[:16]
    assert (found == expected).all()


def test_workgroup_scope_is_one_matrix_for_all_subgroups(kernel: Kernel) -> None:
    type = coop(16, 8, "f32", "Acc", "Workgroup")
    data = np.arange(256, dtype=np.float32)
    source, out = kernel.buffer("f32", data.copy()), kernel.buffer("f32", np.zeros_like(data))
    start = kernel.op(f"spirv.IMul %group, {kernel.constant(128)} : i32")
    matrix = load(kernel, source, type, 8, start, "RowMajor")
    scalar = kernel.constant("2.0", "f32")
    matrix = kernel.op(f"spirv.MatrixTimesScalar {matrix}, {scalar} : {type}, f32")
    store(kernel, out, matrix, type, 8, start, "RowMajor")
    assert (kernel.run((2, 1, 1), (64, 1, 1), 16)[1] == data * 2).all()


@pytest.mark.parametrize("offset", [-1, 1])
def test_a_tile_outside_its_buffer_is_refused(kernel: Kernel, offset: int) -> None:
    type = coop(8, 8, "f16", "A")
    source = kernel.buffer("f16", np.zeros(64, np.float16))
    load(kernel, source, type, 8, kernel.constant(offset), "RowMajor")
    with pytest.raises(InterpreterError, match=r"a cooperative load outside the buffer @b0"):
        kernel.run(local=(8, 1, 1), subgroup_size=8)


def test_elementwise_f16_rounds_to_f16(kernel: Kernel) -> None:
    type = coop(8, 8, "f16", "Acc")
    out = kernel.buffer("f16", np.zeros(64, np.float16))
    big, one = (kernel.op(f"spirv.Constant dense<{x}> : {type}") for x in ("2048.0", "1.0"))
    total = big
    for _ in range(4):
        total = kernel.op(f"spirv.FAdd {total}, {one} : {type}")
    store(kernel, out, total, type, 8, "%zero", "RowMajor")
    assert (kernel.run(local=(8, 1, 1), subgroup_size=8)[0] == 2048).all()


def test_spec_constants_decide_shape_scope_and_layout(kernel: Kernel) -> None:
    kernel.globals += [
        "spirv.SpecConstant @M spec_id(0) = 16 : i32",
        "spirv.SpecConstant @N spec_id(1) = 16 : i32",
        "spirv.SpecConstant @scope spec_id(2) = 2 : i32",
        "spirv.SpecConstant @layout spec_id(3) = 0 : i32",
    ]
    type = "!spirv.coopmatrix<@M x @N x f32, @scope, MatrixAcc>"
    data = np.arange(64, dtype=np.float32)
    source, out = kernel.buffer("f32", data.copy()), kernel.buffer("f32", np.zeros_like(data))
    pointer, eight = kernel.pointer(source, "%zero"), kernel.constant(8)
    matrix = kernel.op(
        f"{OPS}Load {pointer}, {eight}, @layout : !spirv.ptr<f32, StorageBuffer>, i32 -> {type}"
    )
    store(kernel, out, matrix, type, 8, "%zero", "RowMajor")
    found = kernel.run(local=(8, 1, 1), subgroup_size=8, spec_constants={0: 8, 1: 8, 2: 3, 3: 1})[1]
    assert (found.reshape(8, 8) == data.reshape(8, 8).T).all()


def test_a_spec_constant_with_an_invalid_layout_is_refused(kernel: Kernel) -> None:
    kernel.globals += ["spirv.SpecConstant @layout spec_id(0) = 0 : i32"]
    source = kernel.buffer("f32", np.zeros(64, np.float32))
    pointer, eight = kernel.pointer(source, "%zero"), kernel.constant(8)
    type = "!spirv.coopmatrix<8x8xf32, Subgroup, MatrixAcc>"
    kernel.op(
        f"{OPS}Load {pointer}, {eight}, @layout : !spirv.ptr<f32, StorageBuffer>, i32 -> {type}"
    )
    with pytest.raises(ValueError, match="7 is not a valid CooperativeMatrixLayout"):
        kernel.run(local=(8, 1, 1), subgroup_size=8, spec_constants={0: 7})
