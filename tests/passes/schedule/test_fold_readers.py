"""
Readers of a product's columns are fused into the product.

Covers: kernel/column_readers_code, schedule/fold_rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.runtime.program import Program

if TYPE_CHECKING:
    from tests.conftest import CheckBinaries
    from tests.passes.conftest import ReadFunction

TARGET = "nvidia-h200"
K = 512
ROWS = (
    "#schedule.rows<rows = {rows}, columns = {columns}, lanes = 32, steps = 1, "
    "subgroups = [{along}, 1]>"
)
"""Schedules in which one subgroup has all columns."""
FOLDED = ROWS.format(rows=1, columns=4, along=2)
SAME = "affine_map<(i, j) -> (i, j)>"


def product(m: int, n: int, schedule: str) -> str:
    """Returns code for %q: the product of %x and the transpose of %w, plus a bias."""
    x, w, p = f"tensor<{m}x{K}xf32>", f"tensor<{n}x{K}xf32>", f"tensor<{m}x{n}xf32>"
    return f"""
  %zero = arith.constant 0.0 : f32
  %ep = tensor.empty() : {p}
  %z = linalg.fill ins(%zero : f32) outs(%ep : {p}) -> {p}
  %p = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}}
    ins(%x, %w : {x}, {w}) outs(%z : {p}) attrs = {{schedule = {schedule}}} {{
  ^bb0(%a: f32, %b: f32, %t: f32):
    %m = arith.mulf %a, %b : f32
    %r = arith.addf %t, %m : f32
    linalg.yield %r : f32
  }} -> {p}
  %q = linalg.add ins(%p, %bias : {p}, {p}) outs(%ep : {p}) -> {p}"""


def gated(
    n: int, schedule: str, count: int, offsets: tuple[int, int], m: int = 1, shows: bool = False
) -> str:
    """
    Returns a function that divides one column by another in each group of `count` columns.

    `offsets` are the two columns' positions in a group. If it `shows` the product, it returns the
    product, too.
    """
    p, h = f"tensor<{m}x{n}xf32>", f"tensor<{m}x{n // count}xf32>"
    v = f"tensor<{m}x{n // count}x{count}xf32>"
    reads = ", ".join(f"affine_map<(i, j) -> (i, j, {offset})>" for offset in offsets)
    results = ("%h, %q", f"{h}, {p}") if shows else ("%h", h)
    return f"""
