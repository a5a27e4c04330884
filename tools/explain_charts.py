"""
Charts of an explanation: the run over time, and its memory over dispatches. They fit any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from xdsl_spirv.passes.schedule.paths import (
    ATTENTION,
    COOPERATIVE_MATRIX,
    DOT,
    FMA,
    LOOPS,
    PACK,
    ROTATE,
    ROWS,
)
from xdsl_spirv.tools.explain_rows import run_times
from xdsl_spirv.tools.explain_text import duration, nodes_text, shorten, size
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.lifetimes import Lifetime, in_use

COLOURS = {
    COOPERATIVE_MATRIX: "#2f7d4f",
    ATTENTION: "#0f766e",
    ROTATE: "#2b6cb0",
    ROWS: "#17788f",
    DOT: "#7b4fb5",
    FMA: "#a35e0c",
    LOOPS: "#636f7b",
    PACK: "#6b7280",
}

WIDTH = 1000
"""Width of a chart, in units of its own: the window's width is what it is stretched to."""


SEEN = 1 / 20
"""Runs shorter than this share of the longest one get their own scale."""

Run = tuple[str, Sequence[ExplainedLayer], Sequence[float]]
"""Name of a run, its dispatches, and the seconds of each."""


def timeline(explanation: ExplanationData) -> str:
    """The dispatches of a run over time, as measured and by the roofline, on one scale."""
    layers = explanation.layers
    runs: list[Run] = []
    if explanation.device is not None:
        name = f"measured on {explanation.device}"
        runs.append((name, layers, run_times(layers, measured=True)))
    # The interpreter's times do not compare with a device's: it has no scale in common with one.
    if explanation.device is None or explanation.compares:
        runs.append(("at least, by the roofline", layers, run_times(layers, measured=False)))
    return strips(runs, linked=True)


def strips(runs: Sequence[Run], linked: bool) -> str:
    """
    Runs over time, one below the other on one scale; empty where no time is known.

    A run that would be too short to be seen has a scale of its own, and says so.
    """
    longest = max((sum(seconds) for *_, seconds in runs), default=0.0)
    if not longest:
        return ""
    rows: list[str] = []
    for name, layers, seconds in runs:
        whole = sum(seconds)
        own = whole < longest * SEEN
        note = f"{duration(whole)}{', on a scale of its own' if own else ''}"
        rows.append(
            f'<div>{escape(name)}<br><span class="soft">{note}</span></div>'
            f"{_strip(layers, seconds, whole if own else longest, linked)}"
        )
    ticks = "".join(f"<span>{duration(longest * i / 4)}</span>" for i in range(1, 5))
    return (
        f'<h2>The run over time</h2><div class="strip" id="timeline">{"".join(rows)}'
        f'<div></div><div class="axis"><span>0</span>{ticks}</div></div>'
    )


def _strip(
    layers: Sequence[ExplainedLayer], seconds: Sequence[float], longest: float, linked: bool
) -> str:
    rects: list[str] = []
    start = 0.0
    for entry, time in zip(layers, seconds, strict=True):
        width = time / longest * WIDTH if longest else 0.0
        if width:
            label = f"{entry.dispatch}: {shorten(nodes_text(entry))}, {duration(time)}"
            rect = (
                f'<rect x="{start:.3f}" width="{width:.3f}" '
                f'height="26" fill="{colour(entry)}"><title>{escape(label)}</title></rect>'
            )
            rects.append(f'<a href="#layer-{entry.dispatch}">{rect}</a>' if linked else rect)
        start += width
    return (
        f'<svg viewBox="0 0 {WIDTH} 26" preserveAspectRatio="none" role="img" '
        f'aria-label="dispatches over time">{"".join(rects)}</svg>'
    )


def colour(entry: ExplainedLayer) -> str:
    """A layer's colour, by its path."""
    return COLOURS.get(entry.layer.path, "#888")


def memory_chart(explanation: ExplanationData) -> str:
    """
    Returns where temporaries lie in memory and for how long, and how much is in use at each
    dispatch.
    """
    count = len(explanation.layers)
    used = in_use(explanation.buffers, count)
    placed = [b for b in explanation.buffers if b.offset is not None and b.bytes]
    whole = max([explanation.memory_bytes, *used], default=0)
    title = '<h2>Memory over the run</h2><p class="keys">'
    if not used or not placed or not whole:
        return _memory_in_words(explanation)
    rects = "".join(_rectangle(life, count, whole) for life in placed)
    step = WIDTH / count
    line = " ".join(
        f"{x:.2f},{WIDTH - level / whole * WIDTH:.2f}"
        for number, level in enumerate(used)
        for x in (number * step, (number + 1) * step)
    )
    most = used.index(max(used))
    return (
        f"{title}Each box is a temporary: up and down where it lies, left to right the dispatches "
        f"that it lives for. The line is how much is in use, most of it ({size(max(used))}) at "
        f'<a href="#layer-{most}">dispatch {most}</a>.</p><div class="memory" id="memory">'
        f'<div class="axis"><span>{size(whole)}</span></div>'
        f'<svg viewBox="0 0 {WIDTH} {WIDTH}" preserveAspectRatio="none" role="img" '
        f'aria-label="memory over dispatches">{rects}<polyline points="{line}"/></svg>'
        f'<div class="axis"><span>dispatch 0</span><span>{count - 1}</span></div></div>'
        f"<p>{_others(explanation)}</p>"
    )


def _rectangle(life: Lifetime, count: int, whole: int) -> str:
    step = WIDTH / count
    height = (life.bytes or 0) / whole * WIDTH
    top = WIDTH - (life.offset or 0) / whole * WIDTH - height
    label = f"{life.name}: {life.type}, {size(life.bytes)}, dispatches {life.first} to {life.last}"
    return (
        f'<rect x="{life.first * step:.2f}" y="{top:.2f}" '
        f'width="{(life.last - life.first + 1) * step:.2f}" height="{height:.2f}">'
        f"<title>{escape(label)}</title></rect>"
    )


def _memory_in_words(explanation: ExplanationData) -> str:
    temporaries = [b for b in explanation.buffers if b.kind == "temporary"]
    said = "There are no temporaries."
    if any(b.bytes is None for b in temporaries):
        said = f"{len(temporaries)} temporaries, whose sizes are known only when it runs."
    return f"<h2>Memory over the run</h2><p>{said} {_others(explanation)}</p>"


def _others(explanation: ExplanationData) -> str:
    """The buffers that live throughout, by kind; those that functions share are counted once."""
    parts: list[str] = []
    for kind in ("weight", "state", "input", "output"):
        buffers = {b.name: b for b in explanation.buffers if b.kind == kind}
        if not buffers:
            continue
        known = [b.bytes for b in buffers.values() if b.bytes is not None]
        open_sizes = " and what is known only when it runs" if len(known) < len(buffers) else ""
        named = f"{len(buffers)} {kind}s" if len(buffers) > 1 else f"1 {kind}"
        parts.append(f"{named} of {size(sum(known))}{open_sizes}")
    return f"Beside them, for the whole run: {', '.join(parts)}." if parts else ""
