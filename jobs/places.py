"""
Lists the devices of this machine by the resource that jobs need.

A GPU's resource is named after its model, so that any machine with that model may take the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdsl_spirv.jobs.job import GPU, LAVAPIPE
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.processes import Process, ProcessDied, ProcessLate
from xdsl_spirv.runtime.vulkan.loader import open_library
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.worker import START_SECONDS

LAVAPIPE_VARIABLE = "XDSL_SPIRV_LAVAPIPE"
"""Environment variable with the folder of a separately installed lavapipe."""
SOFTWARE = "llvmpipe"
"""Prefix of the name of lavapipe's device."""


@dataclass(frozen=True)
class Place:
    """
    A device and its driver, which offer a resource. For the machine's cores, both are empty.

    `opens` is the argument of `open_device`; `launcher` is the command that starts a program on
    the driver.
    """

    resource: str
    device: str = ""
    driver: str = ""
    opens: str = ""
    launcher: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "launcher", tuple(self.launcher))

    @property
    def is_gpu(self) -> bool:
        """True if a job may use the whole device."""
        return self.resource.startswith(GPU)


def resource_of(info: DeviceInfo) -> str:
    """Returns `lavapipe`, or `vulkan:` and the device's name in lower case."""
    if info.name.startswith(SOFTWARE):
        return LAVAPIPE
    return GPU + re.sub(r"[^a-z0-9]+", "-", info.name.lower()).strip("-")


def _place(info: DeviceInfo, launcher: Sequence[str] = ()) -> Place:
    driver = f"{info.driver} {info.driver_version}".strip()
    return Place(resource_of(info), info.name, driver, f"vulkan:{info.index}", tuple(launcher))


def devices(launcher: Sequence[str] = ()) -> list[Place]:
    """Returns the Vulkan devices for programs that `launcher` starts; empty without a driver."""
    try:
        if not launcher:
            open_library()
        process = Process("xdsl_spirv.runtime.vulkan.serve", launcher=launcher)
    except (ProgramError, OSError):
        return []
    try:
        kind, value = process.ask(("list", None, ()), START_SECONDS)
        return [_place(info, launcher) for info in value.devices] if kind == "value" else []
    except (ProcessDied, ProcessLate):
        return []
    finally:
        process.kill()


@cache
def here() -> tuple[Place, ...]:
    """Lists this machine's devices. A separately installed lavapipe hides the system's lavapipe."""
    kept = os.environ.get(LAVAPIPE_VARIABLE)
    launcher = (Path(kept) if kept else Path(__file__).resolve().parents[1] / ".lavapipe") / "run"
    apart = devices([str(launcher)]) if launcher.exists() else []
    return tuple([*(p for p in devices() if not apart or p.resource != LAVAPIPE), *apart])


def only(places: Iterable[Place], chosen: Sequence[int]) -> list[Place]:
    """
    Returns the given GPUs (indices `chosen`), and all places that are not GPUs.

    Raises `ProgramError` for an index without a GPU.
    """
    places = list(places)
    names = {f"vulkan:{number}" for number in chosen}
    missing = names - {place.opens for place in places}
    if missing:
        offered = ", ".join(f"{place.opens} {place.device}" for place in places) or "none"
        raise ProgramError(
            f"there is no device {', '.join(sorted(missing))}",
            f"devices: {offered}",
            "name another",
        )
    return [place for place in places if not place.is_gpu or place.opens in names]
