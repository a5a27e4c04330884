"""
Measures the tuning queues with one, two and four simulated devices, without a GPU.

    python benchmarks/played_devices.py -o results/played-devices.json

A simulated measurement sleeps as long as one takes on an H200, and longer for a device's first job
of a contraction, which loads a reference. Simulated compilation sleeps, too. The remaining time is
the overhead of the scheduler, the workers and the search.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from distributed import LocalCluster

from xdsl_spirv.jobs.cluster import Cluster
from xdsl_spirv.jobs.job import KINDS, Job, Kind
from xdsl_spirv.jobs.places import Place

GPU = "vulkan:played"
COMPILE, MEASURE = "played-compile", "played-measure"
KINDS[COMPILE] = KINDS[MEASURE] = Kind("played_devices:work")
COMPILE_SECONDS = 0.2
MEASURE_SECONDS = 0.04, 0.2
FIRST_SECONDS = 0.15
_met: set[str] = set()


def work(data: Mapping[str, Any]) -> list[float]:
    """Sleeps. Returns start, end, and 1 if the contraction was new to the device."""
    begun = time.time()
    new = "near" in data and data["near"] not in _met
    _met.add(data.get("near", ""))
    time.sleep(data["seconds"] + FIRST_SECONDS * new)
    return [begun, time.time(), float(new)]


@contextmanager
def workers(count: int, cores: int) -> Generator[Cluster]:
    """Yields an engine with `count` workers, each with a simulated device."""
    folder = Path(__file__).resolve().parent
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", "-m", "xdsl_spirv.jobs.worker"]
    nowhere: Any = None
    scheduler: Any = LocalCluster(n_workers=0, dashboard_address=nowhere)
    with scheduler:
        address: str = scheduler.scheduler_address
        started: list[subprocess.Popen[bytes]] = []
        for _ in range(count):
            device = json.dumps([asdict(Place(GPU, "played", "1", "vulkan:0"))])
            arguments = [*command, address, str(cores // count), device]
            environment = os.environ | {"PYTHONPATH": path}
            started.append(subprocess.Popen(arguments, env=environment))
        try:
            with Cluster(address) as engine:
                while engine.look()[GPU] < count:
                    time.sleep(0.1)
                engine.place(GPU)
                # The workers' processes start.
                jobs = [Job(COMPILE, {"seconds": 0.3, "n": n}) for n in range(2 * cores)]
                jobs += [Job(MEASURE, {"seconds": 0.3, "n": n}, GPU) for n in range(2 * count)]
                assert all(result.ok for _, result in engine.run(jobs))
                yield engine
        finally:
            for process in started:
                process.kill()
                process.wait()


def search(engine: Cluster, number: int, candidates: int) -> list[tuple[str, list[float]]]:
    """Compiles and measures the default, then further candidates. Returns device and times."""
    generator = random.Random(number)
    near = f"contraction {number}"

    def measurements(names: Iterable[int]) -> Iterator[Job]:
        low, high = MEASURE_SECONDS
        compiling = (
            Job(COMPILE, {"seconds": COMPILE_SECONDS, "of": near, "n": n}, note=n) for n in names
        )
        for job, _ in engine.run(compiling):
            data = {"seconds": generator.uniform(low, high), "near": near, "n": job.note}
            yield Job(MEASURE, data, GPU, near=near)

    rows: list[tuple[str, list[float]]] = []
    for names in (range(1), range(1, candidates)):
        for _, result in engine.run(measurements(names)):
            assert result.ok, result.cause
            rows.append((result.worker, result.value))
    return rows


def measured(count: int, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the time on `count` devices, their busy share and the number of loaded references."""
    with workers(count, options.cores) as engine:
        begun = time.perf_counter()
        with ThreadPoolExecutor(options.at_once) as threads:
            searches = threads.map(
                lambda n: search(engine, n, options.candidates), range(options.contractions)
            )
            rows = [row for listed in searches for row in listed]
        seconds = time.perf_counter() - begun
    busy: Counter[str] = Counter()
    gaps: list[float] = []
    for worker in {worker for worker, _ in rows}:
        spans = sorted(times for by, times in rows if by == worker)
        busy[worker] = round(1e3 * sum(end - start for start, end, _ in spans))
        gaps += [after[0] - before[1] for before, after in pairwise(spans)]
    return {
        "seconds": round(seconds, 1),
        "busy_share_by_worker": [round(ms / 1e3 / seconds, 3) for ms in busy.values()],
        "device_seconds": round(busy.total() / 1e3, 1),
        "references_loaded": int(sum(times[2] for _, times in rows)),
        "median_gap_milliseconds": round(1e3 * median(gaps), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Tuning's queues on played devices.")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--contractions", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--cores", type=int, default=12, help="of all workers (%(default)s)")
    parser.add_argument("--at-once", type=int, default=20, help="searches (%(default)s)")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {
        "what": (__doc__ or "").strip().splitlines()[0],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores_of_the_machine": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "contractions": options.contractions,
        "candidates": options.candidates,
    }
    for count in options.devices:
        record[str(count)] = measured(count, options)
        print(count, record[str(count)], file=sys.stderr, flush=True)
    first = record[str(options.devices[0])]["seconds"]
    record["speed_up"] = {n: round(first / record[str(n)]["seconds"], 2) for n in options.devices}
    print(json.dumps(record, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    # Workers import the job's function by the name of its module.
    from played_devices import main as run

    run()
