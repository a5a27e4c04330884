"""
Predicts the times of unmeasured candidates with the cost model, corrected by measurements.

The error of an estimate is modelled as a sum of normally distributed errors, one for each decision
of the schedule (its tile, its grid, the lowering of each operand, ...). Contractions of one class
share most of an error, and all contractions share a part of it. Measurements narrow the
distributions. The remaining variance gives the expected gain of the next step.
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
"""Standard deviation of the error of each decision, in log time."""
UNRATED = 0.35
"""Standard deviation of the error of a schedule without a measured rate, in log time."""
OWN = 0.04
"""Standard deviation of a candidate's additional error, in log time."""
OFFSET = 0.4
"""Standard deviation of the common error of a contraction's estimates, in log time."""
EVERYWHERE, IN_CLASS = 0.25, 0.45
"""Fractions of an error's variance that all contractions share, and that a class shares."""
UNSTEADY, A_RUN = 0.01, 0.06
"""Standard deviations in log time: of a measurement with many runs, and of a single run."""
KNOWN = 24
"""Weight of the assumed deviations, as a number of measurements."""
SLOW = 1.0
"""
Limit of the errors of estimates, in log time above the median error. Larger errors are reduced to
it.
"""
MOST = 600
"""Maximum number of measurements that a prediction uses."""
RATED = "rated"
"""Name of the decision that tells if a schedule has a measured rate."""
REACH = np.linspace(0.0, 1.5, 301)
"""Gains in log time over which the expected gain is integrated."""


@dataclass(frozen=True)
class Subject:
    """A schedule of a contraction, described for a prediction; `estimate` is in seconds."""

    contraction: str
    kind: str
    """Class of the contraction; estimates of a class have similar errors."""
    decisions: tuple[tuple[str, Hashable], ...]
    estimate: float


@dataclass(frozen=True)
class Prediction:
    """Means and standard deviations of the log time of candidates."""

    mean: Vector
    deviation: Vector

    def expected_gain(self, best: float, count: int) -> float:
        """
        Returns the expected gain from measuring the `count` most promising candidates, relative to
        `best`.

        `best` is the best time so far in seconds. The gain is `best` / (time of the fastest of
        these candidates) - 1, or 0 if none is faster.
        """
        gains = self.gains(best)
        likely = np.argsort(-gains, kind="stable")[:count]
        reached = (math.log(best) - REACH[:, None] - self.mean[likely]) / self.deviation[likely]
        nobody = np.prod(1 - _normal(reached), axis=1)
        return float(np.expm1(np.trapezoid(1 - nobody, REACH)))

    def gains(self, best: float) -> Vector:
        """Returns the expected gain of each candidate over `best`, in log time."""
        distance = math.log(best) - self.mean
        z = distance / self.deviation
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        return distance * _normal(z) + self.deviation * density


def _normal(z: Vector) -> Vector:
    """Computes the cumulative normal distribution with an error of about 1e-7."""
    t = 1 / (1 + 0.5 * np.abs(z) / math.sqrt(2))
    powers = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807)
    more = (-1.13520398, 1.48851587, -0.82215223, 0.17087277)
    series = sum(p * t**i for i, p in enumerate((*powers, *more)))
    tail = t * np.exp(-(z**2) / 2 + series) / 2
    return np.where(z >= 0, 1 - tail, tail)


@dataclass
class Model:
    """A Bayesian model of the errors of estimates."""

    subjects: list[Subject] = field(default_factory=list[Subject])
    errors: list[float] = field(default_factory=list[float])
    variances: list[float] = field(default_factory=list[float])

    def learn(self, subject: Subject, seconds: float, runs: int) -> None:
        """
        Adds a measurement to the model: `seconds` is the time of a schedule, measured in `runs`
        runs.
        """
        self.subjects.append(subject)
        self.errors.append(math.log(seconds / subject.estimate))
        self.variances.append(OWN**2 + UNSTEADY**2 + A_RUN**2 / runs)

    def suppose(self, subject: Subject, logarithm: float) -> None:
        """Adds the assumption that a measurement of `subject` gives the predicted log time."""
        self.learn(subject, math.exp(logarithm), 1)

    def predict(self, candidates: Sequence[Subject]) -> Prediction:
        """Predicts the times of candidates of one contraction."""
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
        # Scales the deviations by how large the known errors are.
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
    """Returns the covariances between the estimation errors of two lists of schedules."""

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
    """Returns, for each decision by name, an array with the hash of every schedule's choice."""
    tables = [dict(subject.decisions) for subject in subjects]
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: np.array([hash(table.get(name)) for table in tables], np.int64) for name in names}
