"""Creates compute pipelines, one for each combination of kernel, constants and subgroup size."""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

from xdsl_spirv.runtime.vulkan.enums import (
    DescriptorType,
    PipelineCreate,
    PipelineExecutableStatisticFormat,
    PipelineShaderStageCreate,
    ShaderStage,
)
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.images import interfaces
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.structures import (
    ComputePipelineCreateInfo,
    DescriptorSetLayoutBinding,
    DescriptorSetLayoutCreateInfo,
    PipelineExecutableInfoKHR,
    PipelineExecutableInternalRepresentationKHR,
    PipelineExecutablePropertiesKHR,
    PipelineExecutableStatisticKHR,
    PipelineInfoKHR,
    PipelineLayoutCreateInfo,
    PipelineShaderStageCreateInfo,
    PipelineShaderStageRequiredSubgroupSizeCreateInfo,
    PushConstantRange,
    ShaderModuleCreateInfo,
    SpecializationInfo,
    SpecializationMapEntry,
)
from xdsl_spirv.runtime.vulkan.work import Step

STATISTICS = "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR"


MOST_THREADS = 8


@dataclass(frozen=True)
class Pipeline:
    """A pipeline, its layout, and the layouts of its descriptor sets (0, 1, ... in order)."""

    handle: int
    layout: int
    sets: tuple[int, ...]


class Pipelines:
    """The pipelines of some steps on a device. `close` destroys them."""

    def __init__(
        self,
        device: LogicalDevice,
        subgroup_size: int | None,
        full_subgroups: Collection[tuple[str, str]] = (),
        statistics: bool = False,
        texts: bool = False,
    ):
        """
        Prepares to create pipelines.

        `full_subgroups` are the (kernel, entry point) pairs whose workgroups consist of full
        subgroups. With `texts`, the driver stores its intermediate code of kernels, in addition to
        statistics.
        """
        self.device = device
        self.subgroup_size = subgroup_size
        self.full_subgroups = full_subgroups
        on = {feature.structure for feature in device.features}
        self.statistics = statistics and STATISTICS in on
        self.texts = texts and STATISTICS in on
        self._modules: dict[str, int] = {}
        self._sets: dict[tuple[Slot, ...], int] = {}
        self._layouts: dict[tuple[tuple[int, ...], int], int] = {}
        self._made: dict[object, Pipeline] = {}

    def of(self, steps: Sequence[Step], kernels: Mapping[str, bytes]) -> list[Pipeline]:
        """
        Returns the pipeline of each step's kernel, constants and interface.

        Drivers compile a kernel for tens of milliseconds, so several threads compile.
        """
        shapes = [interface_of(step, kernels[step.kernel]) for step in steps]
        keys = [
            (s.kernel, s.entry_point, s.constants, shape, len(s.push))
            for s, shape in zip(steps, shapes, strict=True)
        ]
        wanted = {key: step for key, step in zip(keys, steps, strict=True) if key not in self._made}
        missing: list[tuple[object, Step, int, Pipeline]] = []
        for key, step in wanted.items():
            sets = tuple(self._set_layout(descriptors) for descriptors in key[3])
            layout = self._layout(sets, len(step.push))
            module = self._module(step.kernel, kernels[step.kernel])
            missing.append((key, step, module, Pipeline(0, layout, sets)))

        def compile(row: tuple[object, Step, int, Pipeline]) -> None:
            key, step, module, pipeline = row
            handle = self._pipeline(step, module, pipeline.layout)
            self._made[key] = replace(pipeline, handle=handle)

        try:
            with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
                list(pool.map(compile, missing))
        finally:
            # If a compilation fails, `close` destroys the pipelines that were already created.
            self.device.objects["Pipeline"] += sum(key in self._made for key, *_ in missing)
        return [self._made[key] for key in keys]

    def _module(self, name: str, spirv: bytes) -> int:
        if name not in self._modules:
            create = ShaderModuleCreateInfo(pCode=spirv)
            self._modules[name] = self.device.made("ShaderModule", create)
        return self._modules[name]

    def _set_layout(self, bindings: tuple[Slot, ...]) -> int:
        if bindings not in self._sets:
            records = [
                DescriptorSetLayoutBinding(
                    binding=binding,
                    descriptorType=kind,
                    descriptorCount=count,
                    stageFlags=ShaderStage.COMPUTE,
                )
                for binding, kind, count in bindings
            ]
            create = DescriptorSetLayoutCreateInfo(pBindings=records)
            self._sets[bindings] = self.device.made("DescriptorSetLayout", create)
        return self._sets[bindings]

    def _layout(self, sets: tuple[int, ...], push: int) -> int:
        key = (sets, push)
        if key not in self._layouts:
            ranges = [PushConstantRange(stageFlags=ShaderStage.COMPUTE, size=push)] if push else []
            create = PipelineLayoutCreateInfo(pSetLayouts=sets, pPushConstantRanges=ranges)
            self._layouts[key] = self.device.made("PipelineLayout", create)
        return self._layouts[key]

    def _pipeline(self, step: Step, module: int, layout: int) -> int:
        data = b"".join(value for _, value in step.constants)
        entries: list[SpecializationMapEntry] = []
        offset = 0
        for id, value in step.constants:
            entries.append(SpecializationMapEntry(constantID=id, offset=offset, size=len(value)))
            offset += len(value)
        special = SpecializationInfo(pMapEntries=entries, pData=data) if entries else None
        stage = PipelineShaderStageCreateInfo(
            stage=ShaderStage.COMPUTE,
            module=module,
            pName=step.entry_point.encode(),
            pSpecializationInfo=special,
            pNext=PipelineShaderStageRequiredSubgroupSizeCreateInfo(
                requiredSubgroupSize=self.subgroup_size
            )
            if self.subgroup_size
            else None,
        )
        if (step.kernel, step.entry_point) in self.full_subgroups:
            stage.flags = PipelineShaderStageCreate.REQUIRE_FULL_SUBGROUPS
        create = ComputePipelineCreateInfo(stage=stage, layout=layout, basePipelineIndex=-1)
        if self.statistics:
            create.flags = PipelineCreate.CAPTURE_STATISTICS_BIT_KHR
        if self.texts:
            create.flags |= PipelineCreate.CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR
        handle = c.c_uint64()
        device = self.device
        try:
            device.call(
                "vkCreateComputePipelines",
                *(device.handle, device.cache, 1, pointer(create), None, pointer(handle)),
            )
        except VulkanError as error:
            error.place = f"kernel {step.kernel}.{step.entry_point}"
            raise
        return handle.value

    def executables(self, pipeline: Pipeline) -> list[dict[str, int | float | bool]]:
        """
        Returns the driver's statistics (registers, spills) for each program of a pipeline.

        The list is empty if the driver gives none, or if the pipelines were created without
        statistics.
        """
        if not self.statistics:
            return []
        device = self.device
        tables: list[dict[str, int | float | bool]] = []
        for which in self._programs(pipeline):
            rows: Sequence[PipelineExecutableStatisticKHR] = device.call.all(
                "vkGetPipelineExecutableStatisticsKHR",
                *(PipelineExecutableStatisticKHR, device.handle, pointer(which)),
            )
            tables.append({row.name.decode("utf-8", "replace"): _value(row) for row in rows})
        return tables

    def representations(self, pipeline: Pipeline) -> dict[str, str]:
        """Returns the texts that the driver stored for a pipeline's code, by the driver's names."""
        if not self.texts:
            return {}
        device, command = self.device, "vkGetPipelineExecutableInternalRepresentationsKHR"
        found: dict[str, str] = {}
        for which in self._programs(pipeline):
            rows: list[PipelineExecutableInternalRepresentationKHR] = device.call.all(
                command,
                *(PipelineExecutableInternalRepresentationKHR, device.handle, pointer(which)),
            )
            # Queries the same records again, with buffers for texts of the now known sizes.
            records = array(PipelineExecutableInternalRepresentationKHR, rows)
            room = [c.create_string_buffer(record.dataSize + 1) for record in records]
            for record, text in zip(records, room, strict=True):
                record.pData = pointer(text)
            count = c.c_uint32(len(rows))
            if rows:
                device.call(
                    command, device.handle, pointer(which), pointer(count), pointer(records)
                )
            for record, text in zip(records, room, strict=True):
                if record.isText:
                    name = record.name.decode("utf-8", "replace")
                    found[name] = text.value.decode("utf-8", "replace")
        return found

    def _programs(self, pipeline: Pipeline) -> list[PipelineExecutableInfoKHR]:
        info = PipelineInfoKHR(pipeline=pipeline.handle)
        programs = self.device.call.all(
            "vkGetPipelineExecutablePropertiesKHR",
            *(PipelineExecutablePropertiesKHR, self.device.handle, pointer(info)),
        )
        return [
            PipelineExecutableInfoKHR(pipeline=pipeline.handle, executableIndex=index)
            for index in range(len(programs))
        ]

    def close(self) -> None:
        for kind, handles in (
            ("Pipeline", [p.handle for p in self._made.values()]),
            ("PipelineLayout", list(self._layouts.values())),
            ("DescriptorSetLayout", list(self._sets.values())),
            ("ShaderModule", list(self._modules.values())),
        ):
            for handle in handles:
                self.device.destroy(kind, handle)
        for table in (self._made, self._layouts, self._sets, self._modules):
            table.clear()


