"""
lavapipe converts every 16-bit and 8-bit pattern as exact arithmetic does.

Undefined conversions (floats beyond the integer's range) are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.testing.differential import Kernel, exact
from xdsl_spirv.testing.differential.running import job_of
from xdsl_spirv.testing.differential.types import DTYPES
from xdsl_spirv.testing.dispatches import Dispatch

if TYPE_CHECKING:
    from tests.conftest import RunOnLavapipe

UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
CONVERSIONS = [
    ("FConvert", "f16", "f32"), ("FConvert", "f16", "f64"), ("ConvertFToS", "f16", "i32"),
    ("ConvertFToU", "f16", "i32"), ("ConvertFToS", "f16", "i16"), ("ConvertFToU", "f16", "i8"),
    ("ConvertFToS", "f16", "i64"), ("ConvertSToF", "i16", "f16"), ("ConvertUToF", "i16", "f16"),
    ("ConvertSToF", "i16", "f32"), ("ConvertUToF", "i16", "f64"), ("ConvertSToF", "i8", "f16"),
    ("ConvertUToF", "i8", "f16"), ("ConvertSToF", "i8", "f32"), ("ConvertUToF", "i8", "f64"),
    ("SConvert", "i16", "i8"), ("SConvert", "i16", "i64"), ("UConvert", "i16", "i32"),
    ("SConvert", "i8", "i32"), ("UConvert", "i8", "i16"),
]  # fmt: skip


def job_for(name: str, source: str, target: str) -> Dispatch:
    size = DTYPES[source].itemsize
    patterns = np.arange(1 << 8 * size).astype(UNSIGNED[size])
    kernel = Kernel("conversion", 0)
    a = kernel.buffer(source, patterns.view(DTYPES[source]))
    out = kernel.buffer(target, np.zeros(patterns.size, DTYPES[target]))
    value = kernel.op(f"spirv.{name} {kernel.load(a)} : {source} to {target}")
    kernel.do(f'spirv.Store "StorageBuffer" {kernel.pointer(out)}, {value} : {target}')
    job = job_of(kernel)
    job.groups = (patterns.size // kernel.machine.local[0], 1, 1)
    return job


def defined(pattern: int, source: str, target: str, sign: bool) -> bool:
    """True if SPIR-V defines the result."""
    if source[0] == "i" or target[0] != "i":
        return True
    value = exact.FORMATS[source].value(pattern)
    if isinstance(value, float):
        return False
    low, high = exact.limits(int(target[1:]), sign)
    return low <= int(value) <= high and (sign or value >= 0)


@pytest.mark.vulkan
def test_lavapipe_converts_every_pattern_right(run_on_lavapipe: RunOnLavapipe):
    jobs = [job_for(*conversion) for conversion in CONVERSIONS]
    run_on_lavapipe(jobs)
    for (name, source, target), job in zip(CONVERSIONS, jobs, strict=True):
        sign = name not in ("UConvert", "ConvertUToF", "ConvertFToU")
        result = job.buffers[0, 1]
        bits = result.view(UNSIGNED[result.dtype.itemsize]).tolist()
        for pattern, found in enumerate(bits):
            if defined(pattern, source, target, sign):
                expected = exact.convert(pattern, source, target, sign)
                assert exact.same(found, expected, target), (
                    f"{name} {source} to {target} of 0x{pattern:x}: 0x{found:x}, not 0x{expected:x}"
                )
