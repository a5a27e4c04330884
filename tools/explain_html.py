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
)
from xdsl_spirv.tools.explain_text import duration, nodes_text, ranges, size, tile_of, totals
from xdsl_spirv.tools.explanation import ExplainedLayer, Explanation
from xdsl_spirv.tools.page import page

COLOURS = {
    COOPERATIVE_MATRIX: "#2f7d4f",
    ATTENTION: "#0f766e",
    ROTATE: "#2b6cb0",
    DOT: "#7b4fb5",
    FMA: "#c27a1a",
    LOOPS: "#7a8794",
    PACK: "#b0b8c0",
}
MEASURED = "#c0392b"

ROW, LANE, BOX, LABEL, BARS = 24, 9, 132, 380, 420
"""Pixels: a row's height, a lane for edges, a box, a row's label, and the longest bar."""


def page_of(found: Explanation) -> str:
    """The page."""
    parts = [_head(found)]
    if found.layers:
        parts += [_legend(found), _picture(found), _reasons(found), _details(found)]
    parts.append(_coverage(found))
    return page(f"{found.model} on {found.target}", "".join(parts))


def _head(found: Explanation) -> str:
    lines = [
        f"<h1>{escape(found.model)} on {escape(found.target)}</h1>",
        f'<p class="soft">numbers of the target: {escape(found.provenance)}</p>',
    ]
    lines += [f'<p class="bad"><b>Not supported:</b> {escape(r)}</p>' for r in found.refusals]
    if found.layers:
        lines += [
            f"<p>{len(found.layers)} dispatches of {found.kernels} kernels, "
            f"{found.binary_bytes:,} bytes of SPIR-V. {escape(totals(found).capitalize())}.</p>",
            f"<p>Weights {size(found.weight_bytes)}; temporaries {size(found.memory_bytes)} at the "
            f"peak instead of {size(found.temporary_bytes)}.</p>",
        ]
    return "".join(lines)


def _legend(found: Explanation) -> str:
    keys = [
        f'<span class="key" style="background:{COLOURS.get(path, "#888")}"></span>'
        f"{count} {escape(path)}"
        for path, count in found.paths.most_common()
    ]
    what, _, _ = _bars(found)
    if _compares(found):
        keys.append(f'<span class="key" style="background:{MEASURED}"></span>measured')
    return f"<h2>Layers</h2><p>{''.join(keys)} &emsp; bars: {escape(what)}</p>"


Figure = Callable[[ExplainedLayer], float | None]


def _bars(found: Explanation) -> tuple[str, Figure, Callable[[float | None], str]]:
    """What the bars show: the roofline where there is one, else times, else work."""
    if found.device is not None and not _compares(found):
        return f"time on {found.device}", lambda each: each.measured_seconds, duration
    if any(each.roofline_seconds for each in found.layers):
        return "roofline time", lambda each: each.roofline_seconds, duration

    def shown(value: float | None) -> str:
        return "?" if value is None else f"{value / 1e6:.3g} MFLOP"

    return "scalar operations", lambda each: each.layer.operations, shown


def _compares(found: Explanation) -> bool:
    """Whether there are times that a roofline says something of."""
    there = any(each.roofline_seconds for each in found.layers)
    return there and (found.device or "").startswith("vulkan")


def _picture(found: Explanation) -> str:
    lanes = _lanes(found.layers)
    gutter = (max((lane for *_, lane in lanes), default=0) + 2) * LANE
    _, figure, shown = _bars(found)
    both = _compares(found)
    values = [figure(each) or 0.0 for each in found.layers]
    if both:
        values += [each.measured_seconds or 0.0 for each in found.layers]
    scale = BARS / (max(values) or 1.0)
    rows = [_edge(*edge, gutter) for edge in lanes]
    for row, each in enumerate(found.layers):
        rows.append(_row(each, row, gutter, figure, shown, scale, both))
    width = gutter + BOX + LABEL + BARS + 100
    height = ROW * len(found.layers) + 8
    return (
        f'<div class="scroll"><svg width="{width}" height="{height}" role="img" '
        f'aria-label="the graph of dispatches">{"".join(rows)}</svg></div>'
    )


