"""
Converts the tutorials to pages: `build/tutorials/NAME.md`.

The pages contain the notebooks and the outputs that `marimo export session tutorials` recorded.
Fails if a cell failed.

    python scripts/build_tutorials.py
"""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "tutorials"
SESSIONS = NOTEBOOKS / "__marimo__" / "session"
BUILT = ROOT / "build" / "tutorials"
IN_BROWSER = (
    *("find_a_race", "write_a_kernel", "prove_a_pass"),
    *("schedule_a_matmul", "add_a_device", "spirv_surgery"),
)
"""Tutorials that also run in the browser."""

NOT_IN_BROWSER = {
    "run_a_model": "ONNX's library, which is C++ and has no build for WebAssembly",
    "prove_a_kernel": "SMT solvers, of which not all have a build for WebAssembly",
}
"""Reason why a tutorial does not run in the browser."""


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: prose in Markdown or code, and its output."""

    prose: str
    code: str
    outputs: list[dict[str, Any]]
    console: list[dict[str, Any]]


def cells(path: Path) -> list[Cell]:
    """Returns the executed cells of a notebook, without the cell that imports marimo."""
    session = json.loads((SESSIONS / f"{path.name}.json").read_text())
    source = path.read_text()
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [
        Cell(_prose(function), _code(function, source), shown["outputs"], shown["console"])
        for function, shown in zip(functions, session["cells"], strict=True)
        if "import marimo" not in (ast.get_source_segment(source, function) or "")
    ]


def _prose(function: ast.FunctionDef) -> str:
    match function.body[0]:
        case ast.Expr(ast.Call(ast.Attribute(attr="md"), [ast.Constant(str(text))])):
            return textwrap.dedent(text).strip()
    return ""


def _code(function: ast.FunctionDef, source: str) -> str:
    body = function.body[:-1] if isinstance(function.body[-1], ast.Return) else function.body
    first = body[0].lineno - 1
    lines = source.splitlines()
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return textwrap.dedent("\n".join(lines[first : body[-1].end_lineno]))


def page(path: Path) -> str:
    """Returns a notebook in Markdown, each cell followed by its output."""
    parts: list[str] = []
    for cell in cells(path):
        parts += [cell.prose] if cell.prose else [f"```python\n{cell.code}\n```", *_shown(cell)]
    notebook = f"The notebook is `tutorials/{path.name}`: `marimo edit` opens it."
    if path.stem in IN_BROWSER:
        notebook += f" [Run it in the browser](browser/{path.stem}.html){{ .md-button }}"
    elif path.stem in NOT_IN_BROWSER:
        notebook += f" It does not run in the browser: it needs {NOT_IN_BROWSER[path.stem]}."
    parts.insert(1, notebook)
    return "\n\n".join(parts) + "\n"


def _shown(cell: Cell) -> Iterator[str]:
    for output in cell.outputs:
        if output["type"] != "data":
            raise SystemExit(f"a cell failed: {output}\n{cell.code}")
        for kind, value in output["data"].items():
            yield from _output(kind, value)
    printed = "".join(stream["text"] for stream in cell.console if stream["name"] == "stdout")
    if printed.strip():
        yield _block(printed)


def _output(kind: str, value: Any) -> Iterator[str]:
    if not value:
        return
    if kind == "application/json":
        yield _block("\n".join(str(item).partition(":")[2] for item in value))
    elif kind == "text/plain":
        yield _block(value)
    elif plain := re.fullmatch(r"<pre[^>]*>(.*)</pre>", value, re.DOTALL):
        yield _block(unescape(plain[1]))
    else:
        yield f'<div class="output" markdown="0">\n{_without_places(value)}\n</div>'


def _block(text: str) -> str:
    return f"```text\n{_without_places(text).strip()}\n```"


def _without_places(text: str) -> str:
    """Removes folders and cell names of this run from a text."""
    return re.sub(r"__marimo__cell_\w+?_\.py", "cell", re.sub(r"/tmp/tmp\w+/", "", text))


def main() -> None:
    BUILT.mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.py")):
        (BUILT / f"{path.stem}.md").write_text(page(path))
    print(f"{len(list(BUILT.glob('*.md')))} tutorials in {BUILT.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
