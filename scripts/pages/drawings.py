"""
Draws mermaid blocks of a page as SVG pictures, so that no page needs a script.

The module reads `graph TD` with the edges `a --> b` and `a -- label --> b`. A node is a name. One
of its uses may give a text, `a["text"]`, with `<br>` between lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

BLOCK = re.compile(r"^```mermaid\ngraph TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r'^\s*(\w+)(?:\["(.+?)"\])?(?: -- (.+?))? --> (\w+)(?:\["(.+?)"\])?$')

LETTER, LINE_HEIGHT, PADDING = 7.4, 18, 12
GAP_X, GAP_Y = 28, 46


@dataclass(frozen=True)
class Graph:
    """Nodes with their texts, and edges with their labels."""

    texts: Mapping[str, str]
    edges: Mapping[tuple[str, str], str]


def drawn(markdown: str) -> str:
    """Returns the page with its mermaid blocks replaced by SVG."""
    return BLOCK.sub(lambda block: svg(parsed(block[1])), markdown)


def parsed(text: str) -> Graph:
    """Parses the graph of a block. Raises `ValueError` for a line that is not an edge."""
    texts: dict[str, str] = {}
    edges: dict[tuple[str, str], str] = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match is None:
            raise ValueError(f"this line of a mermaid block is not an edge: {line!r}")
        start, start_text, label, end, end_text = match.groups()
        for node, words in ((start, start_text), (end, end_text)):
            texts[node] = words or texts.get(node, node)
        edges[start, end] = label or ""
    return Graph(texts, edges)


def ranks(edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Returns each node's row: one below the lowest predecessor."""
    rank: dict[str, int] = defaultdict(int)
    for _ in edges:
        for start, end in edges:
            rank[end] = max(rank[end], rank[start] + 1)
    return dict(rank | {start: rank[start] for start, _ in edges})


def layers(graph: Graph) -> tuple[list[list[str]], list[tuple[str, str, tuple[str, str]]]]:
    """
    Returns the rows of nodes from left to right, and the parts of edges between adjacent rows.

    An edge across several rows passes through a node without text in each row between. Nodes are
    ordered by the mean position of their neighbours, downwards and upwards in turn.
    """
    rank = ranks(list(graph.edges))
    rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for node in graph.texts:
        rows[rank[node]].append(node)
    pieces: list[tuple[str, str, tuple[str, str]]] = []
    for start, end in graph.edges:
        last = start
        for row in range(rank[start] + 1, rank[end]):
            point = f"{start} {end} {row}"
            rows[row].append(point)
            pieces.append((last, point, (start, end)))
            last = point
        pieces.append((last, end, (start, end)))
    neighbours: dict[str, list[str]] = defaultdict(list)
    for upper, lower, _ in pieces:
        neighbours[upper].append(lower)
        neighbours[lower].append(upper)
    for _ in range(8):
        for row in (*rows, *reversed(rows)):
            place = {node: i / len(r) for r in rows for i, node in enumerate(r)}
            means = {n: sum(place[m] for m in neighbours[n]) / len(neighbours[n]) for n in row}
            row.sort(key=means.__getitem__)
    return rows, pieces


def svg(graph: Graph) -> str:
    """Returns the picture: centred rows from top to bottom, curved edges between them."""
    rows, pieces = layers(graph)
    size = {node: _size(graph.texts.get(node)) for row in rows for node in row}
    widths = [sum(size[n][0] for n in row) + GAP_X * (len(row) - 1) for row in rows]
    labels = [2 * (len(words) * LETTER + PADDING) for words in graph.edges.values()]
    width, top = max([*widths, *labels]) + 8, 4.0
    place: dict[str, tuple[float, float]] = {}
    for row, row_width in zip(rows, widths, strict=True):
        left, height = (width - row_width) / 2, max(size[n][1] for n in row)
        for node in row:
            place[node] = (left + size[node][0] / 2, top + height / 2)
            left += size[node][0] + GAP_X
        top += height + GAP_Y
    ends = set(graph.texts)
    lines = [_edge(place, size, upper, lower, lower in ends) for upper, lower, _ in pieces]
    words = [_label(place, edge, text) for edge, text in graph.edges.items() if text]
    boxes = [_box(*place[node], *size[node], text) for node, text in graph.texts.items()]
    return (
        f'<svg class="drawing" viewBox="0 0 {width:.0f} {top - GAP_Y + 4:.0f}" '
        f'style="max-width: {width:.0f}px" role="img">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        f"{''.join([*lines, *boxes, *words])}</svg>"
    )


def _size(text: str | None) -> tuple[float, float]:
    if text is None:
        return 2.0, 2.0
    lines = text.split("<br>")
    return max(map(len, lines)) * LETTER + 2 * PADDING, len(lines) * LINE_HEIGHT + PADDING


def _edge(
    place: Mapping[str, tuple[float, float]],
    size: Mapping[str, tuple[float, float]],
    upper: str,
    lower: str,
    arrow: bool,
) -> str:
    (x0, y0), (x1, y1) = place[upper], place[lower]
    y0, y1 = y0 + size[upper][1] / 2, y1 - size[lower][1] / 2
    middle = (y0 + y1) / 2
    tip = ' marker-end="url(#tip)"' if arrow else ""
    curve = f"M{x0:.1f} {y0:.1f} C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return f'<path class="edge" d="{curve}"{tip}/>'


def _label(place: Mapping[str, tuple[float, float]], edge: tuple[str, str], text: str) -> str:
    (x0, y0), (x1, y1) = place[edge[0]], place[edge[1]]
    x, y = (x0 + x1) / 2 + 8, (y0 + y1) / 2 + 4
    return f'<text class="label" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, text: str) -> str:
    lines = text.split("<br>")
    first = y - (len(lines) - 1) * LINE_HEIGHT / 2 + 5
    words = "".join(
        f'<text x="{x:.1f}" y="{first + i * LINE_HEIGHT:.1f}" text-anchor="middle">'
        f"{escape(line)}</text>"
        for i, line in enumerate(lines)
    )
    box = (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="4"/>'
    )
    return box + words
