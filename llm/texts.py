"""
Tracks the texts whose keys and values are in the states of a session, and extends them.

The functions of the program are described in `xdsl_spirv.frontends.gguf.importer`. With several
slots, the states hold one text per slot. If the likeliest token will probably be chosen, the device
starts the run that reads this token before the caller asks for it: the *following* run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.llm.sampling import Prediction
from xdsl_spirv.llm.sliding import Session, SlidingSession
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.session import Following

PREFILL, DECODE, BATCH, VERIFY = "prefill", "decode", "decode_batch", "verify"
TOKEN, PAST, LOGITS = "token", "past", "logits"
LIKELIEST, HIGHEST = "likeliest", "highest"
SLOT, POSITION = "slot", "position"

PREFILLED = 512
"""Maximum number of tokens in one run, to bound the memory of temporaries."""


@dataclass
class Work:
    """The number of tokens that a function has read, and its time in seconds."""

    tokens: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Returns tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0


Works: TypeAlias = Mapping[str, Work]
"""Numbers of tokens and seconds by function (`prefill`, `decode`)."""


class ReadText:
    """The tokens of a text whose keys and values are in the states."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._compared: Sequence[int] = ()
        self._same = 0
        """Number of equal tokens at the start of this text and of `_compared`."""

    def count_same(self, text: Sequence[int]) -> int:
        """
        Returns the number of equal tokens at the start of this text and another one.

        If `text` is the object of the last call, only the tokens appended since are compared.
        """
        known = min(self._same, len(text)) if text is self._compared else 0
        self._same = known + common_start(text[known:], self.tokens[known:])
        self._compared = text
        return self._same

    def replace_from(self, place: int, tokens: Sequence[int]) -> None:
        """Replaces the tokens from index `place` on."""
        self.tokens[place:] = tokens
        self._same = min(self._same, place)


