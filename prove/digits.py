"""
States that row and column are the digits of an index such as `row * 300 + column`.

    column < 300, no overflow  =>  quotient(index) == row, remainder(index) == column

Equal indices then have equal rows and columns. Solvers cannot derive this from bit-vectors in
useful time. The quotient is an uninterpreted function with these facts, so that a solver computes
no divisions.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl_spirv.prove.ranges import Ranges
from xdsl_spirv.prove.values import Term, z3


def state_digits(index: Term) -> Iterator[Term]:
    """Yields facts about the mixed-radix digits of an index such as `row * 300 + column`."""
    size, left = index.size(), list(list_addends(index))
    for factor in sorted({f for f, _ in left}, reverse=True):
        if factor & (factor - 1) == 0:
            continue
        high = [(f // factor, term) for f, term in left if f % factor == 0]
        low = [(f, term) for f, term in left if f % factor]
        total, row, column = (_sum(part, size) for part in (left, high, low))
        quotient, remainder = (
            z3.Function(f"{name} by {factor}", index.sort(), index.sort())(total)
            for name in ("quotient", "remainder")
        )
        fits = z3.And(z3.ULT(column, factor), z3.ULE(row, ((1 << size) - factor) // factor))
        yield z3.Implies(fits, z3.And(quotient == row, remainder == column))
        left = low


def split_digits(index: Term, ranges: Ranges) -> tuple[tuple[int, Term], ...]:
    """
    Splits an index into (factor, digit) pairs if ranges show that nothing overflows. Equal indices
    with the same factors have equal digits.
    """
    size, left, digits = index.size(), list(list_addends(index)), list[tuple[int, Term]]()
    for factor in sorted({f for f, _ in left}, reverse=True):
        if factor & (factor - 1) == 0:
            continue
        row, column = (
            _sum([(f // part, term) for f, term in left if (f % factor == 0) == (part > 1)], size)
            for part in (factor, 1)
        )
        most = min(ranges.find(column)[1], _find_rest(index, 1, factor, ranges))
        if most < factor and ranges.find(row)[1] * factor + most < 1 << size:
            digits.append((factor, row))
            left = [(f, term) for f, term in left if f % factor]
    return (*digits, (1, _sum(left, size) if digits else index))


def _find_rest(term: Term, times: int, factor: int, ranges: Ranges) -> int:
    """
    Returns an upper bound of the sum of the addends that are not multiples of `factor`.

    A part of the sum without a multiple of `factor` is bounded as a whole, because its range may be
    known from a guard such as `column < 300` although the ranges of its addends are not.
    """
    divided = [f % factor == 0 for f, _ in list_addends(term, times)]
    if all(divided):
        return 0
    kind, parts = term.decl().kind(), term.children()
    if not any(divided) or kind not in (z3.Z3_OP_BADD, z3.Z3_OP_BMUL):
        return ranges.find(term)[1] * times
    if kind == z3.Z3_OP_BADD:
        return sum(_find_rest(part, times, factor, ranges) for part in parts)
    known, other = parts if z3.is_bv_value(parts[0]) else parts[::-1]
    return _find_rest(other, times * known.as_long(), factor, ranges)


def list_addends(term: Term, factor: int = 1) -> Iterator[tuple[int, Term]]:
    """Yields the addends of a sum with their constant factors."""
    kind, parts = term.decl().kind(), term.children()
    if kind == z3.Z3_OP_BADD:
        for part in parts:
            yield from list_addends(part, factor)
    elif kind == z3.Z3_OP_BMUL and len(parts) == 2 and any(map(z3.is_bv_value, parts)):
        known, other = parts if z3.is_bv_value(parts[0]) else parts[::-1]
        if 0 < known.as_long() * factor < 1 << term.size() - 1:
            yield from list_addends(other, known.as_long() * factor)
        else:
            yield factor, term
    else:
        yield factor, term


def _sum(addends: list[tuple[int, Term]], size: int) -> Term:
    total = z3.BitVecVal(0, size)
    for factor, term in addends:
        total = total + term * factor
    return total
