"""Reads a device's properties and features into records for all other modules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl_spirv.runtime.vulkan import features
from xdsl_spirv.runtime.vulkan.enums import (
    ComponentType,
    DriverId,
    MemoryHeap,
    PhysicalDeviceType,
    Queue,
    Scope,
    SubgroupFeature,
)
from xdsl_spirv.runtime.vulkan.layout import Chained, pointer
from xdsl_spirv.runtime.vulkan.loader import Commands, version_of
from xdsl_spirv.runtime.vulkan.structures import (
    CooperativeMatrixFlexibleDimensionsPropertiesNV,
    CooperativeMatrixPropertiesKHR,
    ExtensionProperties,
    PhysicalDeviceDriverProperties,
    PhysicalDeviceFloatControlsProperties,
    PhysicalDeviceIDProperties,
    PhysicalDeviceLimits,
    PhysicalDeviceMaintenance3Properties,
    PhysicalDeviceMemoryBudgetPropertiesEXT,
    PhysicalDeviceMemoryProperties,
    PhysicalDeviceMemoryProperties2,
    PhysicalDeviceProperties,
    PhysicalDeviceProperties2,
    PhysicalDeviceShaderCoreBuiltinsPropertiesARM,
    PhysicalDeviceShaderCorePropertiesAMD,
    PhysicalDeviceShaderIntegerDotProductProperties,
    PhysicalDeviceShaderSMBuiltinsPropertiesNV,
    PhysicalDeviceSubgroupProperties,
    PhysicalDeviceSubgroupSizeControlProperties,
    QueueFamilyProperties,
)
from xdsl_spirv.targets import CooperativeMatrixProperty

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.instance import Instance

COMPONENTS = {"FLOAT": "f", "SINT": "s", "UINT": "u", "BFLOAT": "bf"}
KINDS: dict[int, str] = {
    PhysicalDeviceType.DISCRETE_GPU: "discrete GPU",
    PhysicalDeviceType.INTEGRATED_GPU: "integrated GPU",
    PhysicalDeviceType.VIRTUAL_GPU: "virtual GPU",
    PhysicalDeviceType.OTHER: "other",
    PhysicalDeviceType.CPU: "CPU",
}
"""Kinds of devices by VkPhysicalDeviceType, in order of preference."""

OPTIONAL: dict[type[Chained], tuple[str, ...]] = {
    PhysicalDeviceSubgroupProperties: ("VK_VERSION_1_1",),
    PhysicalDeviceIDProperties: ("VK_VERSION_1_1",),
    PhysicalDeviceMaintenance3Properties: ("VK_VERSION_1_1",),
    PhysicalDeviceDriverProperties: ("VK_VERSION_1_2", "VK_KHR_driver_properties"),
    PhysicalDeviceFloatControlsProperties: ("VK_VERSION_1_2", "VK_KHR_shader_float_controls"),
    PhysicalDeviceSubgroupSizeControlProperties: (
        "VK_VERSION_1_3",
        "VK_EXT_subgroup_size_control",
    ),
    PhysicalDeviceShaderIntegerDotProductProperties: (
        "VK_VERSION_1_3",
        "VK_KHR_shader_integer_dot_product",
    ),
    PhysicalDeviceShaderSMBuiltinsPropertiesNV: ("VK_NV_shader_sm_builtins",),
    PhysicalDeviceShaderCorePropertiesAMD: ("VK_AMD_shader_core_properties",),
    PhysicalDeviceShaderCoreBuiltinsPropertiesARM: ("VK_ARM_shader_core_builtins",),
}
"""Structures of properties, with the versions or extensions that provide them."""


@dataclass(frozen=True)
class MemoryTypeInfo:
    """A memory type: the mask of its properties and its heap."""

    flags: int
    heap: int


@dataclass(frozen=True)
class Heap:
    """A heap of `size` bytes. `local` is True for the device's own memory."""

    size: int
    local: bool


@dataclass(frozen=True)
class QueueFamily:
    """The first queue family with compute. `timestamp_bits` is 0 if it has no timestamps."""

    index: int
    timestamp_bits: int


