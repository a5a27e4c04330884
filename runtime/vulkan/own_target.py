"""
Selects the default target: the best device of this machine.

A known target file for this device is preferred, because its schedules were measured on it.
Otherwise a file is written from the driver's properties. Without a device, the default is the
target that the interpreter runs fastest.
"""

from __future__ import annotations

import atexit
import datetime
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from xdsl_spirv.runtime.given import VARIABLE
from xdsl_spirv.runtime.vulkan.describe import target_of, text_of
from xdsl_spirv.runtime.vulkan.device import parse_name
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.worker import list_devices
from xdsl_spirv.targets import Target, load, names

DEFAULT_TARGET = "lavapipe"


def own_target(device: str | None = None) -> str:
    """Returns the target (a name or a path) for the named device, or for the best one."""
    return _target_of(device or os.environ.get(VARIABLE))


@cache
def _target_of(name: str | None) -> str:
    """Returns the target, cached in this process, because querying a driver starts a process."""
    if name is not None and name.partition(":")[0] != "vulkan":
        return DEFAULT_TARGET
    number = None if name is None else parse_name(name)
    try:
        offered = list_devices().best_first()
    except VulkanError:
        return DEFAULT_TARGET
    info = next((d for d in offered if number is None or d.index == number), None)
    return DEFAULT_TARGET if info is None else target_for(info)


def target_for(info: DeviceInfo) -> str:
    """Returns a known target that describes the device, or the path of a new target file."""
    folder = tempfile.mkdtemp(prefix="xdsl-spirv-target-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "device.json")
    path.write_text(text_of(target_of(info, datetime.date.today().isoformat())))
    described = load(str(path))
    for name in names():
        known = load(name)
        if known.provenance["kind"] == "measured" and _is_same(known, described):
            return name
    return str(path)


def _is_same(known: Target, described: Target) -> bool:
    return (
        known.subgroup_size == described.subgroup_size
        and known.max_invocations == described.max_invocations
        and known.workgroup_memory_bytes == described.workgroup_memory_bytes
        and set(known.cooperative_matrix) <= set(described.cooperative_matrix)
        and known.features <= described.features
    )
