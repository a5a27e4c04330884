"""
Runs graphs of TOSA operators (SPV_ARM_graph) on devices with VK_ARM_data_graph and VK_ARM_tensors.

Tensors are in memory that the host can write and read. Arm's emulation layers add both extensions
to any device. If their package is installed, they are used for devices without the extensions.
"""

from __future__ import annotations

import ctypes as c
import math
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from xdsl_spirv.runtime.closing import Closing
from xdsl_spirv.runtime.needs import Feature
from xdsl_spirv.runtime.vulkan.enums import (
    Access,
    DescriptorType,
    MemoryProperty,
    PipelineBindPoint,
    PipelineStage,
    ShaderStage,
    ToolPurpose,
)
from xdsl_spirv.runtime.vulkan.errors import MisfitError
from xdsl_spirv.runtime.vulkan.features import Enabling
from xdsl_spirv.runtime.vulkan.instance import Instance
from xdsl_spirv.runtime.vulkan.layout import Chained, array, pointer
from xdsl_spirv.runtime.vulkan.loader import version_of
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.memory import STAGING, allocate, memory_type
from xdsl_spirv.runtime.vulkan.physical import DeviceInfo, PhysicalDevice
from xdsl_spirv.runtime.vulkan.structures import (
    BindDataGraphPipelineSessionMemoryInfoARM,
    BindTensorMemoryInfoARM,
    DataGraphPipelineConstantARM,
    DataGraphPipelineCreateInfoARM,
    DataGraphPipelineResourceInfoARM,
    DataGraphPipelineSessionBindPointRequirementARM,
    DataGraphPipelineSessionBindPointRequirementsInfoARM,
    DataGraphPipelineSessionCreateInfoARM,
    DataGraphPipelineSessionMemoryRequirementsInfoARM,
    DataGraphPipelineShaderModuleCreateInfoARM,
    DescriptorPoolCreateInfo,
    DescriptorPoolSize,
    DescriptorSetAllocateInfo,
    DescriptorSetLayoutBinding,
    DescriptorSetLayoutCreateInfo,
    MemoryBarrier,
    MemoryRequirements2,
    PhysicalDeviceToolProperties,
    PipelineLayoutCreateInfo,
    ShaderModuleCreateInfo,
    TensorCreateInfoARM,
    TensorDescriptionARM,
    TensorMemoryRequirementsInfoARM,
    TensorViewCreateInfoARM,
    WriteDescriptorSet,
    WriteDescriptorSetTensorARM,
)
from xdsl_spirv.runtime.vulkan.work import TENSOR_FORMATS, GraphWork, Tensor

EXTENSIONS = ("VK_ARM_tensors", "VK_ARM_data_graph")
LAYERS = ("VK_LAYER_ML_Graph_Emulation", "VK_LAYER_ML_Tensor_Emulation")

KNOWN_SINCE = (1, 4, 319)
"""First version of the Vulkan headers with VK_ARM_data_graph."""

_TENSORS, _GRAPHS = (
    "VkPhysicalDeviceTensorFeaturesARM",
    "VkPhysicalDeviceDataGraphFeaturesARM",
)
FEATURES = (
    Feature(_TENSORS, "tensors"),
    Feature(_TENSORS, "shaderTensorAccess"),
    Feature(_GRAPHS, "dataGraph"),
    Feature(_GRAPHS, "dataGraphShaderModule"),
)
LINEAR, DATA_GRAPH = 1, 0x20
"""VK_TENSOR_TILING_LINEAR_ARM and VK_TENSOR_USAGE_DATA_GRAPH_BIT_ARM."""


def executes_graphs(info: DeviceInfo) -> bool:
    """True if a device has the extensions for graphs."""
    return info.offer.extensions.issuperset(EXTENSIONS)


