"""
A comparison as one self-contained page: both sides' figures, runs over time, and pairs of layers.
"""

from __future__ import annotations

from html import escape
from pathlib import PurePath

from xdsl_spirv.tools.comparison_data import ComparisonData, Pair, change_of, paths_of, side_value
from xdsl_spirv.tools.comparison_text import figures_of, ratio, shown, verdict
from xdsl_spirv.tools.explain_charts import COLOURS, strips
from xdsl_spirv.tools.explain_rows import run_times
from xdsl_spirv.tools.explain_text import ranges, tile_of
from xdsl_spirv.tools.explanation_data import ExplanationData
from xdsl_spirv.tools.page import heading, page, table


def page_of(comparison: ComparisonData) -> str:
    """Returns the page of a comparison."""
    a, b = comparison.a, comparison.b
    title = f"{a.model} on {a.target} beside {b.model} on {b.target}"
    same = a.model == b.model
    head = heading("", a.model, f" on {a.target} and {b.target}" if same else f" on {a.target}")
    if not same:
        head += heading("beside ", b.model, f" on {b.target}")
    parts = [head, _refusals(comparison), _figures(comparison), _timeline(comparison)]
    parts.append(_pairs(comparison))
    return page(title, "".join(parts), ("charts", "comparison"))


def _refusals(comparison: ComparisonData) -> str:
    return "".join(
        f'<p class="bad"><b>{letter} is not supported:</b> {escape(reason)}</p>'
        for letter, side in (("A", comparison.a), ("B", comparison.b))
        for reason in side.refusals
    )


def _figures(comparison: ComparisonData) -> str:
    left, right = figures_of(comparison.a), figures_of(comparison.b)
    rows = [
        (escape(name), escape(value), escape(other))
        for (name, value), (_, other) in zip(left, right, strict=True)
    ]
    names = [_label(comparison, letter, side) for letter, side in _sides(comparison)]
    what = {"measured": "times as measured", "roofline": "roofline times", "work": "operations"}
    note = f"{what[comparison.measure].capitalize()}: {verdict(comparison)}."
    if comparison.measure == "work":
        note = (
            "There are no times: nothing was measured, and the target's file holds no measured "
            f"rates. Bars are operations, not seconds. {note}"
        )
    return f'{table(("", *names), rows)}<p class="note">{escape(note)}</p>'


def _sides(comparison: ComparisonData) -> list[tuple[str, ExplanationData]]:
    return [("A", comparison.a), ("B", comparison.b)]


def _label(comparison: ComparisonData, letter: str, side: ExplanationData) -> str:
    """A name that distinguishes a side from the other: its target or its file's name."""
    if comparison.a.target != comparison.b.target:
        return f"{letter}: {side.target}"
    return f"{letter}: {PurePath(side.model).name}"


def _timeline(comparison: ComparisonData) -> str:
    if comparison.measure == "work":
        return ""
    measured = comparison.measure == "measured"
    runs = [
        (_label(comparison, letter, side), side.layers, run_times(side.layers, measured))
        for letter, side in _sides(comparison)
    ]
    return strips(runs, linked=False)


def _pairs(comparison: ComparisonData) -> str:
    values = [
        side_value(side, comparison.measure, numbers) or 0.0
        for pair in comparison.pairs
        for side, numbers in ((comparison.a, pair.a), (comparison.b, pair.b))
    ]
    scale = 100 / (max(values, default=0.0) or 1.0)
    rows = "".join(_pair(comparison, pair, scale) for pair in comparison.pairs)
    return f"<h2>Layers</h2>{rows}" if rows else ""


def _pair(comparison: ComparisonData, pair: Pair, scale: float) -> str:
    left = side_value(comparison.a, comparison.measure, pair.a)
    right = side_value(comparison.b, comparison.measure, pair.b)
    change = change_of(comparison, pair)
    other = " other" if " -> " in change else ""
    return (
        f'<div class="pair{other}"><div class="nodes">{escape(" + ".join(pair.nodes))} '
        f"<b>{escape(change) if other else ''}</b></div>"
        f"{_side('A', comparison, comparison.a, pair.a, left, scale)}"
        f"{_side('B', comparison, comparison.b, pair.b, right, scale)}"
        f'<div class="ratio">{ratio(left, right)}</div></div>'
    )


def _side(
    letter: str,
    comparison: ComparisonData,
    side: ExplanationData,
    numbers: tuple[int, ...],
    value: float | None,
    scale: float,
) -> str:
    """A bar for the cost of a side, and its dispatches and tiles."""
    if not numbers:
        return f'<div class="side"><small>{letter}: nothing</small></div>'
    (path, *_) = paths_of(side, numbers)
    tiles = dict.fromkeys(tile_of(side.layers[n].layer.schedule) for n in numbers)
    said = ", ".join(filter(None, [f"layers {ranges(numbers)}", *tiles]))
    why = "; ".join(filter(None, (side.layers[n].layer.why for n in numbers)))
    width = (value or 0.0) * scale
    return (
        f'<div class="side" title="{escape(why)}"><i class="bar" style="width:{width:.2f}%;'
        f'background:{COLOURS.get(path, "#888")}"></i><small>{letter}: '
        f"{escape(shown(comparison, value))}, {escape(path)}, {escape(said)}</small></div>"
    )
