"""
The tutorials: notebooks of `tutorials/`, as `make tutorials` left them in `build/tutorials`.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from links import ROOT

NOTEBOOKS = ROOT / "tutorials"
BUILT = ROOT / "build" / "tutorials"

HEAD = """\
# Tutorials

Each tutorial is a [marimo](https://marimo.io) notebook in the folder `tutorials/`:
`marimo edit tutorials/NAME.py` opens it.
"""


@cache
def pages() -> dict[str, str]:
    """The list of the tutorials."""
    rows = [_row(path) for path in sorted(NOTEBOOKS.glob("*.py")) if ast.get_docstring(_tree(path))]
    return {"tutorials/index.md": "\n".join([HEAD, *rows, ""])}


def built() -> dict[str, Path]:
    """What the tutorials' build made, by place on the site."""
    paths = (path for path in BUILT.rglob("*") if path.is_file())
    return {f"tutorials/{path.relative_to(BUILT).as_posix()}": path for path in paths}


def _row(path: Path) -> str:
    purpose = (ast.get_docstring(_tree(path)) or "").partition("\n\n")[0].replace("\n", " ")
    page = BUILT / f"{path.stem}.html"
    title = f"[{path.stem}]({page.name})" if page.exists() else f"`{path.stem}`"
    return f"- {title}: {purpose}"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
