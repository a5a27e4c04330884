"""Transposed weights for few rows give equal results for odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text


@pytest.mark.parametrize(("m", "n", "k", "type"), [(1, 37, 70, "f16"), (3, 41, 33, "f32")])
def test_a_transposed_weight_gives_the_same_results(m: int, n: int, k: int, type: str):
    x, w, y = f"tensor<{m}x{k}x{type}>", f"tensor<{k}x{n}x{type}>", f"tensor<{m}x{n}xf32>"
    text = f"""func.func @main(%x: {x}, %w: {w}) -> {y} {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : {y}
      %z = linalg.fill ins(%zero : f32) outs(%e : {y}) -> {y}
      %r = linalg.matmul ins(%x, %w : {x}, {w}) outs(%z : {y}) -> {y}
      return %r : {y}
    }}"""
    draw = np.random.default_rng(1)
    dtype = {"f16": np.float16, "f32": np.float32}[type]
    a, b = (draw.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    program = compile_module(parse_text(text), "nvidia-h200", weights={"w": b})
    assert [dispatch.once for dispatch in program.manifest.dispatches] == [True, False]
    checks = Checks.of("all")
    (result,) = run(program, {"x": a}, checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    wide = a.astype(np.float64), b.astype(np.float64)
    assert (abs(result - wide[0] @ wide[1]) <= 1e-5 * (abs(wide[0]) @ abs(wide[1]))).all()
