"""Kernels at the borders of dynamic sizes are right: padding, casts, slices, sums."""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import InterpreterError, interpret
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text

MEANS = """
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x5x3xf32>
  %z = arith.constant 0.0 : f32
  %room = tensor.empty(%n) : tensor<?x5xf32>
  %first = linalg.fill ins(%z : f32) outs(%room : tensor<?x5xf32>) -> tensor<?x5xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b, c)>,
      affine_map<(a, b, c) -> (a, b)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x5x3xf32>) outs(%first : tensor<?x5xf32>) {
  ^bb0(%v: f32, %o: f32):
    %y = arith.addf %o, %v : f32
    linalg.yield %y : f32
  } -> tensor<?x5xf32>
  %whole = tensor.empty(%n) : tensor<?x5x3xf32>
  %less = linalg.generic {indexing_maps = [affine_map<(a, b, c) -> (a, b)>,
      affine_map<(a, b, c) -> (a, b, c)>, affine_map<(a, b, c) -> (a, b, c)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum, %x : tensor<?x5xf32>, tensor<?x5x3xf32>) outs(%whole : tensor<?x5x3xf32>) {
  ^bb0(%s: f32, %v: f32, %o: f32):
    %y = arith.subf %v, %s : f32
    linalg.yield %y : f32
  } -> tensor<?x5x3xf32>
"""

PADDED = f"""
func.func @main(%x: tensor<?x5x3xf32>) -> tensor<?x9x5xf32> {{
{MEANS}
  %border = arith.constant 1.5 : f32
  %r = tensor.pad %less low[1, 2, 2] high[2, 2, 0] {{
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %border : f32
  }} : tensor<?x5x3xf32> to tensor<?x9x5xf32>
  return %r : tensor<?x9x5xf32>
}}"""


@pytest.mark.parametrize("target", ["lavapipe", "nvidia-h200"])
@pytest.mark.parametrize("rows", [1, 4, 40])
def test_a_border_is_written_completely(target: str, rows: int):
    """A border with more elements than the tensor has rows is written completely."""
    program = compile_module(parse_text(PADDED), target)
    x = np.random.default_rng(rows).integers(-9, 9, (rows, 5, 3)).astype(np.float32)
    (result,) = run(program, {"x": x}).values()
    less = x - x.sum(axis=2, keepdims=True)
    expected = np.pad(less, [(1, 2), (2, 2), (2, 0)], constant_values=1.5)
    np.testing.assert_array_equal(result, expected)


def double_then(moved: str, result: str) -> str:
    return f"""
    func.func @main(%x: tensor<?xf32>) -> {result} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : tensor<?xf32>
      %one = arith.constant 1 : index
      %two = arith.constant 2 : index
      %value = arith.constant 0.5 : f32
      %room = tensor.empty() : tensor<8xf32>
      %full = linalg.fill ins(%value : f32) outs(%room : tensor<8xf32>) -> tensor<8xf32>
      %half = arith.divui %n, %two : index
      %e = tensor.empty(%n) : tensor<?xf32>
      %d = linalg.add ins(%x, %x : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>)
          -> tensor<?xf32>
      %r = {moved}
      return %r : {result}
    }}"""


LONG = {"marks": pytest.mark.long}
ONE, ANY = "tensor<?xf32>", "tensor<8xf32>"
MOVES = [
    pytest.param(f"tensor.cast %d : {ONE} to tensor<4xf32>", "tensor<4xf32>", id="cast"),
    pytest.param(f"tensor.extract_slice %d[2] [4] [1] : {ONE} to tensor<4xf32>", "tensor<4xf32>",
        id="slice", **LONG),
    pytest.param(f"tensor.extract_slice %d[1] [3] [2] : {ONE} to tensor<3xf32>", "tensor<3xf32>",
        id="strided slice"),
    pytest.param(f"tensor.extract_slice %d[%one] [%two] [1] : {ONE} to {ONE}", ONE,
        id="slice by constants"),
    pytest.param(f"tensor.extract_slice %d[2] [%half] [1] : {ONE} to {ONE}", ONE,
        id="slice of half", **LONG),
    pytest.param(
        f"tensor.expand_shape %d [[0, 1]] output_shape [%half, 2] : {ONE} into tensor<?x2xf32>",
        "tensor<?x2xf32>", id="split"),
    pytest.param(
        f"tensor.expand_shape %d [[0, 1]] output_shape [3, %half] : {ONE} into tensor<3x?xf32>",
        "tensor<3x?xf32>", id="split in three", **LONG),
    pytest.param(f"tensor.insert_slice %d into %full[2] [%n] [1] : {ONE} into {ANY}", ANY,
        id="insert"),
    pytest.param(f"tensor.insert_slice %d into %full[%one] [%two] [1] : {ONE} into {ANY}", ANY,
        id="insert by constants", **LONG),
    pytest.param(f"tensor.concat dim(0) %d, %d : ({ONE}, {ONE}) -> {ANY}", ANY, id="concat"),
]  # fmt: skip


