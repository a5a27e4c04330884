"""A program that is called without a device says if the interpreter replaces a device."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.errors import InterpreterWarning
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program
from xdsl_spirv.runtime.vulkan import kept
from xdsl_spirv.runtime.vulkan.errors import MisfitError, NoVulkanError

DOUBLE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.delenv("XDSL_SPIRV_DEVICE", raising=False)
    return compile_module(parse_text(DOUBLE), "lavapipe")


@pytest.mark.parametrize(
    "error", [NoVulkanError("no driver is found"), MisfitError("the GPU has no f16")], ids=str
)
def test_a_program_warns_that_the_interpreter_runs_it(
    error: Exception, program: Program, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(kept, "kept_device", refuse)
    with pytest.warns(InterpreterWarning, match=str(error)) as caught:
        result = program(np.arange(4, dtype=np.float32))
    assert result.tolist() == [0, 2, 4, 6]
    (warning,) = caught
    assert Path(warning.filename) == Path(__file__)


def test_a_program_on_the_named_interpreter_is_silent(
    program: Program, monkeypatch: pytest.MonkeyPatch
):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program(np.zeros(4, np.float32), device="interpreter")
        monkeypatch.setenv("XDSL_SPIRV_DEVICE", "interpreter")
        program(np.zeros(4, np.float32))
