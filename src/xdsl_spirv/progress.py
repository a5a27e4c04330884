"""
Reports the stages of long work, and the progress of each stage.

The library reports stages, and commands decide whether to show them (`tools/progress.py`). A
thread repeats the current stage while no step is reported, as in one long pass or in a driver.
Without a display a step costs one comparison.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol, TypeVar

T = TypeVar("T")

QUIET_SECONDS = 2.0
"""Seconds that a stage must last before it is shown."""
TICK_SECONDS = 1.0
"""Seconds between two messages about the current stage."""


class Display(Protocol):
    """Interface of displays: `show` displays a line about the current stage, `clear` removes it."""

    def show(self, text: str) -> None: ...

    def clear(self) -> None: ...


class Stage:
    """A stage of work. `total` is the number of steps, or None if it is not known."""

    def __init__(self, what: str, total: int | None, ticker: Ticker | None):
        self.what, self.total, self.ticker = what, total, ticker
        self.start = 0.0 if ticker is None else ticker.clock()
        self.begun = 0
        self.detail = ""

    def step(self, detail: str = "") -> None:
        """Begins the next step, named `detail`."""
        if self.ticker is not None:
            self.begun += 1
            self.detail = detail
            self.ticker.tick()

    def text(self, seconds: float) -> str:
        count = f" {self.begun} of {self.total}" if self.total and self.begun else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.what}{count}{detail}, {seconds:.0f} s"


_SPEAKING = threading.RLock()
"""Lock for writing to a display. A fork waits for the lock, so that no line is written in part."""


class Ticker:
    """
    The open stages of a process. Shows the innermost stage that has lasted for `QUIET_SECONDS`.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic):
        self.display, self.clock = display, clock
        self.stages: list[Stage] = []
        self.shown: Stage | None = None

    def begin(self, stage: Stage) -> None:
        with _SPEAKING:
            self.stages.append(stage)

    def end(self, stage: Stage) -> None:
        with _SPEAKING:
            self.stages.remove(stage)
            if self.shown is stage:
                self.shown = None
                self.display.clear()

    def tick(self) -> None:
        """Shows the current stage, if it has lasted long enough."""
        with _SPEAKING:
            now = self.clock()
            lasting = [stage for stage in self.stages if now - stage.start >= QUIET_SECONDS]
            if lasting:
                self.shown = lasting[-1]
                self.display.show(self.shown.text(now - self.shown.start))


_TICKER: ContextVar[Ticker | None] = ContextVar("ticker", default=None)


@contextmanager
def stage(what: str, total: int | None = None) -> Generator[Stage]:
    """Marks the `with` block as the stage `what`, whose `step` reports each step."""
    ticker = _TICKER.get()
    begun = Stage(what, total, ticker)
    if ticker is None:
        yield begun
        return
    ticker.begin(begun)
    try:
        yield begun
    finally:
        ticker.end(begun)


def noted(what: str, items: Sequence[T], name: Callable[[T], str] = str) -> Generator[T]:
    """Yields the items, and reports each as a step of the stage `what`."""
    with stage(what, len(items)) as progress:
        for item in items:
            progress.step(name(item))
            yield item


@contextmanager
def heard_by(ticker: Ticker | None) -> Generator[None]:
    """Reports the stages of the `with` block to a ticker. With None, the block reports nothing."""
    token = _TICKER.set(ticker)
    try:
        yield
    finally:
        _TICKER.reset(token)


@contextmanager
def shown_on(display: Display | None) -> Generator[None]:
    """
    Shows all stages of the `with` block on a display, at least once a second.

    None shows nothing.
    """
    if display is None:
        with heard_by(None):
            yield
        return
    _guard_forks()
    ticker, ended = Ticker(display), threading.Event()
    thread = threading.Thread(target=_tick_until, args=(ticker, ended), daemon=True)
    thread.start()
    try:
        with heard_by(ticker):
            yield
    finally:
        ended.set()
        thread.join()


def _tick_until(ticker: Ticker, ended: threading.Event) -> None:
    while not ended.wait(TICK_SECONDS):
        ticker.tick()


@cache
def _guard_forks() -> None:
    """Stops reports in processes that are forked later, because their parent reports."""

    def be_silent() -> None:
        _SPEAKING.release()
        _TICKER.set(None)

    os.register_at_fork(
        before=_SPEAKING.acquire, after_in_parent=_SPEAKING.release, after_in_child=be_silent
    )