@contextmanager
def emulation() -> Generator[None]:
    """
    Lets the Vulkan loader find Arm's emulation layers inside the `with` block, if their package is
    installed.
    """
    package = find_spec("emulation_layer")
    if package is None or package.origin is None:
        yield
        return
    deploy = Path(package.origin).parent / "deploy"
    for library in sorted((deploy / "lib").glob("libVkLayer_*.so")):
        # The layers' manifests have no folder, but a loaded library is found by its name.
        c.CDLL(str(library), c.RTLD_LOCAL)
    own = str(deploy / "share" / "vulkan" / "explicit_layer.d")
    # The loader ignores the second variable if the first one is set.
    variable = "VK_LAYER_PATH" if "VK_LAYER_PATH" in os.environ else "VK_ADD_LAYER_PATH"
    before = os.environ.get(variable)
    os.environ[variable] = os.pathsep.join(filter(None, (before, own)))
    try:
        yield
    finally:
        os.environ.pop(variable)
        if before is not None:
            os.environ[variable] = before


def refuse_old_validation(instance: Instance, physical: PhysicalDevice) -> None:
    """Raises `MisfitError` if an enabled validation layer is too old for graphs and would crash."""
    versions = {layer.layerName: layer.specVersion for layer in instance.found_layers()}
    for tool in instance.commands.all(
        "vkGetPhysicalDeviceToolProperties", PhysicalDeviceToolProperties, physical.handle
    ):
        version = version_of(versions.get(tool.layer, 0))
        if tool.purposes & ToolPurpose.VALIDATION and version < KNOWN_SINCE:
            raise MisfitError(
                f"{tool.layer.decode()} {'.'.join(map(str, version))} does not support graphs "
                "and would crash",
                f"vulkan:{physical.info.index}",
                f"disable the layer, or use version {'.'.join(map(str, KNOWN_SINCE))} or "
                "later; `xdsl-spirv validate` checks graphs",
            )


def enabling_of_graphs(info: DeviceInfo) -> Enabling:
    """Returns the features that graphs need. Raises `MisfitError` if the device lacks one."""
    enabling = Enabling()
    missing = [str(f) for f in FEATURES if not info.offer.want(f, enabling)]
    if missing:
        raise MisfitError(
            f"{info.name} cannot execute graphs: it lacks {', '.join(missing)}",
            f"vulkan:{info.index}",
            "run the graph on the interpreter, or install Arm's emulation layer "
            "(pip install 'xdsl-spirv[graphs]')",
        )
    enabling.extensions |= {
        name
        for name in ("VK_ARM_data_graph_instruction_set_tosa", "VK_KHR_deferred_host_operations")
        if name in info.offer.extensions
    }
    return enabling


def describe(tensor: Tensor) -> TensorDescriptionARM:
    """Returns the Vulkan structure that describes a tensor's type, sizes and layout."""
    return TensorDescriptionARM(
        tiling=LINEAR,
        format=TENSOR_FORMATS[tensor.element],
        pDimensions=array(c.c_int64, tensor.extents),
        usage=DATA_GRAPH,
    )


