"""
Run generated kernels on lavapipe and on the interpreter, and say where they disagree.

    python scripts/differential.py 5000                 # seeds 0 to 4999
    python scripts/differential.py 1 --start 1234       # one of them again
    python scripts/differential.py 200 --family dot --minimise

Exit status 1 if a disagreement is neither legal nor known (differential/known.py). `--minimise`
prints the smallest kernel found for each. docs/differential.md says what is generated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from xdsl_spirv.differential import FAMILIES, disagreements, generate, interpret
from xdsl_spirv.differential.jobs import Job, run_jobs
from xdsl_spirv.differential.known import explanation
from xdsl_spirv.differential.minimise import minimise
from xdsl_spirv.differential.running import Disagreement, job_of, module_of

ROOT = Path(__file__).resolve().parent.parent
RUNNER = ROOT / "tests" / "vulkan" / "device.py"
CHUNK = 40
TIMEOUT = 300


@dataclass
class Tally:
    """What a range of seeds came to."""

    kernels: Counter[str] = field(default_factory=Counter[str])
    outputs: int = 0
    known: Counter[str] = field(default_factory=Counter[str])
    unknown: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        self.kernels += other.kernels
        self.outputs += other.outputs
        self.known += other.known
        self.unknown += other.unknown


def launcher() -> Path:
    """The program that starts another one on lavapipe."""
    return Path(os.environ.get("XDSL_SPIRV_LAVAPIPE", ROOT / ".lavapipe")) / "run"


def run(jobs: Sequence[Job]) -> list[str]:
    """On lavapipe, in a process of its own."""
    return run_jobs(jobs, [launcher()], RUNNER, TIMEOUT)


def compare(start: int, count: int, family: str | None, minimised: bool) -> Tally:
    """Seeds from `start` on, in one batch."""
    tally = Tally()
    kernels = [generate(seed, family) for seed in range(start, start + count)]
    modules = [module_of(kernel) for kernel in kernels]
    expected = [interpret(k, m) for k, m in zip(kernels, modules, strict=True)]
    jobs = [job_of(k, m) for k, m in zip(kernels, modules, strict=True)]
    failures = run(jobs)
    for kernel, truth, job, failure in zip(kernels, expected, jobs, failures, strict=True):
        tally.kernels[kernel.family] += 1
        tally.outputs += len(kernel.outputs)
        if failure:
            tally.unknown.append(f"{kernel.family} {kernel.seed}: the device failed: {failure}")
            continue
        found = {binding: array for (_, binding), array in job.buffers.items()}
        for difference in disagreements(kernel, truth, found):
            cause = explanation(difference)
            if cause is not None:
                tally.known[cause.anchor] += 1
            else:
                tally.unknown.append(_described(difference, minimised))
    return tally


def _described(difference: Disagreement, minimised: bool) -> str:
    text = str(difference)
    return f"{text}\n{minimise(difference, run).text()}" if minimised else text


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare lavapipe with the interpreter.")
    parser.add_argument("kernels", type=int, help="how many")
    parser.add_argument("--start", type=int, default=0, help="the first seed (%(default)s)")
    parser.add_argument("--family", choices=FAMILIES, help="only this family")
    parser.add_argument("--minimise", action="store_true", help="print the smallest kernels")
    parser.add_argument("--processes", type=int, default=2, help="at a time (%(default)s)")
    parser.add_argument("-o", "--output", type=Path, help="also write the figures as JSON")
    arguments = parser.parse_args()
    if not launcher().exists():
        parser.error(f"there is no {launcher()}: run `make lavapipe`")
    tally, begun = Tally(), time.perf_counter()
    end = arguments.start + arguments.kernels
    with ProcessPoolExecutor(arguments.processes) as pool:
        futures = [
            pool.submit(compare, at, min(CHUNK, end - at), arguments.family, arguments.minimise)
            for at in range(arguments.start, end, CHUNK)
        ]
        for future in futures:
            part = future.result()
            for line in part.unknown:
                print(line, flush=True)
            tally.add(part)
    seconds = time.perf_counter() - begun
    report(tally, seconds, arguments.output)
    return 1 if tally.unknown else 0


def report(tally: Tally, seconds: float, output: Path | None) -> None:
    figures = {
        "kernels": tally.kernels.total(),
        "results_compared": tally.outputs,
        "families": dict(sorted(tally.kernels.items())),
        "known": dict(sorted(tally.known.items())),
        "unexplained": len(tally.unknown),
        "seconds": round(seconds, 1),
    }
    print(json.dumps(figures, indent=2))
    if output is not None:
        output.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
