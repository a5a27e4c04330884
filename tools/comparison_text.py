"""Writes a comparison as text: a table with one row for each pair of layers."""

from __future__ import annotations

from xdsl_spirv.tools.comparison_data import (
    ComparisonData,
    Pair,
    change_of,
    ordered,
    side_value,
    whole,
)
from xdsl_spirv.tools.explain_text import aligned_table, duration, peak, ranges, shorten, size, work
from xdsl_spirv.tools.explanation_data import ExplanationData


def text_of(comparison: ComparisonData, order: str = "order") -> str:
    """Returns the comparison as text, in execution order or with large differences first."""
    rows = [
        ["A", "B", "path", "A takes", "B takes", "B / A", "nodes"],
        *(_row(comparison, pair) for pair in ordered(comparison, order)),
    ]
    changed = sum(" -> " in change_of(comparison, pair) for pair in comparison.pairs)
    ends = [f"{changed} of {len(comparison.pairs)} pairs of layers use different paths"]
    what = {"measured": "times as measured", "roofline": "roofline times", "work": "operations"}
    ends.append(f"compared: {what[comparison.measure]}; {verdict(comparison)}")
    heads = [_head("A", comparison.a), _head("B", comparison.b)]
    return "\n\n".join(["\n".join(heads), aligned_table(rows), "\n".join(ends)]) + "\n"


def _head(letter: str, explanation: ExplanationData) -> str:
    lines = [f"{letter}: {explanation.model} for {explanation.target}"]
    lines += [f"   NOT SUPPORTED: {reason}" for reason in explanation.refusals]
    if explanation.layers:
        lines.append(
            "   " + ", ".join(f"{name} {value}" for name, value in figures_of(explanation))
        )
    return "\n".join(lines)


def figures_of(explanation: ExplanationData) -> list[tuple[str, str]]:
    """Returns names and values of one side's totals: dispatches, kernels, work, bytes."""
    paths = ", ".join(f"{count} {path}" for path, count in explanation.paths.most_common())
    moved = [0 if e.once else e.layer.bytes for e in explanation.layers]
    known = None if None in moved else sum(count or 0 for count in moved)
    return [
        ("dispatches", f"{len(explanation.layers)} ({paths})"),
        ("kernels", f"{explanation.kernels} of {size(explanation.binary_bytes)}"),
        ("work", work(sum(e.layer.operations or 0 for e in explanation.layers))),
        ("moved", size(known)),
        ("weights", size(explanation.weight_bytes)),
        ("temporaries", peak(explanation)),
    ]


def _row(comparison: ComparisonData, pair: Pair) -> list[str]:
    left = side_value(comparison.a, comparison.measure, pair.a)
    right = side_value(comparison.b, comparison.measure, pair.b)
    return [
        shorten(ranges(pair.a)),
        shorten(ranges(pair.b)),
        change_of(comparison, pair),
        shown(comparison, left) if pair.a else "",
        shown(comparison, right) if pair.b else "",
        ratio(left, right),
        shorten(" + ".join(pair.nodes)),
    ]


def shown(comparison: ComparisonData, value: float | None) -> str:
    """Formats a value of the compared quantity with its unit."""
    if comparison.measure == "work":
        return work(None if value is None else int(value))
    return duration(value)


def ratio(left: float | None, right: float | None) -> str:
    """
    Returns `right / left` as text; empty if a cost is unknown or 0.

    >>> ratio(2.0, 1.0), ratio(0.0, 1.0), ratio(None, 1.0)
    ('0.5', '', '')
    """
    return f"{right / left:.3g}" if left and right else ""


def verdict(comparison: ComparisonData) -> str:
    """Returns a sentence with the total cost of each side, and the faster side."""
    left, right = (whole(side, comparison.measure) for side in (comparison.a, comparison.b))
    said = f"A {shown(comparison, left)}, B {shown(comparison, right)}"
    if not left or not right or left == right:
        return said
    letter, times = ("A", right / left) if left < right else ("B", left / right)
    return f"{said}: {letter} is {times:.3g} times as fast"
