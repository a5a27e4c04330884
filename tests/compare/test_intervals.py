"""The intervals of `--check` contain all results that a device may return, and no others."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from xdsl_spirv.compare.bounds import compare_result
from xdsl_spirv.compare.check import check_module
from xdsl_spirv.compare.intervals import Intervals
from xdsl_spirv.compare.scalar_intervals import Interval
from xdsl_spirv.interpreter.api import interpret
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.modules import context, parse_text

READ = """
#map = affine_map<(i) -> (i)>
func.func @main(%x: tensor<5xf32>, %p: tensor<4xf32>) -> tensor<4xf32> {{
  %empty = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {{indexing_maps = [#map, #map], iterator_types = ["parallel"]}}
      ins(%p : tensor<4xf32>) outs(%empty : tensor<4xf32>) {{
  ^bb0(%place: f32, %out: f32):
    {index}
    %e = tensor.extract %x[%n] : tensor<5xf32>
    linalg.yield %e : f32
  }} -> tensor<4xf32>
  return %y : tensor<4xf32>
}}
"""

EXACT = """%i = arith.fptosi %place : f32 to i32
    %five = arith.constant 5 : i32
    %wrapped = arith.remui %i, %five : i32
    %n = arith.index_cast %wrapped : i32 to index"""

ROUNDED = """%third = arith.constant 3.0 : f32
    %tripled = arith.constant 9.0 : f32
    %q = arith.divf %tripled, %third : f32
    %s = arith.mulf %place, %q : f32
    %t = arith.divf %s, %third : f32
    %i = arith.fptosi %t : f32 to i32
    %n = arith.index_cast %i : i32 to index"""

WRAPPED = """%much = arith.constant 1.0e30 : f32
    %s = arith.mulf %place, %much : f32
    %t = arith.subf %s, %much : f32
    %i = arith.fptosi %t : f32 to i64
    %one = arith.constant 1 : i64
    %next = arith.addi %i, %one : i64
    %n = arith.index_cast %next : i64 to index"""

CANCELLED = """%much = arith.constant {much} : f32
    %s = arith.mulf %place, %much : f32
    %t = arith.subf %s, %much : f32
    %i = arith.fptosi %t : f32 to {type}
    %n = arith.index_cast %i : {type} to index"""

X = np.array([1, 20, 3, 40, 5], np.float32)


def interval(text: str, *arguments: npt.NDArray[np.generic]) -> Interval:
    """Returns the interval of the result of `@main`, after checking the interpreter's result."""
    module = parse_text(text, "test", context())
    (expected,) = interpret(module.clone(), list(arguments))
    (bounds,) = Intervals(module).run("main", list(arguments))
    assert np.all((bounds.low <= expected) & (expected <= bounds.high))
    return bounds


def test_an_element_at_an_exact_index_is_exact():
    bounds = interval(READ.format(index=EXACT), X, np.array([0, 3, 6, 9], np.float32))
    assert bounds.is_point
    assert bounds.low.tolist() == [1, 40, 20, 5]


def test_an_element_at_a_rounded_index_is_one_of_two():
    places = np.array([0, 0.5, 2, 3.5], np.float32)
    bounds = interval(READ.format(index=ROUNDED), X, places)
    # 2 * 3 / 3 may be rounded to just below 2, so the index is 2 or 1 and the element 20 or 3.
    assert bounds.low.tolist() == [1, 1, 3, 40]
    assert bounds.high.tolist() == [1, 1, 20, 40]


@pytest.mark.parametrize(
    "index",
    [
        CANCELLED.format(much="1.0e9", type="i32"),
        CANCELLED.format(much="1.0e30", type="i64"),
        WRAPPED,
    ],
    ids=["i32", "i64", "i64 + 1"],
)
def test_an_element_at_an_unknown_index_has_no_bound(index: str):
    with pytest.raises(ProgramError, match=r"extract: its index is computed from inexact"):
        interval(READ.format(index=index), X, np.ones(4, np.float32))


def test_a_comparison_names_elements_for_which_any_result_passes():
    result = np.array([1, 2, 3], np.float32)
    told = str(compare_result("y", result, result + 1, np.array([2, np.inf, np.inf])))
    assert told.endswith("; NO BOUND: any result of 2 elements passes")
    assert "NO BOUND" not in str(compare_result("y", result, result, np.zeros(3)))


def test_a_comparison_names_bounds_that_are_as_wide_as_the_results():
    result = np.array([-38, 2, 1, 0], np.float32)
    allowed = np.array([52.6, 37.9, 38, np.inf])
    told = str(compare_result("y", result, result, allowed))
    assert "WIDE BOUND: 2 elements may be off by the largest expected result, 38, or more" in told
    assert "WIDE BOUND" not in str(compare_result("y", result, result, np.full(4, 37.9)))
    zeros = np.zeros(4, np.float32)
    assert "WIDE BOUND" not in str(compare_result("y", zeros, zeros, np.full(4, 1e-40)))


MIXED = """
#map = affine_map<(i) -> (i)>
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @main(%x: tensor<2x3xf32>, %b: tensor<3x2xi8>, %c: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %empty = tensor.empty() : tensor<2x3xi8>
  %a = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<2x3xf32>) outs(%empty : tensor<2x3xi8>) {
  ^bb0(%e: f32, %out: i8):
    %third = arith.constant 3.0 : f32
    %q = arith.divf %e, %third : f32
    %i = arith.fptosi %q : f32 to i8
    linalg.yield %i : i8
  } -> tensor<2x3xi8>
  %y = linalg.generic {indexing_maps = [#a, #b, #c],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<2x3xi8>, tensor<3x2xi8>) outs(%c : tensor<2x2xi32>) {
  ^bb0(%l: i8, %r: i8, %out: i32):
    %wide = arith.extsi %l : i8 to i32
    %whole = arith.extui %r : i8 to i32
    %product = arith.muli %wide, %whole : i32
    %sum = arith.addi %out, %product : i32
    linalg.yield %sum : i32
  } -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}
"""


@pytest.mark.parametrize(("type", "error"), [(np.uint8, 255), (np.int8, 1)])
def test_errors_of_integers_depend_on_their_signedness(type: npt.DTypeLike, error: int):
    result, expected = (np.array([number], np.uint8).view(type) for number in (255, 0))
    assert compare_result("y", result, expected, np.zeros(1)).max_abs == error
    assert compare_result("y", result.view(np.int8), expected, np.zeros(1)).max_abs == error


def test_unsigned_factors_beside_rounded_ones_count_as_unsigned():
    x = np.array([[3, 10, -9], [30, 7, 1]], np.float32)
    b = np.array([[-1, 2], [3, -128], [100, -100]], np.int8)
    interval(MIXED, x, b, np.zeros((2, 2), np.int32))


REDUCE = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<4x6xf32>) outs(%init : tensor<4xf32>)
      dimensions = [1]
  return %sum : tensor<4xf32>
}
"""


def test_the_rounding_of_a_named_reduction_is_allowed():
    x = np.random.default_rng(0).standard_normal((4, 6), np.float32)
    in_another_order = np.add.reduce(x[:, ::-1], axis=1, dtype=np.float32)
    module = parse_text(REDUCE, "test", context())
    for result, within in ((in_another_order, True), (in_another_order + 1e-3, False)):
        (checked,) = check_module(module, "main", [x], ["y"], {"y": result})
        assert checked.passed is within


NEGATIVE = """
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %m = arith.constant -1.5 : f32
  %e = tensor.empty() : tensor<6x4xf32>
  %b = linalg.fill ins(%m : f32) outs(%e : tensor<6x4xf32>) -> tensor<6x4xf32>
  %r = linalg.matmul ins(%x, %b : tensor<4x6xf32>, tensor<6x4xf32>)
      outs(%y : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
"""
REPEATED = """
func.func @main(%x: tensor<4x6xf32>, %y: tensor<6x6xf32>) -> tensor<4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %from = arith.constant 0 : index
  %step = arith.constant 1 : index
  %to = arith.constant 9 : index
  %r = scf.for %i = %from to %to step %step iter_args(%state = %x) -> tensor<4x6xf32> {
    %product = linalg.matmul ins(%state, %y : tensor<4x6xf32>, tensor<6x6xf32>)
        outs(%init : tensor<4x6xf32>) -> tensor<4x6xf32>
    BODY
    scf.yield %next : tensor<4x6xf32>
  }
  return %r : tensor<4x6xf32>
}
"""
TANH = REPEATED.replace(
    "BODY",
    "%next = linalg.tanh ins(%product : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>)"
    " -> tensor<4x6xf32>",
)
COPIED = REPEATED.replace(
    "BODY",
    "%next = tensor.insert_slice %product into %e[0, 0] [4, 6] [1, 1]"
    " : tensor<4x6xf32> into tensor<4x6xf32>",
)


@pytest.mark.parametrize("text", [NEGATIVE, TANH, COPIED], ids=["negative", "tanh", "product"])
def test_signs_of_constants_and_iterations_of_loops_count_in_the_bound(text: str):
    random = np.random.default_rng(0)
    width = 4 if text is NEGATIVE else 6
    x, y = (random.standard_normal(size, np.float32) for size in ((4, 6), (width, width)))
    if text is NEGATIVE:
        result = x.sum(axis=1, keepdims=True) * np.float32(-1.5) + y
    else:
        result = x
        for _ in range(9):
            product = np.add.reduce((result[:, :, None] * y[None])[:, ::-1], axis=1)
            result = np.tanh(product) if text is TANH else product
    module = parse_text(text, "test", context())
    for found, within in ((result, True), (result + 0.01 * np.abs(result).max(), False)):
        (checked,) = check_module(module, "main", [x, y], ["y"], {"y": found})
        assert checked.passed is within
