"""Schedules of loops respect the registers and units of a target."""

from __future__ import annotations

import pytest

from xdsl_spirv.compiler.api import compile
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.testing.driver_cases import WINDOW, WINDOWS

SUMS = """func.func @main(%x: tensor<65536x{0}xf32>) -> tensor<65536xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<65536xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<65536xf32>) -> tensor<65536xf32>
  %r = linalg.reduce ins(%x : tensor<65536x{0}xf32>) outs(%i : tensor<65536xf32>) dimensions = [1]
    (%a: f32, %b: f32) {{
      %s = arith.addf %a, %b : f32
      linalg.yield %s : f32
    }}
  return %r : tensor<65536xf32>
}}
"""


@pytest.mark.parametrize(("length", "reduce"), [(64, "invocation"), (1024, "subgroup")])
def test_many_long_rows_are_not_read_by_an_invocation_each(length: int, reduce: str):
    """Adjacent invocations would read at a distance of 4096 bytes."""
    [layer] = compile(parse_text(SUMS.format(length)), "qualcomm-adreno").layers
    assert f"reduce = {reduce}" in layer.schedule


@pytest.mark.parametrize(
    ("target", "elements"), [("nvidia-h200", 4), ("intel-xe2", 2), ("arm-mali", 1)]
)
def test_windows_and_their_weights_fit_the_registers(target: str, elements: int):
    """
    On Intel and Arm, an invocation has fewer than 4 windows, because 4 windows of 5 x 5 were
    spilled.
    """
    x, w, y, op = WINDOWS["depthwise_5x5_f32"]
    [layer] = compile(parse_text(WINDOW.format(x=x, w=w, y=y, op=op)), target).layers
    assert f"elements = {elements}" in layer.schedule
