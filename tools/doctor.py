"""
Implements `xdsl-spirv doctor`: checks if programs can run on a Vulkan device of this machine.

The checks follow a program's start: the loader, its drivers, their devices, missing features, and
a small kernel with a known result. Each failed check prints its cause and a remedy.

Exit status: 0 if a device runs kernels, 1 if there is no loader, driver or device, 2 if no device
runs the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path

from xdsl_spirv.runtime.caches import cache_folder
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan import cache
from xdsl_spirv.runtime.vulkan.describe import NEEDED, feature_names
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.loader import LIBRARY_VARIABLE
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.probe import expected, probe
from xdsl_spirv.runtime.vulkan.worker import list_devices, open_isolated
from xdsl_spirv.targets import load, names
from xdsl_spirv.tools.report import note_row

MANIFESTS = ("/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
TIMEOUT = 60.0
OF_CPUS = "         or, in a checkout, fetch a driver for CPUs: make lavapipe (docs/runtime.md)"


def doctor(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv doctor`."""
    _environment()
    try:
        offered = list_devices()
    except VulkanError as error:
        _say(f"FAILED   {error.cause}")
        for line in error.place.split("; "):
            _say(f"           {line}")
        _say(f"  do     {error.remedy}")
        _say(OF_CPUS)
        return 1
    version = ".".join(map(str, offered.loader_version))
    _say(f"ok       loader {offered.loader}, Vulkan {version}")
    if not offered.devices:
        _say("FAILED   the loader offers no device")
        _say("  do     install the driver of the device, or allow access to it (/dev/dri, groups")
        _say("         render and video), or pass it into the container")
        _say(OF_CPUS)
        return 1
    runs = [_examine(info) for info in offered.best_first()]
    print()
    if not any(runs):
        _say("no device runs kernels, but `--device interpreter` always works")
        return 2
    chosen = offered.best_first()[runs.index(True)]
    _say(f"`xdsl-spirv run DIR` uses vulkan:{chosen.index} ({chosen.name})")
    return 0


def _say(line: str) -> None:
    """Prints a line, and records its status (the first columns) for the JSON report."""
    print(line)
    status, text = ("device", line) if line.startswith("\n") else (line[:9], line[9:])
    note_row("steps", {"status": status.strip().lower() or "note", "text": text.strip()})


def _environment() -> None:
    """Prints the environment variables and folders that select the loader and the drivers."""
    for name in (LIBRARY_VARIABLE, *DRIVER_VARIABLES, "XDSL_SPIRV_DEVICE"):
        if os.environ.get(name):
            _say(f"         {name}={os.environ[name]}")
    named = [name for name in DRIVER_VARIABLES if os.environ.get(name)]
    manifests = sorted(str(p) for folder in MANIFESTS for p in Path(folder).glob("*.json"))
    if not named:
        listed = ", ".join(manifests) or "none in " + ", ".join(MANIFESTS)
        _say(f"         driver manifests: {listed}")
    for name in named:
        manifests += [path for path in os.environ[name].split(os.pathsep) if path]
    for path in dict.fromkeys(manifests):
        wrong = _wrong_with(Path(path))
        if wrong:
            _say(f"WARNING  the driver manifest {path} {wrong}")
    _say(f"         pipeline cache: {cache_folder(cache.NAME) or 'off'}")


def _wrong_with(manifest: Path) -> str:
    """Returns the fault of a driver's manifest, or an empty text."""
    if manifest.is_dir():
        return ""
    try:
        library = json.loads(manifest.read_text())["ICD"]["library_path"]
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return "is not a manifest: it names no ICD.library_path"
    # The loader searches a name without a folder in the system's library folders.
    if "/" in str(library) and not (manifest.parent / str(library)).exists():
        return f"names the library {library}, which does not exist"
    return ""


def _examine(info: DeviceInfo) -> bool:
    """Prints the features of a device. Returns True if a kernel ran on the device."""
    _say(f"\nvulkan:{info.index}  {info.name} ({info.kind}), {info.driver} {info.driver_version}")
    version = ".".join(map(str, info.version[:2]))
    if info.version < (1, 3):
        _say(f"FAILED   the device has Vulkan {version}; kernels need 1.3")
        _say("  do     update the driver")
        return False
    _say(f"ok       Vulkan {version}, subgroups of {info.subgroup_size}")
    _features(info)
    _matrices(info)
    _targets(info)
    return _run(info)


def _features(info: DeviceInfo) -> None:
    missing = [name for name in NEEDED if name not in feature_names(info)]
    if missing:
        _say(f"WARNING  the device lacks {', '.join(missing)}: kernels that use them do not run")
    else:
        _say(f"ok       {', '.join(NEEDED)}")


def _matrices(info: DeviceInfo) -> None:
    rows = [p for p in info.matrices if p.scope == "Subgroup" and not p.saturating]
    if not rows:
        _say("WARNING  no cooperative matrices: contractions run on multiply-adds")
        return
    _say(f"ok       {len(rows)} cooperative-matrix shapes: {'; '.join(map(str, rows))}")
    if not any(p.a == "bf16" for p in rows):
        _say("         none for bf16")


def _targets(info: DeviceInfo) -> None:
    """Prints the built-in targets whose programs run on this device unchanged."""
    fitting = list(_fitting(info))
    if fitting:
        _say(f"ok       runs programs for --target {', '.join(fitting)}")
        return
    _say("WARNING  no target of this package fits the device")
    _say(f"  do     xdsl-spirv devices --device vulkan:{info.index} --write-target my-device.json")


def _fitting(info: DeviceInfo) -> Iterable[str]:
    mine = set(feature_names(info))
    least, most = info.subgroup_size_range
    for name in names():
        target = load(name)
        if (
            least <= target.subgroup_size <= most
            and target.features <= mine
            and set(target.cooperative_matrix) <= set(info.matrices)
            and target.workgroup_memory_bytes <= info.workgroup_memory_bytes
            and target.max_invocations <= info.max_invocations
        ):
            yield name


def _run(info: DeviceInfo) -> bool:
    """Runs a kernel on the device in a separate process. Returns True if the result is right."""
    try:
        with open_isolated(f"vulkan:{info.index}", timeout=TIMEOUT) as device:
            work, inputs = probe()
            outputs = device.load(work).run(inputs, TIMEOUT)
    except ProgramError as error:
        _say(f"FAILED   a kernel does not run: {error.cause}")
        _say(f"  do     {error.remedy or 'update the driver'}")
        return False
    if outputs != expected():
        _say("FAILED   a kernel runs, but its result is wrong")
        _say("  do     update the driver")
        return False
    _say("ok       a kernel ran, and its result is right")
    return True
