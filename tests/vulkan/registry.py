"""
The structures of Vulkan's interface that the runner fills, called as in the registry without Vk.

A test compares every member and number here with the registry.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any, ClassVar

U32, U64, POINTER, SIZE, TEXT = c.c_uint32, c.c_uint64, c.c_void_p, c.c_size_t, c.c_char_p
HANDLE = U64


class Chained(c.Structure):
    """A structure that begins with its type and a pointer to the next one."""

    _fields_: ClassVar = [("sType", U32), ("pNext", POINTER)]
    STYPE: ClassVar[int]
    pNext: int | None

    def __init__(self, **members: Any):
        super().__init__(sType=self.STYPE, **members)


class ApplicationInfo(Chained):
    STYPE = 0
    _fields_ = [
        ("pApplicationName", TEXT),
        ("applicationVersion", U32),
        ("pEngineName", TEXT),
        ("engineVersion", U32),
        ("apiVersion", U32),
    ]


class InstanceCreateInfo(Chained):
    STYPE = 1
    _fields_ = [
        ("flags", U32),
        ("pApplicationInfo", POINTER),
        ("enabledLayerCount", U32),
        ("ppEnabledLayerNames", POINTER),
        ("enabledExtensionCount", U32),
        ("ppEnabledExtensionNames", POINTER),
    ]


class DeviceQueueCreateInfo(Chained):
    STYPE = 2
    _fields_ = [
        ("flags", U32),
        ("queueFamilyIndex", U32),
        ("queueCount", U32),
        ("pQueuePriorities", POINTER),
    ]


class DeviceCreateInfo(Chained):
    STYPE = 3
    _fields_ = [
        ("flags", U32),
        ("queueCreateInfoCount", U32),
        ("pQueueCreateInfos", POINTER),
        ("enabledLayerCount", U32),
        ("ppEnabledLayerNames", POINTER),
        ("enabledExtensionCount", U32),
        ("ppEnabledExtensionNames", POINTER),
        ("pEnabledFeatures", POINTER),
    ]


class SubmitInfo(Chained):
    STYPE = 4
    _fields_ = [
        ("waitSemaphoreCount", U32),
        ("pWaitSemaphores", POINTER),
        ("pWaitDstStageMask", POINTER),
        ("commandBufferCount", U32),
        ("pCommandBuffers", POINTER),
        ("signalSemaphoreCount", U32),
        ("pSignalSemaphores", POINTER),
    ]


class MemoryAllocateInfo(Chained):
    STYPE = 5
    _fields_ = [("allocationSize", U64), ("memoryTypeIndex", U32)]


class BufferCreateInfo(Chained):
    STYPE = 12
    _fields_ = [
        ("flags", U32),
        ("size", U64),
        ("usage", U32),
        ("sharingMode", U32),
        ("queueFamilyIndexCount", U32),
        ("pQueueFamilyIndices", POINTER),
    ]


class ShaderModuleCreateInfo(Chained):
    STYPE = 16
    _fields_ = [("flags", U32), ("codeSize", SIZE), ("pCode", POINTER)]


class PipelineShaderStageCreateInfo(Chained):
    STYPE = 18
    _fields_ = [
        ("flags", U32),
        ("stage", U32),
        ("module", HANDLE),
        ("pName", TEXT),
        ("pSpecializationInfo", POINTER),
    ]


class ComputePipelineCreateInfo(Chained):
    STYPE = 29
    _fields_ = [
        ("flags", U32),
        ("stage", PipelineShaderStageCreateInfo),
        ("layout", HANDLE),
        ("basePipelineHandle", HANDLE),
        ("basePipelineIndex", c.c_int32),
    ]


class PipelineLayoutCreateInfo(Chained):
    STYPE = 30
    _fields_ = [
        ("flags", U32),
        ("setLayoutCount", U32),
        ("pSetLayouts", POINTER),
        ("pushConstantRangeCount", U32),
        ("pPushConstantRanges", POINTER),
    ]


class DescriptorSetLayoutCreateInfo(Chained):
    STYPE = 32
    _fields_ = [("flags", U32), ("bindingCount", U32), ("pBindings", POINTER)]


class DescriptorPoolCreateInfo(Chained):
    STYPE = 33
    _fields_ = [("flags", U32), ("maxSets", U32), ("poolSizeCount", U32), ("pPoolSizes", POINTER)]


class DescriptorSetAllocateInfo(Chained):
    STYPE = 34
    _fields_ = [("descriptorPool", HANDLE), ("descriptorSetCount", U32), ("pSetLayouts", POINTER)]


class WriteDescriptorSet(Chained):
    STYPE = 35
    _fields_ = [
        ("dstSet", HANDLE),
        ("dstBinding", U32),
        ("dstArrayElement", U32),
        ("descriptorCount", U32),
        ("descriptorType", U32),
        ("pImageInfo", POINTER),
        ("pBufferInfo", POINTER),
        ("pTexelBufferView", POINTER),
    ]


class CommandPoolCreateInfo(Chained):
    STYPE = 39
    _fields_ = [("flags", U32), ("queueFamilyIndex", U32)]


class CommandBufferAllocateInfo(Chained):
    STYPE = 40
    _fields_ = [("commandPool", HANDLE), ("level", U32), ("commandBufferCount", U32)]


class CommandBufferBeginInfo(Chained):
    STYPE = 42
    _fields_ = [("flags", U32), ("pInheritanceInfo", POINTER)]


class PipelineShaderStageRequiredSubgroupSizeCreateInfo(Chained):
    STYPE = 1000225001
    _fields_ = [("requiredSubgroupSize", U32)]


class CooperativeMatrixPropertiesKHR(Chained):
    STYPE = 1000506001
    _fields_ = [
        ("MSize", U32),
        ("NSize", U32),
        ("KSize", U32),
        ("AType", U32),
        ("BType", U32),
        ("CType", U32),
        ("ResultType", U32),
        ("saturatingAccumulation", U32),
        ("scope", U32),
    ]
    MSize: int
    NSize: int
    KSize: int
    AType: int
    BType: int
    CType: int
    ResultType: int
    saturatingAccumulation: int
    scope: int


class PhysicalDeviceSubgroupProperties(Chained):
    STYPE = 1000094000
    _fields_ = [
        ("subgroupSize", U32),
        ("supportedStages", U32),
        ("supportedOperations", U32),
        ("quadOperationsInAllStages", U32),
    ]
    subgroupSize: int


class PhysicalDeviceProperties2(Chained):
    """The limits are not read, so they are only as long as they have to be."""

    STYPE = 1000059001
    _fields_ = [
        ("apiVersion", U32),
        ("driverVersion", U32),
        ("vendorID", U32),
        ("deviceID", U32),
        ("deviceType", U32),
        ("deviceName", c.c_char * 256),
        ("rest", U64 * 128),
    ]
    apiVersion: int
    deviceName: bytes


class Features(Chained):
    """Any structure of features: a row of booleans."""

    values: Any


def features(stype: int, count: int, extension: str | None = None) -> type[Features]:
    """The class of a structure of `count` features, which `extension` must be there for."""
    members = {"STYPE": stype, "EXTENSION": extension, "_fields_": [("values", U32 * count)]}
    return type("Features", (Features,), members)


FEATURES: dict[str, type[Features]] = {
    "PhysicalDeviceVulkan11Features": features(49, 12),
    "PhysicalDeviceVulkan12Features": features(51, 47),
    "PhysicalDeviceVulkan13Features": features(53, 15),
    "PhysicalDeviceCooperativeMatrixFeaturesKHR": features(
        1000506000, 2, "VK_KHR_cooperative_matrix"
    ),
    "PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR": features(
        1000336000, 4, "VK_KHR_workgroup_memory_explicit_layout"
    ),
    "PhysicalDeviceShaderSubgroupRotateFeatures": features(
        1000416000, 2, "VK_KHR_shader_subgroup_rotate"
    ),
    "PhysicalDeviceShaderBfloat16FeaturesKHR": features(1000141000, 3, "VK_KHR_shader_bfloat16"),
}
PhysicalDeviceFeatures2 = features(1000059000, 55)


class DescriptorSetLayoutBinding(c.Structure):
    _fields_ = [
        ("binding", U32),
        ("descriptorType", U32),
        ("descriptorCount", U32),
        ("stageFlags", U32),
        ("pImmutableSamplers", POINTER),
    ]


class PushConstantRange(c.Structure):
    _fields_ = [("stageFlags", U32), ("offset", U32), ("size", U32)]


class SpecializationInfo(c.Structure):
    _fields_ = [
        ("mapEntryCount", U32),
        ("pMapEntries", POINTER),
        ("dataSize", SIZE),
        ("pData", POINTER),
    ]


class SpecializationMapEntry(c.Structure):
    _fields_ = [("constantID", U32), ("offset", U32), ("size", SIZE)]


class DescriptorBufferInfo(c.Structure):
    _fields_ = [("buffer", HANDLE), ("offset", U64), ("range", U64)]


class DescriptorPoolSize(c.Structure):
    _fields_ = [("type", U32), ("descriptorCount", U32)]


class MemoryRequirements(c.Structure):
    _fields_ = [("size", U64), ("alignment", U64), ("memoryTypeBits", U32)]
    size: int
    memoryTypeBits: int


class MemoryType(c.Structure):
    _fields_ = [("propertyFlags", U32), ("heapIndex", U32)]
    propertyFlags: int


class MemoryHeap(c.Structure):
    _fields_ = [("size", U64), ("flags", U32)]


class PhysicalDeviceMemoryProperties(c.Structure):
    _fields_ = [
        ("memoryTypeCount", U32),
        ("memoryTypes", MemoryType * 32),
        ("memoryHeapCount", U32),
        ("memoryHeaps", MemoryHeap * 16),
    ]
    memoryTypeCount: int
    memoryTypes: Sequence[MemoryType]


class QueueFamilyProperties(c.Structure):
    _fields_ = [
        ("queueFlags", U32),
        ("queueCount", U32),
        ("timestampValidBits", U32),
        ("minImageTransferGranularity", U32 * 3),
    ]
    queueFlags: int


class ExtensionProperties(c.Structure):
    _fields_ = [("extensionName", c.c_char * 256), ("specVersion", U32)]
    extensionName: bytes
