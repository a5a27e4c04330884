"""
Compares the order of estimates from a driver's statistics with times on another device.

    benchmarks/static_ranking.py nvidia:ga102 benchmarks/results/h200-schedules.json

The driver compiles each schedule of a case for the target of the measurements. The script prints
Spearman's rank correlation between the estimates (`xdsl-spirv tune --driver`) and the times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence

from xdsl_spirv.runtime.vulkan.compilers import Compiler, find
from xdsl_spirv.tools.tune import matmul
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.static import StaticBench
from xdsl_spirv.tools.tuning.together import sources_of


def ranks(values: Sequence[float]) -> list[float]:
    """Returns the rank of each value. Equal values share their mean rank."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns Spearman's rank correlation: 1 for equal order, -1 for reversed order."""
    a, b = ranks(first), ranks(second)
    middle = (len(a) - 1) / 2
    together = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    alone = [sum((x - middle) ** 2 for x in values) for values in (a, b)]
    return together / (alone[0] * alone[1]) ** 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare estimates with measured times.")
    parser.add_argument("device", help="as `devices --drivers` lists it")
    parser.add_argument("results", help="a file of records with case, schedule and ms")
    parser.add_argument("--target", default="nvidia-h200", help="of the measurements")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has it")
    parser.add_argument("--most", type=int, default=40, metavar="N", help="schedules of a case")
    arguments = parser.parse_args()
    cases: dict[str, dict[str, float]] = defaultdict(dict)
    for record in json.loads(open(arguments.results).read())["records"]:
        if arguments.only in record["case"] and record.get("ok", True) and "ms" in record:
            cases[record["case"]][record["schedule"]] = record["ms"]
    driver = find(arguments.device)
    with Compiler(driver) as compiler:
        for case, times in cases.items():
            if not case.startswith("matmul ") or len(case.split()) != 5:
                continue
            _, shape, a, _, c = case.split()
            names = {"s8": "i8", "s32": "i32"}
            text = matmul(f"{shape}:{names.get(a, a)}->{names.get(c, c)}")
            source: Source = sources_of(text, arguments.target, ("B",), print)[0]
            bench = StaticBench.on(compiler)
            chosen = list(times)[:: -(-len(times) // arguments.most)]
            pairs: list[tuple[float, float]] = []
            for schedule, outcome in zip(chosen, bench.measure(source, chosen, 1), strict=True):
                if outcome.right:
                    pairs.append((times[schedule], outcome.microseconds))
                print(
                    f"{times[schedule]:10.4f} {outcome.microseconds:12.1f} {outcome.status} "
                    f"{outcome.cause} {schedule}",
                    file=sys.stderr,
                )
            if len(pairs) > 2:
                rank = correlation(*zip(*pairs, strict=True))
                print(f"{case}: {len(pairs)} of {len(chosen)} schedules, correlation {rank:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
