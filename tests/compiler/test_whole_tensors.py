"""Arithmetic on whole tensors compiles, and disagreeing sizes are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from xdsl_spirv.compiler.compiler import compile_module
from xdsl_spirv.interpreter import interpret
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.modules import parse_text


def check(text: str, inputs: dict[str, Any], wanted: Sequence[Any]) -> None:
    """Compares the results of the reference and of the program with the expected ones."""
    compiled = run(compile_module(parse_text(text), "lavapipe"), inputs, "interpreter").values()
    for results in (interpret(parse_text(text), [*inputs.values()]), compiled):
        for got, expected in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


ARITHMETIC = """
func.func @main(%a: tensor<3x?xi8>, %b: tensor<3x?xi32>, %s: i1)
    -> (tensor<3x?xf32>, tensor<2x2xi64>, tensor<1xf32>, tensor<0xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %wide = arith.extsi %a : tensor<3x?xi8> to tensor<3x?xi32>
  %less = arith.cmpi slt, %wide, %b : tensor<3x?xi32>
  %least = arith.select %less, %wide, %b : tensor<3x?xi1>, tensor<3x?xi32>
  %chosen = arith.select %s, %least, %b : tensor<3x?xi32>
  %floats = arith.sitofp %chosen : tensor<3x?xi32> to tensor<3x?xf32>
  %twice = arith.addf %floats, %floats : tensor<3x?xf32>
  %y = math.exp %twice : tensor<3x?xf32>
  %n = tensor.dim %a, %one : tensor<3x?xi8>
  %i = arith.index_cast %n : index to i64
  %seven = arith.constant 7 : i64
  %sizes = tensor.from_elements %i, %seven, %seven, %i : tensor<2x2xi64>
  %x = tensor.extract %y[%zero, %zero] : tensor<3x?xf32>
  %first = tensor.from_elements %x : tensor<1xf32>
  %nothing = tensor.from_elements : tensor<0xi32>
  return %y, %sizes, %first, %nothing
    : tensor<3x?xf32>, tensor<2x2xi64>, tensor<1xf32>, tensor<0xi32>
}"""


@pytest.mark.parametrize("chosen", [True, False])
def test_arithmetic_on_tensors_is_elementwise(chosen: bool):
    a = np.ones((3, 4), np.int8)
    b = np.array([[-2, 0, 1, 2]] * 3, np.int32)
    y = np.exp(2.0 * (np.minimum(a, b) if chosen else b))
    wanted = [y, [[4, 7], [7, 4]], y[0, :1], []]
    check(ARITHMETIC, {"a": a, "b": b, "s": np.bool_(chosen)}, wanted)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("arith.extsi %a : tensor<4xi8> to tensor<5xi32>", "same sizes"),
        ("arith.trunci %a : tensor<4xi8> to tensor<4xi32>", "smaller"),
        ("arith.sitofp %a : tensor<4xi8> to tensor<4xi32>", "Unexpected attribute i32"),
        ("arith.select %t, %a, %a : tensor<5xi1>, tensor<4xi8>", "condition"),
    ],
)
def test_conversions_of_other_sizes_are_refused(wrong: str, message: str):
    arguments = "%a: tensor<4xi8>, %t: tensor<5xi1>"
    with pytest.raises(Exception, match=message):
        parse_text(f"func.func @f({arguments}) {{\n%r = {wrong}\nreturn\n}}").verify()


APPLIED = """
func.func @main(%rows: tensor<6xi32>, %data: tensor<2x64xf32>, %i: index) -> tensor<6x4xf32> {
  %e = tensor.empty() : tensor<6x4xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<6xi32>) outs(%e : tensor<6x4xf32>) {
  ^bb0(%row: i32, %out: f32):
    %n = linalg.index 1 : index
    %at = affine.apply affine_map<(n)[i] ->
      ((n - 2) mod 3 + (n - 3) floordiv 2 + 3 + i * 3 + (n + 1) ceildiv 2)>(%n)[%i]
    %m = arith.index_cast %row : i32 to index
    %x = tensor.extract %data[%m, %at] : tensor<2x64xf32>
    linalg.yield %x : f32
  } -> tensor<6x4xf32>
  return %r : tensor<6x4xf32>
}"""


def test_affine_expressions_are_computed_in_bodies():
    rows, data = np.array([0, 1, 0, 1, 1, 0], np.int32), np.arange(128, dtype=np.float32)
    n = np.arange(4)
    at = (n - 2) % 3 + (n - 3) // 2 + 3 + 4 * 3 + -(-(n + 1) // 2)
    inputs = {"rows": rows, "data": data.reshape(2, 64), "i": np.int64(4)}
    check(APPLIED, inputs, [rows[:, None] * 64 + at])


QUANTIZED = """
func.func @main(%a: tensor<?x?xi8>, %b: tensor<?x?xi8>, %za: i32, %zb: i32, %c: tensor<?x?xi32>)
    -> tensor<?x?xi32> {
  %unused = linalg.matmul ins(%a, %b : tensor<?x?xi8>, tensor<?x?xi8>) outs(%c : tensor<?x?xi32>)
    -> tensor<?x?xi32>
  %0 = linalg.quantized_matmul ins(%a, %b, %za, %zb : tensor<?x?xi8>, tensor<?x?xi8>, i32, i32)
    outs(%c : tensor<?x?xi32>) -> tensor<?x?xi32>
  return %0 : tensor<?x?xi32>
}"""


def test_zero_points_are_arguments_and_unused_operations_vanish():
    numbers = np.random.default_rng(3)
    a, b = (numbers.integers(-99, 99, sizes).astype(np.int8) for sizes in ((3, 5), (5, 4)))
    c = np.full((3, 4), 7, np.int32)
    inputs = {"a": a, "b": b, "za": np.int32(2), "zb": np.int32(-3), "c": c}
    check(QUANTIZED, inputs, [c + (a.astype(np.int32) - 2) @ (b.astype(np.int32) + 3)])


def test_a_window_that_leaves_its_input_is_refused():
    text = """
    func.func @main(%x: tensor<?xf32>, %w: tensor<3xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %r = linalg.conv_1d ins(%x, %w : tensor<?xf32>, tensor<3xf32>) outs(%y : tensor<?xf32>)
        -> tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    x, w = np.arange(7, dtype=np.float32), np.array([1, 2, 4], np.float32)
    check(text, {"x": x, "w": w, "y": np.zeros(5, np.float32)}, [np.correlate(x, w)])
    program = compile_module(parse_text(text), "lavapipe")
    with pytest.raises(ProgramError, match=r"y_0 \+ 2 is 8, but must be at most x_0 = 7"):
        run(program, {"x": x, "w": w, "y": np.zeros(6, np.float32)}, "interpreter")


def test_a_loop_names_one_type_without_parentheses():
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x) -> tensor<4xf32> {
        %s = scf.for %j = %c0 to %c1 step %c1 iter_args(%b = %a) -> (tensor<4xf32>) {
          %c = arith.addf %b, %x : tensor<4xf32>
          scf.yield %c : tensor<4xf32>
        }
        scf.yield %s : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    }"""
    x = np.arange(4, dtype=np.float32)
    check(text, {"x": x}, [4 * x])
