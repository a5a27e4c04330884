"""
What takes long, while it lasts: stages, and how far each of them is.

The library says where it is; whether anybody hears of it is the command's affair
(`tools/progress.py`). Without a listener a step costs one comparison.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")

QUIET_SECONDS = 2.0
"""A stage says nothing before it has taken so long."""


class Display(Protocol):
    """Who hears of it: a line for the stage that is at work, and that it has ended."""

    def show(self, text: str) -> None: ...

    def clear(self) -> None: ...


_DISPLAY: ContextVar[Display | None] = ContextVar("display", default=None)


class Stage:
    """Something that takes time, of `total` steps where the number is known."""

    def __init__(self, what: str, total: int | None, display: Display | None):
        self.what, self.total, self.display = what, total, display
        self.start = time.monotonic()
        self.begun = 0
        self.detail = ""

    def step(self, detail: str = "") -> None:
        """The next step begins, which `detail` names."""
        if self.display is not None:
            self.begun += 1
            self.detail = detail
            self.tick()

    def tick(self) -> None:
        """It still lasts."""
        seconds = time.monotonic() - self.start
        if self.display is not None and seconds >= QUIET_SECONDS:
            count = f" {self.begun} of {self.total}" if self.total and self.begun else ""
            detail = f" ({self.detail})" if self.detail else ""
            self.display.show(f"{self.what}{count}{detail}, {seconds:.0f} s")


@contextmanager
def stage(what: str, total: int | None = None) -> Generator[Stage]:
    """Within, `what` is being done: `step` and `tick` of the stage say how far it is."""
    display = _DISPLAY.get()
    try:
        yield Stage(what, total, display)
    finally:
        if display is not None:
            display.clear()


def noted(what: str, items: Sequence[T], name: Callable[[T], str] = str) -> Generator[T]:
    """The items, each a step of a stage that is called so."""
    with stage(what, len(items)) as progress:
        for item in items:
            progress.step(name(item))
            yield item


@contextmanager
def shown_on(display: Display | None) -> Generator[None]:
    """Within, a display hears of all stages; None: nobody does."""
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        _DISPLAY.reset(token)


def silence() -> None:
    """From here on nobody hears: for a fork, whose parent speaks."""
    _DISPLAY.set(None)
