"""
Writes the part of Vulkan's registry that the runtime needs into `runtime/vulkan/`.

    scripts/generate_vulkan.py          structures.py, enums.py, commands.json, features.json

Only the names listed here are included, with all members and values of the registry. A test
compares the files with the registry of the installed `vulkan-object`. features.json contains the
boolean feature structures, and the registry's table of features that SPIR-V capabilities require.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vulkan_object import get_vulkan_object  # pyright: ignore[reportMissingTypeStubs]

from xdsl_spirv.dialects.spirv.enums import Capability

HOME = Path(__file__).resolve().parent.parent / "runtime" / "vulkan"

STRUCTURES = """Extent3D ConformanceVersion ApplicationInfo InstanceCreateInfo
DeviceQueueCreateInfo DeviceCreateInfo SubmitInfo
MemoryAllocateInfo MemoryAllocateFlagsInfo BufferCreateInfo ShaderModuleCreateInfo
PipelineShaderStageCreateInfo PipelineShaderStageRequiredSubgroupSizeCreateInfo
ComputePipelineCreateInfo PipelineCacheCreateInfo PipelineCacheHeaderVersionOne
PipelineLayoutCreateInfo PushConstantRange DescriptorSetLayoutBinding
DescriptorSetLayoutCreateInfo DescriptorPoolSize DescriptorPoolCreateInfo
DescriptorSetAllocateInfo DescriptorBufferInfo WriteDescriptorSet CommandPoolCreateInfo
CommandBufferAllocateInfo CommandBufferBeginInfo FenceCreateInfo QueryPoolCreateInfo
MemoryBarrier ImageSubresourceRange ImageMemoryBarrier ImageCreateInfo ComponentMapping
ImageViewCreateInfo BufferViewCreateInfo SamplerCreateInfo DescriptorImageInfo Offset3D
ImageSubresourceLayers BufferImageCopy BufferCopy BufferDeviceAddressInfo
SpecializationMapEntry SpecializationInfo
MemoryRequirements MemoryType MemoryHeap PhysicalDeviceMemoryProperties
PhysicalDeviceMemoryProperties2 PhysicalDeviceMemoryBudgetPropertiesEXT
QueueFamilyProperties ExtensionProperties LayerProperties
PhysicalDeviceLimits PhysicalDeviceSparseProperties PhysicalDeviceProperties
PhysicalDeviceProperties2 PhysicalDeviceIDProperties PhysicalDeviceDriverProperties
PhysicalDeviceSubgroupProperties PhysicalDeviceSubgroupSizeControlProperties
PhysicalDeviceMaintenance3Properties PhysicalDeviceShaderIntegerDotProductProperties
PhysicalDeviceFloatControlsProperties
PhysicalDeviceShaderSMBuiltinsPropertiesNV PhysicalDeviceShaderCorePropertiesAMD
PhysicalDeviceShaderCoreBuiltinsPropertiesARM
CooperativeMatrixPropertiesKHR CooperativeMatrixFlexibleDimensionsPropertiesNV
PipelineInfoKHR PipelineExecutablePropertiesKHR PipelineExecutableInfoKHR
PipelineExecutableStatisticKHR PipelineExecutableInternalRepresentationKHR
DebugUtilsMessengerCreateInfoEXT DebugUtilsMessengerCallbackDataEXT
PhysicalDeviceToolProperties ValidationFeaturesEXT
MemoryRequirements2 TensorDescriptionARM TensorCreateInfoARM TensorViewCreateInfoARM
TensorMemoryRequirementsInfoARM BindTensorMemoryInfoARM WriteDescriptorSetTensorARM
DataGraphPipelineConstantARM DataGraphPipelineShaderModuleCreateInfoARM
DataGraphPipelineResourceInfoARM DataGraphPipelineCreateInfoARM
DataGraphPipelineSessionCreateInfoARM DataGraphPipelineSessionBindPointRequirementsInfoARM
DataGraphPipelineSessionBindPointRequirementARM
DataGraphPipelineSessionMemoryRequirementsInfoARM
BindDataGraphPipelineSessionMemoryInfoARM""".split()

ENUMS = """Result PhysicalDeviceType ComponentTypeKHR ScopeKHR DescriptorType PipelineBindPoint
ImageLayout QueryType PipelineExecutableStatisticFormatKHR CommandBufferLevel DriverId""".split()

BITMASKS = """BufferUsageFlagBits ImageUsageFlagBits
MemoryPropertyFlagBits MemoryHeapFlagBits QueueFlagBits
ShaderStageFlagBits PipelineStageFlagBits AccessFlagBits QueryResultFlagBits
SubgroupFeatureFlagBits PipelineShaderStageCreateFlagBits PipelineCreateFlagBits
CommandBufferUsageFlagBits CommandPoolCreateFlagBits MemoryAllocateFlagBits
InstanceCreateFlagBits DebugUtilsMessageSeverityFlagBitsEXT
DebugUtilsMessageTypeFlagBitsEXT ToolPurposeFlagBits""".split()

COMMANDS = """vkEnumerateInstanceVersion vkEnumerateInstanceExtensionProperties
vkEnumerateInstanceLayerProperties vkCreateInstance vkDestroyInstance
vkEnumeratePhysicalDevices vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties2
vkGetPhysicalDeviceFeatures2 vkGetPhysicalDeviceMemoryProperties
vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceQueueFamilyProperties
vkEnumerateDeviceExtensionProperties vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV
vkCreateDevice vkDestroyDevice vkGetDeviceQueue vkDeviceWaitIdle vkQueueWaitIdle vkQueueSubmit
vkCreateBuffer vkDestroyBuffer vkGetBufferMemoryRequirements vkAllocateMemory vkFreeMemory
vkBindBufferMemory vkMapMemory vkUnmapMemory vkGetBufferDeviceAddress
vkCreateImage vkDestroyImage vkGetImageMemoryRequirements vkBindImageMemory
vkCreateImageView vkDestroyImageView vkCreateBufferView vkDestroyBufferView
vkCreateSampler vkDestroySampler vkCreateShaderModule
vkDestroyShaderModule vkCreateDescriptorSetLayout
vkDestroyDescriptorSetLayout vkCreatePipelineLayout vkDestroyPipelineLayout
vkCreatePipelineCache vkDestroyPipelineCache vkGetPipelineCacheData
vkCreateComputePipelines vkDestroyPipeline vkCreateDescriptorPool vkDestroyDescriptorPool
vkAllocateDescriptorSets vkUpdateDescriptorSets vkCreateCommandPool vkDestroyCommandPool
vkAllocateCommandBuffers vkFreeCommandBuffers vkBeginCommandBuffer vkEndCommandBuffer
vkCmdBindPipeline vkCmdBindDescriptorSets vkCmdPushConstants vkCmdDispatch vkCmdPipelineBarrier
vkCmdCopyBuffer vkCmdCopyBufferToImage vkCmdCopyImageToBuffer
vkCmdFillBuffer vkCmdResetQueryPool vkCmdWriteTimestamp
vkCreateQueryPool vkDestroyQueryPool vkGetQueryPoolResults
vkCreateFence vkDestroyFence vkResetFences vkWaitForFences vkGetFenceStatus
vkGetPipelineExecutablePropertiesKHR vkGetPipelineExecutableStatisticsKHR
vkGetPipelineExecutableInternalRepresentationsKHR
vkGetPhysicalDeviceToolProperties vkCreateDebugUtilsMessengerEXT vkDestroyDebugUtilsMessengerEXT
vkCreateTensorARM vkDestroyTensorARM vkCreateTensorViewARM vkDestroyTensorViewARM
vkGetTensorMemoryRequirementsARM vkBindTensorMemoryARM vkCreateDataGraphPipelinesARM
vkCreateDataGraphPipelineSessionARM vkDestroyDataGraphPipelineSessionARM
vkGetDataGraphPipelineSessionBindPointRequirementsARM
vkGetDataGraphPipelineSessionMemoryRequirementsARM
vkBindDataGraphPipelineSessionMemoryARM vkCmdDispatchDataGraphARM""".split()

FURTHER_FEATURES = [
    "VkPhysicalDeviceFeatures",
    "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR",
    "VkPhysicalDeviceMaintenance4Features",
    "VkPhysicalDeviceShaderClockFeaturesKHR",
    "VkPhysicalDeviceZeroInitializeWorkgroupMemoryFeatures",
]
"""Feature structures that the runtime enables, but no SPIR-V capability requires."""

SCALARS = {
    "uint32_t": "U32",
    "int32_t": "I32",
    "uint64_t": "U64",
    "int64_t": "I64",
    "size_t": "Size",
    "float": "F32",
    "uint8_t": "U8",
    "char": "Char",
    "VkBool32": "U32",
    "VkDeviceSize": "U64",
    "VkDeviceAddress": "U64",
    "VkSampleMask": "U32",
    # A union of 64 bits, which the statistic's format interprets.
    "VkPipelineExecutableStatisticValueKHR": "U64",
}
NAMES = """
from typing import Annotated

