"""
Makes self-contained HTML pages, which load no other files.

Pages are Jinja templates in `assets`, which escape every value.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from xdsl_spirv.tools.explain_text import (
    duration,
    nodes_text,
    percent,
    ranges,
    shorten,
    size,
    tile_of,
    work,
)

if TYPE_CHECKING:
    from jinja2 import Environment

ASSETS = Path(__file__).parent / "assets"
"""Folder with templates, style sheets and scripts of pages."""


def render_page(
    template: str, title: str, styles: Iterable[str] = (), scripted: str = "", **values: Any
) -> str:
    """
    Returns an HTML page.

    `template`, `styles` and `scripted` are file names in `assets` without suffixes. `values` are
    the variables of the template.
    """
    script = (ASSETS / f"{scripted}.js").read_text() if scripted else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() if script else ""
    style = "".join((ASSETS / f"{name}.css").read_text() for name in ("page", *styles))
    whole = _environment().get_template(f"{template}.html")
    return whole.render(title=title, style=style, script=script, digest=digest, **values)


FILTERS: dict[str, Callable[[Any], str]] = {
    "duration": duration,
    "name": lambda path: PurePath(path).name or path,
    "nodes": nodes_text,
    "percent": percent,
    "ranges": ranges,
    "shorten": shorten,
    "size": size,
    "tile": tile_of,
    "work": work,
}
"""Jinja filters that format values."""


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(FILTERS)
    return environment


def frame(whole: str, height: int) -> str:
    """Returns a page in an iframe without scripts, at most 900 pixels high."""
    return (
        f'<iframe srcdoc="{escape(whole)}" sandbox '
        f'style="width:100%;height:{min(height, 900)}px;border:0"></iframe>'
    )
