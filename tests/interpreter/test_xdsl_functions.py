"""xDSL's own interpreter runs host functions at every stage of their lowering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.interpreter import Interpreter, InterpreterFunctions, OpCounter, impl, register_impls

from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.interpreter import InterpreterError, Options, interpret
from xdsl_spirv.interpreter.xdsl_functions import register_implementations
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.testing.workloads import workload

PADDED = """
func.func @main(%a: tensor<3x4xf32>, %x: f32) -> (tensor<4x5xf32>, index) {
  %p = tensor.pad %a low[1, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %x : f32
  } : tensor<3x4xf32> to tensor<4x5xf32>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %sum = scf.for %n = %zero to %four step %one iter_args(%s = %zero) -> (index) {
    %t = arith.addi %s, %n : index
    scf.yield %t : index
  }
  return %p, %sum : tensor<4x5xf32>, index
}
"""


def run(module: Any, arguments: tuple[Any, ...], options: Options | None = None) -> Any:
    interpreter = Interpreter(module)
    register_implementations(interpreter, options)
    return interpreter.call_op("main", arguments)


@pytest.mark.parametrize("stages", range(7))
@pytest.mark.parametrize("seed", [0, 5, 11])
def test_every_stage_of_a_lowering_runs(seed: int, stages: int):
    made = workload(seed, ("f16 -> f32",), 20)
    module = parse_text(made.text())
    inputs = tuple(made.inputs(np.random.default_rng(seed)).values())
    expected = interpret(parse_text(made.text()), list(inputs))[0]
    for each in linalg_to_spirv("lavapipe")[:stages]:
        each.apply(context(), module)
    (result,) = run(module, inputs, Options(subgroup_size=8))
    assert np.abs(result - expected).max(initial=0) < 1e-4


def test_regions_see_the_values_around_them():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    padded, total = run(parse_text(PADDED), (a, np.float32(7)))
    assert np.array_equal(padded, np.pad(a, [(1, 0), (0, 1)], constant_values=7))
    assert total == 6


def test_implementations_can_be_replaced_and_watched():
    @register_impls
    class Saturating(InterpreterFunctions):
        @impl(arith.AddiOp)
        def add(self, interpreter: Interpreter, op: arith.AddiOp, args: Any) -> Any:
            return (np.asarray(42),)

    module = parse_text("""
    func.func @main(%x: i32) -> i32 {
      %y = arith.addi %x, %x : i32
      return %y : i32
    }""")
    counter = OpCounter()
    interpreter = Interpreter(module, listeners=(counter,))
    register_implementations(interpreter)
    interpreter.register_implementations(Saturating(), override=True)
    assert interpreter.call_op("main", (np.int32(1),)) == (42,)
    assert counter.ops["arith.addi"] == 1


def test_errors_have_the_class_of_this_package():
    module = parse_text("""
    func.func @main(%x: tensor<4xf32>, %i: index) -> f32 {
      %y = "tensor.extract"(%x, %i) : (tensor<4xf32>, index) -> f32
      return %y : f32
    }""")
    with pytest.raises((InterpreterError, IndexError)):
        run(module, (np.zeros(4, np.float32), np.int64(9)))
