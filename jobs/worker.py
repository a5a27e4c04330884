"""
Runs a Dask worker, which announces this machine's cores and devices and performs jobs.

One job at a time runs on each core and on each device. Jobs run in separate processes (`crew.py`),
so the worker survives their crashes. It also survives the end of its scheduler: it registers with
a scheduler that is started at the same address.
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
Number of jobs for each GPU that a worker accepts: one runs, the others wait in the worker. Dask
has a single queue for all resources, in which jobs that wait for a GPU would block later jobs.
"""
URGENT = 1
"""Dask's priority of jobs for GPUs, above jobs for cores."""
PATIENCE_SECONDS = 60.0
"""Seconds to wait for a lost scheduler."""
FIRST_SECONDS = 10.0
"""Seconds to wait for the scheduler at the start."""

_crew: Crew | None = None
_described: dict[str, Any] = {}


def resources(cores: int, devices: Iterable[Place]) -> dict[str, float]:
    """Returns the resources that a worker announces, each with its number of concurrent jobs."""
    offered: dict[str, float] = {CORES: cores, INTERPRETER: cores}
    for place in devices:
        count = offered.get(place.resource, 0) + 1
        offered[place.resource] = count if place.is_gpu else cores
        if place.is_gpu:
            offered[turns(place.resource)] = TURNS * count
    return offered


def turns(resource: str) -> str:
    """Returns the name of the worker resource that limits queued jobs for whole GPUs."""
    return f"turns {resource}"


def demand(job: Job) -> dict[str, float]:
    """
    Returns the worker's resources that a job uses.

    A job for a whole GPU uses one of the `TURNS`. Other jobs use a core, and a share of a GPU.
    """
    if job.alone:
        return {turns(job.needs): 1}
    return {job.needs: job.share if job.needs.startswith(GPU) else 1, CORES: 1}


def describe() -> dict[str, Any]:
    """Describes this worker's code and devices; empty if this package did not start the worker."""
    return _described


def perform(jobs: Sequence[bytes], code: str) -> bytes:
    """
    Performs a client's jobs and returns the results. Dask calls this function in a thread.

    Returns an error text if the client's code differs.
    """
    if _crew is None:
        return to_bytes("`xdsl-spirv worker` did not start this worker")
    if code != code_digest():
        return to_bytes(differ(code_digest(), code))
    return to_bytes([asdict(_perform_job(_crew, job_from_bytes(job))) for job in jobs])


def _perform_job(crew: Crew, job: Job) -> Result:
    try:
        return crew.perform(job)
    except ProgramError as error:
        return Result("refused", None, str(error), worker=crew.name)


def differ(theirs: str, ours: str) -> str:
    """Returns the error text for a worker with code `theirs` and a client with code `ours`."""
    return f"a worker runs xdsl-spirv {theirs}, not {ours}"


class _EndsProcesses(WorkerPlugin):
    """A plugin that ends the processes of jobs when a worker closes: its threads wait for them."""

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
                # Dask wraps most exceptions.
                cause = error.__cause__ or error
                if isinstance(cause, (OSError, asyncio.TimeoutError, ValueError)):
                    raise no_scheduler(
                        address, "start a scheduler with `dask scheduler`"
                    ) from error
                raise
            await worker.finished()
        waits = patience


def no_scheduler(address: str, remedy: str) -> ProgramError:
    """Returns the error for an address without a scheduler."""
    return ProgramError(f"no scheduler answers at {address}", "", remedy)


def work(
    address: str, cores: int, devices: Sequence[Place], patience: float = PATIENCE_SECONDS
) -> None:
    """
    Performs jobs of a scheduler until the scheduler is lost for longer than `patience` seconds.

    Raises `ProgramError` if there is no scheduler at the address.
    """
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    _described.update(code=code_digest(), devices=[asdict(place) for place in devices])
    asyncio.run(_serve(address, cores, devices, patience))


def main(arguments: Sequence[str]) -> int:
    """
    Runs a worker for the arguments `ADDRESS CORES DEVICES`.

    The scheduler at the address belongs to the parent process.
    """
    address, cores, devices = arguments
    places = [Place(**table) for table in json.loads(devices)]
    try:
        work(address, int(cores), places, patience=0.0)
    except ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    # The client refers to functions of this module by the module's import path.
    from xdsl_spirv.jobs import worker

    sys.exit(worker.main(sys.argv[1:]))
