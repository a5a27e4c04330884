"""
Elementwise operations of few rows are fused into the products that read them.

Covers: schedule/fold_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries

TARGET = "nvidia-h200"
DIGITS = (
    "#schedule.rows<rows = {rows}, columns = {columns}, lanes = 32, steps = {steps}, groups = 3, "
    "digits = 3, subgroups = [{along}, 1]>"
)


def program(m: int, n: int, k: int, schedule: str, shows: bool = False) -> str:
    """
    Returns a function: silu(first half of %x's columns) * second half, times %w, plus a bias.

    If it `shows` the elementwise result, it also returns this result.
    """
    x, h, y = (f"tensor<{m}x{columns}xf32>" for columns in (2 * k, k, n))
    w, f = (f"tensor<{n}x{k}x{element}>" for element in ("i8", "f32"))
    same = "affine_map<(i, j) -> (i, j)>"
    loops = 'iterator_types = ["parallel", "parallel"]'
    results = ("%z, %h", f"{y}, {h}") if shows else ("%z", y)
    return f"""
func.func @main(%x: {x}, %w: {w}, %bias: {y}) -> ({results[1]}) {{
  %zero = arith.constant 0.0 : f32
  %gate = tensor.extract_slice %x[0, 0] [{m}, {k}] [1, 1] : {x} to {h}
  %up = tensor.extract_slice %x[0, {k}] [{m}, {k}] [1, 1] : {x} to {h}
  %eh = tensor.empty() : {h}
  %ef = tensor.empty() : {f}
  %ey = tensor.empty() : {y}
  %h = linalg.generic {{indexing_maps = [{same}, {same}, {same}], {loops}}}
    ins(%gate, %up : {h}, {h}) outs(%eh : {h}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.negf %a : f32
    %e = math.exp %n : f32
    %one = arith.constant 1.0 : f32
    %s = arith.addf %e, %one : f32
    %q = arith.divf %a, %s : f32
    %r = arith.mulf %q, %b : f32
    linalg.yield %r : f32
  }} -> {h}
  %f = linalg.generic {{indexing_maps = [{same}, {same}], {loops}}} ins(%w : {w}) outs(%ef : {f}) {{
  ^bb0(%b: i8, %o: f32):
    %r = arith.sitofp %b : i8 to f32
    linalg.yield %r : f32
  }} -> {f}
  %zy = linalg.fill ins(%zero : f32) outs(%ey : {y}) -> {y}
  %p = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
    ins(%h, %f : {h}, {f}) outs(%zy : {y}) attrs = {{schedule = {schedule}}} {{
  ^bb0(%a: f32, %b: f32, %t: f32):
    %q = arith.mulf %a, %b : f32
    %r = arith.addf %t, %q : f32
    linalg.yield %r : f32
  }} -> {y}
  %z = linalg.add ins(%p, %bias : {y}, {y}) outs(%ey : {y}) -> {y}
  return {results[0]} : {results[1]}
}}"""


def compiled(text: str) -> Program:
    return compile_module(parse_text(text), TARGET)


@pytest.mark.parametrize(
    ("m", "n", "k", "columns", "steps", "along"), [(1, 13, 512, 4, 1, 1), (2, 9, 1024, 2, 1, 2)]
)
def test_elementwise_operations_become_part_of_the_product(
    m: int, n: int, k: int, columns: int, steps: int, along: int, check_binaries: CheckBinaries
):
    schedule = DIGITS.format(rows=m, columns=columns, steps=steps, along=along)
    made = compiled(program(m, n, k, schedule))
    assert len(made.manifest.dispatches) == 1
    check_binaries(made)
    draw = np.random.default_rng(1)
    x, bias = (draw.standard_normal((m, c)).astype(np.float32) for c in (2 * k, n))
    w = draw.integers(-128, 128, (n, k), np.int8)
    names = [buffer.name for buffer in made.manifest.inputs]
    checks = Checks.of("all")
    (result,) = run(made, dict(zip(names, (x, w, bias), strict=True)), checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    gate, up = np.split(x.astype(np.float64), 2, axis=1)
    h = gate / (1 + np.exp(-gate)) * up
    allowed = 1e-5 * (abs(h) @ abs(w.T.astype(np.float64)))
    assert (abs(result - h @ w.T.astype(np.float64) - bias) <= allowed).all()


@pytest.mark.parametrize(
    ("schedule", "shows"),
    [
        pytest.param(DIGITS.format(rows=1, columns=4, steps=1, along=1), True, id="read by others"),
        pytest.param(
            "#schedule.rows<rows = 1, columns = 4, lanes = 32, steps = 1, subgroups = [1, 1]>",
            False,
            id="computed for each group of columns",
        ),
    ],
)
def test_other_elementwise_operations_stay_a_dispatch(schedule: str, shows: bool):
    assert len(compiled(program(1, 37, 512, schedule, shows)).manifest.dispatches) == 2
