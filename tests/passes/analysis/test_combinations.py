"""Reductions that can be split are recognized, with the number that partial results start from."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import Operation

from xdsl_spirv.passes.analysis.combinations import (
    NEUTRAL,
    Combination,
    combinations_of,
    neutral_of,
)
from xdsl_spirv.passes.analysis.loops_arrays import Loops
from xdsl_spirv.passes.analysis.loops_reader import results_of_operations
from xdsl_spirv.runtime.modules import parse_text

TEXT = """
func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>, %s: tensor<4xf32>, %t: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {{
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x, %y : tensor<4x6xf32>, tensor<4x6xf32>) outs(%s, %t : tensor<4xf32>, tensor<4xf32>) {{
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
    {body}
    linalg.yield %p, %q : f32, f32
  }} -> (tensor<4xf32>, tensor<4xf32>)
  return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32>
}}
"""


def loops_of(body: str) -> Loops:
    """Returns the loops of two reductions with inputs %a, %b and accumulators %c, %d."""
    module = parse_text(TEXT.format(body=body))
    (op,) = (op for op in module.walk() if op.name == "linalg.generic")
    _, results = results_of_operations([op], op.results)
    return results[0].array.loops  # pyright: ignore


def combine(body: str) -> list[Combination] | None:
    return combinations_of(loops_of(body))


def test_the_accumulator_may_be_either_operand():
    found = combine("""
    %e = math.exp %a : f32
    %p = arith.addf %e, %c : f32
    %q = arith.maximumf %d, %b : f32""")
    assert found is not None
    assert [type(each.op) for each in found] == [arith.AddfOp, arith.MaximumfOp]
    names = [
        each.new.owner.name if isinstance(each.new.owner, Operation) else "b" for each in found
    ]
    assert names == ["math.exp", "b"]
    assert [each.type for each in found] == [f32, f32]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("%p = arith.subf %c, %a : f32", id="subtraction"),
        pytest.param("%p = arith.addf %a, %b : f32", id="without the accumulator"),
        pytest.param("%p = arith.addf %c, %c : f32", id="doubled"),
        pytest.param("%m = arith.mulf %a, %c : f32\n%p = arith.addf %c, %m : f32", id="its own"),
        pytest.param(
            "%n = arith.negf %d : f32\n%m = arith.mulf %a, %n : f32\n%p = arith.addf %c, %m : f32",
            id="another accumulator",
        ),
    ],
)
def test_other_recurrences_are_not_split(body: str):
    """The new value must not depend on an accumulator, and the operation must be associative."""
    assert combine(body + "\n%q = arith.maximumf %d, %b : f32") is None


def test_a_value_yielded_from_an_input_is_not_a_combination():
    text = TEXT.format(body="%p = arith.addf %c, %a : f32").replace("yield %p, %q", "yield %p, %b")
    module = parse_text(text)
    (op,) = (op for op in module.walk() if op.name == "linalg.generic")
    _, results = results_of_operations([op], op.results)
    assert combinations_of(results[0].array.loops) is None  # pyright: ignore


INTEGERS: dict[type[Operation], np.ufunc] = {
    arith.AddiOp: np.add,
    arith.MuliOp: np.multiply,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
}
UNSIGNED: dict[type[Operation], np.ufunc] = {arith.MaxUIOp: np.maximum, arith.MinUIOp: np.minimum}
FLOATS: dict[type[Operation], np.ufunc] = {
    arith.AddfOp: np.add,
    arith.MulfOp: np.multiply,
    arith.MaximumfOp: np.maximum,
    arith.MaxnumfOp: np.fmax,
    arith.MinimumfOp: np.minimum,
    arith.MinnumfOp: np.fmin,
}


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("kind", [*INTEGERS, *UNSIGNED])
def test_an_integer_stays_with_the_neutral_element(kind: type[Operation], bits: int):
    sign = "u" if kind in UNSIGNED else "i"
    x = np.array([-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1]).astype(f"{sign}{bits // 8}")
    neutral = np.array(neutral_of(kind, IntegerType(bits))).astype(x.dtype)
    assert np.array_equal((INTEGERS | UNSIGNED)[kind](x, neutral), x)


@pytest.mark.parametrize("kind", FLOATS)
def test_a_float_stays_with_the_neutral_element(kind: type[Operation]):
    x = np.array([-inf, -1.5, 0.0, 2.0, inf], np.float32)
    assert np.array_equal(FLOATS[kind](x, np.float32(neutral_of(kind, f32))), x)


def test_every_operation_that_can_be_split_has_a_case():
    assert set(NEUTRAL) == {*INTEGERS, *UNSIGNED, *FLOATS}
