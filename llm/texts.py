"""
The texts that the states of a session hold, and the runs that make them longer.

The program has the functions `prefill` (some tokens) and `decode` (one), which take the `token`s
and how many of the `past` the states hold, and give the `logits` of the token that follows, the
`likeliest` one and the `highest` logit. One compiled for several slots holds as many texts: these
take the `slot`, and `decode_batch` computes one token of each text
(`xdsl_spirv.frontends.gguf.importer`). With `verify`, a few tokens are read at once, and the logits
behind each of them are given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.llm.sampling import Prediction
from xdsl_spirv.llm.sliding import Session, SlidingSession
from xdsl_spirv.runtime.elements import Array

PREFILL, DECODE, BATCH, VERIFY = "prefill", "decode", "decode_batch", "verify"
TOKEN, PAST, LOGITS = "token", "past", "logits"
LIKELIEST, HIGHEST = "likeliest", "highest"
SLOT, POSITION = "slot", "position"

PREFILLED = 512
"""Tokens that are read at once: what kernels hand on to each other of all of them takes memory."""


@dataclass
class Work:
    """Tokens that a function has read, and the seconds that it took."""

    tokens: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Returns tokens a second."""
        return self.tokens / self.seconds if self.seconds else 0.0


Works: TypeAlias = Mapping[str, Work]
"""By function: `prefill` and `decode`."""


class Texts:
    """`read` has the tokens whose keys and values the states hold, by slot."""

    def __init__(self, session: Session, context: int, slots: int = 1):
        self.session = session
        self._sliding = session if isinstance(session, SlidingSession) else None
        self.context = context
        self.read: list[list[int]] = [[] for _ in range(slots)]
        self._lost = False
        """Whether a run has failed: the states hold nothing any more."""

    def count_left(self, slot: int, tokens: Sequence[int]) -> int:
        """Returns how many tokens of a text are still to be read: at least the last one."""
        past = min(common_start(tokens, self.read[slot]), len(tokens) - 1)
        holds = self._sliding is None or self._sliding.holds(slot, past)
        return len(tokens) - (past if holds else 0)

    def read_part(self, slot: int, tokens: Sequence[int], work: Works) -> Prediction | None:
        """
        Read the next tokens of a text, up to `PREFILLED`.

        Predicts the token that follows; None if more of the text must be read.
        """
        past = len(tokens) - self.count_left(slot, tokens)
        part = tokens[past : past + PREFILLED]
        function = DECODE if len(part) == 1 else PREFILL
        predictions, seconds = self._run(function, self._inputs(slot, part, past))
        work[function].seconds += seconds
        work[function].tokens += len(part)
        self.read[slot] = list(tokens[: past + len(part)])
        return predictions[-1] if past + len(part) == len(tokens) else None

    def read_ahead(
        self, slot: int, tokens: Sequence[int], proposals: Sequence[int], work: Works
    ) -> Sequence[Prediction]:
        """
        Read the last token of a text, whose others are read, and proposals of the next ones.

        Predicts the token behind each of them; the last token alone counts as work.
        """
        part = [tokens[-1], *proposals]
        predictions, seconds = self._run(VERIFY, self._inputs(slot, part, len(tokens) - 1))
        work[DECODE].seconds += seconds
        work[DECODE].tokens += 1
        self.read[slot] = [*tokens, *proposals]
        return predictions

    def _inputs(self, slot: int, part: Sequence[int], past: int) -> dict[str, Any]:
        inputs: dict[str, Any] = {TOKEN: np.array(part, np.int32), PAST: past}
        return inputs | {SLOT: slot} if len(self.read) > 1 else inputs

    def read_last(
        self, texts: Mapping[int, tuple[Sequence[int], Works]]
    ) -> Mapping[int, Prediction]:
        """
        Read the last token of several texts, by slot, at once; all others are read already.

        Predicts the tokens that follow.
        """
        if len(texts) == 1:
            ((slot, (tokens, work)),) = texts.items()
            prediction = self.read_part(slot, tokens, work)
            assert prediction is not None
            return {slot: prediction}
        # The other slots get a number behind the text that they hold; no run reads it.
        places = [min(len(read), self.context - 1) for read in self.read]
        token = np.zeros(len(places), np.int32)
        for slot, (tokens, _) in texts.items():
            places[slot], token[slot] = len(tokens) - 1, tokens[-1]
        inputs = {
            TOKEN: token,
            POSITION: np.array(places, np.int32),
            PAST: max(places[slot] for slot in texts),
            **{f"{PAST}_{slot}": place for slot, place in enumerate(places)},
        }
        predictions, seconds = self._run(BATCH, inputs)
        for slot, place in enumerate(places):
            del self.read[slot][place:]
        for slot, (tokens, work) in texts.items():
            self.read[slot] = list(tokens)
            work[DECODE].seconds += seconds / len(texts)
            work[DECODE].tokens += 1
        return {slot: predictions[slot] for slot in texts}

    def _run(self, function: str, inputs: Mapping[str, Any]) -> tuple[Sequence[Prediction], float]:
        """A prediction for each row of logits, and seconds; a run that failed empties all slots."""
        if self._lost:
            self.session.reset()
        start, self._lost = time.perf_counter(), True
        try:
            results = self.session.run(function, inputs, outputs=(LIKELIEST, HIGHEST))
            self._lost = False
        finally:
            if self._lost:
                self.read = [[] for _ in self.read]
        seconds = time.perf_counter() - start
        rows = zip(results[LIKELIEST].tolist(), results[HIGHEST].tolist(), strict=True)
        read = partial(self._read_row, function)
        return [Prediction(*best, partial(read, row)) for row, best in enumerate(rows)], seconds

    def _read_row(self, function: str, row: int) -> Array:
        return self.session.read(function, LOGITS, row, 1)[0]


def common_start(one: Sequence[int], other: Sequence[int]) -> int:
    """Number of equal tokens at the start of two texts."""
    shorter = min(len(one), len(other))
    if list(one[:shorter]) == list(other[:shorter]):
        return shorter
    return next(i for i in range(shorter) if one[i] != other[i])
