"""
An explanation as one self-contained page: figures, the run over time, its memory, layers, nodes.

Layers stand in the order of execution: a row for each dispatch, edges from the writer of a buffer
to its readers at the left, bars of the cost at the right. All bars have one linear scale. The
reasons for a layer's path are in numbered notes, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from xdsl_spirv.tools.advice import advice_of
from xdsl_spirv.tools.explain_charts import COLOURS, colour, memory_chart, timeline
from xdsl_spirv.tools.explain_notes import Note, notes_by_dispatch, notes_of
from xdsl_spirv.tools.explain_phases import phases_chart
from xdsl_spirv.tools.explain_rows import Row, rows_of
from xdsl_spirv.tools.explain_text import (
    WIDEST,
    code_rows,
    duration,
    nodes_text,
    percent,
    ranges,
    run_seconds,
    shorten,
    size,
    tile_of,
    work,
)
from xdsl_spirv.tools.explanation_data import ExplainedLayer, ExplanationData
from xdsl_spirv.tools.page import figures, heading, page, table

ROW, LANE, LANES = 26, 8, 12
"""Pixels: a row's height and a lane for edges; lanes at most."""

UNFOLDED = 150
"""Number of layers up to which their list is open at first."""


def page_of(explanation: ExplanationData) -> str:
    """Returns the page of an explanation."""
    parts = [_head(explanation)]
    if explanation.layers:
        notes = notes_of(explanation.layers)
        parts += [
            timeline(explanation),
            phases_chart(explanation),
            memory_chart(explanation),
            _kernels(explanation),
            _layers(explanation, notes),
            _notes(notes),
            code_html(explanation),
            _details(explanation, notes),
        ]
    parts.append(_coverage(explanation))
    return page(
        f"{explanation.model} on {explanation.target}", "".join(parts), ("charts", "explain")
    )


def _head(explanation: ExplanationData) -> str:
    lines = [heading("", explanation.model, f" on {explanation.target}")]
    lines.append(f'<p class="soft">numbers of the target: {escape(explanation.provenance)}</p>')
    lines += [f'<p class="bad"><b>Not supported:</b> {escape(r)}</p>' for r in explanation.refusals]
    if explanation.layers:
        lines.append(figures(_figures(explanation)))
    for sentence in advice_of(explanation):
        said, _, command = sentence.rpartition(": ")
        lines.append(f'<p class="note">{escape(said)}:<code>{escape(command)}</code></p>')
    return "".join(lines)


def _figures(explanation: ExplanationData) -> list[tuple[str, str]]:
    layers = explanation.layers
    moved = [0 if entry.once else entry.layer.bytes for entry in layers]
    known = all(count is not None for count in moved)
    measured = [e.measured_seconds for e in layers if e.measured_seconds is not None]
    least = run_seconds(layers)
    return [
        ("dispatches", str(len(layers))),
        ("kernels", f"{explanation.kernels}, {size(explanation.binary_bytes)}"),
        ("work", work(sum(entry.layer.operations or 0 for entry in layers))),
        ("moved a run", size(sum(count or 0 for count in moved)) if known else ""),
        ("roofline", "" if least is None else duration(least)),
        ("measured", duration(sum(measured)) if measured else ""),
        ("weights", size(explanation.weight_bytes)),
        ("states", size(explanation.state_bytes) if explanation.state_bytes else ""),
        ("temporaries at the peak", _peak(explanation)),
    ]


def _peak(explanation: ExplanationData) -> str:
    if any(b.kind == "temporary" and b.bytes is None for b in explanation.buffers):
        return "known when it runs"
    if not explanation.temporary_bytes:
        return "none"
    return f"{size(explanation.memory_bytes)} of {size(explanation.temporary_bytes)}"


@dataclass(frozen=True)
class _Bars:
    """Figures of bars: the roofline where there is one, else times, else work; or two of them."""

    what: str
    figures: tuple[Callable[[ExplainedLayer], float | None], ...]
    shown: Callable[[float | None], str]


def _bars(explanation: ExplanationData) -> _Bars:
    def roofline(entry: ExplainedLayer) -> float | None:
        return entry.roofline_seconds

    def measured(entry: ExplainedLayer) -> float | None:
        return entry.measured_seconds

    if explanation.compares:
        what = f"roofline time, and below it what was measured on {explanation.device}"
        return _Bars(what, (roofline, measured), duration)
    if explanation.device is not None:
        return _Bars(f"time on {explanation.device}", (measured,), duration)
    if any(entry.roofline_seconds for entry in explanation.layers):
        return _Bars("roofline time", (roofline,), duration)
    return _Bars(
        "scalar operations",
        (lambda entry: entry.layer.operations,),
        lambda value: work(None if value is None else int(value)),
    )


