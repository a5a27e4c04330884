"""Control flow of host functions: `scf.while`, and blocks that branch to each other."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.modules import parse_text

WHILE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %r:2 = scf.while (%i = %c0, %v = %x) : (index, tensor<4xf32>) -> (index, tensor<4xf32>) {
    %c = arith.cmpi slt, %i, %c3 : index
    scf.condition(%c) %i, %v : index, tensor<4xf32>
  } do {
  ^bb0(%j: index, %w: tensor<4xf32>):
    %n = arith.addi %j, %c1 : index
    %e = tensor.empty() : tensor<4xf32>
    %s = linalg.add ins(%w, %w : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
        -> tensor<4xf32>
    scf.yield %n, %s : index, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
}"""

BLOCKS = """
func.func @main(%x: tensor<4xf32>, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^bb1, ^bb3(%x : tensor<4xf32>)
^bb1:
  %e = tensor.empty() : tensor<4xf32>
  %s = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
      -> tensor<4xf32>
  cf.br ^bb3(%s : tensor<4xf32>)
^bb3(%r: tensor<4xf32>):
  return %r : tensor<4xf32>
}"""


def test_a_loop_runs_until_its_condition_fails():
    x = np.arange(4, dtype=np.float32)
    (result,) = interpret(parse_text(WHILE), [x])
    np.testing.assert_array_equal(result, x * 8)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_pass_values_on(taken: bool):
    x = np.arange(4, dtype=np.float32)
    (result,) = interpret(parse_text(BLOCKS), [x, np.array(taken)])
    np.testing.assert_array_equal(result, x * 2 if taken else x)
