"""Products of f32 that are computed as sums of bf16 products have the documented accuracy."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.passes.schedule.paths import Limits
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text

MATMUL = """
func.func @main(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>, %c: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %r = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) outs(%c : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %r : tensor<{m}x{n}xf32>
}}"""  # noqa: E501
CONVOLUTION = """
func.func @main(%x: tensor<1x18x18x16xf32>, %w: tensor<3x3x16x32xf32>, %c: tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xf32> {
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x18x18x16xf32>, tensor<3x3x16x32xf32>) outs(%c : tensor<1x16x16x32xf32>) -> tensor<1x16x16x32xf32>
  return %r : tensor<1x16x16x32xf32>
}"""  # noqa: E501

ALLOWED = Limits(allowed="bf16x3")
PRODUCT, SUM = 3 * 2.0**-16, 2.0**-24
"""Largest relative errors of a product and of an addition."""


def results(text: str, *arrays: np.ndarray) -> np.ndarray:
    """Returns the result on the interpreter with all checks. The product must use bf16 matrices."""
    program = compile_module(parse_text(text), "nvidia-h200", limits=ALLOWED)
    assert [layer.path for layer in program.layers].count("cooperative-matrix") == 1
    inputs = {b.name: a for b, a in zip(program.manifest.inputs, arrays, strict=True)}
    checks = Checks.all()
    (result,) = run(program, inputs, checks=checks).values()
    assert not list(checks.report), str(checks.report)
    return result


@pytest.mark.parametrize(("m", "n", "k"), [(32, 16, 48), (17, 50, 200), (64, 33, 7)])
def test_the_error_of_a_split_product_is_that_of_its_parts(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m)
    # Magnitudes differ by 2^40, so parts with a common scale would be lost.
    a, b, c = (
        (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
        for shape in ((m, k), (k, n), (m, n))
    )
    result = results(MATMUL.format(m=m, n=n, k=k), a, b, c)
    wide = [x.astype(np.float64) for x in (a, b, c)]
    exact, total = wide[0] @ wide[1] + wide[2], abs(wide[0]) @ abs(wide[1]) + abs(wide[2])
    assert (abs(result - exact) <= (PRODUCT + 3 * k * SUM) * total).all()
    # A single product of the high parts would have a larger error.
    assert (abs(result - exact) / total).max() < 2.0**-13


def test_a_convolution_is_split_as_a_product_is() -> None:
    rng = np.random.default_rng(3)
    x, w, c = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((1, 18, 18, 16), (3, 3, 16, 32), (1, 16, 16, 32))
    )
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
    exact = np.einsum("nijcrs,rscf->nijf", windows, w.astype(np.float64)) + c
    total = np.einsum("nijcrs,rscf->nijf", abs(windows), abs(w.astype(np.float64))) + abs(c)
    assert (abs(results(CONVOLUTION, x, w, c) - exact) <= (PRODUCT + 500 * SUM) * total).all()


@pytest.mark.parametrize("m", [1, 15])
def test_few_rows_are_not_split_and_the_caller_is_told(m: int) -> None:
    with pytest.raises(ProgramError, match="no product of f32 has at least 16 rows and columns"):
        compile_module(parse_text(MATMUL.format(m=m, n=64, k=64)), "nvidia-h200", limits=ALLOWED)


def test_a_layer_says_that_it_is_split() -> None:
    program = compile_module(
        parse_text(MATMUL.format(m=64, n=64, k=64)), "nvidia-h200", limits=ALLOWED
    )
    (product,) = (layer for layer in program.layers if layer.path == "cooperative-matrix")
    assert ("bf16x3", True) in [(c.path, c.taken) for c in product.considered]
