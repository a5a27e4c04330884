"""
Every rule of docs/rules.md has a test that names it.

A static rule (V) or deduction rule (C) has its own FileCheck test in `tests/filecheck/rules`.
Other rules are named by any test. The checking interpreter reports dynamic rules (D).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xdsl_spirv.dialects.spirv import module as rules_module
from xdsl_spirv.dialects.spirv import rules, rules_types

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"

RULES = dict(
    re.findall(r"^\| ([A-Z]+-\d+) \| ([A-Z-]) \|", (ROOT / "docs" / "rules.md").read_text(), re.M)
)

REASON = "reported by the checking interpreter"
LATER = {rule: REASON for rule, kind in RULES.items() if kind == "D" and rule != "CM-12"}
"""Rules without a test. The verifier checks the static part of CM-12."""

NAME = re.compile(r"(?<![a-z])(dot|cm|rot|bf)[-_](\d\d)(?!\d)", re.I)
"""Matches `CM-20` in a text or file name, and `test_CM_20_shapes` in an identifier."""


def named() -> set[str]:
    """Returns every rule that a test's file name or text names."""
    found: set[str] = set()
    for file in TESTS.rglob("*"):
        if file.suffix in (".py", ".mlir") and file.name != Path(__file__).name:
            text = f"{file.stem}\n{file.read_text(errors='replace')}"
            found |= {f"{family.upper()}-{number}" for family, number in NAME.findall(text)}
    return found


def test_rules_are_read() -> None:
    assert len(RULES) == 65
    assert set(RULES.values()) == {"V", "C", "X", "D", "B", "-"}


@pytest.mark.parametrize("rule", [r for r, kind in RULES.items() if kind in "VC"])
def test_static_rule_has_its_own_test(rule: str) -> None:
    file = TESTS / "filecheck" / "rules" / f"{rule.lower()}.mlir"
    assert f"{rule}: " in file.read_text()


@pytest.mark.parametrize("rule", [r for r, kind in RULES.items() if kind == "V"])
def test_static_rule_is_accepted_and_refused(rule: str) -> None:
    checks = (TESTS / "filecheck" / "rules" / f"{rule.lower()}.mlir").read_text()
    assert re.search(rf"// CHECK: {rule}: ", checks), "no chunk that breaks the rule"
    assert f"// CHECK-NOT: {rule}:" in checks, "no chunk that keeps the rule"


def test_every_rule_is_named_by_a_test() -> None:
    assert sorted(set(RULES) - named() - set(LATER)) == []


def test_only_dynamic_rules_have_no_test() -> None:
    assert {RULES[rule] for rule in LATER} == {"D"}


def test_rule_functions_are_named_after_rules() -> None:
    for module in (rules, rules_module, rules_types):
        for name in vars(module):
            match = re.match(r"(dot|cm|rot|bf)_(\d\d)_", name)
            if match:
                assert f"{match[1].upper()}-{match[2]}" in RULES
