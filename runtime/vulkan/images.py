"""
Creates images and samplers on a device, and copies their texels from and to buffers.

The texels of an image are transferred like a buffer's bytes. They are copied into the image before
the steps, and back after the steps. A texel buffer is the buffer itself. Images stay in the layout
GENERAL.
"""

from __future__ import annotations

from array import array as words_of
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from xdsl_spirv.images import ADDRESS_MODES, BORDERS, COMPARES, Image, Sampler
from xdsl_spirv.runtime.vulkan.enums import (
    Access,
    DescriptorType,
    ImageLayout,
    ImageUsage,
    MemoryProperty,
    PipelineStage,
)
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.memory import Buffers, allocate, memory_type
from xdsl_spirv.runtime.vulkan.structures import (
    BufferImageCopy,
    BufferViewCreateInfo,
    DescriptorImageInfo,
    Extent3D,
    ImageCreateInfo,
    ImageMemoryBarrier,
    ImageSubresourceLayers,
    ImageSubresourceRange,
    ImageViewCreateInfo,
    MemoryRequirements,
    SamplerCreateInfo,
    WriteDescriptorSet,
)
from xdsl_spirv.runtime.vulkan.work import Bound, Work

COLOR = 1
"""Aspect flag of an image that is neither depth nor stencil."""
CUBE_COMPATIBLE = 16
WHOLE_SIZE = 0xFFFF_FFFF_FFFF_FFFF
IGNORED_FAMILY = 0xFFFF_FFFF
DIMENSIONS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 1}
"""VkImageViewType of a view of one layer, by SPIR-V's Dim."""
ARRAYS = {0: 4, 1: 5, 3: 6, 4: 5}
BUFFER_DIMENSION = 5


@dataclass(frozen=True)
class Interface:
    """The image or sampler binding of a kernel: its descriptor type, and the type of the view."""

    kind: DescriptorType
    view: int = 0


def interfaces(spirv: bytes) -> dict[tuple[int, int], Interface]:
    """Returns the images and samplers that a kernel binds, by (set, binding)."""
    types: dict[int, Interface] = {}
    places: dict[int, dict[int, int]] = {}
    variables: dict[int, int] = {}
    for opcode, words in instructions(spirv):
        match opcode:
            case 25:  # OpTypeImage
                dimension, arrayed, sampled = words[2], words[4], words[6]
                table = ARRAYS if arrayed else DIMENSIONS
                if dimension == BUFFER_DIMENSION:
                    texels = (DescriptorType.UNIFORM_TEXEL_BUFFER,
                              DescriptorType.STORAGE_TEXEL_BUFFER)  # fmt: skip
                    types[words[0]] = Interface(texels[sampled == 2])
                elif dimension in table:
                    kinds = (DescriptorType.SAMPLED_IMAGE, DescriptorType.STORAGE_IMAGE)
                    types[words[0]] = Interface(kinds[sampled == 2], table[dimension])
            case 26:  # OpTypeSampler
                types[words[0]] = Interface(DescriptorType.SAMPLER)
            case 27 if words[1] in types:  # OpTypeSampledImage
                of = types[words[1]]
                combined = of.kind is DescriptorType.SAMPLED_IMAGE
                kind = DescriptorType.COMBINED_IMAGE_SAMPLER if combined else of.kind
                types[words[0]] = Interface(kind, of.view)
            case 28 | 29 if words[1] in types:  # OpTypeArray, OpTypeRuntimeArray
                types[words[0]] = types[words[1]]
            case 32 if words[2] in types:  # OpTypePointer
                types[words[0]] = types[words[2]]
            case 59:  # OpVariable
                variables[words[1]] = words[0]
            case 71 if words[1] in (33, 34):  # OpDecorate: Binding, DescriptorSet
                places.setdefault(words[0], {})[words[1]] = words[2]
            case _:
                pass
    return {
        (place.get(34, 0), place.get(33, 0)): types[type]
        for id, place in places.items()
        if (type := variables.get(id, 0)) in types
    }


