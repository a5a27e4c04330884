"""
Runs a device in a separate process, which may crash or hang without harm to the caller.

Drivers crash and hang on bad kernels. `open_isolated` starts a process that opens the device and
works like `VulkanDevice`. Answers come back through a pipe. If the process dies or is late, the
caller gets an error, and the process is killed.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.phases import Phase
from xdsl_spirv.runtime.processes import Process, ProcessDied, ProcessLate
from xdsl_spirv.runtime.vulkan import errors
from xdsl_spirv.runtime.vulkan.device import TIMEOUT, rank
from xdsl_spirv.runtime.vulkan.errors import DeviceLostError, DeviceTimeoutError, VulkanError
from xdsl_spirv.runtime.vulkan.loaded import Bytes, Time
from xdsl_spirv.runtime.vulkan.loader import open_library
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.programs import Executor
from xdsl_spirv.runtime.vulkan.work import GraphWork, Run, Work

STAGES = {
    "open": "opening the device",
    "list": "looking for devices",
    "compile": "the driver compiles a kernel",
    "load_graph": "the driver compiles a graph",
    "run_graph": "running on the device",
    "load": "the driver compiles kernels, and weights are uploaded",
    "run": "running on the device",
    "run_routine": "running on the device",
    "time": "timing on the device",
    "time_runs": "timing on the device",
    "phases": "timing on the device",
}
"""Descriptions of requests that may take long."""

START_SECONDS = 60.0
"""Seconds for opening the device and creating pipelines, added to a request's time limit."""


class WorkerFault(Exception):
    """
    Raised for an unexpected exception of the worker process, a defect of this package.

    `remote` is the worker's traceback, which is printed after this process's traceback.
    """

    def __init__(self, what: str, said: str, remote: str):
        super().__init__(f"{said} (in the driver's process: {what})")
        self.remote = remote
        self.add_note(remote)


class RemoteWork:
    """Work that is loaded in the worker process."""

    def __init__(self, worker: Worker, number: int):
        self.worker, self.number = worker, number

    def run(self, inputs: Mapping[str, Bytes], timeout: float) -> dict[str, bytearray]:
        return self._call("run", _plain(inputs), timeout, seconds=timeout)

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        return self._call("time", count, timeout, warm_up, seconds=timeout * 2)

    def time_runs(self, runs: int, count: int, timeout: float, warm_up: float = 0.0) -> list[float]:
        return self._call("time_runs", runs, count, timeout, warm_up, seconds=timeout * 2)

    def phases(self, inputs: Mapping[str, Bytes], count: int, timeout: float) -> list[Phase]:
        return self._call("phases", _plain(inputs), count, timeout, seconds=timeout * 2)

    def run_routine(
        self, run: Run, timeout: float, following: Run | None = None
    ) -> dict[str, bytearray]:
        return self._call("run_routine", run, timeout, following, seconds=timeout)

    def write(self, name: str, data: Bytes, timeout: float) -> None:
        self._call("write", name, bytes(data), timeout, seconds=timeout)

    def read(
        self, name: str, timeout: float, first: int = 0, count: int | None = None
    ) -> bytearray:
        return self._call("read", name, timeout, first, count, seconds=timeout)

    def executables(self) -> list[list[dict[str, int | float | bool]]]:
        return self._call("executables")

    def _call(self, what: str, *arguments: Any, seconds: float = 0.0) -> Any:
        return self.worker.call(what, *arguments, number=self.number, seconds=seconds)


def _plain(inputs: Mapping[str, Bytes]) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in inputs.items()}


