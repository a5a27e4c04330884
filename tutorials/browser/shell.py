"""Runs a tutorial's cell in the browser; its last expression is shown, as HTML if possible."""

import ast
import linecache
import os
import traceback
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.access = lambda path, mode, **options: os.path.exists(path)  # which WASI does not say

RESULT = Path("/result")
SITE = Path("/tmp/site")


class Html(str):
    """marimo's `mo.Html`: text that a cell shows as it is."""

    def _repr_html_(self) -> str:
        return self


_names: dict[str, Any] = {"__name__": "__main__", "mo": SimpleNamespace(Html=Html)}


def run(code: str, notebook: str, number: int) -> None:
    """Runs a cell; leaves `/result/html` with its output, `/result/error` if it failed."""
    file = f"cell {number}"
    linecache.cache[file] = len(code), None, code.splitlines(True), file
    _names["__file__"] = str(SITE / "tutorials" / f"{notebook}.py")
    try:
        shown = _execute(code, file)
        if shown is not None:
            (RESULT / "html").write_text(_html(shown))
    except BaseException as error:
        # The cell's own frames: those of this file stand above them.
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
