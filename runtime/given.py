"""Checks the arguments of a run: device name, inputs, and push constants of each launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from xdsl_spirv.runtime.elements import Array, scalar_bytes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.expressions import evaluate
from xdsl_spirv.runtime.manifest import Buffer, Dispatch
from xdsl_spirv.speech import did_you_mean

if TYPE_CHECKING:
    from xdsl_spirv.runtime.program import Program

VARIABLE = "XDSL_SPIRV_DEVICE"
"""Environment variable with the name of the default device."""

DEVICES = ("interpreter", "vulkan", "vulkan:N")
"""Names of devices on which `run` can execute a program."""


def bind_inputs(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """
    Returns the checked contents of the input buffers.

    Raises `ProgramError` for a missing input, an unknown name, a wrong shape or type.
    """
    return bind_buffers(program.manifest.inputs, inputs)


def bind_buffers(buffers: Iterable[Buffer], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the checked contents of buffers, like `bind_inputs`, without a program."""
    expected = {buffer.name: buffer for buffer in buffers}
    if inputs.keys() != expected.keys():
        raise _not_bound(expected, inputs)
    return {
        name: np.asarray(buffer.accept(inputs[name]), order="C")
        for name, buffer in expected.items()
    }


def _not_bound(expected: Mapping[str, Buffer], inputs: Mapping[str, Array]) -> ProgramError:
    place = f"inputs: {', '.join(f'{name}: {buffer}' for name, buffer in expected.items())}"
    unknown = next((name for name in inputs if name not in expected), None)
    if unknown is not None:
        remedy = did_you_mean(unknown, expected, "rename it")
        return ProgramError(f"there is no input {unknown!r}", place, remedy)
    missing = next(name for name in expected if name not in inputs)
    remedy = f"give --input {missing}=x.npy"
    return ProgramError(f"the input {missing!r} is missing", place, remedy)


def unknown_device(name: str) -> ProgramError:
    """Returns the error for an unknown device."""
    remedy = did_you_mean(name, ("interpreter", "vulkan"), f"use one of {', '.join(DEVICES)}")
    return ProgramError(f"there is no device {name!r}", "", remedy)


def push_constant_bytes(launch: Dispatch) -> bytes:
    """Returns the push constants of a dispatch, little-endian."""
    block = b""
    for constant in sorted(launch.push_constants, key=lambda c: c.offset):
        place = f"dispatch of {launch.entry_point!r}"
        number = constant.value
        if isinstance(number, str):
            number = evaluate(number, {}, place)
        value = scalar_bytes(number, constant.type, place)
        block = block.ljust(constant.offset, b"\0") + value
    return block
