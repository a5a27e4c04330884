"""docs/validation.md has the current rules, differences and example."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "validation.md"


def test_page_is_current():
    path = ROOT / "scripts" / "update_validation_docs.py"
    spec = importlib.util.spec_from_file_location("update_validation_docs", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = PAGE.read_text()
    assert script.updated(text) == text, "run python scripts/update_validation_docs.py"
    assert "OPR-01: operand_2" in text
