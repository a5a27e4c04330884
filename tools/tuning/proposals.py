"""
Chooses the next candidates of a search, by the largest expected gain.

The pool contains the list of `passes/schedule/space.py`, and neighbours of the best candidates. A
schedule without a measured rate gets the rate of the most similar schedule in the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeAlias

from xdsl_spirv.dialects.schedule import ContractionAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.passes.schedule.cost import cost
from xdsl_spirv.passes.schedule.plan import Plan, Rates
from xdsl_spirv.passes.schedule.space import candidates, neighbours
from xdsl_spirv.passes.schedule.tuned import key_of, lookup, parse_schedule
from xdsl_spirv.targets import Target
from xdsl_spirv.tools.tuning.prediction import RATED, Model, Subject

FOLLOWED = 3
"""Number of the best candidates whose neighbours are tried."""
FEW_ROWS, SHALLOW, FEW_TILES = 128, 512, 128 * 128
"""Boundaries between classes of contractions: rows, size of K, and results per compute unit."""


@dataclass(frozen=True)
class Tried:
    """
    A candidate of a search that was measured in `runs` runs. `seconds` is None if its results are
    wrong.
    """

    schedule: str
    seconds: float | None
    runs: int = 1


Measured: TypeAlias = tuple[Subject, float, int]
"""
A candidate with correct results: its description, its time in seconds, and the number of runs.
"""


@dataclass(frozen=True)
class Proposals:
    """Candidates to measure, the most promising first, and the gain expected from measuring."""

    subjects: Mapping[str, Subject]
    expected_gain: float | None


def class_of(contraction: Contraction, target: Target) -> str:
    """Returns a name for the class of contractions whose estimates have similar errors."""
    a, b, result = contraction.types
    m, n, k, batch = map(typical, (contraction.m, contraction.n, contraction.k, contraction.batch))
    words = [f"{a} x {b} -> {result}"]
    words += ["few rows"] * (min(m, n) <= FEW_ROWS)
    words += ["shallow"] * (k < SHALLOW)
    words += ["few tiles"] * (m * n * batch < FEW_TILES * target.compute_units)
    words += ["windows"] * (contraction.counts[3] > 1)
    words += ["batched"] * (batch > 1)
    words += ["weights"] * any(map(is_weight, (contraction.a, contraction.b)))
    return ", ".join(words)


def decisions_of(schedule: ContractionAttr) -> dict[str, str]:
    """Returns the decisions of a schedule by name."""
    m, n, k = schedule.tile
    rows, columns = schedule.grid
    return {
        "tile": f"{m}x{n}",
        "depth": str(k // schedule.slices),
        "grid": f"{rows}x{columns}",
        "subgroup's tile": f"{m // rows}x{n // columns}",
        "slices": str(schedule.slices),
        "instruction": str(schedule.instruction),
        "a": str(schedule.a),
        "b": str(schedule.b),
        "stages": str(schedule.stages.data),
        "raster": f"{schedule.raster.data}<{schedule.group.data}>",
        "first": schedule.first.data,
        "result": schedule.result.data,
    }


@dataclass
class Pricing:
    """Lists the possible schedules of a contraction, with estimates of their times."""

    contraction: Contraction
    target: Target
    _lists: dict[int, list[ContractionAttr]] = field(
        default_factory=dict[int, list[ContractionAttr]]
    )

    @cached_property
    def rated(self) -> dict[ContractionAttr, Plan]:
        """Returns the listed candidates that have a measured rate in the target's file."""
        listed = chain.from_iterable(candidates_of(self.contraction, self.target))
        table: dict[ContractionAttr, Plan] = {}
        for candidate in listed:
            if candidate.rates.rate:
                table.setdefault(candidate.schedule, candidate)
        return table

    @cached_property
    def _decided(self) -> list[tuple[set[tuple[str, str]], Plan]]:
        return [(set(decisions_of(s).items()), c) for s, c in self.rated.items()]

    @cached_property
    def _class(self) -> str:
        return class_of(self.contraction, self.target)

    @cached_property
    def _key(self) -> str:
        return key_of(self.contraction)

    def subject(self, schedule: ContractionAttr) -> Subject:
        """Returns a schedule with its decisions and its estimated time."""
        decisions = decisions_of(schedule)
        known = self.rated.get(schedule)
        nearest = known or self._nearest(decisions)
        planned = Plan(self.contraction, schedule, self.target)
        rates = Rates(*nearest.rates[:2]) if nearest else None
        named = (*decisions.items(), (RATED, str(known is not None)))
        return Subject(self._key, self._class, named, cost(planned, rates))

    def pool(self, tried: Sequence[Tried], most: int) -> Iterator[ContractionAttr]:
        """
        Yields the default, the tuned entry, at most `most` listed candidates, and neighbours of the
        best candidates in `tried`.
        """
        default, *others = self._listed(most)
        yield default
        if self._known is not None:
            yield self._known
        yield from others
        right = sorted((t for t in tried if t.seconds), key=lambda t: t.seconds or 0.0)
        for one in right[:FOLLOWED]:
            yield from neighbours(self.contraction, self.target, parse_schedule(one.schedule))

    def _listed(self, most: int) -> list[ContractionAttr]:
        if len(self._lists.get(most, ())) == 0:
            self._lists[most] = candidates(self.contraction, self.target, most)
        return self._lists[most]

    @cached_property
    def _known(self) -> ContractionAttr | None:
        return lookup(self.contraction, self.target)

    def _nearest(self, decisions: Mapping[str, str]) -> Plan | None:
        """Returns the first rated candidate with the most decisions in common."""
        own = set(decisions.items())
        nearest = max(self._decided, key=lambda pair: len(pair[0] & own), default=None)
        return nearest[1] if nearest else None