def code_html(explanation: ExplanationData) -> str:
    """The drivers' code of the kernels, side by side; empty if no driver was asked."""
    if not explanation.code:
        return ""
    head, *rows = code_rows(explanation.code)
    said = ", ".join(dict.fromkeys(code.driver for code in explanation.code))
    errors = [f"{c.driver} has no code of {c.kernel}: {c.error}" for c in explanation.code]
    bad = [escape(text) for text, c in zip(errors, explanation.code, strict=True) if c.error]
    cells = [[escape(cell) for cell in row] for row in rows]
    lines = "".join(f'<p class="bad">{text}</p>' for text in bad)
    inner = table(list(head), cells, head[2:])
    return f'<h2>Machine code</h2><p class="soft">by {escape(said)}</p>{inner}{lines}'


def _kernels(explanation: ExplanationData) -> str:
    """The kernels by the cost of all their dispatches, where some have several."""
    rows = rows_of(explanation, "share", group=True)
    if len(rows) in (1, len(explanation.layers)):
        return ""
    shares = any(row.share is not None for row in rows)
    head = ["kernel", "path", "times", "work", *["share"] * shares, "layers"]
    cells = [_kernel(row, shares) for row in rows]
    inner = table(head, cells, ("times", "work", "share"))
    return f"<h2>Kernels</h2><details><summary>{len(rows)} kinds</summary>{inner}</details>"


def _kernel(row: Row, shares: bool) -> list[str]:
    return [
        f"<code>{escape(row.first.kernel)}</code>",
        _chip(row.first, row.first.layer.path),
        str(len(row.layers)),
        work(row.operations),
        *([percent(row.share)] if shares else []),
        escape(shorten(ranges([entry.dispatch for entry in row.layers]))),
    ]


def _layers(explanation: ExplanationData, notes: Sequence[Note]) -> str:
    bars = _bars(explanation)
    keys = "".join(
        f'<span class="item"><span class="key" style="background:{COLOURS.get(path, "#888")}">'
        f"</span>{count} {escape(path)}</span>"
        for path, count in explanation.paths.most_common()
    )
    values = [figure(e) or 0.0 for e in explanation.layers for figure in bars.figures]
    scale = 100 / (max(values, default=0.0) or 1.0)
    numbered = notes_by_dispatch(notes)
    rows = "".join(
        _layer(entry, bars, scale, numbered.get(entry.dispatch, ())) for entry in explanation.layers
    )
    edges = _lanes(explanation.layers)
    gutter = (max((lane for *_, lane in edges), default=0) + 2) * LANE
    height = ROW * len(explanation.layers)
    lines = "".join(_edge(*edge, gutter) for edge in edges)
    picture = f'<svg width="{gutter}" height="{height}" aria-hidden="true">{lines}</svg>'
    mark = " open" if len(explanation.layers) <= UNFOLDED else ""
    return (
        f'<h2>Layers</h2><p class="keys">{keys}<span class="item">bars: {escape(bars.what)}</span>'
        f"</p><details{mark}><summary>{len(explanation.layers)} dispatches, as they run</summary>"
        f'<div class="layers" style="padding-left:{gutter}px">{picture}{rows}</div></details>'
    )


def _chip(entry: ExplainedLayer, text: str) -> str:
    return (
        f'<a class="chip" style="background:{colour(entry)}" href="#layer-{entry.dispatch}">'
        f"{escape(text)}</a>"
    )


def _layer(entry: ExplainedLayer, bars: _Bars, scale: float, notes: Sequence[int]) -> str:
    label = nodes_text(entry) or entry.kernel
    values = [figure(entry) for figure in bars.figures]
    colours = [colour(entry), "var(--measured)"]
    boxes = "".join(
        f'<i style="width:{(value or 0.0) * scale:.2f}%;background:{shade}"></i>'
        for value, shade in zip(values, colours, strict=False)
    )
    text = " / ".join(bars.shown(value) for value in values)
    two = " two" if len(values) > 1 else ""
    return (
        f'<div class="layer">{_chip(entry, f"{entry.dispatch} {entry.layer.path}")}'
        f'<span class="nodes" title="{escape(f"{label}: {entry.layer.computes}")}">'
        f'{escape(label)}</span><span class="notes">{_links(notes)}</span>'
        f'<span class="bars{two}"><span>{boxes}</span><small>{escape(text)}</small></span></div>'
    )


