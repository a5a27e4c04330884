"""Selects the device on which a program runs: by name, or the best one, like `xdsl-spirv run`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.errors import InterpreterWarning
from xdsl_spirv.runtime.execution import run
from xdsl_spirv.runtime.given import VARIABLE, unknown_device

if TYPE_CHECKING:
    from xdsl_spirv.runtime.program import Program
    from xdsl_spirv.runtime.session import Session


def run_on(device: str | None, program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """
    Runs a program on the named device and returns the results. With None, the device is the one
    that the environment names, otherwise the best Vulkan device that can run the program,
    otherwise the interpreter, with an `InterpreterWarning`.
    """
    name = device or os.environ.get(VARIABLE)
    if name is not None:
        return run(program, inputs, name)
    from xdsl_spirv.runtime.vulkan.errors import MisfitError, NoVulkanError

    try:
        from xdsl_spirv.runtime.vulkan.kept import kept_device

        with kept_device() as opened:
            return opened.execute(program.function(), inputs)
    except (NoVulkanError, MisfitError) as error:
        text = (
            "the program runs on the interpreter, which is much slower than a device "
            f'(device="interpreter" selects it without a warning): {error}'
        )
        # The caller called the program, which called this function.
        warnings.warn(text, InterpreterWarning, stacklevel=3)
        return run(program, inputs)


def open_session(program: Program, device: str = "interpreter", isolated: bool = False) -> Session:
    """Opens a session on the named device. Raises `ProgramError` and the device's errors."""
    from xdsl_spirv.runtime.session import InterpreterSession

    if device == "interpreter":
        return InterpreterSession(program)
    if device.partition(":")[0] != "vulkan":
        raise unknown_device(device)
    from xdsl_spirv.runtime.vulkan.device import open_device
    from xdsl_spirv.runtime.vulkan.sessions import VulkanSession
    from xdsl_spirv.runtime.vulkan.worker import open_isolated

    opened = open_isolated(device) if isolated else open_device(device)
    try:
        return VulkanSession(program, opened, owns=True)
    except BaseException:
        opened.close()
        raise
