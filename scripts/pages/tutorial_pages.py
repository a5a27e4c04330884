"""Makes pages of the notebooks in `tutorials/`, from the files that `make tutorials` builds."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from links import ROOT

NOTEBOOKS = ROOT / "tutorials"
BUILT = ROOT / "build" / "tutorials"

ORDER = (
    "find_a_race",
    "write_a_kernel",
    "run_a_model",
    "prove_a_kernel",
    "prove_a_pass",
    "schedule_a_matmul",
    "add_a_device",
    "spirv_surgery",
)
"""Tutorials in the order of the list, for newcomers first. Unlisted tutorials come last."""

HEAD = """\
# Tutorials

Each tutorial is a [marimo](https://marimo.io) notebook in the folder `tutorials/`.
`pip install '.[tutorials]'` and `marimo edit tutorials/NAME.py` open it. `make tutorials` before
`make site` adds pages with results here, most of which also run in the browser; without it,
links lead to the sources.
"""


@cache
def pages() -> dict[str, str]:
    """Returns the list of the tutorials, and the pages of built tutorials."""
    paths = [path for path in NOTEBOOKS.glob("*.py") if ast.get_docstring(_tree(path))]
    paths.sort(key=lambda path: (*(path.stem != name for name in ORDER), path.stem))
    texts = {"tutorials/index.md": "\n".join([HEAD, *map(_row, paths), ""])}
    for path in paths:
        page = BUILT / f"{path.stem}.md"
        if page.exists():
            texts[f"tutorials/{page.name}"] = page.read_text()
    return texts


def built() -> dict[str, Path]:
    """Returns the tutorials' files that are not Markdown, by path on the site."""
    paths = (p for p in BUILT.rglob("*") if p.is_file() and p.suffix != ".md")
    return {f"tutorials/{path.relative_to(BUILT).as_posix()}": path for path in paths}


def _row(path: Path) -> str:
    purpose = (ast.get_docstring(_tree(path)) or "").partition("\n\n")[0].replace("\n", " ")
    page = BUILT / f"{path.stem}.md"
    link = page.name if page.exists() else f"../../tutorials/{path.name}"
    return f"- [{path.stem}]({link}): {purpose}"


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
