"""
Measures a dispatch's overhead: 100 small dispatches in one submission, and each in its own.

    benchmarks/launch.py [--device vulkan:N] [--dispatches 100] [--runs 20] [--json FILE]

The kernel multiplies 64 integers. Each dispatch reads the results of its predecessor, so there is
a barrier between any two. Times are medians of wall-clock time, from before the submission to the
signalled fence. The device time of one dispatch is also printed. On lavapipe:

    .lavapipe/run python benchmarks/launch.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan import probe
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.runtime.vulkan.loaded import LoadedWork

TIMEOUT = 60.0
WARM_UP_SECONDS = 0.3


def median_of(function: Callable[[], None], runs: int) -> float:
    """Returns the median microseconds of a call, after a warm-up."""
    end = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < end:
        function()
    times: list[float] = []
    for _ in range(runs):
        begun = time.perf_counter()
        function()
        times.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times)


def one_by_one(work: LoadedWork, count: int) -> None:
    for index in range(count):
        work.step(index % len(work.work.steps), TIMEOUT)


def measure(device: VulkanDevice, dispatches: int, runs: int) -> dict[str, Any]:
    """Returns all figures in microseconds."""
    many, single = device.load(probe.work(dispatches)), device.load(probe.work(1))
    empty = device.load(probe.work(0))
    together = median_of(lambda: many.repeat(TIMEOUT), runs)
    apart = median_of(lambda: one_by_one(many, dispatches), runs)
    begun = time.perf_counter()
    device.unload(device.load(probe.work(1)))
    loading = (time.perf_counter() - begun) * 1e6
    return {
        "device": device.info.name,
        "driver": f"{device.info.driver} {device.info.driver_version}",
        "dispatches": dispatches,
        "runs": runs,
        "one_submission_us": together,
        "one_submission_us_each": together / dispatches,
        "submissions_us": apart,
        "submissions_us_each": apart / dispatches,
        "single_dispatch_us": median_of(lambda: single.repeat(TIMEOUT), runs),
        "empty_submission_us": median_of(lambda: empty.repeat(TIMEOUT), runs),
        "device_us_each": statistics.median(t.median for t in many.time(runs, TIMEOUT)) / 1e3,
        "load_and_unload_us": loading,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what launching a kernel costs.")
    parser.add_argument("--device", help="vulkan or vulkan:N")
    parser.add_argument("--dispatches", type=int, default=100)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the figures")
    arguments = parser.parse_args()
    try:
        with open_device(arguments.device) as device:
            medians = measure(device, arguments.dispatches, arguments.runs)
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, value in medians.items():
        print(f"{name:24} {value if not isinstance(value, float) else f'{value:.2f}'}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(medians, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
