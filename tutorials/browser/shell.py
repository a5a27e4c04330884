"""Runs a tutorial's cell in the browser and shows its last expression, as HTML if possible."""

import ast
import linecache
import os
import traceback
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.access = lambda path, mode, **options: os.path.exists(path)  # WASI does not report this.

RESULT = Path("/result")
SITE = Path("/tmp/site")


class Html(str):
    """The replacement of marimo's `mo.Html`: HTML text that a cell shows."""

    def _repr_html_(self) -> str:
        return self


_names: dict[str, Any] = {"__name__": "__main__", "mo": SimpleNamespace(Html=Html)}


def run(code: str, notebook: str, number: int) -> None:
    """Runs a cell. Writes its output to `/result/html`, and `/result/error` if it failed."""
    file = f"cell {number}"
    linecache.cache[file] = len(code), None, code.splitlines(True), file
    _names["__file__"] = str(SITE / "tutorials" / f"{notebook}.py")
    try:
        shown = _execute(code, file)
        if shown is not None:
            (RESULT / "html").write_text(_html(shown))
    except BaseException as error:
        # Keeps the frames of the cell and drops the outer frames of this file.
        inner = error.__traceback__ and error.__traceback__.tb_next
        print("".join(traceback.format_exception(type(error), error, inner and inner.tb_next)))
        (RESULT / "error").write_text("")


def _execute(code: str, file: str) -> object:
    tree = ast.parse(code, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), _names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), file, "eval"), _names)


def _html(value: Any) -> str:
    if hasattr(value, "_repr_html_"):
        return value._repr_html_()
    return f"<pre>{escape(repr(value))}</pre>"