import ctypes as c

from xdsl_spirv.runtime.vulkan.layout import (
    F32, I32, I64, U32, U64, U8, Chained, Handle, Object, Plain, Pointer, Size, Text, structure,
)
"""
HEADER = (
    '"""\n{title}\n\n'
    "Written by scripts/generate_vulkan.py from Khronos' registry; do not edit.\n"
    '"""\n'
)

VULKAN: Any = get_vulkan_object()


def plain(name: str) -> str:
    return name.removeprefix("Vk")


def c_type(name: str) -> str:
    """Returns the type in layout.py that represents a type of Vulkan."""
    if name in SCALARS:
        return SCALARS[name]
    if name in VULKAN.handles:
        return "Object" if VULKAN.handles[name].dispatchable else "Handle"
    if name in VULKAN.enums:
        return "I32"
    if name in VULKAN.flags:
        return "U64" if VULKAN.flags[name].bitWidth == 64 else "U32"
    if name.startswith("PFN_"):
        return "Pointer"
    if name in VULKAN.bitmasks:
        return "U32"
    if name in VULKAN.structs and plain(name) in STRUCTURES:
        return plain(name)
    raise KeyError(f"a listed structure or command uses {name}: add it to STRUCTURES")


CTYPES = {"U8": "c.c_uint8", "U32": "c.c_uint32", "U64": "c.c_uint64", "Size": "c.c_size_t",
          "F32": "c.c_float", "Char": "c.c_char", "I32": "c.c_int32"}  # fmt: skip


