"""
Limits the time of foreign code: a kernel, a template.

A timer of the system's interrupts the main thread, where commands and pytest run; elsewhere, and on
systems without such a timer, there is no limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SOON = 1e-3
"""Delay in seconds after which a pending timer of others fires."""


@contextmanager
def time_limit(seconds: float, late: Exception) -> Generator[None]:
    """Raises `late` inside if the block takes longer."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise late

    before = signal.signal(signal.SIGALRM, interrupt)
    start = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # pytest-timeout's, for one.
            left = max(left - (time.monotonic() - start), SOON)
            signal.setitimer(signal.ITIMER_REAL, left, interval)
