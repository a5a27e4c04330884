"""
Compiles and runs random contractions in every form, type and layout.

Every case is compiled for every target, and each binary must pass spirv-val. The program runs on
the interpreter with all checks, which must find nothing, and on a Vulkan device if one is given.
Every result must lie in the interval of docs/numerics.md around the source's result.

    benchmarks/sweep.py --count 2000 [--seed 0] [--jobs 2] [--vulkan lavapipe]
    benchmarks/sweep.py --count 10000 --scheduler tcp://host:8786 --vulkan nvidia-h200=vulkan
    ... --interpreter-every 8                              one case of 8, in 1/3 of the time
    benchmarks/sweep.py --only 17 --target lavapipe        one case, with its text
    benchmarks/sweep.py --workloads my_module:my_cases     your own cases: see sweep_cases.py

Finished cases are kept in a store, so that an interrupted sweep can continue. `--fresh`, or a
change of this package's code, starts again. `--vulkan lavapipe` runs the programs of the target
lavapipe on lavapipe, `--vulkan TARGET=vulkan` the programs of TARGET on the GPU. The summary goes
to benchmarks/results/sweep.json.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.job import CORES, Job, Result
from xdsl_spirv.jobs.options import open_engine, open_store, resource, status_of
from xdsl_spirv.tools.options import Options

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "sweep.json"
STORE = HERE.parent / "build" / "sweep.db"
DEFAULT = "sweep_cases:case"
SECONDS = 600.0
"""Time limit for a case."""


def main() -> int:
    arguments = _arguments()
    target, _, device = (arguments.vulkan or "").partition("=")
    store = Path(arguments.store or STORE)
    if arguments.fresh:
        for suffix in ("", "-wal", "-shm"):
            store.with_name(store.name + suffix).unlink(missing_ok=True)
    records: list[dict[str, Any]] = []
    begun = time.perf_counter()
    with (
        open_engine(arguments.scheduler, arguments.jobs, device) as engine,
        open_store(None if arguments.only is not None else str(store)) as kept,
    ):
        needs = resource(engine, device or None) if target else CORES
        for job, result in engine.run(_jobs(arguments, target, needs), kept):
            records.append(_record(job, result))
            if not result.ok or arguments.only is not None:
                _report(records[-1])
        place = engine.place(needs)
    if arguments.only is None:
        records.sort(key=lambda record: (record["seed"], record["target"]))
        summary = _summary(records, arguments) | {
            "device": f"{place.device}, {place.driver}" if place.device else None,
            "scheduler": arguments.scheduler,
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "elapsed_seconds": round(time.perf_counter() - begun, 1),
        }
        arguments.output.write_text(json.dumps(summary, indent=1) + "\n")
        print(json.dumps({key: summary[key] for key in ("contractions", "runs", "status")}))
    return 0 if all(record["status"] == "passed" for record in records) else 1


def _jobs(arguments: argparse.Namespace, on_device: str, needs: str) -> Iterator[Job]:
    """Yields a job for each case and target. Programs of `on_device` also run on the device."""
    first, count = arguments.seed, arguments.count
    if arguments.only is not None:
        first, count = arguments.only, 1
    common = {
        "workloads": arguments.workloads,
        "folder": str(Path.cwd()),
        "code": _digest(arguments.workloads),
        "text": arguments.only is not None,
    }
    for seed in range(first, first + count):
        for target in arguments.target:
            there = target == on_device
            interpreted = not there or not seed % arguments.interpreter_every
            data = {"seed": seed, "target": target, "on_device": there, **common}
            data["interpreted"] = interpreted
            yield Job("sweep", data, needs if there else CORES, SECONDS, shared=True)


def _digest(workloads: str) -> str:
    """Returns a hash of the modules that make the cases. A change invalidates stored cases."""
    name = workloads.partition(":")[0] + ".py"
    files = [*sorted(HERE.glob("sweep_*.py")), Path(name)]
    data = b"".join(file.read_bytes() for file in files if file.is_file())
    return hashlib.sha256(data).hexdigest()[:12]


def _record(job: Job, result: Result) -> dict[str, Any]:
    counted = result.value or {"form": "", "types": "", "status": result.status}
    return {
        "seed": job.data["seed"],
        "target": job.data["target"],
        "what": result.cause,
        "seconds": result.seconds,
        **counted,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random contractions, compiled, run and compared.")
    parser.add_argument("--count", type=int, default=2000, help="cases (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first case's (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--target", nargs="+", default=["lavapipe", "nvidia-h200"])
    parser.add_argument("--vulkan", metavar="TARGET[=vulkan]", help="run its programs on a device")
    parser.add_argument(
        "--interpreter-every",
        type=int,
        default=1,
        metavar="N",
        help="interpret one of N cases of --vulkan, too (%(default)s)",
    )
    parser.add_argument("--workloads", default=DEFAULT, metavar="MODULE:FUNCTION")
    parser.add_argument("--only", type=int, metavar="SEED", help="one case, in detail")
    parser.add_argument("--fresh", action="store_true", help="discard the finished cases")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    Options("@scheduler")(parser)
    return parser.parse_args()


def _report(record: dict[str, Any]) -> None:
    print(record.get("text", ""), end="")
    print(
        f"{record['seed']} {record['target']} {record['form']} {record['types']}: "
        f"{record['status']} {record['what']}",
        flush=True,
    )


def _summary(records: list[dict[str, Any]], arguments: Any) -> dict[str, Any]:
    def counts(key: str) -> dict[str, int]:
        occurrences = collections.Counter(str(record[key]) for record in records)
        return dict(sorted(occurrences.items()))

    extra = "" if arguments.workloads == DEFAULT else f" --workloads {arguments.workloads}"
    failures = [
        {
            **{key: record[key] for key in ("seed", "target", "form", "types", "status", "what")},
            "reproduce": f"benchmarks/sweep.py --only {record['seed']} --target {record['target']}"
            + (f" --vulkan {arguments.vulkan}" if record.get("on_device") else "")
            + extra,
        }
        for record in records
        if record["status"] != "passed"
    ]
    return {
        "workloads": arguments.workloads,
        "seed": arguments.seed,
        "contractions": len({record["seed"] for record in records}),
        "runs": len(records),
        "on_device": sum(bool(record.get("on_device")) for record in records),
        "on_interpreter": sum(bool(record.get("interpreted")) for record in records),
        "kernels": sum(record.get("kernels", 0) for record in records),
        "seconds": round(sum(record["seconds"] for record in records)),
        "status": counts("status"),
        "targets": counts("target"),
        "types": counts("types"),
        "forms": counts("form"),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(status_of(main))