def length_of(sizes: list[Any]) -> int:
    total = 1
    for size in sizes:
        total *= int(VULKAN.constants[size].value) if size in VULKAN.constants else int(size)
    return total


def member_type(member: Any) -> str:
    if member.pointer:
        text = member.type == "char" and member.fullType.count("*") == 1
        return "Text" if text else "Pointer"
    kind = c_type(member.type)
    if not member.fixedSizeArray:
        return kind
    element = CTYPES.get(kind, kind)
    python = "bytes" if kind == "Char" else f"c.Array[{element}]"
    return f"Annotated[{python}, {element} * {length_of(member.fixedSizeArray)}]"


def ordered(names: Sequence[str]) -> list[str]:
    """Returns the structures so that members precede the structures that contain them."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for member in VULKAN.structs[f"Vk{name}"].members:
            if not member.pointer and plain(member.type) in names:
                visit(plain(member.type))
        done.append(name)

    for name in names:
        visit(name)
    return done


def number_of(structure_type: str) -> int:
    fields = VULKAN.enums["VkStructureType"].fields
    return next(f.value for f in fields if f.name == structure_type)


def structures() -> str:
    text = HEADER.format(title="The structures of Vulkan that the runtime fills or reads.") + NAMES
    for name in ordered(STRUCTURES):
        known = VULKAN.structs[f"Vk{name}"]
        members = [m for m in known.members if m.name not in ("sType", "pNext") or not known.sType]
        number = "" if known.sType is None else str(number_of(known.sType))
        text += f"\n\n@structure({number})\n"
        text += f"class {name}({'Chained' if known.sType else 'Plain'}):\n"
        text += "".join(f"    {m.name}: {member_type(m)}\n" for m in members)
    return text


def _enumerants(title: str, kind: str, fields: list[Any], prefix: str) -> str:
    vendor = title[-3:] if title.endswith(("KHR", "EXT")) else "-"
    text = f"\n\nclass {title.removesuffix(vendor)}({kind}):\n"
    for field in fields:
        name = field.name.removeprefix(prefix).removesuffix(f"_{vendor}").removesuffix("_BIT")
        if name[0].isdigit():
            name = f"_{name}"
        text += f"    {name} = {field.value}\n"
    return text


def prefix_of(fields: list[Any], name: str) -> str:
    """Returns the prefix of an enumeration's members, such as `VK_BUFFER_USAGE_`."""
    if name == "Result":
        return "VK_"
    words = ""
    for letter in name.replace("FlagBits", "").removesuffix("KHR").removesuffix("EXT"):
        words += f"_{letter}" if letter.isupper() else letter.upper()
    prefix = f"VK{words}_"
    assert all(f.name.startswith(prefix) for f in fields), (prefix, [f.name for f in fields])
    return prefix