@pytest.mark.parametrize(("moved", "result"), MOVES)
def test_a_size_that_does_not_fit_is_refused(moved: str, result: str):
    """At every size, program and interpreter give equal results, or both refuse the size."""
    text = double_then(moved, result)
    program = compile_module(parse_text(text), "lavapipe")
    refused: set[int] = set()
    for size in range(1, 10):
        x = np.arange(size, dtype=np.float32)
        try:
            (expected,) = interpret(parse_text(text), [x])
        except InterpreterError:
            refused.add(size)
            with pytest.raises(ProgramError):
                run(program, {"x": x})
        else:
            (found,) = run(program, {"x": x}).values()
            np.testing.assert_array_equal(found, expected)
    assert 0 < len(refused) < 9


OUTER = """
func.func @main(%x: tensor<?x3xf32>, %w: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %i = linalg.fill ins(%z : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x3xf32>, tensor<1x4xf32>) outs(%i : tensor<3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}"""


def test_a_size_that_only_one_operand_has_is_checked():
    program = compile_module(parse_text(OUTER), "lavapipe")
    x, w = (np.arange(1, n, dtype=np.float32)[None] for n in (4, 5))
    (result,) = run(program, {"x": x, "w": w}).values()
    np.testing.assert_array_equal(result, x.T @ w)
    with pytest.raises(ProgramError, match="must be 1x3"):
        run(program, {"x": np.ones((2, 3), np.float32), "w": w})


ROTATED = """
func.func @main(%x: tensor<?xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %m = arith.subi %n, %c1 : index
  %rest = tensor.extract_slice %x[1] [%m] [1] : tensor<?xf32> to tensor<?xf32>
  %first = tensor.extract_slice %x[0] [1] [1] : tensor<?xf32> to tensor<1xf32>
  %room = tensor.empty(%n) : tensor<?xf32>
  %a = tensor.insert_slice %rest into %room[0] [%m] [1] : tensor<?xf32> into tensor<?xf32>
  %b = tensor.insert_slice %first into %a[%m] [1] [1] : tensor<1xf32> into tensor<?xf32>
  %e = tensor.empty() : tensor<f32>
  %start = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> ()>],
      iterator_types = ["reduction"]} ins(%b : tensor<?xf32>) outs(%start : tensor<f32>) {
  ^bb0(%v: f32, %o: f32):
    %s = arith.addf %o, %v : f32
    linalg.yield %s : f32
  } -> tensor<f32>
  return %sum : tensor<f32>
}"""


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_part_behind_the_start_may_be_empty(size: int):
    """`x[1:]` of one element is empty, and nothing is read."""
    x = np.arange(1, size + 1, dtype=np.float32)
    program = compile_module(parse_text(ROTATED), "lavapipe")
    (total,) = run(program, {"x": x}, "interpreter").values()
    assert total == x.sum()


KNOWN = {
    "cast": ("", "%open", "tensor<?x?xf32>", lambda x: x),
    "product with an input": (
        "%e = linalg.fill ins(%one : f32) outs(%room : tensor<?x?xf32>) -> tensor<?x?xf32>\n"
        "%y = tensor.cast %x : tensor<2x2xf32> to tensor<?x?xf32>\n%r = linalg.matmul "
        "ins(%open, %y : tensor<?x?xf32>, tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) "
        "-> tensor<?x?xf32>",
        "%r", "tensor<?x?xf32>", lambda x: 1 + x @ np.ones((2, 2), np.float32),
    ),
    "transpose": (
        "%e = tensor.empty(%n, %n) : tensor<?x?xf32>\n%r = linalg.transpose "
        "ins(%open : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) permutation = [1, 0]",
        "%r", "tensor<?x?xf32>", lambda x: x.T,
    ),
    "collapse": (
        "%r = tensor.collapse_shape %open [[0, 1]] : tensor<?x?xf32> into tensor<?xf32>",
        "%r", "tensor<?xf32>", lambda x: x.ravel(),
    ),
}  # fmt: skip
"""Cases with a constant of dynamic type: MLIR text, result, result type, numpy function."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_constant_of_open_sizes_is_folded(name: str):
    operations, result, open_type, meaning = KNOWN[name]
    numbers = np.arange(4, dtype=np.float32).reshape(2, 2)
    expected = meaning(numbers)
    closed = f"tensor<{'x'.join(map(str, expected.shape))}xf32>"
    text = f"""
    func.func @main(%x: {closed}) -> {closed} {{
      %known = arith.constant dense<{numbers.tolist()}> : tensor<2x2xf32>
      %open = tensor.cast %known : tensor<2x2xf32> to tensor<?x?xf32>
      %c1 = arith.constant 1 : index
      %one = arith.constant 1.0 : f32
      %n = tensor.dim %open, %c1 : tensor<?x?xf32>
      %room = tensor.empty(%n, %n) : tensor<?x?xf32>
      {operations}
      %c = tensor.cast {result} : {open_type} to {closed}
      %e2 = tensor.empty() : {closed}
      %s = linalg.add ins(%x, %c : {closed}, {closed}) outs(%e2 : {closed}) -> {closed}
      return %s : {closed}
    }}"""
    x = np.ones(expected.shape, np.float32)
    (sums,) = run(compile_module(parse_text(text), "lavapipe"), {"x": x}).values()
    np.testing.assert_array_equal(sums, expected + 1)
