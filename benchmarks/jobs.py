"""
Measures the overhead of a job with trivial jobs, on this machine and on local Dask workers.

    python benchmarks/jobs.py [--count 2000] [-o jobs.json]

`first` is the time of a process's start and its first job. Wall time covers all processes.
Processor time covers only this process, which runs the client and the scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

from xdsl_spirv.jobs.engine import Engine
from xdsl_spirv.jobs.job import Job
from xdsl_spirv.jobs.options import open_engine

RESULTS = Path(__file__).resolve().parent / "results" / "jobs.json"


def measured(engine: Engine, count: int) -> dict[str, float]:
    """Returns seconds until the first result, and milliseconds for each of `count` jobs."""
    begun = time.perf_counter()
    list(engine.run([Job("nothing", {"n": -1})]))
    first = time.perf_counter() - begun
    list(engine.run(Job("nothing", {"n": n}) for n in range(200)))
    begun, processor = time.perf_counter(), time.process_time()
    results = list(engine.run(Job("nothing", {"n": n}) for n in range(count)))
    assert all(result.ok for _, result in results)
    return {
        "first_seconds": round(first, 2),
        "milliseconds_a_job": round((time.perf_counter() - begun) / count * 1e3, 3),
        "processor_milliseconds_a_job": round((time.process_time() - processor) / count * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The overhead of a job.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    records: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "jobs": options.count,
    }
    for scheduler in (None, "local:1", "local:2"):
        with open_engine(scheduler, options.cores) as engine:
            records[scheduler or "this machine"] = measured(engine, options.count)
    text = json.dumps(records, indent=1)
    print(text)
    options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
