#!/usr/bin/env python3
"""
Measures the structure of the tree: its size, its imports, its names, and the modules of `compile`.

    scripts/house.py                print the figures of this tree
    scripts/house.py --write REV    write the figures of a revision and of now to benchmarks/results

The same functions count sizes and names in both trees. Imports are compared with the tables of
tests/test_imports.py. Loaded modules are counted in a process that compiles a matmul
(tests/test_startup.py). Imports and loaded modules are measured for this tree only.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "house.json"

APART = ("tests", "docs", "tutorials", "build")
"""Folders whose code is not counted."""

BESIDE = ("benchmarks", "examples", "scripts", "testing")
"""Folders that are counted separately from the product."""

LINES_OF_FILE, LINES_OF_FUNCTION = 600, 60
SAY_NOTHING = {"ties", "fixed", "alike", "plans", "unit", "wave", "found", "each", "made"}
"""Uninformative names of locals, parameters and attributes."""


def trees(root: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    """Yields path, text and syntax tree of the counted Python files."""
    for path in sorted(root.rglob("*.py")):
        place = path.relative_to(root)
        hidden = any(part.startswith(".") for part in place.parts)
        linked = any((root / Path(*place.parts[:n])).is_symlink() for n in range(len(place.parts)))
        if not hidden and not linked and place.parts[0] not in APART:
            text = path.read_text()
            yield place, text, ast.parse(text)


def counted(root: Path) -> dict[str, Any]:
    """
    Counts lines by folder, long files and functions, uninformative names and hand-written syntax.

    Lines of generated files ("do not edit" at the top) are counted separately.
    """
    lines: Counter[str] = Counter()
    generated: Counter[str] = Counter()
    names: Counter[str] = Counter()
    files = functions = formats = 0
    for place, text, tree in trees(root):
        length = len(text.splitlines())
        by_script = "do not edit" in text[:1000] and place.parts[0] not in BESIDE
        (generated if by_script else lines)[place.parts[0]] += length
        files += length > LINES_OF_FILE and not by_script
        for node in ast.walk(tree):
            names.update(SAY_NOTHING & {*_assigned(node)})
            if isinstance(node, ast.FunctionDef):
                end = node.end_lineno or node.lineno
                functions += end - node.lineno >= LINES_OF_FUNCTION
            if isinstance(node, ast.ClassDef) and place.parts[0] == "dialects":
                formats += _parses(node)
    return {
        "lines_written_by_hand": sum(lines.values()),
        "lines_of_rooms_written_by_hand": sum(
            count for folder, count in lines.items() if folder not in BESIDE
        ),
        "lines_generated": sum(generated.values()),
        "lines_by_folder": dict(sorted(lines.items())),
        "generated_lines_by_folder": dict(sorted(generated.items())),
        f"files_beyond_{LINES_OF_FILE}_lines_written_by_hand": files,
        f"functions_beyond_{LINES_OF_FUNCTION}_lines": functions,
        "names_that_say_nothing": dict(sorted(names.items())),
        "operations_with_hand_written_syntax": formats,
    }


def _assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def _parses(node: ast.ClassDef) -> bool:
    """True if a class has a method to parse an operation's custom syntax."""
    methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
    return any(m.name == "parse" and m.args.args[0].arg == "cls" for m in methods)


def of_this_tree() -> dict[str, Any]:
    """Returns upward imports, import cycles of files, and the modules that `compile` loads."""
    sys.path.insert(0, str(ROOT / "tests"))
    import test_imports as imports
    import test_startup as startup

    order = {name: number for number, names in enumerate(imports.STAGES) for name in names}
    upward = [
        str(file)
        for room, below in imports.ROOMS.items()
        for file, module in imports.imports_of(room)
        if module[0] in imports.ROOMS and module[0] not in below | {room}
    ]
    upward += [
        str(file)
        for file, module in imports.imports_of("passes")
        if file.parts[1] in order and module[:1] == ("passes",) and module[1] in order
        if order[file.parts[1]] < order[module[1]]
    ]
    kinds = ("top", "inside", "types")
    circles = [len(imports.cycles(*kinds[:count])) for count in (1, 2, 3)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "matmul.mlir")
        source.write_text(startup.MATMUL)
        loaded = startup.modules_after(
            "compile", source, "--target", "nvidia-h200", "-o", Path(folder, "program")
        )
    ours = [name for name in loaded if name.partition(".")[0] == "xdsl_spirv"]
    return {
        "upward_imports": len(upward),
        "circles_while_modules_load": circles[0],
        "circles_inside_functions": circles[1] - circles[0],
        "circles_for_types_only": circles[2] - circles[1],
        "modules_loaded_by_compile": len(ours),
    }


def at(revision: str) -> dict[str, Any]:
    """Returns the figures of a revision, except those that need a run of its code."""
    command = ["git", "archive", revision]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
        return counted(Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--write", metavar="REV", help="compare with a revision and write the file")
    revision = parser.parse_args().write
    now = counted(ROOT) | of_this_tree()
    print(json.dumps(now, indent=1))
    if revision is not None:
        result = {"before": {"revision": revision} | at(revision), "now": now}
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
