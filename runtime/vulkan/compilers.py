"""
Compiles kernels by drivers for devices that this machine does not have.

`scripts/fetch_drivers.py` creates a folder of drivers. Its `run DEVICE PROGRAM` starts a program
on the driver of a device, and `drivers.json` lists the devices. A driver runs in a separate
process with limits. If it crashes or hangs, the kernel gets an error and the driver is started
again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.program import Program, push_constant_bytes
from xdsl_spirv.runtime.vulkan.device import TIMEOUT
from xdsl_spirv.runtime.vulkan.errors import DeviceTimeoutError, MisfitError, VulkanError
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.programs import constants_of
from xdsl_spirv.runtime.vulkan.statistics import Code
from xdsl_spirv.runtime.vulkan.work import Step, Work
from xdsl_spirv.runtime.vulkan.worker import Worker
from xdsl_spirv.speech import did_you_mean

VARIABLE = "XDSL_SPIRV_DRIVERS"
"""
Environment variable with the path of the folder of drivers. If it is set, `FOLDER` is not searched.
"""
FOLDER = ".drivers"
MOST_BYTES = 8 << 30
"""Memory limit of a driver, in bytes."""
START_SECONDS = 240.0
"""Additional seconds for starting a driver's process, because emulated Python is slow."""
FETCH = "run scripts/fetch_drivers.py, or name its folder in XDSL_SPIRV_DRIVERS"


@dataclass(frozen=True)
class Driver:
    """A driver with its device, its version, and the target for compiling kernels."""

    folder: Path
    device: str
    title: str
    mesa: str
    target: str

    @property
    def launcher(self) -> tuple[str, ...]:
        """Command prefix that starts a program on this driver."""
        return str(self.folder / "run"), self.device

    def __str__(self) -> str:
        return f"{self.device} ({self.title} of Mesa {self.mesa})"


def folder() -> Path | None:
    """Returns the folder of drivers, or None if there is none."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    above = (Path.cwd(), *Path.cwd().parents)
    return next((place / FOLDER for place in above if (place / FOLDER).is_dir()), None)


def list_drivers() -> tuple[list[Driver], dict[str, str]]:
    """
    Returns the usable drivers, and the reasons why others are not usable.

    Raises `ProgramError` if the folder of drivers is missing or cannot be read.
    """
    place = folder()
    if place is None:
        raise ProgramError(
            "there is no folder of drivers here or in the folders above", FOLDER, FETCH
        )
    try:
        if not (place / "drivers.json").exists() and (place / "unavailable").exists():
            return [], {"drivers": (place / "unavailable").read_text().strip()}
        data = json.loads((place / "drivers.json").read_text())
        keys = ("device", "driver", "mesa", "target")
        drivers = [Driver(place, *(str(row[key]) for key in keys)) for row in data["devices"]]
        return drivers, {str(name): str(why) for name, why in data["unavailable"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        cause = f"the list of drivers cannot be read: {error}"
        raise ProgramError(cause, str(place), FETCH) from error


def find(device: str) -> Driver:
    """Returns the driver of a device. Raises a `ProgramError` that lists the available devices."""
    drivers, unavailable = list_drivers()
    for driver in drivers:
        if driver.device == device:
            return driver
    names = [driver.device for driver in drivers]
    missing = "; ".join(f"no {name}: {why}" for name, why in unavailable.items())
    remedy = did_you_mean(device, names, f"name one of {', '.join(names) or 'none'}")
    raise ProgramError(f"there is no driver of {device!r}", missing, remedy)


class Compiler(Closing):
    """Compiles kernels by a driver. A context manager."""

    def __init__(self, driver: Driver):
        """Starts the driver. Raises `VulkanError` if it does not start."""
        self.driver = driver
        self.worker: Worker | None = None
        self.used = False
        try:
            self.info: DeviceInfo = self._start_worker()[1]
        except (VulkanError, OSError) as error:
            self.close()
            cause = error.cause if isinstance(error, VulkanError) else str(error)
            remedy = "driver, emulated chip and shim do not match: run scripts/fetch_drivers.py"
            raise VulkanError(f"{driver} does not start: {cause}", "", remedy) from error

    def _start_worker(self) -> tuple[Worker, DeviceInfo]:
        if self.worker is not None and self.worker.alive:
            return self.worker, self.info
        self.worker = Worker(self.driver.launcher)
        self.worker.call("limit", MOST_BYTES, seconds=START_SECONDS)
        return self.worker, self.worker.call("open", "vulkan", TIMEOUT, False)

    def compile(self, work: Work, kernels: Iterable[str] | None = None) -> list[Code]:
        """Returns the code of every kernel of the work, or of the named entry points."""
        wanted = None if kernels is None else set(kernels)
        codes: list[Code] = []
        for number in distinct(work.steps):
            name = work.steps[number].entry_point
            if wanted is None or name in wanted:
                codes.append(self._compile_kernel(work, number, name))
        return codes

    def _compile_kernel(self, work: Work, number: int, name: str) -> Code:
        """
        Returns a kernel's code, or the reason why there is none.

        Some drivers cannot open a second device with other features. The kernel is then compiled
        again in a new process.
        """
        fresh = self.worker is None or not self.used
        try:
            worker, self.used = self._start_worker()[0], True
            return worker.call("compile", _alone(work, number))
        except MisfitError as error:
            return Code(name, 0.0, error=error.cause)
        except ProgramError as error:
            # After a failure, the process is not used for another kernel.
            self.close()
            if fresh or isinstance(error, DeviceTimeoutError):
                return Code(name, 0.0, error=error.cause)
        return self._compile_kernel(work, number, name)

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()
        self.worker, self.used = None, False


def work_of(program: Program) -> Work:
    """Returns a program's kernels as `Work` that is compiled but not run. Sizes may be dynamic."""
    manifest = program.manifest
    kernels = {kernel.name: kernel for kernel in manifest.kernels}
    return Work(
        (),
        {name: program.code[name].binary for name in kernels},
        tuple(
            Step(
                *(dispatch.kernel, dispatch.entry_point, (1, 1, 1)),
                tuple((b.set, b.binding, b.buffer) for b in dispatch.bindings),
                constants_of(dispatch, kernels[dispatch.kernel]),
                bytes(push_constant_bytes(dispatch)),
            )
            for function in (manifest, *manifest.functions)
            for dispatch in function.dispatches
        ),
        manifest.subgroup_size,
        manifest.target,
    )


def _alone(work: Work, number: int) -> Work:
    """Returns work with one step and its kernel only, to send little data to the driver."""
    step = work.steps[number]
    kernels = {step.kernel: work.kernels[step.kernel]}
    return Work((), kernels, (step,), work.subgroup_size, work.target)


def distinct(steps: Sequence[Step]) -> list[int]:
    """Returns the index of the first step of each distinct pipeline."""
    seen: dict[object, int] = {}
    for number, step in enumerate(steps):
        seen.setdefault((step.kernel, step.entry_point, step.constants), number)
    return list(seen.values())
