"""
Implements `xdsl-spirv devices`: lists Vulkan devices, and writes a target file for a device.

A separate process queries the drivers, so that a crash of a driver does not crash the command.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from math import isfinite
from pathlib import Path

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.describe import feature_names, summary, target_of, text_of
from xdsl_spirv.runtime.vulkan.device import parse_name
from xdsl_spirv.runtime.vulkan.memory import readable
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.worker import list_devices
from xdsl_spirv.speech import did_you_mean
from xdsl_spirv.targets import load
from xdsl_spirv.tools.output import write
from xdsl_spirv.tools.report import note


def devices(arguments: argparse.Namespace) -> int:
    """Runs `xdsl-spirv devices`. Returns 1 if there is no device."""
    if arguments.drivers:
        return _drivers()
    offered = list_devices()
    chosen = list(offered.devices)
    if arguments.device is not None:
        number = parse_name(arguments.device)
        chosen = [d for d in offered.best_first() if number is None or d.index == number][:1]
        if not chosen:
            raise ProgramError(
                f"there is no device {arguments.device}",
                ", ".join(f"vulkan:{d.index} {d.name}" for d in offered.devices)
                or "there are no devices",
                did_you_mean(
                    arguments.device, (f"vulkan:{d.index}" for d in offered.devices), "name one"
                ),
            )
    if arguments.write_target is not None:
        return _write_target(arguments, offered.best_first() if not arguments.device else chosen)
    note(devices=[summary(info) for info in chosen])
    print("\n\n".join(_text(info) for info in chosen) or "no device")
    return 0 if chosen else 1


def _drivers() -> int:
    """Prints the drivers that can compile for absent GPUs. Returns 1 if there is no driver."""
    from xdsl_spirv.runtime.vulkan.compilers import list_drivers

    drivers, unavailable = list_drivers()
    note(drivers=drivers, unavailable=unavailable)
    for driver in drivers:
        print(f"{driver.device:14} {driver.title} of Mesa {driver.mesa}; target {driver.target}")
    for name, why in unavailable.items():
        print(f"no {name}: {why}")
    return 0 if drivers else 1


def _write_target(arguments: argparse.Namespace, chosen: list[DeviceInfo]) -> int:
    if not chosen:
        raise ProgramError("there is no device", "", "run `xdsl-spirv doctor`")
    path = arguments.write_target
    today = datetime.date.today().isoformat()
    target = target_of(chosen[0], today, arguments.compute_units)
    if chosen[0].compute_units is None and arguments.compute_units is None:
        print(
            "note: the device does not report its number of compute units; the file "
            f"has {target['compute_units']}: edit the file, or give --compute-units",
            file=sys.stderr,
        )
    write(path, text_of(target).encode())
    known = load(str(Path(path).resolve()))
    note(target_file=path, target=known.name)
    print(f"{path}: {known.name}, {len(known.cooperative_matrix)} cooperative-matrix shapes")
    return 0


def _text(info: DeviceInfo) -> str:
    """Returns a description of a device in several lines."""
    least, most = info.subgroup_size_range
    sizes = str(info.subgroup_size)
    if least != most:
        sizes += f" ({least} to {most}, {'' if info.subgroup_size_control else 'not '}to choose)"
    lines = [
        f"vulkan:{info.index}  {info.name} ({info.kind})",
        f"  driver            {info.driver} {info.driver_version}",
        f"  Vulkan            {'.'.join(map(str, info.version))}",
        f"  memory            {readable(info.device_memory)}, storage buffers up to "
        f"{readable(info.storage_buffer_max_bytes)}",
        f"  subgroups         {sizes}: {', '.join(info.subgroup_operations)}",
        f"  workgroups        {info.max_invocations} invocations, "
        f"{readable(info.workgroup_memory_bytes)} of memory",
        f"  timestamps        {_timestamps(info)}",
        f"  features          {', '.join(feature_names(info)) or 'none'}",
        f"  accelerated dot   {', '.join(info.accelerated_dot) or 'none'}",
        "  cooperative matrices" + ("" if info.matrices else "  none"),
    ]
    for p in info.matrices:
        extra = ", saturating" if p.saturating else ""
        lines.append(f"    {p}, {p.scope}{extra}")
    for p, invocations in info.flexible_matrices:
        group = f", workgroups of {invocations}" if invocations else ""
        lines.append(f"    multiples of {p}, {p.scope}{group}")
    return "\n".join(lines)


def _timestamps(info: DeviceInfo) -> str:
    if info.queue is None or not info.queue.timestamp_bits or not isfinite(info.timestamp_period):
        return "none"
    return f"{info.queue.timestamp_bits} bits of {info.timestamp_period:g} ns"
