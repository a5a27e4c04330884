"""Obligations of rewrites are proved and listed, and a wrong rule is refuted with an input."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

for _solver in ("z3", "bitwuzla", "cvc5"):
    pytest.importorskip(_solver, reason=f"{_solver} is not installed: pip install '.[prove]'")

from xdsl_spirv.prove.solvers import Limits  # noqa: E402
from xdsl_spirv.testing.proofs import OPEN, SLOW, Obligation, bfloat16, obligations  # noqa: E402

ALL = obligations()
QUICK = [o for o in ALL if o.name not in OPEN | SLOW]
PAGE = Path(__file__).resolve().parents[2] / "docs/proofs.md"


def ask(chosen: list[Obligation]) -> None:
    for obligation in chosen:
        verdict = obligation.prove()
        assert verdict.result == "proved", f"{obligation.name}: {verdict}"


def test_some_obligations_are_proved():
    ask(QUICK[4::33])


@pytest.mark.long
def test_all_obligations_are_proved():
    ask([o for o in ALL if o.name not in OPEN])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPEN))
def test_open_obligations_are_not_refuted(name: str):
    (obligation,) = [o for o in ALL if o.name == name]
    assert obligation.prove(Limits(2)).result != "refuted"


def test_a_wrong_rule_is_refuted_with_its_input():
    (rule,) = [o for o in bfloat16() if o.what == "FConvert f32 to bf16"]
    passes = f"{rule.passes}{{rounding=toward-zero}}"
    verdict = replace(rule, passes=passes).prove()
    assert verdict.result == "refuted"
    ((_, word),) = verdict.words.items()
    assert word & 0xFFFF >= 0x8000  # The input is not below the midpoint of two numbers.


def test_a_wrong_equation_is_refuted():
    (rule,) = [o for o in ALL if o.what == "4 bits from bit 8 as a float"]
    (other,) = [o for o in ALL if o.what == "4 bits from bit 16 as a float"]
    verdict = replace(rule, after=other.after).prove()
    assert verdict.result == "refuted"
    ((_, word),) = verdict.words.items()
    assert word >> 8 & 15 != word >> 16 & 15


def test_the_page_lists_the_obligations():
    text = PAGE.read_text()
    counts = Counter(o.family for o in ALL if o.name not in OPEN)
    listed = dict(re.findall(r"^\| `([\w-]+)` \| (\d+) \|", text, re.MULTILINE))
    assert listed == {family: str(count) for family, count in counts.items()}
    names = {o.name for o in ALL}
    assert names >= OPEN | SLOW
    for name in OPEN:
        family, _, what = name.partition(": ")
        assert re.search(rf"^\| `{family}` \|.*`{re.escape(what)}`", text, re.MULTILINE), name
