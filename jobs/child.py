"""
Runs jobs one after another in a separate process: `python -m xdsl_spirv.jobs.child`.

A job may crash the process. The process imports the code of each kind of job once and keeps its
device open, so that a small job costs little.
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
"""Environment variable that names the device of this process, as `open_device` takes it."""
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
"""Maximum number of characters of a traceback in a result."""
FAULTS: dict[str, Status] = {
    "DeviceLostError": "crashed",
    "DeviceTimeoutError": "late",
    "OutOfMemoryError": "out of memory",
}
"""Maps classes of errors, by name, to statuses. The device may be unusable after these errors."""


@cache
def open_own_device() -> VulkanDevice:
    """Opens the device of this process, for kinds of jobs that run on a device."""
    from xdsl_spirv.runtime.vulkan.device import open_device

    device = open_device(os.environ.get(DEVICE_VARIABLE) or None)
    # Some drivers take 0.1 s or more to create a logical device, and processes wait in turn.
    device.widen(COMPUTE)
    return device


@cache
def function_of(place: str) -> Callable[[Any], Any]:
    """Imports the function with the name `module:name`."""
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ProgramError(
            f"the job's function {place} cannot be imported: {error}",
            "",
            "add the folder of the function's module to PYTHONPATH on all workers",
        ) from error


@contextmanager
def memory_limit(limit: int | None) -> Generator[None]:
    """Limits the memory that this process may allocate, in bytes."""
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
    """Imports the function of a kind of job. Returns the error if that fails, else None."""
    try:
        function_of(function)
    except Exception as error:
        return Result("refused", None, str(error))
    return None


def perform(job: Job) -> tuple[Result, bool]:
    """Runs a job. Returns the result, and False if this process must not run further jobs."""
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
        return Result("out of memory", None, "the job needed more memory than its limit"), False
    except Exception as error:
        cause = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-SHOWN:]}"
        return Result("crashed", None, cause), True


def answer(message: str | bytes) -> Any:
    """
    Handles a message: imports the function with this name (`str`), or runs this job (`bytes`).
    """
    return ready(message) if isinstance(message, str) else perform(job_from_bytes(message))


def main() -> None:
    """Handles messages until the calling process ends."""
    serve(answer)


if __name__ == "__main__":
    main()
