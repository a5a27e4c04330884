"""
Tunes on one device, on all devices, and on all with injected failures, with workers of Dask.

    python benchmarks/many_devices.py --target nvidia-h200 --groups networks --most 24 -o two.json

The same candidates of the same contractions are compiled on the cores and measured on the devices
three times: on one device, on all devices with the same number of cores (`--first all` reverses
this order), and on all devices with failures. The failures are a kernel that never ends on each
device, and a worker and the scheduler that are killed and restarted. A last run with the same store
must not run any job.

Driver caches on disk are empty at the start of each run. The record of each run also has the share
of time in which each device was busy, the start of the first measurement and the cores' seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tuning import GROUPS, sources

from xdsl_spirv.jobs.cluster import Cluster
from xdsl_spirv.jobs.job import LAVAPIPE, Job, Result
from xdsl_spirv.jobs.places import here
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.caches import VARIABLE
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.testing.faulty_jobs import FAULTY
from xdsl_spirv.tools.tuning.bench import MEASURE, DeviceBench
from xdsl_spirv.tools.tuning.candidates import Source
from xdsl_spirv.tools.tuning.search import Options

SCHEDULER = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
WORKER = [sys.executable, "-m", "xdsl_spirv.tools.main", "worker"]
HUNG_SECONDS = 5.0
WARM_UP, WARM_UP_CANDIDATES = 2, 12
"""Number of contractions tuned before the timed runs, and of their candidates."""
CACHES = ("__GL_SHADER_DISK_CACHE_PATH", "MESA_SHADER_CACHE_DIR")
"""Environment variables of the drivers' shader caches on disk."""


class Machines:
    """A scheduler and workers on this machine, each in its own process."""

    def __init__(self) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.workers: list[tuple[list[str], subprocess.Popen[bytes]]] = []
        self.scheduler = self._scheduler()

    def _scheduler(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*SCHEDULER, "--port", str(self.port)], stderr=subprocess.DEVNULL)

    def start(self, devices: Sequence[int], cores: int) -> None:
        """Starts a worker for each device. Without a GPU, starts one worker that has no device."""
        for device in devices or [None]:
            options = [] if device is None else ["--device", str(device)]
            command = [*WORKER, "--scheduler", self.address, "--cores", str(cores), *options]
            self.workers.append((command, subprocess.Popen(command)))

    def end_workers(self) -> None:
        for _, process in self.workers:
            process.send_signal(signal.SIGKILL)
            process.wait()
        self.workers.clear()

    def kill_a_worker(self) -> None:
        """Ends a worker by `kill -9` and starts another one."""
        command, process = self.workers.pop()
        process.kill()
        process.wait()
        self.workers.append((command, subprocess.Popen(command)))

    def kill_the_scheduler(self) -> None:
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._scheduler()

    def close(self) -> None:
        self.end_workers()
        self.scheduler.kill()
        self.scheduler.wait()

    def connected(self, workers: int) -> Watched:
        """Returns an engine when the given number of workers is connected."""
        end = time.monotonic() + 60
        while True:
            try:
                engine = Watched(self.address)
                break
            except ProgramError:
                if time.monotonic() > end:
                    raise
        while len(engine.client.scheduler_info(n_workers=-1)["workers"]) < workers:
            time.sleep(0.1)
        return engine


