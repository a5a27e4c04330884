"""
Fits factors of the cost model to measured schedules, and tests them on other families of shapes.

    python benchmarks/learned_rates.py --target nvidia-h200 benchmarks/results/h200-tuning.json

The factors (`corrections` of a target file) are fitted to the logarithms of measured times within
each contraction. Fast schedules weigh more, and a penalty keeps the factors near one. Figures are
printed for estimates without factors, with factors fitted to all families, and with factors fitted
to the other families (held out). They are the mean loss, the median error, and the rank correlation
within a contraction. The loss is the time of the schedule with the least estimate, relative to the
fastest. `--choose` adds factors one by one while the loss of held-out families decreases.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
from shape_families import families
from tuning import GROUPS, sources

from xdsl_spirv.passes.schedule.cost import FEATURES, cost, multiplying
from xdsl_spirv.passes.schedule.plan import Plan, Rates
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.kinds import pricing_of

START = 3e-6
"""Seconds of an empty dispatch, which estimates do not include."""
PENALTY = 0.3
FEWEST = 4
"""Minimum number of measured schedules with rates for a contraction."""


@dataclass(frozen=True)
class Measured:
    """
    A contraction's measured schedules, with one array element for each schedule.

    The estimate is `estimates` times the factors to the power of `features`, plus `on_top`, in
    seconds.
    """

    family: str
    case: str
    seconds: Any
    estimates: Any
    on_top: Any
    features: Any

    def estimate(self, names: Sequence[int], logarithms: Any) -> Any:
        """
        Returns the estimated seconds of every schedule. The factors `names` have these logarithms.
        """
        return self.estimates * np.exp(self.features[:, names] @ logarithms) + self.on_top


def measurements(paths: Sequence[Path], target: str) -> Iterator[Measured]:
    """Yields the contractions of tuning results."""
    listed = [p for group in ("benchmarks", "networks") for p in GROUPS[group]()]
    known = sources(listed, target)
    family_of = {str(p): name for name, products in families().items() for p in products}
    device = replace(load(target), corrections={})
    for record in (r for path in paths for r in json.loads(path.read_text())["records"]):
        if record["key"] not in known or "measured" not in record:
            continue
        pricing = pricing_of(known[record["key"]][0])
        rates = {str(s): candidate for s, candidate in pricing.rated.items()}
        rows: list[tuple[float, float, float, list[float]]] = []
        default = record["measured"][0][1]
        # The first of equal estimates counts, as in the compiler's choice.
        order = {schedule: number for number, schedule in enumerate(rates)}
        rated = [row for row in record["measured"] if row[0] in rates]
        for schedule, microseconds, reference, _ in sorted(rated, key=lambda r: order[r[0]]):
            planned = Plan(pricing.contraction, parse_schedule(schedule), device)
            if any(planned.problems()):
                continue
            own = Rates(*rates[schedule].rates[:2])
            core = multiplying(planned, *own[:2])
            seconds = microseconds / reference * default / 1e6
            counts = [feature(planned) for feature in FEATURES.values()]
            rows.append((seconds, core, cost(planned, own) - core + START, counts))
        if len(rows) >= FEWEST:
            columns = [np.array(column) for column in zip(*rows, strict=True)]
            case = record["case"]
            family = family_of.get(case, "convolutions" if "conv" in case else "products")
            yield Measured(family, case, *columns)


def fit(cases: Sequence[Measured], names: Sequence[int]) -> Any:
    """
    Fits the factors `names` to the measured times of some contractions. Returns their logarithms.
    """
    left = PENALTY * np.eye(len(names))
    right = np.zeros(len(names))
    for case in cases:
        # Fast schedules decide the choice, so they weigh more.
        weights = (case.seconds.min() / case.seconds) ** 2 / len(case.seconds)
        errors = np.log(case.seconds / (case.estimates + case.on_top))
        x = case.features[:, names] - np.average(case.features[:, names], 0, weights)
        y = errors - np.average(errors, weights=weights)
        left += x.T @ (weights[:, None] * x)
        right += x.T @ (weights * y)
    return np.linalg.solve(left, right)


def figures(estimated: Sequence[tuple[Measured, Any]]) -> dict[str, float]:
    """Returns mean loss, largest loss, median error and rank correlation of estimates."""
    losses, errors, ranks = [], [], []
    for case, estimates in estimated:
        losses.append(np.log(case.seconds[estimates.argmin()] / case.seconds.min()))
        errors.extend(np.abs(np.log(estimates / case.seconds)))
        order = [np.argsort(np.argsort(values)) for values in (estimates, case.seconds)]
        ranks.append(np.corrcoef(np.stack(order))[0, 1])
    return {
        "loss": round(float(np.expm1(np.mean(losses))), 4),
        "largest_loss": round(float(np.expm1(max(losses))), 3),
        "median_error": round(float(np.expm1(np.median(errors))), 4),
        "rank_correlation": round(float(np.mean(ranks)), 3),
    }


def held_out(cases: Sequence[Measured], names: Sequence[int]) -> list[tuple[Measured, Any]]:
    """Returns each contraction with estimates whose factors were fitted to the other families."""

    @cache
    def factors(family: str) -> Any:
        return fit([case for case in cases if case.family != family], names)

    return [(case, case.estimate(names, factors(case.family))) for case in cases]


def chosen(cases: Sequence[Measured], gain: float) -> list[int]:
    """
    Returns factors that each reduce the loss of held-out families by more than `gain`, in the order
    in which they were added.
    """
    names: list[int] = []
    best = figures(held_out(cases, []))["loss"]
    while len(names) < len(FEATURES):
        trials = [
            (figures(held_out(cases, [*names, n]))["loss"], n)
            for n in range(len(FEATURES))
            if n not in names
        ]
        loss, name = min(trials)
        if loss > best - gain:
            break
        names, best = [*names, name], loss
    return names


def main(arguments: list[str] | None = None) -> int:
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--target", default="nvidia-h200")
    command.add_argument("--choose", type=float, metavar="GAIN", help="as long as that is gained")
    command.add_argument("--factor", action="append", default=[], choices=FEATURES)
    command.add_argument("results", type=Path, nargs="+")
    options = command.parse_args(arguments)
    cases = list(measurements(options.results, options.target))
    listed = list(FEATURES)
    names = [listed.index(name) for name in options.factor]
    if options.choose is not None:
        names = chosen(cases, options.choose)
    logarithms = fit(cases, names)
    print(f"{len(cases)} contractions, {sum(len(case.seconds) for case in cases)} schedules")
    factors = {
        listed[name]: round(exp(value), 3) for name, value in zip(names, logarithms, strict=True)
    }
    print(json.dumps(factors))
    before = [(case, case.estimate([], np.zeros(0))) for case in cases]
    after = held_out(cases, names)
    _state("without", before)
    _state("fitted to all", [(case, case.estimate(names, logarithms)) for case in cases])
    _state("held out", after)
    for family in sorted({case.family for case in cases}):
        rows = [[pair for pair in pairs if pair[0].family == family] for pairs in (before, after)]
        _state(f"  {family} ({len(rows[0])}) without", rows[0])
        _state(f"  {family} ({len(rows[0])}) held out", rows[1])
    return 0


def _state(what: str, estimated: Sequence[tuple[Measured, Any]]) -> None:
    table: Mapping[str, float] = figures(estimated)
    print(f"{what}: {', '.join(f'{name} {value}' for name, value in table.items())}")


if __name__ == "__main__":
    sys.exit(main())
