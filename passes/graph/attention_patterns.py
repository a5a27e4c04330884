"""
Matches parts of an attention in the tree of operations that compute an element (`element_trees`).

The parts are a softmax, casts, the replacement of NaN by 0, and a causal mask. Each function
returns the matched parts, or raises `NotTraced` with the name of the missing part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, surely_below
from xdsl_spirv.passes.graph.element_trees import Node, NotTraced, Piece

CASTS = ("arith.extf", "arith.truncf")

LEAST = -1e30
"""Scores at or below this value count as -inf, because many masks write a finite number instead."""

LEAST_BINARY16 = -65504.0
"""The smallest finite number of binary16: a binary16 maximum may start from it."""

MAXIMA = ("arith.maximumf", "arith.maxnumf")


def uncast(node: Node) -> Node:
    while node.kind in CASTS:
        (node,) = node.children
    return node


def without_nan(node: Node) -> tuple[Node, bool]:
    """
    Strips a select that replaces NaN by 0. Returns the operand, and True if there was a select.
    """
    node = uncast(node)
    match node:
        case Node("arith.select", _, (Node("arith.cmpf", _, (a, b)) as test, zero, p)) if (
            a == b == p and zero == Node("number", 0.0)
        ):
            predicates = dict(test.detail)
            # 8 is uno, 13 is une: if both operands are the same value, they hold only for NaN.
            if predicates["predicate"].value.data in (8, 13):
                return uncast(p), True
        case Node("arith.select", _, (Node("arith.cmpf", _, (a, b)) as test, zero, p)) if (
            zero == Node("number", 0.0) and dict(test.detail)["predicate"].value.data == 1
        ):
            # 1 is oeq: it compares the row's maximum with -inf.
            if b == Node("number", -inf) and a == _maximum_of(uncast(p)):
                return uncast(p), True
        case _:
            pass
    return node, False


def _maximum_of(node: Node) -> Node | None:
    match node:
        case Node("arith.divf", _, (Node("math.exp", _, (Node("arith.subf", _, (_, m)),)), _)):
            return m
        case _:
            return None


def softmax(node: Node) -> tuple[Node, Node | None]:
    """
    Matches exp(x - max x) / sum exp(x - max x); returns x and the attention sink, if there is one.

    An attention sink is an additional score that enters only the maximum and the sum.
    """
    power, total = _children(node, "arith.divf", "the exponentials are not divided")
    total, last = _beside_reduction(total, ("arith.addf",))
    (summed,) = _children(total, "reduction", "the scores have no sum of exponentials")
    if uncast(total).detail[0] != "arith.addf" or uncast(total).detail[1] != 0:
        raise NotTraced("the scores have no sum of exponentials")
    if uncast(summed) != uncast(power):
        raise NotTraced("the sum does not add up the exponentials")
    (exponent,) = _children(power, "math.exp", "no exponential")
    x, maximum = _children(exponent, "arith.subf", "no difference")
    greatest, sink = _beside_reduction(maximum, MAXIMA)
    if last is not None:
        (exponent,) = _children(last, "math.exp", "no exponential")
        last, subtracted = _children(exponent, "arith.subf", "no difference")
        if uncast(subtracted) != uncast(maximum):
            raise NotTraced("the attention sink and the scores must subtract the same maximum")
    if (sink and uncast(sink)) != (last and uncast(last)):
        raise NotTraced("an attention sink must be in both the sum and the maximum")
    (compared,) = _children(greatest, "reduction", "the scores have no maximum")
    name, start = uncast(greatest).detail
    if name not in MAXIMA or not (start <= LEAST or start == LEAST_BINARY16):
        raise NotTraced("the scores have no maximum")
    if uncast(compared) != uncast(x):
        raise NotTraced("the subtracted maximum is not the maximum of the scores")
    return (x, None) if sink is None else _without_maximum(uncast(x), uncast(sink))


def _without_maximum(x: Node, sink: Node) -> tuple[Node, Node]:
    """Strips a common maximum that was already subtracted from both the scores `x` and the sink."""
    match x, sink:
        case Node("arith.subf", _, (y, m)), Node("arith.subf", _, (s, other)) if m == other:
            reduced, last = _beside_reduction(m, MAXIMA)
            if reduced.kind == "reduction" and last == uncast(s):
                (compared,) = reduced.children
                return (y, s) if uncast(compared) == uncast(y) else (x, sink)
        case _:
            pass
    return x, sink


def _beside_reduction(node: Node, kinds: Sequence[str]) -> tuple[Node, Node | None]:
    """
    Strips casts from an operation of one of `kinds`, and returns its operands. An operand that is a
    reduction comes first.

    For any other operation, returns the operation and None.
    """
    node = uncast(node)
    if node.kind not in kinds:
        return node, None
    x, y = map(uncast, node.children)
    return (x, y) if x.kind == "reduction" else (y, x)


def _children(node: Node, kind: str, missing: str) -> tuple[Node, ...]:
    """
    Strips casts from a node of kind `kind`, and returns its children. For any other kind, raises
    `NotTraced` with the text `missing`.
    """
    node = uncast(node)
    if node.kind != kind:
        raise NotTraced(missing)
    return node.children


def is_least(node: Node) -> bool:
    node = uncast(node)
    return node.kind == "number" and node.detail <= LEAST


SIGNED = {2: "<", 3: "<=", 4: ">", 5: ">="}

UNSIGNED = {6: "<", 7: "<=", 8: ">", 9: ">="}

OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

ENDS = {">": ("last", 0), ">=": ("last", -1), "<": ("first", 0), "<=": ("first", 1)}
"""
For a mask that hides the keys n with n `relation` m + c: maps the relation to the limit of `Band`
that remains, and the number to add to c to get this limit.
"""

KEYS = "n"
"""Name of the loop over the keys."""


@dataclass(frozen=True)
class Band:
    """
    The keys n that a query row m may see: m + `first` <= n <= m + `last`. None means no limit.
    """

    rows: str | None = None
    """Name of the loop over m; None if that loop has one iteration."""
    first: Size | None = None
    last: Size | None = None

    def and_also(self, other: Band) -> Band:
        """
        Returns the intersection of two bands. Raises `NotTraced` if the intersection is not a
        band.
        """
        if self.rows is not None and other.rows not in (None, self.rows):
            raise NotTraced("a mask depends on more than one loop over query rows")
        if (self.first, other.first).count(None) == 0 or (self.last, other.last).count(None) == 0:
            raise NotTraced("two masks limit the keys from the same side")
        first = other.first if self.first is None else self.first
        last = other.last if self.last is None else self.last
        return Band(self.rows or other.rows, first, last)


def band(condition: Node, hides: bool) -> Band:
    """
    Derives the visible keys from a mask's condition on loop indices.

    The condition is true for hidden keys if `hides`, else for visible keys.
    """
    match condition:
        case Node("arith.ori", _, (a, b)) if hides:
            return band(a, True).and_also(band(b, True))
        case Node("arith.andi", _, (a, b)) if not hides:
            return band(a, False).and_also(band(b, False))
        case Node("arith.cmpi", detail, (left, right)):
            predicate = dict(detail)["predicate"].value.data
        case _:
            raise NotTraced("a mask is not a comparison")
    left, right = _sum_of(left), _sum_of(right)
    relation = SIGNED.get(predicate)
    if predicate in UNSIGNED and _is_natural(left) and _is_natural(right):
        relation = UNSIGNED[predicate]
    if relation is None:
        raise NotTraced("a mask must compare by <, <=, > or >=")
    if not hides:
        relation = OPPOSITE[relation]
    names = sorted({*left, *right} - {""})
    factors = {name: left.get(name, 0) - right.get(name, 0) for name in names}
    constant = left.get("", 0) - right.get("", 0)
    if factors.get(KEYS) == -1:
        factors = {name: -factor for name, factor in factors.items()}
        relation, constant = MIRRORED[relation], -constant
    rows = [name for name, factor in factors.items() if name != KEYS and factor != 0]
    if factors.get(KEYS) != 1 or len(rows) > 1 or any(factors[name] != -1 for name in rows):
        raise NotTraced("a mask does not compare a key index with a row index")
    # A key is hidden if n - m + constant > 0 (or another relation to 0) holds.
    row = rows[0] if rows else None
    side, by = ENDS[relation]
    return replace(Band(row), **{side: by - constant})


Sum = dict[str, Size]
"""A linear sum: maps the name of each loop to its factor, and the empty name to the constant."""


def _is_natural(terms: Sum) -> bool:
    return all(surely_below(-1, factor) for factor in terms.values())


def _sum_of(node: Node) -> Sum:
    """Returns an integer expression as a linear sum of loop indices and sizes."""
    match node:
        case Node(
            "arith.index_cast" | "arith.index_castui" | "arith.extsi" | "arith.extui"
            | "arith.trunci", _, (x,)
        ):  # fmt: skip
            return _sum_of(x)
        case Node("arith.addi" | "arith.subi" as kind, _, (x, y)):
            total, sign = _sum_of(x), 1 if kind == "arith.addi" else -1
            for name, factor in _sum_of(y).items():
                total[name] = total.get(name, 0) + sign * factor
            return total
        case Node("number" | "size", c):
            return {"": c}
        case Node("index", ()):
            return {}
        case Node("index", (Piece(loop, 1, _),)):
            return {loop: 1}
        case _:
            raise NotTraced("a mask depends on values other than loop indices and sizes")
