"""
The process that runs jobs one after another, and that a job may crash: `python -m
xdsl_spirv.jobs.child`.

It imports what a kind needs once and keeps its device open, so that a small job costs little.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xdsl_spirv.jobs.job import KINDS, Job, Result, Status, Wrong, job_from_bytes, to_bytes
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.processes import serve

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.device import VulkanDevice

DEVICE_VARIABLE = "XDSL_SPIRV_JOBS_DEVICE"
"""The device that this process's jobs run on, as `open_device` takes it."""
COMPUTE = (
    *("Float16", "Float64", "Int8", "Int16", "Int64", "Int64Atomics", "DotProduct"),
    *("StorageBuffer16BitAccess", "StoragePushConstant16", "StorageBuffer8BitAccess"),
    *("UniformAndStorageBuffer16BitAccess", "UniformAndStorageBuffer8BitAccess"),
    *("StoragePushConstant8", "VulkanMemoryModel", "VulkanMemoryModelDeviceScope"),
    *("GroupNonUniformRotateKHR", "PhysicalStorageBufferAddresses", "VariablePointers"),
    *("VariablePointersStorageBuffer", "WorkgroupMemoryExplicitLayoutKHR"),
    *("WorkgroupMemoryExplicitLayout8BitAccessKHR", "WorkgroupMemoryExplicitLayout16BitAccessKHR"),
    *("CooperativeMatrixKHR", "BFloat16TypeKHR", "BFloat16DotProductKHR"),
    *("BFloat16CooperativeMatrixKHR", "AtomicFloat32AddEXT"),
)
"""Capabilities that the kernels of most jobs use, if the device has them."""
SHOWN = 2000
"""Characters of a traceback that are kept."""
FAULTS: dict[str, Status] = {
    "DeviceLostError": "crashed",
    "DeviceTimeoutError": "late",
    "OutOfMemoryError": "out of memory",
}
"""Errors after which the device is not to be trusted, by the name of their class."""


@cache
def open_own_device() -> VulkanDevice:
    """The device of this process, for the functions of kinds that need one."""
    from xdsl_spirv.runtime.vulkan.device import open_device

    device = open_device(os.environ.get(DEVICE_VARIABLE) or None)
    # Some drivers take 0.1 s and more for a logical device, one process after the other.
    device.widen(COMPUTE)
    return device


@cache
def function_of(place: str) -> Callable[[Any], Any]:
    """Imports the function that `module:name` names."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ProgramError(
            f"the kind's function {place} cannot be imported: {error}",
            "",
            "put its module where workers find it: PYTHONPATH",
        ) from error


@contextmanager
def memory_limit(limit: int | None) -> Generator[None]:
    """Limits the memory that this process may write to."""
    if limit is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def ready(function: str) -> Result | None:
    """Imports a kind's function. Returns the error if that fails."""
    try:
        function_of(function)
    except Exception as error:
        return Result("refused", None, str(error))
    return None


def perform(job: Job) -> tuple[Result, bool]:
    """Runs a job. Returns the result, and whether this process can run further jobs."""
    try:
        with memory_limit(job.memory):
            value = function_of(KINDS[job.kind].function)(job.data)
        to_bytes(value)
        return Result("ok", value), True
    except Wrong as error:
        return Result("wrong", error.value, str(error)), True
    except ProgramError as error:
        status = FAULTS.get(type(error).__name__)
        return Result(status or "refused", None, str(error)), status is None
    except MemoryError:
        return Result("out of memory", None, "no memory was left within the job's limit"), False
    except Exception as error:
        cause = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-SHOWN:]}"
        return Result("crashed", None, cause), True


def answer(message: str | bytes) -> Any:
    """Handles a message: a function to import, or a job."""
    return ready(message) if isinstance(message, str) else perform(job_from_bytes(message))


def main() -> None:
    """Answers messages until the calling process is gone."""
    serve(answer)


if __name__ == "__main__":
    main()
