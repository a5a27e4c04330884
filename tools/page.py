"""
What self-contained pages share: one file, no scripts from elsewhere, light and dark.
"""

from __future__ import annotations

from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5d6b7a; --line: #d5dce3; --page: #fff;
  --band: #f4f6f8; --added: #dff3e4; --removed: #fbe3e4; --added-ink: #14532d;
  --removed-ink: #7f1d1d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #98a5b3; --line: #3a444f;
  --page: #161b21; --band: #1e252d; --added: #14331f; --removed: #401a1d; --added-ink: #b7ecc6;
  --removed-ink: #f7c5c8; } }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .bad { color: var(--removed-ink); }
code, pre { font: 12px/1.45 ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; color: var(--soft);
  font-weight: 500; } td, th { padding: .2rem .6rem .2rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; white-space: nowrap; }
.scroll { overflow-x: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); } svg a:hover rect { stroke: var(--ink); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 1em; }
:target { background: var(--band); }
"""


def page(title: str, body: str, style: str = "", script: str = "") -> str:
    """A whole HTML page."""
    code = f"<script>{script}</script>" if script else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head>"
        f"<body>{body}{code}</body></html>\n"
    )
