"""
A weight that is broadcast over a batch turns the batch into rows, with equal results.

Covers: schedule/linalg_to_contraction.
"""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text

TEXT = """
func.func @main(%x: tensor<6x5x8xf16>, %w: tensor<{source}xf16>) -> tensor<6x5x7xf32> {{
  {repeated}
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x5x7xf32>
  %c = linalg.fill ins(%zero : f32) outs(%e : tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  %r = linalg.batch_matmul ins(%x, %b : tensor<6x5x8xf16>, tensor<6x8x7xf16>)
      outs(%c : tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  return %r : tensor<6x5x7xf32>
}}
"""


def _moved(read: str, source: str) -> str:
    return f"""%o = tensor.empty() : tensor<6x8x7xf16>
    %b = linalg.generic {{indexing_maps = [affine_map<(i, k, n) -> ({read})>,
      affine_map<(i, k, n) -> (i, k, n)>], iterator_types = ["parallel", "parallel", "parallel"]}}
      ins(%w : tensor<{source}xf16>) outs(%o : tensor<6x8x7xf16>) {{
    ^bb0(%one: f16, %unused: f16):
      linalg.yield %one : f16
    }} -> tensor<6x8x7xf16>"""


COLLAPSED = """%o = tensor.empty() : tensor<2x3x8x7xf16>
    %p = linalg.broadcast ins(%w : tensor<8x7xf16>) outs(%o : tensor<2x3x8x7xf16>)
      dimensions = [0, 1]
    %b = tensor.collapse_shape %p [[0, 1], [2], [3]] : tensor<2x3x8x7xf16> into tensor<6x8x7xf16>"""

FORMS = {
    "a broadcast": ("8x7", _moved("k, n", "8x7")),
    "a broadcast of a transposed weight": ("7x8", _moved("n, k", "7x8")),
    "a dimension of one": ("1x8x7", _moved("0, k, n", "1x8x7")),
    "collapsed": ("8x7", COLLAPSED),
}


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
@pytest.mark.parametrize(("source", "repeated"), FORMS.values(), ids=FORMS)
def test_a_batch_of_one_weight_is_rows(source: str, repeated: str, target: str):
    program = compile_module(parse_text(TEXT.format(source=source, repeated=repeated)), target)
    names = [dispatch.entry_point for dispatch in program.manifest.dispatches]
    assert names == ["matmul_30x7x8"]
    generator = np.random.default_rng(5)
    inputs = {
        buffer.name: generator.standard_normal(buffer.sizes).astype(np.float16)
        for buffer in program.manifest.inputs
    }
    assert all(one.passed for one in check(program, inputs, run(program, inputs)))