def enums() -> str:
    text = HEADER.format(title="The enumerations of Vulkan that the runtime uses, without VK_.")
    text += "\nfrom enum import IntEnum, IntFlag\n"
    for name in ENUMS:
        fields = VULKAN.enums[f"Vk{name}"].fields
        text += _enumerants(name, "IntEnum", fields, prefix_of(fields, name))
    for name in BITMASKS:
        fields = VULKAN.bitmasks[f"Vk{name}"].flags
        text += _enumerants(
            name.replace("FlagBits", ""), "IntFlag", fields, prefix_of(fields, name)
        )
    return text


def commands() -> dict[str, Any]:
    """Returns each command's level (loader, instance, device), result and parameter types."""
    table: dict[str, Any] = {}
    for name in COMMANDS:
        known = VULKAN.commands[name]
        parameters = [
            "Pointer" if p.pointer or p.fixedSizeArray else c_type(p.type) for p in known.params
        ]
        returned = known.returnType
        result = {"void": "", "VkResult": "Result"}.get(returned)
        first = known.params[0].type
        level = {"VkInstance": "instance", "VkPhysicalDevice": "instance"}.get(first, "device")
        level = level if first in VULKAN.handles else "global"
        table[name] = {
            "level": level,
            "returns": c_type(returned) if result is None else result,
            "parameters": parameters,
        }
    return table


def enabling(state: Any) -> dict[str, Any]:
    row = {
        "version": state.version,
        "extension": state.extension,
        "feature": state.struct and [state.struct, state.feature],
        "property": state.property and [state.property, state.member, state.value],
        "requires": state.requires and state.requires.split(","),
    }
    return {key: value for key, value in row.items() if value}


def declared(capability: str) -> str:
    """Returns the name by which our modules declare a capability, which may have several names."""
    return Capability[capability].name if capability in Capability.__members__ else capability


def features() -> dict[str, Any]:
    tables: dict[str, dict[str, Any]] = {"capabilities": {}, "extensions": {}}
    names = set(FURTHER_FEATURES)
    for entry in VULKAN.spirv:
        # Features of a structure's older name are also listed under its present name.
        states = [s for s in entry.enable if not s.struct or s.struct in VULKAN.structs]
        rows = [enabling(state) for state in states]
        if entry.capability:
            tables["capabilities"][declared(entry.name)] = rows
        else:
            tables["extensions"][entry.name] = rows
        names |= {row["feature"][0] for row in rows if "feature" in row}
    described: dict[str, Any] = {}
    for name in sorted(names):
        known = VULKAN.structs[name]
        members = [m for m in known.members if m.name not in ("sType", "pNext")]
        assert all(m.type == "VkBool32" for m in members), name
        described[name] = {
            "type": number_of(known.sType) if known.sType else 0,
            "version": known.version and known.version.name,
            "extensions": known.extensions,
            "members": [m.name for m in members],
        }
    return {"structures": described, **tables}


def write(name: str, text: str) -> None:
    path = HOME / name
    path.write_text(text)
    if path.suffix == ".py":
        for arguments in (["check", "-q", "--fix", "--select", "I,F401"], ["format", "-q"]):
            subprocess.run([sys.executable, "-m", "ruff", *arguments, str(path)], check=True)


def rows(table: dict[str, Any]) -> str:
    """Returns JSON with one entry per line."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def main() -> int:
    write("structures.py", structures())
    write("enums.py", enums())
    write("commands.json", rows(commands()) + "\n")
    parts = (f'"{key}": {rows(table)}' for key, table in features().items())
    write("features.json", "{" + ",\n".join(parts) + "}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
