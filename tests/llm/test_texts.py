"""The text in the states and a text that grows are compared correctly, and only where needed."""

from __future__ import annotations

import numpy as np

from xdsl_spirv.llm.texts import ReadText, common_start


def test_equal_tokens_are_those_of_a_whole_comparison():
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