class LoadedGraph(Closing):
    """A graph loaded on a device. `close` frees its resources."""

    def __init__(self, device: LogicalDevice, work: GraphWork):
        self.device, self.work = device, work
        self.made: list[tuple[str, int]] = []
        self.memory: list[int] = []
        self.addresses: dict[str, int] = {}
        self.commands = 0
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def _make(self, kind: str, create: Chained) -> int:
        handle = self.device.made(kind, create)
        self.made.append((kind, handle))
        return handle

    def _load(self) -> None:
        tensors = {**self.work.inputs, **self.work.outputs}
        views = [(tensor, self._tensor(name, tensor)) for name, tensor in tensors.items()]
        layouts = [
            self._set_layout([t for t, _ in views if t.set == number])
            for number in range(max(t.set for t, _ in views) + 1)
        ]
        layout = self._make("PipelineLayout", PipelineLayoutCreateInfo(pSetLayouts=layouts))
        pipeline = self._pipeline(layout, [t for t, _ in views])
        session = self._session(pipeline)
        sets = self._descriptors(layouts, views)
        self._record(pipeline, layout, session, sets)

    def _allocate(self, needs: MemoryRequirements2, preferred: int, required: int) -> int:
        device, wanted = self.device, needs.memoryRequirements
        kind = memory_type(device, wanted.memoryTypeBits, preferred, required)
        memory = allocate(device, wanted.size, kind)
        self.memory.append(memory)
        return memory

    def _tensor(self, name: str, tensor: Tensor) -> int:
        """Creates a view of a new tensor, whose memory the host can access."""
        device = self.device
        handle = self._make("TensorARM", TensorCreateInfoARM(pDescription=describe(tensor)))
        needs = MemoryRequirements2()
        query = TensorMemoryRequirementsInfoARM(tensor=handle)
        device.call(
            "vkGetTensorMemoryRequirementsARM", device.handle, pointer(query), pointer(needs)
        )
        memory = self._allocate(needs, MemoryProperty.HOST_CACHED, STAGING)
        bind = BindTensorMemoryInfoARM(tensor=handle, memory=memory)
        device.call("vkBindTensorMemoryARM", device.handle, 1, pointer(bind))
        address = c.c_void_p()
        size = needs.memoryRequirements.size
        device.call("vkMapMemory", device.handle, memory, 0, size, 0, pointer(address))
        assert address.value is not None
        self.addresses[name] = address.value
        create = TensorViewCreateInfoARM(tensor=handle, format=TENSOR_FORMATS[tensor.element])
        return self._make("TensorViewARM", create)

    def _set_layout(self, tensors: Iterable[Tensor]) -> int:
        bindings = [
            DescriptorSetLayoutBinding(
                binding=tensor.binding,
                descriptorType=DescriptorType.TENSOR_ARM,
                descriptorCount=1,
                stageFlags=ShaderStage.ALL,
            )
            for tensor in tensors
        ]
        create = DescriptorSetLayoutCreateInfo(pBindings=bindings)
        return self._make("DescriptorSetLayout", create)

    def _pipeline(self, layout: int, tensors: list[Tensor]) -> int:
        device, work = self.device, self.work
        shader = self._make("ShaderModule", ShaderModuleCreateInfo(pCode=work.code))
        constants = [
            DataGraphPipelineConstantARM(pNext=describe(tensor), id=number, pConstantData=data)
            for number, (tensor, data) in work.constants.items()
        ]
        resources = [
            DataGraphPipelineResourceInfoARM(
                pNext=describe(tensor), descriptorSet=tensor.set, binding=tensor.binding
            )
            for tensor in tensors
        ]
        stage = DataGraphPipelineShaderModuleCreateInfoARM(
            module=shader, pName=work.entry_point.encode(), pConstants=constants
        )
        create = DataGraphPipelineCreateInfoARM(
            pNext=stage, layout=layout, pResourceInfos=resources
        )
        handle = c.c_uint64()
        device.call(
            "vkCreateDataGraphPipelinesARM",
            *(device.handle, 0, 0, 1, pointer(create), None, pointer(handle)),
        )
        self.made.append(("Pipeline", handle.value))
        device.objects["Pipeline"] += 1
        return handle.value

    def _session(self, pipeline: int) -> int:
        """Creates a session of the pipeline, with the memory that the session requires."""
        device = self.device
        session = self._make(
            "DataGraphPipelineSessionARM",
            DataGraphPipelineSessionCreateInfoARM(dataGraphPipeline=pipeline),
        )
        query = DataGraphPipelineSessionBindPointRequirementsInfoARM(session=session)
        points: list[DataGraphPipelineSessionBindPointRequirementARM] = device.call.all(
            "vkGetDataGraphPipelineSessionBindPointRequirementsARM",
            *(DataGraphPipelineSessionBindPointRequirementARM, device.handle, pointer(query)),
        )
        for point in points:
            for index in range(point.numObjects):
                which = DataGraphPipelineSessionMemoryRequirementsInfoARM(
                    session=session, bindPoint=point.bindPoint, objectIndex=index
                )
                needs = MemoryRequirements2()
                device.call(
                    "vkGetDataGraphPipelineSessionMemoryRequirementsARM",
                    *(device.handle, pointer(which), pointer(needs)),
                )
                if not needs.memoryRequirements.size:
                    continue
                bind = BindDataGraphPipelineSessionMemoryInfoARM(
                    session=session,
                    bindPoint=point.bindPoint,
                    objectIndex=index,
                    memory=self._allocate(needs, MemoryProperty.DEVICE_LOCAL, 0),
                )
                device.call(
                    "vkBindDataGraphPipelineSessionMemoryARM", device.handle, 1, pointer(bind)
                )
        return session

    def _descriptors(
        self, layouts: list[int], views: list[tuple[Tensor, int]]
    ) -> c.Array[c.c_uint64]:
        device = self.device
        size = DescriptorPoolSize(type=DescriptorType.TENSOR_ARM, descriptorCount=len(views))
        create = DescriptorPoolCreateInfo(maxSets=len(layouts), pPoolSizes=size)
        pool = self._make("DescriptorPool", create)
        allocate = DescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=layouts)
        sets = (c.c_uint64 * len(layouts))()
        device.call("vkAllocateDescriptorSets", device.handle, pointer(allocate), pointer(sets))
        records = [
            WriteDescriptorSet(
                pNext=WriteDescriptorSetTensorARM(pTensorViews=[view]),
                dstSet=sets[tensor.set],
                dstBinding=tensor.binding,
                descriptorCount=1,
                descriptorType=DescriptorType.TENSOR_ARM,
            )
            for tensor, view in views
        ]
        writes = array(WriteDescriptorSet, records)
        device.call("vkUpdateDescriptorSets", device.handle, len(writes), pointer(writes), 0, None)
        return sets

    def _record(self, pipeline: int, layout: int, session: int, sets: c.Array[c.c_uint64]) -> None:
        device = self.device
        commands = self.commands = device.command_buffer()
        device.begin(commands)
        point = PipelineBindPoint.DATA_GRAPH_ARM
        device.call("vkCmdBindPipeline", commands, point, pipeline)
        device.call(
            "vkCmdBindDescriptorSets",
            *(commands, point, layout, 0, len(sets), pointer(sets), 0, None),
        )
        device.call("vkCmdDispatchDataGraphARM", commands, session, None)
        barrier = MemoryBarrier(srcAccessMask=Access.MEMORY_WRITE, dstAccessMask=Access.HOST_READ)
        device.call(
            "vkCmdPipelineBarrier",
            *(commands, PipelineStage.ALL_COMMANDS, PipelineStage.HOST),
            *(0, 1, pointer(barrier), 0, None, 0, None),
        )
        device.call("vkEndCommandBuffer", commands)

    def run(self, inputs: Mapping[str, bytes], timeout: float) -> dict[str, bytearray]:
        """Runs the graph on the bytes of the inputs. Returns the bytes of the outputs."""
        for name, data in inputs.items():
            c.memmove(self.addresses[name], data, len(data))
        self.device.submit([self.commands], timeout)
        return {
            name: bytearray(c.string_at(self.addresses[name], size_of(tensor)))
            for name, tensor in self.work.outputs.items()
        }

    def close(self) -> None:
        """Frees all resources. Does nothing if called again."""
        self.device.free_command_buffers([self.commands])
        self.commands = 0
        for kind, handle in reversed(self.made):
            self.device.destroy(kind, handle)
        for memory in self.memory:
            self.device.free(memory)
        self.made.clear()
        self.memory.clear()


def size_of(tensor: Tensor) -> int:
    """Returns the size of a packed tensor in bytes."""
    return math.prod(tensor.extents) * np.dtype(tensor.element).itemsize
