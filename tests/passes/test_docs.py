"""
The pages of docs/passes agree with the passes and their output.

`python scripts/update_pass_docs.py` rewrites the pages. Review the difference.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from xdsl_spirv.compiler.pipeline import linalg_to_spirv
from xdsl_spirv.universe import PASSES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "passes"


def test_the_pages_are_current():
    check = (
        "import sys; sys.path.insert(0, 'scripts'); import update_pass_docs as u; "
        "print(*u.outdated())"
    )
    run = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [], "run scripts/update_pass_docs.py and read the difference"


def test_the_list_has_the_passes_in_their_order():
    listed, _, _ = (DOCS / "README.md").read_text().partition("These passes are not in the list.")
    rows = re.findall(r"^\| \[`([a-z0-9-]+)`\]\(\1\.md\) \|", listed, re.MULTILINE)
    assert rows == [each.name for each in linalg_to_spirv("lavapipe")]


def test_every_pass_has_a_page_that_the_list_links():
    pages = {page.stem for page in DOCS.glob("*.md")} - {"README"}
    assert pages == set(PASSES)
    linked = re.findall(r"\]\(([a-z0-9-]+)\.md\)", (DOCS / "README.md").read_text())
    assert pages <= set(linked), pages - set(linked)
