"""
Answers the requests of several callers concurrently.

A slot holds the states of one text. The number of slots limits the concurrently answered requests.
Other requests wait in order, and are refused if too many wait. One thread runs the models: in each
round it reads a part of one prompt, then computes one token of each answer in one run. A failed or
cancelled request does not affect other requests.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl_spirv.llm.model import Answer, LanguageModel
from xdsl_spirv.llm.sampling import Prediction, Sampling
from xdsl_spirv.llm.texts import DECODE, PREFILL, Texts, common_start


class FullError(Exception):
    """The queue of waiting requests is full."""


@dataclass(frozen=True)
class Ended:
    """The end of an answer; `reason` is `stop` or `length`."""

    reason: str
    tokens: int


Event: TypeAlias = str | Ended | Exception
"""A piece of text, the end, or an error."""


@dataclass
class Request:
    """
    The tokens of a prompt, and options for its answer.

    The models' thread calls `tell` with each event. The answer ends before the first occurrence of
    a text in `stops`.
    """

    tokens: Sequence[int]
    tell: Callable[[Event], None]
    limit: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    begins: bool = True
    stops: Sequence[str] = ()
    cancelled: bool = False
    """True if the caller has cancelled the request."""


class Stops:
    """A search for the first of several stop texts in a stream of text."""

    def __init__(self, texts: Sequence[str]):
        self._texts = texts
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """
        Appends a piece. Returns the text that is not part of a stop text, and True if a stop text
        was found. Text that may be the start of a stop text is held back.
        """
        self._held += piece
        places = [place for text in self._texts if (place := self._held.find(text)) >= 0]
        if places:
            return self._held[: min(places)], True
        may_begin = max((self._overlap(text) for text in self._texts), default=0)
        whole = self._held[: len(self._held) - may_begin]
        self._held = self._held[len(whole) :]
        return whole, False

    def finish(self) -> str:
        """Returns the text that was held back as a possible stop."""
        return self._held

    def _overlap(self, text: str) -> int:
        """Returns how many characters at the end of the held text are the start of `text`."""
        longest = min(len(text) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(text[:n])), 0)


@dataclass
class _Active:
    request: Request
    answer: Answer
    stops: Stops


@dataclass
class Counters:
    """Numbers of requests and tokens, and seconds, since the start."""

    requests: int = 0
    refused: int = 0
    cancelled: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    waited_seconds: float = 0.0
    seconds: dict[str, float] = field(default_factory=lambda: {PREFILL: 0.0, DECODE: 0.0})
    """Seconds spent in each function of the model."""


class Queue:
    """A queue of requests, and a thread that runs models for them until the queue is closed."""

    def __init__(self, models: Sequence[LanguageModel], waiting: int):
        self.models = models
        self.counters = Counters()
        self._most = waiting
        self._waiting: deque[tuple[Request, float]] = deque()
        self._active: dict[int, _Active] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="language models", daemon=True)
        self._thread.start()

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def waiting(self) -> int:
        with self._changed:
            self._drop_cancelled()
            return len(self._waiting)

    def submit(self, request: Request) -> None:
        """Appends a request to the queue. Raises `FullError` if too many requests are waiting."""
        with self._changed:
            idle = len(self.models) - self.active
            if self._closed or self.waiting >= self._most + idle:
                self.counters.refused += 1
                raise FullError
            self.counters.requests += 1
            self._waiting.append((request, time.monotonic()))
            self._changed.notify()

    def close(self) -> None:
        """Ends all answers after their current tokens."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._waiting or self._active)
                if self._closed:
                    break
                self._start_waiting()
            self._read_prompt()
            self._read_answers()
        gone = [*(r for r, _ in self._waiting), *(a.request for a in self._active.values())]
        for request in gone:
            request.tell(RuntimeError("the server is shutting down"))

    def _start_waiting(self) -> None:
        """Assigns each waiting request to the idle model that has read most of its tokens."""
        self._drop_cancelled()
        while self._waiting and self.active < len(self.models):
            request, since = self._waiting.popleft()
            self.counters.waited_seconds += time.monotonic() - since
            idle = [n for n in range(len(self.models)) if n not in self._active]
            number = max(idle, key=lambda n: common_start(self.models[n].read, request.tokens))
            try:
                answer = self.models[number].answer(
                    request.tokens, request.limit, request.sampling, begins=request.begins
                )
            except Exception as error:
                self.counters.failed += 1
                request.tell(error)
                continue
            self._active[number] = _Active(request, answer, Stops(request.stops))

    def _drop_cancelled(self) -> None:
        kept = [entry for entry in self._waiting if not entry[0].cancelled]
        self.counters.cancelled += len(self._waiting) - len(kept)
        self._waiting = deque(kept)

    def _count_left(self, number: int) -> int:
        """Returns the number of tokens that a model must read before it can choose a token."""
        answer, model = self._active[number].answer, self.models[number]
        return 0 if answer.end is not None else model.texts.count_left(model.slot, answer.text)

    def _read_prompt(self) -> None:
        number = next((n for n in self._active if self._count_left(n) > 1), None)
        if number is None or self._is_gone(number):
            return
        with self._changed:
            self._active[number] = self._active.pop(number)
        model, answer = self.models[number], self._active[number].answer
        try:
            prediction = model.texts.read_part(model.slot, answer.text, answer.work)
        except Exception as error:
            self._fail(number, error)
            return
        if prediction is not None:
            self._advance(number, prediction)

    def _read_answers(self) -> None:
        together: dict[Texts, list[int]] = {}
        for number in list(self._active):
            left = self._count_left(number)
            if self._is_gone(number) or left > 1:
                continue
            if left:
                together.setdefault(self.models[number].texts, []).append(number)
            else:
                self._advance(number, None)
        for texts, numbers in together.items():
            answers = {n: self._active[n].answer for n in numbers}
            slots = {n: self.models[n].slot for n in numbers}
            try:
                work = {slots[n]: (a.text, a.work) for n, a in answers.items()}
                # A prompt is read before the next token, and would follow a run in vain.
                goes_on = not self.waiting and all(
                    active.answer.goes_on and self._count_left(n) == 1
                    for n, active in self._active.items()
                )
                predictions = texts.read_last(work, goes_on)
            except Exception as error:
                for number in numbers:
                    self._fail(number, error)
                continue
            for number in numbers:
                self._advance(number, predictions[slots[number]])

    def _is_gone(self, number: int) -> bool:
        """True if the caller has cancelled an answer. Ends the cancelled answer."""
        if not self._active[number].request.cancelled:
            return False
        self.counters.cancelled += 1
        self._finish(number)
        return True

    def _fail(self, number: int, error: Exception) -> None:
        request = self._active[number].request
        self.counters.failed += 1
        self._finish(number)
        request.tell(error)

    def _advance(self, number: int, prediction: Prediction | None) -> None:
        active = self._active[number]
        request, answer, stops = active.request, active.answer, active.stops
        try:
            piece = answer.step(prediction)
        except Exception as error:
            self._fail(number, error)
            return
        text, stopped = stops.push(piece) if piece is not None else (stops.finish(), False)
        if text:
            request.tell(text)
        if piece is not None and not stopped:
            return
        self._finish(number)
        cut = not stopped and answer.end in ("limit", "capacity")
        request.tell(Ended("length" if cut else "stop", len(answer.tokens)))

    def _finish(self, number: int) -> None:
        with self._changed:
            answer = self._active.pop(number).answer
        self.counters.prompt_tokens += len(answer.prompt)
        self.counters.answer_tokens += len(answer.tokens)
        for function, work in answer.work.items():
            self.counters.seconds[function] += work.seconds
