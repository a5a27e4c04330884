"""
Files with the times of a run: `run --time N --profile FILE` writes them, `explain --profile FILE`
shows them.

So a program can be timed on one machine and examined on another.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import from_json, to_json
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.runtime.program import Dispatch

SCHEMA = "xdsl-spirv-times"
VERSIONS = (1, 2)
"""Supported versions. Version 2 added the host's times; version 1 is still read."""

MOST_BYTES = 1 << 28
"""Largest file of times, in bytes."""

REMEDY = "write it with run --time 20 --profile FILE"


@dataclass(frozen=True)
class DispatchTime:
    """The times of a dispatch, one for each run."""

    kernel: str
    entry_point: str
    nanoseconds: tuple[float, ...]


@dataclass(frozen=True)
class RunTimes:
    """The contents of the file: the times of each dispatch, in order, on `device`."""

    schema: str
    version: int
    device: str
    dispatches: tuple[DispatchTime, ...]
    phases: tuple[Phase, ...] = field(default=(), metadata={"sparse": True})
    """Phases of a run with its copies; empty if none was measured."""


@dataclass(frozen=True)
class Measured:
    """
    The median seconds of each dispatch, the device that was measured, and a run with its copies.
    """

    seconds: list[float]
    device: str
    phases: tuple[Phase, ...] = ()


def times_json(
    device: str, dispatches: Sequence[DispatchTime], phases: Sequence[Phase] = ()
) -> str:
    """Returns the file's contents."""
    record = RunTimes(SCHEMA, VERSIONS[-1], device, tuple(dispatches), tuple(phases))
    return json.dumps(to_json(record), indent=1) + "\n"


def read_times(path: str, dispatches: Sequence[Dispatch]) -> Measured:
    """
    Reads the times in a file.

    Raises `ProgramError` for another kind of file, or for times of another program.
    """
    times = _read(path)
    launched = [(d.kernel, d.entry_point) for d in dispatches]
    timed = [(d.kernel, d.entry_point) for d in times.dispatches]
    if launched != timed:
        raise ProgramError(
            f"the times are for {len(timed)} different dispatches; the program has {len(launched)}",
            path,
            "time the same program for the same target",
        )
    for dispatch in times.dispatches:
        if not dispatch.nanoseconds or not all(0 <= t < inf for t in dispatch.nanoseconds):
            raise ProgramError(f"the file has no times for {dispatch.entry_point!r}", path, REMEDY)
    for phase in times.phases:
        if not (-inf < phase.start < inf and 0 <= phase.nanoseconds < inf):
            raise ProgramError(f"the file has no time for {phase.name!r}", path, REMEDY)
        if phase.dispatch is not None and not 0 <= phase.dispatch < len(launched):
            raise ProgramError(f"the program has no dispatch {phase.dispatch}", path, REMEDY)
    seconds = [statistics.median(d.nanoseconds) / 1e9 for d in times.dispatches]
    return Measured(seconds, times.device, times.phases)


def _read(path: str) -> RunTimes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        value = json.loads(data) if len(data) <= MOST_BYTES else None
    except OSError as error:
        raise ProgramError(f"cannot read the times: {error.strerror}", path, REMEDY) from error
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"the file is not JSON: {error}", path, REMEDY) from error
    try:
        times = from_json(RunTimes, value, path)
    except ProgramError as error:
        raise ProgramError(error.cause, error.place, REMEDY) from None
    if times.schema != SCHEMA or times.version not in VERSIONS:
        known = f"version {VERSIONS[0]} or {VERSIONS[-1]}"
        raise ProgramError(f"expected the schema {SCHEMA!r}, {known}", path, REMEDY)
    return times
