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
from pathlib import PurePath

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5d6b7a; --line: #d5dce3; --page: #fff;
  --band: #f4f6f8; --link: #1d5fa8; --added: #dff3e4; --removed: #fbe3e4; --added-ink: #14532d;
  --removed-ink: #7f1d1d; --measured: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #98a5b3; --line: #3a444f;
  --page: #161b21; --band: #1e252d; --link: #7db4f0; --added: #14331f; --removed: #401a1d;
  --added-ink: #b7ecc6; --removed-ink: #f7c5c8; --measured: #e0695c; } }
* { box-sizing: border-box; }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 1.5rem auto; max-width: 1240px; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; line-height: 1.3; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; } p { margin: .3rem 0; } a { color: var(--link); }
.soft { color: var(--soft); } .bad { color: var(--removed-ink); } .n { text-align: right; }
.path { color: var(--soft); overflow-wrap: anywhere; }
code, pre { font: 12px/1.45 ui-monospace, monospace; } p code, li code { overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--soft);
  font-weight: 500; } td, th { padding: .2rem .6rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; max-width: 100%; } svg { display: block; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 0; }
.keys span.item { display: inline-block; margin-right: 1em; }
:target { background: var(--band); }
dl.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr));
  gap: .5rem; margin: 1rem 0; } dl.figures div { background: var(--band); border-radius: 6px;
  padding: .4rem .7rem; } dl.figures dt { color: var(--soft); font-size: 12px; }
dl.figures dd { margin: 0; font-size: 1.05rem; font-variant-numeric: tabular-nums; }
.note { border-left: 3px solid var(--link); background: var(--band); padding: .5rem .8rem;
  margin: .8rem 0; border-radius: 0 6px 6px 0; } .note code { display: block; margin-top: .3rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
summary { padding: .3rem .7rem; cursor: pointer; overflow-wrap: anywhere; }
details > :not(summary) { margin-left: .7rem; margin-right: .7rem; }
"""


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    """Returns a whole HTML page."""
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_policy(script)}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body>{body}{code}</body></html>\n"
    )


def frame(whole: str, height: int) -> str:
    """A page in a frame, for notebooks; it scrolls beyond 900 pixels, and runs no scripts."""
    return (
        f'<iframe srcdoc="{escape(whole)}" sandbox '
        f'style="width:100%;height:{min(height, 900)}px;border:0"></iframe>'
    )


def _policy(script: str) -> str:
    """Resources that a browser may load: nothing but the page's own style and this very script."""
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
