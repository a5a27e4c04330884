"""Represents the elements of a tile program as formulas of unique nodes and their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation


class NotRaised(Exception):
    """Raised if a program cannot be written on whole tensors. The message is the cause."""


@dataclass(frozen=True, eq=False)
class Node:
    """
    An element of a tile. `kind` is the name of an operation, or one of:

    - `load`: an argument's element; `detail` is its index and a dimension for each axis
    - `constant`, `truth`: a constant attribute; True or False
    - `linear`: a sum of indices of dimensions, first indices of tiles, and arguments
    - `sum`, `part`: the sum of its children's products over a dimension, or over a loop step
    - `reduce`, `reduce_part`: a reduction of its child over a dimension, or over a loop step
    - `carried`: a value that a loop carries
    - `softmax_product`, `softmax_sum`: see `online_softmax`
    """

    kind: str
    detail: Any
    children: tuple[Node, ...]
    type: Attribute


@dataclass(frozen=True)
class Dimension:
    """A dimension of `extent` elements. A workgroup or a loop step processes `tile` of them."""

    extent: int | None
    tile: int
    is_loop: bool = False
    limit: Node | None = None
    """The end of a loop that may stop before `extent`. The end may depend on the workgroup."""


Terms = dict[tuple[str, Any], int]
"""
Factors of the terms of a linear sum of integers.

