"""
A device in a process of its own, which may crash or hang without harm to the caller.

Drivers crash and hang on bad kernels. `open_isolated` starts a process that opens the device and
does what `VulkanDevice` does; what it answers comes back through a pipe. When it dies or is late,
the caller gets an error that says so, and the process is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan import errors
from xdsl_spirv.runtime.vulkan.device import TIMEOUT, rank
from xdsl_spirv.runtime.vulkan.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    VulkanError,
)
from xdsl_spirv.runtime.vulkan.loaded import Bytes, Time
from xdsl_spirv.runtime.vulkan.loader import open_library
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.programs import Executor
from xdsl_spirv.runtime.vulkan.work import Work

START_SECONDS = 60.0
"""How long opening the device and making pipelines may take beside the device's own time."""


class WorkerFault(Exception):
    """
    The other process raised what nobody foresaw: a fault of this package.

    `remote` is the traceback there, which stands under the one here.
    """

    def __init__(self, what: str, said: str, remote: str):
        super().__init__(f"{said} (in the driver's process: {what})")
        self.remote = remote
        self.add_note(remote)


class RemoteWork:
    """Work that the other process has ready."""

    def __init__(self, worker: Worker, number: int):
        self.worker, self.number = worker, number

    def run(self, inputs: Mapping[str, Bytes], timeout: float) -> dict[str, bytearray]:
        given = {name: bytes(value) for name, value in inputs.items()}
        return self.worker.ask("run", self.number, given, timeout, seconds=timeout)

    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        return self.worker.ask("time", self.number, count, timeout, warm_up, seconds=timeout * 2)

    def run_routine(
        self,
        name: str,
        numbers: tuple[int, ...],
        inputs: Mapping[str, Bytes],
        outputs: tuple[int, ...],
        guess: tuple[tuple[int, ...], tuple[int, ...]] | None,
        timeout: float,
    ) -> dict[str, bytearray]:
        arguments = (name, numbers, inputs, outputs, guess, timeout)
        return self.worker.ask("run_routine", self.number, *arguments, seconds=timeout)

    def write(self, name: str, data: Bytes, timeout: float) -> None:
        self.worker.ask("write", self.number, name, bytes(data), timeout, seconds=timeout)

    def read(self, name: str, timeout: float) -> bytearray:
        return self.worker.ask("read", self.number, name, timeout, seconds=timeout)

    def executables(self) -> list[list[dict[str, int | float | bool]]]:
        return self.worker.ask("executables", self.number)


