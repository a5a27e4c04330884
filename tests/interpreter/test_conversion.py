"""Conversions agree with Python's exact arithmetic."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

ALL = np.arange(1 << 16, dtype=np.uint16)


def run(kernel: Kernel, op: str, source: str, target: str, data: Array, dtype: DTypeLike) -> Array:
    a = kernel.buffer(source, data)
    out = kernel.buffer(target, np.zeros(data.size, dtype))
    value = kernel.op(f"spirv.{op} {kernel.load(a)} : {source} to {target}")
    return kernel.store(out, value).run((data.size // 32, 1, 1))[1]


def test_all_f16_to_f32_are_exact(kernel: Kernel) -> None:
    found = run(kernel, "FConvert", "f16", "f32", ALL.view(np.float16), np.float32)
    for pattern, value in enumerate(found.tolist()):
        (expected,) = struct.unpack("<e", struct.pack("<H", pattern))
        assert value == expected or (value != value and expected != expected)


def test_f32_to_f16_rounds_to_nearest_even(kernel: Kernel, rng: np.random.Generator) -> None:
    data = np.concatenate(
        [
            rng.uniform(-70000, 70000, 4096),
            rng.uniform(-1e-4, 1e-4, 4096),
            ALL[: 1 << 14].view(np.float16).astype(np.float64) * (1 + 2**-12),
        ]
    ).astype(np.float32)
    found = run(kernel, "FConvert", "f32", "f16", data, np.float16)
    for value, rounded in zip(data.tolist(), found.view(np.uint16).tolist(), strict=True):
        try:
            expected = struct.pack("<e", value)
        except OverflowError:
            expected = struct.pack("<e", float("inf") if value > 0 else float("-inf"))
        assert struct.pack("<H", rounded) == expected


@pytest.mark.parametrize("sign", [True, False])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_floats_to_integers_go_toward_zero(
    kernel: Kernel, rng: np.random.Generator, sign: bool, width: int
) -> None:
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if sign else (0, 2**width - 1)
    data = rng.uniform(float(low), float(high) * 0.999, 256)
    data[:8] = (0.0, -0.0, 0.99, low, 1.5, 2.5, 126.999, 3)
    op, dtype = ("ConvertFToS", f"i{width // 8}") if sign else ("ConvertFToU", f"u{width // 8}")
    found = run(kernel, op, "f64", f"i{width}", data, dtype)
    assert found.tolist() == [int(value) for value in data.tolist()]


@pytest.mark.parametrize(("op", "sign"), [("ConvertSToF", True), ("ConvertUToF", False)])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integers_to_f32_round_to_nearest_even(
    kernel: Kernel, rng: np.random.Generator, op: str, sign: bool, width: int
) -> None:
    limits = np.iinfo(f"i{width // 8}")
    data = rng.integers(limits.min, limits.max, 256, f"i{width // 8}", endpoint=True)
    data[:2] = limits.min, limits.max
    found = run(kernel, op, f"i{width}", "f32", data, np.float32)
    for number, value in zip(data.tolist(), found, strict=True):
        exact = number if sign else number % (1 << width)
        error = abs(Fraction(float(value)) - exact)
        for other in (
            np.nextafter(value, np.float32(np.inf)),
            np.nextafter(value, -np.float32(np.inf)),
        ):
            distance = abs(Fraction(float(other)) - exact)
            even = int(value.view(np.uint32)) & 1 == 0
            assert error < distance or (error == distance and even)


@pytest.mark.parametrize(
    ("op", "source", "target"),
    [("SConvert", 8, 32), ("UConvert", 8, 32), ("SConvert", 16, 64), ("UConvert", 16, 64),
     ("SConvert", 64, 16), ("UConvert", 32, 8)],
)  # fmt: skip
def test_width_conversions(
    kernel: Kernel, rng: np.random.Generator, op: str, source: int, target: int
) -> None:
    limits = np.iinfo(f"i{source // 8}")
    data = rng.integers(limits.min, limits.max, 64, f"i{source // 8}", endpoint=True)
    kind = "i" if op == "SConvert" else "u"
    found = run(kernel, op, f"i{source}", f"i{target}", data, f"{kind}{target // 8}")
    for number, value in zip(data.tolist(), found.tolist(), strict=True):
        exact = number if op == "SConvert" else number % (1 << source)
        wrapped = exact % (1 << target)
        assert value % (1 << target) == wrapped


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2"])
def test_all_float8_to_f32_and_back(new_kernel: type[Kernel], name: str) -> None:
    dtype = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}[name]
    bits, fraction, bias = (4, 3, 7) if name == "f8E4M3FN" else (5, 2, 15)
    patterns = np.arange(256, dtype=np.uint8)
    found = run(new_kernel(), "FConvert", name, "f32", patterns.view(dtype), np.float32)
    for pattern, value in enumerate(found.tolist()):
        sign = -1 if pattern >> 7 else 1
        exponent, mantissa = (
            pattern >> fraction & ((1 << bits) - 1),
            pattern & ((1 << fraction) - 1),
        )
        if value != value or abs(value) == float("inf"):
            assert exponent == (1 << bits) - 1
            continue
        scale = Fraction(2) ** (max(exponent, 1) - bias)
        significand = Fraction(mantissa, 1 << fraction) + (exponent > 0)
        assert Fraction(value) == sign * significand * scale
    again = run(new_kernel(), "FConvert", "f32", name, found, dtype).view(np.uint8)
    number = ~np.isnan(found)
    assert (again[number] == patterns[number]).all()


def test_bitcast_between_widths_starts_at_the_lowest_component(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    data = rng.integers(0, 1 << 63, 32).astype(np.int64)
    a = kernel.buffer("i64", data.copy())
    out = kernel.buffer("vector<2xi32>", np.zeros((32, 2), np.int32), 2)
    value = kernel.op(f"spirv.Bitcast {kernel.load(a)} : i64 to vector<2xi32>")
    found = kernel.store(out, value).run()[1]
    assert (found == data.view(np.int32).reshape(32, 2)).all()
