"""
An explanation as one self-contained page: the graph, bars of time, the reasons, the nodes.

The picture is in the order of execution: a row for each dispatch, edges from who writes a buffer to
who reads it at the left, bars of what it takes at the right. All bars have one linear scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from xdsl_spirv.tools.advice import advice_of
from xdsl_spirv.tools.explain_text import duration, nodes_text, ranges, size, tile_of, totals, work
from xdsl_spirv.tools.explanation import ExplainedLayer, Explanation
from xdsl_spirv.tools.page import page

COLOURS = {
    COOPERATIVE_MATRIX: "#2f7d4f",
    ATTENTION: "#0f766e",
    ROTATE: "#2b6cb0",
    ROWS: "#1d8aa8",
    DOT: "#7b4fb5",
    FMA: "#c27a1a",
    LOOPS: "#7a8794",
    PACK: "#b0b8c0",
}
MEASURED = "#c0392b"

ROW, LANE, BOX, LABEL, BARS = 24, 9, 132, 380, 420
"""Pixels: a row's height, a lane for edges, a box, a row's label, and the longest bar."""


def page_of(explanation: Explanation) -> str:
    """The page."""
    parts = [_head(explanation)]
    if explanation.layers:
        parts += [
            _legend(explanation),
            _picture(explanation),
            _reasons(explanation),
            _details(explanation),
        ]
    parts.append(_coverage(explanation))
    return page(f"{explanation.model} on {explanation.target}", "".join(parts))


def _head(explanation: Explanation) -> str:
    lines = [
        f"<h1>{escape(explanation.model)} on {escape(explanation.target)}</h1>",
        f'<p class="soft">numbers of the target: {escape(explanation.provenance)}</p>',
    ]
    lines += [f'<p class="bad"><b>Not supported:</b> {escape(r)}</p>' for r in explanation.refusals]
    if explanation.layers:
        lines += [
            f"<p>{len(explanation.layers)} dispatches of {explanation.kernels} kernels, "
            f"{explanation.binary_bytes:,} bytes of SPIR-V. "
            f"{escape(totals(explanation).capitalize())}.</p>",
            f"<p>Weights {size(explanation.weight_bytes)}; temporaries "
            f"{size(explanation.memory_bytes)} at the peak instead of "
            f"{size(explanation.temporary_bytes)}.</p>",
            *(f"<p><b>Advice:</b> {escape(said)}.</p>" for said in advice_of(explanation)),
        ]
    return "".join(lines)


def _legend(explanation: Explanation) -> str:
    keys = [
        f'<span class="key" style="background:{COLOURS.get(path, "#888")}"></span>'
        f"{count} {escape(path)}"
        for path, count in explanation.paths.most_common()
    ]
    what, _, _ = _bars(explanation)
    if _compares(explanation):
        keys.append(f'<span class="key" style="background:{MEASURED}"></span>measured')
    return f"<h2>Layers</h2><p>{''.join(keys)} &emsp; bars: {escape(what)}</p>"


Figure = Callable[[ExplainedLayer], float | None]


def _bars(explanation: Explanation) -> tuple[str, Figure, Callable[[float | None], str]]:
    """What the bars show: the roofline where there is one, else times, else work."""
    if explanation.device is not None and not _compares(explanation):
        return f"time on {explanation.device}", lambda entry: entry.measured_seconds, duration
    if any(entry.roofline_seconds for entry in explanation.layers):
        return "roofline time", lambda entry: entry.roofline_seconds, duration

    def shown(value: float | None) -> str:
        return work(None if value is None else int(value))

    return "scalar operations", lambda entry: entry.layer.operations, shown


def _compares(explanation: Explanation) -> bool:
    """Whether there are times that a roofline says something of."""
    there = any(entry.roofline_seconds for entry in explanation.layers)
    return there and (explanation.device or "").startswith("vulkan")


def _picture(explanation: Explanation) -> str:
    lanes = _lanes(explanation.layers)
    gutter = (max((lane for *_, lane in lanes), default=0) + 2) * LANE
    _, figure, shown = _bars(explanation)
    both = _compares(explanation)
    values = [figure(entry) or 0.0 for entry in explanation.layers]
    if both:
        values += [entry.measured_seconds or 0.0 for entry in explanation.layers]
    scale = BARS / (max(values) or 1.0)
    rows = [_edge(*edge, gutter) for edge in lanes]
    for row, entry in enumerate(explanation.layers):
        rows.append(_row(entry, row, gutter, figure, shown, scale, both))
    width = gutter + BOX + LABEL + BARS + 100
    height = ROW * len(explanation.layers) + 8
    return (
        f'<div class="scroll"><svg width="{width}" height="{height}" role="img" '
        f'aria-label="the graph of dispatches">{"".join(rows)}</svg></div>'
    )


def _lanes(layers: Sequence[ExplainedLayer]) -> list[tuple[int, int, int]]:
    """Edges (from, to, lane): lane 0 goes straight down, others pass what lies between."""
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
        ends[lane : lane + 1] = [end]
        edges_in_lanes.append((start, end, lane + 1))
    return edges_in_lanes


def _edge(start: int, end: int, lane: int, gutter: int) -> str:
    top, bottom = start * ROW + ROW // 2 + 4, end * ROW + ROW // 2 + 4
    if lane == 0:
        x = gutter + 12
        return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="var(--soft)"/>'
    x = gutter - lane * LANE
    return (
        f'<path d="M{gutter} {top} H{x + 4} Q{x} {top} {x} {top + 4} V{bottom - 4} '
        f'Q{x} {bottom} {x + 4} {bottom} H{gutter}" fill="none" stroke="var(--soft)"/>'
    )


def _row(
    entry: ExplainedLayer,
    row: int,
    gutter: int,
    figure: Figure,
    shown: Callable[[float | None], str],
    scale: float,
    both: bool,
) -> str:
    y = row * ROW + 4
    layer, colour = entry.layer, COLOURS.get(entry.layer.path, "#888")
    label = nodes_text(entry) or entry.kernel
    cut = label if len(label) < 56 else label[:53] + "..."
    value = figure(entry)
    left = gutter + BOX + LABEL
    length = (value or 0.0) * scale
    parts = [
        f'<a href="#layer-{entry.dispatch}"><title>{escape(label)}\n{escape(layer.computes)}\n'
        f"{escape(layer.why)}</title>",
        f'<rect x="{gutter}" y="{y + 1}" width="{BOX - 8}" height="{ROW - 5}" rx="3" '
        f'fill="{colour}"/>',
        f'<text x="{gutter + 6}" y="{y + 14}" style="fill:#fff">{entry.dispatch} '
        f"{escape(layer.path)}</text></a>",
        f'<text x="{gutter + BOX}" y="{y + 14}">{escape(cut)}</text>',
    ]
    top, height = (y + 2, 8) if both else (y + 3, ROW - 9)
    parts.append(
        f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{height}" fill="{colour}"/>'
    )
    text, end = shown(value), length
    if both:
        taken = (entry.measured_seconds or 0.0) * scale
        parts.append(
            f'<rect x="{left}" y="{y + 11}" width="{taken:.1f}" height="8" fill="{MEASURED}"/>'
        )
        text, end = f"{text} / {duration(entry.measured_seconds)}", max(length, taken)
    parts.append(f'<text class="soft" x="{left + end + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
    return "".join(parts)


def _reasons(explanation: Explanation) -> str:
    """Every reason once."""
    groups: dict[tuple[bool, str, str], list[int]] = {}
    for entry in explanation.layers:
        for c in entry.layer.considered:
            groups.setdefault((c.taken, c.path, c.reason), []).append(entry.dispatch)
    rows = [
        f"<tr><td>{'taken' if taken else 'not taken'}</td><td>{escape(path)}</td>"
        f"<td>{escape(reason)}</td><td>{ranges(numbers)}</td></tr>"
        for (taken, path, reason), numbers in sorted(groups.items(), key=lambda g: g[0][0])
    ]
    return (
        "<h2>Why these paths</h2><table><tr><th></th><th>path</th><th>reason</th>"
        f"<th>layers</th></tr>{''.join(rows)}</table>"
    )


def _details(explanation: Explanation) -> str:
    head = ("#", "nodes", "computes", "kernel", "tile", "grid", "FLOP", "moved", "roofline", "by")
    cells = "".join(f"<th>{name}</th>" for name in head)
    measured = "<th>measured</th>" if explanation.device is not None else ""
    rows = [_detail(entry, explanation.device is not None) for entry in explanation.layers]
    return (
        f'<h2>Details</h2><div class="scroll"><table><tr>{cells}{measured}</tr>'
        f"{''.join(rows)}</table></div>"
    )


def _detail(entry: ExplainedLayer, measured: bool) -> str:
    layer = entry.layer
    why = f'<br><span class="soft">{escape(layer.why)}</span>' if layer.why else ""
    shown = [
        f"{entry.dispatch}{' (once)' if entry.once else ''}",
        escape(nodes_text(entry)),
        f"<b>{escape(layer.path)}</b>: {escape(layer.computes)}{why}",
        f"<code>{escape(entry.kernel)}</code>",
        f'<span title="{escape(layer.schedule)}">{escape(tile_of(layer.schedule))}</span>',
        "x".join(map(str, entry.grid)),
        "?" if layer.operations is None else f"{layer.operations:,}",
        size(layer.bytes),
        duration(entry.roofline_seconds),
        entry.limit,
    ]
    shown += [duration(entry.measured_seconds)] * measured
    cells = "".join(f"<td>{text}</td>" for text in shown)
    return f'<tr id="layer-{entry.dispatch}">{cells}</tr>'


def _coverage(explanation: Explanation) -> str:
    if not explanation.nodes:
        return ""
    rows = [
        f"<tr{_bad(node.status)}><td>{escape(node.node)}</td><td>{escape(node.operator)}</td>"
        f"<td>{node.status}</td><td>{', '.join(map(str, node.dispatches))}</td>"
        f"<td>{escape(node.reason or '')}</td></tr>"
        for node in explanation.nodes
        if node.operator != "Constant" or node.status == "not supported"
    ]
    constants = len(explanation.nodes) - len(rows)
    note = f'<p class="soft">{constants} constants are left out.</p>' if constants else ""
    return (
        f"<h2>Nodes</h2>{note}<table><tr><th>node</th><th>operator</th><th>becomes</th>"
        f"<th>layers</th><th>reason</th></tr>{''.join(rows)}</table>"
    )


def _bad(status: str) -> str:
    return ' class="bad"' if status == "not supported" else ""