Keys are `("index", dimension)`, `("first", dimension)`, `("argument", n)`, and `("", 0)` for the
constant.
"""

ONE = ("", 0)


class Nodes:
    """Creates and caches the nodes of a program's formulas."""

    def __init__(self) -> None:
        self.dimensions: dict[str, Dimension] = {}
        self.tail: str | None = None
        """The loop dimension whose last, partial step is being read; None otherwise."""
        self.locations: dict[Node, Operation] = {}
        self._nodes: dict[Any, Node] = {}

    def node(
        self, kind: str, detail: Any, children: Sequence[Node], type: Attribute, op: Any = None
    ) -> Node:
        """Returns the unique node with this kind, detail and children."""
        key = kind, detail, tuple(map(id, children)), type
        if key not in self._nodes:
            self._nodes[key] = Node(kind, detail, tuple(children), type)
            if op is not None:
                self.locations[self._nodes[key]] = op
        return self._nodes[key]

    def linear(self, terms: Terms, type: Attribute) -> Node:
        """Returns the node of a linear sum of indices."""
        held = tuple(sorted((k, v) for k, v in terms.items() if v))
        return self.node("linear", held, (), type)

    def truth(self, known: bool) -> Node:
        """Returns the node of a boolean constant."""
        return self.node("truth", known, (), IntegerType(1))

    def constant(self, value: Attribute, type: Attribute) -> Node:
        """Returns the node of a numeric constant."""
        if isinstance(value, IntegerAttr) and type == IntegerType(1):
            return self.truth(bool(value.value.data))
        if isinstance(value, IntegerAttr):
            return self.linear({ONE: value.value.data}, type)
        return self.node("constant", value, (), type)

    def make(self, kind: type[Operation], *children: Node, type: Attribute | None = None) -> Node:
        """Returns the node of an operation. `type` defaults to the type of the first operand."""
        type = type or children[0].type
        return self.operation(kind.create(result_types=[type]), children, type)

    def operation(self, op: Operation, children: Sequence[Node], type: Attribute) -> Node:
        """
        Returns the node of an `arith` or `math` operation, folded if the operands are constant.
        """
        name = op.name.partition(".")[2]
        if isinstance(op, arith.ConstantOp):
            return self.constant(op.value, type)
        if all(child.kind == "linear" for child in children):
            if (known := self._whole_numbers(name, op, children, type)) is not None:
                return known
        if name in ("andi", "ori") and (truths := [c for c in children if c.kind == "truth"]):
            other = next((c for c in children if c is not truths[0]), truths[0])
            return truths[0] if truths[0].detail == (name == "ori") else other
        if name == "select" and children[0].kind == "truth":
            return children[1 if children[0].detail else 2]
        if (
            name in OF_ZEROS
            and isinstance(type, AnyFloat)
            and all(is_number(c, 0) for c in children)
        ):
            return self.constant(FloatAttr(0.0, type), type)
        detail = type_of(op), tuple(sorted(op.properties.items()))
        return self.node(op.name, detail, children, type, op)

    def _whole_numbers(
        self, name: str, op: Operation, children: Sequence[Node], type: Attribute
    ) -> Node | None:
        first, second = terms_of(children[0]), terms_of(children[-1])
        match name:
            case "index_cast" | "extsi" | "trunci":
                return self.linear(first, type)
            case "addi" | "subi":
                return self.linear(plus(first, second, 1 if name == "addi" else -1), type)
            case "muli" if set(first) <= {ONE} or set(second) <= {ONE}:
                known, terms = (first, second) if set(first) <= {ONE} else (second, first)
                return self.linear({k: v * known.get(ONE, 0) for k, v in terms.items()}, type)
            case "minsi" | "maxsi" if not ({*first, *second} - {ONE}):
                chosen = (min if name == "minsi" else max)(first.get(ONE, 0), second.get(ONE, 0))
                return self.linear({ONE: chosen}, type)
            case "cmpi":
                return self._compare(cast(arith.CmpiOp, op), plus(first, second, -1))
            case _:
                return None

    def _compare(self, op: arith.CmpiOp, difference: Terms) -> Node | None:
        low, high = self._range(difference)
        predicate = op.predicate.value.data
        if low is None or high is None or predicate not in SIGNED:
            return None
        outcomes = {SIGNED[predicate](number) for number in (low, high)}
        return self.truth(outcomes.pop()) if len(outcomes) == 1 else None

    def _range(self, terms: Terms) -> tuple[int | None, int | None]:
        low = high = terms.get(ONE, 0)
        for (kind, name), factor in terms.items():
            if kind == "":
                continue
            known = self.dimensions.get(name) if kind == "index" else None
            if known is None or known.extent is None:
                return None, None
            ends = (0, known.extent - 1)
            if self.tail == name:
                ends = known.extent, -(-known.extent // known.tile) * known.tile - 1
            values = [factor * end for end in ends]
            low, high = low + min(values), high + max(values)
        return low, high


def type_of(op: Operation) -> type[Operation]:
    return type(op)


def terms_of(node: Any) -> Terms:
    """Returns the terms of a linear sum. Raises `NotRaised` for any other node."""
    if not isinstance(node, Node) or node.kind != "linear":
        raise NotRaised("an index is not a linear sum")
    return dict(node.detail)


def plus(a: Terms, b: Terms, factor: int) -> Terms:
    """Returns the sum a + factor * b."""
    result = {key: a.get(key, 0) + factor * b.get(key, 0) for key in {**a, **b}}
    return {key: value for key, value in result.items() if value}


def number_of(node: Node) -> float | None:
    """Returns the constant that an element always equals; None if it varies."""
    if node.kind == "constant" and isinstance(node.detail, FloatAttr | IntegerAttr):
        return node.detail.value.data
    if node.kind == "linear" and not {key for key, _ in node.detail} - {ONE}:
        return dict(node.detail).get(ONE, 0)
    return None


def is_number(node: Node, number: float) -> bool:
    """True if an element always equals this constant."""
    return number_of(node) == number


OF_ZEROS = ("extf", "truncf", "mulf", "addf", "subf", "sitofp", "uitofp")
"""Operations whose result is 0 if all operands are 0."""

SIGNED: Mapping[int, Callable[[int], bool]] = {
    2: lambda d: d < 0, 3: lambda d: d <= 0, 4: lambda d: d > 0, 5: lambda d: d >= 0,
}  # fmt: skip
"""Maps the predicate of a signed comparison to a condition on the difference of the operands."""
