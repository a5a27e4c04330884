"""Supplies a search with measurements, from devices or from a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import GPU, KINDS, Job, Kind, Result
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.proposals import Measured, Proposals, Tried, subject_data, subject_from
from xdsl_spirv.tools.tuning.results import UNMEASURED, Known, Outcome, outcome_of
from xdsl_spirv.tools.tuning.search import STEP, Bench, Options

LIST, PROPOSE, COMPILE = "tune-list", "tune-propose", "tune-compile"
EXPECT, LOAD, MEASURE = "tune-expect", "tune-load", "tune-measure"
KINDS[LIST] = Kind("xdsl_spirv.tools.tuning.kinds:list_contractions")
KINDS[PROPOSE] = Kind("xdsl_spirv.tools.tuning.kinds:propose_candidates")
KINDS[COMPILE] = Kind("xdsl_spirv.tools.tuning.kinds:compile_candidate")
KINDS[EXPECT] = Kind("xdsl_spirv.tools.tuning.kinds:expect")
KINDS[LOAD] = Kind("xdsl_spirv.tools.tuning.kinds:load_ahead")
KINDS[MEASURE] = Kind("xdsl_spirv.tools.tuning.kinds:measure", measured=True)

CORE_SECONDS = 120.0
"""Time limit for compiling a candidate or computing a proposal, in seconds."""


def source_data(source: Source) -> dict[str, Any]:
    return {
        "text": source.text,
        "target": source.target,
        "contraction": source.key,
        "weights": list(source.weights),
    }


@dataclass
class DeviceBench(Bench):
    """Compiles candidates of a contraction on processor cores, and measures them on a device."""

    engine: Engine
    resource: str
    options: Options
    store: Store | None = None
    known: Known = field(default_factory=Known)
    compiled: dict[str, Mapping[str, Any] | Result] = field(
        default_factory=dict[str, "Mapping[str, Any] | Result"]
    )
    default: str | None = None
    default_is_right: bool = False
    first: Proposals | None = None
    """The candidates of the first step, if they were prepared."""

    def prepare(self, source: Source) -> None:
        """Proposes and compiles the candidates of the first step."""
        count = min(STEP, self.options.most)
        self.first = self.propose(source, [], [], count, self.options.most)
        known = (self.known.find(source.key, s, 0, 0) for s in self.first.subjects)
        unknown = [s for s, one in zip(self.first.subjects, known, strict=True) if one is None]
        for schedule in self._loading(source, unknown):
            if schedule == next(iter(self.first.subjects)):
                data = {**source_data(source), **self._work(schedule)}
                list(self.engine.run([_exact(data)], self.store))

    def propose(
        self,
        source: Source,
        tried: Sequence[Tried],
        learned: Sequence[Measured],
        count: int,
        most: int,
    ) -> Proposals:
        if self.first is not None and not tried:
            return self.first
        data = source_data(source) | {
            "tried": [[t.schedule, t.seconds, t.runs] for t in tried],
            "learned": [[subject_data(s), seconds, runs] for s, seconds, runs in learned],
            "count": count,
            "most": most,
        }
        value = self._value(Job(PROPOSE, data, seconds=CORE_SECONDS))
        subjects = {name: subject_from(s) for name, s in value["subjects"]}
        return Proposals(subjects, value["expected_gain"])

    def _value(self, job: Job) -> Any:
        """Runs a job and returns its value. Raises `ProgramError` if the job fails."""
        for _, result in self.engine.run([job]):
            if not result.ok:
                raise ProgramError(f"the job {job.kind!r} failed ({result.status}): {result.cause}")
            return result.value
        raise ProgramError(
            f"the job {job.kind!r} ended without a result", "", "run the command again"
        )

    def measure(
        self, source: Source, schedules: Sequence[str], runs: int, turn: int = 0
    ) -> list[Outcome]:
        if self.default is None:
            self.default = schedules[0]
        outcomes: dict[str, Outcome] = {}
        unknown: list[str] = []
        for schedule in schedules:
            outcome = self.known.find(source.key, schedule, runs, turn)
            if outcome is None:
                unknown.append(schedule)
            else:
                outcomes[schedule] = outcome
        if self.default in unknown and not turn:
            outcomes[self.default] = self._first(source, runs)
            unknown.remove(self.default)
        elif self.default in outcomes:
            self.default_is_right = outcomes[self.default].right
        jobs = self._measurements(source, unknown, runs, turn)
        for job, result in self.engine.run(jobs, self.store, self.known.anew):
            outcomes[job.note] = outcome_of(job.data, result)
        for schedule in unknown:
            if schedule not in outcomes:
                outcomes[schedule] = self._refused(source, schedule, runs, turn)
        return [outcomes[schedule] for schedule in schedules]

    def _first(self, source: Source, runs: int) -> Outcome:
        """
        Measures the default schedule in `runs` runs, after comparing its results with exact
        results.
        """
        assert self.default is not None
        for job in self._measurements(source, [self.default], runs, 0):
            given = {name: job.data[name] for name in ("text", "inputs", "results")}
            exact = Job(EXPECT, given, seconds=10 * CORE_SECONDS)
            results = {
                j.kind: r for j, r in self.engine.run([exact, job], self.store, self.known.anew)
            }
            outcome = outcome_of(job.data, results[MEASURE])
            if outcome.right and outcome.digests != results[EXPECT].value:
                again = replace(job, data={**job.data, "verify": True})
                ((_, result),) = self.engine.run([again], self.store)
                outcome = outcome_of(again.data, result)
            self.default_is_right = outcome.right
            if outcome.status == "refused":
                # A missing feature of the device affects every candidate.
                raise ProgramError(f"the default schedule does not run: {outcome.cause}")
            return outcome
        return self._refused(source, self.default, runs, 0)

    def _measurements(
        self, source: Source, schedules: Sequence[str], runs: int, turn: int
    ) -> Iterator[Job]:
        """
        Yields a measurement job for each schedule that compiles. `turn` numbers repeated
        measurements.
        """
        default = self.default or ""
        reference = None
        if self.default_is_right and any(s != default or turn for s in schedules):
            self._compile(source, [default])
            compiled = self.compiled[default]
            reference = None if isinstance(compiled, Result) else compiled["work"]
        for schedule in self._loading(source, schedules):
            data = {**self._data(source, schedule, runs, turn), **self._work(schedule)}
            own = schedule == default
            data |= {"reference": None if own else reference, "is_default": own}
            near = source.key
            yield Job(MEASURE, data, self.resource, self._limit, near=near, note=schedule)

    def _data(self, source: Source, schedule: str, runs: int, turn: int) -> dict[str, Any]:
        return source_data(source) | {
            "schedule": schedule,
            "runs": runs,
            "turn": turn,
            "timeout": self.options.timeout,
            "prune": self.options.prune and schedule != self.default,
            "verify": False,
        }

    @property
    def _limit(self) -> float:
        """Returns the time limit of a measurement job, in seconds."""
        return 10 * self.options.timeout

    def _compile(self, source: Source, schedules: Sequence[str]) -> None:
        for _ in self._compiling(source, schedules):
            pass

    def _compiling(self, source: Source, schedules: Sequence[str]) -> Iterator[str]:
        """Yields each schedule as soon as it is compiled or refused."""
        missing = [schedule for schedule in schedules if schedule not in self.compiled]
        jobs = (
            Job(COMPILE, source_data(source) | {"schedule": s}, seconds=CORE_SECONDS, note=s)
            for s in missing
        )
        yield from (schedule for schedule in schedules if schedule not in missing)
        for job, result in self.engine.run(jobs):
            self.compiled[job.note] = result.value if result.ok else result
            yield job.note

    def _loading(self, source: Source, schedules: Sequence[str]) -> Iterator[str]:
        """Yields each schedule that compiles, as soon as it can be measured."""

        def jobs() -> Iterator[Job]:
            for schedule in self._compiling(source, schedules):
                if not isinstance(self.compiled[schedule], Result):
                    needs, data = self.resource, {"work": self._work(schedule)["work"]}
                    yield Job(LOAD, data, needs, CORE_SECONDS, runs=False, note=schedule)

        if self.options.load_ahead and self.resource.startswith(GPU):
            # A failure will show up in the measurement.
            yield from (job.note for job, _ in self.engine.run(jobs()))
        else:
            yield from (job.note for job in jobs())

    def _work(self, schedule: str) -> Mapping[str, Any]:
        compiled = self.compiled[schedule]
        assert not isinstance(compiled, Result)
        return compiled

    def _refused(self, source: Source, schedule: str, runs: int, turn: int) -> Outcome:
        """Stores the outcome of a schedule that does not compile, and returns the outcome."""
        place, compiled = self.engine.place(self.resource), self.compiled[schedule]
        assert isinstance(compiled, Result)
        result = Result("refused", None, compiled.cause, 0.0, "", place.device, place.driver)
        job = Job(MEASURE, self._data(source, schedule, runs, turn), self.resource)
        if self.store is not None:
            self.store.add(job, result)
        return outcome_of(job.data, result)


def _exact(data: Mapping[str, Any]) -> Job:
    """Returns a job that computes exact results of a compiled candidate's module."""
    given = {name: data[name] for name in ("text", "inputs", "results")}
    return Job(EXPECT, given, seconds=10 * CORE_SECONDS)


@dataclass
class Replay(Bench):
    """Answers from earlier measurements; `missing` lists unmeasured candidates by contraction."""

    known: Known
    device: str
    driver: str
    missing: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def propose(
        self,
        source: Source,
        tried: Sequence[Tried],
        learned: Sequence[Measured],
        count: int,
        most: int,
    ) -> Proposals:
        from xdsl_spirv.tools.tuning.kinds import pricing_of
        from xdsl_spirv.tools.tuning.proposals import propose

        return propose(pricing_of(source), tried, learned, count, most)

    def measure(
        self, source: Source, schedules: Sequence[str], runs: int, turn: int = 0
    ) -> list[Outcome]:
        return [self._outcome(source, schedule, turn) for schedule in schedules]

    def _outcome(self, source: Source, schedule: str, turn: int) -> Outcome:
        outcome = self.known.find(source.key, schedule, 0, turn, unusual=True)
        if outcome is not None:
            return outcome
        if not turn:
            with self.lock:
                self.missing.setdefault(source.key, {})[schedule] = None
        return Outcome(source.key, schedule, self.device, self.driver, UNMEASURED)
