"""
Times of a run in a file: `run --time N --profile FILE` writes them, `explain --profile FILE` shows.

So a program is timed where the device is and looked at elsewhere.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Dispatch
from xdsl_spirv.runtime.records import from_json, to_json

SCHEMA = "xdsl-spirv-times"
VERSION = 1

MOST_BYTES = 1 << 28
"""Of a file of times."""

REMEDY = "write it with run --time 20 --profile FILE"


@dataclass(frozen=True)
class DispatchTime:
    """What a dispatch took in each run."""

    kernel: str
    entry_point: str
    nanoseconds: tuple[float, ...]


@dataclass(frozen=True)
class RunTimes:
    """The contents of the file: a dispatch after the other, on the device of that name."""

    schema: str
    version: int
    device: str
    dispatches: tuple[DispatchTime, ...]


def times_json(device: str, dispatches: Sequence[DispatchTime]) -> str:
    """The file's contents."""
    record = RunTimes(SCHEMA, VERSION, device, tuple(dispatches))
    return json.dumps(to_json(record), indent=1) + "\n"


def read_times(path: str, dispatches: Sequence[Dispatch]) -> tuple[list[float], str]:
    """
    The median seconds of each dispatch, and the device's name.

    Raises `ProgramError` for a file that is none, or is of another program's dispatches.
    """
    times = _read(path)
    launched = [(d.kernel, d.entry_point) for d in dispatches]
    timed = [(d.kernel, d.entry_point) for d in times.dispatches]
    if launched != timed:
        raise ProgramError(
            f"the times are of {len(timed)} other dispatches; the program has {len(launched)}",
            path,
            "time the same program for the same target",
        )
    for dispatch in times.dispatches:
        if not dispatch.nanoseconds or not all(0 <= t < inf for t in dispatch.nanoseconds):
            raise ProgramError(f"no times of {dispatch.entry_point!r}", path, REMEDY)
    seconds = [statistics.median(d.nanoseconds) / 1e9 for d in times.dispatches]
    return seconds, times.device


def _read(path: str) -> RunTimes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        value = json.loads(data) if len(data) <= MOST_BYTES else None
    except OSError as error:
        raise ProgramError(f"cannot read the times: {error.strerror}", path, REMEDY) from error
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"not JSON: {error}", path, REMEDY) from error
    try:
        times = from_json(RunTimes, value, path)
    except ProgramError as error:
        raise ProgramError(error.cause, error.place, REMEDY) from None
    if (times.schema, times.version) != (SCHEMA, VERSION):
        raise ProgramError(f"expected the schema {SCHEMA!r}, version {VERSION}", path, REMEDY)
    return times
