"""
Compares the cost model's estimates with times that `ceiling.py` and `packed_weights.py` measured.

    python benchmarks/cost_model.py --target nvidia-h200 RESULTS.json...

For every contraction with several measured schedules the script prints each schedule's estimate
(including the launch time) and measured time, and the loss: how much slower the schedule with the
least estimate is than the fastest one. The estimate of a product that is split along K includes
the sum of its parts. `--held-out WORD` also prints the figures of the cases whose name contains
WORD.

`--fit` fits the rates of tiles (`rates` and `alone` of the target file) to the measured times of
all schedules with that tile, and prints the figures with the fitted rates. `held out` are the
figures with rates that were fitted without the contraction in question. `--fit WORD` fits only
tiles whose types contain WORD (`unpacked`, for example).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from ceiling import Product, named
from contractions import DTYPES
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.passes.schedule.cost import cost
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.split_reductions import seconds_of_sum
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import Target, load

ROUNDS = 20
"""Maximum number of steps of the fit."""

STEP = 1e-3
"""Difference of a rate's logarithm for the numeric derivative."""

START_US = 3.0
"""Microseconds of an empty dispatch."""


PENALTY = 0.05
"""Weight of the penalty that keeps fitted rates near those of the target file."""


@dataclass(frozen=True)
class Row:
    """A schedule of a contraction with its measured time and the inputs of its estimate."""

    case: str
    schedule: str
    microseconds: float
    plan: Plan
    on_top: float
    """Seconds of the launch and, if K is split into parts, of the sum of their results."""

    @property
    def tile(self) -> tuple[object, ...]:
        """Key that is equal for schedules with the same rates in the target file."""
        schedule = self.plan.schedule
        types = self.plan.contraction.types
        unpacked = any(self.plan.contraction.unpackings)
        rates = self.plan.rates[:2]
        kind = "unpacked" if unpacked else ""
        return kind, *types, schedule.tile[:2], schedule.grid, schedule.stages.data, *rates

    def estimate(self, rate: float | None = None, alone: float | None = None) -> float:
        """Returns the estimate in microseconds. `rate` and `alone` replace the target's rates."""
        own = self.plan.rates
        rates = own._replace(rate=rate or own.rate, alone=alone or own.alone)
        return 1e6 * (cost(self.plan, rates) + self.on_top)


def module_of(case: str, parts: int) -> ModuleOp | None:
    """
    Returns a program with the product that a name describes, split along K into `parts`. Returns
    None for other names.
    """
    ctx = context()
    packed = re.fullmatch(r"(\d+)x(\d+)x(\d+) (Q\w+)( of any rows)?", case)
    if packed is not None:
        from packed_weights import Case, drawn

        m, n, k = (int(packed[i]) for i in (1, 2, 3))
        product = Case(m, n, k, packed[4], 1, bool(packed[5]))
        module = product.module(drawn(product.n, product.k, product.format), None)
    else:
        try:
            product = named(case)
        except ValueError:
            return None
        one = Product(product.case, product.stored, 1, product.is_weight)
        module = parse_text(one.text(None), str(one), ctx)
        if one.is_weight:
            zero = np.broadcast_to(np.zeros((), DTYPES[one.case.types[1]]), one.case.shape("b"))
            host = next(op for op in module.ops if op.name == "func.func")
            give_weights(host, {"B0_B": zero})  # pyright: ignore[reportArgumentType]
    passes = _universe().all_passes
    cut = f"split-reductions{{parts={parts}}}," if parts > 1 else ""
    spec = f"linalg-to-contraction,{cut}form-dispatches"
    PassPipeline.parse_spec(passes, spec).apply(ctx, module)
    return module


@cache
def contraction(case: str, parts: int = 1) -> Contraction | None:
    """
    Returns the contraction of a named product, split along K into `parts`. Returns None for other
    names.
    """
    module = module_of(case, parts)
    for op in () if module is None else module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                return contraction_of(op)
            except NotAContraction:
                continue
    return None


def candidates(one: Contraction, target: Target) -> dict[str, Plan]:
    """Returns the possible schedules of the first lowering path that has any, with their plans."""
    fitting: dict[str, Plan] = {}
    for listed in candidates_of(one, target):
        for planned in listed:
            if not any(planned.problems()):
                fitting.setdefault(_without_order(str(planned.schedule)), planned)
        if fitting:
            break
    return fitting