class Worker(Process):
    """A process that opens a device and answers calls. It is killed when it fails."""

    def __init__(self, launcher: Sequence[str] = ()) -> None:
        """Starts the process. `launcher` is a command prefix, for another Vulkan loader."""
        if not launcher:
            # Raises an error before a process is started if there is no loader.
            open_library()
        # Shims print every unknown call, although drivers do not need the results.
        quiet = bool(launcher)
        super().__init__("xdsl_spirv.runtime.vulkan.serve", launcher=launcher, quiet=quiet)

    def call(
        self, what: str, *arguments: Any, number: int | None = None, seconds: float = 0.0
    ) -> Any:
        """
        Calls the function `what` in the worker process, and returns its result. With `number`,
        calls a method of the loaded work with this number.

        Raises the function's exception (`WorkerFault` for unexpected ones), `DeviceLostError` if
        the process dies, and `DeviceTimeoutError` after `seconds` + `START_SECONDS`.
        """
        try:
            with stage(STAGES.get(what, "waiting for the device")):
                kind, value = self.ask((what, number, arguments), START_SECONDS + seconds)
        except ProcessDied as error:
            raise _lost(error.how, what) from error
        except ProcessLate:
            raise DeviceTimeoutError(
                f"the driver did not answer within {START_SECONDS + seconds:g} s",
                what,
                "a kernel may hang: run the program on the interpreter to find the cause",
            ) from None
        if kind == "error":
            raise rebuilt(*value)
        if kind == "fault":
            raise WorkerFault(what, *value)
        return value

    def close(self) -> None:
        """Lets the process free its resources and end. Does nothing if called again."""
        if self.alive:
            with contextlib.suppress(VulkanError):
                self.call("close")
            self.wait(5)
        self.kill()


def _lost(how: str, what: str) -> DeviceLostError:
    """Returns the error for a worker process that died during the stage `what`."""
    remedy = (
        "the driver may crash on a kernel: run the program with `--device interpreter "
        "--sanitize all`, and validate its kernels with `xdsl-spirv validate`"
    )
    if how == signal.SIGKILL.name:
        remedy = (
            "a user killed the process, or the system did for lack of memory: use smaller inputs"
        )
    return DeviceLostError(f"the driver's process died ({how})", what, remedy)


class IsolatedDevice(Executor[RemoteWork]):
    """A `VulkanDevice` in a worker process. A context manager."""

    def __init__(
        self, name: str | None, timeout: float, validation: bool | None, graphs: bool = False
    ):
        super().__init__(timeout)
        self.worker = Worker()
        try:
            self.info: DeviceInfo = self.worker.call("open", name, timeout, validation, graphs)
        except BaseException:
            self.worker.kill()
            raise

    def load(self, work: Work, statistics: bool = False) -> RemoteWork:
        number = self.worker.call("load", work, statistics, seconds=self.timeout)
        return RemoteWork(self.worker, number)

    def load_graph(self, graph: GraphWork) -> None:
        self.worker.call("load_graph", graph, seconds=self.timeout)

    def run_graph(self, inputs: Mapping[str, bytes]) -> dict[str, bytearray]:
        return self.worker.call("run_graph", dict(inputs), seconds=self.timeout)

    def place(self, loaded: RemoteWork, sizes: Mapping[str, int]) -> None:
        self.worker.call("place", loaded.number, dict(sizes))

    def unload(self, loaded: RemoteWork) -> None:
        self.forget(loaded)
        if self.worker.alive:
            self.worker.call("unload", loaded.number)

    def lacks(self, work: Work) -> list[str]:
        return self.worker.call("lacks", work)

    @property
    def messages(self) -> list[str]:
        """The validation layer's messages in the worker process."""
        return self.worker.call("messages")

    def close(self) -> None:
        """Lets the process free its resources and end. Does nothing if called again."""
        self.worker.close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeviceTimeoutError):
            self.worker.kill()
        super().__exit__(kind, *_)


@dataclass(frozen=True)
class Offered:
    """The loader, and the devices that it lists."""

    loader: str
    loader_version: tuple[int, int, int]
    devices: tuple[DeviceInfo, ...]

    def best_first(self) -> list[DeviceInfo]:
        return sorted(self.devices, key=rank)


def list_devices() -> Offered:
    """
    Returns the loader and its devices, queried in a separate process.

    Raises `NoVulkanError` if there is no loader or driver, and `DeviceLostError` if a driver
    crashes.
    """
    worker = Worker()
    try:
        return worker.call("list")
    finally:
        worker.close()


def open_isolated(
    name: str | None = None,
    *,
    timeout: float = TIMEOUT,
    validation: bool | None = None,
    graphs: bool = False,
) -> IsolatedDevice:
    """Opens a device in a separate process. Raises the errors of `open_device`."""
    return IsolatedDevice(name, timeout, validation, graphs)


def rebuilt(kind: str, cause: str, place: str, remedy: str) -> ProgramError:
    """Recreates an error of the worker process from the name of its class and its texts."""
    kind_of_error = getattr(errors, kind, None)
    if isinstance(kind_of_error, type) and issubclass(kind_of_error, VulkanError):
        return kind_of_error(cause, place, remedy)
    return ProgramError(cause, place, remedy)
