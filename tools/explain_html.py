"""
Writes an explanation as one self-contained HTML page.

Each row of the table is a dispatch, in execution order. Edges on the left connect the writer of a
buffer to its readers. Bars on the right show the cost on one linear scale. Numbered notes give the
reasons for the lowering path of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl_spirv.tools.advice import advice_of
from xdsl_spirv.tools.explain_charts import (
    colour,
    describe_lasting_buffers,
    describe_temporaries,
    memory_chart,
    timeline,
)
from xdsl_spirv.tools.explain_notes import Note, notes_by_dispatch, notes_of
from xdsl_spirv.tools.explain_phases import phases_chart
from xdsl_spirv.tools.explain_rows import Row, rows_of
from xdsl_spirv.tools.explain_text import (
    WIDEST,
    code_rows,
    duration,
    ranges,
    run_seconds,
    size,
    total_work,
    work,
)
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.page import render_page

ROW, LANE, LANES = 26, 8, 12
"""Height of a row and width of a lane for edges, in pixels; largest number of lanes."""

UNFOLDED = 150
"""Largest number of layers for which the list is initially expanded."""

NO = "not supported"


def page_of(explanation: ExplanationData) -> str:
    """Returns the HTML page of an explanation."""
    layers = explanation.layers
    notes = notes_of(layers)
    code = code_rows(explanation.code) if explanation.code else []
    nodes = [n for n in explanation.nodes if n.operator != "Constant" or n.status == NO]
    edges = _lanes(layers)
    return render_page(
        "explain",
        f"{explanation.model} on {explanation.target}",
        ("charts", "explain"),
        advice=[sentence.rpartition(": ")[::2] for sentence in advice_of(explanation)],
        bars=_bars(explanation),
        code=code,
        code_drivers=", ".join(dict.fromkeys(code.driver for code in explanation.code)),
        colour=colour,
        edges=edges,
        explanation=explanation,
        figures=_figures(explanation) if layers else [],
        gutter=(max((lane for *_, lane in edges), default=0) + 2) * LANE,
        kernels=_kernels(explanation),
        lane=LANE,
        lasting=describe_lasting_buffers(explanation),
        layer_numbers=_layer_numbers,
        memory=memory_chart(explanation) if layers else None,
        no=NO,
        nodes=nodes,
        notes=notes,
        notes_by_dispatch=notes_by_dispatch(notes),
        phases=phases_chart(explanation) if layers else None,
        row=ROW,
        temporaries=describe_temporaries(explanation),
        timeline=timeline(explanation) if layers else None,
        unfolded=UNFOLDED,
    )


def _figures(explanation: ExplanationData) -> list[tuple[str, str]]:
    layers = explanation.layers
    moved = [0 if entry.once else entry.layer.bytes for entry in layers]
    known = all(count is not None for count in moved)
    measured = [e.measured_seconds for e in layers if e.measured_seconds is not None]
    least = run_seconds(layers)
    return [
        ("dispatches", str(len(layers))),
        ("kernels", f"{explanation.kernels}, {size(explanation.binary_bytes)}"),
        ("work", total_work(layers)),
        ("moved a run", size(sum(count or 0 for count in moved)) if known else ""),
        ("roofline", "" if least is None else duration(least)),
        ("measured", duration(sum(measured)) if measured else ""),
        ("weights", size(explanation.weight_bytes)),
        ("states", size(explanation.state_bytes) if explanation.state_bytes else ""),
        ("temporaries at the peak", _peak(explanation)),
    ]


def _peak(explanation: ExplanationData) -> str:
    if any(b.kind == "temporary" and b.bytes is None for b in explanation.buffers):
        return "known at run time"
    if not explanation.temporary_bytes:
        return "none"
    return f"{size(explanation.memory_bytes)} of {size(explanation.temporary_bytes)}"


@dataclass(frozen=True)
class _Bars:
    """Values of the bars: roofline times and measured times if known, else scalar operations."""

    what: str
    figures: tuple[Callable[[ExplainedLayer], float | None], ...]
    format: Callable[[float | None], str]
    longest: float

    def measure(self, entry: ExplainedLayer) -> tuple[list[float], str]:
        """Returns the lengths of a layer's bars, in percent of the longest bar, and their label."""
        values = [figure(entry) for figure in self.figures]
        text = " / ".join(self.format(value) for value in values)
        return [100 * (value or 0.0) / self.longest for value in values], text


def _bars(explanation: ExplanationData) -> _Bars:
    def roofline(entry: ExplainedLayer) -> float | None:
        return entry.roofline_seconds

    def measured(entry: ExplainedLayer) -> float | None:
        return entry.measured_seconds

    def operations(entry: ExplainedLayer) -> float | None:
        return entry.layer.operations

    def bars(what: str, *figures: Callable[[ExplainedLayer], float | None]) -> _Bars:
        values = [figure(entry) or 0.0 for entry in explanation.layers for figure in figures]
        written = _format_work if operations in figures else duration
        return _Bars(what, figures, written, max(values, default=0.0) or 1.0)

    if explanation.compares:
        what = f"roofline time, and below it what was measured on {explanation.device}"
        return bars(what, roofline, measured)
    if explanation.device is not None:
        return bars(f"time on {explanation.device}", measured)
    if any(entry.roofline_seconds for entry in explanation.layers):
        return bars("roofline time", roofline)
    return bars("scalar operations", operations)


def _format_work(operations: float | None) -> str:
    return work(None if operations is None else int(operations))


def _kernels(explanation: ExplanationData) -> list[Row]:
    """
    Returns a row for each kernel, sorted by cost. Returns no rows if each kernel has only one
    dispatch.
    """
    rows = rows_of(explanation, "share", group=True)
    return [] if len(rows) in (1, len(explanation.layers)) else rows


def _lanes(layers: Sequence[ExplainedLayer]) -> list[tuple[int, int, int]]:
    """Returns the edges (from, to, lane) for which a lane is free; adjacent layers have lane 0."""
    writer: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    for number, entry in enumerate(layers):
        edges += [(writer[name], number) for name in dict.fromkeys(entry.reads) if name in writer]
        writer |= dict.fromkeys(entry.writes, number)
    edges_in_lanes: list[tuple[int, int, int]] = []
    ends: list[int] = []
    for start, end in sorted(set(edges)):
        if end == start + 1:
            edges_in_lanes.append((start, end, 0))
            continue
        lane = next((i for i, busy in enumerate(ends) if busy <= start), len(ends))
        if lane == LANES:
            continue
        ends[lane : lane + 1] = [end]
        edges_in_lanes.append((start, end, lane + 1))
    return edges_in_lanes


def _layer_numbers(note: Note) -> str:
    """Lists the indices of the layers to which a note applies."""
    numbers = ranges(note.dispatches)
    few = len(numbers) < WIDEST
    return f"layers {numbers}" if few else f"{len(note.dispatches)} layers"
