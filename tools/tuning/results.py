"""
Represents the outcomes of a search, reads them from a store, and writes the tuned table.

Times are relative to the reference, which is measured before and after each candidate on the same
device. Outcomes of other devices and drivers are not used. If the reference's time is unusual
(another clock or load), the candidate is measured again. A schedule enters the table only if it is
faster than the default by more than `MARGIN` in two measurements, because an entry without a real
gain would hide later improvements of the default.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from xdsl_spirv.jobs.job import STATUSES as RESULTS
from xdsl_spirv.jobs.job import Result
from xdsl_spirv.jobs.store import Record
from xdsl_spirv.passes.schedule.tuned import SCHEMA_VERSION
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.serialization.files import write_atomically

PRUNED, UNMEASURED = "pruned", "not measured"
STATUSES = (*RESULTS, PRUNED, UNMEASURED)
MARGIN = 0.03
"""Minimum gain of a table entry over the default, as a fraction."""
ESTIMATED_MARGIN = 0.25
"""Minimum gain of a table entry if times are estimated, as a fraction."""
UNSTEADY = 0.05
"""Maximum relative change of the reference's time during a reliable measurement."""
OTHER_CLOCK = 0.25
"""Maximum relative distance of the reference's time from its median under usual conditions."""


@dataclass(frozen=True)
class Outcome:
    """
    The outcome of a candidate; `status` is one of `STATUSES`.

    `microseconds` is the median time of all dispatches over `runs` runs. It includes the time
    `packing`, in which operands are packed. `reference` is the default schedule's time, which
    changed by the fraction `drift`. `again` is the time relative to the default's in a second
    measurement, and `again_beside` is the default's time in that measurement. `statistics`
    describe the kernels' machine code.
    """

    key: str
    schedule: str
    device: str
    driver: str
    status: str
    microseconds: float = 0.0
    reference: float = 0.0
    runs: int = 0
    drift: float = 0.0
    cause: str = ""
    statistics: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    packing: float = 0.0
    again: float | None = None
    again_beside: float = 0.0
    at: float = 0.0
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    estimated: bool = False
    """True if the time is estimated from machine code, not measured."""

    @property
    def right(self) -> bool:
        return self.status == "ok" and self.microseconds > 0

    @property
    def steady(self) -> bool:
        return abs(self.drift) <= UNSTEADY

    @property
    def ratio(self) -> float:
        """
        Time relative to the default schedule's time in the first measurement.

        If the default's time changed during the measurement, the shorter time is used.
        """
        if not self.reference:
            return self.microseconds
        shorter = 1.0 if self.steady else 2 * min(1.0, 1 + self.drift) / (2 + self.drift)
        return self.microseconds / (self.reference * shorter)

    @property
    def latest(self) -> float:
        """Time divided by the default schedule's time, in the latest measurement."""
        return self.again or self.ratio


def outcome_of(data: Mapping[str, Any], result: Result, at: float = 0.0) -> Outcome:
    """Makes an outcome from a measurement job's data and result."""
    value: Mapping[str, Any] = result.value or {}
    known = {name: value[name] for name in VALUES if name in value}
    pruned = value.get("pruned", "")
    return Outcome(
        data["contraction"],
        data["schedule"],
        result.device,
        result.driver,
        PRUNED if pruned else result.status,
        runs=data["runs"],
        cause=pruned or result.cause,
        at=at,
        **known,
    )


VALUES = ("microseconds", "reference", "drift", "statistics", "packing", "digests")
"""Fields of an outcome that a measurement job returns."""


def is_usual(reference: float, clock: float) -> bool:
    """True if the reference took about its median time `clock`: clock and load are usual."""
    return not clock or abs(reference / clock - 1) <= OTHER_CLOCK


def clock_of(outcomes: Iterable[Outcome]) -> float:
    """Returns the median time of the reference over the outcomes of a contraction."""
    times = [outcome.reference for outcome in outcomes if outcome.right]
    return median(times) if times else 0.0


