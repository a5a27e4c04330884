"""Ranges hold: z3 finds no numbers for which a random term leaves its range."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.ranges import Ranges
from xdsl_spirv.prove.values import Term, z3

BITS = 6
ORDERS: tuple[Any, ...] = (
    *(z3.ULT, z3.ULE, z3.UGT, z3.UGE),
    *(lambda x, y: x < y, lambda x, y: x <= y, lambda x, y: x > y, lambda x, y: x >= y),
    lambda x, y: x == y,
)
OPERATIONS: tuple[Any, ...] = (
    *(lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, z3.UDiv, z3.URem),
    *(lambda x, y: x << y, z3.LShR, lambda x, y: x & y, lambda x, y: x | y),
    lambda x, y: z3.ZeroExt(3, z3.Extract(4, 2, x)),
    lambda x, y: z3.Concat(z3.Extract(2, 0, x), z3.Extract(2, 0, y)),
)


def make_term(random: Random, depth: int) -> Term:
    if not depth or random.random() < 0.15:
        known = z3.BitVecVal(random.choice((0, 1, 2, 5, random.randrange(1 << BITS))), BITS)
        return random.choice([*z3.BitVecs("a b c", BITS), known])
    x, y = make_term(random, depth - 1), make_term(random, depth - 1)
    if random.random() < 0.15:
        return z3.If(make_condition(random, depth - 1), x, y)
    return random.choice(OPERATIONS)(x, y)


def make_condition(random: Random, depth: int) -> Term:
    first = random.choice(ORDERS)(make_term(random, depth), make_term(random, depth))
    if random.random() < 0.6 or not depth:
        return first
    second = make_condition(random, depth - 1)
    return random.choice((z3.Not(first), z3.And(first, second), z3.Or(first, second)))


@pytest.mark.parametrize("seed", range(4))
def test_no_number_leaves_the_range_of_its_term(seed: int):
    random, narrow = Random(seed), 0
    for number in range(150):
        conditions = [make_condition(random, 1), make_condition(random, 2)]
        term = make_term(random, 3)
        if number % 2:
            term, conditions = z3.simplify(term), [z3.simplify(c) for c in conditions]
        low, high = Ranges(conditions).find(term)
        solver = z3.Solver()
        solver.add(*conditions, z3.BV2Int(term) < low, z3.BV2Int(term) >= 0)
        assert solver.check() == z3.unsat, (conditions, term, low, high)
        solver = z3.Solver()
        solver.add(*conditions, z3.BV2Int(term) > high)
        assert solver.check() == z3.unsat, (conditions, term, low, high)
        narrow += (low, high) != (0, (1 << BITS) - 1)
    assert narrow > 20
