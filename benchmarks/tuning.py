r"""
Tunes the contractions of benchmarks/ and of known networks on the devices of a machine.

    python benchmarks/tuning.py --target nvidia-h200 --seconds 230 --jobs 28 \
        --store h200.sqlite -o h200-tuning.json --table targets/tuned/nvidia-h200.json

Every contraction gets an equal share of the remaining time. Measurements are kept in the store, so
that a second run continues the first. A schedule enters the table only if it beats the default by
more than 3 % in two measurements. With --ahead, the cores compile candidates and compute exact
results before the first timing. -o writes default and best of each contraction, and every
measurement: schedule, time, time of the default next to it, number of runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from math import exp, log, prod
from pathlib import Path
from typing import Any

from ceiling import Product, convolutions, products
from ceiling import small as small_products
from contractions import cases
from shape_families import families

from xdsl_spirv.jobs.engine import Engine, Here
from xdsl_spirv.jobs.job import LAVAPIPE, Job
from xdsl_spirv.jobs.options import open_engine, status_of
from xdsl_spirv.jobs.places import here
from xdsl_spirv.jobs.store import Record, Store
from xdsl_spirv.passes.schedule.tuned import path_for
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.tools.tuning.bench import LIST, MEASURE, DeviceBench
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.page import write_page
from xdsl_spirv.tools.tuning.results import (
    Known,
    Outcome,
    best_of,
    deserves_entry,
    gain_of,
    time_of,
    write_table,
)
from xdsl_spirv.tools.tuning.search import Options, Search
from xdsl_spirv.tools.tuning.together import Together


def benchmark_products() -> list[Product]:
    """Returns the products of benchmarks/contractions.py and benchmarks/ceiling.py."""
    plain = [Product(case, case.types[2], 1, False) for case in cases()]
    return [*products(), *convolutions(), *plain]


def network_products() -> list[Product]:
    """Returns products of all families, taking one of each family in turn."""
    rows = zip_longest(*families().values())
    return [product for row in rows for product in row if product is not None]


GROUPS = {
    "benchmarks": lambda: benchmark_products(),
    "networks": lambda: network_products(),
    "some": lambda: network_products()[:8],
    "small": small_products,
}


def sources(
    chosen: Sequence[Product], target: str, cores: int | None = None
) -> dict[str, tuple[Source, Product]]:
    """Returns the distinct contractions of the products by key, each with one of its products."""

    def job(number: int, product: Product) -> Job:
        weights = [f"{name}_B" for name in product.weights] if product.is_weight else []
        data = {"text": product.text(None), "target": target, "weights": weights}
        return Job(LIST, data, note=number)

    with Here(cores or os.cpu_count() or 1, ()) as engine:
        results = list(engine.run(job(*pair) for pair in enumerate(chosen)))
    table: dict[str, tuple[Source, Product]] = {}
    for listing, result in sorted(results, key=lambda pair: pair[0].note):
        product = chosen[listing.note]
        if not result.ok:
            raise ProgramError(
                f"listing the contractions failed: {result.status}, {result.cause}", str(product)
            )
        data = listing.data
        for key in result.value:
            source = Source(data["text"], target, key, tuple(data["weights"]))
            table.setdefault(key, (source, product))
    return table


def work_of(product: Product) -> int:
    """Returns the number of multiplications of a contraction."""
    return prod(product.case.sizes.values())


def record_of(product: Product, tried: Sequence[Outcome], search: Search | None) -> dict[str, Any]:
    """Returns the record of a search for the JSON file."""
    record: dict[str, Any] = {
        "case": str(product),
        "key": tried[0].key,
        "candidates": dict(Counter(one.status for one in tried)),
        "expected_gains": [round(gain, 4) for gain in search.expected] if search else [],
        "entry": deserves_entry(tried),
    }
    best, gain = best_of(tried), gain_of(tried)
    if best is None:
        return record
    if gain is not None:
        record["gain"] = round(gain, 4)
    first = tried[0]
    for name, one, took in (("default", first, first.microseconds), ("best", best, time_of(tried))):
        if one.right:
            record[name] = {
                "schedule": one.schedule,
                "microseconds": round(took, 3),
                "packing": round(one.packing, 3),
                "code": str(heaviest(one.statistics)),
            }
    record["measured"] = [
        [o.schedule, round(o.microseconds, 3), round(o.reference, 3), o.runs]
        for o in tried
        if o.right
    ]
    return record


def parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--groups", default="benchmarks,networks")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument(
        "--without", type=Path, help="skip the contractions in this file of results"
    )
    parser.add_argument(
        "--ahead", action="store_true", help="compile the first step of all before measuring"
    )
    parser.add_argument(
        "--load-ahead", action="store_true", help="the driver compiles in other processes"
    )
    parser.add_argument("--seconds", type=float, default=230, help="for all of it (%(default)g)")
    parser.add_argument("--candidates", type=int, default=48, help="a contraction (%(default)s)")
    parser.add_argument("--runs", type=int, default=18, help="timed for each (%(default)s)")
    parser.add_argument("--timeout", type=float, default=10, help="seconds of a run (%(default)g)")
    parser.add_argument("--until-gain", type=float, default=0.01, help="(%(default)g)")
    parser.add_argument(
        "--cheap-seconds", type=float, default=0.01, help="runs not worth halving (%(default)g)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="compile processes (%(default)s)")
    parser.add_argument("--at-once", type=int, default=4, help="searches a device (%(default)s)")
    parser.add_argument("--devices", type=int, default=8, help="at most (%(default)s)")
    parser.add_argument("--scheduler", help="of Dask, or local:N")
    parser.add_argument("--most", type=int, default=1000, help="of each group (%(default)s)")
    parser.add_argument("--store", type=Path, default=Path("tuning.sqlite"))
    parser.add_argument(
        "--recorded",
        type=Path,
        nargs="*",
        default=[],
        help="write the contents of these stores and measure nothing",
    )
    parser.add_argument("--table", type=Path, help="where assign-schedule reads it")
    parser.add_argument("--page", type=Path, help="the search as a page")
    parser.add_argument("-o", "--output", type=Path)
    return parser


def engine_of(options: argparse.Namespace) -> Engine:
    if options.scheduler is not None:
        return open_engine(options.scheduler, options.jobs)
    return Here(options.jobs, here()[: options.devices])


def prepare(
    benches: Mapping[str, DeviceBench], chosen: Mapping[str, tuple[Source, Product]], cores: int
) -> None:
    """Runs the CPU work of the first step of all searches: compilation and exact results."""
    begun = time.monotonic()
    with ThreadPoolExecutor(2 * cores) as threads:
        for _ in threads.map(lambda key: benches[key].prepare(chosen[key][0]), chosen):
            pass
    print(f"compiled in {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)


def searched(
    options: argparse.Namespace, chosen: Mapping[str, tuple[Source, Product]]
) -> tuple[Mapping[str, list[Outcome]], Together, dict[str, Any]]:
    """Returns the outcomes, the search and facts about the devices."""
    limits = Options(
        options.runs,
        options.candidates,
        options.timeout,
        until_gain=options.until_gain,
        cheap_seconds=options.cheap_seconds,
        load_ahead=options.load_ahead,
    )
    with engine_of(options) as engine, Store(options.store) as store:
        ((resource, devices),) = engine.resources().most_common(1)
        devices = 1 if resource == LAVAPIPE else devices
        place = engine.place(resource)
        known = Known.of(store.records(MEASURE), place.device, place.driver)
        benches = {key: DeviceBench(engine, resource, limits, store, known) for key in chosen}
        if options.ahead:
            prepare(benches, chosen, options.jobs)
        together = Together(
            lambda source: benches[source.key],
            limits,
            lambda text: print(text, file=sys.stderr, flush=True),
            options.at_once * devices,
            options.seconds,
        )
        begun = time.monotonic()
        outcomes = together.run([source for source, _ in chosen.values()])
        return (
            outcomes,
            together,
            {
                "device": place.device,
                "driver": place.driver,
                "devices": devices,
                "scheduler": options.scheduler,
                "seconds": round(time.monotonic() - begun, 1),
            },
        )


def recorded(paths: Sequence[Path]) -> tuple[dict[str, list[Outcome]], dict[str, Any]]:
    """Returns each contraction's measurements on the most frequent device, the default first."""
    records: list[Record] = []
    for path in paths:
        with Store(path) as store:
            records += store.records(MEASURE)
    devices = Counter((r.result.device, r.result.driver) for r in records)
    ((device, driver), _), *_ = devices.most_common(1)
    known = Known.of(records, device, driver)
    where = {"device": device, "driver": driver, "unusual": len(known.unusual)}
    return {key: list(known.of_contraction(key).values()) for key in known.clocks}, where


