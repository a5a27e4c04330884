"""Answers prompts with a language model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from xdsl_spirv.llm.prompts import Prompt, Prompts
from xdsl_spirv.llm.sampling import Prediction, Sampler, Sampling
from xdsl_spirv.llm.speculation import AHEAD, Speculation
from xdsl_spirv.llm.texts import DECODE, PREFILL, Session, Texts, Work, Works
from xdsl_spirv.runtime.errors import ProgramError

End = Literal["stop", "limit", "capacity", "interrupted"]
"""Reason for the end of an answer: an end token, a limit, the context, or the caller."""


class LanguageModel:
    """
    A language model that answers prompts.

    The states retain the last text: for a text with the same start, only the rest is computed.
    Several models may share a `Texts`, in which each has its own slot. With `speculation`, a draft
    model proposes tokens, and one run of this model reads all of them.
    """

    def __init__(
        self,
        prompts: Prompts,
        session: Session | Texts,
        context: int,
        slot: int = 0,
        speculation: Speculation | None = None,
    ):
        self.prompts = prompts
        self.speculation = speculation
        self.texts = session if isinstance(session, Texts) else Texts(session, context)
        self.context = context
        self.slot = slot

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        device: str | None = None,
        *,
        context: int | None = None,
        target: str | None = None,
        kept: bool = True,
        jobs: int | None = None,
        draft: str | os.PathLike[str] | None = None,
        ahead: int = AHEAD,
        kv_type: str = "f16",
    ) -> LanguageModel:
        """
        Loads the model of a GGUF file on a device: `interpreter`, `vulkan` (the best device), or
        `vulkan:N`.

        - `context`: number of tokens for which there is room
        - `kept`: cache the compiled program on disk (`xdsl_spirv.compiler.kept`)
        - `draft`: file of a smaller model, which proposes `ahead` tokens at a time
        - `kv_type`: type of stored keys and values (f16, f8E4M3FN, f8E5M2, i8)

        Raises `FrontendError`, `ProgramError` and `TargetError`.
        """
        from xdsl_spirv.llm.loading import ModelFile, find_place

        file, place = ModelFile.read(path, context, kv_type), find_place(device, target)
        small = None if draft is None else file.read_draft(draft, ahead)
        file.refuse_beyond(place, beside=small)
        speculation, beside = None, ()
        if small is not None:
            beside = (small.program(place, lambda _: None, kept=kept, jobs=jobs),)
            texts = small.texts(beside[0].session(place.device))
            model = LanguageModel(small.prompts, texts, small.context)
            speculation = Speculation(model, ahead)
        ahead = ahead if speculation else 0
        program = file.program(
            place, lambda _: None, kept=kept, jobs=jobs, ahead=ahead, beside=beside
        )
        texts = file.texts(program.session(place.device))
        return LanguageModel(file.prompts, texts, file.context, speculation=speculation)

    def generate(
        self,
        prompt: Prompt,
        *,
        system: str | None = None,
        raw: bool = False,
        max_tokens: int | None = None,
        sampling: Sampling | None = None,
    ) -> Answer:
        """
        Answers a prompt. Returns an iterator over the pieces of text, as they are computed.

        `prompt` is the user's message or a conversation, and `system` a message before it. With
        `raw`, the prompt is text to continue, without the chat template. Raises `FrontendError` or
        `ProgramError` for an impossible prompt or option, before anything is computed.
        """
        tokens = self.prompts.encode(prompt, self.context, system=system, raw=raw)
        if max_tokens is not None and max_tokens < 1:
            raise ProgramError(f"max_tokens is {max_tokens}", "generate", "give at least 1")
        return self.answer(tokens, max_tokens, sampling or Sampling(), begins=not raw)

    def answer(
        self, prompt: Sequence[int], limit: int | None, sampling: Sampling, *, begins: bool
    ) -> Answer:
        """
        Returns an answer to the tokens of a prompt, with at most `limit` tokens.

        `begins` is False if the answer continues the prompt's text. It then keeps a space at its
        start.
        """
        return Answer(self, prompt, limit, Sampler(sampling), begins=begins)

    @property
    def read(self) -> Sequence[int]:
        """The tokens that the model has processed: the states hold their keys and values."""
        return self.texts.read[self.slot].tokens

    def predict(self, tokens: Sequence[int], work: Works, goes_on: bool = False) -> Prediction:
        """
        Predicts the token after `tokens`. Adds the tokens and seconds of the runs to `work`.

        Set `goes_on` if you will probably choose the likeliest token and predict one more token:
        the device then starts the next run at once.
        """
        prediction = None
        if self.speculation is not None:
            prediction = self.speculation.find(tokens, work)
        if self.speculation is not None and prediction is None:
            prediction = self.speculation.read(self.texts, self.slot, tokens, work)
        while prediction is None:
            prediction = self.texts.read_part(self.slot, tokens, work, goes_on)
        return prediction

    def drop_from(self, place: int) -> None:
        """Forgets the read tokens from index `place` on."""
        self.texts.read[self.slot].replace_from(place, ())


class Answer(Iterator[str]):
    """
    An iterator over the text of an answer, in whole characters.

    `tokens` has the answer's tokens so far. `work` has the numbers of tokens and seconds by
    function. `end` is the reason for the end, or None before the end.
    """

    def __init__(
        self,
        model: LanguageModel,
        prompt: Sequence[int],
        limit: int | None,
        sampler: Sampler,
        *,
        begins: bool,
    ):
        self.prompt = tuple(prompt)
        self.tokens: list[int] = []
        self.text = [*prompt]
        """The tokens of the prompt and the answer. Tokens are only appended."""
        self.end: End | None = None
        self.work = {PREFILL: Work(), DECODE: Work()}
        self.seed = sampler.seed
        self._model = model
        self._limit = limit
        self._sampler = sampler
        self._stream = model.prompts.tokenizer.stream(begins=begins)
        self._prediction: Prediction | None = None
        self._pieces = self._generate()

    def __next__(self) -> str:
        return next(piece for piece in self._pieces if piece)

    @property
    def goes_on(self) -> bool:
        """True if decoding is greedy and the limit allows more than one further token."""
        return self._sampler.is_greedy and len(self.tokens) + 1 != self._limit

    def step(self, prediction: Prediction | None = None) -> str | None:
        """
        Computes one more token. Returns the text that the token completes (maybe empty), or None
        at the end.

        If a `prediction` is given, chooses the token from it and runs nothing.
        """
        self._prediction = prediction
        return next(self._pieces, None)

    def interrupt(self) -> None:
        """Ends the answer after the current token."""
        self.end = "interrupted"

    def _generate(self) -> Iterator[str]:
        while self.end is None:
            yield self._stream.push(token) if (token := self._next()) is not None else ""
        yield self._stream.finish()

    def _next(self) -> int | None:
        prediction = self._prediction or self._model.predict(self.text, self.work, self.goes_on)
        self._prediction = None
        token = self._sampler.choose(prediction)
        if token in self._model.prompts.tokenizer.vocabulary.stops:
            self.end = "stop"
            return None
        self.tokens.append(token)
        self.text.append(token)
        # Does not overwrite an interruption.
        if len(self.tokens) == self._limit:
            self.end = self.end or "limit"
        elif len(self.prompt) + len(self.tokens) > self._model.context:
            self.end = self.end or "capacity"
        return token
