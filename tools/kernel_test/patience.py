"""
How long a launch may take: a kernel that does not end is a failure, and no hanging test.

A timer of the system's interrupts the main thread, where commands and pytest run tests; elsewhere,
and on systems without such a timer, the limit of executed blocks is all there is.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SOON = 1e-3
"""Seconds: a timer of others that would have rung meanwhile rings then."""


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raises `InterpreterError` in what is inside, if it takes longer."""
    from xdsl_spirv.interpreter import InterpreterError

    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise InterpreterError(
            f"the launch takes more than {seconds:g} s",
            "",
            "the kernel may not end; launch less of it, or give it more time (timeout)",
        )

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