@dataclass
class Known:
    """
    Stored outcomes of a device and driver, by contraction, schedule and measurement.

    For each schedule, the outcome with the most runs is used, preferably under usual clock and
    load. `unusual` are outcomes under unusual clock or load.
    """

    outcomes: dict[tuple[str, str, int], Outcome] = field(
        default_factory=dict[tuple[str, str, int], Outcome]
    )
    clocks: dict[str, float] = field(default_factory=dict[str, float])
    """Median time of each contraction's reference."""
    unusual: list[Outcome] = field(default_factory=list[Outcome])
    anew: set[str] = field(default_factory=set[str])
    """Keys of the jobs to measure again, because their outcomes are in `unusual`."""

    @staticmethod
    def of(records: Iterable[Record], device: str, driver: str) -> Known:
        """Returns the outcomes of a device and driver in a store."""
        groups: dict[str, list[tuple[Record, Outcome]]] = defaultdict(list)
        for record in records:
            if (record.result.device, record.result.driver) == (device, driver):
                outcome = outcome_of(record.data, record.result, record.at)
                groups[outcome.key].append((record, outcome))
        known = Known()
        for key, group in groups.items():
            clock = known.clocks[key] = clock_of(outcome for _, outcome in group)
            # The default comes first.
            group.sort(key=lambda pair: pair[0].data.get("reference") is not None)
            for record, outcome in group:
                if outcome.right and record.data.get("reference") is None:
                    scale = clock / outcome.reference if outcome.reference else 1.0
                    outcome = replace(
                        outcome, microseconds=outcome.microseconds * scale, reference=clock
                    )
                known.add(record.data["turn"], outcome, record.key)
        return known

    def is_usual(self, outcome: Outcome) -> bool:
        """True if clock and load were usual during a measurement."""
        return not outcome.right or is_usual(outcome.reference, self.clocks.get(outcome.key, 0.0))

    def add(self, turn: int, outcome: Outcome, job: str = "") -> None:
        """
        Stores an outcome, unless a better outcome of the same measurement is stored. `job` is the
        key of the job that measured it, and `turn` the number of the measurement.
        """
        if not self.is_usual(outcome):
            self.unusual.append(outcome)
            self.anew.add(job)
        place = outcome.key, outcome.schedule, turn
        other = self.outcomes.get(place)
        if other is None or self._weight(other) <= self._weight(outcome):
            self.outcomes[place] = outcome

    def _weight(self, outcome: Outcome) -> tuple[bool, int]:
        return self.is_usual(outcome), outcome.runs

    def find(
        self, key: str, schedule: str, runs: int, turn: int, unusual: bool = False
    ) -> Outcome | None:
        """
        Returns the outcome of measurement `turn` of a candidate, if it had at least `runs` runs or
        wrong results.

        Outcomes under unusual clock or load are returned only if `unusual` is true.
        """
        outcome = self.outcomes.get((key, schedule, turn))
        if outcome is None or (outcome.right and outcome.runs < runs):
            return None
        return outcome if unusual or self.is_usual(outcome) else None

    def of_contraction(self, key: str) -> dict[str, Outcome]:
        """Returns the outcomes of a contraction by schedule, including second measurements."""
        return {
            schedule: confirmed(outcome, self.outcomes.get((key, schedule, 1)))
            for (other, schedule, turn), outcome in self.outcomes.items()
            if other == key and not turn
        }

    def told(self) -> Iterator[str]:
        """Yields a line about each unusual outcome."""
        for one in self.unusual:
            reference, clock = one.reference, self.clocks[one.key]
            yield (
                f"{one.key}: measured while the default took {reference:.2f} us; its "
                f"median is {clock:.2f} us: {one.schedule}"
            )


def best_of(tried: Sequence[Outcome]) -> Outcome | None:
    """Returns the fastest correct outcome, preferably among outcomes that were measured twice."""
    right = [one for one in tried if one.right]
    twice = [one for one in right if one.again is not None]
    return min(twice or right, key=lambda one: one.latest, default=None)


def gain_of(tried: Sequence[Outcome]) -> float | None:
    """Returns the default's time divided by the best time; `tried` begins with the default."""
    best = best_of(tried)
    if best is None or not tried[0].right:
        return None
    return tried[0].latest / best.latest


def time_of(tried: Sequence[Outcome]) -> float:
    """Returns the best candidate's microseconds, derived from the default's time if possible."""
    best, gain = best_of(tried), gain_of(tried)
    if best is None:
        return 0.0
    return tried[0].microseconds / gain if gain else best.microseconds


def deserves_entry(tried: Sequence[Outcome], margin: float = MARGIN) -> bool:
    """True if the best schedule beats the default by more than `margin` in two measurements."""
    best = best_of(tried)
    if best is None or not best.steady:
        return False
    clock = clock_of(tried)
    if not all(is_usual(time or clock, clock) for time in (best.reference, best.again_beside)):
        return False
    if not tried[0].right:
        return True
    if best.again is None:
        return False
    margin = ESTIMATED_MARGIN if best.estimated else margin
    times = ((tried[0].ratio, best.ratio), (tried[0].latest, best.again))
    return all(default > (1 + margin) * tuned for default, tuned in times)


def confirmed(outcome: Outcome, second: Outcome | None) -> Outcome:
    """Returns an outcome; adds the ratio of the second measurement if that one is correct."""
    if second is None or not second.right:
        return outcome
    return replace(outcome, again=second.ratio, again_beside=second.reference)


def entry_of(tried: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the table entry of a contraction: its schedule and the measurements."""
    best = best_of(tried)
    assert best is not None
    default = tried[0].microseconds if tried[0].right else None
    code = {"estimated": True, "code": str(heaviest(best.statistics))} if best.estimated else {}
    return code | {
        "schedule": best.schedule,
        "microseconds": round(time_of(tried), 3),
        "default_microseconds": default and round(default, 3),
        "gain": [round(tried[0].ratio / one, 4) for one in (best.ratio, best.again) if one]
        if default
        else None,
        "device": best.device,
        "driver": best.driver,
        "candidates": len(tried),
    }


def write_table(
    path: Path, target: str, outcomes: Mapping[str, Sequence[Outcome]], margin: float = MARGIN
) -> dict[str, Any]:
    """
    Updates the tuned table, and returns its entries.

    A contraction in `outcomes` gets an entry if its best schedule beats the default by more than
    `margin`, and loses it otherwise. Other entries do not change; an estimate does not replace a
    measured entry. A table without entries is not written. Raises `ProgramError` if the file cannot
    be read or written.
    """
    entries: dict[str, Any] = {}
    try:
        if path.is_file():
            entries = json.loads(path.read_text())["entries"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ProgramError(
            f"the file is not a tuned table: {error}",
            str(path),
            "choose another file with -o, or delete the file",
        ) from error
    for key, tried in outcomes.items():
        best = best_of(tried)
        measured = key in entries and not entries[key].get("estimated")
        if best is None or (best.estimated and measured):
            continue
        entries.pop(key, None)
        if deserves_entry(tried, margin):
            entries[key] = entry_of(tried)
    if not entries and not path.exists():
        return entries
    table = {"schema_version": SCHEMA_VERSION, "target": target, "entries": entries}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(table, indent=2) + "\n").encode())
    except OSError as error:
        raise ProgramError(
            f"cannot write the table: {error.strerror}", str(path), "name another file with -o"
        ) from error
    return entries
