"""Every 16-bit and 8-bit pattern is converted as Python's integers predict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from xdsl_spirv.interpreter.spirv.conversion import SATURATING
from xdsl_spirv.testing.differential import exact

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
NARROW = [name for name, dtype in DTYPES.items() if np.dtype(dtype).itemsize <= 2]
UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def conversions() -> list[tuple[str, str, str]]:
    """Returns (instruction, source, target) for sources of at most 16 bits."""
    found: list[tuple[str, str, str]] = []
    for source in NARROW:
        for target in DTYPES:
            if source[0] == "i":
                names = (
                    ("SConvert", "UConvert") if target[0] == "i" else ("ConvertSToF", "ConvertUToF")
                )
            else:
                names = ("ConvertFToS", "ConvertFToU") if target[0] == "i" else ("FConvert",)
            if source != target:
                found += [(name, source, target) for name in names]
    return found


@pytest.mark.parametrize(
    "step", [pytest.param(1, id="all", marks=pytest.mark.long), pytest.param(7, id="some")]
)
@pytest.mark.parametrize(("name", "source", "target"), conversions())
def test_every_pattern_is_converted_as_the_reference_does(
    kernel: Kernel, name: str, source: str, target: str, step: int
) -> None:
    size = np.dtype(DTYPES[source]).itemsize
    patterns = np.arange(0, 1 << 8 * size, step if size > 1 else 1)
    patterns = np.resize(patterns, -(-patterns.size // 32) * 32).astype(UNSIGNED[size])
    kernel.intended = None  # Some patterns are outside of an integer's range.
    a = kernel.buffer(source, patterns.view(DTYPES[source]))
    out = kernel.buffer(target, np.zeros(patterns.size, DTYPES[target]))
    value = kernel.op(f"spirv.{name} {kernel.load(a)} : {source} to {target}")
    found = kernel.store(out, value).run((patterns.size // 32, 1, 1))[out]
    bits = found.view(UNSIGNED[found.dtype.itemsize]).tolist()
    sign = name not in ("UConvert", "ConvertUToF", "ConvertFToU")
    for pattern, result in zip(patterns.tolist(), bits, strict=True):
        expected = exact.convert(pattern, source, target, sign)
        assert exact.same(result, expected, target), (
            f"{name} {source} to {target} of 0x{pattern:x} is 0x{result:x}, not 0x{expected:x}"
        )


@pytest.mark.parametrize("name", exact.FORMATS)
def test_the_reference_agrees_with_numpy_and_ml_dtypes(name: str) -> None:
    """The reference agrees with ml_dtypes and numpy on values and halfway rounding."""
    format = exact.FORMATS[name]
    patterns = range(0, 1 << format.bits, max(1, (1 << format.bits) // 4099))
    dtype = np.dtype(DTYPES[name])
    for pattern in patterns:
        stored = np.array([pattern]).astype(UNSIGNED[dtype.itemsize]).view(dtype)
        value = float(stored.astype(np.float64)[0])
        found = format.value(pattern)
        assert found == value or (found != found and value != value)
        assert exact.same(format.round(found, bool(pattern >> (format.bits - 1))), pattern, name)


def test_the_reference_rounds_ties_to_even() -> None:
    half = exact.Fraction(1, 2)
    bf16 = exact.FORMATS["bf16"]
    for pattern in (0x3F80, 0x3F81, 0x0000, 0x0001, 0x007F, 0x7F7F):
        here, there = bf16.value(pattern), bf16.value(pattern + 1)
        if not isinstance(here, exact.Fraction) or not isinstance(there, exact.Fraction):
            continue
        tie = (here + there) * half
        assert bf16.round(tie) == pattern + (pattern & 1)
        assert bf16.round(tie + exact.Fraction(1, 1 << 300)) == pattern + 1
    assert bf16.round(exact.Fraction(2) ** 128) == 0x7F80
    e4m3 = exact.FORMATS["f8E4M3FN"]
    assert e4m3.value(0x7E) == 448
    assert e4m3.round(exact.Fraction(464)) == 0x7E
    assert e4m3.is_nan(e4m3.round(exact.Fraction(465)))


@pytest.mark.parametrize("target", ["f8E5M2", "f8E4M3FN"])
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_saturating_conversions_to_eight_bits(kernel: Kernel, source: str, target: str) -> None:
    """Infinities and too large values become the largest number. NaN stays NaN."""
    patterns = np.arange(1 << 16).astype(np.uint16)
    numbers = patterns.view(DTYPES[source])
    a = kernel.buffer(source, numbers.copy())
    out = kernel.buffer(target, np.zeros(patterns.size, DTYPES[target]))
    value = kernel.op(f"spirv.FConvert {kernel.load(a)} {{{SATURATING}}} : {source} to {target}")
    found = kernel.store(out, value).run((patterns.size // 32, 1, 1))[out].astype(np.float64)
    wide = numbers.astype(np.float64)
    largest = float(ml_dtypes.finfo(DTYPES[target]).max)
    plain = numbers.astype(np.float32).astype(DTYPES[target]).astype(np.float64)
    expected = np.where(np.abs(wide) > largest, np.copysign(largest, wide), plain)
    assert np.array_equal(found, expected, equal_nan=True)
