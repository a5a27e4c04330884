"""
Predicts the times of unmeasured candidates: by the cost model, corrected by measurements.

The error of an estimate is modelled as a sum of errors of the schedule's decisions (its tile, its
grid, the path of each operand, ...), each normally distributed around 0. Contractions of one class
share most of a decision's error, and others share some of it, so that a search starts with
knowledge from earlier ones. Measurements narrow the distribution; the remaining variance tells how
much a step of the search may still gain.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Vector: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Matrix: TypeAlias = Vector

DECISION = 0.12
"""Error of an estimate for each decision, as a standard deviation of the logarithm."""
UNRATED = 0.35
"""Like `DECISION`, for whether the target's file has a rate for the schedule."""
OWN = 0.04
"""
Error of a single candidate in addition to the errors of its decisions, as a standard deviation.
"""
OFFSET = 0.4
"""Common error of all estimates of a contraction."""
EVERYWHERE, IN_CLASS = 0.25, 0.45
"""
Fraction of an error that all contractions share, and the further fraction that contractions of one
class share.
"""
UNSTEADY, A_RUN = 0.01, 0.06
"""The deviation of a measurement that more runs do not reduce, and that of a single run."""
KNOWN = 24
"""Weight of the assumed deviations, as a number of measurements."""
SLOW = 1.0
"""Slower candidates count as this much slower than the median, in the logarithm."""
MOST = 600
"""Number of measurements that a prediction uses: first the contraction's own, then the latest."""
RATED = "rated"
"""Name of the decision whether a schedule has its own rate."""
REACH = np.linspace(0.0, 1.5, 301)
"""Grid of gains, in the logarithm, over which an expectation is computed."""


@dataclass(frozen=True)
class Subject:
    """A schedule for a contraction, from which a prediction is made. `estimate` is in seconds."""

    contraction: str
    kind: str
    """The class of the contraction: contractions of one class are slow for the same reasons."""
    decisions: tuple[tuple[str, Hashable], ...]
    estimate: float


@dataclass(frozen=True)
class Prediction:
    """Logarithms of seconds by candidate, and their standard deviations."""

    mean: Vector
    deviation: Vector

    def expected_gain(self, best: float, count: int) -> float:
        """
        Returns the expected reduction of time against `best` (seconds) by the fastest of the
        `count` likeliest candidates, as a fraction.
        """
        gains = self.gains(best)
        likely = np.argsort(-gains, kind="stable")[:count]
        reached = (math.log(best) - REACH[:, None] - self.mean[likely]) / self.deviation[likely]
        nobody = np.prod(1 - _normal(reached), axis=1)
        return float(np.expm1(np.trapezoid(1 - nobody, REACH)))

    def gains(self, best: float) -> Vector:
        """Returns the expected gain of each candidate by itself, in the logarithm."""
        distance = math.log(best) - self.mean
        z = distance / self.deviation
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return distance * _normal(z) + self.deviation * density


def _normal(z: Vector) -> Vector:
    """Computes the normal distribution function, to seven digits."""
    t = 1 / (1 + 0.5 * np.abs(z) / math.sqrt(2))
    powers = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807)
    more = (-1.13520398, 1.48851587, -0.82215223, 0.17087277)
    series = sum(p * t**i for i, p in enumerate((*powers, *more)))
    tail = t * np.exp(-(z**2) / 2 + series) / 2
    return np.where(z >= 0, 1 - tail, tail)


@dataclass
class Model:
    """Learns from measurements how wrong estimates are."""

    subjects: list[Subject] = field(default_factory=list[Subject])
    errors: list[float] = field(default_factory=list[float])
    variances: list[float] = field(default_factory=list[float])

    def learn(self, subject: Subject, seconds: float, runs: int) -> None:
        """Adds a measurement."""
        self.subjects.append(subject)
        self.errors.append(math.log(seconds / subject.estimate))
        self.variances.append(OWN**2 + UNSTEADY**2 + A_RUN**2 / runs)

    def suppose(self, subject: Subject, logarithm: float) -> None:
        """Assumes that a measurement will give the predicted value, the logarithm of seconds."""
        self.learn(subject, math.exp(logarithm), 1)

    def predict(self, candidates: Sequence[Subject]) -> Prediction:
        """Predicts times of candidates of one contraction."""
        estimates = np.log([candidate.estimate for candidate in candidates])
        prior = _covariance(candidates, candidates).diagonal()
        rows = self._nearest(candidates[0].contraction if candidates else "")
        if not rows:
            return Prediction(estimates, np.sqrt(prior + OWN**2))
        subjects = [self.subjects[row] for row in rows]
        errors = np.array([self.errors[row] for row in rows])
        # The errors of slow candidates do not predict the errors of fast ones.
        errors = np.minimum(errors, np.median(errors) + SLOW)
        noise = np.array([self.variances[row] for row in rows])
        known = _covariance(subjects, subjects) + np.diag(noise)
        across = _covariance(candidates, subjects)
        solved = np.linalg.solve(known, np.column_stack([errors, across.T]))
        mean = across @ solved[:, 0]
        variance = prior - np.sum(across * solved[:, 1:].T, axis=1)
        # If errors were larger or smaller than assumed, they are expected to stay so.
        scale = (KNOWN + errors @ solved[:, 0]) / (KNOWN + len(errors))
        deviation = np.sqrt((np.maximum(variance, 0.0) + OWN**2) * scale)
        return Prediction(estimates + mean, deviation)

    def _nearest(self, contraction: str) -> list[int]:
        rows = range(len(self.subjects))
        own = [row for row in rows if self.subjects[row].contraction == contraction]
        others = [row for row in rows if self.subjects[row].contraction != contraction]
        room = max(0, MOST - len(own))
        return sorted([*own[-MOST:], *(others[-room:] if room else ())])


def _covariance(rows: Sequence[Subject], columns: Sequence[Subject]) -> Matrix:
    """Computes the covariance of the errors of two subjects."""

    def same(name: str) -> Matrix:
        left, right = ([hash(getattr(one, name)) for one in some] for some in (rows, columns))
        return np.equal.outer(np.array(left, np.int64), np.array(right, np.int64)).astype(float)

    left, right = (_number_choices(some) for some in (rows, columns))
    decisions = np.zeros((len(rows), len(columns)))
    for name in left.keys() & right.keys():
        deviation = UNRATED if name == RATED else DECISION
        decisions += deviation**2 * np.equal.outer(left[name], right[name])
    alone = same("contraction")
    shared = EVERYWHERE + IN_CLASS * same("kind") + (1 - EVERYWHERE - IN_CLASS) * alone
    return decisions * shared + OFFSET**2 * alone


def _number_choices(subjects: Sequence[Subject]) -> dict[str, Any]:
    """Each decision's choices as numbers, by its name."""
    tables = [dict(subject.decisions) for subject in subjects]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: np.array([hash(table.get(name)) for table in tables], np.int64) for name in names}
