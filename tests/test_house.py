"""scripts/house.py computes its figures correctly on a small tree."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_sizes_names_and_syntax_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    house = import_module("house")

    operation = "class AddOp:\n    def parse(cls, parser): ...\n"
    directive = "class Types(CustomDirective):\n    def parse(self, parser, state): ...\n"
    long = "def f(found):\n" + "    each = 0\n" * 60
    for place, text in (
        ("dialects/ops.py", operation + directive),
        ("passes/long.py", long * 10),
        ("tests/test_ops.py", long * 10),
        ("dialects/generated.py", '"""Generated; do not edit."""\n' + "x = 0\n" * 700),
    ):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "passes").symlink_to(tmp_path / "passes")
    try:
        figures = house.counted(tmp_path)
    finally:
        sys.modules.pop("house")
    assert figures["lines_by_folder"] == {"dialects": 4, "passes": 610}
    assert figures["generated_lines_by_folder"] == {"dialects": 701}
    assert figures["files_beyond_600_lines_written_by_hand"] == 1
    assert figures["functions_beyond_60_lines"] == 10
    assert figures["names_that_say_nothing"] == {"each": 600, "found": 10}
    assert figures["operations_with_hand_written_syntax"] == 1


def test_the_map_of_tests_names_files_and_folders_that_exist():
    text = (ROOT / "tests" / "README.md").read_text()
    named = {name for name in re.findall(r"`(?:passes/)?(test_\w+\.py)`", text)}
    top = {path.name for room in ("", "passes") for path in (ROOT / "tests" / room).glob("*.py")}
    assert named - top == set(), "tests/README.md names files that are gone"
    folders = set(re.findall(r"`((?!passes/__init__|\w+\.py)[a-z_]+/)[\w/*.]*`", text))
    rooms = ROOT, ROOT / "tests", ROOT / "passes"
    here = {f"{path.name}/" for room in rooms for path in room.iterdir()}
    assert folders - here == set()
