"""
Runs as the process that a `Worker` starts: opens one device, and answers requests for it.

It is a separate program, because pickled classes must have the same module name in both processes.
"""

from __future__ import annotations

import traceback
from typing import Any

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.processes import serve
from xdsl_spirv.runtime.vulkan.device import VulkanDevice, open_device
from xdsl_spirv.runtime.vulkan.instance import Instance
from xdsl_spirv.runtime.vulkan.loaded import LoadedWork
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo
from xdsl_spirv.runtime.vulkan.work import Work
from xdsl_spirv.runtime.vulkan.worker import Offered


class _Server:
    """The server, with one device and loaded work by index."""

    def __init__(self) -> None:
        self.works: dict[int, LoadedWork] = {}
        self.count = 0
        self.device: VulkanDevice | None = None

    def list(self) -> Offered:
        with Instance() as instance:
            devices = tuple(device.info for device in instance.devices)
            return Offered(instance.loader.path, instance.loader.version(), devices)

    def open(
        self, name: str | None, timeout: float, validation: bool | None, graphs: bool = False
    ) -> DeviceInfo:
        self.device = open_device(name, timeout=timeout, validation=validation, graphs=graphs)
        return self.device.info

    @property
    def opened(self) -> VulkanDevice:
        assert self.device is not None
        return self.device

    def limit(self, bytes: int) -> None:
        """Limits the memory of this process, and disables core dumps."""
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (bytes, bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def answer(self, what: str, number: int | None, arguments: tuple[Any, ...]) -> Any:
        """
        Calls a method of loaded work (by its number), of this server, or else of the device.
        Returns the result, or an attribute's value.
        """
        if number is not None:
            owner: object = self.works[number]
        else:
            owner = self if hasattr(self, what) else self.opened
        found = getattr(owner, what)
        return found(*arguments) if callable(found) else found

    def load(self, work: Work, statistics: bool) -> int:
        self.count += 1
        self.works[self.count] = self.opened.load(work, statistics)
        return self.count

    def unload(self, number: int) -> None:
        self.opened.unload(self.works.pop(number))

    def place(self, number: int, sizes: dict[str, int]) -> None:
        self.opened.place(self.works[number], sizes)

    def close(self) -> None:
        if self.device is not None:
            self.device.close()


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def main() -> None:
    """Answers requests on standard input until it ends."""
    server = _Server()

    def answer(message: tuple[str, int | None, tuple[Any, ...]]) -> tuple[str, Any]:
        try:
            return ("value", server.answer(*message))
        except ProgramError as error:
            kind = type(error).__name__
            return ("error", (kind, error.cause, error.place, error.remedy))
        except MemoryError:
            return ("error", ("OutOfMemoryError", "out of memory", "the driver's process", ""))
        except Exception as error:
            # The caller raises the unexpected exception, and this process continues.
            return ("fault", (_error_text(error), traceback.format_exc()))

    serve(answer, last=lambda message: message[0] == "close")


if __name__ == "__main__":
    main()
