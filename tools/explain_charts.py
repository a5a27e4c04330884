"""
Draws the charts of an explanation: the run over time, and its memory over dispatches. They scale to
any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from xdsl_spirv.tools.lifetimes import in_use

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
"""Width of a chart in its own units, which are stretched to the window's width."""


SEEN = 1 / 20
"""Runs shorter than this share of the longest one get their own scale."""

Run = tuple[str, Sequence[ExplainedLayer], Sequence[float]]
"""Name of a run, its dispatches, and the seconds of each."""


@dataclass(frozen=True)
class Box:
    """A stretch of time, in units of the chart's width; `dispatch` is the layer it links to."""

    start: float
    width: float
    fill: str
    label: str
    dispatch: int | None


@dataclass(frozen=True)
class Strip:
    """One run: its name, a note on its length, and its boxes."""

    name: str
    note: str
    boxes: Sequence[Box]


@dataclass(frozen=True)
class RunChart:
    """Runs one below the other on a scale of `longest` seconds."""

    strips: Sequence[Strip]
    longest: float
    label: str
    width: int = WIDTH

    @property
    def ticks(self) -> list[float]:
        """The seconds at the quarters of the scale."""
        return [self.longest * i / 4 for i in range(1, 5)]


def timeline(explanation: ExplanationData) -> RunChart | None:
    """Draws the dispatches of a run over time, as measured and by the roofline, on one scale."""
    layers = explanation.layers
    runs: list[Run] = []
    if explanation.device is not None:
        name = f"measured on {explanation.device}"
        runs.append((name, layers, run_times(layers, measured=True)))
    # Times of the interpreter and of a device are not comparable, so they share no scale.
    if explanation.device is None or explanation.compares:
        runs.append(("lower bound, by the roofline", layers, run_times(layers, measured=False)))
    return chart_runs(runs, linked=True)


def chart_runs(runs: Sequence[Run], linked: bool) -> RunChart | None:
    """
    Returns a chart of runs over time on one scale; None where no time is known.

    A run that would be too short to see gets its own scale, and a note.
    """
    longest = max((sum(seconds) for *_, seconds in runs), default=0.0)
    if not longest:
        return None
    strips: list[Strip] = []
    for name, layers, seconds in runs:
        whole = sum(seconds)
        own = whole < longest * SEEN
        note = f"{duration(whole)}{', on a scale of its own' if own else ''}"
        boxes = _boxes(layers, seconds, whole if own else longest, linked)
        strips.append(Strip(name, note, boxes))
    return RunChart(strips, longest, "dispatches over time")


def _boxes(
    layers: Sequence[ExplainedLayer], seconds: Sequence[float], longest: float, linked: bool
) -> list[Box]:
    boxes: list[Box] = []
    start = 0.0
    for entry, time in zip(layers, seconds, strict=True):
        width = time / longest * WIDTH if longest else 0.0
        if width:
            label = f"{entry.dispatch}: {shorten(nodes_text(entry))}, {duration(time)}"
            dispatch = entry.dispatch if linked else None
            boxes.append(Box(start, width, colour(entry.layer.path), label, dispatch))
        start += width
    return boxes


def colour(path: str) -> str:
    """Returns the colour of the layers that take a path."""
    return COLOURS.get(path, "#888")


@dataclass(frozen=True)
class MemoryChart:
    """Temporaries as boxes (left, top, width, height, label), and a line: the memory in use."""

    boxes: Sequence[tuple[float, float, float, float, str]]
    points: Sequence[tuple[float, float]]
    whole: int
    """Bytes of the chart's height."""
    most: int
    """Bytes in use at the peak."""
    peak: int
    """The dispatch of the peak."""
    width: int = WIDTH


def memory_chart(explanation: ExplanationData) -> MemoryChart | None:
    """
    Returns where temporaries lie in memory and for how long, and how much is in use at each
    dispatch; None where there are none or their sizes are not known.
    """
    count = len(explanation.layers)
    used = in_use(explanation.buffers, count)
    placed = [b for b in explanation.buffers if b.offset is not None and b.bytes]
    whole = max([explanation.memory_bytes, *used], default=0)
    if not used or not placed or not whole:
        return None
    step = WIDTH / count
    boxes: list[tuple[float, float, float, float, str]] = []
    for life in placed:
        height = (life.bytes or 0) / whole * WIDTH
        top = WIDTH - (life.offset or 0) / whole * WIDTH - height
        lives = f"dispatches {life.first} to {life.last}"
        label = f"{life.name}: {life.type}, {size(life.bytes)}, {lives}"
        boxes.append((life.first * step, top, (life.last - life.first + 1) * step, height, label))
    points = [
        (x, WIDTH - level / whole * WIDTH)
        for number, level in enumerate(used)
        for x in (number * step, (number + 1) * step)
    ]
    return MemoryChart(boxes, points, whole, max(used), used.index(max(used)))


def describe_temporaries(explanation: ExplanationData) -> str:
    """Says in words why there is no chart of memory."""
    temporaries = [b for b in explanation.buffers if b.kind == "temporary"]
    if any(b.bytes is None for b in temporaries):
        return f"{len(temporaries)} temporaries, whose sizes are known only when it runs."
    return "There are no temporaries."


def describe_lasting_buffers(explanation: ExplanationData) -> str:
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