@dataclass(frozen=True)
class DeviceInfo:
    """One device as the loader reports it. Sizes are in bytes, times in nanoseconds."""

    index: int
    name: str
    kind: str
    vendor: int
    device: int
    version: tuple[int, int, int]
    driver: str
    driver_version: str
    device_uuid: str
    driver_uuid: str
    cache_uuid: str
    subgroup_size: int
    subgroup_size_range: tuple[int, int]
    subgroup_operations: tuple[str, ...]
    subgroup_size_control: bool
    max_workgroup_size: tuple[int, int, int]
    max_invocations: int
    max_grid: tuple[int, int, int]
    workgroup_memory_bytes: int
    storage_buffer_max_bytes: int
    storage_buffer_alignment: int
    storage_buffers: int
    push_constant_bytes: int
    max_allocation_bytes: int
    max_allocations: int
    timestamp_period: float
    queue: QueueFamily | None
    memory_types: tuple[MemoryTypeInfo, ...]
    heaps: tuple[Heap, ...]
    compute_units: int | None
    accelerated_dot: tuple[str, ...]
    matrices: tuple[CooperativeMatrixProperty, ...]
    flexible_matrices: tuple[tuple[CooperativeMatrixProperty, int], ...]
    """
    Flexible matrix sizes of VK_NV_cooperative_matrix2: the granularity of each dimension, and the
    number of invocations of a workgroup.
    """
    offer: features.Offer

    def __repr__(self) -> str:
        return f"<vulkan:{self.index} {self.name} ({self.kind}), {self.driver_version}>"

    @property
    def limits(self) -> dict[str, int | tuple[int, int, int]]:
        """The limits that kernels are compared with, by name in VkPhysicalDeviceLimits."""
        return {
            "maxComputeSharedMemorySize": self.workgroup_memory_bytes,
            "maxComputeWorkGroupInvocations": self.max_invocations,
            "maxComputeWorkGroupSize": self.max_workgroup_size,
            "maxComputeWorkGroupCount": self.max_grid,
            "maxPushConstantsSize": self.push_constant_bytes,
            "maxStorageBufferRange": self.storage_buffer_max_bytes,
            "maxPerStageDescriptorStorageBuffers": self.storage_buffers,
        }

    def has(self, structure: str, member: str) -> bool:
        return features.Feature(structure, member) in self.offer.features

    @property
    def device_memory(self) -> int:
        """Total size in bytes of the heaps that are local to the device."""
        return sum(heap.size for heap in self.heaps if heap.local)


@dataclass(frozen=True)
class PhysicalDevice:
    """A VkPhysicalDevice of an instance."""

    handle: int
    info: DeviceInfo

    @staticmethod
    def of(commands: Commands, index: int, handle: int) -> PhysicalDevice | None:
        """Returns the device, or None if it only supports Vulkan 1.0."""
        info = _Reader(commands, handle).read(index)
        return None if info is None else PhysicalDevice(handle, info)


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def component(number: int) -> str:
    """
    Returns the name of a VkComponentTypeKHR (`f16`, `s8`, `bf16`), or its number if it has no name.
    """
    try:
        name = ComponentType(number).name
    except ValueError:
        return str(number)
    letters = name.rstrip("0123456789")
    return f"{COMPONENTS[letters]}{name[len(letters) :]}" if letters in COMPONENTS else name.lower()


def scope(number: int) -> str:
    names = {Scope.DEVICE: "Device", Scope.WORKGROUP: "Workgroup", Scope.SUBGROUP: "Subgroup"}
    return names.get(Scope(number), "QueueFamily") if number in set(Scope) else str(number)


