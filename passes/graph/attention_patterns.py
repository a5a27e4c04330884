"""
What an attention's parts look like as trees of what an element is computed from (`element_trees`).

A softmax, casts, the replacement of NaN by 0, and a causal mask: each function takes a tree apart
and returns what it is about, or raises `NotTraced` with what is missing.
"""

from __future__ import annotations

from xdsl_spirv.passes.graph.element_trees import Node, NotTraced, Piece

CASTS = ("arith.extf", "arith.truncf")

LEAST = -1e30
"""A score that is put in a masked one's place is -inf, or so far below all others that it is."""

LEAST_BINARY16 = -65504.0
"""The least finite number of binary16: where a maximum of such numbers may begin."""

MAXIMA = ("arith.maximumf", "arith.maxnumf")


def uncast(node: Node) -> Node:
    while node.kind in CASTS:
        (node,) = node.children
    return node


def without_nan(node: Node) -> tuple[Node, bool]:
    """The probabilities, and whether those that are NaN are made 0."""
    node = uncast(node)
    match node:
        case Node("arith.select", _, (Node("arith.cmpf", _, (a, b)) as test, zero, p)) if (
            a == b == p and zero == Node("number", 0.0)
        ):
            predicates = dict(test.detail)
            # 8 is uno, 13 une: both hold for NaN only if the operands are the same.
            if predicates["predicate"].value.data in (8, 13):
                return uncast(p), True
        case _:
            pass
    return node, False


def softmax(node: Node) -> Node:
    """x of exp(x - max x) / sum exp(x - max x)."""
    match node:
        case Node("arith.divf", _, (power, total)):
            pass
        case _:
            raise NotTraced("no division")
    power, total = uncast(power), uncast(total)
    match total:
        case Node("reduction", ("arith.addf", start), (summed,)) if start == 0:
            pass
        case _:
            raise NotTraced("no sum")
    if uncast(summed) != power:
        raise NotTraced("the sum of something else")
    match power:
        case Node("math.exp", _, (exponent,)):
            pass
        case _:
            raise NotTraced("no exponential")
    match uncast(exponent):
        case Node("arith.subf", _, (x, greatest)):
            pass
        case _:
            raise NotTraced("no difference")
    match uncast(greatest):
        case Node("reduction", (name, start), (compared,)) if name in MAXIMA and (
            start <= LEAST or start == LEAST_BINARY16
        ):
            pass
        case _:
            raise NotTraced("no maximum")
    if uncast(compared) != uncast(x):
        raise NotTraced("the maximum of something else")
    return x


def is_least(node: Node) -> bool:
    node = uncast(node)
    return node.kind == "number" and node.detail <= LEAST


SIGNED = {0: "eq", 1: "ne", 2: "<", 3: "<=", 4: ">", 5: ">=", 6: "<", 7: "<=", 8: ">", 9: ">="}

OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def causal(condition: Node, masked_if: bool) -> int:
    """c of the mask n > m + c, from a comparison of the two loops' indexes."""
    match condition:
        case Node("arith.cmpi", detail, (left, right)):
            relation = SIGNED[dict(detail)["predicate"].value.data]
        case _:
            raise NotTraced("a mask that is no comparison")
    (left, before), (right, after) = _index_of(left), _index_of(right)
    if relation not in OPPOSITE:
        raise NotTraced("a mask that is no order")
    if not masked_if:
        relation = OPPOSITE[relation]
    difference = after - before
    if (left, right) == ("m", "n"):
        left, right, relation, difference = right, left, MIRRORED[relation], -difference
    if (left, right) != ("n", "m") or relation not in (">", ">="):
        raise NotTraced("a mask of another kind")
    return difference if relation == ">" else difference - 1


def _index_of(node: Node) -> tuple[str, int]:
    """The loop that a number is the index of, and what is added to it."""
    match node:
        case Node("arith.index_cast", _, (x,)):
            return _index_of(x)
        case Node("arith.addi", _, (x, Node("number", c)) | (Node("number", c), x)):
            name, before = _index_of(x)
            return name, before + c
        case Node("arith.subi", _, (x, Node("number", c))):
            name, before = _index_of(x)
            return name, before - c
        case Node("index", (Piece(loop, 1, _),)):
            return loop, 0
        case _:
            raise NotTraced("a mask of something else than indexes")
