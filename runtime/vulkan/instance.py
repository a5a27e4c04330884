"""
Opens the Vulkan instance, which lists devices and messages of a validation layer.

    with Instance() as instance:
        for device in instance.devices:
            print(device.info.name)

`validation=True` (or XDSL_SPIRV_VULKAN_VALIDATION=1) enables Khronos' validation layer. Its
warnings and errors are stored in `messages`, and printed on standard error at the end.
"""

from __future__ import annotations

import ctypes as c
import os
import sys
from collections.abc import Sequence
from typing import Any

from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.vulkan.enums import (
    DebugUtilsMessageSeverity,
    DebugUtilsMessageType,
    InstanceCreate,
    Result,
)
from xdsl_spirv.runtime.vulkan.errors import NoVulkanError, VulkanError
from xdsl_spirv.runtime.vulkan.layout import pointer
from xdsl_spirv.runtime.vulkan.loader import Loader, version_number
from xdsl_spirv.runtime.vulkan.physical import PhysicalDevice
from xdsl_spirv.runtime.vulkan.structures import (
    ApplicationInfo,
    DebugUtilsMessengerCallbackDataEXT,
    DebugUtilsMessengerCreateInfoEXT,
    ExtensionProperties,
    InstanceCreateInfo,
    LayerProperties,
)

VALIDATION_LAYER = "VK_LAYER_KHRONOS_validation"
VALIDATION_VARIABLE = "XDSL_SPIRV_VULKAN_VALIDATION"
DEBUG_UTILS = "VK_EXT_debug_utils"
PORTABILITY = "VK_KHR_portability_enumeration"
NEWEST = (1, 4)
"""The newest version of Vulkan whose structures are used."""
UNREFUSED = (1, 3)
"""Highest version to request from drivers that wrongly refuse newer ones, like SwiftShader."""

CALLBACK = c.CFUNCTYPE(c.c_uint32, c.c_uint32, c.c_uint32, c.c_void_p, c.c_void_p)


def wants_validation() -> bool:
    return os.environ.get(VALIDATION_VARIABLE, "") not in ("", "0")


class Instance(Closing):
    """
    A VkInstance; a context manager.

    Raises `NoVulkanError` if there is no loader or no driver, and `VulkanError` if the validation
    layer is requested but missing.
    """

    def __init__(self, validation: bool | None = None, layers: Sequence[str] = ()):
        """Creates the instance. `layers` are enabled if the loader finds all of them."""
        self.loader = Loader()
        self.messages: list[str] = []
        self.validation = wants_validation() if validation is None else validation
        self.handle = 0
        self._messenger = 0
        self._callback = CALLBACK(self._heard)
        self._create(layers)
        self.commands = self.loader.of_instance(self.handle)
        try:
            if self.validation:
                listen = self._listen()
                self._messenger = self.commands.made(
                    "vkCreateDebugUtilsMessengerEXT", self.handle, pointer(listen), None
                )
            handles = self.commands.all("vkEnumeratePhysicalDevices", c.c_void_p, self.handle)
            devices = (
                PhysicalDevice.of(self.commands, n, handle) for n, handle in enumerate(handles)
            )
            self.devices = [device for device in devices if device is not None]
        except BaseException:
            self.close()
            raise

    def _create(self, wanted: Sequence[str]) -> None:
        commands = self.loader.commands
        offered = {
            e.extensionName.decode()
            for e in commands.all(
                "vkEnumerateInstanceExtensionProperties", ExtensionProperties, None
            )
        }
        layers = [VALIDATION_LAYER] if self.validation else []
        if layers and VALIDATION_LAYER not in self.layers():
            raise VulkanError(
                f"the loader does not find {VALIDATION_LAYER}",
                f"VK_LAYER_PATH={os.environ.get('VK_LAYER_PATH', '')}",
                "install the layer (Debian: vulkan-validationlayers), or run without validation",
            )
        layers += wanted if set(wanted) <= set(self.layers()) else []
        enabled = [PORTABILITY] if PORTABILITY in offered else []
        extensions = [*enabled, *([DEBUG_UTILS] if self.validation else [])]

        def create(version: tuple[int, int]) -> int:
            application = ApplicationInfo(
                pApplicationName=b"xdsl-spirv",
                pEngineName=b"xdsl-spirv",
                apiVersion=version_number(*version),
            )
            info = InstanceCreateInfo(
                pNext=self._listen() if self.validation else None,
                flags=InstanceCreate.ENUMERATE_PORTABILITY_BIT_KHR if enabled else 0,
                pApplicationInfo=application,
                ppEnabledLayerNames=layers,
                ppEnabledExtensionNames=extensions,
            )
            return commands.made("vkCreateInstance", pointer(info), None, dispatchable=True)

        try:
            try:
                self.handle = create(NEWEST)
            except VulkanError as error:
                if error.result is not Result.ERROR_INCOMPATIBLE_DRIVER:
                    raise
                self.handle = create(UNREFUSED)
        except VulkanError as error:
            if error.result is Result.ERROR_INCOMPATIBLE_DRIVER:
                raise NoVulkanError(
                    "the Vulkan loader finds no driver",
                    "vkCreateInstance returned VK_ERROR_INCOMPATIBLE_DRIVER",
                    "install the device's driver (Debian: mesa-vulkan-drivers, or the vendor's), "
                    "or name its manifest in VK_DRIVER_FILES",
                    error.result,
                ) from error
            raise

    def layers(self) -> list[str]:
        """Names of the layers that the loader finds."""
        return [layer.layerName.decode() for layer in self.found_layers()]

    def found_layers(self) -> list[LayerProperties]:
        return self.loader.commands.all("vkEnumerateInstanceLayerProperties", LayerProperties)

    def _listen(self) -> DebugUtilsMessengerCreateInfoEXT:
        """
        Returns the settings of a callback for messages of the validation layer only.

        Messages of the type GENERAL come from the loader, about all layers of the machine,
        including broken ones.
        """
        severity, type = DebugUtilsMessageSeverity, DebugUtilsMessageType
        return DebugUtilsMessengerCreateInfoEXT(
            messageSeverity=severity.WARNING | severity.ERROR,
            messageType=type.VALIDATION,
            pfnUserCallback=c.cast(self._callback, c.c_void_p).value,
        )

    def _heard(self, severity: int, type: int, data: int, user: Any) -> int:
        message = DebugUtilsMessengerCallbackDataEXT.from_address(data).pMessage or b""
        self.messages.append(message.decode("utf-8", "replace"))
        return 0

    def close(self) -> None:
        """Destroys the instance. Does nothing if called again."""
        if self._messenger:
            self.commands("vkDestroyDebugUtilsMessengerEXT", self.handle, self._messenger, None)
            self._messenger = 0
        if self.handle:
            self.loader.of_instance(self.handle)("vkDestroyInstance", self.handle, None)
            self.handle = 0
            for message in self.messages if self.validation else ():
                print(f"validation: {message}", file=sys.stderr)
