"""
Finds the Vulkan loader, and calls its commands by name, with the registry's types.

A command's address comes from vkGetInstanceProcAddr or vkGetDeviceProcAddr. Only these two are
looked up in the library, and a device's commands skip the loader's dispatch.
"""

from __future__ import annotations

import ctypes as c
import ctypes.util
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from xdsl_spirv.runtime.vulkan import layout
from xdsl_spirv.runtime.vulkan.enums import Result
from xdsl_spirv.runtime.vulkan.errors import NoVulkanError, VulkanError

LIBRARY_VARIABLE = "XDSL_SPIRV_VULKAN_LIBRARY"
"""Environment variable with the path of the loader's library."""

LIBRARIES = {
    "linux": ["libvulkan.so.1", "libvulkan.so"],
    "darwin": ["libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"],
    "win32": ["vulkan-1.dll"],
}
TYPES: dict[str, Any] = {
    "Object": c.c_void_p,
    "Pointer": c.c_void_p,
    "Handle": c.c_uint64,
    "I32": c.c_int32,
    "U32": c.c_uint32,
    "U64": c.c_uint64,
    "I64": c.c_int64,
    "F32": c.c_float,
    "Size": c.c_size_t,
    "Result": c.c_int32,
    "": None,
}


@cache
def prototypes() -> dict[str, dict[str, Any]]:
    """
    Returns each command's level (global, instance or device), return type and parameter types.
    """
    return json.loads(Path(__file__).with_name("commands.json").read_text())


def candidates() -> list[str]:
    """Returns possible paths of the loader's library, the most likely first."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return [named]
    library = ctypes.util.find_library("vulkan")
    names = LIBRARIES.get(sys.platform, LIBRARIES["linux"])
    return [*names, *([library] if library and library not in names else [])]


def open_library() -> c.CDLL:
    """
    Opens the loader's library.

    Raises `NoVulkanError` with the searched paths.
    """
    tried: list[str] = []
    for name in candidates():
        try:
            library = c.CDLL(name)
        except OSError as error:
            tried.append(str(error))
            continue
        if hasattr(library, "vkGetInstanceProcAddr"):
            return library
        tried.append(f"{name}: not a Vulkan loader")
    remedy = "install it (Debian: libvulkan1; Fedora: vulkan-loader), or name its file in "
    raise NoVulkanError("there is no Vulkan loader", "; ".join(tried), remedy + LIBRARY_VARIABLE)


class Commands:
    """
    Calls commands by name: `commands("vkQueueSubmit", queue, 1, pointer, fence)`.

    `find` returns a command's address (0 or None if it does not exist). A negative VkResult is
    raised as a `VulkanError`. Other results are returned.
    """

    def __init__(self, find: Callable[[bytes], int | None]):
        self._find = find
        self._functions: dict[str, Any] = {}
        self._checked: set[str] = set()

    def has(self, name: str) -> bool:
        return bool(self._find(name.encode()))

    def _function(self, name: str) -> Any:
        known = prototypes()[name]
        address = self._address(name)
        kind = c.CFUNCTYPE(TYPES[known["returns"]], *(TYPES[p] for p in known["parameters"]))
        if known["returns"] == "Result":
            self._checked.add(name)
        function = self._functions[name] = kind(address)
        return function

    def __call__(self, name: str, *arguments: Any) -> Any:
        function = self._functions.get(name) or self._function(name)
        result = function(*arguments)
        if result is not None and result < 0 and name in self._checked:
            raise VulkanError.of(name, result)
        return result

    def quick(self, name: str) -> Any:
        """Returns a command as a fast function without checks, for commands that return nothing."""
        return c.PYFUNCTYPE(None)(self._address(name))

    @staticmethod
    def convert(name: str, *arguments: Any) -> tuple[Any, ...]:
        """
        Converts all arguments of a command except the first, so that many calls through `quick` can
        reuse them.
        """
        _, *types = prototypes()[name]["parameters"]
        return tuple(TYPES[t](value) for t, value in zip(types, arguments, strict=True))

    def _address(self, name: str) -> int:
        address = self._find(name.encode())
        if not address:
            raise VulkanError(f"the driver has no command {name}", "", "update the driver")
        return address

    def made(self, name: str, *arguments: Any, dispatchable: bool = False) -> Any:
        """Calls a command that creates an object. Returns the handle from its last parameter."""
        handle = c.c_void_p() if dispatchable else c.c_uint64()
        self(name, *arguments, layout.pointer(handle))
        return handle.value

    def all(self, name: str, kind: type[Any], *arguments: Any) -> list[Any]:
        """Returns all elements of an enumeration: queries their count, then the elements."""
        for _ in range(8):
            count = c.c_uint32()
            self(name, *arguments, layout.pointer(count), None)
            chained = issubclass(kind, layout.Chained)
            fresh = (kind() for _ in range(count.value)) if chained else ()
            entries = layout.array_of(kind, count.value, fresh)
            if not count.value:
                return []
            result = self(name, *arguments, layout.pointer(count), layout.pointer(entries))
            if result != Result.INCOMPLETE:
                return list(entries)[: count.value]
        raise VulkanError(f"{name} returns a different number at every call", "", "try again")


class Loader:
    """The loader's library and the commands that need no instance."""

    def __init__(self) -> None:
        self.library = open_library()
        self._get = self.library.vkGetInstanceProcAddr
        self._get.restype = c.c_void_p
        self._get.argtypes = [c.c_void_p, c.c_char_p]
        self.commands = Commands(lambda name: self._get(None, name))

    def of_instance(self, instance: int) -> Commands:
        return Commands(lambda name: self._get(instance, name))

    def of_device(self, instance: int, device: int) -> Commands:
        kind = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_char_p)
        find = kind(self._get(instance, b"vkGetDeviceProcAddr"))
        return Commands(lambda name: find(device, name))

    @property
    def path(self) -> str:
        return self.library._name

    def version(self) -> tuple[int, int, int]:
        """The newest version of Vulkan that the loader supports."""
        if not self.commands.has("vkEnumerateInstanceVersion"):
            return 1, 0, 0
        number = c.c_uint32()
        self.commands("vkEnumerateInstanceVersion", layout.pointer(number))
        return version_of(number.value)


def version_of(number: int) -> tuple[int, int, int]:
    """Splits a version into (major, minor, patch)."""
    return number >> 22 & 0x7F, number >> 12 & 0x3FF, number & 0xFFF


def version_number(major: int, minor: int) -> int:
    return major << 22 | minor << 12
