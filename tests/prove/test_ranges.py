"""Ranges are right: z3 finds no values for which a random term leaves its range."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("z3", reason="z3 is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.digits import split_digits
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
    lambda x, y: z3.SignExt(3, z3.Extract(4, 2, x)),
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


def is_implied(conditions: list[Term], term: Term) -> bool:
    solver = z3.Solver()
    solver.add(*conditions, z3.Not(term))
    return solver.check() == z3.unsat


def test_conditions_that_ranges_decide_hold():
    random, decided = Random(4), 0
    for _ in range(400):
        conditions, asked = [make_condition(random, 0)], make_condition(random, 1)
        answer = Ranges(conditions).decide(asked)
        if answer is not None:
            decided += 1
            assert is_implied(conditions, asked if answer else z3.Not(asked)), (conditions, asked)
    assert decided > 10


def test_equal_indexes_have_equal_digits():
    random, several = Random(5), 0
    for _ in range(40):
        a, b, c, *others = z3.BitVecs("a b c d e f", 12)
        row, column = a * random.choice((1, 3, 8)) + b, b * random.choice((1, 4)) + c
        factor = random.choice((3, 7, 12, 77))
        index = row * factor + column
        guard = [z3.ULT(column, factor), z3.ULT(a, 4), z3.ULT(b, random.choice((4, 9)))]
        digits = split_digits(index, Ranges(guard[random.randrange(3) // 2 :]))
        pairs = list(zip((a, b, c), others, strict=True))
        other = lambda term, pairs=pairs: z3.substitute(term, *pairs)  # noqa: E731
        if len(digits) > 1:
            several += 1
            held = [*guard, *map(other, guard), index == other(index)]
            assert all(is_implied(held, t == other(t)) for _, t in digits), (index, guard, digits)
    assert several > 8
