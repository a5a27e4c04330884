"""Chains of any length compile without recursion errors."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text

ID = "affine_map<(a, b) -> (a, b)>"
ROW = "affine_map<(a, b) -> (a)>"


STEPS: dict[str, Callable[[Array, Array], Array]] = {
    "math.sin %v": lambda v, w: np.sin(v),
    "math.tanh %v": lambda v, w: np.tanh(v),
    "arith.negf %v": lambda v, w: -v,
    "arith.subf %v, %w": np.subtract,
    "arith.maximumf %v, %w": np.maximum,
}
"""Binary operations that a step applies to the last tensor and an earlier one."""


def softmax_behind(chain: Sequence[tuple[str, int]]) -> str:
    """Returns a product with a softmax whose scores pass through a chain of operations."""
    both = 'iterator_types = ["parallel", "parallel"]'
    steps = "\n".join(
        f"""
  %x{i + 1} = linalg.generic {{indexing_maps = [{ID}, {ID}, {ID}], {both}}}
      ins(%x{i}, %x{other} : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {{
  ^bb0(%v: f32, %w: f32, %o: f32):
    %y = {step} : f32
    linalg.yield %y : f32
  }} -> tensor<4x4xf32>"""
        for i, (step, other) in enumerate(chain)
    )

    def reduce_rows(result: str, source: str, start: str, by: str) -> str:
        return f"""
  {result} = linalg.generic {{indexing_maps = [{ID}, {ROW}],
      iterator_types = ["parallel", "reduction"]}}
      ins({source} : tensor<4x4xf32>) outs({start} : tensor<4xf32>) {{
  ^bb0(%v: f32, %o: f32):
    %y = arith.{by} %o, %v : f32
    linalg.yield %y : f32
  }} -> tensor<4xf32>"""

    def rowwise(result: str, source: str, row: str, body: str) -> str:
        return f"""
  {result} = linalg.generic {{indexing_maps = [{ID}, {ROW}, {ID}], {both}}}
      ins({source}, {row} : tensor<4x4xf32>, tensor<4xf32>) outs(%e : tensor<4x4xf32>) {{
  ^bb0(%v: f32, %w: f32, %o: f32):
    {body}
    linalg.yield %y : f32
  }} -> tensor<4x4xf32>"""

    exponential = "%d = arith.subf %v, %w : f32\n    %y = math.exp %d : f32"
    return f"""
func.func @main(%x0: tensor<4x4xf32>, %values: tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %row = tensor.empty() : tensor<4xf32>
  %out = tensor.empty() : tensor<4x8xf32>
  %from = linalg.fill ins(%lowest : f32) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  %none = linalg.fill ins(%zero : f32) outs(%row : tensor<4xf32>) -> tensor<4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%out : tensor<4x8xf32>) -> tensor<4x8xf32>
{steps}{reduce_rows("%most", f"%x{len(chain)}", "%from", "maximumf")}{
        rowwise("%power", f"%x{len(chain)}", "%most", exponential)
    }{reduce_rows("%total", "%power", "%none", "addf")}{
        rowwise("%share", "%power", "%total", "%y = arith.divf %v, %w : f32")
    }
  %r = linalg.matmul ins(%share, %values : tensor<4x4xf32>, tensor<4x8xf32>)
      outs(%init : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}}"""


@pytest.mark.parametrize("seed", range(2))
def test_a_long_chain_of_scores_compiles(seed: int):
    draw = random.Random(seed)
    chain = [
        (draw.choice(list(STEPS)), max(0, n - draw.choice((0, 1, 2, 30))))
        for n in range(draw.randint(230, 300))
    ]
    program = compile_module(parse_text(softmax_behind(chain)), "lavapipe")
    rng = np.random.default_rng(seed)
    x, values = (rng.standard_normal(s).astype(np.float32) for s in ((4, 4), (4, 8)))
    (result,) = run(program, {"x0": x, "values": values}).values()
    tensors = [x]
    for step, other in chain:
        tensors.append(STEPS[step](tensors[-1], tensors[other]))
    scores = tensors[-1]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True) @ values
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
