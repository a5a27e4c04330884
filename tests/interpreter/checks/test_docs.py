"""The table of docs/checks.md equals the tests' markers. XDSL_SPIRV_WRITE_DOCS=1 rewrites it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs"
EXEMPT = {
    "CM-28": "a permission: components may be accessed in non-uniform flow",
    "BOUNDS-05": "seeded in GLSL, whose image instructions have no operations (test_images.py)",
}


def bugs() -> Iterator[tuple[str, str, str, str]]:
    """Yields (what, rule, op, test) of each test's marker `bug`, by file and order in the file."""
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        names = _strings(tree)
        for function in tree.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".bug"):
                    keywords = {k.arg: _text(k.value, names) for k in decorator.keywords}
                    what = _text(decorator.args[0], names)
                    yield what, keywords["rule"], keywords["op"], f"{path.stem}.{function.name}"


def _strings(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            try:
                value = eval(ast.unparse(statement.value), {}, names)
            except Exception:
                continue
            targets = statement.targets[0]
            single = isinstance(targets, ast.Name)
            for target, text in [(targets, value)] if single else _pairs(targets, value):
                if isinstance(target, ast.Name) and isinstance(text, str):
                    names[target.id] = text
    return names


def _pairs(targets: ast.expr, value: object) -> Iterator[tuple[ast.expr, object]]:
    if isinstance(targets, ast.Tuple) and isinstance(value, tuple):
        yield from zip(targets.elts, value, strict=True)  # pyright: ignore


def _text(node: ast.expr, names: dict[str, str]) -> str:
    return str(eval(ast.unparse(node), {}, dict(names)))


def table() -> str:
    rows = sorted(bugs(), key=lambda bug: bug[1])
    lines = ["| bug | rule | reported at |", "|---|---|---|"]
    for what, rule, op, _ in rows:
        lines.append(f"| {what} | {rule} | {f'`{op}`' if op else 'the instruction'} |")
    return "\n".join(lines)


def test_the_table_is_current() -> None:
    path = DOCS / "checks.md"
    text = path.read_text()
    pattern = re.compile(r"(?<=<!-- bugs -->\n).*(?=<!-- end -->)", re.DOTALL)
    expected = pattern.sub(lambda _: table() + "\n", text)
    if os.environ.get("XDSL_SPIRV_WRITE_DOCS"):
        path.write_text(expected)
    assert text == expected, "run with XDSL_SPIRV_WRITE_DOCS=1"


def test_every_rule_has_a_seeded_bug() -> None:
    found = {rule for _, rule, _, _ in bugs()}
    assert len(list(bugs())) >= 40
    dynamic = re.findall(r"^\| (\w+-\d+) \| D \|", (DOCS / "rules.md").read_text(), re.MULTILINE)
    own = re.findall(r"^\| ([A-Z]+-\d+) \|", (DOCS / "checks.md").read_text(), re.MULTILINE)
    assert len(dynamic) > 6
    assert len(own) > 20
    assert set(dynamic) | set(own) == found | set(EXEMPT)
