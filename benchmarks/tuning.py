"""
The contractions of benchmarks/contractions.py tuned on a device, within a stated time in all.

    python benchmarks/tuning.py --target nvidia-h200 --seconds 330 --jobs 12 \\
        --results h200-tuning.jsonl -o h200-tuning.json --table targets/tuned/nvidia-h200.json

Every contraction gets an equal share of the time that is left. What was tried is a line of the
results file, so that a second run goes on where the first ended. A schedule enters the table only
if it beats the default by more than 3 % in both of two measurements; -o gets all of it: the
default, the best, their registers, and how many candidates came to what. PyTorch, if it is there,
makes the references.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contractions import BF16, DTYPES, F16, F32, S8, Case, convolution, matmul, reference, small

from xdsl_spirv.passes.schedule.tuned import path_for
from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.vulkan.statistics import heaviest
from xdsl_spirv.targets import load
from xdsl_spirv.tools.tuning.candidates import Compiler
from xdsl_spirv.tools.tuning.results import (
    STATUSES,
    Outcome,
    best_of,
    deserves_entry,
    gain_of,
    write_table,
)
from xdsl_spirv.tools.tuning.search import Opener, Search

SIZES = (1024, 2048, 4096, 1000, 4095)


def cases() -> list[Case]:
    found = [convolution(n, types) for types in (F32, S8) for n in (1, 32)]
    for size in SIZES:
        found += [matmul(size, types) for types in (F16, F32, BF16)]
        found += [matmul(size, S8, transposed) for transposed in (True, False)]
    return found


def searched(
    case: Case, options: argparse.Namespace, seconds: float, compiler: Compiler, opener: Opener
) -> dict[str, list[Outcome]]:
    """The outcomes of a case's candidates, by its key."""

    def expect(inputs: Mapping[str, Array]) -> dict[str, Array]:
        exact, _ = reference(case, dict(inputs))
        return {"result0": exact.astype(DTYPES[case.types[2]])}

    search = Search(
        case.text(),
        load(options.target),
        options.target,
        options.device,
        options.results,
        runs=options.runs,
        most=options.candidates,
        timeout=options.timeout,
        say=lambda text: print(text, file=sys.stderr, flush=True),
        seconds=seconds,
        prune=not options.no_prune,
        expect=expect,
        compiler=compiler,
        opener=opener,
    )
    return search.run()


def record_of(case: Case, tried: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    """What a search came to, for the file and the screen."""
    counts = Counter(each.status for each in tried)
    record: dict[str, Any] = {
        "case": case.name,
        "seconds": round(seconds, 1),
        "candidates": {status: counts[status] for status in STATUSES if counts[status]},
        "entry": deserves_entry(tried),
    }
    best, gain = best_of(tried), gain_of(tried)
    if best is None:
        return record
    if gain is not None:
        record["gain"] = round(gain, 4)
    for name, each in (("default", tried[0]), ("best", best)):
        if each.right:
            record[name] = {
                "schedule": each.schedule,
                "microseconds": round(each.latest, 3),
                "packing": round(each.packing or 0.0, 3),
                "tflops": round(case.flops / each.latest / 1e6, 2),
                "code": str(heaviest(each.statistics)),
                "statistics": each.statistics,
            }
    return record


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--target", default="nvidia-h200")
    found.add_argument("--device", default="vulkan")
    found.add_argument("--only", default="", help="cases whose name contains this")
    found.add_argument("--small", action="store_true", help="small cases only")
    found.add_argument("--seconds", type=float, default=330, help="for all of it (%(default)g)")
    found.add_argument("--candidates", type=int, default=48, help="a contraction (%(default)s)")
    found.add_argument("--runs", type=int, default=20, help="timed for each (%(default)s)")
    found.add_argument("--timeout", type=float, default=20, help="seconds of a run (%(default)g)")
    found.add_argument("--jobs", type=int, default=1, help="compile processes (%(default)s)")
    found.add_argument("--no-prune", action="store_true", help="time what spills, too")
    found.add_argument("--results", type=Path, default=Path("tuning.jsonl"))
    found.add_argument("--table", type=Path, help="where assign-schedule reads it")
    found.add_argument("-o", "--output", type=Path)
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    chosen = [case for case in (small if options.small else cases)() if options.only in case.name]
    table = options.table or path_for(options.target)
    end = time.monotonic() + options.seconds
    records: list[dict[str, Any]] = []
    compiler, opener = Compiler(options.jobs), Opener(options.device, options.timeout)
    try:
        for number, case in enumerate(chosen):
            begun = time.monotonic()
            share = max(0.0, end - begun) / (len(chosen) - number)
            if begun > end:
                print(f"no time is left for {case.name}", file=sys.stderr)
                continue
            outcomes = searched(case, options, share, compiler, opener)
            write_table(table, options.target, outcomes)
            for tried in outcomes.values():
                records.append(record_of(case, tried, time.monotonic() - begun))
                print(json.dumps(records[-1]), flush=True)
            if options.output is not None:
                options.output.write_text(json.dumps({"records": records}, indent=1) + "\n")
    finally:
        compiler.close()
        opener.close()
    return 0 if len(records) == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
