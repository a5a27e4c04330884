"""Runs a cell in the browser: its last expression is shown, in HTML where it has that."""

import ast
import traceback
from html import escape
from pathlib import Path

_names = {"__name__": "__main__"}
_RESULT = Path("/result")


def run(code: str) -> None:
    """Execute a cell; leaves `/result/html` for what it shows, `/result/error` if it failed."""
    try:
        shown = _execute(code)
    except BaseException:
        print(traceback.format_exc(limit=-6))
        (_RESULT / "error").write_text("1")
        return
    if shown is not None:
        (_RESULT / "html").write_text(_html(shown))


def _execute(code: str) -> object:
    tree = ast.parse(code, "cell")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), _names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), _names)


def _html(value: object) -> str:
    if hasattr(value, "_repr_html_"):
        return value._repr_html_()
    return f"<pre>{escape(value if isinstance(value, str) else repr(value))}</pre>"
