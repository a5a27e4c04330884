"""
The common parts of self-contained pages: one file, no scripts from elsewhere, light and dark, any
width.

Contents wider than the window scroll in a `.scroll` box of their own, never the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path, PurePath

ASSETS = Path(__file__).parent / "assets"
"""Style sheets and scripts of pages."""


def page(title: str, body: str, styles: Iterable[str] = (), scripted: str = "") -> str:
    """Returns a whole HTML page, with style sheets and a script of `assets` by their names."""
    style = "".join((ASSETS / f"{name}.css").read_text() for name in ("page", *styles))
    script = (ASSETS / f"{scripted}.js").read_text() if scripted else ""
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_policy(script)}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body>{body}{code}</body></html>\n"
    )


def frame(whole: str, height: int) -> str:
    """A page in a frame, for notebooks; it scrolls beyond 900 pixels, and runs no scripts."""
    return (
        f'<iframe srcdoc="{escape(whole)}" sandbox '
        f'style="width:100%;height:{min(height, 900)}px;border:0"></iframe>'
    )


def _policy(script: str) -> str:
    """The resources that a browser may load: only the page's own styles and this script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = f"; script-src 'sha256-{digest}'" if script else ""
    return (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        f"'unsafe-inline'{own}; base-uri 'none'; form-action 'none'\">"
    )


def heading(before: str, path: str, after: str = "") -> str:
    """A page's heading: the name of a file, and below it the whole path where that says more."""
    name = PurePath(path).name or path
    whole = "" if name == path else f'<p class="path">{escape(path)}</p>'
    return f"<h1>{escape(f'{before}{name}{after}')}</h1>{whole}"


def figures(pairs: Iterable[tuple[str, str]]) -> str:
    """A row of figures, each under what it is of; those without a value are left out."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in pairs
        if value
    )
    return f'<dl class="figures">{items}</dl>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = ()) -> str:
    """A table of cells that are HTML already, in a box that scrolls; `numeric` columns by name."""
    marks = [' class="n"' if name in set(numeric) else "" for name in head]
    cells = "".join(f"<th{m}>{escape(n)}</th>" for n, m in zip(head, marks, strict=True))
    lines = [
        "<tr>" + "".join(f"<td{m}>{c}</td>" for c, m in zip(row, marks, strict=True)) + "</tr>"
        for row in rows
    ]
    return f'<div class="scroll"><table><tr>{cells}</tr>{"".join(lines)}</table></div>'
