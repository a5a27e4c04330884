"""Writes a comparison of two explanations as one self-contained HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from xdsl_spirv.tools.comparison_data import ComparisonData, Pair, change_of, paths_of, side_value
from xdsl_spirv.tools.comparison_text import figures_of, ratio, shown, verdict
from xdsl_spirv.tools.explain_charts import RunChart, chart_runs, colour
from xdsl_spirv.tools.explain_rows import run_times
from xdsl_spirv.tools.explain_text import ranges, tile_of
from xdsl_spirv.tools.explanation_data import ExplanationData
from xdsl_spirv.tools.page import render_page


def page_of(comparison: ComparisonData) -> str:
    """Returns the page of a comparison."""
    a, b = comparison.a, comparison.b
    if a.model == b.model:
        headings = [("", a.model, f" on {a.target} and {b.target}")]
    else:
        headings = [("", a.model, f" on {a.target}"), ("beside ", b.model, f" on {b.target}")]
    sides = _sides(comparison)
    left, right = figures_of(a), figures_of(b)
    return render_page(
        "comparison",
        f"{a.model} on {a.target} beside {b.model} on {b.target}",
        ("charts", "comparison"),
        colour=colour,
        figures=[(*one, other) for one, (_, other) in zip(left, right, strict=True)],
        headings=headings,
        names=("", *(_label(comparison, letter, side) for letter, side in sides)),
        note=_note(comparison),
        pairs=_pairs(comparison),
        sides=sides,
        timeline=_timeline(comparison),
    )


def _note(comparison: ComparisonData) -> str:
    what = {"measured": "times as measured", "roofline": "roofline times", "work": "operations"}
    note = f"{what[comparison.measure].capitalize()}: {verdict(comparison)}."
    if comparison.measure == "work":
        note = (
            "There are no times: nothing was measured, and the target's file holds no measured "
            f"rates. Bars are operations, not seconds. {note}"
        )
    return note


def _sides(comparison: ComparisonData) -> list[tuple[str, ExplanationData]]:
    return [("A", comparison.a), ("B", comparison.b)]


def _label(comparison: ComparisonData, letter: str, side: ExplanationData) -> str:
    """Returns a name for one side: its target, or its file if both targets are equal."""
    if comparison.a.target != comparison.b.target:
        return f"{letter}: {side.target}"
    return f"{letter}: {PurePath(side.model).name}"


def _timeline(comparison: ComparisonData) -> RunChart | None:
    if comparison.measure == "work":
        return None
    measured = comparison.measure == "measured"
    runs = [
        (_label(comparison, letter, side), side.layers, run_times(side.layers, measured))
        for letter, side in _sides(comparison)
    ]
    return chart_runs(runs, linked=False)


@dataclass(frozen=True)
class _Side:
    """One side of a pair: the length of its bar in percent of the longest bar, and its texts."""

    width: float
    cost: str
    path: str
    text: str
    why: str


@dataclass(frozen=True)
class _ShownPair:
    """A row of the page. `other` describes the change of the lowering path, if the path changes."""

    nodes: str
    other: str
    a: _Side | None
    b: _Side | None
    ratio: str


def _pairs(comparison: ComparisonData) -> list[_ShownPair]:
    values = [
        side_value(side, comparison.measure, numbers) or 0.0
        for pair in comparison.pairs
        for side, numbers in ((comparison.a, pair.a), (comparison.b, pair.b))
    ]
    scale = 100 / (max(values, default=0.0) or 1.0)
    return [_pair(comparison, pair, scale) for pair in comparison.pairs]


def _pair(comparison: ComparisonData, pair: Pair, scale: float) -> _ShownPair:
    left = side_value(comparison.a, comparison.measure, pair.a)
    right = side_value(comparison.b, comparison.measure, pair.b)
    change = change_of(comparison, pair)
    return _ShownPair(
        " + ".join(pair.nodes),
        change if " -> " in change else "",
        _side(comparison, comparison.a, pair.a, left, scale),
        _side(comparison, comparison.b, pair.b, right, scale),
        ratio(left, right),
    )


def _side(
    comparison: ComparisonData,
    side: ExplanationData,
    numbers: tuple[int, ...],
    value: float | None,
    scale: float,
) -> _Side | None:
    if not numbers:
        return None
    (path, *_) = paths_of(side, numbers)
    tiles = dict.fromkeys(tile_of(side.layers[n].layer.schedule) for n in numbers)
    text = ", ".join(filter(None, [f"layers {ranges(numbers)}", *tiles]))
    why = "; ".join(filter(None, (side.layers[n].layer.why for n in numbers)))
    return _Side((value or 0.0) * scale, shown(comparison, value), path, text, why)