def measured(paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Returns the first measured time in microseconds, by contraction and schedule."""
    times: dict[str, dict[str, float]] = {}
    for path in paths:
        for record in json.loads(path.read_text())["records"]:
            wrong = not record.get("ok") or "without" in record
            if "us" not in record or "schedule" not in record or wrong:
                continue
            schedule, chosen = record["schedule"], record.get("chosen", ())
            if schedule == "default":
                sums = [s for s in chosen if "loops" in s]
                if sums and len(chosen) > 1:
                    continue
                schedule = next((s for s in chosen if "contraction" in s), "")
            if "tiles = " in schedule or "#" not in schedule:
                continue
            total = record["us"] + record.get("pack_us", 0.0)
            times.setdefault(record["case"], {}).setdefault(_normal(schedule), total)
    return times


def rows_of(case: str, times: Mapping[str, float], target: Target) -> Iterator[Row]:
    """Yields the measured schedules that the compiler could choose for the case."""
    listed: dict[int, dict[str, Plan]] = {}
    for schedule, microseconds in times.items():
        cut = re.match(r"(\d+) parts ", schedule)
        parts = int(cut[1]) if cut else 1
        one, whole = contraction(case, parts), contraction(case)
        if one is None or whole is None:
            continue
        if parts not in listed:
            listed[parts] = candidates(one, target)
        known = listed[parts].get(schedule[cut.end() :] if cut else schedule)
        if known is not None:
            more = seconds_of_sum(whole, parts, target) if parts > 1 else 0.0
            yield Row(case, schedule, microseconds, known, START_US / 1e6 + more)


def fitted(rows: Sequence[Row]) -> tuple[float, float | None]:
    """Returns the rates of a tile (`rate`, `alone`) that minimize the error of the estimates."""
    own = rows[0].plan.rates
    assert own.rate is not None
    begin = np.log([own.rate, own.alone] if own.alone else [own.rate])
    logarithms = begin.copy()

    def errors(logarithms: Any) -> Any:
        logs = [log(r.estimate(*np.exp(logarithms).tolist()) / r.microseconds) for r in rows]
        return np.array([*logs, *(PENALTY * (logarithms - begin))])

    for _ in range(ROUNDS):
        now = errors(logarithms)
        slopes = np.stack([errors(logarithms + d) - now for d in STEP * np.eye(len(begin))], 1)
        step = np.linalg.lstsq(slopes / STEP, -now, rcond=None)[0]
        better = logarithms + step
        if np.square(errors(better)).sum() >= np.square(now).sum():
            break
        logarithms = better
    rate, *alone = np.exp(logarithms).tolist()
    return rate, alone[0] if alone else None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--held-out", default="")
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--fit", nargs="?", const="", metavar="TYPES")
    options = parser.parse_args(arguments)
    target = load(options.target)
    times = measured(options.results)
    rows = {case: list(rows_of(case, by, target)) for case, by in times.items()}
    rows = {case: of_case for case, of_case in rows.items() if of_case}
    report(rows, times, options.held_out)
    if options.fit is not None:
        fit(rows, times, options.fit)
    return 0


Estimate: TypeAlias = Callable[[Row], float]


def report(
    rows: Mapping[str, Sequence[Row]], times: Mapping[str, Mapping[str, float]], held_out: str
) -> None:
    for case, of_case in rows.items():
        chosen = min(of_case, key=Row.estimate)
        best = min(of_case, key=lambda row: row.microseconds)
        print(f"{case}: loses {chosen.microseconds / best.microseconds:.3f}")
        for row in sorted(of_case, key=lambda row: row.microseconds):
            mark = ("*" if row is chosen else " ") + ("!" if row is best else " ")
            figures = f"{row.microseconds:8.2f} estimated {row.estimate():8.2f}"
            print(f"  {mark} {figures}  {_short(row.schedule)}")
        known = {row.schedule for row in of_case}
        for schedule, us in times[case].items():
            if schedule not in known:
                print(f"   ? {us:8.2f} not a candidate       {_short(schedule)}")
    apart = [case for case in rows if held_out and held_out in case]
    state("others" if apart else "all", [rows[c] for c in rows if c not in apart], Row.estimate)
    if apart:
        state(held_out, [rows[case] for case in apart], Row.estimate)


def state(name: str, cases: Sequence[Sequence[Row]], estimate: Estimate) -> None:
    errors = [abs(log(estimate(row) / row.microseconds)) for rows in cases for row in rows]
    chosen = [min(rows, key=estimate).microseconds for rows in cases]
    best = [min(row.microseconds for row in rows) for rows in cases]
    losses = [took / least for took, least in zip(chosen, best, strict=True)]
    error = math.expm1(statistics.median(errors))
    mean = math.expm1(statistics.mean(map(log, losses)))
    counts = f"{len(cases)} contractions, {len(errors)} schedules"
    worst = f"at most {max(losses) - 1:.1%}"
    print(f"{name}: {counts}, median error {error:.1%}, loss {mean:.1%}, {worst}")


def fit(
    rows: Mapping[str, Sequence[Row]], times: Mapping[str, Mapping[str, float]], types: str
) -> None:
    """
    Fits the rates of tiles whose types contain `types` to measured schedules. Prints the rates and
    the resulting errors.
    """
    tiles: dict[tuple[object, ...], list[Row]] = {}
    for row in (row for of_case in rows.values() for row in of_case):
        if types in " ".join(map(str, row.tile[:4])) and row.plan.rates.rate is not None:
            tiles.setdefault(row.tile, []).append(row)
    own = (None, None)
    found = {tile: fitted(of_tile) for tile, of_tile in tiles.items()}
    for tile, rates in found.items():
        print(tile, "->", *(round(rate) for rate in rates if rate), len(tiles[tile]))
    cases = [of_case for of_case in rows.values() if any(row.tile in tiles for row in of_case)]
    state("as they are", cases, Row.estimate)
    state("fitted", cases, lambda row: row.estimate(*found.get(row.tile, own)))

    @cache
    def without(tile: tuple[object, ...], case: str) -> tuple[float | None, float | None]:
        others = [row for row in tiles.get(tile, ()) if row.case != case]
        return fitted(others) if others else own

    state("held out", cases, lambda row: row.estimate(*without(row.tile, row.case)))


_universe = cache(Universe.get_multiverse)


@cache
def _normal(schedule: str) -> str:
    """Returns the schedule's text without parameters that do not affect the estimate."""
    parts, mark, rest = schedule.partition("#")
    return parts + _without_order(str(Parser(context(), mark + rest).parse_attribute()))


def _without_order(schedule: str) -> str:
    return schedule.replace(", first = store", "")


def _short(schedule: str) -> str:
    for long, short in (
        ("#schedule.contraction<workgroup_tile = ", ""),
        ("subgroups = ", ""),
        ("instruction = coopmat ", ""),
    ):
        schedule = schedule.replace(long, short)
    return schedule[:170]


if __name__ == "__main__":
    sys.exit(main())
