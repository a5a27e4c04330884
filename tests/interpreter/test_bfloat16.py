"""BF-05 to BF-08: bfloat16 agrees with exact rational numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike

from xdsl_spirv.runtime.elements import Array

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

BF16 = np.dtype(ml_dtypes.bfloat16)
ALL = np.arange(1 << 16, dtype=np.uint16)


def decode(pattern: int) -> Fraction | float:
    """Returns the value of a bfloat16 pattern: 1 sign, 8 exponent and 7 fraction bits (BF-05)."""
    sign = -1 if pattern >> 15 else 1
    exponent, fraction = pattern >> 7 & 0xFF, pattern & 0x7F
    if exponent == 255:
        return float("nan") if fraction else sign * float("inf")
    if exponent == 0:
        return sign * Fraction(fraction, 128) / 2**126
    scale = Fraction(2) ** (exponent - 127)
    return sign * (1 + Fraction(fraction, 128)) * scale


def encode(value: np.float32, toward_zero: bool) -> int:
    """Rounds a binary32 that is not NaN to bfloat16 (BF-07), and returns the bits."""
    word = int(np.float32(value).view(np.uint32))
    low, high = word & 0xFFFF, word >> 16
    up = not toward_zero and (low > 0x8000 or (low == 0x8000 and high & 1))
    return high + up


def convert(
    kernel: Kernel, source: str, target: str, data: Array, dtype: DTypeLike, **options: Any
) -> Array:
    """Runs a kernel that converts an array by `spirv.FConvert`. Returns the result."""
    a = kernel.buffer(source, data)
    out = kernel.buffer(target, np.zeros(data.size, dtype))
    value = kernel.op(f"spirv.FConvert {kernel.load(a)} : {source} to {target}")
    return kernel.store(out, value).run((data.size // 64, 1, 1), (64, 1, 1), **options)[1]


def test_bf_05_bf_06_every_bfloat16_to_binary32_is_exact(kernel: Kernel) -> None:
    found = convert(kernel, "bf16", "f32", ALL.view(BF16), np.float32)
    for pattern, value in enumerate(found.tolist()):
        expected = decode(pattern)
        if expected != expected:
            assert value != value
        elif isinstance(expected, Fraction):
            assert Fraction(value) == expected
        else:
            assert value == expected


@pytest.mark.parametrize("rounding", ["nearest-even", "toward-zero"])
def test_bf_07_binary32_to_bfloat16(
    kernel: Kernel, rng: np.random.Generator, rounding: str
) -> None:
    words = rng.integers(0, 1 << 32, 1 << 14, np.uint32)
    ties = (np.arange(1 << 10, dtype=np.uint32) * 0x40001 << 6 & 0xFFFF0000) | 0x8000
    edges = np.array([0x7F7FFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000, 1], np.uint32)
    words[: ties.size], words[-edges.size :] = ties, edges
    data = words.view(np.float32)
    found = convert(kernel, "f32", "bf16", data, BF16, bfloat16_rounding=rounding)
    patterns = found.view(np.uint16).tolist()
    for value, pattern in zip(data, patterns, strict=True):
        if np.isnan(value):
            assert decode(pattern) != decode(pattern), "BF-07: NaN stays NaN"
        else:
            assert pattern == encode(value, rounding == "toward-zero")


def test_bf_07_nan_with_a_low_payload_stays_nan_toward_zero(kernel: Kernel) -> None:
    data = np.full(64, 0x7F800001, np.uint32).view(np.float32)
    found = convert(kernel, "f32", "bf16", data, BF16, bfloat16_rounding="toward-zero")
    assert np.isnan(found.astype(np.float32)).all()


def test_bf_06_binary64_rounds_through_binary32(kernel: Kernel) -> None:
    # 1 + 2^-8 + 2^-40 is above the tie, but binary32 drops the last bit, and the tie goes to even.
    data = np.full(64, 1 + 2**-8 + 2**-40)
    found = convert(kernel, "f64", "bf16", data, BF16)
    assert (found.astype(np.float32) == 1).all()


def test_bf_06_all_f16_to_bfloat16_through_binary32(kernel: Kernel) -> None:
    data = ALL.view(np.float16)
    found = convert(kernel, "f16", "bf16", data, BF16).view(np.uint16)
    for value, pattern in zip(data.astype(np.float32), found.tolist(), strict=True):
        if not np.isnan(value):
            assert pattern == encode(value, toward_zero=False)
        else:
            assert decode(pattern) != decode(pattern)


def test_all_bfloat16_to_f16_round_to_nearest_even(kernel: Kernel) -> None:
    found = convert(kernel, "bf16", "f16", ALL.view(BF16), np.float16)
    finite = np.isfinite(found) & np.isfinite(ALL.view(BF16).astype(np.float32))
    step = np.float16(2.0**-24)
    for pattern in np.flatnonzero(finite).tolist():
        exact, value = decode(pattern), found[pattern]
        assert isinstance(exact, Fraction)
        error = abs(Fraction(float(value)) - exact)
        for other in (
            np.nextafter(value, np.float16(np.inf)),
            np.nextafter(value, -np.float16(np.inf)),
        ):
            if np.isfinite(other):
                distance = abs(Fraction(float(other)) - exact)
                even = int(value.view(np.uint16)) & 1 == 0
                assert error < distance or (error == distance and even), (pattern, step)


@pytest.mark.parametrize(("instruction", "sign"), [("ConvertSToF", True), ("ConvertUToF", False)])
def test_bf_06_integers_go_through_binary32(
    kernel: Kernel, rng: np.random.Generator, instruction: str, sign: bool
) -> None:
    data = rng.integers(-(2**31), 2**31, 256).astype(np.int32)
    data[:4] = (2**24 + 1, 0x01010001, -1, 0x7FFFFFFF)
    a, out = kernel.buffer("i32", data), kernel.buffer("bf16", np.zeros(256, BF16))
    value = kernel.op(f"spirv.{instruction} {kernel.load(a)} : i32 to bf16")
    found = kernel.store(out, value).run((8, 1, 1))[1].view(np.uint16).tolist()
    for number, pattern in zip(data.tolist(), found, strict=True):
        exact = number if sign else number & 0xFFFFFFFF
        assert pattern == encode(np.float32(exact), toward_zero=False)


def test_bf_08_dot_has_binary32_accuracy_and_is_rounded_once(
    kernel: Kernel, rng: np.random.Generator
) -> None:
    data = rng.standard_normal((2, 64, 4)).astype(BF16)
    data[:, 0] = [[256, 1, 1, 1], [1, 1, 1, 1]]
    vector = "vector<4xbf16>"
    a, b = (kernel.buffer(vector, data[n].copy(), 4) for n in (0, 1))
    out = kernel.buffer("bf16", np.zeros(64, BF16))
    value = kernel.op(f"spirv.Dot {kernel.load(a)}, {kernel.load(b)} : {vector} -> bf16")
    found = kernel.store(out, value).run((2, 1, 1))[2]
    # In bfloat16 256 + 1 is 256: only a wider sum reaches 259, which rounds to 260.
    assert float(found[0]) == 260
    for x, y, z in zip(*data.tolist(), found.tolist(), strict=True):
        exact = sum(Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True))
        size = sum(abs(Fraction(p) * Fraction(q)) for p, q in zip(x, y, strict=True))
        assert abs(Fraction(z) - exact) <= abs(exact) / 256 + size / 2**21
