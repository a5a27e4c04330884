"""
One kernel stores a sum and its norm, and one kernel computes all parts of a concatenated result.

Sizes of rows are dynamic or static, and need not be multiples of a vector. Some rows fit the
registers, others do not. The interpreter runs the programs with all checks for devices with
subgroups of 8 and of 32. Results are compared with the results of the operations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from xdsl_spirv.compare.check import check
from xdsl_spirv.compiler import compile_module
from xdsl_spirv.interpreter.checks import Checks
from xdsl_spirv.runtime import Program
from xdsl_spirv.runtime.elements import Array, dtype_of
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.expressions import evaluate
from xdsl_spirv.runtime.modules import parse_text

TARGETS = ("lavapipe", "nvidia-h200")


def sum_and_norm(rows: int | None, columns: int, also: str = "") -> str:
    """
    Returns a function that computes the sum x = a + b and a scaled RMS norm in f16.

    The lines `also` may compute %y from x: %y is then the first result and the norm's input.
    """
    m = "?" if rows is None else rows
    x, half = f"tensor<{m}x{columns}xf32>", f"tensor<{m}x{columns}xf16>"
    row, size = f"tensor<{m}xf32>", "(%m)" if rows is None else "()"
    same, by_row = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>"
    both = 'iterator_types = ["parallel", "parallel"]'
    divided = "%y" if also else "%x"
    return f"""
    func.func @main(%a: {x}, %b: {x}, %w: tensor<{columns}xf32>) -> ({x}, {half}) {{
      %zero = arith.constant 0.0 : f32
      %count = arith.constant {columns}.0 : f32
      %first = arith.constant 0 : index
      %m = tensor.dim %a, %first : {x}
      %e = tensor.empty{size} : {x}
      %h = tensor.empty{size} : {half}
      %s = tensor.empty{size} : {row}
      %x = linalg.add ins(%a, %b : {x}, {x}) outs(%e : {x}) -> {x}
      {also}
      %z = linalg.fill ins(%zero : f32) outs(%s : {row}) -> {row}
      %t = linalg.generic {{indexing_maps = [{same}, {by_row}],
          iterator_types = ["parallel", "reduction"]}} ins(%x : {x}) outs(%z : {row}) {{
      ^bb0(%u: f32, %v: f32):
        %p = arith.mulf %u, %u : f32
        %q = arith.addf %v, %p : f32
        linalg.yield %q : f32
      }} -> {row}
      %n = linalg.generic {{indexing_maps = [{same}, {by_row}, affine_map<(i, j) -> (j)>, {same}],
          {both}}} ins({divided}, %t, %w : {x}, {row}, tensor<{columns}xf32>)
          outs(%h : {half}) {{
      ^bb0(%u: f32, %v: f32, %f: f32, %o: f16):
        %0 = arith.divf %v, %count : f32
        %1 = math.rsqrt %0 : f32
        %2 = arith.mulf %u, %1 : f32
        %3 = arith.mulf %2, %f : f32
        %4 = arith.truncf %3 : f32 to f16
        linalg.yield %4 : f16
      }} -> {half}
      func.return {divided}, %n : {x}, {half}
    }}"""


PARTS = """
func.func @main(%x: tensor<?x40xf16>, %w: tensor<40x192xf16>, %c: tensor<?x32xf32>)
    -> (tensor<2x?x32x2xf16>, tensor<?x64xf16>) {
  %zero = arith.constant 0.0 : f32
  %first = arith.constant 0 : index
  %m = tensor.dim %x, %first : tensor<?x40xf16>
  %e = tensor.empty(%m) : tensor<?x192xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x192xf32>) -> tensor<?x192xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x40xf16>, tensor<40x192xf16>)
                     outs(%i : tensor<?x192xf32>) -> tensor<?x192xf32>
  %qs = tensor.extract_slice %p[0, 0] [%m, 128] [1, 1] : tensor<?x192xf32> to tensor<?x128xf32>
  %vs = tensor.extract_slice %p[0, 128] [%m, 64] [1, 1] : tensor<?x192xf32> to tensor<?x64xf32>
  %h = tensor.expand_shape %qs [[0], [1, 2, 3]] output_shape [%m, 2, 32, 2]
      : tensor<?x128xf32> into tensor<?x2x32x2xf32>
  %qe = tensor.empty(%m) : tensor<2x?x32x2xf16>
  %q = linalg.generic {indexing_maps = [affine_map<(h, i, j, t) -> (i, h, j, t)>,
      affine_map<(h, i, j, t) -> (i, h, j, t * -1 + 1)>, affine_map<(h, i, j, t) -> (i, j)>,
      affine_map<(h, i, j, t) -> (h, i, j, t)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%h, %h, %c : tensor<?x2x32x2xf32>, tensor<?x2x32x2xf32>, tensor<?x32xf32>)
      outs(%qe : tensor<2x?x32x2xf16>) {
  ^bb0(%a: f32, %b: f32, %f: f32, %o: f16):
    %0 = arith.mulf %a, %f : f32
    %1 = arith.subf %0, %b : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<2x?x32x2xf16>
  %ve = tensor.empty(%m) : tensor<?x64xf16>
  %v = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%vs : tensor<?x64xf32>) outs(%ve : tensor<?x64xf16>) {
  ^bb0(%a: f32, %o: f16):
    %0 = arith.truncf %a : f32 to f16
    linalg.yield %0 : f16
  } -> tensor<?x64xf16>
  func.return %q, %v : tensor<2x?x32x2xf16>, tensor<?x64xf16>
}"""


def assert_right(program: Program, sizes: Mapping[str, int]) -> None:
    """Checks that the interpreter's results are right, and that its checks find nothing."""
    generator, inputs = np.random.default_rng(1), dict[str, Array]()
    for buffer in program.manifest.inputs:
        shape = tuple(evaluate(size, sizes, buffer.name) for size in buffer.shape)
        inputs[buffer.name] = generator.uniform(-1, 1, shape).astype(dtype_of(buffer.type))
    checks = Checks.of("all")
    results = run(program, inputs, checks=checks)
    assert not checks.report.findings, str(checks.report)
    for comparison in check(program, inputs, results):
        assert comparison.passed, f"{sizes}: {comparison}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [32, 100, 257, 1024])
