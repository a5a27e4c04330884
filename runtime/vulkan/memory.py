"""
Allocates buffers in device memory, in a few large blocks that buffers share over time.

Drivers permit few allocations (4096 is common) and each is slow, so a program's buffers are in
shared blocks. The memory of a temporary is reused after its last reader. The recorder of the steps
adds a barrier between two buffers that overlap.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl_spirv.runtime.elements import Array
from xdsl_spirv.runtime.memory import EMPTY_BYTES
from xdsl_spirv.runtime.vulkan.enums import BufferUsage, MemoryAllocate, MemoryProperty, Result
from xdsl_spirv.runtime.vulkan.errors import OutOfMemoryError, VulkanError
from xdsl_spirv.runtime.vulkan.layout import pointer
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.structures import (
    BufferCreateInfo,
    BufferDeviceAddressInfo,
    MemoryAllocateFlagsInfo,
    MemoryAllocateInfo,
    MemoryRequirements,
)

LARGEST_BLOCK = 1 << 30
"""Maximum size of a block in bytes, except for a single larger buffer."""
ADDRESS_FEATURE = "bufferDeviceAddress"
STAGING = MemoryProperty.HOST_VISIBLE | MemoryProperty.HOST_COHERENT


def readable(size: float) -> str:
    """Formats bytes with a unit: `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


@dataclass(frozen=True)
class Item:
    """A request for memory. `life` is (first step, last step), or None for the whole time."""

    name: str
    size: int
    alignment: int
    life: tuple[int, int] | None = None

    def meets(self, other: Item) -> bool:
        if self.life is None or other.life is None:
            return True
        return self.life[0] <= other.life[1] and other.life[0] <= self.life[1]


@dataclass(frozen=True)
class Place:
    """The block and the offset of an item."""

    block: int
    offset: int
    size: int


def arrange(items: Iterable[Item], capacity: int) -> tuple[dict[str, Place], list[int]]:
    """
    Returns each item's place, and the sizes of the blocks that contain the items.

    Only a block with a single item may exceed `capacity`. Concurrently alive items never overlap.
    The largest are placed first, each at the lowest offset that is free during its lifetime.
    """
    places: dict[str, Place] = {}
    blocks: list[int] = []
    inside: list[list[tuple[Item, Place]]] = []
    shared: list[bool] = []
    """True for a block that contains items with a limited lifetime."""
    for item in sorted(items, key=lambda item: -item.size):
        for block, others in enumerate(inside):
            if item.life is None and not shared[block]:
                # All items in this block are permanent, so the free space is at its end.
                busy = [(0, blocks[block])]
            else:
                busy = sorted(
                    ((p.offset, p.offset + p.size) for other, p in others if item.meets(other))
                )
            offset = _gap(busy, item)
            if offset + item.size <= max(capacity, blocks[block]):
                break
        else:
            block, offset = len(blocks), 0
            blocks.append(0)
            inside.append([])
            shared.append(False)
        place = places[item.name] = Place(block, offset, item.size)
        inside[block].append((item, place))
        shared[block] |= item.life is not None
        blocks[block] = max(blocks[block], offset + item.size)
    return places, blocks


def _gap(busy: Sequence[tuple[int, int]], item: Item) -> int:
    """Returns the lowest aligned offset at which an item fits between the sorted ranges `busy`."""
    offset = 0
    for begin, end in busy:
        if offset + item.size <= begin:
            break
        offset = max(offset, -(-end // item.alignment) * item.alignment)
    return offset


class Buffers:
    """Storage buffers of a device by name, in shared blocks. `close` frees them."""

    def __init__(
        self,
        device: LogicalDevice,
        sizes: Mapping[str, int],
        lives: Mapping[str, tuple[int, int]],
        free: Sequence[int],
        texels: bool = False,
    ):
        """
        Allocates the buffers. `lives` are the (first, last) steps of temporaries, and `free` is the
        free memory of each heap in bytes. With `texels`, they may also be texel buffers.
        """
        self.device, self.texels = device, texels
        self.handles: dict[str, int] = {}
        self.places: dict[str, Place] = {}
        self.memory: list[int] = []
        self.addressable = any(f.member == ADDRESS_FEATURE for f in device.features)
        try:
            self._make(sizes, lives, free)
        except BaseException:
            self.close()
            raise

    def _make(
        self,
        sizes: Mapping[str, int],
        lives: Mapping[str, tuple[int, int]],
        free: Sequence[int],
    ) -> None:
        usage = BufferUsage.STORAGE_BUFFER | BufferUsage.TRANSFER_SRC | BufferUsage.TRANSFER_DST
        usage |= BufferUsage.UNIFORM_BUFFER
        if self.texels:
            usage |= BufferUsage.UNIFORM_TEXEL_BUFFER | BufferUsage.STORAGE_TEXEL_BUFFER
        if self.addressable:
            usage |= BufferUsage.SHADER_DEVICE_ADDRESS
        items: list[Item] = []
        kinds = 0xFFFFFFFF
        self._refuse_large(sizes)
        for name, size in sizes.items():
            create = BufferCreateInfo(size=-(-(size or EMPTY_BYTES) // 4) * 4, usage=usage)
            self.handles[name] = self.device.made("Buffer", create)
            needs = MemoryRequirements()
            handle = self.handles[name]
            self.device.call(
                "vkGetBufferMemoryRequirements", self.device.handle, handle, pointer(needs)
            )
            kinds &= needs.memoryTypeBits
            items.append(Item(name, needs.size, needs.alignment, lives.get(name)))
        capacity = min(LARGEST_BLOCK, self.device.info.max_allocation_bytes)
        self.places, blocks = arrange(items, capacity)
        kind = memory_type(self.device, kinds, MemoryProperty.DEVICE_LOCAL)
        heap = self.device.info.memory_types[kind].heap
        self._refuse_too_much(items, sum(blocks), free[heap], self.device.info.heaps[heap].size)
        for size in blocks:
            try:
                self.memory.append(allocate(self.device, size, kind, self.addressable))
            except OutOfMemoryError as error:
                raise self._too_much(items, sum(blocks), free[heap], error.result) from error
        for name, place in self.places.items():
            memory = self.memory[place.block]
            device = self.device
            device.call(
                "vkBindBufferMemory", device.handle, self.handles[name], memory, place.offset
            )

    def _refuse_large(self, sizes: Mapping[str, int]) -> None:
        info = self.device.info
        limit = min(info.storage_buffer_max_bytes, info.max_allocation_bytes)
        for name, size in sizes.items():
            if size > limit:
                raise VulkanError(
                    f"the buffer {name!r} has {readable(size)}, but {info.name} supports "
                    f"storage buffers of at most {readable(limit)}",
                    "",
                    "split the tensor, or run on another device",
                )

    def _refuse_too_much(self, items: list[Item], total: int, free: int, heap: int) -> None:
        if total > min(free, heap):
            raise self._too_much(items, total, free)

    def _too_much(
        self, items: list[Item], total: int, free: int, result: Result | None = None
    ) -> OutOfMemoryError:
        largest = max(items, key=lambda item: item.size)
        return OutOfMemoryError(
            f"the program needs {readable(total)} of device memory, but "
            f"{self.device.info.name} has {readable(free)} free; the largest of the program's "
            f"{len(items)} buffers is {largest.name!r} with {readable(largest.size)}",
            "",
            "end other programs that use the device, or use a smaller batch",
            result,
        )

    @property
    def allocated(self) -> int:
        """Total device memory of the buffers in bytes."""
        sizes: dict[int, int] = {}
        for place in self.places.values():
            sizes[place.block] = max(sizes.get(place.block, 0), place.offset + place.size)
        return sum(sizes.values())

    def address(self, name: str) -> int:
        """Returns a buffer's device address. Raises `VulkanError` if addresses are not enabled."""
        if not self.addressable:
            raise VulkanError(
                "the kernels declare no PhysicalStorageBufferAddresses",
                f"buffer {name!r}",
                "bind the buffer to a descriptor",
            )
        query = BufferDeviceAddressInfo(buffer=self.handles[name])
        return self.device.call("vkGetBufferDeviceAddress", self.device.handle, pointer(query))

    def overlapping(self, name: str) -> list[str]:
        """Returns the buffers that share bytes with the named one, including itself."""
        mine = self.places[name]
        names, blocks, begins, ends = self._table
        over = (blocks == mine.block) & (begins < mine.offset + mine.size) & (ends > mine.offset)
        return [names[number] for number in over.nonzero()[0]]

    @cached_property
    def _table(self) -> tuple[list[str], Array, Array, Array]:
        """
        Returns four columns with an entry for each buffer: its name, the number of the memory
        block that contains it, and its first and end byte in that block.
        """
        import numpy as np

        rows = [(p.block, p.offset, p.offset + p.size) for p in self.places.values()]
        blocks, begins, ends = np.array(rows, np.int64).reshape(-1, 3).T
        return list(self.places), blocks, begins, ends

    def close(self) -> None:
        for handle in self.handles.values():
            self.device.destroy("Buffer", handle)
        for memory in self.memory:
            self.device.free(memory)
        self.handles.clear()
        self.memory.clear()


class Staging:
    """A buffer of `size` bytes that the host can access at `address`."""

    def __init__(self, device: LogicalDevice, size: int):
        self.device, self.size = device, size
        self.memory = self.handle = 0
        try:
            usage = BufferUsage.TRANSFER_SRC | BufferUsage.TRANSFER_DST
            self.handle = device.made("Buffer", BufferCreateInfo(size=size, usage=usage))
            needs = MemoryRequirements()
            device.call("vkGetBufferMemoryRequirements", device.handle, self.handle, pointer(needs))
            kind = memory_type(device, needs.memoryTypeBits, MemoryProperty.HOST_CACHED, STAGING)
            self.memory = allocate(device, needs.size, kind)
            device.call("vkBindBufferMemory", device.handle, self.handle, self.memory, 0)
            address = c.c_void_p()
            device.call(
                "vkMapMemory", device.handle, self.memory, 0, needs.size, 0, pointer(address)
            )
            assert address.value is not None
            self.address = address.value
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        # Freeing mapped memory also unmaps it.
        self.device.destroy("Buffer", self.handle)
        self.device.free(self.memory)
        self.handle = self.memory = 0


@dataclass(frozen=True)
class Copy:
    """A copy of `size` bytes between `offset` of a buffer and `staged` of the staging buffer."""

    name: str
    offset: int
    staged: int
    size: int


def pack(sizes: Iterable[tuple[str, int]], at: int = 0) -> tuple[list[Copy], int]:
    """
    Returns copies between whole buffers and the staging buffer, and the end of the last one.

    `sizes` has the name and size of each buffer. The copies lie one after another in the staging
    buffer, from byte `at` on.
    """
    copies: list[Copy] = []
    for name, size in sizes:
        if size:
            copies.append(Copy(name, 0, at, size))
        at += -(-size // 16) * 16
    return copies, at


def to_staging(staging: Staging, copy: Copy, view: memoryview) -> None:
    """Copies from a caller's buffer to the staging buffer."""
    staged(staging, copy)[:] = view[copy.offset : copy.offset + copy.size]


def from_staging(staging: Staging, copy: Copy, view: memoryview) -> None:
    """Copies from the staging buffer to a caller's buffer."""
    view[copy.offset : copy.offset + copy.size] = staged(staging, copy)


def staged(staging: Staging, copy: Copy) -> memoryview:
    """Returns the range of the staging buffer that a copy uses."""
    host = (c.c_char * copy.size).from_address(staging.address + copy.staged)
    return memoryview(host).cast("B")


def memory_type(device: LogicalDevice, allowed: int, preferred: int, required: int = 0) -> int:
    """Returns a memory type with all required properties, and the preferred ones if possible."""
    types = device.info.memory_types
    for wanted in (preferred | required, required):
        for index, kind in enumerate(types):
            if allowed >> index & 1 and kind.flags & wanted == wanted:
                return index
    raise VulkanError(
        "the device has no memory type for a buffer", device.info.name, "update the driver"
    )


def allocate(device: LogicalDevice, size: int, kind: int, addressable: bool = False) -> int:
    flags = MemoryAllocateFlagsInfo(flags=MemoryAllocate.DEVICE_ADDRESS)
    return device.allocate(
        MemoryAllocateInfo(
            allocationSize=size, memoryTypeIndex=kind, pNext=flags if addressable else None
        )
    )
