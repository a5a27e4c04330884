"""
Implements speculative decoding: a draft proposes tokens, and one run of the model reads them all.

    text ... t        the draft proposes        d1 d2 d3
    one `verify`      reads t d1 d2 d3          gives the logits after each of them

The model's logits choose every token, as without a draft. A chosen proposal saves a run; after the
first proposal that is not chosen, the rest is dropped. A draft therefore changes the time of an
answer, but not its tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xdsl_spirv.frontends.errors import FrontendError
from xdsl_spirv.llm.sampling import Prediction
from xdsl_spirv.llm.texts import DECODE, PREFILL, ReadText, Texts, Work, Works

if TYPE_CHECKING:
    from xdsl_spirv.llm.prompts import Prompts

AHEAD = 4
"""Default number of tokens that a draft proposes at a time."""


def refuse_other_tokens(model: Prompts, draft: Prompts, place: str) -> None:
    """Raises `FrontendError` if the two models have different vocabularies."""
    one, other = (prompts.tokenizer.vocabulary.tokens for prompts in (model, draft))
    if list(one) == list(other):
        return
    what = f"{len(other)} tokens, but the model has {len(one)}"
    if len(one) == len(other):
        what = f"another token {next(i for i, t in enumerate(one) if t != other[i])}"
    raise FrontendError(
        f"the draft model has {what}",
        place,
        "use a draft of the same model family, with the same tokens",
    )


class Draft(Protocol):
    """Interface of a language model that proposes tokens."""

    def predict(self, tokens: Sequence[int], work: Works) -> Prediction: ...

    def drop_from(self, place: int) -> None:
        """Forgets the tokens from index `place` on. Called before these tokens change."""
        ...


class Speculation:
    """The state of speculative decoding: the draft model, and the main model's predictions."""

    def __init__(self, draft: Draft, ahead: int):
        self.draft, self.ahead = draft, ahead
        self.proposed = self.accepted = 0
        self._read = ReadText()
        """Tokens that the last run has read, including proposals."""
        self._first = 0
        """Number of tokens before the first prediction of the last run."""
        self._predictions: Sequence[Prediction] = ()

    def find(self, tokens: Sequence[int], work: Works) -> Prediction | None:
        """Returns the prediction after `tokens` if the last run has read them, else None."""
        number = len(tokens) - self._first
        if not 0 < number < len(self._predictions):
            return None
        if self._read.count_same(tokens) < len(tokens):
            return None
        self.accepted += 1
        work[DECODE].tokens += 1
        return self._predictions[number]

    def read(
        self, texts: Texts, slot: int, tokens: Sequence[int], work: Works
    ) -> Prediction | None:
        """
        Reads a text's last token, then the draft's proposals. Returns the first prediction.

        Returns None if more tokens are unread, or the context has no room for proposals. Adds
        tokens and seconds to `work`.
        """
        if texts.count_left(slot, tokens) > 1 or len(tokens) + self.ahead > texts.context:
            return None
        start = time.perf_counter()
        self._predictions, self._first = (), len(tokens)
        proposals = self._propose(tokens)
        work[DECODE].seconds += time.perf_counter() - start
        self._predictions = texts.read_ahead(slot, tokens, proposals, work)
        self.proposed += len(proposals)
        return self._predictions[0]

    def _propose(self, tokens: Sequence[int]) -> list[int]:
        text, work = self._read.tokens, {PREFILL: Work(), DECODE: Work()}
        same = self._read.count_same(tokens)
        # The draft compares this text, which is always the same list, only from its changes on.
        self.draft.drop_from(same)
        self._read.replace_from(same, tokens[same:])
        for _ in range(self.ahead):
            text.append(self.draft.predict(text, work).likeliest)
        return text[len(tokens) :]
