"""Operations on tensors become elementwise generics, and bodies are read as products."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from xdsl_spirv.passes.analysis.pointwise import (
    NotAContraction,
    clone_into,
    compose_map,
    factors_of,
    generalize,
    is_permutation,
    is_pointwise,
    loops_of,
    moves_only,
)
from xdsl_spirv.runtime.modules import parse_text

if TYPE_CHECKING:
    from tests.passes.conftest import GenericOf, ReadFunction, Validate

FILE = "analysis/pointwise.mlir"


class GeneralizePass(ModulePass):
    name = "generalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            generalize(inner)


def generalize_all(text: str) -> list[Operation]:
    """Returns the linalg operations of a function after `generalize`, except `linalg.yield`."""
    module = parse_text(text)
    GeneralizePass().apply(Context(), module)
    module.verify()
    ops = (op for op in module.walk() if op.name.startswith("linalg."))
    return [op for op in ops if not isinstance(op, linalg.ops.YieldOp | linalg.ops.IndexOp)]


NAMED = {
    "named": 2,
    "turned": 1,
    "repeated": 1,
    "summed": 1,
    "reading_its_output": 2,
    "ignoring_its_output": 1,
    "computed": 2,
}
"""Inputs of each operation after `generalize`. An output that is read becomes an input."""
SCALARS = ["scalar", "outer_scalar"]


@pytest.mark.parametrize("name", [*NAMED, *SCALARS])
def test_generalized_operations_compute_the_same(
    name: str, read_function: ReadFunction, validate: Validate
):
    validate(read_function(FILE, name), [GeneralizePass()], inputs=2)


@pytest.mark.parametrize("name", NAMED)
def test_operations_become_generics(name: str, read_function: ReadFunction):
    """An elementwise operation reads inputs only: it writes to an empty tensor."""
    for op in generalize_all(read_function(FILE, name)):
        assert isinstance(op, linalg.ops.GenericOp)
        assert len(op.inputs) == NAMED[name]
        if name != "summed":
            assert is_pointwise(op)
            assert isinstance(op.outputs[0].owner, tensor.EmptyOp)


@pytest.mark.parametrize("name", SCALARS)
def test_a_generic_that_repeats_a_scalar_becomes_a_fill(name: str, read_function: ReadFunction):
    (op,) = generalize_all(read_function(FILE, name))
    assert isinstance(op, linalg.ops.FillOp)


GENERIC = """
func.func @main(%x: tensor<3x{columns}xf32>, %s: {out}) -> {out} {{
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> ({read})>,
      affine_map<(i, j) -> ({write})>], iterator_types = ["parallel", "{kind}"]}}
      ins(%x : tensor<3x{columns}xf32>) outs(%s : {out}) {{
  ^bb0(%a: f32, %t: f32):
    {body}
    linalg.yield %n : f32
  }} -> {out}
  return %r : {out}
}}
"""
EXP = "%n = math.exp %a : f32"
PLACE = """%i = linalg.index 0 : index
    %k = arith.index_cast %i : index to i32
    %n = arith.sitofp %k : i32 to f32"""


def generic(
    body: str = EXP, read: str = "i, j", write: str = "i, j", kind: str = "parallel", **sizes: str
) -> linalg.ops.GenericOp:
    given = {"columns": "4", "out": "tensor<3x4xf32>"} | sizes
    module = parse_text(GENERIC.format(body=body, read=read, write=write, kind=kind, **given))
    (op,) = (op for op in module.walk() if isinstance(op, linalg.ops.GenericOp))
    return op


def test_elementwise_operations_are_recognized():
    assert is_pointwise(generic())
    assert is_pointwise(generic(write="j, i", out="tensor<4x3xf32>"))
    assert is_pointwise(generic(read="0, j")), "a constant selects one row"
    assert not is_pointwise(generic(body="%n = arith.addf %a, %t : f32")), "it reads its output"
    sums = generic(
        body="%n = arith.addf %a, %t : f32", write="i", kind="reduction", out="tensor<3xf32>"
    )
    assert not is_pointwise(sums)
    assert not is_pointwise(generic(write="i", out="tensor<3xf32>")), "each row is written often"
    assert not is_pointwise(generic(columns="0", out="tensor<3x0xf32>")), "no element to place"
    assert not is_pointwise(generic(read="i, j + 1", out="tensor<3x3xf32>"))
    assert not is_pointwise(parse_text("func.func @main() { return }"))


def test_an_operation_that_asks_for_its_place_is_elementwise_on_request():
    assert not is_pointwise(generic(body=PLACE))
    assert is_pointwise(generic(body=PLACE), asks_place=True)


def test_a_body_without_arithmetic_moves_elements(generic_of: GenericOf):
    assert moves_only(generic_of(FILE, "scalar"))
    assert not moves_only(generic())


@pytest.mark.parametrize(
    ("name", "inputs", "pure", "signed"),
    [
        ("plain", [{1}, {0}], [True, True], [True, True]),
        ("fused", [{0}, {1}], [True, False], [True, True]),
        ("bytes", [{0}, {1}], [True, True], [False, True]),
        ("mixed_bytes", [{0}, {1}], [False, True], [False, True]),
    ],
)
def test_factors_of_a_product(
    name: str,
    inputs: list[set[int]],
    pure: list[bool],
    signed: list[bool],
    generic_of: GenericOf,
):
    """
    A zero extension, then a sign extension, is a zero extension. The reverse is not one extension.
    """
    factors = factors_of(generic_of(FILE, name).body.block)
    assert [factor.inputs for factor in factors] == inputs
    assert [factor.is_pure for factor in factors] == pure
    assert [factor.signed for factor in factors] == signed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (EXP, "the body is not a product that is added to the output"),
        ("%n = arith.addf %a, %t : f32", "is not a product that is added"),
        ("%n = math.fma %a, %t, %a : f32", "is not a product that is added"),
        ("%p = arith.mulf %a, %a : f32\n%n = arith.subf %t, %p : f32", "is not a product"),
        (
            "%p = arith.mulf %a, %t : f32\n%n = arith.addf %t, %p : f32",
            "a factor is computed from the output",
        ),
        (
            PLACE.replace("%n", "%f") + "\n%p = arith.mulf %a, %f : f32"
            "\n%n = arith.addf %t, %p : f32",
            "a factor is computed by linalg.index, not from inputs only",
        ),
    ],
)
def test_other_bodies_are_no_product(body: str, reason: str):
    with pytest.raises(NotAContraction, match=reason):
        factors_of(generic(body).body.block)


def test_maps_are_composed_point_by_point():
    """`loops_of` inverts a map, and `compose_map` applies another map to the loops."""
    write = AffineMap.from_callable(lambda i, j, k: (k, i))
    read = AffineMap.from_callable(lambda i, j, k: (i, 3, k))
    outer: list[AffineExpr] = [AffineExpr.dimension(1), AffineExpr.dimension(0) + 5]
    loops = loops_of(write, outer)
    assert loops == [outer[1], None, outer[0]]
    composed = compose_map(read, loops, 2)
    assert composed is not None
    for a, b in product(range(3), range(3)):
        assert composed.eval([a, b], []) == (a + 5, 3, b)
    assert compose_map(AffineMap.from_callable(lambda i, j, k: (i, j)), loops, 2) is None


def test_a_permutation_uses_every_loop_once():
    assert is_permutation(AffineMap.from_callable(lambda i, j: (j, i)))
    assert not is_permutation(AffineMap.from_callable(lambda i, j: (i, i)))
    assert not is_permutation(AffineMap.from_callable(lambda i, j: (i,)))
    assert not is_permutation(AffineMap(1, 0, (AffineConstantExpr(0),)))


def test_a_clone_computes_shared_values_once():
    """Values from outside of the body stay as they are."""
    outside = Block(arg_types=[f32]).args[0]
    old, new = Block(arg_types=[f32]), Block(arg_types=[f32])
    twice = arith.AddfOp(old.args[0], outside)
    result = arith.MulfOp(twice, twice)
    old.add_ops([twice, result])
    cloned = clone_into(new, result.result, {old.args[0]: new.args[0]})
    add, multiply = new.ops
    assert (add.name, multiply.name) == ("arith.addf", "arith.mulf")
    assert list(add.operands) == [new.args[0], outside]
    assert list(multiply.operands) == [add.results[0]] * 2
    assert cloned is multiply.results[0]
    assert clone_into(new, outside, {old.args[0]: new.args[0]}) is outside
