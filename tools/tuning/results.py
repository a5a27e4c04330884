"""
What a search for schedules leaves: a line of JSON for each candidate, and the tuned table.

A schedule enters the table only if it is faster than the default by more than `MARGIN` in both of
two measurements: a table of entries that are worth nothing would keep later defaults from being
used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xdsl_spirv.passes.schedule.tuned import SCHEMA_VERSION
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.serialization.files import write_atomically

STATUSES = ("ok", "wrong", "refused", "crashed", "late", "pruned")
MARGIN = 0.03
"""How much faster than the default an entry must be."""


@dataclass(frozen=True)
class Outcome:
    """
    What came of a candidate: `status` is one of `STATUSES`.

    `microseconds` is the median of all dispatches together (`packing` the part of those that pack
    operands), `again` the same of a second measurement beside the default, of those that deserve
    one. `statistics` is what the driver says of the kernels' code where it says anything.
    """

    key: str
    schedule: str
    device: str
    status: str
    microseconds: float | None = None
    cause: str = ""
    statistics: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    packing: float | None = None
    again: float | None = None

    @property
    def right(self) -> bool:
        return self.status == "ok" and self.microseconds is not None

    @property
    def latest(self) -> float:
        """The time to compare by, of a right one."""
        return self.again or self.microseconds or 0.0


def best_of(tried: Sequence[Outcome]) -> Outcome | None:
    """The fastest right one: of those measured twice if there are any."""
    right = [one for one in tried if one.right]
    twice = [one for one in right if one.again is not None]
    return min(twice or right, key=lambda one: one.latest, default=None)


def gain_of(tried: Sequence[Outcome]) -> float | None:
    """How many times as fast as the default, which comes first, the best is, measured again."""
    best = best_of(tried)
    if best is None or not tried[0].right:
        return None
    return tried[0].latest / best.latest


def deserves_entry(tried: Sequence[Outcome], margin: float = MARGIN) -> bool:
    """Whether the best is faster than the default by more than `margin`, both times."""
    best = best_of(tried)
    if best is None:
        return False
    if not tried[0].right:
        return True
    if best.again is None or best.microseconds is None or tried[0].microseconds is None:
        return False
    times = ((tried[0].microseconds, best.microseconds), (tried[0].latest, best.again))
    return all(default > (1 + margin) * tuned for default, tuned in times)


def read_results(path: Path) -> list[Outcome]:
    """The lines of a results file that are whole; an interrupted write leaves half of one."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    results: list[Outcome] = []
    for line in lines:
        try:
            results.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def append(path: Path, outcome: Outcome) -> None:
    """Add a line; raises `ProgramError` where that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
    except OSError as error:
        raise ProgramError(
            f"cannot write the results: {error.strerror}", str(path), "name another file"
        ) from error


def write_table(
    path: Path, target: str, outcomes: Mapping[str, Sequence[Outcome]], margin: float = MARGIN
) -> dict[str, Any]:
    """
    Bring the tuned table up to date; returns its entries.

    A contraction whose best deserves it gets an entry, another one that was searched loses it, and
    those of other contractions stay. No file is made for nothing. Raises `ProgramError` for a file
    that cannot be read or written.
    """
    entries: dict[str, Any] = {}
    try:
        if path.is_file():
            entries = json.loads(path.read_text())["entries"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProgramError(
            f"not a tuned table: {error}", str(path), "name another with -o, or delete it"
        ) from error
    for key, tried in outcomes.items():
        best = best_of(tried)
        if best is None:
            continue
        entries.pop(key, None)
        if deserves_entry(tried, margin):
            entries[key] = {
                "schedule": best.schedule,
                "microseconds": best.latest,
                "default_microseconds": tried[0].latest if tried[0].right else None,
                "device": best.device,
                "candidates": len(tried),
            }
    if not entries and not path.exists():
        return entries
    table = {"schema_version": SCHEMA_VERSION, "target": target, "entries": entries}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(table, indent=2) + "\n").encode())
    except OSError as error:
        raise ProgramError(
            f"cannot write the table: {error.strerror}", str(path), "name another with -o"
        ) from error
    return entries