class _Reader:
    def __init__(self, commands: Commands, handle: int):
        self.call, self.handle = commands, handle
        self.parts: dict[type[Chained], Any] = {}

    def read(self, index: int) -> DeviceInfo | None:
        first = PhysicalDeviceProperties()
        self.call("vkGetPhysicalDeviceProperties", self.handle, pointer(first))
        version = version_of(first.apiVersion)
        if version < (1, 1, 0):
            return None
        extensions = frozenset(
            text_of(e.extensionName)
            for e in self.call.all(
                "vkEnumerateDeviceExtensionProperties", ExtensionProperties, self.handle, None
            )
        )
        properties = self._properties(version[:2], extensions)
        chain = features.Chain(features.available(version[:2], extensions))
        self.call("vkGetPhysicalDeviceFeatures2", self.handle, chain.address)
        subgroup: PhysicalDeviceSubgroupProperties = self.parts[PhysicalDeviceSubgroupProperties]
        ids: PhysicalDeviceIDProperties = self.parts[PhysicalDeviceIDProperties]
        own: dict[str, int] = {"subgroupSupportedOperations": subgroup.supportedOperations}
        offer = features.Offer(
            version[:2], extensions, chain.on(), own | dict(self._float_controls())
        )
        driver, driver_version = self._driver(properties.driverVersion)
        memory_types, heaps = self._memory()
        return DeviceInfo(
            index=index,
            name=text_of(properties.deviceName),
            kind=KINDS.get(properties.deviceType, "other"),
            vendor=properties.vendorID,
            device=properties.deviceID,
            version=version,
            driver=driver,
            driver_version=driver_version,
            device_uuid=bytes(ids.deviceUUID).hex(),
            driver_uuid=bytes(ids.driverUUID).hex(),
            cache_uuid=bytes(properties.pipelineCacheUUID).hex(),
            subgroup_size=subgroup.subgroupSize,
            subgroup_size_range=self._sizes(subgroup.subgroupSize),
            subgroup_operations=tuple(
                flag.name.lower()
                for flag in SubgroupFeature
                if subgroup.supportedOperations & flag and flag.name
            ),
            subgroup_size_control=self._size_control(offer),
            **_limits(properties.limits),
            max_allocation_bytes=self.parts[
                PhysicalDeviceMaintenance3Properties
            ].maxMemoryAllocationSize,
            queue=self._queue(),
            memory_types=memory_types,
            heaps=heaps,
            compute_units=self._compute_units(),
            accelerated_dot=self._accelerated_dot(),
            matrices=self._matrices(extensions),
            flexible_matrices=self._flexible_matrices(offer),
            offer=offer,
        )

    def _memory(self) -> tuple[tuple[MemoryTypeInfo, ...], tuple[Heap, ...]]:
        memory = PhysicalDeviceMemoryProperties()
        self.call("vkGetPhysicalDeviceMemoryProperties", self.handle, pointer(memory))
        types = memory.memoryTypes[: memory.memoryTypeCount]
        heaps = memory.memoryHeaps[: memory.memoryHeapCount]
        return (
            tuple(MemoryTypeInfo(t.propertyFlags, t.heapIndex) for t in types),
            tuple(Heap(h.size, bool(h.flags & MemoryHeap.DEVICE_LOCAL)) for h in heaps),
        )

    def _properties(
        self, version: tuple[int, int], extensions: Iterable[str]
    ) -> PhysicalDeviceProperties:
        head = PhysicalDeviceProperties2()
        for kind, sources in OPTIONAL.items():
            if features.is_there(sources, version, frozenset(extensions)):
                self.parts[kind] = kind(pNext=head.pNext)
                head.pNext = pointer(self.parts[kind])
        self.call("vkGetPhysicalDeviceProperties2", self.handle, pointer(head))
        return head.properties

    def _driver(self, number: int) -> tuple[str, str]:
        driver: PhysicalDeviceDriverProperties | None = self.parts.get(
            PhysicalDeviceDriverProperties
        )
        if driver is None:
            return "unknown driver", str(number)
        name = text_of(driver.driverName)
        if not name:
            known = driver.driverID in set(DriverId)
            name = DriverId(driver.driverID).name.lower() if known else "unknown driver"
        return name, text_of(driver.driverInfo) or str(number)

    def _float_controls(self) -> Mapping[str, int]:
        controls = self.parts.get(PhysicalDeviceFloatControlsProperties)
        if controls is None:
            return {}
        names = [name for name, *_ in type(controls)._fields_ if name.startswith("shader")]
        return {name: getattr(controls, name) for name in names}

    def _sizes(self, only: int) -> tuple[int, int]:
        control = self.parts.get(PhysicalDeviceSubgroupSizeControlProperties)
        return (control.minSubgroupSize, control.maxSubgroupSize) if control else (only, only)

    def _size_control(self, offer: features.Offer) -> bool:
        structures = ("VkPhysicalDeviceVulkan13Features",)
        return any(features.Feature(s, "subgroupSizeControl") in offer.features for s in structures)

    def _queue(self) -> QueueFamily | None:
        families: list[QueueFamilyProperties] = self.call.all(
            "vkGetPhysicalDeviceQueueFamilyProperties", QueueFamilyProperties, self.handle
        )
        for index, family in enumerate(families):
            if family.queueFlags & Queue.COMPUTE and family.queueCount:
                return QueueFamily(index, family.timestampValidBits)
        return None

    def _compute_units(self) -> int | None:
        parts = self.parts
        if properties := parts.get(PhysicalDeviceShaderSMBuiltinsPropertiesNV):
            return properties.shaderSMCount
        if properties := parts.get(PhysicalDeviceShaderCorePropertiesAMD):
            arrays = properties.shaderEngineCount * properties.shaderArraysPerEngineCount
            return arrays * properties.computeUnitsPerShaderArray
        if properties := parts.get(PhysicalDeviceShaderCoreBuiltinsPropertiesARM):
            return properties.shaderCoreCount
        return None

    def _accelerated_dot(self) -> tuple[str, ...]:
        properties = self.parts.get(PhysicalDeviceShaderIntegerDotProductProperties)
        if properties is None:
            return ()
        return tuple(
            name.removeprefix("integerDotProduct").removesuffix("Accelerated")
            for name, *_ in type(properties)._fields_
            if name.startswith("integerDotProduct") and getattr(properties, name)
        )

    def _matrices(self, extensions: frozenset[str]) -> tuple[CooperativeMatrixProperty, ...]:
        name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        if "VK_KHR_cooperative_matrix" not in extensions or not self.call.has(name):
            return ()
        properties: list[CooperativeMatrixPropertiesKHR] = self.call.all(
            name, CooperativeMatrixPropertiesKHR, self.handle
        )
        return tuple(
            CooperativeMatrixProperty(
                *(p.MSize, p.NSize, p.KSize),
                *map(component, (p.AType, p.BType, p.CType, p.ResultType)),
                saturating=bool(p.saturatingAccumulation),
                scope=scope(p.scope),
            )
            for p in properties
        )

    def _flexible_matrices(
        self, offer: features.Offer
    ) -> tuple[tuple[CooperativeMatrixProperty, int], ...]:
        name = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"
        if "VK_NV_cooperative_matrix2" not in offer.extensions or not self.call.has(name):
            return ()
        properties: list[CooperativeMatrixFlexibleDimensionsPropertiesNV] = self.call.all(
            name, CooperativeMatrixFlexibleDimensionsPropertiesNV, self.handle
        )
        return tuple(
            (
                CooperativeMatrixProperty(
                    *(p.MGranularity, p.NGranularity, p.KGranularity),
                    *map(component, (p.AType, p.BType, p.CType, p.ResultType)),
                    saturating=bool(p.saturatingAccumulation),
                    scope=scope(p.scope),
                ),
                p.workgroupInvocations,
            )
            for p in properties
        )


