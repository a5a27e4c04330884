"""Modf and Frexp write their second result through a pointer to visible memory (Slang)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.interpreter import MemoryBudget
from xdsl_spirv.interpreter.checks import Checks

if TYPE_CHECKING:
    from tests.interpreter.conftest import Kernel

VALUES = np.array([2.75, -2.75, 0.0, -0.0, 1e30, -0.1, 5.0, 3.5], np.float32)


def _split(kernel: Kernel, name: str, second: str, index: str) -> tuple[int, int]:
    """Adds an operation that stores its second result at `index`. Returns the results' buffers."""
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
def test_both_parts_of_a_number_are_returned(kernel: Kernel, name: str, second: str) -> None:
    first, other = _split(kernel, name, second, "%id")
    kernel.run(local=(8, 1, 1))
    expected = np.modf(VALUES) if name == "Modf" else np.frexp(VALUES)
    for buffer, part in zip((first, other), expected, strict=True):
        np.testing.assert_array_equal(kernel.buffers[buffer][2], part)


@pytest.mark.parametrize(("name", "second"), [("Modf", "f32"), ("Frexp", "i32")])
def test_written_parts_race(kernel: Kernel, name: str, second: str) -> None:
    _split(kernel, name, second, "%zero")
    checks = Checks.of("races")
    kernel.intended = {"RACE-01"}
    kernel.run(local=(8, 1, 1), checks=checks)
    assert [(finding.rule, finding.op) for finding in checks.report] == [
        ("RACE-01", f"spirv.GL.{name}")
    ]


def test_a_loop_may_wait_for_a_part(kernel: Kernel) -> None:
    flag = kernel.buffer("f32", np.zeros(1, np.float32))
    pointer = "!spirv.ptr<f32, Function>"
    whole = kernel.op(f"spirv.Variable : {pointer}")
    zero, two = kernel.constant("0.0", "f32"), kernel.constant("2.5", "f32")
    first = kernel.op("spirv.IEqual %id, %zero : i32")
    at = kernel.pointer(flag, "%zero")
    kernel(f"""spirv.mlir.selection {{
        spirv.BranchConditional {first}, ^wait, ^set
      ^wait:
        spirv.mlir.loop {{
          spirv.Branch ^header
        ^header:
          %value = spirv.Load "StorageBuffer" {at} : f32
          %rest = spirv.GL.Modf %value : f32, {whole} : {pointer} -> f32
          %read = spirv.Load "Function" {whole} : f32
          %empty = spirv.FOrdEqual %read, {zero} : f32
          spirv.BranchConditional %empty, ^body, ^end
        ^body:
          spirv.Branch ^continue
        ^continue:
          spirv.Branch ^header
        ^end:
          spirv.mlir.merge
        }}
        spirv.Branch ^merge
      ^set:
        spirv.Store "StorageBuffer" {at}, {two} : f32
        spirv.Branch ^merge
      ^merge:
        spirv.mlir.merge
      }}""")
    kernel.intended = None
    kernel.run((2, 1, 1), (1, 1, 1), memory=MemoryBudget(1), max_steps=10_000)
    assert kernel.buffers[flag][2] == 2.5
