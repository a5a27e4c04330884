"""
Runs programs on Vulkan devices.

    from xdsl_spirv.runtime.vulkan import open_device

    with open_device("vulkan:0") as device:
        results = device.execute(program, {"A": a, "B": b})

`open_device` works in this process. `open_isolated` has the same interface, but uses a separate
process, so that a driver's crash is harmless. See docs/runtime.md. Names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl_spirv import import_on_use

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl_spirv.runtime.elements import Array
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
    from xdsl_spirv.runtime.vulkan.errors import (
        DeviceLostError,
        DeviceTimeoutError,
        MisfitError,
        NoVulkanError,
        VulkanError,
    )
    from xdsl_spirv.runtime.vulkan.work import Step, Work, WorkBuffer
    from xdsl_spirv.runtime.vulkan.worker import IsolatedDevice, open_isolated

__all__ = [
    "DeviceLostError",
    "DeviceTimeoutError",
    "IsolatedDevice",
    "MisfitError",
    "NoVulkanError",
    "Step",
    "VulkanDevice",
    "VulkanError",
    "Work",
    "WorkBuffer",
    "execute",
    "open_device",
    "open_isolated",
]


def execute(
    program: Program,
    inputs: Mapping[str, Array],
    device: VulkanDevice | IsolatedDevice | None = None,
) -> dict[str, Array]:
    """
    Runs a program on a device, by default on the best device in a separate process.

    Raises `ProgramError` for inputs that do not fit, and `VulkanError`.
    """
    if device is not None:
        return device.execute(program, inputs)
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    with open_isolated() as opened:
        return opened.execute(program, inputs)


__getattr__ = import_on_use(__name__)