def propose(
    pricing: Pricing,
    tried: Sequence[Tried],
    learned: Sequence[Measured],
    count: int,
    most: int,
) -> Proposals:
    """
    Returns up to `count` candidates that are not in `tried`. In the first step, the default comes
    first.

    `learned` are measurements of other contractions. `most` limits the list of candidates.
    """
    known = {one.schedule: one for one in tried}
    new = {
        name: pricing.subject(schedule)
        for schedule in pricing.pool(tried, most)
        if (name := str(schedule)) not in known
    }
    own = [
        (pricing.subject(parse_schedule(one.schedule)), one.seconds, one.runs)
        for one in tried
        if one.seconds is not None
    ]
    chosen = select(new, own, learned, count)
    if tried:
        return chosen
    default = next(iter(new), "")
    first = {name: new[name] for name in dict.fromkeys([default, *chosen.subjects])}
    return Proposals(dict(list(first.items())[:count]), None)


def select(
    new: Mapping[str, Subject], own: Sequence[Measured], learned: Sequence[Measured], count: int
) -> Proposals:
    """
    Selects `count` of the candidates `new` to measure next.

    `own` are measurements of this contraction, `learned` of other contractions.
    """
    if not new:
        return Proposals({}, 0.0)
    model = Model()
    for subject, seconds, runs in (*learned, *own):
        model.learn(subject, seconds, runs)
    left = dict(new)
    prediction = model.predict(list(left.values()))
    if not own:
        likely = prediction.mean.argsort(kind="stable")[:count]
        names = list(left)
        return Proposals({names[row]: left[names[row]] for row in likely}, None)
    best = min(seconds for _, seconds, _ in own)
    expected = prediction.expected_gain(best, count)
    chosen: dict[str, Subject] = {}
    while left and len(chosen) < count:
        row = int(prediction.gains(best).argmax())
        name = list(left)[row]
        chosen[name] = left.pop(name)
        # The supposed result makes similar candidates less promising.
        model.suppose(chosen[name], float(prediction.mean[row]))
        if left:
            prediction = model.predict(list(left.values()))
    return Proposals(chosen, expected)


def subject_data(subject: Subject) -> dict[str, Any]:
    """Converts a subject (a schedule described for a prediction) to data for a job."""
    return asdict(subject)


def subject_from(data: Mapping[str, Any]) -> Subject:
    """Converts the data of `subject_data` back; JSON may have turned tuples into lists."""
    pairs = tuple((str(name), str(choice)) for name, choice in data["decisions"])
    return Subject(data["contraction"], data["kind"], pairs, data["estimate"])