def instructions(spirv: bytes) -> Iterator[tuple[int, list[int]]]:
    """Yields (opcode, further words) for the instructions of a binary in native byte order."""
    words = words_of("I", spirv[: len(spirv) // 4 * 4])
    at = 5
    while at < len(words) and words[at] >> 16:
        yield words[at] & 0xFFFF, list(words[at + 1 : at + (words[at] >> 16)])
        at += words[at] >> 16


class Images:
    """The images, views and samplers of some steps. `close` frees them."""

    def __init__(self, device: LogicalDevice, buffers: Buffers, work: Work):
        self.device, self.buffers = device, buffers
        self.usage: dict[tuple[str | None, object], int] = {}
        for step in work.steps:
            known = interfaces(work.kernels[step.kernel]) if step.images else {}
            for bound in step.images:
                stored = known[bound.set, bound.binding].kind is DescriptorType.STORAGE_IMAGE
                usage = ImageUsage.STORAGE if stored else ImageUsage.SAMPLED
                key = bound.buffer, bound.resource
                self.usage[key] = self.usage.get(key, 0) | usage
        self.images: dict[tuple[str, Image], int] = {}
        self._memory: list[int] = []
        self._views: dict[tuple[object, ...], tuple[str, int]] = {}

    def write_of(self, bound: Bound, interface: Interface, set: int) -> WriteDescriptorSet:
        """Returns the VkWriteDescriptorSet that binds an image or sampler."""
        write = partial(
            WriteDescriptorSet,
            dstSet=set,
            dstBinding=bound.binding,
            dstArrayElement=bound.number,
            descriptorCount=1,
            descriptorType=interface.kind,
        )
        resource, kind = bound.resource, interface.kind
        if kind in (DescriptorType.UNIFORM_TEXEL_BUFFER, DescriptorType.STORAGE_TEXEL_BUFFER):
            return write(pTexelBufferView=[self._texel_view(bound)])
        info = DescriptorImageInfo(imageLayout=ImageLayout.GENERAL)
        sampler = resource if isinstance(resource, Sampler) else resource.sampler
        if kind in (DescriptorType.SAMPLER, DescriptorType.COMBINED_IMAGE_SAMPLER):
            if sampler is None:
                raise VulkanError(
                    f"binding {bound.binding} needs a sampler, but has none", "", "give a Sampler"
                )
            info.sampler = self._sampler(sampler)
        if isinstance(resource, Image):
            info.imageView = self._view(bound, resource, interface)
        elif kind is not DescriptorType.SAMPLER:
            raise VulkanError(
                f"binding {bound.binding} is an image without a description",
                "",
                "describe the image by its format and size",
            )
        return write(pImageInfo=info)

    def _make(self, key: tuple[object, ...], kind: str, create: object) -> int:
        if key not in self._views:
            self._views[key] = kind, self.device.made(kind, create)  # pyright: ignore
        return self._views[key][1]

    def _texel_view(self, bound: Bound) -> int:
        assert isinstance(bound.resource, Image)
        create = BufferViewCreateInfo(
            buffer=self.buffers.handles[bound.buffer or ""],
            format=bound.resource.texel.number,
            range=bound.resource.nbytes,
        )
        return self._make((bound.buffer, bound.resource), "BufferView", create)

    def _sampler(self, sampler: Sampler) -> int:
        filters = {"nearest": 0, "linear": 1}
        if "mirror_clamp_to_edge" in sampler.address:
            raise VulkanError(
                "samplerMirrorClampToEdge is not supported on devices", "", "run on the interpreter"
            )
        modes = [ADDRESS_MODES.index(mode) for mode in sampler.address]
        create = SamplerCreateInfo(
            magFilter=filters[sampler.mag],
            minFilter=filters[sampler.min],
            mipmapMode=filters[sampler.mipmap],
            addressModeU=modes[0],
            addressModeV=modes[1],
            addressModeW=modes[2],
            mipLodBias=sampler.lod_bias,
            compareEnable=sampler.compare is not None,
            compareOp=COMPARES.index(sampler.compare or "never"),
            minLod=sampler.min_lod,
            maxLod=sampler.max_lod,
            # Vulkan's float border colors have even values. Integer formats use them, too.
            borderColor=2 * list(BORDERS).index(sampler.border),
            unnormalizedCoordinates=sampler.unnormalized,
        )
        return self._make((sampler,), "Sampler", create)

    def _view(self, bound: Bound, image: Image, interface: Interface) -> int:
        handle = self._image(bound.buffer or "", image)
        create = ImageViewCreateInfo(
            image=handle,
            viewType=interface.view,
            format=image.texel.number,
            subresourceRange=_range_of(image),
        )
        return self._make((bound.buffer, image, interface.view), "ImageView", create)

    def _image(self, buffer: str, image: Image) -> int:
        if (buffer, image) in self.images:
            return self.images[buffer, image]
        if image.samples > 1:
            raise VulkanError(
                "a multisampled image's texels cannot be copied to a device",
                "",
                "run on the interpreter",
            )
        cube = len(image.size) == 2 and image.layers % 6 == 0 and image.size[0] == image.size[1]
        usage = ImageUsage.TRANSFER_SRC | ImageUsage.TRANSFER_DST
        create = ImageCreateInfo(
            flags=CUBE_COMPATIBLE if cube else 0,
            imageType=len(image.size) - 1,
            format=image.texel.number,
            extent=_extent(image, 0),
            mipLevels=image.levels,
            arrayLayers=image.layers,
            samples=1,
            usage=usage | self.usage[buffer, image],
        )
        device = self.device
        handle = self.images[buffer, image] = device.made("Image", create)
        needs = MemoryRequirements()
        device.call("vkGetImageMemoryRequirements", device.handle, handle, pointer(needs))
        kind = memory_type(device, needs.memoryTypeBits, MemoryProperty.DEVICE_LOCAL)
        self._memory.append(allocate(device, needs.size, kind))
        device.call("vkBindImageMemory", device.handle, handle, self._memory[-1], 0)
        return handle

    def record(self, commands: int, out: bool) -> None:
        """
        Records copies of texels from the buffers to all images, or from the images to the buffers
        if `out` is True.
        """
        transfer, compute = PipelineStage.TRANSFER, PipelineStage.COMPUTE_SHADER
        stages = (compute | transfer, transfer)
        for (buffer, image), handle in self.images.items():
            self._barrier(commands, handle, image, stages, fresh=not out)
            regions = array(BufferImageCopy, _regions(image))
            name = self.buffers.handles[buffer]
            command, first, second = (
                ("vkCmdCopyImageToBuffer", (handle, ImageLayout.GENERAL), (name,))
                if out
                else ("vkCmdCopyBufferToImage", (name,), (handle, ImageLayout.GENERAL))
            )
            self.device.call(command, commands, *first, *second, len(regions), pointer(regions))
            self._barrier(commands, handle, image, (transfer, compute | transfer))

    def _barrier(
        self, commands: int, handle: int, image: Image, stages: tuple[int, int], fresh: bool = False
    ) -> None:
        every = Access.MEMORY_READ | Access.MEMORY_WRITE
        barrier = ImageMemoryBarrier(
            srcAccessMask=every,
            dstAccessMask=every,
            oldLayout=ImageLayout.UNDEFINED if fresh else ImageLayout.GENERAL,
            newLayout=ImageLayout.GENERAL,
            srcQueueFamilyIndex=IGNORED_FAMILY,
            dstQueueFamilyIndex=IGNORED_FAMILY,
            image=handle,
            subresourceRange=_range_of(image),
        )
        self.device.call(
            "vkCmdPipelineBarrier",
            *(commands, *stages, 0, 0, None, 0, None, 1, pointer(barrier)),
        )

    def close(self) -> None:
        for kind, handle in self._views.values():
            self.device.destroy(kind, handle)
        for handle in self.images.values():
            self.device.destroy("Image", handle)
        for memory in self._memory:
            self.device.free(memory)
        self._views.clear()
        self.images.clear()
        self._memory.clear()


def _range_of(image: Image) -> ImageSubresourceRange:
    return ImageSubresourceRange(aspectMask=COLOR, levelCount=image.levels, layerCount=image.layers)


def _extent(image: Image, level: int) -> Extent3D:
    width, height, depth = image.extent(level)
    return Extent3D(width=width, height=height, depth=depth)


def _regions(image: Image) -> Iterable[BufferImageCopy]:
    for level, start in enumerate(image.starts()[:-1]):
        yield BufferImageCopy(
            bufferOffset=start * image.texel.itemsize,
            imageSubresource=ImageSubresourceLayers(
                aspectMask=COLOR, mipLevel=level, layerCount=image.layers
            ),
            imageExtent=_extent(image, level),
        )