def _lanes(layers: Sequence[ExplainedLayer]) -> list[tuple[int, int, int]]:
    """Edges (from, to, lane): lane 0 goes straight down, others pass what lies between."""
    writer: dict[str, int] = {}
    edges: list[tuple[int, int]] = []
    for number, each in enumerate(layers):
        edges += [(writer[name], number) for name in dict.fromkeys(each.reads) if name in writer]
        writer |= dict.fromkeys(each.writes, number)
    found: list[tuple[int, int, int]] = []
    ends: list[int] = []
    for start, end in sorted(set(edges)):
        if end == start + 1:
            found.append((start, end, 0))
            continue
        lane = next((i for i, busy in enumerate(ends) if busy <= start), len(ends))
        ends[lane : lane + 1] = [end]
        found.append((start, end, lane + 1))
    return found


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
    each: ExplainedLayer,
    row: int,
    gutter: int,
    figure: Figure,
    shown: Callable[[float | None], str],
    scale: float,
    both: bool,
) -> str:
    y = row * ROW + 4
    layer, colour = each.layer, COLOURS.get(each.layer.path, "#888")
    label = nodes_text(each) or each.kernel
    cut = label if len(label) < 56 else label[:53] + "..."
    value = figure(each)
    left = gutter + BOX + LABEL
    length = (value or 0.0) * scale
    parts = [
        f'<a href="#layer-{each.dispatch}"><title>{escape(label)}\n{escape(layer.computes)}\n'
        f"{escape(layer.why)}</title>",
        f'<rect x="{gutter}" y="{y + 1}" width="{BOX - 8}" height="{ROW - 5}" rx="3" '
        f'fill="{colour}"/>',
        f'<text x="{gutter + 6}" y="{y + 14}" style="fill:#fff">{each.dispatch} '
        f"{escape(layer.path)}</text></a>",
        f'<text x="{gutter + BOX}" y="{y + 14}">{escape(cut)}</text>',
    ]
    top, height = (y + 2, 8) if both else (y + 3, ROW - 9)
    parts.append(
        f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{height}" fill="{colour}"/>'
    )
    text, end = shown(value), length
    if both:
        taken = (each.measured_seconds or 0.0) * scale
        parts.append(
            f'<rect x="{left}" y="{y + 11}" width="{taken:.1f}" height="8" fill="{MEASURED}"/>'
        )
        text, end = f"{text} / {duration(each.measured_seconds)}", max(length, taken)
    parts.append(f'<text class="soft" x="{left + end + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
    return "".join(parts)


def _reasons(found: Explanation) -> str:
    """Every reason once."""
    groups: dict[tuple[bool, str, str], list[int]] = {}
    for each in found.layers:
        for c in each.layer.considered:
            groups.setdefault((c.taken, c.path, c.reason), []).append(each.dispatch)
    rows = [
        f"<tr><td>{'taken' if taken else 'not taken'}</td><td>{escape(path)}</td>"
        f"<td>{escape(reason)}</td><td>{ranges(numbers)}</td></tr>"
        for (taken, path, reason), numbers in sorted(groups.items(), key=lambda g: g[0][0])
    ]
    return (
        "<h2>Why these paths</h2><table><tr><th></th><th>path</th><th>reason</th>"
        f"<th>layers</th></tr>{''.join(rows)}</table>"
    )


def _details(found: Explanation) -> str:
    head = ("#", "nodes", "computes", "kernel", "tile", "grid", "FLOP", "moved", "roofline", "by")
    cells = "".join(f"<th>{name}</th>" for name in head)
    measured = "<th>measured</th>" if found.device is not None else ""
    rows = [_detail(each, found.device is not None) for each in found.layers]
    return (
        f'<h2>Details</h2><div class="scroll"><table><tr>{cells}{measured}</tr>'
        f"{''.join(rows)}</table></div>"
    )


def _detail(each: ExplainedLayer, measured: bool) -> str:
    layer = each.layer
    why = f'<br><span class="soft">{escape(layer.why)}</span>' if layer.why else ""
    shown = [
        f"{each.dispatch}{' (once)' if each.once else ''}",
        escape(nodes_text(each)),
        f"<b>{escape(layer.path)}</b>: {escape(layer.computes)}{why}",
        f"<code>{escape(each.kernel)}</code>",
        f'<span title="{escape(layer.schedule)}">{escape(tile_of(layer.schedule))}</span>',
        "x".join(map(str, each.grid)),
        "?" if layer.operations is None else f"{layer.operations:,}",
        size(layer.bytes),
        duration(each.roofline_seconds),
        each.limit,
    ]
    shown += [duration(each.measured_seconds)] * measured
    cells = "".join(f"<td>{text}</td>" for text in shown)
    return f'<tr id="layer-{each.dispatch}">{cells}</tr>'


def _coverage(found: Explanation) -> str:
    if not found.nodes:
        return ""
    rows = [
        f"<tr{_bad(node.status)}><td>{escape(node.node)}</td><td>{escape(node.operator)}</td>"
        f"<td>{node.status}</td><td>{', '.join(map(str, node.dispatches))}</td>"
        f"<td>{escape(node.reason or '')}</td></tr>"
        for node in found.nodes
        if node.operator != "Constant" or node.status == "not supported"
    ]
    constants = len(found.nodes) - len(rows)
    note = f'<p class="soft">{constants} constants are left out.</p>' if constants else ""
    return (
        f"<h2>Nodes</h2>{note}<table><tr><th>node</th><th>operator</th><th>becomes</th>"
        f"<th>layers</th><th>reason</th></tr>{''.join(rows)}</table>"
    )


def _bad(status: str) -> str:
    return ' class="bad"' if status == "not supported" else ""