@pytest.mark.parametrize("rows", [None, 33])
def test_one_kernel_computes_a_sum_and_its_norm(rows: int | None, columns: int, target: str):
    program = compile_module(parse_text(sum_and_norm(rows, columns)), target)
    assert len(program.manifest.dispatches) == 1
    for count in (1, 37) if rows is None else (rows,):
        assert_right(program, {"a_0": count})


def test_a_value_between_sum_and_norm_needs_three_kernels():
    x = "tensor<?x64xf32>"
    also = f"%y = linalg.exp ins(%x : {x}) outs(%e : {x}) -> {x}"
    program = compile_module(parse_text(sum_and_norm(None, 64, also)), "lavapipe")
    assert [layer.results for layer in program.layers] == [1, 1, 1]
    assert_right(program, {"a_0": 35})


def test_a_sum_that_is_read_by_columns_needs_two_kernels():
    text = sum_and_norm(40, 64).replace(
        "%x = linalg.add",
        """%te = tensor.empty() : tensor<64x40xf32>
      %tb = tensor.empty() : tensor<40x64xf32>
      %tc = linalg.exp ins(%turned : tensor<64x40xf32>) outs(%te : tensor<64x40xf32>)
          -> tensor<64x40xf32>
      %b = linalg.transpose ins(%tc : tensor<64x40xf32>) outs(%tb : tensor<40x64xf32>)
          permutation = [1, 0]
      %x = linalg.add""",
    )
    text = text.replace("%b: tensor<40x64xf32>", "%turned: tensor<64x40xf32>")
    program = compile_module(parse_text(text), "lavapipe")
    last = program.layers[-1]
    assert (last.results, "exp" in last.computes) == (2, False)
    assert_right(program, {})
    copied = text[: text.index("%x = linalg.add")] + text[text.index("%z = linalg.fill") :]
    program = compile_module(parse_text(copied.replace("%x", "%b")), "lavapipe")
    assert [layer.results for layer in program.layers] == [1, 1]


@pytest.mark.parametrize(("rows", "columns"), [(7, 64), (64, 16)])
def test_few_rows_or_columns_need_two_kernels(rows: int, columns: int):
    program = compile_module(parse_text(sum_and_norm(rows, columns)), "nvidia-h200")
    assert len(program.manifest.dispatches) == 2


@pytest.mark.parametrize(("element", "kernels"), [("f16", 1), ("f32", 2)])
def test_a_norm_of_few_rows_may_be_part_of_a_product(element: str, kernels: int):
    """A sum and its norm are one kernel in f16, and two kernels in f32."""
    text = sum_and_norm(8, 64)
    if element == "f32":
        text = text.replace("f16", "f32").replace("arith.truncf %", "arith.negf %")
        text = text.replace(": f32 to f32", ": f32")
    program = compile_module(parse_text(text), "nvidia-h200")
    assert len(program.manifest.dispatches) == kernels
    assert_right(program, {})


@pytest.mark.parametrize("target", TARGETS)
def test_one_kernel_computes_all_parts_of_a_concatenation(target: str):
    program = compile_module(parse_text(PARTS), target)
    assert len(program.manifest.dispatches) == 2
    assert program.layers[-1].results == 2
    for rows in (1, 7, 65):
        assert_right(program, {"x_0": rows})
