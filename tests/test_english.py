"""scripts/check_english.py finds unclear sentences and accepts plain ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

GOOD = (
    "Hoists loop-invariant code out of the loop.",
    "Bytes of Workgroup memory used by the operand tiles.",
    "True if the producer is not in a dispatch yet.",
    "There is no driver: install one with apt-get.",
    "The result is no longer read.",
    "How to write a pass.",
    "Says which size is wrong and what to do.",
    "Which layer is slow? What takes the time?",
    "None of the operands is a constant.",
    "A field that has no effect is refused.",
    "The sizes of the rows; the sizes of the columns may differ.",
    "Calls `of what is none`.",
)
BAD = {
    "What says that the size is wrong.": "starts with 'What'",
    "How an event begins.": "starts with 'How'",
    "Of a loop.": "starts with 'Of'",
    "Who reads a value.": "starts with a question word",
    "By what the size grows.": "starts with a preposition and 'which'",
    "Parses a schedule. Of f16 it makes 451.": "starts with 'Of'",
    "Tells whether what is read is defined.": "'whether what'",
    "A value that nobody reads.": "'nobody'",
    "Raises an error for a schedule that is none.": "'is none'",
    "The operand is no constant.": "'is no <noun>'",
    "The sizes are those of the rows.": "'those of'",
    "Those at an edge.": "starts with 'Those'",
    "The sum of what the rows hold.": "'what' behind a preposition",
    "The fields; what later versions add is skipped.": "a clause that starts with 'what'",
    "So does the encoder.": "an inversion",
    "It says nothing of the size.": "'says nothing of'",
    "A value computed by nothing.": "'nothing' as an agent or a place",
}


@pytest.fixture
def english(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield import_module("check_english")
    sys.modules.pop("check_english")


@pytest.mark.parametrize("sentence", GOOD)
def test_a_plain_sentence_passes(english: ModuleType, sentence: str):
    assert not [*english.problems(sentence)]


@pytest.mark.parametrize("sentence", BAD)
def test_a_riddle_is_found(english: ModuleType, sentence: str):
    assert [pattern.name for _, pattern, _ in english.problems(sentence)] == [BAD[sentence]]


def test_every_pattern_has_a_bad_sentence(english: ModuleType):
    assert {pattern.name for pattern in english.PATTERNS} == {*BAD.values()}


def test_docstrings_comments_errors_and_names_are_searched(english: ModuleType):
    code = '''"""A module.

What it holds.
"""

# A comment about
# what is read.
def of(x):
    raise ValueError(f"{x} is no number")

def split_rows(x): ...

def test_what_is_read(): ...

class A:
    @property
    def packed(self): ...
'''
    found = english.riddles(Path("a.py"), code)
    assert sorted((riddle.line, riddle.pattern) for riddle in found) == [
        (3, "starts with 'What'"),
        (6, "'what' behind a preposition"),
        (8, "a function named by a participle or a particle"),
        (9, "'is no <noun>'"),
        (13, "a test's name starts with a question word: say what holds"),
    ]


def test_pages_are_searched_outside_of_code(english: ModuleType):
    page = "# How it works\n\n```sh\nWhat is that.\n```\n\n| a | Of a loop |\n\n- What is read.\n"
    found = english.riddles(Path("a.md"), page)
    assert [(riddle.line, riddle.pattern) for riddle in found] == [
        (7, "starts with 'Of'"),
        (9, "starts with 'What'"),
    ]


def test_a_new_riddle_fails_and_the_baseline_only_shrinks(english: ModuleType):
    def find(count: int) -> list[Any]:
        return [*english.riddles(Path("a.py"), "# What is read.\n\n" * count)]

    assert english.beyond(find(2), {"a.py": 2}) == []
    assert len(english.beyond(find(3), {"a.py": 2})) == 3
    assert len(english.beyond(find(1), {})) == 1
    assert english.shrink(find(1), {"a.py": 2}) == {"a.py": 1}
    assert english.shrink(find(3), {"a.py": 2}) == {"a.py": 2}
    assert english.shrink(find(1), {}) == {}
    message = str(find(1)[0])
    assert message.startswith("a.py:1: starts with 'What': 'What is read.'; better: ")
