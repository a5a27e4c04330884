"""Implements `xdsl-spirv worker` and `xdsl-spirv results`: distributed jobs and their results."""

from __future__ import annotations

import argparse
import os
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from xdsl_spirv.jobs.places import here, only
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.tools.options import Options
from xdsl_spirv.tools.report import note_row

worker_options = Options("""
--scheduler ADDRESS!  address of the Dask scheduler, such as tcp://host:8786
--device N int repeat  offer only the GPU vulkan:N (default: all; repeatable)
--cores N int  jobs to run at a time besides jobs on GPUs (default: number of cores)
""")


def worker(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv worker`. Returns 1 if the scheduler stays unreachable."""
    cores = arguments.cores if arguments.cores is not None else os.cpu_count() or 1
    if cores < 1:
        raise ProgramError(f"--cores {cores} is not a number of jobs", "", "give 1 or more")
    try:
        from xdsl_spirv.jobs.worker import work
    except ImportError as error:
        raise ProgramError(
            "Dask is not installed", "", "pip install 'xdsl-spirv[distributed]'"
        ) from error
    devices = here() if not arguments.device else only(here(), arguments.device)
    work(arguments.scheduler, cores, devices)
    return 0


results_options = Options("""
store FILE.db  a store of results
--merge OTHER.db several  first add the missing results of other stores
--failures  also list the results that are not ok
@json counts (kind, device, driver, status, count), failures (kind, key, status, cause; with
    --failures), merged (store, results; with --merge)
""")


def results(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv results`: counts the stored results by kind, device and status."""
    _existing([*arguments.merge, *([] if arguments.merge else [arguments.store])])
    for path in arguments.merge:
        # Reads all stores before it creates the output file, so that a bad store leaves no file.
        with Store(path) as other:
            deque(other.records(), maxlen=0)
    with Store(arguments.store) as store:
        for path in arguments.merge:
            with Store(path) as other:
                count = store.merge(other)
                note_row("merged", {"store": path, "results": count})
                print(f"{count} new results of {path}")
        counts: Counter[tuple[str, str, str, str]] = Counter()
        for record in store.records():
            result = record.result
            counts[record.kind, result.device, result.driver, result.status] += 1
            if arguments.failures and not result.ok:
                row = {"kind": record.kind, "key": record.key}
                note_row("failures", {**row, "status": result.status, "cause": result.cause})
                print(f"{record.kind} {record.key}: {result.status}: {result.cause}")
    for (kind, device, driver, status), count in sorted(counts.items()):
        row = {"kind": kind, "device": device, "driver": driver, "status": status}
        note_row("counts", {**row, "count": count})
        where = f" on {device} ({driver})" if device else ""
        print(f"{count:8} {status:13} {kind}{where}")
    return 0


def _existing(paths: Sequence[str]) -> None:
    """Raises `ProgramError` for a missing store, because opening it would create a file."""
    for path in paths:
        if not Path(path).is_file():
            raise ProgramError(
                "the store does not exist", path, "name a file that --store has written"
            )
