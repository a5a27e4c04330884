"""
Norms of few rows in the kernels of the products that read them: the folded operations, and their
results.

Covers: kernel/row_sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import run
from xdsl_spirv.runtime.modules import parse_text
from xdsl_spirv.tools import khronos

if TYPE_CHECKING:
    from tests.passes.conftest import Validate

TARGET = "nvidia-h200"

EPSILON = 1e-5


def generic(name: str, maps: str, inputs: dict[str, str], out: str, body: str) -> str:
    """A `linalg.generic` whose maps are letters (`mk:mk,m`), summing up what the result lacks."""
    loops, _, places = maps.partition(":")
    names = ", ".join(loops)
    affine = ", ".join(f"affine_map<({names}) -> ({', '.join(p)})>" for p in places.split(","))
    result = places.split(",")[-1]
    kinds = ", ".join('"parallel"' if loop in result else '"reduction"' for loop in loops)
    arguments = ", ".join(f"%{letter}: f32" for letter in [*"abc"[: len(inputs)], "t"])
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{affine}], iterator_types = [{kinds}]}}
    ins({", ".join(inputs)} : {", ".join(inputs.values())}) outs({out}) {{
  ^bb0({arguments}):
    {body}
    linalg.yield %r : f32
  }} -> {out.partition(" : ")[2]}"""


def program(m: int, n: int, k: int, divides: bool, products: int, shows: bool) -> str:
    """
    Products of an RMS norm of `m` rows of `k` elements, each plus a bias; `shows` the norm, too.
    """
    x, row, g, w, y = (f"tensor<{s}xf32>" for s in (f"{m}x{k}", m, k, f"{n}x{k}", f"{m}x{n}"))
    scale = "%r = arith.divf %a, %b : f32" if divides else "%r = arith.mulf %a, %b : f32"
    times = "%r = arith.mulf %a, %b : f32"
    inverse = "%r = math.sqrt %p : f32" if divides else "%r = math.rsqrt %p : f32"
    body = f"""
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : {row}
  %ex = tensor.empty() : {x}
  %ey = tensor.empty() : {y}
  %zr = linalg.fill ins(%zero : f32) outs(%er : {row}) -> {row}
  %zy = linalg.fill ins(%zero : f32) outs(%ey : {y}) -> {y}"""
    body += generic(
        "ss", "mk:mk,m", {"%x": x}, f"%zr : {row}",
        "%q = arith.mulf %a, %a : f32\n%r = arith.addf %t, %q : f32",
    )  # fmt: skip
    body += generic(
        "s", "m:m,m", {"%ss": row}, f"%er : {row}",
        f"%c = arith.constant {1 / k:.9e} : f32\n%e = arith.constant {EPSILON:.9e} : f32\n"
        f"%q = arith.mulf %a, %c : f32\n%p = arith.addf %q, %e : f32\n{inverse}",
    )  # fmt: skip
    body += generic("v", "mk:mk,m,mk", {"%x": x, "%s": row}, f"%ex : {x}", scale)
    body += generic("y", "mk:mk,k,mk", {"%v": x, "%g": g}, f"%ex : {x}", times)
    for number in range(products):
        body += generic(
            f"p{number}", "mnk:mk,nk,mn", {"%y": x, f"%w{number}": w}, f"%zy : {y}",
            "%q = arith.mulf %a, %b : f32\n%r = arith.addf %t, %q : f32",
        )  # fmt: skip
        body += generic(
            f"r{number}", "mn:mn,mn,mn", {f"%p{number}": y, "%bias": y}, f"%ey : {y}",
            "%r = arith.addf %a, %b : f32",
        )  # fmt: skip
    weights = "".join(f", %w{number}: {w}" for number in range(products))
    results = [f"%r{number}" for number in range(products)] + (["%y"] if shows else [])
    types = ", ".join([y] * products + ([x] if shows else []))
    return f"""
func.func @main(%x: {x}, %g: {g}, %bias: {y}{weights}) -> ({types}) {{{body}
  return {", ".join(results)} : {types}
}}"""


def inputs_of(m: int, n: int, k: int, products: int) -> list[Any]:
    generator = np.random.default_rng(1)
    shapes = [(m, k), (k,), (m, n), *[(n, k)] * products]
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def expected(x: Any, g: Any, bias: Any, *weights: Any) -> list[Any]:
    x = x.astype(np.float64)
    normal = x / np.sqrt((x**2).mean(1, keepdims=True) + EPSILON) * g
    return [normal @ w.T.astype(np.float64) + bias for w in weights]


def compiled(text: str) -> Any:
    return compile_module(parse_text(text), TARGET)


@pytest.mark.parametrize(
    ("m", "n", "k", "divides", "products"),
    [(1, 37, 128, False, 1), (1, 300, 36, True, 2), (3, 70, 130, False, 1), (2, 33, 259, True, 1)],
)
def test_a_norm_is_part_of_its_products(
    m: int, n: int, k: int, divides: bool, products: int, spirv_val: str
):
    made = compiled(program(m, n, k, divides, products, False))
    assert len(made.manifest.dispatches) == products
    for code in made.code.values():
        assert khronos.spirv_val(code.binary) == ""
    arrays = inputs_of(m, n, k, products)
    checks = Checks.of("all")
    names = [buffer.name for buffer in made.manifest.inputs]
    results = run(made, dict(zip(names, arrays, strict=True)), checks=checks).values()
    assert not checks.report.findings, str(checks.report)
    for result, value in zip(results, expected(*arrays), strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("rows", "shows"), [pytest.param(1, True, id="read by others"), pytest.param(64, False)]
)
def test_a_norm_that_others_read_or_of_many_rows_stays(rows: int, shows: bool):
    made = compiled(program(rows, 64, 64, False, 1, shows))
    assert len(made.manifest.dispatches) == 2


def test_the_pass_keeps_what_is_computed(validate: Validate):
    passes = linalg_to_spirv(TARGET)
    names = [each.name for each in passes]
    validate(program(2, 20, 24, True, 2, False), passes[: names.index("fold-norms") + 1], inputs=2)
