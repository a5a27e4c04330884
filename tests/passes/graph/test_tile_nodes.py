"""Equal formulas are represented by one node, and formulas of constants by a constant."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, f16, f32, i1, i32

from xdsl_spirv.passes.graph.tile_nodes import (
    ONE,
    Dimension,
    Node,
    Nodes,
    NotRaised,
    Terms,
    number_of,
    plus,
    terms_of,
)

INDEX = IndexType()
COMPARISONS: list[tuple[str, Any]] = [
    ("slt", lambda a, b: a < b),
    ("sle", lambda a, b: a <= b),
    ("sgt", lambda a, b: a > b),
    ("sge", lambda a, b: a >= b),
]


def nodes() -> Nodes:
    """
    Returns a collection of formulas over two dimensions: 10 columns in tiles of 4, and a dynamic
    size.
    """
    made = Nodes()
    made.dimensions = {"n": Dimension(10, 4), "m": Dimension(None, 4)}
    return made


def index(made: Nodes, name: str = "n", factor: int = 1, more: int = 0) -> Node:
    """Returns the formula `factor` * (index of the dimension `name`) + `more`."""
    return made.linear({("index", name): factor, ONE: more}, INDEX)


def integer(made: Nodes, value: int) -> Node:
    return made.constant(IntegerAttr(value, INDEX), INDEX)


def real(made: Nodes, value: float) -> Node:
    return made.constant(FloatAttr(value, f32), f32)


def load(made: Nodes, number: int = 0) -> Node:
    return made.node("load", (number, ("n",)), (), f32)


def compare(made: Nodes, predicate: str, a: Node, b: Node) -> Node:
    values = [arith.ConstantOp(IntegerAttr(0, INDEX)).result for _ in range(2)]
    return made.operation(arith.CmpiOp(values[0], values[1], predicate), (a, b), i1)


def test_equal_formulas_are_one_node():
    made = nodes()
    first, second = load(made), load(made, 1)
    total = made.make(arith.AddfOp, first, second)
    assert made.make(arith.AddfOp, load(made), load(made, 1)) is total
    assert made.make(arith.AddfOp, second, first) is not total
    assert made.make(arith.MulfOp, first, second) is not total
    assert made.make(arith.AddfOp, first, second, type=f16) is not total
    assert compare(made, "slt", index(made, "m"), integer(made, 3)) is not compare(
        made, "sgt", index(made, "m"), integer(made, 3)
    )


def test_sums_of_indices_are_linear():
    made = nodes()
    three = integer(made, 3)
    moved = made.make(arith.AddiOp, index(made), three)
    scaled = made.make(arith.MuliOp, three, moved)
    assert terms_of(scaled) == {("index", "n"): 3, ONE: 9}
    assert made.make(arith.MuliOp, moved, three) is scaled
    assert made.make(arith.SubiOp, scaled, index(made, factor=3)) is integer(made, 9)
    assert terms_of(made.make(arith.IndexCastOp, scaled, type=i32)) == terms_of(scaled)
    product = made.make(arith.MuliOp, moved, moved)
    with pytest.raises(NotRaised, match="an index is not a linear sum"):
        terms_of(product)
    assert terms_of(made.make(arith.MuliOp, integer(made, 0), moved)) == {}


def test_extremes_of_constants_are_constants():
    made = nodes()
    two, five = integer(made, 2), integer(made, 5)
    assert made.make(arith.MinSIOp, two, five) is two
    assert made.make(arith.MaxSIOp, two, five) is five
    assert number_of(made.make(arith.MinSIOp, two, index(made))) is None


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize(("predicate", "holds"), COMPARISONS)
def test_a_comparison_is_known_if_it_has_one_result_for_all_indices(
    predicate: str, holds: Any, tail: bool
):
    """With `tail`, the indices are the ones in the last tile that exceed the size."""
    made = nodes()
    made.tail = "n" if tail else None
    indices = range(10, 12) if tail else range(10)
    for factor in (1, -2):
        for limit in range(-24, 24):
            result = compare(
                made, predicate, index(made, factor=factor, more=1), integer(made, limit)
            )
            outcomes = {holds(factor * n + 1, limit) for n in indices}
            if len(outcomes) == 1:
                assert result is made.truth(outcomes.pop())
            else:
                assert result.kind == "arith.cmpi"


def test_a_comparison_with_an_open_dimension_is_not_known():
    made = nodes()
    assert compare(made, "sge", index(made, "m"), integer(made, -1)).kind == "arith.cmpi"
    argument = made.linear({("argument", 0): 1}, INDEX)
    assert compare(made, "sge", argument, integer(made, -1)).kind == "arith.cmpi"
    assert compare(made, "eq", index(made), integer(made, -1)).kind == "arith.cmpi"


def test_known_conditions_select():
    made = nodes()
    yes, no = made.truth(True), made.truth(False)
    open_one = compare(made, "slt", index(made, "m"), integer(made, 3))
    for kind, neutral, absorbing in ((arith.AndIOp, yes, no), (arith.OrIOp, no, yes)):
        assert made.make(kind, neutral, open_one) is open_one
        assert made.make(kind, open_one, neutral) is open_one
        assert made.make(kind, open_one, absorbing) is absorbing
        assert made.make(kind, neutral, absorbing) is absorbing
        assert made.make(kind, neutral, neutral) is neutral
    first, second = load(made), load(made, 1)
    assert made.make(arith.SelectOp, yes, first, second, type=f32) is first
    assert made.make(arith.SelectOp, no, first, second, type=f32) is second
    assert made.make(arith.SelectOp, open_one, first, second, type=f32).kind == "arith.select"
    assert made.constant(IntegerAttr(1, i1), i1) is yes


def test_arithmetic_on_zeros_is_zero():
    made = nodes()
    zero, one = real(made, 0.0), real(made, 1.0)
    assert made.make(arith.MulfOp, zero, zero) is zero
    assert made.make(arith.ExtFOp, made.constant(FloatAttr(0.0, f16), f16), type=f32) is zero
    assert made.make(arith.MulfOp, zero, load(made)) is not zero, "it may be infinite"
    assert made.make(arith.AddfOp, zero, one).kind == "arith.addf"
    assert made.make(arith.DivfOp, zero, zero).kind == "arith.divf"


def test_numbers_of_nodes():
    made = nodes()
    assert number_of(real(made, 1.5)) == 1.5
    assert number_of(integer(made, 7)) == 7
    assert number_of(integer(made, 0)) == 0
    assert number_of(index(made)) is None
    assert number_of(load(made)) is None


def test_a_scaled_sum_drops_zeros():
    a: Terms = {("index", "n"): 2, ONE: 3}
    b: Terms = {("index", "n"): 1, ("index", "m"): 4}
    assert plus(a, b, -2) == {("index", "m"): -8, ONE: 3}
