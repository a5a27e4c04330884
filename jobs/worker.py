"""
A worker of Dask's: announces this machine's cores and devices, and performs what it is sent.

As many jobs run at a time as there are cores, and one on each device (`crew.py` sees to it). Jobs
run in processes of their own (`crew.py`), so the worker outlives what they do. It outlives its
scheduler, too: it registers again with one that is started anew at the same address.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from xdsl_spirv.jobs.crew import Crew
from xdsl_spirv.jobs.job import (
    CORES,
    GPU,
    INTERPRETER,
    Job,
    Result,
    code_digest,
    job_from_bytes,
    to_bytes,
)
from xdsl_spirv.jobs.places import Place
from xdsl_spirv.runtime.errors import ProgramError

TURNS = 8
"""
Jobs for each of its GPUs that a worker takes: one is at it, the others wait in the worker. Dask's
own queue has one order for all resources, so that a job that waits there holds up all behind it.
"""
URGENT = 1
"""Dask's priority of jobs for GPUs: one that may begin shall not wait behind others for cores."""
PATIENCE_SECONDS = 60.0
"""Seconds to wait for a scheduler that is gone."""
FIRST_SECONDS = 10.0
"""Seconds to look for a scheduler at first."""

_crew: Crew | None = None
_described: dict[str, Any] = {}


def resources(cores: int, devices: Iterable[Place]) -> dict[str, float]:
    """Returns the resources that a worker announces: how many jobs of each it takes at a time."""
    offered: dict[str, float] = {CORES: cores, INTERPRETER: cores}
    for place in devices:
        count = offered.get(place.resource, 0) + 1
        offered[place.resource] = count if place.is_gpu else cores
        if place.is_gpu:
            offered[turns(place.resource)] = TURNS * count
    return offered


def turns(resource: str) -> str:
    """Returns the name of the resource for a GPU's turns; a job takes one to have the GPU alone."""
    return f"turns {resource}"


def demand(job: Job) -> dict[str, float]:
    """A job's demand of its worker: a turn at a GPU, or a core besides the resource it needs."""
    if job.alone:
        return {turns(job.needs): 1}
    return {job.needs: job.share if job.needs.startswith(GPU) else 1, CORES: 1}


def describe() -> dict[str, Any]:
    """This worker's code and devices, for a client that asks; empty if it is none of ours."""
    return _described


def perform(jobs: Sequence[bytes], code: str) -> bytes:
    """Jobs' results for a client with the same code, or why there are none; runs in a thread."""
    if _crew is None:
        return to_bytes("a worker was not started by `xdsl-spirv worker`")
    if code != code_digest():
        return to_bytes(differ(code_digest(), code))
    return to_bytes([asdict(_perform_job(_crew, job_from_bytes(job))) for job in jobs])


def _perform_job(crew: Crew, job: Job) -> Result:
    try:
        return crew.perform(job)
    except ProgramError as error:
        return Result("refused", None, str(error), worker=crew.name)


def differ(theirs: str, ours: str) -> str:
    """Returns the error text for a worker that runs other code."""
    return f"a worker runs xdsl-spirv {theirs}, not {ours}"


class _EndsProcesses(WorkerPlugin):
    """A worker that closes waits for its threads; they end with their processes."""

    def teardown(self, worker: Worker) -> None:
        if _crew is not None:
            _crew.close()


async def _serve(address: str, cores: int, devices: Sequence[Place], patience: float) -> None:
    global _crew
    waits = FIRST_SECONDS
    while waits:
        _crew = Crew(devices)
        with tempfile.TemporaryDirectory(prefix="xdsl-spirv-worker-") as folder:
            worker = Worker(
                address,
                nthreads=cores + TURNS * sum(place.is_gpu for place in devices),
                resources=resources(cores, devices),
                memory_limit=0,
                dashboard=False,
                local_directory=folder,
                death_timeout=waits,
                plugins=(_EndsProcesses(),),
            )
            try:
                await worker
            except Exception as error:
                with suppress(Exception):
                    await worker.close()
                # Dask has one of its own around most of them.
                cause = error.__cause__ or error
                if isinstance(cause, (OSError, asyncio.TimeoutError, ValueError)):
                    raise no_scheduler(address, "start one with `dask scheduler`") from error
                raise
            await worker.finished()
        waits = patience


def no_scheduler(address: str, remedy: str) -> ProgramError:
    """The error for an address without a scheduler."""
    return ProgramError(f"there is no scheduler at {address}", "", remedy)


def work(
    address: str, cores: int, devices: Sequence[Place], patience: float = PATIENCE_SECONDS
) -> None:
    """
    Perform jobs of a scheduler until it is away for longer than `patience`.

    Raises `ProgramError` if no scheduler is there.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    _described.update(code=code_digest(), devices=[asdict(place) for place in devices])
    asyncio.run(_serve(address, cores, devices, patience))


def main(arguments: Sequence[str]) -> int:
    """`ADDRESS CORES DEVICES`: a worker of a scheduler in the process that started this one."""
    address, cores, devices = arguments
    places = [Place(**table) for table in json.loads(devices)]
    try:
        work(address, int(cores), places, patience=0.0)
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # The client names this module's functions by its import path.
    from xdsl_spirv.jobs import worker

    sys.exit(worker.main(sys.argv[1:]))