def main(arguments: list[str] | None = None) -> int:
    options = parser(__doc__).parse_args(arguments)
    chosen: dict[str, tuple[Source, Product]] = {}
    for group in options.groups.split(","):
        listed = [product for product in GROUPS[group]() if options.only in str(product)]
        others = sources(listed, options.target, options.jobs)
        chosen |= {k: v for k, v in list(others.items())[: options.most] if k not in chosen}
    if options.without is not None:
        had = {record["key"] for record in json.loads(options.without.read_text())["records"]}
        chosen = {key: pair for key, pair in chosen.items() if key not in had}
    # Small contractions come first, while exact results of the others are computed.
    chosen = dict(sorted(chosen.items(), key=lambda pair: work_of(pair[1][1])))
    print(f"{len(chosen)} contractions", file=sys.stderr)
    searches: Mapping[str, Search] = {}
    if options.recorded:
        outcomes, where = recorded(options.recorded)
        outcomes = {key: tried for key, tried in outcomes.items() if key in chosen}
    else:
        outcomes, together, where = searched(options, chosen)
        searches = together.searches
    write_table(options.table or path_for(options.target), options.target, outcomes)
    records = [
        record_of(chosen[key][1], tried, searches.get(key)) for key, tried in outcomes.items()
    ]
    for record in records:
        print(json.dumps({k: v for k, v in record.items() if k != "measured"}), flush=True)
    gains = [record["gain"] for record in records if "gain" in record]
    mean = exp(sum(map(log, gains)) / len(gains)) if gains else 1.0
    print(f"{mean:.4f} times the default in the geometric mean of {len(gains)}", file=sys.stderr)
    if options.output is not None:
        document = {
            "what": (__doc__ or "").strip().splitlines()[0],
            "date": time.strftime("%Y-%m-%d"),
            "target": options.target,
            **where,
            "mean_gain": round(mean, 4),
            "records": records,
        }
        options.output.write_text(json.dumps(document, indent=0) + "\n")
    if options.page is not None:
        write_page(options.page, options.target, outcomes, searches)
    print(f"{len(records)} of {len(chosen)}", file=sys.stderr)
    return 0 if len(records) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(status_of(main))
