"""
Run generated kernels on a Vulkan device and on the interpreter, and say where they disagree.

    python scripts/differential.py 5000                 # seeds 0 to 4999 on lavapipe
    python scripts/differential.py 1 --start 1234       # one of them again
    python scripts/differential.py 200 --family dot --minimise
    python scripts/differential.py 1000 --target nvidia-h200 --device vulkan

Without `--device` kernels run on lavapipe: the one that `make lavapipe` has fetched (or that
XDSL_SPIRV_LAVAPIPE names), else whatever driver VK_DRIVER_FILES or VK_ICD_FILENAMES names. With
`--target` they are made for that device's subgroups and property list.

Exit status 1 if a disagreement is neither legal nor known (testing/differential/known.py).
`--minimise` prints the smallest kernel found for each. docs/differential.md says what is generated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from xdsl_spirv.targets import TargetError  # noqa: E402
from xdsl_spirv.testing.differential import FAMILIES, disagreements, generate, interpret  # noqa: E402
from xdsl_spirv.testing.differential.jobs import Job, run_jobs  # noqa: E402
from xdsl_spirv.testing.differential.known import explanation  # noqa: E402
from xdsl_spirv.testing.differential.machine import Machine, machine  # noqa: E402
from xdsl_spirv.testing.differential.minimise import minimise  # noqa: E402
from xdsl_spirv.testing.differential.running import (  # noqa: E402
    Disagreement,
    choices,
    job_of,
    module_of,
)

RUNNER = ROOT / "tests" / "vulkan" / "device.py"
CHUNK = 40
TIMEOUT = 300
LACKS = "cannot run the program: it lacks"
DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")


@dataclass
class Tally:
    """What a range of seeds came to."""

    kernels: Counter[str] = field(default_factory=Counter[str])
    outputs: int = 0
    known: Counter[str] = field(default_factory=Counter[str])
    unknown: list[str] = field(default_factory=list[str])
    refused: int = 0
    """Kernels that need what the device lacks, and no target's file speaks of."""

    def add(self, other: Tally) -> None:
        self.kernels += other.kernels
        self.outputs += other.outputs
        self.known += other.known
        self.unknown += other.unknown
        self.refused += other.refused


@dataclass(frozen=True)
class Device:
    """How a program is started on the device; `name` is the one among several, or empty."""

    launcher: tuple[str, ...]
    name: str = ""

    def run(self, jobs: Sequence[Job]) -> list[str]:
        """In a process of its own."""
        return run_jobs(jobs, self._command(), RUNNER, TIMEOUT)

    def describe(self) -> dict[str, object]:
        """The device; raises `SystemExit` with what its process says if there is none."""
        command = [*self._command(), sys.executable, str(RUNNER), "describe"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"error: the device cannot be used: {done.stderr.strip()[-2000:]}")
        return json.loads(done.stdout)

    def _command(self) -> list[str]:
        named = [f"XDSL_SPIRV_DEVICE={self.name}"] if self.name else []
        return ["/usr/bin/env", *named, *self.launcher]


def device_of(name: str | None) -> Device | None:
    """The device of a `--device`, None if there is no lavapipe."""
    if name is not None:
        return Device((), name)
    kept = Path(os.environ.get("XDSL_SPIRV_LAVAPIPE", ROOT / ".lavapipe")) / "run"
    if kept.exists():
        return Device((str(kept),))
    return Device(()) if any(map(os.environ.get, DRIVER_VARIABLES)) else None


@dataclass(frozen=True)
class Comparison:
    """What is compared: kernels for a machine, on a device."""

    device: Device
    machine: Machine
    family: str | None
    minimised: bool
    driver: str
    """The device's name and its driver's, by which known bugs are found."""

    def seeds(self, start: int, count: int) -> Tally:
        """Seeds from `start` on, in one batch."""
        tally = Tally()
        kernels = [generate(s, self.family, self.machine) for s in range(start, start + count)]
        modules = [module_of(kernel) for kernel in kernels]
        expected = [interpret(k, m) for k, m in zip(kernels, modules, strict=True)]
        jobs = [job_of(k, m) for k, m in zip(kernels, modules, strict=True)]
        failures = self.device.run(jobs)
        others = [choices(k, m) for k, m in zip(kernels, modules, strict=True)]
        runs = zip(kernels, expected, others, jobs, failures, strict=True)
        for kernel, truth, chosen, job, failure in runs:
            if LACKS in failure:
                tally.refused += 1
                continue
            tally.kernels[kernel.family] += 1
            tally.outputs += len(kernel.outputs)
            if failure:
                tally.unknown.append(f"{kernel.family} {kernel.seed}: the device failed: {failure}")
                continue
            found = {binding: array for (_, binding), array in job.buffers.items()}
            for difference in disagreements(kernel, truth, found, chosen):
                cause = explanation(difference, self.driver)
                if cause is not None:
                    tally.known[cause.anchor] += 1
                else:
                    tally.unknown.append(self._described(difference))
        return tally

    def _described(self, difference: Disagreement) -> str:
        text = str(difference)
        return f"{text}\n{minimise(difference, self.device.run).text()}" if self.minimised else text


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("kernels", type=int, help="how many")
    parser.add_argument(
        "--start", "--seed", type=int, default=0, help="the first seed (%(default)s)"
    )
    parser.add_argument("--family", choices=FAMILIES, help="only this family")
    parser.add_argument("--minimise", action="store_true", help="print the smallest kernels")
    parser.add_argument(
        "--jobs", "--processes", type=int, default=2, help="processes at a time (%(default)s)"
    )
    parser.add_argument("--device", metavar="vulkan[:N]", help="a Vulkan device of this machine")
    parser.add_argument(
        "--target", default="lavapipe", help="what kernels are made for (%(default)s)"
    )
    parser.add_argument("-o", "--output", type=Path, help="also write the figures as JSON")
    return parser.parse_args()


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a Vulkan device with the interpreter.")
    arguments = arguments_of(parser)
    device = device_of(arguments.device)
    if device is None:
        parser.error("there is no lavapipe: run `make lavapipe`, or set VK_DRIVER_FILES")
    if arguments.kernels < 1 or arguments.jobs < 1:
        parser.error("a run has at least one kernel and one process")
    try:
        made_for = machine(arguments.target)
    except TargetError as error:
        parser.error(str(error))
    described = device.describe()
    driver = f"{described['name']}, {described['driver']}"
    comparison = Comparison(device, made_for, arguments.family, arguments.minimise, driver)
    tally, begun = Tally(), time.perf_counter()
    end = arguments.start + arguments.kernels
    chunk = max(1, min(CHUNK, -(-arguments.kernels // arguments.jobs)))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        futures = [
            pool.submit(comparison.seeds, at, min(chunk, end - at))
            for at in range(arguments.start, end, chunk)
        ]
        for future in futures:
            part = future.result()
            for line in part.unknown:
                print(line, flush=True)
            tally.add(part)
    figures = {
        "what": f"scripts/differential.py, seeds {arguments.start} to {end - 1}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": driver,
        "target": made_for.name,
        **figures_of(tally),
        "processes": arguments.jobs,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    print(json.dumps(figures, indent=2))
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if tally.unknown else 0


def figures_of(tally: Tally) -> dict[str, object]:
    return {
        "kernels": tally.kernels.total(),
        "results_compared": tally.outputs,
        "families": dict(sorted(tally.kernels.items())),
        "disagreements_by_known_bug": dict(sorted(tally.known.items())),
        "unexplained": len(tally.unknown),
        "refused_for_what_the_device_lacks": tally.refused,
    }


if __name__ == "__main__":
    sys.exit(main())
