"""Modf and Frexp that write through a pointer, as slang writes them, into memory others see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdsl_spirv.interpreter.checks import Checks

VALUES = np.array([2.75, -2.75, 0.0, -0.0, 1e30, -0.1, 5.0, 3.5], np.float32)


def _split(kernel: Any, name: str, second: str, index: str) -> tuple[int, int]:
    """Buffers for the first part, and for the second, which is written at an index."""
    value = kernel.load(kernel.buffer("f32", VALUES))
    first = kernel.buffer("f32", np.zeros(8, np.float32))
    dtype = np.float32 if second == "f32" else np.int32
    other = kernel.buffer(second, np.zeros(8, dtype))
    pointer = kernel.pointer(other, index)
    result = kernel.op(
        f"spirv.GL.{name} {value} : f32, {pointer} : !spirv.ptr<{second}, StorageBuffer> -> f32"
    )
    kernel.store(first, result)
    return first, other


@pytest.mark.parametrize(("name", "second"), [("Modf", "f32"), ("Frexp", "i32")])
def test_both_parts(kernel: Any, name: str, second: str) -> None:
    first, other = _split(kernel, name, second, "%id")
    kernel.run(local=(8, 1, 1))
    expected = np.modf(VALUES) if name == "Modf" else np.frexp(VALUES)
    for buffer, part in zip((first, other), expected, strict=True):
        np.testing.assert_array_equal(kernel.buffers[buffer][2], part)


@pytest.mark.parametrize(("name", "second"), [("Modf", "f32"), ("Frexp", "i32")])
def test_what_is_written_races(kernel: Any, name: str, second: str) -> None:
    """Nothing else writes the buffer."""
    _split(kernel, name, second, "%zero")
    checks = Checks.of("races")
    kernel.intended = {"RACE-01"}
    kernel.run(local=(8, 1, 1), checks=checks)
    assert [(finding.rule, finding.op) for finding in checks.report] == [
        ("RACE-01", f"spirv.GL.{name}")
    ]
