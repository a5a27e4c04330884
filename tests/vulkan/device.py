"""
The smallest Vulkan compute runner that our kernels need, as a program of its own.

A driver that is given something it does not support may crash or hang, so a test never runs it in
its own process: it writes jobs into a folder, starts this program on the driver with a timeout, and
reads what came out.

    device.py describe        the device as JSON, its cooperative matrices among it
    device.py run FOLDER      FOLDER/jobs.json; buffers in N.npz, results in N.out.npz

A job is `{"spirv": file, "entry_point": name, "groups": [x, y, z], "bindings": [[set, binding]],
"spec_constants": {id: number}, "push_constants": hex, "subgroup_size": size or null,
"cooperative_matrix": [[m, n, k, a, b, c, result]], "repeat": number}`. What it multiplies must be
in the device's list: a driver runs what it never advertised and returns garbage. A job that says
"repeat" is submitted that often, on the same buffers; N.seconds.json has how long each took.
"""

from __future__ import annotations

import ctypes as c
import json
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from registry import (
    FEATURES,
    HANDLE,
    POINTER,
    TEXT,
    U32,
    U64,
    ApplicationInfo,
    BufferCreateInfo,
    Chained,
    CommandBufferAllocateInfo,
    CommandBufferBeginInfo,
    CommandPoolCreateInfo,
    ComputePipelineCreateInfo,
    CooperativeMatrixPropertiesKHR,
    DescriptorBufferInfo,
    DescriptorPoolCreateInfo,
    DescriptorPoolSize,
    DescriptorSetAllocateInfo,
    DescriptorSetLayoutBinding,
    DescriptorSetLayoutCreateInfo,
    DeviceCreateInfo,
    DeviceQueueCreateInfo,
    ExtensionProperties,
    Features,
    InstanceCreateInfo,
    MemoryAllocateInfo,
    MemoryRequirements,
    PhysicalDeviceFeatures2,
    PhysicalDeviceMemoryProperties,
    PhysicalDeviceProperties2,
    PhysicalDeviceSubgroupProperties,
    PipelineLayoutCreateInfo,
    PipelineShaderStageCreateInfo,
    PipelineShaderStageRequiredSubgroupSizeCreateInfo,
    PushConstantRange,
    QueueFamilyProperties,
    ShaderModuleCreateInfo,
    SpecializationInfo,
    SpecializationMapEntry,
    SubmitInfo,
    WriteDescriptorSet,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

COMPUTE = 0x20
STORAGE_BUFFER = 7
STORAGE_BUFFER_USAGE = 0x20
HOST_VISIBLE_COHERENT = 6
WHOLE_SIZE = 0xFFFF_FFFF_FFFF_FFFF
FULL_SUBGROUPS = 2
COMPUTE_QUEUE = 2
BIND_POINT_COMPUTE = 1
API_VERSION = (1 << 22) | (3 << 12)
SUBGROUP_SCOPE = 3
COOPERATIVE_MATRIX = "PhysicalDeviceCooperativeMatrixFeaturesKHR"
COMPONENTS = ["f16", "f32", "f64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"]
COMPONENTS_OF_EXTENSIONS = {
    1000141000: "bf16",
    1000491002: "f8E4M3FN",
    1000491003: "f8E5M2",
}
"""VkComponentTypeKHR: numbered from 0, and by extension."""
RESULTS = {
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY",
    -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
    -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT",
    -8: "VK_ERROR_FEATURE_NOT_PRESENT",
    -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
}


class VulkanError(RuntimeError):
    """A call failed, or the device cannot do what a job asks for."""


def pointer(value: Any) -> int | None:
    """The address of a structure or array; None for nothing."""
    return c.addressof(value) if value is not None and c.sizeof(value) else None


def texts(values: Sequence[str]) -> Any:
    return (TEXT * len(values))(*(value.encode() for value in values))


class Loader:
    """The Vulkan loader: `vk("vkCreateBuffer", ...)` calls, and raises on an error."""

    def __init__(self) -> None:
        self.library = c.CDLL("libvulkan.so.1")

    def __call__(self, name: str, *arguments: Any) -> None:
        result: int = getattr(self.library, name)(*arguments)
        if result < 0:
            raise VulkanError(f"{name}: {RESULTS.get(result, f'VkResult {result}')}")

    def void(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name)
        function.restype = None
        function(*arguments)

    def all(self, name: str, kind: Any, *arguments: Any) -> list[Any]:
        """Every element of an enumeration: asked for their number first, then for themselves."""
        count = U32()
        function = getattr(self.library, name)
        function(*arguments, c.byref(count), None)
        found = (kind * count.value)()
        function(*arguments, c.byref(count), found)
        return list(found)

    def made(self, name: str, *arguments: Any) -> Any:
        """The handle that a call makes and returns through its last argument."""
        handle = HANDLE()
        self(name, *arguments, c.byref(handle))
        return handle


class Device:
    """The first device of the loader, with every feature in `FEATURES` that it offers."""

    def __init__(self) -> None:
        self.vk = Loader()
        self.seconds: list[float] = []
        self.instance = POINTER()
        application = ApplicationInfo(apiVersion=API_VERSION)
        create = InstanceCreateInfo(pApplicationInfo=pointer(application))
        self.vk("vkCreateInstance", c.byref(create), None, c.byref(self.instance))
        devices = self.vk.all("vkEnumeratePhysicalDevices", POINTER, self.instance)
        if not devices:
            raise VulkanError("the loader offers no device")
        self.physical = POINTER(devices[0])
        self.subgroup = PhysicalDeviceSubgroupProperties()
        self.properties = PhysicalDeviceProperties2(pNext=pointer(self.subgroup))
        self.vk.void("vkGetPhysicalDeviceProperties2", self.physical, c.byref(self.properties))
        self.extensions = {
            extension.extensionName.decode()
            for extension in self.vk.all(
                "vkEnumerateDeviceExtensionProperties", ExtensionProperties, self.physical, None
            )
        }
        self.memory = PhysicalDeviceMemoryProperties()
        self.vk.void("vkGetPhysicalDeviceMemoryProperties", self.physical, c.byref(self.memory))
        self._create()

    def _create(self) -> None:
        families = self.vk.all(
            "vkGetPhysicalDeviceQueueFamilyProperties", QueueFamilyProperties, self.physical
        )
        family = next(i for i, f in enumerate(families) if f.queueFlags & COMPUTE_QUEUE)
        wanted = PhysicalDeviceFeatures2()
        self.features: dict[str, Features] = {}
        names: list[str] = []
        for name, kind in FEATURES.items():
            extension: str | None = getattr(kind, "EXTENSION")
            if extension is not None and extension not in self.extensions:
                continue
            names += [extension] if extension else []
            self.features[name] = kind(pNext=wanted.pNext)
            wanted.pNext = pointer(self.features[name])
        self.vk.void("vkGetPhysicalDeviceFeatures2", self.physical, c.byref(wanted))
        # With robust access the validation layer takes out-of-bounds accesses for intended.
        wanted.values[0] = 0
        if COOPERATIVE_MATRIX in self.features:
            self.features[COOPERATIVE_MATRIX].values[1] = 0
        priority = c.c_float(1)
        queue = DeviceQueueCreateInfo(
            queueFamilyIndex=family, queueCount=1, pQueuePriorities=pointer(priority)
        )
        enabled = texts(names)
        create = DeviceCreateInfo(
            pNext=pointer(wanted),
            queueCreateInfoCount=1,
            pQueueCreateInfos=pointer(queue),
            enabledExtensionCount=len(names),
            ppEnabledExtensionNames=pointer(enabled),
        )
        self.device = POINTER()
        self.vk("vkCreateDevice", self.physical, c.byref(create), None, c.byref(self.device))
        self.queue = POINTER()
        self.vk.void("vkGetDeviceQueue", self.device, family, 0, c.byref(self.queue))
        pool = CommandPoolCreateInfo(queueFamilyIndex=family)
        self.pool = self.vk.made("vkCreateCommandPool", self.device, c.byref(pool), None)

    def cooperative_matrices(self) -> list[tuple[Any, ...]]:
        """(m, n, k, a, b, c, result) of what the device multiplies, subgroup by subgroup."""
        name = b"vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        find = self.vk.library.vkGetInstanceProcAddr
        find.restype = POINTER
        address = find(self.instance, name)
        if "VK_KHR_cooperative_matrix" not in self.extensions or not address:
            return []
        query = c.CFUNCTYPE(c.c_int32, POINTER, POINTER, POINTER)(address)
        count = U32()
        query(self.physical, pointer(count), None)
        kind = CooperativeMatrixPropertiesKHR
        found = (kind * count.value)(*(kind() for _ in range(count.value)))
        query(self.physical, pointer(count), pointer(found))
        return [
            (p.MSize, p.NSize, p.KSize, *map(component, (p.AType, p.BType, p.CType, p.ResultType)))
            for p in found
            if p.scope == SUBGROUP_SCOPE and not p.saturatingAccumulation
        ]

    def describe(self) -> dict[str, Any]:
        version = self.properties.apiVersion
        return {
            "name": self.properties.deviceName.decode(),
            "api_version": [version >> 22 & 0x7F, version >> 12 & 0x3FF],
            "subgroup_size": self.subgroup.subgroupSize,
            "cooperative_matrix": self.cooperative_matrices(),
            "features": {name: list(f.values) for name, f in self.features.items()},
        }

    def run(self, job: dict[str, Any], arrays: list[Array]) -> list[Array]:
        """Dispatch once; returns the buffers' contents afterwards, of the same types and shapes."""
        offered = self.cooperative_matrices()
        for shape in map(tuple, job.get("cooperative_matrix", [])):
            if shape not in offered:
                raise VulkanError(f"the device does not list cooperative matrices {shape}")
        run = _Run(self, job, arrays)
        self.seconds.clear()
        try:
            return run.execute()
        finally:
            run.clean_up()


def component(number: int) -> str:
    if number < len(COMPONENTS):
        return COMPONENTS[number]
    return COMPONENTS_OF_EXTENSIONS.get(number, str(number))


class _Run:
    """What one dispatch makes and has to destroy again."""

    def __init__(self, device: Device, job: dict[str, Any], arrays: list[Array]):
        self.device, self.job = device, job
        self.arrays = [np.ascontiguousarray(array) for array in arrays]
        self.bindings: list[tuple[int, int]] = [(s, b) for s, b in job["bindings"]]
        self.destroy: list[Callable[[], None]] = []

    def made(self, kind: str, create: Chained) -> Any:
        """Create an object of the device, to be destroyed in the end."""
        vk, device = self.device.vk, self.device.device
        handle = vk.made(f"vkCreate{kind}", device, c.byref(create), None)
        self.destroy.append(lambda: vk.void(f"vkDestroy{kind}", device, handle, None))
        return handle

    def clean_up(self) -> None:
        for destroy in reversed(self.destroy):
            destroy()

    def execute(self) -> list[Array]:
        vk, device = self.device.vk, self.device.device
        buffers = [self._buffer(array) for array in self.arrays]
        sets = [
            self._set_layout(s) for s in range(1 + max((s for s, _ in self.bindings), default=0))
        ]
        push = bytes.fromhex(self.job.get("push_constants", ""))
        layout = self._pipeline_layout(sets, len(push))
        pipeline = self._pipeline(layout)
        descriptors = self._descriptors(sets, [buffer for buffer, _ in buffers])
        command = POINTER()
        allocate = CommandBufferAllocateInfo(
            commandPool=self.device.pool.value, commandBufferCount=1
        )
        vk("vkAllocateCommandBuffers", device, c.byref(allocate), c.byref(command))
        vk("vkBeginCommandBuffer", command, c.byref(CommandBufferBeginInfo()))
        vk.void("vkCmdBindPipeline", command, BIND_POINT_COMPUTE, pipeline)
        vk.void(
            "vkCmdBindDescriptorSets",
            *(command, BIND_POINT_COMPUTE, layout, 0, len(sets), descriptors, 0, None),
        )
        if push:
            vk.void("vkCmdPushConstants", command, layout, COMPUTE, 0, len(push), push)
        vk.void("vkCmdDispatch", command, *self.job["groups"])
        vk("vkEndCommandBuffer", command)
        submit = SubmitInfo(commandBufferCount=1, pCommandBuffers=pointer(command))
        for _ in range(self.job.get("repeat", 1)):
            begun = time.perf_counter()
            vk("vkQueueSubmit", self.device.queue, 1, c.byref(submit), HANDLE())
            vk("vkQueueWaitIdle", self.device.queue)
            self.device.seconds.append(time.perf_counter() - begun)
        vk.void("vkFreeCommandBuffers", device, self.device.pool, 1, c.byref(command))
        results = [np.empty_like(array) for array in self.arrays]
        for result, (_, address) in zip(results, buffers, strict=True):
            c.memmove(result.ctypes.data, address, result.nbytes)
        return results

    def _buffer(self, array: Array) -> tuple[Any, int]:
        """A buffer with the array's bytes, and the address at which the host sees them."""
        vk, device, memory = self.device.vk, self.device.device, self.device.memory
        size = max(4, array.nbytes)
        buffer = self.made("Buffer", BufferCreateInfo(size=size, usage=STORAGE_BUFFER_USAGE))
        needs = MemoryRequirements()
        vk.void("vkGetBufferMemoryRequirements", device, buffer, c.byref(needs))
        kind = next(
            i
            for i in range(memory.memoryTypeCount)
            if needs.memoryTypeBits >> i & 1
            and memory.memoryTypes[i].propertyFlags & HOST_VISIBLE_COHERENT == HOST_VISIBLE_COHERENT
        )
        allocate = MemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=kind)
        allocation = vk.made("vkAllocateMemory", device, c.byref(allocate), None)
        # Destroyed in reverse: the buffer, which was made first, must go before its memory.
        self.destroy.insert(0, lambda: vk.void("vkFreeMemory", device, allocation, None))
        vk("vkBindBufferMemory", device, buffer, allocation, U64(0))
        address = POINTER()
        vk(
            "vkMapMemory",
            *(device, allocation, U64(0), U64(WHOLE_SIZE), 0, c.byref(address)),
        )
        assert address.value is not None
        c.memmove(address.value, array.ctypes.data, array.nbytes)
        return buffer, address.value

    def _set_layout(self, number: int) -> Any:
        mine = [binding for s, binding in self.bindings if s == number]
        bindings = (DescriptorSetLayoutBinding * len(mine))(
            *(DescriptorSetLayoutBinding(b, STORAGE_BUFFER, 1, COMPUTE, None) for b in mine)
        )
        create = DescriptorSetLayoutCreateInfo(bindingCount=len(mine), pBindings=pointer(bindings))
        return self.made("DescriptorSetLayout", create)

    def _pipeline_layout(self, sets: list[Any], push_bytes: int) -> Any:
        layouts = (HANDLE * len(sets))(*(s.value for s in sets))
        push = PushConstantRange(COMPUTE, 0, push_bytes)
        return self.made(
            "PipelineLayout",
            PipelineLayoutCreateInfo(
                setLayoutCount=len(sets),
                pSetLayouts=pointer(layouts),
                pushConstantRangeCount=1 if push_bytes else 0,
                pPushConstantRanges=pointer(push),
            ),
        )

    def _pipeline(self, layout: Any) -> Any:
        vk, device = self.device.vk, self.device.device
        code = Path(self.job["spirv"]).read_bytes()
        words = c.create_string_buffer(code, len(code))
        module = self.made(
            "ShaderModule", ShaderModuleCreateInfo(codeSize=len(code), pCode=pointer(words))
        )
        constants = {int(k): int(v) for k, v in self.job.get("spec_constants", {}).items()}
        data = struct.pack(f"<{len(constants)}I", *(v & 0xFFFFFFFF for v in constants.values()))
        values = c.create_string_buffer(data, max(1, len(data)))
        entries = (SpecializationMapEntry * len(constants))(
            *(SpecializationMapEntry(id, 4 * i, 4) for i, id in enumerate(constants))
        )
        special = SpecializationInfo(len(constants), pointer(entries), len(data), pointer(values))
        stage = PipelineShaderStageCreateInfo(
            stage=COMPUTE,
            module=module.value,
            pName=self.job["entry_point"].encode(),
            pSpecializationInfo=pointer(special),
        )
        size = self.job.get("subgroup_size")
        required = PipelineShaderStageRequiredSubgroupSizeCreateInfo(requiredSubgroupSize=size or 0)
        if size:
            stage.pNext = pointer(required)
        create = ComputePipelineCreateInfo(stage=stage, layout=layout.value, basePipelineIndex=-1)
        pipeline = HANDLE()
        vk(
            "vkCreateComputePipelines",
            *(device, HANDLE(), 1, c.byref(create), None, c.byref(pipeline)),
        )
        self.destroy.append(lambda: vk.void("vkDestroyPipeline", device, pipeline, None))
        return pipeline

    def _descriptors(self, sets: list[Any], buffers: list[Any]) -> Any:
        vk, device = self.device.vk, self.device.device
        size = DescriptorPoolSize(STORAGE_BUFFER, max(1, len(buffers)))
        pool = self.made(
            "DescriptorPool",
            DescriptorPoolCreateInfo(maxSets=len(sets), poolSizeCount=1, pPoolSizes=pointer(size)),
        )
        layouts = (HANDLE * len(sets))(*(s.value for s in sets))
        handles = (HANDLE * len(sets))()
        allocate = DescriptorSetAllocateInfo(
            descriptorPool=pool.value, descriptorSetCount=len(sets), pSetLayouts=pointer(layouts)
        )
        vk("vkAllocateDescriptorSets", device, c.byref(allocate), handles)
        for (number, binding), buffer in zip(self.bindings, buffers, strict=True):
            info = DescriptorBufferInfo(buffer.value, 0, WHOLE_SIZE)
            write = WriteDescriptorSet(
                dstSet=handles[number],
                dstBinding=binding,
                descriptorCount=1,
                descriptorType=STORAGE_BUFFER,
                pBufferInfo=pointer(info),
            )
            vk.void("vkUpdateDescriptorSets", device, 1, c.byref(write), 0, None)
        return handles


def run_jobs(folder: Path) -> None:
    """Run every job of the folder, in order, on one device."""
    device = Device()
    for number, job in enumerate(json.loads((folder / "jobs.json").read_text())):
        with np.load(folder / f"{number}.npz") as stored:
            arrays = [stored[f"arr_{i}"] for i in range(len(job["bindings"]))]
        np.savez(folder / f"{number}.out.npz", *device.run(job, arrays))
        if "repeat" in job:
            (folder / f"{number}.seconds.json").write_text(json.dumps(device.seconds))


def main(arguments: Sequence[str]) -> int:
    try:
        if arguments[:1] == ["describe"]:
            print(json.dumps(Device().describe()))
        else:
            run_jobs(Path(arguments[1]))
    except (VulkanError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