def _limits(limits: PhysicalDeviceLimits) -> dict[str, Any]:
    size, grid = limits.maxComputeWorkGroupSize, limits.maxComputeWorkGroupCount
    return {
        "max_workgroup_size": (size[0], size[1], size[2]),
        "max_invocations": limits.maxComputeWorkGroupInvocations,
        "max_grid": (grid[0], grid[1], grid[2]),
        "workgroup_memory_bytes": limits.maxComputeSharedMemorySize,
        "storage_buffer_max_bytes": limits.maxStorageBufferRange,
        "storage_buffer_alignment": limits.minStorageBufferOffsetAlignment,
        "storage_buffers": limits.maxPerStageDescriptorStorageBuffers,
        "push_constant_bytes": limits.maxPushConstantsSize,
        "max_allocations": limits.maxMemoryAllocationCount,
        "timestamp_period": limits.timestampPeriod,
    }


def free_memory(instance: Instance, device: PhysicalDevice) -> list[int]:
    """
    Returns the bytes of each heap that this process may still allocate.

    Without VK_EXT_memory_budget, these are the heaps' sizes.
    """
    info = device.info
    if "VK_EXT_memory_budget" not in info.offer.extensions:
        return [heap.size for heap in info.heaps]
    budget = PhysicalDeviceMemoryBudgetPropertiesEXT()
    memory = PhysicalDeviceMemoryProperties2(pNext=pointer(budget))
    instance.commands("vkGetPhysicalDeviceMemoryProperties2", device.handle, pointer(memory))
    left = zip(budget.heapBudget, budget.heapUsage, strict=True)
    return [max(0, total - used) for total, used in left][: len(info.heaps)]
