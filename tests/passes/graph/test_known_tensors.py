"""Tensors that depend only on constants are computed; others are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from xdsl_spirv.passes.graph import known_tensors
from xdsl_spirv.passes.graph.known_tensors import constant_of, known_integer, known_tensor
from xdsl_spirv.runtime.modules import parse_text

TEXT = """
func.func @f(%x: tensor<2x3xi8>) -> (tensor<3x2xi8>, tensor<6xi8>, tensor<2x3xi8>, tensor<4xi8>) {
  %c = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<3x2xi8>
  %t = linalg.transpose ins(%c : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  %flat = tensor.collapse_shape %t [[0, 1]] : tensor<3x2xi8> into tensor<6xi8>
  %o = tensor.empty() : tensor<2x3xi8>
  %sum = linalg.add ins(%c, %x : tensor<2x3xi8>, tensor<2x3xi8>) outs(%o : tensor<2x3xi8>)
      -> tensor<2x3xi8>
  %seven = arith.constant dense<7> : tensor<4xi8>
  func.return %t, %flat, %sum, %seven : tensor<3x2xi8>, tensor<6xi8>, tensor<2x3xi8>, tensor<4xi8>
}
"""


def results_of(text: str) -> Sequence[SSAValue]:
    """Returns the values that the only function returns."""
    (function,) = (op for op in parse_text(text).body.block.ops if isinstance(op, FuncOp))
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    return last.operands


def test_moved_constants_are_known():
    transposed, flat, summed, _ = results_of(TEXT)
    known = known_tensor(transposed)
    assert known is not None
    assert known.tolist() == [[1, 4], [2, 5], [3, 6]]
    again = known_tensor(flat)
    assert again is not None
    assert again.tolist() == [1, 4, 2, 5, 3, 6]
    assert known_tensor(summed) is None, "an argument has any numbers"


def test_a_tensor_too_large_is_left_to_the_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_tensors, "LARGEST", 5)
    assert known_tensor(results_of(TEXT)[0]) is None


def test_the_number_of_a_splat_is_known():
    transposed, _, _, sevens = results_of(TEXT)
    assert known_integer(sevens) == 7
    assert known_integer(transposed) is None
    assert known_integer(constant_of(np.array([3, 3]), i32).result) == 3
    assert known_integer(constant_of(np.array([3, 4]), i8).result) is None
