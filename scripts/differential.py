"""
Runs generated kernels on a Vulkan device and on the interpreter, and reports differences.

    python scripts/differential.py 5000                 # seeds 0 to 4999 on lavapipe
    python scripts/differential.py 1 --start 1234       # only seed 1234
    python scripts/differential.py 200 --family dot --minimise
    python scripts/differential.py 1000 --target nvidia-h200 --device vulkan

    python scripts/differential.py 5000 --scheduler local:2 --store differential.db

Without `--device`, kernels run on lavapipe: the one fetched by `make lavapipe` (or named by
XDSL_SPIRV_LAVAPIPE), otherwise the machine's. `--target` generates kernels for that device's
subgroups and matrix properties. Each kernel runs in a separate process, because it may crash or
hang the driver.

The exit status is 1 if a difference is neither legal nor known (testing/differential/known.py).
`--minimise` prints the smallest kernel found for each difference. docs/differential.md describes
the generated kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from xdsl_spirv.jobs.engine import Engine  # noqa: E402
from xdsl_spirv.jobs.job import Job, Result  # noqa: E402
from xdsl_spirv.jobs.options import open_engine, open_store, resource, status_of  # noqa: E402
from xdsl_spirv.jobs.store import Store  # noqa: E402
from xdsl_spirv.targets import TargetError  # noqa: E402
from xdsl_spirv.testing.differential import FAMILIES  # noqa: E402
from xdsl_spirv.testing.differential.machine import machine  # noqa: E402
from xdsl_spirv.tools.options import Options  # noqa: E402

SECONDS, MINIMISE_SECONDS = 120.0, 3600.0
"""Time limits in seconds: for a kernel, and for a kernel with its minimisation."""
LACKS = "cannot run the program: it lacks"


@dataclass
class Tally:
    """Counts the outcomes of kernels."""

    kernels: Counter[str] = field(default_factory=Counter[str])
    outputs: int = 0
    known: Counter[str] = field(default_factory=Counter[str])
    unknown: int = 0
    refused: int = 0
    """Number of kernels that the device cannot run, because it lacks a feature."""

    def add(self, seed: int, result: Result) -> str:
        """Counts a kernel. Returns the line to print about it, or an empty string."""
        if result.status == "refused" and LACKS in result.cause:
            self.refused += 1
            return ""
        if result.value is None:
            self.unknown += 1
            return f"seed {seed}: the device failed: {result.status}: {result.cause}"
        self.kernels[result.value["family"]] += 1
        self.outputs += result.value["outputs"]
        self.known.update(result.value["known"])
        self.unknown += result.value.get("unknown", 0)
        return result.cause


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("kernels", type=int, help="how many")
    parser.add_argument(
        "--start", "--seed", type=int, default=0, help="the first seed (%(default)s)"
    )
    parser.add_argument("--family", choices=FAMILIES, help="only this family")
    parser.add_argument("--minimise", action="store_true", help="print the smallest kernels")
    parser.add_argument(
        "--jobs", "--processes", type=int, default=2, help="concurrent processes (%(default)s)"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="vulkan, vulkan:N of this machine, or vulkan:MODEL"
    )
    parser.add_argument("--target", default="lavapipe", help="target of the kernels (%(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="also write the figures as JSON")
    Options("@scheduler")(parser)
    return parser.parse_args()


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a Vulkan device with the interpreter.")
    arguments = arguments_of(parser)
    if arguments.kernels < 1 or arguments.jobs < 1:
        parser.error("kernels and --jobs must be at least 1")
    try:
        machine(arguments.target)
    except TargetError as error:
        parser.error(str(error))
    engine = open_engine(arguments.scheduler, arguments.jobs, arguments.device)
    with engine, open_store(arguments.store) as store:
        needs = resource(engine, arguments.device)
        figures = compared(engine, store, needs, arguments)
    print(json.dumps(figures, indent=2))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if figures["unexplained"] else 0


def compared(
    engine: Engine, store: Store | None, needs: str, arguments: argparse.Namespace
) -> dict[str, object]:
    """Returns the figures of all kernels. Prints differences as they occur."""
    tally, begun = Tally(), time.perf_counter()
    seeds = range(arguments.start, arguments.start + arguments.kernels)
    seconds = MINIMISE_SECONDS if arguments.minimise else SECONDS
    common = {
        "family": arguments.family,
        "target": arguments.target,
        "minimise": arguments.minimise,
    }
    jobs = (
        Job("differential", {"seed": seed, **common}, needs, seconds, shared=True) for seed in seeds
    )
    for job, result in engine.run(jobs, store):
        said = tally.add(job.data["seed"], result)
        if said:
            print(said, flush=True)
    place = engine.place(needs)
    return {
        "what": f"scripts/differential.py, seeds {seeds.start} to {seeds.stop - 1}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": f"{place.device}, {place.driver}",
        "target": arguments.target,
        **figures_of(tally),
        "processes": arguments.jobs,
        "scheduler": arguments.scheduler,
        "seconds": round(time.perf_counter() - begun, 1),
    }


def figures_of(tally: Tally) -> dict[str, object]:
    return {
        "kernels": tally.kernels.total(),
        "results_compared": tally.outputs,
        "families": dict(sorted(tally.kernels.items())),
        "disagreements_by_known_bug": dict(sorted(tally.known.items())),
        "unexplained": tally.unknown,
        "refused_for_what_the_device_lacks": tally.refused,
    }


if __name__ == "__main__":
    sys.exit(status_of(main))
