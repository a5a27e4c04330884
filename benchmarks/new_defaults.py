"""
Compares the schedules chosen by a changed target file with the schedules of the old file.

    python benchmarks/new_defaults.py --target nvidia-h200 --before old.json -o new-defaults.json

For every contraction of benchmarks/ and of known networks the script times the default schedule of
the old file, the default of the current file and the tuned table's schedule. Each timing is
between two timings of the old default. The script prints the geometric mean of the speedups.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from math import exp, log
from pathlib import Path
from typing import Any

from ceiling import Product
from tuning import GROUPS, engine_of, parser, sources

from xdsl_spirv.jobs.job import LAVAPIPE
from xdsl_spirv.jobs.options import status_of
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.passes.schedule.assign_schedule import choose
from xdsl_spirv.passes.schedule.paths import TILED, Decisions
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.bench import DeviceBench
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.kinds import pricing_of
from xdsl_spirv.tools.tuning.search import Options


def schedules(source: Source, files: Mapping[str, str]) -> dict[str, str]:
    """Returns the schedules of a contraction by their source: a target file or the table."""
    contraction = pricing_of(source).contraction
    chosen = {
        who: str(choose(contraction, load(file), Decisions(), TILED).schedule)
        for who, file in files.items()
    }
    tuned = lookup(contraction, load(source.target))
    return {**chosen, "tuned": chosen["now"] if tuned is None else str(tuned)}


def measured(
    bench: DeviceBench, source: Source, product: Product, chosen: Mapping[str, str]
) -> dict[str, Any]:
    """Times the schedules `chosen`. Returns their times relative to the first schedule's time."""
    record: dict[str, Any] = {"case": str(product), "key": source.key, "schedules": dict(chosen)}
    names = list(dict.fromkeys(chosen.values()))
    if len(names) == 1:
        return {**record, "same": True, "ratios": dict.fromkeys(chosen, 1.0)}
    first, *others = names
    (default,) = bench.measure(source, [first], bench.options.runs)
    outcomes = {first: default}
    for outcome in bench.measure(source, others, bench.options.runs):
        outcomes[outcome.schedule] = outcome
    record["microseconds"] = round(default.microseconds, 3)
    record["ratios"] = {
        who: round(outcomes[name].ratio, 4) for who, name in chosen.items() if outcomes[name].right
    }
    return record | {"failed": [f"{o.status}: {o.cause}" for o in outcomes.values() if not o.right]}


def mean(records: Sequence[Mapping[str, Any]], who: str) -> float:
    """Returns the geometric mean of the speedups of `who`'s schedules over the old default."""
    ratios = [r["ratios"][who] for r in records if who in r["ratios"] and r["ratios"][who]]
    return exp(-sum(map(log, ratios)) / len(ratios)) if ratios else 1.0


def main(arguments: list[str] | None = None) -> int:
    command: argparse.ArgumentParser = parser(__doc__)
    command.add_argument("--before", required=True, help="the target file of before")
    command.add_argument(
        "--variant", action="append", default=[], metavar="NAME=FILE", help="another target file"
    )
    options = command.parse_args(arguments)
    listed = [p for group in options.groups.split(",") for p in GROUPS[group]()]
    chosen = sources([p for p in listed if options.only in str(p)], options.target)
    limits = Options(options.runs, timeout=options.timeout, prune=False)
    files = {"before": options.before, "now": options.target}
    files |= dict(variant.split("=", 1) for variant in options.variant)
    with ProcessPoolExecutor(options.jobs) as processes:
        texts = [source for source, _ in chosen.values()]
        names = list(processes.map(schedules, texts, [files] * len(texts)))
    end = time.monotonic() + options.seconds
    records: list[dict[str, Any]] = []
    with engine_of(options) as engine, Store(options.store) as store:
        ((resource, devices),) = engine.resources().most_common(1)
        devices = 1 if resource == LAVAPIPE else devices
        place = engine.place(resource)

        def one(source: Source, product: Product, by: Mapping[str, str]) -> None:
            if time.monotonic() < end:
                bench = DeviceBench(engine, resource, limits, store)
                records.append(measured(bench, source, product, by))
                print(json.dumps(records[-1]), flush=True)

        with ThreadPoolExecutor(options.at_once * devices) as pool:
            done = [
                pool.submit(one, source, product, by)
                for (source, product), by in zip(chosen.values(), names, strict=True)
            ]
            for future in done:
                future.result()
    others = [*list(files)[1:], "tuned"]
    for who in others:
        changed = [r for r in records if r["ratios"].get(who, 1.0) != 1.0]
        print(f"{who}: {mean(records, who):.4f} times as fast, {len(records)} contractions")
        print(f"  {mean(changed, who):.4f} times as fast where another was chosen: {len(changed)}")
    if options.output is not None:
        document = {
            "what": (__doc__ or "").strip().splitlines()[0],
            "date": time.strftime("%Y-%m-%d"),
            "target": options.target,
            "device": place.device,
            "driver": place.driver,
            "mean": {who: round(mean(records, who), 4) for who in others},
            "records": records,
        }
        Path(options.output).write_text(json.dumps(document, indent=0) + "\n")
    return 0 if len(records) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(status_of(main))
