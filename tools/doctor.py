"""
`xdsl-spirv doctor`: whether programs can run on a Vulkan device here, and if not, why and what to
do.

It goes the way that a program goes, one step at a time: the loader, the drivers it finds, the
devices they offer, what these lack, and a small kernel that is run and compared.

Exit status: 0 a device runs kernels, 1 there is no loader, driver or device, 2 there are devices
but none runs the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan import cache
from xdsl_spirv.runtime.vulkan.describe import NEEDED, feature_names
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.loader import LIBRARY_VARIABLE
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.probe import expected, probe
from xdsl_spirv.runtime.vulkan.worker import list_devices, open_isolated
from xdsl_spirv.targets import load, names

MANIFESTS = ("/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
DRIVER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")
TIMEOUT = 60.0


def doctor(arguments: argparse.Namespace) -> int:
    """`xdsl-spirv doctor`."""
    _environment()
    try:
        offered = list_devices()
    except VulkanError as error:
        print(f"FAILED   {error.cause}")
        for line in error.place.split("; "):
            print(f"           {line}")
        print(f"  do     {error.remedy}")
        return 1
    version = ".".join(map(str, offered.loader_version))
    print(f"ok       loader {offered.loader}, Vulkan {version}")
    if not offered.devices:
        print("FAILED   the loader offers no device")
        print("  do     install the driver of the device, or allow access to it (/dev/dri, groups")
        print("         render and video), or pass it into the container")
        return 1
    runs = [_examine(info) for info in offered.best_first()]
    print()
    if not any(runs):
        print("no device runs kernels; `--device interpreter` does")
        return 2
    chosen = offered.best_first()[runs.index(True)]
    print(f"`xdsl-spirv run DIR` uses vulkan:{chosen.index} ({chosen.name})")
    return 0


def _environment() -> None:
    """What decides which loader and drivers are found."""
    for name in (LIBRARY_VARIABLE, *DRIVER_VARIABLES, "XDSL_SPIRV_DEVICE"):
        if os.environ.get(name):
            print(f"         {name}={os.environ[name]}")
    named = [name for name in DRIVER_VARIABLES if os.environ.get(name)]
    manifests = sorted(str(p) for folder in MANIFESTS for p in Path(folder).glob("*.json"))
    if not named:
        listed = ", ".join(manifests) or "none in " + ", ".join(MANIFESTS)
        print(f"         driver manifests: {listed}")
    for name in named:
        manifests += [path for path in os.environ[name].split(os.pathsep) if path]
    for path in dict.fromkeys(manifests):
        wrong = _wrong_with(Path(path))
        if wrong:
            print(f"WARNING  the driver manifest {path} {wrong}")
    kept = cache.folder()
    print(f"         pipeline cache: {kept or 'off'}")


def _wrong_with(manifest: Path) -> str:
    """Why the loader can make nothing of a driver's manifest; empty if that cannot be seen."""
    if manifest.is_dir():
        return ""
    try:
        library = json.loads(manifest.read_text())["ICD"]["library_path"]
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError):
        return "is no manifest: it names no ICD.library_path"
    # A name without a folder is looked for where libraries are.
    if "/" in str(library) and not (manifest.parent / str(library)).exists():
        return f"names the library {library}, which does not exist"
    return ""


def _examine(info: DeviceInfo) -> bool:
    """Say what a device can and cannot do; whether it ran the kernel."""
    print(f"\nvulkan:{info.index}  {info.name} ({info.kind}), {info.driver} {info.driver_version}")
    version = ".".join(map(str, info.version[:2]))
    if info.version < (1, 3):
        print(f"FAILED   it has Vulkan {version}; kernels need 1.3")
        print("  do     update the driver")
        return False
    print(f"ok       Vulkan {version}, subgroups of {info.subgroup_size}")
    _features(info)
    _matrices(info)
    _targets(info)
    return _run(info)


def _features(info: DeviceInfo) -> None:
    missing = [name for name in NEEDED if name not in feature_names(info)]
    if missing:
        print(f"WARNING  it lacks {', '.join(missing)}: kernels that use them do not run")
    else:
        print(f"ok       {', '.join(NEEDED)}")


def _matrices(info: DeviceInfo) -> None:
    rows = [p for p in info.matrices if p.scope == "Subgroup" and not p.saturating]
    if not rows:
        print("WARNING  no cooperative matrices: contractions run on multiply-adds")
        return
    print(f"ok       {len(rows)} cooperative-matrix shapes: {'; '.join(map(str, rows))}")
    if not any(p.a == "bf16" for p in rows):
        print("         none for bf16")


def _targets(info: DeviceInfo) -> None:
    """The targets of this package whose programs run here as they are."""
    fitting = list(_fitting(info))
    if fitting:
        print(f"ok       runs programs for --target {', '.join(fitting)}")
        return
    print("WARNING  no target of this package fits the device")
    print(f"  do     xdsl-spirv devices --device vulkan:{info.index} --write-target my-device.json")


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
    """A kernel on the device, in a process of its own."""
    try:
        with open_isolated(f"vulkan:{info.index}", timeout=TIMEOUT) as device:
            work, inputs = probe()
            outputs = device.load(work).run(inputs, TIMEOUT)
    except ProgramError as error:
        print(f"FAILED   a kernel does not run: {error.cause}")
        print(f"  do     {error.remedy or 'update the driver'}")
        return False
    if outputs != expected():
        print("FAILED   a kernel runs and computes something else")
        print("  do     update the driver")
        return False
    print("ok       a kernel ran, and its result is right")
    return True
