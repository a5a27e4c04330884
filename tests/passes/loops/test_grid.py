"""
No loop kernel is launched with more workgroups than the device allows.

Covers: schedule/loops_schedule.
"""

from __future__ import annotations

import pytest

from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime.modules import parse_text

DEPTHWISE = """
func.func @main(%A: tensor<?x15x15x?xf16>, %B: tensor<3x3x?xf16>, %C: tensor<?x6x6x?xf32>)
    -> tensor<?x6x6x?xf32> {
  %r = linalg.generic {
      indexing_maps = [
        affine_map<(n, x, y, k, l, c) -> (n, x * 2 + k * 2, y * 2 + l * 2, c)>,
        affine_map<(n, x, y, k, l, c) -> (k, l, c)>,
        affine_map<(n, x, y, k, l, c) -> (n, x, y, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "parallel"]}
      ins(%A, %B : tensor<?x15x15x?xf16>, tensor<3x3x?xf16>) outs(%C : tensor<?x6x6x?xf32>) {
  ^bb0(%a: f16, %b: f16, %c: f32):
    %u = arith.extf %a : f16 to f32
    %v = arith.extf %b : f16 to f32
    %p = arith.mulf %u, %v : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x6x6x?xf32>
  return %r : tensor<?x6x6x?xf32>
}
"""


@pytest.mark.parametrize(("target", "most"), [("lavapipe", 65535), ("nvidia-h200", 36864)])
def test_the_grid_of_a_window_of_dynamic_sizes_is_limited(target: str, most: int):
    program = compile_module(parse_text(DEPTHWISE), target)
    ((grid, *_),) = [dispatch.grid for dispatch in program.manifest.dispatches]
    assert str(grid).endswith(f", {most})")
