"""Computes the charts of an explanation: runs over time, and memory over dispatches."""

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
"""Width of a chart in abstract units. A browser scales the chart to the window."""


SEEN = 1 / 20
"""Fraction of the longest run's time below which a run gets its own time scale."""

Run = tuple[str, Sequence[ExplainedLayer], Sequence[float]]
"""Name of a run, its dispatches, and the time of each dispatch in seconds."""


@dataclass(frozen=True)
class Box:
    """An interval of time, in units of the chart's width. It links to the layer `dispatch`."""

    start: float
    width: float
    fill: str
    label: str
    dispatch: int | None


@dataclass(frozen=True)
class Strip:
    """One run of a chart: its name, a note about its duration, and its boxes."""

    name: str
    note: str
    boxes: Sequence[Box]


@dataclass(frozen=True)
class RunChart:
    """A chart of runs, one below the other; `longest` is the longest duration in seconds."""

    strips: Sequence[Strip]
    longest: float
    label: str
    width: int = WIDTH

    @property
    def ticks(self) -> list[float]:
        """Returns the times at the quarters of the scale, in seconds."""
        return [self.longest * i / 4 for i in range(1, 5)]


def timeline(explanation: ExplanationData) -> RunChart | None:
    """Returns a chart of dispatches over time: a run as measured and a run by the roofline."""
    layers = explanation.layers
    runs: list[Run] = []
    if explanation.device is not None:
        name = f"measured on {explanation.device}"
        runs.append((name, layers, run_times(layers, measured=True)))
    # Times of the interpreter and of a device are not comparable.
    if explanation.device is None or explanation.compares:
        runs.append(("lower bound, by the roofline", layers, run_times(layers, measured=False)))
    return chart_runs(runs, linked=True)


def chart_runs(runs: Sequence[Run], linked: bool) -> RunChart | None:
    """
    Returns a chart of runs on a common time scale, or None if no time is known.

    Runs that would be too short to see get their own scale and a note. If `linked`, the boxes link
    to the layers of the page.
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
    """Returns the colour of a lowering path."""
    return COLOURS.get(path, "#888")


@dataclass(frozen=True)
class MemoryChart:
    """
    A chart of memory: boxes (left, top, width, height, label) of temporaries, and points of the
    line that shows the bytes in use.
    """

    boxes: Sequence[tuple[float, float, float, float, str]]
    points: Sequence[tuple[float, float]]
    whole: int
    """Memory at the top of the chart, in bytes."""
    most: int
    """Memory in use at the peak, in bytes."""
    peak: int
    """Index of the dispatch at the peak."""
    width: int = WIDTH


def memory_chart(explanation: ExplanationData) -> MemoryChart | None:
    """
    Returns a chart of the offsets and live ranges of temporaries, with the memory in use.

    Returns None if there are no temporaries or their sizes are unknown.
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
    """Explains why there is no chart of memory."""
    temporaries = [b for b in explanation.buffers if b.kind == "temporary"]
    if any(b.bytes is None for b in temporaries):
        return f"{len(temporaries)} temporaries, whose sizes are known only at run time."
    return "There are no temporaries."


def describe_lasting_buffers(explanation: ExplanationData) -> str:
    """Lists the weights, states, inputs and outputs; a buffer that functions share counts once."""
    parts: list[str] = []
    for kind in ("weight", "state", "input", "output"):
        buffers = {b.name: b for b in explanation.buffers if b.kind == kind}
        if not buffers:
            continue
        known = [b.bytes for b in buffers.values() if b.bytes is not None]
        open_sizes = " and sizes known only at run time" if len(known) < len(buffers) else ""
        named = f"{len(buffers)} {kind}s" if len(buffers) > 1 else f"1 {kind}"
        parts.append(f"{named} of {size(sum(known))}{open_sizes}")
    return f"Other buffers, used for the whole run: {', '.join(parts)}." if parts else ""