def _links(notes: Sequence[int]) -> str:
    return " ".join(f'<a href="#note-{number}">{number}</a>' for number in notes)


def _lanes(layers: Sequence[ExplainedLayer]) -> list[tuple[int, int, int]]:
    """
    Edges (from, to, lane): lane 0 is straight down, others pass the layers between.

    Edges without a free lane are dropped: a value that all layers read is not informative.
    """
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


def _edge(start: int, end: int, lane: int, gutter: int) -> str:
    top, bottom = start * ROW + ROW // 2, end * ROW + ROW // 2
    if lane == 0:
        x = gutter - 4
        return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="var(--soft)"/>'
    x = gutter - 4 - lane * LANE
    return (
        f'<path d="M{gutter} {top} H{x + 4} Q{x} {top} {x} {top + 4} V{bottom - 4} '
        f'Q{x} {bottom} {x + 4} {bottom} H{gutter}" fill="none" stroke="var(--soft)"/>'
    )


def _notes(notes: Sequence[Note]) -> str:
    items = "".join(
        f'<li id="note-{note.number}"><b>{"" if note.taken else "not "}{escape(note.path)}</b>: '
        f'{escape(note.reason)} <span class="soft" title="{escape(ranges(note.dispatches))}">'
        f"{_layer_numbers(note)}</span></li>"
        for note in notes
    )
    return f'<h2>Why these paths</h2><ol class="notes">{items}</ol>' if items else ""


def _layer_numbers(note: Note) -> str:
    """The numbers of layers, in few words."""
    numbers = ranges(note.dispatches)
    few = len(numbers) < WIDEST
    return f"layers {numbers}" if few else f"{len(note.dispatches)} layers"


DETAILS = ("#", "nodes", "computes", "kernel", "tile", "grid", "FLOP", "moved", "roofline", "by")


def _details(explanation: ExplanationData, notes: Sequence[Note]) -> str:
    measured = explanation.device is not None
    head = "".join(f"<th>{name}</th>" for name in DETAILS)
    head += "<th>measured</th>" * measured + "<th>why</th>"
    numbered = notes_by_dispatch(notes)
    rows = "".join(
        _detail(entry, measured, numbered.get(entry.dispatch, ())) for entry in explanation.layers
    )
    return (
        "<h2>Details</h2><details><summary>every number of each layer</summary>"
        f'<div class="scroll"><table><tr>{head}</tr>{rows}</table></div></details>'
    )


def _detail(entry: ExplainedLayer, measured: bool, notes: Sequence[int]) -> str:
    layer = entry.layer
    shown = [
        f"{entry.dispatch}{' (once)' if entry.once else ''}",
        escape(nodes_text(entry)),
        f"<b>{escape(layer.path)}</b>: {escape(layer.computes)}",
        f"<code>{escape(entry.kernel)}</code>",
        f'<span title="{escape(layer.schedule)}">{escape(tile_of(layer.schedule))}</span>',
        escape("x".join(map(str, entry.grid))),
        "?" if layer.operations is None else f"{layer.operations:,}",
        size(layer.bytes),
        duration(entry.roofline_seconds),
        escape(entry.limit),
        *([duration(entry.measured_seconds)] if measured else []),
        _links(notes),
    ]
    cells = "".join(f"<td>{text}</td>" for text in shown)
    return f'<tr id="layer-{entry.dispatch}">{cells}</tr>'


def _coverage(explanation: ExplanationData) -> str:
    if not explanation.nodes:
        return ""
    shown = [n for n in explanation.nodes if n.operator != "Constant" or n.status == NO]
    rows = [
        (
            escape(node.node),
            escape(node.operator),
            f'<span class="bad">{NO}</span>' if node.status == NO else node.status,
            ", ".join(f'<a href="#layer-{d}">{d}</a>' for d in node.dispatches),
            escape(node.reason or ""),
        )
        for node in shown
    ]
    constants = len(explanation.nodes) - len(rows)
    note = f'<p class="soft">{constants} constants are left out.</p>' if constants else ""
    mark = "" if explanation.supported else " open"
    body = table(("node", "operator", "becomes", "layers", "reason"), rows)
    return (
        f"<h2>Nodes</h2>{note}<details{mark}><summary>{len(rows)} nodes and what becomes of them"
        f"</summary>{body}</details>"
    )


NO = "not supported"
