"""
Shows progress on standard error, if it is a terminal.

With `--progress`, a log without a terminal gets a plain line every ten seconds.
"""

from __future__ import annotations

import os
import time
from typing import TextIO

from xdsl_spirv.progress import Display

PERIOD, PLAIN_PERIOD = 0.2, 10.0
"""Seconds between two lines, on a terminal and in a log."""
WIDTH = 80
"""Assumed width of a terminal that does not report its width."""


class Line:
    """A progress line on a terminal. The line is erased before other output is written."""

    def __init__(self, stream: TextIO, period: float = PERIOD):
        self.stream, self.period = stream, period
        self.latest = -period
        self.is_shown = False

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self.latest < self.period:
            return
        self.latest = now
        width = os.get_terminal_size(self.stream.fileno()).columns or WIDTH
        shown = "".join(c if c.isprintable() else "?" for c in text)[: max(width - 1, 1)]
        self._write(f"\r\x1b[K{shown}")
        self.is_shown = True

    def clear(self) -> None:
        if self.is_shown:
            self._write("\r\x1b[K")
            self.is_shown = False

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.is_shown = False


class Log:
    """Progress as occasional lines of a log."""

    def __init__(self, stream: TextIO, period: float = PLAIN_PERIOD):
        self.stream, self.period = stream, period
        self.latest = -period

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self.latest >= self.period:
            self.latest = now
            print(text, file=self.stream, flush=True)

    def clear(self) -> None:
        """Does nothing, because lines of a log are not erased."""


def display_on(stream: TextIO) -> Display:
    """Returns a `Line` for a terminal that can erase lines, else a `Log`."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return Line(stream)
    return Log(stream)
