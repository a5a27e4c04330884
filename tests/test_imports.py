"""
Imports between rooms (top-level folders) and stages of the lowering follow docs/design.md.

Imports inside of functions and for type checking count, too: a reader needs the imported types.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "xdsl_spirv"

ROOMS = {
    "upstream": set[str](),
    "targets": set[str](),
    "grammar": set[str](),
    "dialects": {"grammar", "upstream"},
    "serialization": {"dialects", "grammar", "upstream"},
    "interpreter": {"dialects", "grammar", "targets", "upstream"},
    "passes": {"dialects", "grammar", "interpreter", "targets", "upstream"},
    "prove": {"dialects", "grammar", "interpreter", "targets", "upstream"},
    "frontends": {"dialects", "grammar", "upstream"},
    "runtime": {"dialects", "grammar", "interpreter", "serialization", "targets", "upstream"},
    "compiler": {
        *("dialects", "frontends", "grammar", "interpreter", "passes", "runtime", "serialization"),
        *("targets", "upstream"),
    },
    "jobs": {
        *("dialects", "grammar", "interpreter", "runtime", "serialization", "targets", "upstream")
    },
    "llm": {
        *("compiler", "dialects", "frontends", "grammar", "interpreter", "passes", "runtime"),
        *("serialization", "targets", "upstream"),
    },
    "compare": {
        *("compiler", "dialects", "frontends", "grammar", "interpreter", "passes", "runtime"),
        *("serialization", "targets", "upstream"),
    },
    "kernels": {
        *("compare", "compiler", "dialects", "frontends", "grammar", "interpreter", "jobs", "llm"),
        *("passes", "prove", "runtime", "serialization", "targets", "tools", "upstream"),
    },
    "tools": {
        *(
            "compare",
            "compiler",
            "dialects",
            "frontends",
            "grammar",
            "interpreter",
            "jobs",
            "llm",
            "passes",
            "prove",
            "runtime",
        ),
        *("serialization", "targets", "upstream"),
    },
}
"""Top-level folders that a folder may import. `testing` is not in the wheel."""

STAGES = (("analysis",), ("emit",), ("graph",), ("schedule",), ("kernel", "loops"), ("spirv",))
"""Stages of the lowering in order. A stage may not import a later one."""


Kind: TypeAlias = str
"""Kind of an import: `top` of a module, `inside` a function, for `types` only."""


@cache
def imports_of_file(file: Path) -> list[tuple[tuple[str, ...], Kind]]:
    """Returns (path in the package, kind) of each import of this package in a file."""
    start: tuple[ast.AST, Kind] = (ast.parse(file.read_text()), "top")
    pending = [start]
    imports: list[tuple[tuple[str, ...], Kind]] = []
    while pending:
        node, kind = pending.pop()
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        paths = [tuple(name.split(".")) for name in names]
        imports += [(path[1:], kind) for path in paths if path[0] == PACKAGE and len(path) > 1]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            kind = "types"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and kind == "top":
            kind = "inside"
        # Only statements contain imports.
        children = ast.iter_child_nodes(node)
        holders = (ast.stmt, ast.excepthandler, ast.match_case)
        pending += [(child, kind) for child in children if isinstance(child, holders)]
    return imports


def imports_of(room: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yields file and imported path of every package import in a top-level folder."""
    for file in sorted((ROOT / room).rglob("*.py")):
        for path, _ in imports_of_file(file):
            yield file.relative_to(ROOT), path


@cache
def imports_of_files() -> Mapping[str, Collection[tuple[str, Kind]]]:
    """Returns the imported modules of the package and the kinds of import, for every file."""
    modules: dict[str, Path] = {}
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file

    def named(path: tuple[str, ...]) -> str:
        names = (".".join(path), ".".join(path[:-1]))
        return next((name for name in names if name in modules), "")

    return {
        name: {(named(path), kind) for path, kind in imports_of_file(file)}
        for name, file in modules.items()
    }


def cycles(*kinds: Kind) -> list[set[str]]:
    """Returns the import cycles of files over all top-level folders, for some kinds of imports."""
    edges = {
        name: {m for m, kind in imports if m and m != name and kind in kinds}
        for name, imports in imports_of_files().items()
    }
    # A module that imports none of the remaining modules, or that none of them imports, is in no
    # cycle.
    while True:
        imported = set[str]().union(*edges.values())
        kept = {n: targets & edges.keys() for n, targets in edges.items() if n in imported}
        kept = {n: targets for n, targets in kept.items() if targets}
        if kept == edges:
            break
        edges = kept
    reached = {name: _reached(name, edges) for name in edges}
    circles = {
        frozenset(m for m in reached[n] if n in reached[m]) for n in edges if n in reached[n]
    }
    return sorted(map(set, circles), key=len)


def _reached(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    pending = [name]
    while pending:
        new = edges[pending.pop()] & edges.keys() - seen
        seen |= new
        pending += new
    return seen


CIRCLES: dict[Kind, set[str]] = {
    "top": set(),
    "inside": set(),
    "types": {"frontends", "runtime", "serialization"},
}
"""Top-level folders that may have import cycles between files, by the weakest kind of import."""


@pytest.mark.parametrize("kinds", [("top",), ("top", "inside"), ("top", "inside", "types")])
def test_files_do_not_import_each_other(kinds: tuple[Kind, ...]):
    circles = cycles(*kinds)
    rooms = {name.partition(".")[0] for circle in circles for name in circle}
    known = CIRCLES[kinds[-1]]
    assert rooms - known == set(), circles
    assert rooms == known, f"no longer there, take it out of CIRCLES: {known - rooms}"


def test_rooms_import_only_what_they_may():
    found = {
        (room, module[0]): str(file)
        for room in ROOMS
        for file, module in imports_of(room)
        if module[0] not in ROOMS[room] | {room} and (ROOT / module[0]).is_dir()
    }
    assert found == {}


def test_no_stage_of_the_lowering_reads_a_later_one():
    order = {name: number for number, names in enumerate(STAGES) for name in names}
    stages = {path.name for path in (ROOT / "passes").iterdir() if (path / "__init__.py").exists()}
    assert stages == set(order)
    upward = [
        f"{file} imports {'.'.join(module)}"
        for file, module in imports_of("passes")
        if file.parts[1] in order and module[0] == "passes" and module[1] in order
        if order[file.parts[1]] < order[module[1]]
    ]
    assert upward == []


def reachable(room: str) -> set[str]:
    """Returns the folders that a top-level folder may import directly or indirectly."""
    return ROOMS[room].union(*(reachable(other) for other in ROOMS[room]))


def test_the_picture_in_the_docs_is_this_table():
    drawn = re.findall(
        r"^    (\w+) --> (\w+)$", (ROOT / "docs/design.md").read_text(), re.MULTILINE
    )
    direct = {
        (room, other)
        for room, others in ROOMS.items()
        for other in others
        if not any(other in reachable(between) for between in others)
    }
    assert set(drawn) == direct
    assert all(reachable(room) == ROOMS[room] for room in ROOMS), "a room may import all below it"
