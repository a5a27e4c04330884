"""
Recognizes a loop over keys that tracks each row's maximum score as a softmax on whole tensors.

    new = max(top, max of x)                             softmax of x, times values
    lost = exp(top - new), p = exp(x - new)        ->
    total = total * lost + sum of p
    result = result * lost + p * values

After the loop only result / total may be read. Rounding differs: p is divided by the sum before p
is rounded, and a constant factor of the queries multiplies the scores in the type of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute

from xdsl_spirv.passes.graph.attention_patterns import LEAST, MAXIMA
from xdsl_spirv.passes.graph.tile_nodes import (
    Node,
    Nodes,
    NotRaised,
    Terms,
    is_number,
    number_of,
    plus,
    terms_of,
)


class OnlineSoftmax:
    """Matches an online softmax in one loop. Methods raise `NotRaised` if a part does not match."""

    def __init__(self, elements: Nodes, loop: str, starts: Sequence[Node]):
        self.elements, self.loop, self.starts = elements, loop, starts

    def results(self, yields: Sequence[Node], tail: Sequence[Node] | None) -> list[Node]:
        """
        Returns the nodes of the values that the loop carries: the attention, the sum and the
        maximum. `yields` are the values after a whole step, `tail` the values after a partial last
        step.
        """
        top, total, result = self._order(yields)
        new = yields[top]
        start = number_of(self.starts[top])
        sums = number_of(self.starts[total])
        # The first step multiplies the initial sum by exp(-inf - new), which is 0.
        begins = is_number(self.starts[result], 0) and (sums == 0 or (sums and start == -inf))
        _require(
            start is not None and start <= LEAST and begins,
            "maximum, sum and result do not start from -inf, 0 and 0",
        )
        power, values = yields[result].children[:2]
        lost = self._times(yields[result].children[2], result)
        added = self._other(yields[total], lambda n: n.kind == "reduce_part")
        _require(
            self._times(self._rest, total) is lost,
            "sum and result are rescaled by different factors",
        )
        p = _uncast(power)
        _require(
            added.children[0] is p and added.detail[0] == "arith.addf",
            "the sum does not add up the exponentials",
        )
        exponential = p.kind
        _require(exponential in ("math.exp", "math.exp2") and lost.kind == exponential, "no powers")
        scores = self._difference(p, new)
        _require(self._difference(lost, new).detail == (self.loop, top), "another maximum")
        self._check_maximum(new, scores, top)
        if tail is not None:
            ends = self._difference(_uncast(tail[result].children[0]), tail[top])
            _require(number_of(ends) == -inf, "the last step does not mask keys after the last key")
        self._check_limit(scores)
        if exponential == "math.exp2":
            scores = self._scale(scores, log(2))
        product = self._product(self._lift_factor(scores), values, yields[result].type)
        made = {
            result: self.elements.node("softmax_product", self.loop, (product,), product.type),
            total: self.elements.node("softmax_sum", self.loop, (product,), product.type),
            top: self.elements.node("softmax_maximum", self.loop, (product,), product.type),
        }
        return [made[n] for n in range(len(yields))]

    def _product(self, scores: Node, values: Node, type: Attribute) -> Node:
        e = self.elements
        top = e.node("reduce", ("arith.maxnumf", self.loop), (scores,), scores.type)
        power = e.make(math.ExpOp, e.make(arith.SubfOp, scores, top))
        total = e.node("reduce", ("arith.addf", self.loop), (power,), power.type)
        share = e.make(arith.DivfOp, power, total)
        if values.type != share.type:
            share = e.make(arith.TruncFOp, share, type=values.type)
        return e.node("sum", (self.loop, False), (share, values), type)

    def _order(self, yields: Sequence[Node]) -> tuple[int, int, int]:
        """
        Returns the indices of the row maximum, the sum and the result among the values that the
        loop carries.
        """
        kinds = [node.kind for node in yields]
        _require(len(kinds) == 3, "the loop carries more than a maximum, a sum and a result")
        tops = [n for n, kind in enumerate(kinds) if kind in MAXIMA]
        results = [n for n, kind in enumerate(kinds) if kind == "part"]
        totals = [n for n, kind in enumerate(kinds) if kind == "arith.addf"]
        _require(
            len(tops) == len(results) == len(totals) == 1,
            "the loop does not carry one maximum, one sum and one result",
        )
        return tops[0], totals[0], results[0]

    def _other(self, node: Node, chosen: Callable[[Node], bool]) -> Node:
        """
        Returns the child of `node` that `chosen` accepts. Stores the remaining child in `_rest`.
        """
        a, b = node.children
        if not chosen(a):
            a, b = b, a
        _require(chosen(a), "an operation of the loop has other operands than in an online softmax")
        self._rest = b
        return a

    def _times(self, node: Node, carried: int) -> Node:
        """Returns the factor that rescales the carried value with this index."""
        _require(node.kind == "arith.mulf", "a sum is not rescaled")
        self._other(node, lambda n: n.kind == "carried" and n.detail == (self.loop, carried))
        return self._rest

    def _difference(self, power: Node, new: Node) -> Node:
        """Matches exp(x - new) and returns x."""
        (exponent,) = power.children
        _require(exponent.kind == "arith.subf" and exponent.children[1] is new, "no difference")
        return exponent.children[0]

    def _check_maximum(self, new: Node, scores: Node, top: int) -> None:
        """Checks that new = max(top, max of scores). One constant factor may scale both sides."""
        greatest = self._other(new, lambda n: n.kind != "carried")
        _require(self._rest.detail == (self.loop, top), "another maximum")
        if greatest.kind == scores.kind == "arith.mulf":
            (a, c), (x, d) = greatest.children, scores.children
            _require(c is d and (number_of(c) or 0) > 0, "another factor")
            greatest, scores = a, x
        same = greatest.kind == "reduce_part" and greatest.children[0] is scores
        _require(
            same and greatest.detail[0] in MAXIMA,
            "the tracked maximum is not the maximum of the scores",
        )

    def _check_limit(self, scores: Node) -> None:
        """Refuses a loop that ends before the last key, unless a mask hides the skipped keys."""
        limit = self.elements.dimensions[self.loop].limit
        if limit is None:
            return
        hidden = scores.kind == "arith.select" and number_of(scores.children[2]) == -inf
        _require(hidden, "the loop skips keys that no mask hides")
        for bound in _bounds(scores.children[0], self.loop):
            rows = [name for (kind, name) in bound if kind == "index"]
            if len(rows) == 1 and bound["index", rows[0]] == 1:
                tile = self.elements.dimensions[rows[0]].tile
                last: Terms = {("first", rows[0]): 1, ("", 0): tile - 1, ("index", rows[0]): -1}
                beyond = plus(terms_of(limit), plus(bound, last, 1), -1)
                if set(beyond) <= {("", 0)} and beyond.get(("", 0), 0) >= 1:
                    return
        raise NotRaised("the loop skips keys that no mask hides")

    def _scale(self, node: Node, factor: float) -> Node:
        assert isinstance(node.type, AnyFloat)
        number = self.elements.constant(FloatAttr(factor, node.type), node.type)
        return self.elements.make(arith.MulfOp, node, number)

    def _lift_factor(self, node: Node) -> Node:
        """Moves a constant factor from an operand of the product to the result of the product."""
        elements = self.elements
        if node.kind == "sum":
            a, b = node.children
            for x, y in ((a, b), (b, a)):
                number = number_of(x.children[1]) if x.kind == "arith.mulf" else None
                if number is not None:
                    children = (x.children[0], y) if x is a else (y, x.children[0])
                    product = elements.node("sum", node.detail, children, node.type)
                    return self._scale(product, number)
            return node
        children = tuple(map(self._lift_factor, node.children))
        return elements.node(node.kind, node.detail, children, node.type)


def _bounds(condition: Node, keys: str) -> list[Terms]:
    """Returns the upper bounds of the key index that a condition implies, as sums of indices."""
    if condition.kind == "arith.andi":
        return [bound for child in condition.children for bound in _bounds(child, keys)]
    if condition.kind != "arith.cmpi":
        return []
    a, b = map(terms_of, condition.children)
    predicate = dict(condition.detail[1])["predicate"].value.data
    if predicate in (4, 5):
        a, b, predicate = b, a, predicate - 2
    difference = plus(b, a, -1)
    if predicate not in (2, 3) or difference.get(("index", keys)) != -1:
        return []
    return [plus(plus(difference, {("index", keys): 1}, 1), {("", 0): predicate - 3}, 1)]


def _uncast(node: Node) -> Node:
    while node.kind in ("arith.truncf", "arith.extf"):
        (node,) = node.children
    return node


def _require(condition: object, cause: str) -> None:
    if not condition:
        raise NotRaised(f"a loop is not an attention: {cause}")