func.func @main(%x: tensor<{m}x{K}xf32>, %w: tensor<{n}x{K}xf32>, %bias: {p}) -> ({results[1]}) {{
  {product(m, n, schedule)}
  %v = tensor.expand_shape %q [[0], [1, 2]] output_shape [{m}, {n // count}, {count}]
    : {p} into {v}
  %eh = tensor.empty() : {h}
  %h = linalg.generic {{indexing_maps = [{reads}, {SAME}],
      iterator_types = ["parallel", "parallel"]}} ins(%v, %v : {v}, {v}) outs(%eh : {h}) {{
  ^bb0(%a: f32, %b: f32, %o: f32):
    %c = arith.constant 1000.0 : f32
    %s = arith.addf %b, %c : f32
    %r = arith.divf %a, %s : f32
    linalg.yield %r : f32
  }} -> {h}
  return {results[0]} : {results[1]}
}}"""


def halves(n: int, schedule: str) -> str:
    """Returns a function that divides a product's first half of columns by its second half."""
    p, h = f"tensor<1x{n}xf32>", f"tensor<1x{n // 2}xf32>"
    return f"""
func.func @main(%x: tensor<1x{K}xf32>, %w: tensor<{n}x{K}xf32>, %bias: {p}) -> {h} {{
  {product(1, n, schedule)}
  %a = tensor.extract_slice %q[0, 0] [1, {n // 2}] [1, 1] : {p} to {h}
  %b = tensor.extract_slice %q[0, {n // 2}] [1, {n // 2}] [1, 1] : {p} to {h}
  %eh = tensor.empty() : {h}
  %h = linalg.generic {{indexing_maps = [{SAME}, {SAME}, {SAME}],
      iterator_types = ["parallel", "parallel"]}} ins(%a, %b : {h}, {h}) outs(%eh : {h}) {{
  ^bb0(%u: f32, %v: f32, %o: f32):
    %c = arith.constant 1000.0 : f32
    %s = arith.addf %v, %c : f32
    %r = arith.divf %u, %s : f32
    linalg.yield %r : f32
  }} -> {h}
  return %h : {h}
}}"""


def numbers(m: int, n: int) -> tuple[Array, ...]:
    """Returns x, w and a bias with exact products in f32."""
    draw = np.random.default_rng(1)
    return tuple(draw.integers(-3, 4, s).astype(np.float32) for s in ((m, K), (n, K), (m, n)))


def compiled(text: str) -> Program:
    return compile_module(parse_text(text), TARGET)


@pytest.mark.parametrize(
    ("n", "columns", "count", "offsets"),
    [(14, 2, 2, (1, 0)), (12, 4, 2, (0, 1)), (24, 8, 4, (3, 1)), (24, 8, 8, (5, 5))],
)
@pytest.mark.parametrize("along", [1, 2])
def test_a_gate_is_part_of_the_product(
    n: int,
    columns: int,
    count: int,
    offsets: tuple[int, int],
    along: int,
    check_binaries: CheckBinaries,
):
    made = compiled(gated(n, ROWS.format(rows=1, columns=columns, along=along), count, offsets))
    assert len(made.manifest.dispatches) == 1
    check_binaries(made)
    x, w, bias = numbers(1, n)
    names = [buffer.name for buffer in made.manifest.inputs]
    checks = Checks.of("all")
    (result,) = run(made, dict(zip(names, (x, w, bias), strict=True)), checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    columns_of_group = (x @ w.T + bias).reshape(1, n // count, count)
    expected = columns_of_group[..., offsets[0]] / (columns_of_group[..., offsets[1]] + 1000)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize(("n", "columns", "along"), [(48, 4, 2), (42, 2, 1), (60, 8, 2)])
def test_halves_are_interleaved(n: int, columns: int, along: int, check_binaries: CheckBinaries):
    made = compiled(halves(n, ROWS.format(rows=1, columns=columns, along=along)))
    assert len(made.manifest.dispatches) == 1
    check_binaries(made)
    x, w, bias = numbers(1, n)
    names = [buffer.name for buffer in made.manifest.inputs]
    checks = Checks.of("all")
    (result,) = run(made, dict(zip(names, (x, w, bias), strict=True)), checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    first, second = np.split(x @ w.T + bias, 2, axis=1)
    np.testing.assert_allclose(result, first / (second + 1000), rtol=1e-6)


def rotated(x: Array, apart: bool) -> Array:
    pairs = x.reshape(2, 2) if not apart else x.reshape(2, 2).T
    first, second = pairs[:, 0], pairs[:, 1]
    both = np.stack([first - second, second + first], 1)
    return (both if not apart else both.T).reshape(4)


@pytest.mark.parametrize("apart", [False, True])
def test_rotated_columns_go_into_states(
    apart: bool, read_function: ReadFunction, check_binaries: CheckBinaries
):
    name = "turned_halves" if apart else "turned_neighbours"
    made = compiled(read_function("schedule/fold_readers.mlir", name))
    assert len(made.manifest.dispatches) == 1
    check_binaries(made)
    x, w, bias = numbers(1, 12)
    names = [buffer.name for buffer in made.manifest.inputs if buffer.kind == "input"]
    number = next(buffer.name for buffer in made.manifest.inputs if buffer.kind == "scalar")
    checks = Checks.of("all")
    session = made.session("interpreter")
    keys, values = np.zeros((6, 4)), np.zeros((6, 4))
    for past in (2, 5):
        given = dict(zip(names, (x + past, w, bias), strict=True))
        results = session.run(None, {**given, number: past}, checks=checks)
        columns = ((x + past) @ w.T + bias)[0]
        keys[past], values[past] = rotated(columns[4:8], apart), columns[8:]
        (turned_columns,) = (r for r in results.values() if r.shape == (1, 4))
        assert (turned_columns[0] == rotated(columns[:4], apart).astype(np.float16)).all()
    assert not checks.report.findings, str(checks.report)
    for state, expected in zip(session.state().values(), (keys, values), strict=True):
        assert (state == expected.astype(np.float16)).all()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(gated(12, FOLDED, 2, (0, 1), shows=True), id="read by others"),
        pytest.param(
            gated(12, ROWS.format(rows=2, columns=2, along=2), 2, (0, 1), m=2), id="several rows"
        ),
        pytest.param(
            gated(12, ROWS.format(rows=1, columns=3, along=2), 2, (0, 1)),
            id="tiles are not divided",
        ),
        pytest.param(gated(12, FOLDED, 3, (0, 2)), id="no group of two, four or eight"),
        pytest.param(gated(48, FOLDED, 16, (0, 15)), id="far apart"),
    ],
)
def test_a_reader_stays_a_dispatch(text: str):
    assert len(compiled(text).manifest.dispatches) == 2
