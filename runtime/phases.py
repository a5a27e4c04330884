"""Measures the time that host and device spend on one run, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LOAD, HOST, DEVICE = "load", "host", "device"
"""Tracks: loading a program, a run by the host's clock, and a run by the device's clock."""


@dataclass(frozen=True)
class Phase:
    """A phase in nanoseconds. `start` is relative to the first phase of the run or load."""

    track: str
    name: str
    start: float
    nanoseconds: float
    dispatch: int | None = field(default=None, metadata={"sparse": True})

    @property
    def end(self) -> float:
        return self.start + self.nanoseconds


class HostClock:
    """Records consecutive phases of a track, by this process's clock."""

    def __init__(self, track: str):
        self.track = track
        self.phases: list[Phase] = []
        self._origin = self._start = 0
        self._name = ""

    def begin(self, name: str) -> None:
        """Ends the current phase, if there is one, and begins another."""
        now = time.perf_counter_ns()
        if self._name:
            start = float(self._start - self._origin)
            self.phases.append(Phase(self.track, self._name, start, float(now - self._start)))
        self._origin = self._origin or now
        self._name, self._start = name, now

    def end(self) -> None:
        self.begin("")


def length(phases: list[Phase]) -> float:
    """Returns the end of the last host phase, in nanoseconds."""
    return max((phase.end for phase in phases if phase.track == HOST), default=0.0)


def device_phases(
    taken: Sequence[float], steps: Sequence[tuple[int, str]], end: float, copies: bool
) -> Iterator[Phase]:
    """
    Yields consecutive phases that end at `end`: the copy of inputs, each step, the copy of outputs.

    `taken` has the nanoseconds of each phase, and `steps` the dispatch index and name of each step.
    If `copies` is False, the phases of the copies are left out.
    """
    start = end - sum(taken)
    named = [(None, "copy in"), *steps, (None, "copy out")]
    for (dispatch, name), nanoseconds in zip(named, taken, strict=True):
        if dispatch is not None or copies:
            yield Phase(DEVICE, name, start, nanoseconds, dispatch)
        start += nanoseconds