class Watched(Cluster):
    """A cluster that records kind, worker, start and seconds of each job."""

    def perform(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        for job, result in super().perform(jobs):
            begin = time.perf_counter() - result.seconds
            self.spans.append((job.kind, result.worker, begin, result.seconds))
            if job.kind == MEASURE and result.ok:
                for part, took in result.value["spent"].items():
                    self.spent[part] += took
            yield job, result

    def watch(self) -> None:
        """Discards recorded events and starts recording."""
        self.spans: list[tuple[str, str, float, float]] = []
        self.spent: dict[str, float] = defaultdict(float)

    def split(self, begun: float, seconds: float) -> dict[str, Any]:
        """Summarizes the jobs since `begun`: busy shares, first measurement, core seconds."""
        on_devices = [span for span in self.spans if span[0] == MEASURE]
        busy: dict[str, float] = defaultdict(float)
        on_cores: dict[str, float] = defaultdict(float)
        for kind, worker, _, took in self.spans:
            if kind == MEASURE:
                busy[worker] += took
            else:
                on_cores[kind] += took
        return {
            "busy_share_by_worker": [round(took / seconds, 3) for took in busy.values()],
            "device_seconds": round(sum(busy.values()), 1),
            "spent": {part: round(took, 1) for part, took in self.spent.items()},
            "first_measurement_after": round(min(span[2] for span in on_devices) - begun, 1),
            "last_measurement_after": round(max(s[2] + s[3] for s in on_devices) - begun, 1),
            "core_seconds": {kind: round(took, 1) for kind, took in on_cores.items()},
        }


def measured(
    engine: Watched, chosen: Sequence[Source], options: argparse.Namespace, store: Store | None
) -> dict[str, Any]:
    """Compiles and measures the first candidates of each contraction. Returns the times."""
    (resource,) = [name for name in engine.resources() if name == options.resource]
    limits = Options(
        options.runs,
        options.candidates,
        until_gain=0.0,
        prune=False,
        load_ahead=options.load_ahead,
    )

    def search(source: Source) -> Counter[str]:
        bench = DeviceBench(engine, resource, limits, store)
        proposals = bench.propose(source, [], [], options.candidates, options.candidates)
        outcomes = bench.measure(source, list(proposals.subjects), options.runs)
        return Counter(outcome.status for outcome in outcomes)

    begun = time.perf_counter()
    engine.watch()
    statuses: Counter[str] = Counter()
    with ThreadPoolExecutor(options.at_once) as threads:
        for counts in threads.map(search, chosen):
            statuses += counts
    seconds = time.perf_counter() - begun
    split = engine.split(begun, seconds) if any(s[0] == MEASURE for s in engine.spans) else {}
    return {"seconds": round(seconds, 1), "candidates": dict(statuses), **split}


def disturb(machines: Machines, store: Store, total: int, engine: Cluster, resource: str) -> None:
    """
    Starts an endless kernel on each device. Kills a worker after a quarter of the `total` results,
    and the scheduler after half of them.
    """

    def hang() -> None:
        for n in range(2):
            job = Job(FAULTY, {"do": "never end", "n": n}, resource, HUNG_SECONDS)
            list(engine.run([job], store))

    threading.Thread(target=hang, daemon=True).start()
    for part, act in ((4, machines.kill_a_worker), (2, machines.kill_the_scheduler)):
        while len(store) < total // part:
            time.sleep(0.05)
        print(f"{act.__name__} at {len(store)} of {total}", file=sys.stderr, flush=True)
        act()


def rows_of(store: Store) -> dict[str, Any]:
    """Returns counts of a store: results, measurements, results recorded twice, failures."""
    rows = list(store.records())
    keys = Counter((row.key, row.result.device, row.result.driver) for row in rows)
    return {
        "results": len(rows),
        "measurements": sum(row.kind == MEASURE for row in rows),
        "recorded_twice": sum(count > 1 for count in keys.values()),
        "not_ok": Counter(f"{r.kind}: {r.result.status}" for r in rows if not r.result.ok),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Tuning on one device, and on several.")
    parser.add_argument("--target", default="nvidia-h200")
    parser.add_argument("--groups", default="networks")
    parser.add_argument("--most", type=int, default=24, help="contractions (%(default)s)")
    parser.add_argument("--candidates", type=int, default=10, help="each (%(default)s)")
    parser.add_argument("--runs", type=int, default=18)
    parser.add_argument("--cores", type=int, default=28, help="of all workers (%(default)s)")
    parser.add_argument("--at-once", type=int, default=16, help="searches (%(default)s)")
    parser.add_argument("--first", choices=("one", "all"), default="one", help="(%(default)s)")
    parser.add_argument(
        "--load-ahead", action="store_true", help="the driver compiles in other processes"
    )
    parser.add_argument("--undisturbed", action="store_true", help="nothing goes wrong")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    os.environ |= {VARIABLE: "0", "OPENBLAS_NUM_THREADS": "1"}
    places = here()
    gpus = [int(place.opens.partition(":")[2]) for place in places if place.is_gpu]
    place = next(place for place in places if place.is_gpu == bool(gpus))
    options.resource = place.resource if gpus else LAVAPIPE
    listed = [product for group in options.groups.split(",") for product in GROUPS[group]()]
    # Some products have no candidates.
    tunable = sources(listed[: 2 * (options.most + WARM_UP)], options.target)
    every = [source for source, _ in tunable.values()]
    chosen, first = every[: options.most], every[options.most :][:WARM_UP]
    record: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": place.device,
        "driver": place.driver,
        "devices": len(gpus),
        "contractions": len(chosen),
        "candidates": options.candidates,
        "cores": options.cores,
        "first": options.first,
    }

    def run(name: str, devices: Sequence[int], disturbed: bool = False) -> None:
        machines.end_workers()
        os.environ |= {variable: str(Path(folder) / f"{name}-cache") for variable in CACHES}
        cores = options.cores // max(1, len(devices))
        machines.start(devices, cores)
        with (
            machines.connected(max(1, len(devices))) as engine,
            Store(Path(folder) / f"{name}.db") as store,
        ):
            # The workers start and import their modules before the timing.
            few = min(options.candidates, WARM_UP_CANDIDATES)
            measured(engine, first, argparse.Namespace(**vars(options) | {"candidates": few}), None)
            if disturbed:
                arguments = (machines, store, record["one"]["results"], engine, options.resource)
                threading.Thread(target=disturb, args=arguments, daemon=True).start()
            record[name] = measured(engine, chosen, options, store) | rows_of(store)
            if disturbed:
                before = len(store)
                again = measured(engine, chosen, options, store)
                record["again"] = again | {"new_results": len(store) - before}
        print(name, record[name], file=sys.stderr, flush=True)
        options.output.write_text(json.dumps(record, indent=1) + "\n")

    machines = Machines()
    try:
        with TemporaryDirectory() as folder:
            runs = [("one", gpus[:1]), ("all", gpus)]
            for name, devices in runs if options.first == "one" else reversed(runs):
                run(name, devices)
            if not options.undisturbed:
                run("disturbed", gpus, disturbed=True)
    finally:
        machines.close()
    record["speed_up"] = round(record["one"]["seconds"] / record["all"]["seconds"], 2)
    options.output.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
