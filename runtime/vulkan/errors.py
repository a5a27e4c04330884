"""Defines the errors of devices: cause, place and remedy, with the VkResult's name."""

from __future__ import annotations

from xdsl_spirv.runtime.errors import ProgramError
from xdsl_spirv.runtime.vulkan.enums import Result

REMEDIES = {
    Result.ERROR_OUT_OF_HOST_MEMORY: "free memory of this machine, or use smaller buffers",
    Result.ERROR_OUT_OF_DEVICE_MEMORY: "use smaller buffers, or end other users of the device",
    Result.ERROR_INITIALIZATION_FAILED: "the driver may be wrong: run `xdsl-spirv doctor`",
    Result.ERROR_DEVICE_LOST: "a kernel crashed the device or ran too long: open the device "
    "again, and run the program with `--device interpreter --sanitize all` to look for the cause",
    Result.ERROR_LAYER_NOT_PRESENT: "install the layer, or set VK_LAYER_PATH to its folder",
    Result.ERROR_EXTENSION_NOT_PRESENT: "update the driver",
    Result.ERROR_FEATURE_NOT_PRESENT: "update the driver, or compile for another target",
    Result.ERROR_INCOMPATIBLE_DRIVER: "no driver is installed, or VK_DRIVER_FILES is "
    "wrong; run `xdsl-spirv doctor`",
    Result.ERROR_TOO_MANY_OBJECTS: "use fewer buffers",
}


def name_of(result: int) -> str:
    """Returns a VkResult's name, such as `VK_ERROR_DEVICE_LOST`."""
    try:
        return f"VK_{Result(result).name}"
    except ValueError:
        return f"VkResult {result}"


class VulkanError(ProgramError):
    """Raised if a Vulkan call fails or a device lacks something. `result` is the VkResult."""

    status = 4

    def __init__(self, cause: str, place: str = "", remedy: str = "", result: Result | None = None):
        super().__init__(cause, place, remedy)
        self.result = result

    @staticmethod
    def of(call: str, result: int) -> VulkanError:
        """Returns the error for a call that returned a negative result."""
        known = Result(result) if result in Result._value2member_map_ else None
        kind = VulkanError
        if known is Result.ERROR_DEVICE_LOST:
            kind = DeviceLostError
        elif known in (Result.ERROR_OUT_OF_DEVICE_MEMORY, Result.ERROR_OUT_OF_HOST_MEMORY):
            kind = OutOfMemoryError
        remedy = REMEDIES.get(known, "run `xdsl-spirv doctor`") if known else ""
        return kind(f"{call} returned {name_of(result)}", "", remedy, known)


class NoVulkanError(VulkanError):
    """Raised if there is no loader, no driver or no device."""


class DeviceLostError(VulkanError):
    """Raised if the device is lost. None of its objects can be used again."""


class DeviceTimeoutError(VulkanError):
    """Raised if a kernel did not end in time. Its resources cannot be freed while it runs."""


class OutOfMemoryError(VulkanError):
    """Raised if buffers exceed the device's memory."""


class MisfitError(VulkanError):
    """Raised if a device does not satisfy a program's requirements."""
