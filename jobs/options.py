"""Opens the engine and the store that command-line options name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from xdsl_spirv.jobs.engine import Engine, Here
from xdsl_spirv.jobs.job import LAVAPIPE
from xdsl_spirv.jobs.places import here, only
from xdsl_spirv.jobs.store import Store
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.speech import as_command

LOCAL = "local"
VULKAN = "vulkan"
MOST_LOCAL = 256
"""Maximum number of workers that are started on this machine."""


def open_engine(scheduler: str | None, cores: int, device: str | None = None) -> Engine:
    """
    Returns the engine that `--scheduler` names.

    `cores` is the number of cores of this machine to use. `device` may be `vulkan:N` to use only
    that GPU of this machine. Raises `ProgramError` if there is no scheduler at the address, or
    Dask is not installed.
    """
    number = (device or "").removeprefix(f"{VULKAN}:")
    if scheduler is None:
        return Here(cores, only(here(), [int(number)]) if number.isdecimal() else None)
    if number.isdecimal():
        raise ProgramError(
            f"{device} gives a device's index on one machine, but workers are on several machines",
            "--scheduler",
            "name a GPU model, for example vulkan:nvidia-h200",
        )
    base, colon, number = scheduler.partition(":")
    if base == LOCAL and colon and not (number.isdecimal() and 0 < int(number) <= MOST_LOCAL):
        raise ProgramError(
            f"{scheduler!r} has no valid number of workers",
            "--scheduler",
            f"write local or local:N, at most {MOST_LOCAL}",
        )
    try:
        from xdsl_spirv.jobs.cluster import Cluster
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("distributed", "dask"):
            raise
        raise ProgramError(
            "Dask is not installed", "--scheduler", "pip install 'xdsl-spirv[distributed]'"
        ) from error
    if base == LOCAL:
        engine = Cluster.local(int(number) if number else None, cores, True)
    else:
        engine = Cluster(scheduler)
    if engine.dashboard:
        print(f"dashboard: {engine.dashboard}", file=sys.stderr)
    return engine


def resource(engine: Engine, device: str | None) -> str:
    """
    Returns the resource that `--device` names; lavapipe by default.

    `vulkan` means the GPU model that workers offer. Raises `ProgramError` if they offer several.
    """
    if device is None:
        return LAVAPIPE
    number = device.removeprefix(f"{VULKAN}:")
    if device != VULKAN and not number.isdecimal():
        return device
    offered_here = engine.resources()
    gpus = [name for name in offered_here if name.startswith(f"{VULKAN}:")]
    if not gpus and LAVAPIPE in offered_here:
        return LAVAPIPE
    if len(gpus) != 1:
        offered = ", ".join(gpus) or "none"
        raise ProgramError(
            f"{device} is ambiguous: workers offer {len(gpus)} GPU models",
            f"offered: {offered}",
            "name a model",
        )
    return gpus[0]


def status_of(main: Callable[[], int]) -> int:
    """Runs `main`, prints an error as commands do, and returns the exit status."""
    with as_command():
        try:
            return main()
        except ProgramError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1


def open_store(path: str | None) -> AbstractContextManager[Store | None]:
    """Opens the store that `--store` names; None without the option."""
    return nullcontext() if path is None else Store(path)
