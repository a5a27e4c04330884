"""Operands of products with few rows are computed as bfloat16, from f32 and bfloat16 in memory."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import dtype_of
from xdsl_spirv.runtime.modules import parse_text

PROLOGUES = {
    "f32": "%o = arith.truncf %x : f32 to bf16",
    "bf16": "%s = arith.constant 0.5 : bf16\n    %o = arith.mulf %x, %s : bf16",
}
TEXT = """
#map = affine_map<(d0) -> (d0)>
func.func @main(%A_source: tensor<39xTYPE>, %B: tensor<39xbf16>, %C: tensor<f32>) -> tensor<f32> {
  %before = tensor.empty() : tensor<39xbf16>
  %A = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
      ins(%A_source : tensor<39xTYPE>) outs(%before : tensor<39xbf16>) {
  ^bb0(%x: TYPE, %out: bf16):
    PROLOGUE
    linalg.yield %o : bf16
  } -> tensor<39xbf16>
  %r = linalg.dot ins(%A, %B : tensor<39xbf16>, tensor<39xbf16>)
                  outs(%C : tensor<f32>) -> tensor<f32>
  return %r : tensor<f32>
}
"""


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
@pytest.mark.parametrize("type", PROLOGUES)
def test_elements_are_computed_as_bfloat16(type: str, target: str):
    text = TEXT.replace("PROLOGUE", PROLOGUES[type]).replace("TYPE", type)
    program = compile_module(parse_text(text), target)
    generator = np.random.default_rng(0)
    inputs = {
        buffer.name: generator.uniform(-2, 2, buffer.sizes).astype(dtype_of(buffer.type))
        for buffer in program.manifest.inputs
    }
    comparisons = list(check(program, inputs, run(program, inputs)))
    assert comparisons
    assert [str(comparison) for comparison in comparisons if not comparison.passed] == []
