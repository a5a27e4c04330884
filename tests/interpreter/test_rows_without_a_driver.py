"""
The interpreter agrees with exact arithmetic on Vulkan's tests that no software driver runs.

They cover cooperative matrices of bfloat16 and 8-bit floats, saturation, mixed signs, conversions
between all component types, and the dot product of bfloat16, with the data of the conformance
tests: exact products, values around the wrap point, the largest numbers.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.testing.differential import exact

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

OPS = "spirv.KHR.CooperativeMatrix"
DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
}
M, N, K = 8, 16, 8
FLAGS = ("ASigned", "BSigned", "CSigned", "ResultSigned")


def bits_of(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


def coop(rows: int, columns: int, element: str, use: str) -> str:
    return f"!spirv.coopmatrix<{rows}x{columns}x{element}, Subgroup, Matrix{use}>"


def load(kernel: Kernel, element: str, use: str, values: Any) -> tuple[str, str]:
    buffer = kernel.buffer(element, np.ascontiguousarray(values).reshape(-1))
    rows, columns = values.shape
    type = coop(rows, columns, element, use)
    matrix = kernel.op(
        f"{OPS}Load {kernel.pointer(buffer, '%zero')}, {kernel.constant(columns)}, "
        f"<RowMajor> : !spirv.ptr<{element}, StorageBuffer>, i32 -> {type}"
    )
    return matrix, type


def stored(kernel: Kernel, value: str, type: str, element: str, columns: int) -> Array:
    """Adds a store of a matrix, and runs the kernel. Returns the stored matrix."""
    out = kernel.buffer(element, np.zeros(M * columns, DTYPES[element]))
    kernel(
        f"{OPS}Store {kernel.pointer(out, '%zero')}, {value}, {kernel.constant(columns)}, "
        f"<RowMajor> : !spirv.ptr<{element}, StorageBuffer>, {type}, i32"
    )
    return kernel.run(subgroup_size=32)[out].reshape(M, columns)


def multiplied(
    kernel: Kernel,
    a: Array,
    b: Array,
    c: Array,
    elements: tuple[str, str, str, str],
    flags: str = "",
) -> Array:
    x, y, z = (
        load(kernel, element, use, values)
        for element, use, values in zip(elements[:3], ("A", "B", "Acc"), (a, b, c), strict=True)
    )
    result = coop(M, N, elements[3], "Acc")
    types = f"{x[1]}, {y[1]}" + (f", {z[1]}" if z[1] != result else "")
    value = kernel.op(f"{OPS}MulAdd {x[0]}, {y[0]}, {z[0]}{flags} : {types} -> {result}")
    return stored(kernel, value, result, elements[3], N)


def full_range(rng: np.random.Generator, shape: tuple[int, int], element: str) -> Array:
    info = np.iinfo(DTYPES[element])
    return rng.integers(info.min, info.max, shape, DTYPES[element], endpoint=True)


def lists(array: Array) -> list[list[int]]:
    return bits_of(array).tolist()


@pytest.mark.parametrize("signs", list(itertools.product([True, False], repeat=4)))
@pytest.mark.parametrize(("element", "result"), [("i8", "i8"), ("i8", "i32"), ("i32", "i32")])
def test_muladd_cross_wraps_under_all_signs(
    kernel: Kernel,
    rng: np.random.Generator,
    element: str,
    result: str,
    signs: tuple[bool, bool, bool, bool],
) -> None:
    a, b = full_range(rng, (M, K), element), full_range(rng, (K, N), element)
    c = full_range(rng, (M, N), result)
    c[0], c[1] = np.iinfo(c.dtype).max, np.iinfo(c.dtype).min
    names = "|".join(flag for flag, sign in zip(FLAGS, signs, strict=True) if sign)
    elements = (element, element, result, result)
    found = multiplied(kernel, a, b, c, elements, f", <{names}>" if names else "")
    bits, wide = np.dtype(DTYPES[element]).itemsize * 8, c.dtype.itemsize * 8
    expected = exact.multiply_add(lists(a), lists(b), lists(c), wide, signs, (bits, bits, wide))
    assert lists(found) == expected


@pytest.mark.parametrize("signs", list(itertools.product([True, False], repeat=4)))
def test_muladd_saturates_under_all_signs(
    kernel: Kernel, rng: np.random.Generator, signs: tuple[bool, bool, bool, bool]
) -> None:
    a, b = (rng.integers(0, 8, shape).astype(np.int8) for shape in ((M, K), (K, N)))
    a[0], b[:, 0], a[1], b[:, 1] = 0, 0, 0, 0
    a[0, 0] = b[0, 0] = a[1, 1] = 1
    # A negative product would be undefined for an unsigned result (CM-24).
    b[1, 1] = -1 if signs[1] and signs[3] else 1
    c = full_range(rng, (M, N), "i32")
    info = np.iinfo(c.dtype)
    c[0, 0], c[1, 1], c[2], c[3], c[4] = info.max, info.min, -1, info.max - 3, info.min + 3
    names = "|".join([flag for flag, sign in zip(FLAGS, signs, strict=True) if sign] + ["AccSat"])
    found = multiplied(kernel, a, b, c, ("i8", "i8", "i32", "i32"), f", <{names}>")
    expected = exact.multiply_add(lists(a), lists(b), lists(c), 32, signs, (8, 8, 32), True)
    assert lists(found) == expected


FLOATS = [
    ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "bf16"),
    ("f32", "f32", "f32"),
    ("f16", "f16", "f16"),
    *itertools.product(("f8E4M3FN", "f8E5M2"), ("f8E4M3FN", "f8E5M2"), ("f16", "f32")),
]


@pytest.mark.parametrize(("first", "second", "result"), FLOATS)
def test_muladd_of_floats_is_exact_on_exact_products(
    kernel: Kernel, rng: np.random.Generator, first: str, second: str, result: str
) -> None:
    low, high = (-3, 5) if "bf16" in (first, result) else (-4, 12)
    a, b, c = (
        (rng.integers(low, high, shape) / 2).astype(DTYPES[element])
        for shape, element in (((M, K), first), ((K, N), second), ((M, N), result))
    )
    found = multiplied(kernel, a, b, c, (first, second, result, result))
    formats = [exact.FORMATS[element] for element in (first, second, result)]
    for i, j in np.ndindex(M, N):
        total = formats[2].value(int(bits_of(c)[i, j]))
        for k in range(K):
            total += formats[0].value(int(bits_of(a)[i, k])) * formats[1].value(
                int(bits_of(b)[k, j])
            )
        assert isinstance(total, Fraction)
        expected = formats[2].round(total)
        assert exact.same(int(bits_of(found)[i, j]), expected, result) or total == 0, (i, j)


COMPONENTS = [("i8", True), ("i16", True), ("i32", True), ("i8", False), ("i16", False),
              ("i32", False), ("f16", True), ("f32", True), ("bf16", True), ("f8E5M2", True),
              ("f8E4M3FN", True)]  # fmt: skip


def instruction(source: str, target: str, signed: bool) -> str:
    """Returns the conversion between two component types."""
    if source[0] == "i":
        names = ("SConvert", "UConvert") if target[0] == "i" else ("ConvertSToF", "ConvertUToF")
    elif target[0] == "i":
        names = ("ConvertFToS", "ConvertFToU")
    else:
        names = ("FConvert",)
    return names[-1 if not signed else 0]


def interesting(rng: np.random.Generator, source: str, target: str, signed: bool) -> Array:
    """Returns small numbers, and the largest numbers of narrow formats times 1, 2 and 3/4."""
    if source[0] == "i":
        return full_range(rng, (M, N), source)
    values = rng.integers(-60, 60, (M, N)) / 4
    if target[0] == "i":
        values = np.abs(values) if not signed else values
        return values.astype(DTYPES[source])
    row = 0
    for narrow in ("bf16", "f16", "f8E4M3FN", "f8E5M2"):
        largest = float(ml_dtypes.finfo(DTYPES[narrow]).max)
        for factor in (1.0, 2.0, 0.75):
            values[row // N, row % N], values[4 + row // N, row % N] = (
                largest * factor, -largest * factor,
            )  # fmt: skip
            row += 1
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(DTYPES[source])


@pytest.mark.parametrize("source", COMPONENTS)
@pytest.mark.parametrize("target", [name for name in DTYPES])
def test_conversions_between_all_component_types(
    kernel: Kernel, rng: np.random.Generator, source: tuple[str, bool], target: str
) -> None:
    element, signed = source
    if element == target:
        return
    values = interesting(rng, element, target, signed)
    matrix, type = load(kernel, element, "Acc", values)
    result = coop(M, N, target, "Acc")
    name = instruction(element, target, signed)
    value = kernel.op(f"spirv.{name} {matrix} : {type} to {result}")
    found = stored(kernel, value, result, target, N)
    for before, after in zip(
        bits_of(values).reshape(-1).tolist(), bits_of(found).reshape(-1).tolist(), strict=True
    ):
        expected = exact.convert(before, element, target, signed)
        assert exact.same(after, expected, target), f"{name} of 0x{before:x}"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_dot_of_bfloat16(kernel: Kernel, rng: np.random.Generator, count: int) -> None:
    shape = (32, count if count != 3 else 4)
    a, b = ((rng.integers(-16, 17, shape) / 4).astype(DTYPES["bf16"]) for _ in range(2))
    a[0, 0], b[1, 1] = np.nan, np.nan
    type = f"vector<{count}xbf16>"
    buffers = [kernel.buffer(type, x.reshape(-1), shape[1]) for x in (a, b)]
    out = kernel.buffer("bf16", np.zeros(32, DTYPES["bf16"]))
    value = kernel.op(
        f"spirv.Dot {kernel.load(buffers[0])}, {kernel.load(buffers[1])} : {type} -> bf16"
    )
    found = kernel.store(out, value).run()[out]
    format = exact.FORMATS["bf16"]
    for row in range(32):
        factors = [
            (format.value(int(x)), format.value(int(y)))
            for x, y in zip(bits_of(a)[row, :count], bits_of(b)[row, :count], strict=True)
        ]
        total = sum(x * y for x, y in factors)
        expected = format.round(Fraction(total) if total == total else exact.NAN)
        assert exact.same(int(bits_of(found)[row]), expected, "bf16") or total == 0, row
