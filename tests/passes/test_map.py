"""
Every module of passes/ is tested by a file that names it.

A module passes/FOLDER/NAME.py is tested by tests/passes/FOLDER/test_NAME.py; by another test file
whose docstring lists it in a line that begins with "Covers:"; or, if it is a pass, by the files of
tests/filecheck/passes that run the pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xdsl_spirv.universe import PASSES

ROOT = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
COVERS = re.compile(r'\A"""(?:(?!""").)*^Covers: ([\w/, \n]+)\.$', re.MULTILINE | re.DOTALL)


CODE = re.compile(r"^(?:import|from|class|def|@|[A-Za-z_]\w*(?::.+)? =)", re.MULTILINE)


def list_modules() -> Iterator[str]:
    """Yields modules with code, relative to passes/: "kernel/slices"."""
    for path in sorted((ROOT / "passes").rglob("*.py")):
        if CODE.search(path.read_text()):
            yield path.relative_to(ROOT / "passes").with_suffix("").as_posix()


MODULES = frozenset(list_modules())


def list_covered(path: Path) -> list[str]:
    """Returns the modules that a test file's docstring lists."""
    listed = COVERS.search(path.read_text())
    return re.findall(r"[\w/]+", listed[1]) if listed else []


COVERED = {path: list_covered(path) for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def own_module(path: Path) -> str:
    """Returns the module of passes/ that a test file is named after."""
    folder = path.parent.relative_to(TESTS)
    return (folder / path.stem.removeprefix("test_")).as_posix()


def list_filechecked() -> Iterator[str]:
    """Yields the modules of passes that a FileCheck test runs."""
    files = (ROOT / "tests" / "filecheck" / "passes").glob("*.mlir")
    runs = "\n".join(re.findall(r"^// RUN:.*", "\n".join(f.read_text() for f in files), re.M))
    for name, place in PASSES.items():
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", runs):
            yield place.split(":")[0].removeprefix("passes.").replace(".", "/")


def test_every_module_of_passes_is_tested():
    tested = {module for modules in COVERED.values() for module in modules}
    tested |= set(map(own_module, FILES)) | set(list_filechecked())
    missing = sorted(MODULES - tested)
    assert not missing, f"no test file is named after these or covers them: {', '.join(missing)}"


def test_covered_modules_exist():
    """Names have the form FOLDER/NAME without .py."""
    assert {m for modules in COVERED.values() for m in modules} <= MODULES


def test_a_file_in_a_folder_says_what_it_tests():
    for path in FILES:
        if path.parent != TESTS:
            own, covered = own_module(path), COVERED[path]
            assert own in MODULES or covered, f"{path}: name it after its module, or add Covers:"
            assert own not in covered, f"{path}: its name says so already"
