"""
The examples of docs/passes.md are what the passes print.

A golden file: `python scripts/update_pass_docs.py` rewrites it, and the difference is read.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from xdsl_spirv.compiler.pipeline import linalg_to_spirv

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "passes.md"


def test_the_documented_examples_are_current():
    check = (
        "import sys; sys.path.insert(0, 'scripts'); import update_pass_docs as u; "
        "sys.exit(u.updated(u.DOCS.read_text()) != u.DOCS.read_text())"
    )
    result = subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False)
    assert result.returncode == 0, "run scripts/update_pass_docs.py and read the difference"


def test_the_table_has_the_passes_in_their_order():
    rows = re.findall(r"^\| \[`([a-z0-9-]+)`\]\(#\1\) \|", DOCS.read_text(), re.MULTILINE)
    assert rows == [each.name for each in linalg_to_spirv("lavapipe")]


def test_every_pass_has_an_example():
    text = DOCS.read_text()
    for each in linalg_to_spirv("lavapipe"):
        assert f"\n## {each.name}\n" in text, each.name