Slot: TypeAlias = tuple[int, DescriptorType, int]
"""A binding of a set: (binding index, descriptor type, descriptor count)."""


def interface_of(step: Step, spirv: bytes) -> tuple[tuple[Slot, ...], ...]:
    """Returns the bindings of each descriptor set."""
    slots = {(s, b): (DescriptorType.STORAGE_BUFFER, 1) for s, b, _ in step.bindings}
    if step.numbers is not None:
        slots[step.numbers[:2]] = DescriptorType.UNIFORM_BUFFER, 1
    known = interfaces(spirv) if step.images else {}
    for bound in step.images:
        place = bound.set, bound.binding
        if place not in known:
            raise VulkanError(f"the kernel binds no image at {place}", "", "leave out the image")
        count = max(bound.number + 1, slots.get(place, (known[place].kind, 0))[1])
        slots[place] = known[place].kind, count
    last = max((s for s, _ in slots), default=-1)
    return tuple(
        tuple((b, *slots[s, b]) for s, b in sorted(slots) if s == number)
        for number in range(last + 1)
    )


def _value(row: PipelineExecutableStatisticKHR) -> int | float | bool:
    """Returns a statistic as a boolean, an integer or a float, depending on its format."""
    kind = PipelineExecutableStatisticFormat
    bits = row.value.to_bytes(8, "little")
    match row.format:
        case kind.BOOL32:
            return bool(row.value & 0xFFFFFFFF)
        case kind.INT64:
            return int.from_bytes(bits, "little", signed=True)
        case kind.FLOAT64:
            return c.c_double.from_buffer_copy(bits).value
        case _:
            return row.value
