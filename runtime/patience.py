"""
Limits the time of code that might never end, such as a kernel or a template.

A system timer interrupts the main thread, in which commands and pytest run. On other threads, and
on systems without such a timer, there is no limit.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SOON = 1e-3
"""Seconds after which another module's timer fires, if it expired inside the `with` block."""


@contextmanager
def time_limit(seconds: float, late: Exception) -> Generator[None]:
    """Raises `late` inside the `with` block if the block runs for more than `seconds`."""
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
        if left:  # Another timer, such as pytest-timeout's.
            left = max(left - (time.monotonic() - start), SOON)
            signal.setitimer(signal.ITIMER_REAL, left, interval)
