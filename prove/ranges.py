"""
Computes unsigned ranges of terms, under given conditions.

This shows quickly that most indices are in bounds. Solvers handle only the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from xdsl_spirv.prove.values import Term, z3

Range: TypeAlias = tuple[int, int]
"""The range (minimum, maximum) of a term."""


class Ranges:
    """Ranges of terms under given conditions."""

    def __init__(self, conditions: Iterable[Term], outer: Ranges | None = None):
        self.known: dict[int, Range] = dict(outer.known) if outer is not None else {}
        self.kept: list[Term] = list(outer.kept) if outer is not None else []
        """References to terms, so that z3 does not reuse their ids."""
        self._found: dict[int, Range] = {}
        self._arms: dict[int, tuple[Ranges, Ranges]] = {}
        for condition in conditions:
            self._assume(condition, True)

    def find(self, term: Term) -> Range:
        """Returns the range of a bit-vector term."""
        number = term.get_id()
        if number not in self._found:
            self.kept.append(term)
            low, high = self._compute(term)
            least, most = self.known.get(number, (low, high))
            low, high = max(low, least), min(high, most)
            # The conditions contradict each other, so the code is never executed.
            self._found[number] = (low, high) if low <= high else (0, 0)
        return self._found[number]

    def decide(self, condition: Term) -> bool | None:
        """Returns the value of a condition, or None if ranges do not determine it."""
        kind, parts = condition.decl().kind(), condition.children()
        if kind == z3.Z3_OP_NOT:
            inside = self.decide(parts[0])
            return None if inside is None else not inside
        if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR):
            decides = kind == z3.Z3_OP_OR
            inside = set(map(self.decide, parts))
            return decides if decides in inside else None if None in inside else not decides
        if kind not in ORDERS:
            return None
        strict, turned, signed = ORDERS[kind]
        (low, high), (least, most) = map(self.find, parts[::-1] if turned else parts)
        if signed and (high | most) >> (parts[0].size() - 1):
            return None
        if high < least + (not strict):
            return True
        return False if low >= most + (not strict) else None

    def _assume(self, condition: Term, holds: bool) -> None:
        kind, parts = condition.decl().kind(), condition.children()
        if kind == z3.Z3_OP_NOT:
            self._assume(parts[0], not holds)
        elif kind == (z3.Z3_OP_AND if holds else z3.Z3_OP_OR):
            for part in parts:
                self._assume(part, holds)
        elif len(parts) == 2 and z3.is_bv(parts[0]):
            self._compare(kind, parts[0], parts[1], holds)

    def _compare(self, kind: int, a: Term, b: Term, holds: bool) -> None:
        if kind == z3.Z3_OP_EQ and holds:
            (low, high), (least, most) = self.find(a), self.find(b)
            for term in (a, b):
                self._limit(term, max(low, least), min(high, most))
            return
        if kind not in ORDERS:
            return
        strict, turned, signed = ORDERS[kind]
        if signed and any(self.find(t)[1] >> (t.size() - 1) for t in (a, b)):
            return
        small, large = (b, a) if turned == holds else (a, b)
        strict = strict if holds else not strict
        self._limit(small, 0, self.find(large)[1] - strict)
        self._limit(large, self.find(small)[0] + strict, (1 << a.size()) - 1)

    def _limit(self, term: Term, low: int, high: int) -> None:
        least, most = self.find(term)
        if low > least or high < most:
            self.known[term.get_id()] = (max(low, least), min(high, most))
            # Invalidates the ranges of terms that contain this one.
            self._found = {}

    def _split(self, condition: Term) -> tuple[Ranges, Ranges]:
        """
        Returns two maps of ranges of terms: where a condition holds, and where it does not hold.
        """
        number = condition.get_id()
        if number not in self._arms:
            self.kept.append(condition)
            self._arms[number] = Ranges([condition], self), Ranges([z3.Not(condition)], self)
        return self._arms[number]

    def _compute(self, term: Term) -> Range:
        most = (1 << term.size()) - 1
        if z3.is_bv_value(term):
            return term.as_long(), term.as_long()
        kind, parts = term.decl().kind(), term.children()
        if kind == z3.Z3_OP_ITE:
            one, other = self._split(parts[0])
            (low, high), (least, greatest) = one.find(parts[1]), other.find(parts[2])
            return min(low, least), max(high, greatest)
        if kind == z3.Z3_OP_EXTRACT:
            last, first = term.params()
            low, high = self.find(parts[0])
            return (low >> first, high >> first) if high >> (last + 1) == 0 else (0, most)
        if kind not in MEANINGS:
            return 0, most
        low, high = MEANINGS[kind]([(*self.find(p), p.size()) for p in parts])
        wraps = low >> term.size()
        if low < 0 or high < 0 or wraps != high >> term.size():
            return 0, most
        return low & most, high & most


def _product(parts: list[tuple[int, int, int]]) -> Range:
    low = high = 1
    for least, most, _ in parts:
        low, high = low * least, high * most
    return low, high


def _concat(parts: list[tuple[int, int, int]]) -> Range:
    low = high = 0
    for least, most, size in parts:
        low, high = (low << size) + least, (high << size) + most
    return low, high


def _divide(parts: list[tuple[int, int, int]]) -> Range:
    (low, high, size), (least, most, _) = parts
    # In SMT-LIB, a division by 0 gives the greatest number.
    return (low // most, high // least) if least and most else (0, (1 << size) - 1)


def _remainder(parts: list[tuple[int, int, int]]) -> Range:
    (low, high, _), (least, most, _) = parts
    if high < least:
        return low, high
    # In SMT-LIB, the remainder by 0 is the dividend.
    return 0, min(high, most - 1) if least else high


def _shift_left(parts: list[tuple[int, int, int]]) -> Range:
    (low, high, size), (least, most, _) = parts
    return (low << least, high << most) if most < size else (-1, -1)


def _shift_right(parts: list[tuple[int, int, int]]) -> Range:
    (low, high, size), (least, most, _) = parts
    return low >> min(most, size), high >> min(least, size)


def _or(parts: list[tuple[int, int, int]]) -> Range:
    most = max(high for _, high, _ in parts)
    return max(low for low, _, _ in parts), (1 << most.bit_length()) - 1


MEANINGS: Mapping[int, Callable[[list[tuple[int, int, int]]], Range]] = {
    z3.Z3_OP_BADD: lambda parts: (sum(p[0] for p in parts), sum(p[1] for p in parts)),
    z3.Z3_OP_BSUB: lambda parts: (parts[0][0] - sum(p[1] for p in parts[1:]),
                                  parts[0][1] - sum(p[0] for p in parts[1:])),
    z3.Z3_OP_BMUL: _product,
    z3.Z3_OP_CONCAT: _concat,
    z3.Z3_OP_ZERO_EXT: lambda parts: parts[0][:2],
    z3.Z3_OP_SIGN_EXT: lambda parts: (-1, -1) if parts[0][1] >> parts[0][2] - 1 else parts[0][:2],
    z3.Z3_OP_BUDIV: _divide,
    z3.Z3_OP_BUDIV_I: _divide,
    z3.Z3_OP_BUREM: _remainder,
    z3.Z3_OP_BUREM_I: _remainder,
    z3.Z3_OP_BSHL: _shift_left,
    z3.Z3_OP_BLSHR: _shift_right,
    z3.Z3_OP_BAND: lambda parts: (0, min(p[1] for p in parts)),
    z3.Z3_OP_BOR: _or,
}  # fmt: skip
"""
Maps each operator to a function that computes the result's range from the (minimum, maximum, bits)
of the operands, without wrapping. A negative range means that the range is not known.
"""

ORDERS: Mapping[int, tuple[bool, bool, bool]] = {
    z3.Z3_OP_ULT: (True, False, False),
    z3.Z3_OP_ULEQ: (False, False, False),
    z3.Z3_OP_UGT: (True, True, False),
    z3.Z3_OP_UGEQ: (False, True, False),
    z3.Z3_OP_SLT: (True, False, True),
    z3.Z3_OP_SLEQ: (False, False, True),
    z3.Z3_OP_SGT: (True, True, True),
    z3.Z3_OP_SGEQ: (False, True, True),
}
"""
Maps each comparison to three flags: is it strict, is the first operand the larger one, is it
signed.
"""
