"""Reads and writes files of measured times, for `run --profile` and `explain --profile`."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.manifest import Dispatch, from_json, to_json
from xdsl_spirv.runtime.phases import Phase

SCHEMA = "xdsl-spirv-times"
VERSIONS = (1, 2)
"""Supported versions of the file. Version 2 added times of the host."""

MOST_BYTES = 1 << 28
"""Maximum size of a file of times, in bytes."""

REMEDY = "write the file with run --time 20 --profile FILE"


@dataclass(frozen=True)
class DispatchTime:
    """The times of a dispatch, one per run."""

    kernel: str
    entry_point: str
    nanoseconds: tuple[float, ...]


@dataclass(frozen=True)
class RunTimes:
    """The contents of a file of times."""

    schema: str
    version: int
    device: str
    dispatches: tuple[DispatchTime, ...]
    phases: tuple[Phase, ...] = field(default=(), metadata={"sparse": True})
    """Phases of a run with its copies; empty if they were not measured."""


@dataclass(frozen=True)
class Measured:
    """Median seconds of each dispatch on `device`, and the phases of a run with its copies."""

    seconds: list[float]
    device: str
    phases: tuple[Phase, ...] = ()


def times_json(
    device: str, dispatches: Sequence[DispatchTime], phases: Sequence[Phase] = ()
) -> str:
    """
    Returns the JSON text of a file of times: the times of each dispatch, and the phases of a run.
    """
    record = RunTimes(SCHEMA, VERSIONS[-1], device, tuple(dispatches), tuple(phases))
    return json.dumps(to_json(record), indent=1) + "\n"


def read_times(path: str, dispatches: Sequence[Dispatch]) -> Measured:
    """
    Reads a file of times.

    Raises `ProgramError` for a file of another kind, or with the times of another program.
    """
    times = _read(path)
    launched = [(d.kernel, d.entry_point) for d in dispatches]
    timed = [(d.kernel, d.entry_point) for d in times.dispatches]
    if launched != timed:
        raise ProgramError(
            f"the file has times for {len(timed)} dispatches of another program: this program has "
            f"{len(launched)} dispatches",
            path,
            "measure the program again with run --profile",
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
