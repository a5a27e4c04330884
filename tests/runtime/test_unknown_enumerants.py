"""Unknown enumerants in a driver's answers are accepted."""

from __future__ import annotations

from typing import Any

from xdsl_spirv.runtime.vulkan.physical import PhysicalDevice
from xdsl_spirv.runtime.vulkan.structures import (
    CooperativeMatrixPropertiesKHR,
    ExtensionProperties,
    PhysicalDeviceDriverProperties,
    PhysicalDeviceProperties,
    PhysicalDeviceProperties2,
    QueueFamilyProperties,
)

UNKNOWN = 99


class StrangeDriver:
    """A driver that returns only unknown enumerants."""

    def __call__(self, name: str, *arguments: Any) -> None:
        if name == "vkGetPhysicalDeviceProperties":
            properties = PhysicalDeviceProperties.from_address(arguments[1])
            properties.apiVersion = 1 << 22 | 3 << 12
        elif name == "vkGetPhysicalDeviceProperties2":
            properties = PhysicalDeviceProperties2.from_address(arguments[1])
            properties.properties.deviceType = UNKNOWN
            address = properties.pNext
            while address:
                part = PhysicalDeviceDriverProperties.from_address(address)
                if part.sType == PhysicalDeviceDriverProperties.STYPE:
                    part.driverID = UNKNOWN
                address = part.pNext

    def has(self, name: str) -> bool:
        return True

    def all(self, name: str, kind: type[Any], *arguments: Any) -> list[Any]:
        if kind is ExtensionProperties:
            return [ExtensionProperties(extensionName=b"VK_KHR_cooperative_matrix")]
        if kind is QueueFamilyProperties:
            return [QueueFamilyProperties(queueFlags=0xFFFFFFFF, queueCount=1)]
        if kind is CooperativeMatrixPropertiesKHR:
            return [CooperativeMatrixPropertiesKHR(MSize=8, AType=UNKNOWN, scope=UNKNOWN)]
        return []


def test_unknown_enumerants_of_a_driver_are_accepted():
    commands: Any = StrangeDriver()
    device = PhysicalDevice.of(commands, 0, 1)
    assert device is not None
    assert (device.info.kind, device.info.driver) == ("other", "unknown driver")
    assert (device.info.matrices[0].a, device.info.matrices[0].scope) == ("99", "99")
