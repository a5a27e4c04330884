"""
Fits the cost model of products by scalar multiply-adds (`model.contraction.scalar`) to measured
times.

    scripts/fit_scalars.py nvidia-h200 benchmarks/results/h200-scalar-products.json

`benchmarks/contractions.py --variants` writes the records, for products of f32. The search starts
with the target file's values, and changes each by a tenth or a half as long as estimates become
more accurate or choose better schedules. The script prints the fitted section, the geometric mean
error of the estimates, and the loss. The loss is the time of the schedule with the least estimate,
relative to the fastest.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from math import exp, log
from pathlib import Path

from xdsl.dialects import linalg

from xdsl_spirv.passes.analysis.contraction import Contraction, contraction_of
from xdsl_spirv.passes.schedule.cost import multiplying
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tuned import parse_schedule
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import Target, load
from xdsl_spirv.targets.model import ScalarModel
from xdsl_spirv.tools.tune import matmul

START = 3e-6
"""Seconds of an empty dispatch."""

Trial = tuple[str, Plan, float]
"""A case, its schedule on the target, and the measured seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit estimates of multiply-adds to times.")
    parser.add_argument("target")
    parser.add_argument("records", type=Path, help="records of benchmarks/contractions.py")
    arguments = parser.parse_args()
    target = load(arguments.target)
    trials = list(_read_trials(json.loads(arguments.records.read_text())["records"], target))
    best = target.model.contraction.scalar
    worst, improved = _measure_error(best, trials) + _measure_loss(best, trials), True
    while improved:
        improved = False
        for name, factor in product(asdict(best), (0.5, 0.9, 1.1, 1.5)):
            trial = replace(best, **{name: float(f"{getattr(best, name) * factor:.3g}")})
            if (tried := _measure_error(trial, trials) + _measure_loss(trial, trials)) < worst:
                best, worst, improved = trial, tried, True
    print(json.dumps(asdict(best)))
    error, loss = exp(_measure_error(best, trials)) - 1, _measure_loss(best, trials)
    print(f"{len(trials)} schedules, {error:.1%} off; chosen by estimate: {loss:.1%} longer")
    return 0


def _read_trials(records: list[dict[str, object]], target: Target) -> Iterator[Trial]:
    contractions: dict[str, Contraction] = {}
    for record in records:
        shape = re.fullmatch(r"matmul (\d+x\d+x\d+) f32 -> f32", str(record["case"]))
        if shape is None or "ms" not in record or record["schedule"] == "default":
            continue
        if shape[1] not in contractions:
            contractions[shape[1]] = _make_contraction(shape[1])
        schedule = parse_schedule(str(record["schedule"]))
        try:
            fitting = Plan(contractions[shape[1]], schedule, target)
        except ScheduleDoesNotFit:
            continue
        yield shape[1], fitting, float(str(record["ms"])) / 1e3


def _make_contraction(shape: str) -> Contraction:
    ctx = context()
    module = parse_text(matmul(f"{shape}:f32->f32"), shape, ctx)
    LinalgToContractionPass().apply(ctx, module)
    return next(contraction_of(op) for op in module.walk() if isinstance(op, linalg.ops.GenericOp))


def _estimate(model: ScalarModel, of: Plan) -> float:
    contraction = replace(of.target.model.contraction, scalar=model)
    target = replace(of.target, model=replace(of.target.model, contraction=contraction))
    return START + multiplying(replace(of, target=target), None)


def _measure_error(model: ScalarModel, trials: list[Trial]) -> float:
    """Returns the root mean square of log(estimated time / measured time)."""
    squares = [log(_estimate(model, schedule) / seconds) ** 2 for _, schedule, seconds in trials]
    return (sum(squares) / len(squares)) ** 0.5


def _measure_loss(model: ScalarModel, trials: list[Trial]) -> float:
    cases: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for case, schedule, seconds in trials:
        cases[case].append((_estimate(model, schedule), seconds))
    lost = [log(min(tried)[1] / min(s for _, s in tried)) for tried in cases.values()]
    return exp(sum(lost) / len(lost)) - 1


if __name__ == "__main__":
    sys.exit(main())