class Texts:
    """Tracks and extends the text in each of a session's slots. `read` holds the tokens."""

    def __init__(self, session: Session, context: int, slots: int = 1):
        self.session = session
        self._sliding = session if isinstance(session, SlidingSession) else None
        self.context = context
        self.read = [ReadText() for _ in range(slots)]
        self._lost = False
        """True if a run has failed, so that the contents of the states are unknown."""
        self._likeliest = np.zeros(slots, np.int32)
        """The likeliest next token of each slot in the last run of all slots."""
        self._ahead: tuple[float, str, Mapping[str, Any]] | None = None
        """
        End time of the last run, and function and inputs (except tokens) of its following run.
        None if the last run has no following run.
        """

    def count_left(self, slot: int, tokens: Sequence[int]) -> int:
        """Returns the number of unread tokens of a text; the last token counts as unread."""
        past = min(self.read[slot].count_same(tokens), len(tokens) - 1)
        holds = self._sliding is None or self._sliding.holds(slot, past)
        return len(tokens) - (past if holds else 0)

    def read_part(
        self, slot: int, tokens: Sequence[int], work: Works, goes_on: bool = False
    ) -> Prediction | None:
        """
        Reads the next tokens of a text, at most `PREFILLED`.

        Returns the prediction of the next token, or None if more tokens are unread. With `goes_on`,
        the device starts a following run.
        """
        past = len(tokens) - self.count_left(slot, tokens)
        part = tokens[past : past + PREFILLED]
        function = DECODE if len(part) == 1 else PREFILL
        goes_on = goes_on and function == DECODE and past + 1 < self.context
        later = {PAST: past + 1} if goes_on else None
        predictions, seconds = self._run(function, self._inputs(slot, part, past), later)
        work[function].seconds += seconds
        work[function].tokens += len(part)
        self.read[slot].replace_from(past, part)
        return predictions[-1] if past + len(part) == len(tokens) else None

    def read_ahead(
        self, slot: int, tokens: Sequence[int], proposals: Sequence[int], work: Works
    ) -> Sequence[Prediction]:
        """
        Reads the last token of a text, and then proposals. All earlier tokens must be read.

        Returns the prediction after each of these tokens. `work` counts only the text's last token.
        """
        part = [tokens[-1], *proposals]
        predictions, seconds = self._run(VERIFY, self._inputs(slot, part, len(tokens) - 1))
        work[DECODE].seconds += seconds
        work[DECODE].tokens += 1
        self.read[slot].replace_from(len(tokens) - 1, part)
        return predictions

    def _inputs(self, slot: int, part: Sequence[int], past: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {TOKEN: np.array(part, np.int32), PAST: past}
        return inputs | {SLOT: slot} if len(self.read) > 1 else inputs

    def read_last(
        self, texts: Mapping[int, tuple[Sequence[int], Works]], goes_on: bool = False
    ) -> Mapping[int, Prediction]:
        """
        Reads the last token of several texts in one run. All earlier tokens must be read.

        Returns the predictions of the next tokens by slot. With `goes_on`, the device starts a
        following run of all texts.
        """
        if len(texts) == 1:
            ((slot, (tokens, work)),) = texts.items()
            prediction = self.read_part(slot, tokens, work, goes_on)
            assert prediction is not None
            return {slot: prediction}
        # Unused slots write after their texts, where nothing is read.
        places = [min(len(read.tokens), self.context - 1) for read in self.read]
        token = self._likeliest.copy()
        for slot, (tokens, _) in texts.items():
            places[slot], token[slot] = len(tokens) - 1, tokens[-1]
        later = None
        if goes_on and max(places[slot] for slot in texts) + 1 < self.context:
            next_places = [at + 1 if slot in texts else at for slot, at in enumerate(places)]
            later = _batch_inputs(next_places, texts)
        predictions, seconds = self._run(
            BATCH, {TOKEN: token, **_batch_inputs(places, texts)}, later
        )
        self._likeliest = np.array([p.likeliest for p in predictions], np.int32)
        for slot, place in enumerate(places):
            self.read[slot].replace_from(place, ())
        for slot, (tokens, work) in texts.items():
            self.read[slot].replace_from(len(tokens) - 1, tokens[-1:])
            work[DECODE].seconds += seconds / len(texts)
            work[DECODE].tokens += 1
        return {slot: predictions[slot] for slot in texts}

    def _run(
        self, function: str, inputs: Mapping[str, Any], later: Mapping[str, Any] | None = None
    ) -> tuple[Sequence[Prediction], float]:
        """
        Runs a function. Returns a prediction for each row of logits, and the time in seconds.

        `later` has the inputs of the following run, if the device is to start one. The time of a
        following run counts from the end of the run before it. A failed run empties all slots.
        """
        if self._lost:
            self.session.reset()
        start, self._lost = time.perf_counter(), True
        others = {name: value for name, value in inputs.items() if name != TOKEN}
        if self._ahead is not None:
            end, ahead, expected = self._ahead
            start = end if ahead == function and _are_equal(expected, others) else start
        self._ahead = None
        following: dict[str, Any] = {}
        if later is not None:
            following["following"] = Following(later, {TOKEN: LIKELIEST})
        try:
            results = self.session.run(function, inputs, outputs=(LIKELIEST, HIGHEST), **following)
            self._lost = False
        finally:
            if self._lost:
                self.read = [ReadText() for _ in self.read]
        end = time.perf_counter()
        if later is not None:
            self._ahead = end, function, {**others, **later}
        rows = zip(results[LIKELIEST].tolist(), results[HIGHEST].tolist(), strict=True)
        read = partial(self._read_row, function)
        return [Prediction(*best, partial(read, row)) for row, best in enumerate(rows)], end - start

    def _read_row(self, function: str, row: int) -> Array:
        return self.session.read(function, LOGITS, row, 1)[0]


def _batch_inputs(places: Sequence[int], active: Collection[int]) -> dict[str, Any]:
    """
    Returns the inputs of a run of all slots, without the tokens.

    `places` has the number of past tokens of each slot. The slots in `active` are read.
    """
    return {
        POSITION: np.array(places, np.int32),
        PAST: max(places[slot] for slot in active),
        **{f"{PAST}_{slot}": place for slot, place in enumerate(places)},
    }


def _are_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two runs have equal inputs."""
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def common_start(one: Sequence[int], other: Sequence[int]) -> int:
    """Returns the number of equal tokens at the start of two texts."""
    shorter = min(len(one), len(other))
    if list(one[:shorter]) == list(other[:shorter]):
        return shorter
    return next(i for i in range(shorter) if one[i] != other[i])
