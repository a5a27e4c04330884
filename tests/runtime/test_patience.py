"""The time limit ends endless work and does not affect other timers."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

from xdsl_spirv.runtime.errors import LateError
from xdsl_spirv.runtime.patience import time_limit

LONG = 1000.0
"""Seconds, far longer than the test."""


def test_endless_code_is_interrupted():
    def run_for_ever() -> None:
        with time_limit(0.01, LateError("it takes more than 0.01 s")):
            while True:
                pass

    with pytest.raises(LateError, match="takes more than"):
        run_for_ever()


def test_other_timers_continue():
    """pytest-timeout's timer keeps its remaining time and its handler."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGALRM, handler)
    timer = signal.setitimer(signal.ITIMER_REAL, LONG)
    try:
        with time_limit(2 * LONG, LateError("late")):
            assert signal.getitimer(signal.ITIMER_REAL)[0] > LONG
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= LONG
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)
