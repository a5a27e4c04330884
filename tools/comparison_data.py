"""
Pairs the layers that do the same work in two explanations, with their costs.

Layers are paired if they compute a common node. A layer that is fused on one side is paired with
all its parts on the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xdsl_spirv.tools.explain_rows import total
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData

Measure = Literal["measured", "roofline", "work"]


@dataclass(frozen=True)
class Pair:
    """Indices of the dispatches of two programs that do the same work; one side may be empty."""

    nodes: tuple[str, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]


@dataclass(frozen=True)
class ComparisonData:
    """
    Two explanations and the pairs of their layers.

    `measure` is the compared quantity: measured times if known on both sides, else roofline times,
    else numbers of scalar operations.
    """

    schema: str
    version: int
    measure: Measure
    pairs: tuple[Pair, ...]
    a: ExplanationData
    b: ExplanationData

    @property
    def supported(self) -> bool:
        return self.a.supported and self.b.supported


def measure_of(a: ExplanationData, b: ExplanationData) -> Measure:
    if a.device is not None and b.device is not None:
        return "measured"
    if all(any(entry.roofline_seconds for entry in side.layers) for side in (a, b)):
        return "roofline"
    return "work"


def pairs_of(a: Sequence[ExplainedLayer], b: Sequence[ExplainedLayer]) -> list[Pair]:
    """
    Pairs the layers of `a` and `b` that compute a common node.

    Pairs are ordered by their first dispatch. Layers that only `b` has come last.
    """
    leader: dict[tuple[str, str], tuple[str, str]] = {}

    def find(name: tuple[str, str]) -> tuple[str, str]:
        while leader.setdefault(name, name) != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for entry in (*a, *b):
        first, *others = map(find, _names(entry))
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[tuple[str, str], Pair] = {}
    for entry in (*a, *b):
        key = find(_names(entry)[0])
        pair = groups.get(key, Pair((), (), ()))
        nodes = dict.fromkeys((*pair.nodes, *(entry.layer.nodes or (entry.kernel,))))
        groups[key] = replace(pair, nodes=tuple(nodes))
    for side, layers in (("a", a), ("b", b)):
        for entry in layers:
            key = find(_names(entry)[0])
            pair = groups[key]
            numbers = (*(pair.a if side == "a" else pair.b), entry.dispatch)
            groups[key] = replace(pair, **{side: numbers})
    return list(groups.values())


def _names(entry: ExplainedLayer) -> list[tuple[str, str]]:
    """Returns keys that identify a layer: its node names, or its kernel if it has no nodes."""
    return [(entry.function or "", name) for name in entry.layer.nodes or (entry.kernel,)]


def side_value(
    explanation: ExplanationData, measure: Measure, numbers: Sequence[int]
) -> float | None:
    """
    Sums the costs of the dispatches `numbers`, in the unit of `measure`. Returns None if there are
    none, or if a cost is unknown.
    """
    return total([value_of(explanation.layers[n], measure) for n in numbers]) if numbers else None


def value_of(entry: ExplainedLayer, measure: Measure) -> float | None:
    """
    Returns the cost of a dispatch in one run. `measure` selects measured seconds, roofline seconds,
    or scalar operations. The cost is 0 if the dispatch runs only once per program.
    """
    if entry.once:
        return 0.0
    figures: dict[Measure, Callable[[], float | None]] = {
        "measured": lambda: entry.measured_seconds,
        "roofline": lambda: entry.roofline_seconds,
        "work": lambda: entry.layer.operations,
    }
    return figures[measure]()


def whole(explanation: ExplanationData, measure: Measure) -> float:
    """Returns the sum of the known costs of all dispatches of a run."""
    return sum(value_of(entry, measure) or 0.0 for entry in explanation.layers)


def ordered(comparison: ComparisonData, order: str) -> list[Pair]:
    """Returns the pairs in execution order, or sorted by the difference of their costs."""
    pairs = list(comparison.pairs)
    if order == "order":
        return pairs

    def apart(pair: Pair) -> float:
        left = side_value(comparison.a, comparison.measure, pair.a)
        right = side_value(comparison.b, comparison.measure, pair.b)
        return -abs((left or 0.0) - (right or 0.0))

    return sorted(pairs, key=apart)


def paths_of(explanation: ExplanationData, numbers: Sequence[int]) -> list[str]:
    """
    Returns the distinct lowering paths (such as cooperative matrices) of the dispatches `numbers`.
    """
    return list(dict.fromkeys(explanation.layers[n].layer.path for n in numbers))


def change_of(comparison: ComparisonData, pair: Pair) -> str:
    """Returns the lowering path of a pair if it is equal on both sides, else `left -> right`."""
    left = " + ".join(paths_of(comparison.a, pair.a)) or "none"
    right = " + ".join(paths_of(comparison.b, pair.b)) or "none"
    return left if left == right else f"{left} -> {right}"
