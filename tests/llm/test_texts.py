"""
A growing text is compared with the tokens in the states, and only from its last change on. The
time of a following run counts from the end of the run before it.
"""

from __future__ import annotations

import numpy as np
import pytest

from xdsl_spirv.llm import texts as texts_module
from xdsl_spirv.llm.texts import DECODE, PREFILL, ReadText, Texts, Work, common_start
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.numpy_session import NumpySession


def test_the_number_of_equal_tokens_is_that_of_a_full_comparison():
    """The texts grow, shrink and are replaced at random."""
    draw, read, text = np.random.default_rng(0), ReadText(), list[int]()
    counts: list[int] = []
    for _ in range(2000):
        tokens = draw.integers(0, 2, draw.integers(1, 6)).tolist()
        match int(draw.integers(5)):
            case 0:
                read.replace_from(int(draw.integers(len(read.tokens) + 1)), tokens)
            case 1:
                text = text[: draw.integers(len(text) + 1)]
            case 2:
                del text[-1:]
            case 3:
                read.replace_from(min(read.count_same(text), len(text)), text[len(read.tokens) :])
            case _:
                text += tokens
        counts.append(common_start(text, read.tokens))
        assert read.count_same(text) == counts[-1]
    assert max(counts) > 20


class CountedList(list[int]):
    """A list that counts the elements of its slices."""

    sliced = 0

    def __getitem__(self, index: object) -> object:  # pyright: ignore
        found = super().__getitem__(index)  # pyright: ignore
        self.sliced += len(found) if isinstance(index, slice) else 0  # pyright: ignore
        return found


def test_a_text_that_grows_is_compared_once():
    read, text = ReadText(), CountedList(range(1000))
    read.replace_from(0, list(text))
    for number in range(1000, 1100):
        text.append(number)
        assert read.count_same(text) == number
        read.replace_from(number, [number])
    assert text.sliced < 4000


CONTEXT = 16


class Clock:
    """A clock that stands still except where a test sets its time."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(texts_module, "time", clock)
    return clock


def time_last(texts: Texts, clock: Clock, slot: int, text: list[int]) -> float:
    """
    Reads the last token of a text, 5 s after the previous run. Returns the seconds that the run
    counts.
    """
    work = {PREFILL: Work(), DECODE: Work()}
    clock.now += 5
    texts.read_part(slot, text, work)
    return work[DECODE].seconds


def test_the_time_of_a_following_run_counts_from_the_run_before_it(clock: Clock):
    texts, work = Texts(NumpySession(9, CONTEXT), CONTEXT), {PREFILL: Work(), DECODE: Work()}
    texts.read_part(0, [3], work, goes_on=True)
    assert time_last(texts, clock, 0, [3, 4]) == 5
    assert time_last(texts, clock, 0, [3, 4, 5]) == 0


def test_a_run_of_another_text_is_not_a_following_run(clock: Clock):
    texts = Texts(NumpySession(9, CONTEXT, slots=2), CONTEXT, slots=2)
    work = {PREFILL: Work(), DECODE: Work()}
    texts.read_part(1, [7], work)
    texts.read_part(0, [3], work, goes_on=True)
    assert time_last(texts, clock, 1, [7, 8]) == 0


def test_a_failed_run_has_no_following_run(clock: Clock):
    session = NumpySession(9, CONTEXT)
    texts, work = Texts(session, CONTEXT), {PREFILL: Work(), DECODE: Work()}
    texts.read_part(0, [3], work, goes_on=True)
    session.fails = True
    with pytest.raises(ProgramError, match="the device is lost"):
        texts.read_part(0, [3, 4], work)
    session.fails = False
    texts.read[0].replace_from(0, [3])
    assert time_last(texts, clock, 0, [3, 4]) == 0
