"""
The static rules of the four extensions hold for binaries encoded from the FileCheck tests.

`scripts/rules_oracle.py` makes the binaries, also invalid ones. Unsigned integers are signless in
binaries, so some invalid programs become valid binaries.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from xdsl_spirv.serialization.validation import Severity, validate

ROOT = Path(__file__).resolve().parents[3]
WITHOUT_SIGN = re.compile(r"(?<!s)i(\d+)\b.* and .*(?<!s)ui\1|\bui\d+, not i\d+")
"""A cause that distinguishes `i32` and `ui32`, which are one type in SPIR-V."""


def _oracle() -> ModuleType:
    path = ROOT / "scripts" / "rules_oracle.py"
    spec = importlib.util.spec_from_file_location("rules_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rules_oracle"] = module
    spec.loader.exec_module(module)
    return module


CASES = _oracle().cases()
BROKEN = [c for c in CASES if c.what and not WITHOUT_SIGN.search(c.what)]
KEPT = [c for c in CASES if not c.what]


def test_the_programs_break_many_rules():
    assert len(BROKEN) >= 106
    assert len(KEPT) >= 115


@pytest.mark.parametrize("case", BROKEN, ids=lambda c: f"{c.rule}-{c.what[:40]}")
def test_a_broken_rule_is_found(case: object):
    found = [f for f in validate(case.binary, "spv1.6") if f.severity is Severity.ERROR]  # pyright: ignore
    assert case.rule in {f.rule for f in found}, [str(f) for f in found]  # pyright: ignore


@pytest.mark.parametrize("case", KEPT, ids=lambda c: c.rule)
def test_a_kept_rule_is_not_found(case: object):
    found = [f for f in validate(case.binary, "spv1.6") if f.severity is Severity.ERROR]  # pyright: ignore
    assert [str(f) for f in found] == []