class Worker:
    """The other process: it does what it is asked, or is ended."""

    def __init__(self) -> None:
        # Where there is no loader nobody has to be started to find out.
        open_library()
        self.process = subprocess.Popen(
            [*python_command(), "-P", "-m", "xdsl_spirv.runtime.vulkan.serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            # An interrupt from the terminal is this process's affair, even while the other begins.
            start_new_session=True,
        )
        self._answers: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def _listen(self) -> None:
        assert self.process.stdout is not None
        try:
            while True:
                self._answers.put(receive(self.process.stdout))
        except Exception:
            # The end of the process, whatever was left half written.
            self._answers.put(None)

    def ask(self, what: str, *arguments: Any, seconds: float = 0.0) -> Any:
        """
        Have the other process do something, within `seconds` beside `START_SECONDS`.

        Raises what it raised (`WorkerFault` for what is no `ProgramError`), and `DeviceLostError`
        if it died, `DeviceTimeoutError` if it is late.
        """
        assert self.process.stdin is not None
        if not self.alive:
            raise self._died(what)
        try:
            send(self.process.stdin, (what, arguments))
            answer = self._answers.get(timeout=START_SECONDS + seconds)
        except OSError as error:
            raise self._died(what) from error
        except queue.Empty:
            self.kill()
            raise DeviceTimeoutError(
                f"the driver did not answer within {START_SECONDS + seconds:g} s",
                what,
                "it may hang on a kernel: look for its cause on the interpreter",
            ) from None
        except BaseException:
            # An interrupt: what the process is at is of no use to anyone.
            self.kill()
            raise
        if answer is None:
            raise self._died(what)
        kind, value = answer
        if kind == "error":
            raise rebuilt(*value)
        if kind == "fault":
            raise WorkerFault(what, *value)
        return value

    def _died(self, what: str) -> VulkanError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        code = self.process.poll()
        how = f"exit status {code}"
        if code is not None and code < 0:
            how = signal.Signals(-code).name
        self.kill()
        remedy = (
            "the driver cannot take a kernel: run the program with `--device interpreter "
            "--sanitize all`, and validate its kernels with `xdsl-spirv validate`"
        )
        if code == -signal.SIGKILL:
            remedy = "somebody ended it, or the system did for want of memory: use smaller inputs"
        return DeviceLostError(f"the driver's process died ({how})", what, remedy)

    def kill(self) -> None:
        """End the process now."""
        if self.alive:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def close(self) -> None:
        """Have the process take everything back and end; closing twice does nothing."""
        if self.alive:
            with contextlib.suppress(VulkanError):
                self.ask("close")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        self.kill()


class IsolatedDevice(Executor[RemoteWork]):
    """`VulkanDevice` by way of a worker process; a context manager."""

    def __init__(self, name: str | None, timeout: float, validation: bool | None):
        super().__init__(timeout)
        self.worker = Worker()
        try:
            self.info: DeviceInfo = self.worker.ask("open", name, timeout, validation)
        except BaseException:
            self.worker.kill()
            raise

    def load(self, work: Work, statistics: bool = False) -> RemoteWork:
        number = self.worker.ask("load", work, statistics, seconds=self.timeout)
        return RemoteWork(self.worker, number)

    def place(self, loaded: RemoteWork, sizes: Mapping[str, int]) -> None:
        self.worker.ask("place", loaded.number, dict(sizes))

    def unload(self, loaded: RemoteWork) -> None:
        self.forget(loaded)
        if self.worker.alive:
            self.worker.ask("unload", loaded.number)

    def lacks(self, work: Work) -> list[str]:
        return self.worker.ask("lacks", work)

    @property
    def messages(self) -> list[str]:
        """What the validation layer said in the other process."""
        return self.worker.ask("messages")

    def close(self) -> None:
        """Have the process take everything back and end; closing twice does nothing."""
        self.worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt | DeviceTimeoutError):
            self.worker.kill()
        self.close()


@dataclass(frozen=True)
class Offered:
    """What the loader offers."""

    loader: str
    loader_version: tuple[int, int, int]
    devices: tuple[DeviceInfo, ...]

    def best_first(self) -> list[DeviceInfo]:
        return sorted(self.devices, key=rank)


def list_devices() -> Offered:
    """
    The loader and its devices, asked in a process of its own.

    Raises `NoVulkanError` where there is no loader or driver, `DeviceLostError` if one crashes.
    """
    worker = Worker()
    try:
        return worker.ask("list")
    finally:
        worker.close()


def open_isolated(
    name: str | None = None, *, timeout: float = TIMEOUT, validation: bool | None = None
) -> IsolatedDevice:
    """`open_device` in a process of its own; raises what that raises."""
    return IsolatedDevice(name, timeout, validation)


def rebuilt(kind: str, cause: str, place: str, remedy: str) -> ProgramError:
    """An error of the other process."""
    kind_of_error = getattr(errors, kind, None)
    if isinstance(kind_of_error, type) and issubclass(kind_of_error, VulkanError):
        return kind_of_error(cause, place, remedy)
    return ProgramError(cause, place, remedy)


def python_command() -> list[str]:
    """
    What starts this Python again.

    That is more than its path where it was started by a dynamic linker of another C library, as a
    driver of a newer system is used: linker, options and all.
    """
    try:
        linker = os.readlink("/proc/self/exe")
        words = Path("/proc/self/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return [sys.executable]
    if not Path(linker).name.startswith("ld"):
        return [sys.executable]
    with_value = ("--argv0", "--library-path", "--preload", "--audit", "--inhibit-rpath")
    count = 1
    while count < len(words) and words[count].startswith("--"):
        count += 2 if words[count] in with_value else 1
    return [linker, *words[1 : count + 1]]


def environment() -> dict[str, str]:
    """The other process finds the same modules."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return os.environ | {"PYTHONPATH": path}


def send(stream: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Raises `EOFError` at the end."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
