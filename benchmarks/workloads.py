"""MLIR texts of workloads that several benchmarks share, so that their figures are comparable."""

from __future__ import annotations

_MATMUL = """
func.func @main(%A: tensor<{n}x{n}xf16>, %B: tensor<{n}x{n}xf16>) -> tensor<{n}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{n}x{n}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
  %r = linalg.matmul ins(%A, %B : tensor<{n}x{n}xf16>, tensor<{n}x{n}xf16>)
                     outs(%init : tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
  return %r : tensor<{n}x{n}xf32>
}}
"""


def matmul(size: int) -> str:
    """Returns a function `@main` of A and B: an f16 x f16 -> f32 matmul of square matrices."""
    return _MATMUL.format(n=size)
