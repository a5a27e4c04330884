"""Makes the index of all rules: of extensions, validator, checks and kernel tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from links import ROOT

ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.+) \|$", re.MULTILINE)

PAGES = {
    "rules.md": "the four extensions",
    "checks.md": "checks of a running kernel",
    "validation.md": "validation of a binary",
    "kernel-tests.md": "kernel tests",
}

HEAD = """\
# All rules

A finding names the rule that is broken. This page lists every rule, and the page that explains it.

| rule | what holds | page |
|---|---|---|
"""


def page() -> str:
    """Returns a page that lists every rule by id."""
    rows = {rule: row for place in PAGES for rule, row in _rows(place)}
    return HEAD + "".join(rows[rule] for rule in sorted(rows))


def places() -> dict[str, str]:
    """Returns the page that explains each rule, by id."""
    return {
        rule: f"{place.removesuffix('.md')}.html" for place in PAGES for rule, _ in _rows(place)
    }


def _rows(place: str) -> Iterator[tuple[str, str]]:
    """Yields id and last cell (the condition) of each rule in a page's tables."""
    text = (ROOT / "docs" / place).read_text()
    for rule, cells in ROW.findall(text):
        says = cells.split(" | ")[-1]
        yield rule, f"| {rule} | {says} | [{PAGES[place]}]({place}) |\n"
