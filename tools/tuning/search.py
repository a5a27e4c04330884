"""
Searches for fast schedules with a cost model that measurements correct.

Each step takes the candidates with the largest expected gain and uses successive halving: all
candidates get a few runs, the best third gets more, and the best ninth gets all runs. The search
ends if the expected gain of the next step is below `until_gain`, or if candidates or time are
exhausted. Finally the best candidates are measured again. Times are relative to the default
schedule, which is measured before and after each candidate.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, expm1, log, log1p

from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.prediction import Subject
from xdsl_spirv.tools.tuning.proposals import Measured, Proposals, Tried
from xdsl_spirv.tools.tuning.results import UNMEASURED, Outcome, best_of, confirmed

STEP = 12
"""Number of candidates per step."""
KEEP = 3
"""Factor of successive halving: 1 / KEEP of the candidates continue, with KEEP times the runs."""
FAR_BEHIND = 1.5
"""Ratio to the best time above which a candidate is not measured further."""
FINALISTS = 3
"""Number of candidates that are measured a second time."""
REMEMBERED = 150
"""Number of measurements of other contractions that a proposal uses."""
DOUBTED = 0.1
"""Sum of predicted log gains that halves later predictions if nothing was gained."""


@dataclass(frozen=True)
class Options:
    """
    Limits of a search.

    - `runs`: runs of a candidate in the last round
    - `most`: candidates of a contraction
    - `seconds`: time for a contraction
    - `timeout`: seconds for a run
    - `until_gain`: expected gain at which the search ends
    - `cheap_seconds`: total time of runs that is small compared with loading a candidate
    - `load_ahead`: let a GPU's driver compile kernels in other processes before measurements
    """

    runs: int = 20
    most: int = 64
    timeout: float = 20.0
    seconds: float | None = None
    prune: bool = True
    until_gain: float = 0.01
    cheap_seconds: float = 0.01
    load_ahead: bool = False


class Bench(ABC):
    """Proposes and measures candidates for a search."""

    @abstractmethod
    def propose(
        self,
        source: Source,
        tried: Sequence[Tried],
        learned: Sequence[Measured],
        count: int,
        most: int,
    ) -> Proposals:
        """Proposes up to `count` candidates, with the parameters of `proposals.propose`."""

    @abstractmethod
    def measure(
        self, source: Source, schedules: Sequence[str], runs: int, turn: int = 0
    ) -> list[Outcome]:
        """
        Measures schedules in `runs` runs each, and returns their outcomes in order.

        The first measured candidate is the default. `turn` numbers repeated measurements.
        """


@dataclass
class Learned:
    """
    Measurements and predictions that the searches of all contractions share.

    `promised` is the sum of the predicted log gains of steps, and `kept` is the sum of the
    achieved log gains. Their ratio corrects later predictions.
    """

    measurements: list[Measured] = field(default_factory=list[Measured])
    lock: threading.Lock = field(default_factory=threading.Lock)
    promised: float = 0.0
    kept: float = 0.0

    def add(self, subject: Subject, seconds: float, runs: int) -> None:
        with self.lock:
            self.measurements.append((subject, seconds, runs))

    def settle(self, promised: float, before: float, after: float) -> None:
        """
        Adds the predicted gain of a step (`promised`) to the sums, and its achieved gain: `before`
        and `after` are the best times.
        """
        with self.lock:
            self.promised += log1p(promised)
            self.kept += max(0.0, log(before / after))

    def believed(self, promised: float) -> float:
        """Returns a predicted gain, corrected by the success of earlier predictions."""
        with self.lock:
            share = (self.kept + DOUBTED) / (max(self.promised, self.kept) + DOUBTED)
        return expm1(log1p(promised) * share)

    def beside(self, contraction: str) -> list[Measured]:
        """Returns the latest measurements of other contractions."""
        with self.lock:
            rows = [row for row in self.measurements if row[0].contraction != contraction]
        return rows[-REMEMBERED:]


def ladder(runs: int, cheap: int = 2) -> list[int]:
    """
    Returns the numbers of runs in the rounds of a step, in ascending order.

    Each number is at least `cheap`, because fewer runs would not save time.
    """
    steps = (ceil(runs / KEEP**2), ceil(runs / KEEP), runs)
    return sorted({min(runs, max(2, cheap, step)) for step in steps})


@dataclass
class Search:
    """Searches for schedules of one contraction on one kind of device. `say` prints progress."""

    source: Source
    bench: Bench
    options: Options = field(default_factory=Options)
    learned: Learned = field(default_factory=Learned)
    say: Callable[[str], None] = lambda text: None
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    subjects: dict[str, Subject] = field(default_factory=dict[str, Subject])
    expected: list[float] = field(default_factory=list[float])
    """Expected gains of the steps after the first."""
    measurements: int = 0

    def run(self) -> list[Outcome]:
        """Runs the search. Returns the outcomes of all tried candidates, the default first."""
        end = None if self.options.seconds is None else time.monotonic() + self.options.seconds
        for step, proposals in enumerate(self._steps()):
            if step:
                self._next(proposals)
            else:
                default, *others = proposals.subjects
                self._measure([default], self.options.runs)
                if not end or time.monotonic() < end:
                    self._halve(others)
            tried = [self.outcomes[s] for s in proposals.subjects if s in self.outcomes]
            if all(outcome.status == UNMEASURED for outcome in tried):
                self.say(f"{self.source.key}: no other candidate was measured")
                break
            self._tell(step)
            if end is not None and time.monotonic() > end:
                break
        self._confirm()
        return list(self.outcomes.values())

    def _next(self, proposals: Proposals) -> None:
        """Runs a step after the first one, and records its predicted and achieved gain."""
        before = best_of(list(self.outcomes.values()))
        self._halve(list(proposals.subjects))
        after = best_of(list(self.outcomes.values()))
        known = any(self.outcomes[s].status != UNMEASURED for s in proposals.subjects)
        if before and after and known and proposals.expected_gain:
            self.learned.settle(proposals.expected_gain, before.latest, after.latest)

    def _steps(self) -> Iterator[Proposals]:
        """Yields the candidates of each later step, until the expected gain is too small."""
        while (room := self.options.most - len(self.outcomes)) > 0:
            proposals = self.bench.propose(
                self.source,
                self._tried(),
                self.learned.beside(self.source.key),
                min(STEP, room),
                self.options.most,
            )
            expected = proposals.expected_gain and self.learned.believed(proposals.expected_gain)
            if not proposals.subjects:
                self.say(f"{self.source.key}: no other candidate is known")
                return
            if expected is not None and self.outcomes:
                self.expected.append(expected)
                if expected < self.options.until_gain:
                    least = f"{self.options.until_gain:.1%}"
                    self.say(
                        f"{self.source.key}: the expected gain is {expected:.1%}, less than {least}"
                    )
                    return
            self.subjects.update(proposals.subjects)
            yield proposals

    def _tried(self) -> list[Tried]:
        scale = self._scale()
        return [
            Tried(name, o.ratio * scale if o.right else None, o.runs)
            for name, o in self.outcomes.items()
        ]

    def _scale(self) -> float:
        """Returns the default's time in seconds, by which ratios are multiplied."""
        default = next(iter(self.outcomes.values()), None)
        return default.microseconds / 1e6 if default is not None and default.right else 1e-6

    def _halve(self, names: Sequence[str]) -> None:
        """Measures candidates by successive halving."""
        cheap = int(self.options.cheap_seconds / self._scale())
        for runs in ladder(self.options.runs, cheap):
            self._measure([n for n in names if not self._has(n, runs)], runs)
            right = [name for name in names if self.outcomes[name].right]
            best = best_of(list(self.outcomes.values()))
            limit = FAR_BEHIND * best.latest if best else 0.0
            near = [name for name in right if self.outcomes[name].ratio < limit]
            near.sort(key=lambda name: self.outcomes[name].ratio)
            names = near[: ceil(len(names) / KEEP)]

    def _has(self, name: str, runs: int) -> bool:
        outcome = self.outcomes.get(name)
        return outcome is not None and outcome.runs >= runs

    def _measure(self, names: Sequence[str], runs: int) -> None:
        if not names:
            return
        for name, outcome in zip(names, self.bench.measure(self.source, names, runs), strict=True):
            self.measurements += outcome.right
            self.outcomes[name] = outcome
            if outcome.right and name in self.subjects:
                seconds = outcome.ratio * self._scale()
                self.learned.add(self.subjects[name], seconds, outcome.runs)

    def _confirm(self) -> None:
        """Measures the best candidates and the default again."""
        default, *others = self.outcomes.values()
        best = sorted((o for o in others if o.right), key=lambda o: o.ratio)[:FINALISTS]
        finalists = [o.schedule for o in (default, *best) if o.right]
        if len(finalists) < 2:
            return
        second = self.bench.measure(self.source, finalists, self.options.runs, 1)
        for name, outcome in zip(finalists, second, strict=True):
            self.outcomes[name] = confirmed(self.outcomes[name], outcome)

    def _tell(self, step: int) -> None:
        best = best_of(list(self.outcomes.values()))
        count = sum(outcome.status != UNMEASURED for outcome in self.outcomes.values())
        tried = f"{self.source.key}: step {step + 1}, {count} tried"
        if best is None:
            self.say(f"{tried}, no candidate is correct")
            return
        gain = f"{1 / best.latest:.2f} times the default" if self._default_right else "best"
        expected = f", expected gain {self.expected[-1]:.1%}" if self.expected else ""
        microseconds = best.latest * self._scale() * 1e6
        held = str(heaviest(best.statistics))
        self.say(f"{tried}, {microseconds:.1f} us ({gain}){expected}: {best.schedule} {held}")

    @property
    def _default_right(self) -> bool:
        return next(iter(self.outcomes.values())).right
