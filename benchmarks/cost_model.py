"""
The cost model beside what `ceiling.py` measured: its error, and what its choices lose.

    python benchmarks/cost_model.py --target nvidia-h200 RESULTS.json...

For every contraction with several measured schedules: the estimate of each, less the start of a
dispatch, beside the measured time, and how much slower the one with the least estimate is than the
fastest. `--held-out WORD` states the figures of the cases whose name contains it by themselves.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ceiling import GROUPS, Product
from contractions import DTYPES
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.universe import Universe

from xdsl_spirv.compiler.weights import give_weights
from xdsl_spirv.passes.analysis.contraction import Contraction, NotAContraction, contraction_of
from xdsl_spirv.passes.schedule.contraction_candidates import candidates_of
from xdsl_spirv.passes.schedule.cost import cost
from xdsl_spirv.passes.schedule.fit import problems_of
from xdsl_spirv.passes.schedule.plan import plan
from xdsl_spirv.runtime.modules import context, parse_text
from xdsl_spirv.targets import Target, load

START_US = 3.0
"""What a dispatch takes that does nothing."""


def contraction(product: Product) -> Contraction | None:
    """The only contraction of one such product; None if it is none."""
    one = Product(product.case, product.stored, 1, product.is_weight)
    ctx = context()
    module = parse_text(one.text(None), str(one), ctx)
    if one.is_weight:
        zero = np.broadcast_to(np.zeros((), DTYPES[one.case.types[1]]), one.case.shape("b"))
        host = next(op for op in module.ops if op.name == "func.func")
        give_weights(host, {"B0_B": zero})  # pyright: ignore[reportArgumentType]
    passes = Universe.get_multiverse().all_passes
    PassPipeline.parse_spec(passes, "linalg-to-contraction,form-dispatches").apply(ctx, module)
    for op in module.walk():
        if isinstance(op, LinalgStructuredOperation):
            try:
                return contraction_of(op)
            except NotAContraction:
                continue
    return None


def estimates(one: Contraction, target: Target) -> dict[str, float]:
    """Microseconds by schedule, of the candidates that fit."""
    microseconds: dict[str, float] = {}
    for _, candidates in candidates_of(one, target):
        for candidate in candidates:
            planned = plan(one, candidate.schedule, target)
            if not any(problems_of(planned)):
                seconds = cost(planned, candidate.rate, candidate.alone, candidate.stream)
                microseconds.setdefault(str(candidate.schedule), seconds * 1e6 + START_US)
        if microseconds:
            break
    return microseconds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--held-out", default="")
    parser.add_argument("results", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    target = load(options.target)
    products = {str(product): product for group in GROUPS.values() for product in group()}
    measured: dict[str, dict[str, float]] = {}
    for path in options.results:
        for record in json.loads(path.read_text())["records"]:
            if "us" not in record or not record.get("ok") or record["case"] not in products:
                continue
            schedule = record["schedule"]
            if schedule == "default":
                schedule = next((s for s in record["chosen"] if "contraction" in s), "")
            schedule = _normal(schedule) if schedule else ""
            total = record["us"] + record["pack_us"]
            if schedule:
                measured.setdefault(record["case"], {}).setdefault(schedule, total)
    errors: dict[bool, list[float]] = {False: [], True: []}
    losses: dict[bool, list[float]] = {False: [], True: []}
    for case, times in measured.items():
        one = contraction(products[case])
        if one is None:
            continue
        known = estimates(one, target)
        normal = {_normal(schedule): us for schedule, us in known.items()}
        both = {s: (normal[s], us) for s, us in times.items() if s in normal}
        if not both:
            continue
        apart = bool(options.held_out) and options.held_out in case
        errors[apart] += [abs(math.log(estimate / us)) for estimate, us in both.values()]
        chosen = min(both, key=lambda s: both[s][0])
        best = min(both, key=lambda s: both[s][1])
        losses[apart].append(both[chosen][1] / min(times.values()))
        print(f"{case}: loses {losses[apart][-1]:.3f}")
        for schedule, (estimate, us) in sorted(both.items(), key=lambda row: row[1][1]):
            mark = ("*" if schedule == chosen else " ") + ("!" if schedule == best else " ")
            print(f"  {mark} {us:8.2f} estimated {estimate:8.2f}  {_short(schedule)}")
        for schedule, us in times.items():
            if schedule not in normal:
                print(f"   ? {us:8.2f} not a candidate       {_short(schedule)}")
    for apart, name in ((False, "fitted"), (True, "held out")):
        if errors[apart]:
            error = math.exp(statistics.median(errors[apart])) - 1
            mean = math.exp(statistics.mean(map(math.log, losses[apart]))) - 1
            counts = f"{len(losses[apart])} contractions, {len(errors[apart])} schedules"
            worst = f"at most {max(losses[apart]) - 1:.1%}"
            print(f"{name}: {counts}, median error {error:.1%}, loss {mean:.1%}, {worst}")
    return 0


def _normal(schedule: str) -> str:
    """A schedule as it is printed, without what no estimate depends on."""
    attribute = str(Parser(context(), schedule).parse_attribute())
    return attribute.replace(", first = store", "")


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
