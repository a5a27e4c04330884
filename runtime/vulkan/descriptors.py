"""Manages descriptor sets, which bind buffers and images to the steps of some work."""

from __future__ import annotations

import ctypes as c
from collections import Counter
from collections.abc import Iterator, Sequence

from xdsl_spirv.runtime.vulkan.enums import DescriptorType
from xdsl_spirv.runtime.vulkan.images import WHOLE_SIZE, Images, interfaces
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.memory import Buffers
from xdsl_spirv.runtime.vulkan.pipelines import Pipeline, interface_of
from xdsl_spirv.runtime.vulkan.structures import (
    DescriptorBufferInfo,
    DescriptorPoolCreateInfo,
    DescriptorPoolSize,
    DescriptorSetAllocateInfo,
    WriteDescriptorSet,
)
from xdsl_spirv.runtime.vulkan.work import Step, Work


class Descriptors:
    """A pool of descriptor sets. `sets` are the sets of each step."""

    def __init__(
        self,
        device: LogicalDevice,
        work: Work,
        pipelines: Sequence[Pipeline],
        buffers: Buffers,
        images: Images | None,
    ):
        self.device, self.work, self.buffers, self.images = device, work, buffers, images
        self.pool = self._make_pool(sum(len(pipeline.sets) for pipeline in pipelines))
        try:
            self.sets = [self._write(*one) for one in zip(work.steps, pipelines, strict=True)]
        except BaseException:
            self.close()
            raise

    def _make_pool(self, count: int) -> int:
        """Creates a pool for this many sets. Returns 0 if there are none."""
        if not count:
            return 0
        wanted = Counter[DescriptorType]({DescriptorType.STORAGE_BUFFER: 1})
        for step in self.work.steps:
            for slots in interface_of(step, self.work.kernels[step.kernel]):
                for _, kind, number in slots:
                    wanted[kind] += number
        sizes = [DescriptorPoolSize(type=kind, descriptorCount=n) for kind, n in wanted.items()]
        create = DescriptorPoolCreateInfo(maxSets=count, pPoolSizes=sizes)
        return self.device.made("DescriptorPool", create)

    def _write(self, step: Step, pipeline: Pipeline) -> list[int]:
        if not pipeline.sets:
            return []
        device = self.device
        handles = (c.c_uint64 * len(pipeline.sets))()
        allocate = DescriptorSetAllocateInfo(descriptorPool=self.pool, pSetLayouts=pipeline.sets)
        device.call("vkAllocateDescriptorSets", device.handle, pointer(allocate), pointer(handles))
        bound = [(*place, DescriptorType.STORAGE_BUFFER) for place in step.bindings]
        if step.numbers is not None:
            bound.append((*step.numbers, DescriptorType.UNIFORM_BUFFER))
        records = [*self._image_writes(step, list(handles))]
        records += [
            WriteDescriptorSet(
                dstSet=handles[number],
                dstBinding=binding,
                descriptorCount=1,
                descriptorType=kind,
                pBufferInfo=DescriptorBufferInfo(
                    buffer=self.buffers.handles[name], range=WHOLE_SIZE
                ),
            )
            for number, binding, name, kind in bound
        ]
        writes = array(WriteDescriptorSet, records)
        device.call("vkUpdateDescriptorSets", device.handle, len(writes), pointer(writes), 0, None)
        return list(handles)

    def _image_writes(self, step: Step, sets: Sequence[int]) -> Iterator[WriteDescriptorSet]:
        known = interfaces(self.work.kernels[step.kernel]) if step.images else {}
        for bound in step.images:
            assert self.images is not None
            place = known[bound.set, bound.binding]
            yield self.images.write_of(bound, place, sets[bound.set])

    def close(self) -> None:
        """Destroys the pool together with its sets."""
        self.device.destroy("DescriptorPool", self.pool)
        self.pool = 0
