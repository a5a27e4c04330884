"""
Manages a VkDevice with the objects that every run needs: a queue, a command pool, a pipeline
cache.

All objects are created, destroyed and counted here, so that leaks can be detected. After a timeout
the device is *abandoned*: its objects are not destroyed, because a running kernel uses them.
"""

from __future__ import annotations

import ctypes as c
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from xdsl_spirv.runtime.vulkan import cache
from xdsl_spirv.runtime.vulkan.enums import CommandBufferUsage, CommandPoolCreate, Result
from xdsl_spirv.runtime.vulkan.errors import (
    DeviceLostError,
    DeviceTimeoutError,
    MisfitError,
    VulkanError,
)
from xdsl_spirv.runtime.vulkan.features import Chain, Enabling
from xdsl_spirv.runtime.vulkan.layout import Chained, array, pointer, texts
from xdsl_spirv.runtime.vulkan.structures import (
    CommandBufferAllocateInfo,
    CommandBufferBeginInfo,
    CommandPoolCreateInfo,
    DeviceCreateInfo,
    DeviceQueueCreateInfo,
    FenceCreateInfo,
    PipelineCacheCreateInfo,
    SubmitInfo,
)

if TYPE_CHECKING:
    from xdsl_spirv.runtime.vulkan.instance import Instance
    from xdsl_spirv.runtime.vulkan.physical import PhysicalDevice

SPIN_SECONDS = 0.02
"""Seconds of polling a fence before the thread sleeps, because waking up takes 30 us."""
SPIN_SECONDS_OF_CPU = 0.002
"""`SPIN_SECONDS` for a device that is the CPU, whose work is slowed by polling."""
SLICE_SECONDS = 0.1
"""Maximum seconds of one wait, after which Python can handle a signal."""
GRACE_SECONDS = 5.0
"""Seconds that closing waits for work that is still running after an interrupt."""


class LogicalDevice:
    """A VkDevice with exactly the features and extensions of `enabling`."""

    def __init__(
        self,
        instance: Instance,
        physical: PhysicalDevice,
        enabling: Enabling,
        runs: bool = True,
    ):
        """Creates the VkDevice. Without `runs`, creates only the objects that compiling needs."""
        self.info, self.runs = physical.info, runs
        self.features = frozenset(enabling.features)
        self.extensions = frozenset(enabling.extensions)
        self.objects: Counter[str] = Counter()
        self.lost = self.abandoned = False
        self.pending = False
        if self.info.queue is None:
            raise MisfitError(f"{self.info.name} has no compute queue", "", "use another device")
        self.handle = self._create(instance, physical)
        self.call = instance.loader.of_device(instance.handle, self.handle)
        queue = c.c_void_p()
        self.call("vkGetDeviceQueue", self.handle, self.info.queue.index, 0, pointer(queue))
        self.queue = queue.value
        self.pool = self.cache = self.fence = 0
        self._kept = b""
        try:
            self._make_tools()
        except BaseException:
            self.close()
            raise

    def _create(self, instance: Instance, physical: PhysicalDevice) -> int:
        assert self.info.queue is not None
        structures = {feature.structure for feature in self.features}
        chain = Chain(structures, self.features)
        priority = c.c_float(1)
        queue = DeviceQueueCreateInfo(
            queueFamilyIndex=self.info.queue.index, queueCount=1, pQueuePriorities=pointer(priority)
        )
        names = texts(sorted(self.extensions))
        create = DeviceCreateInfo(
            pNext=chain.address,
            queueCreateInfoCount=1,
            pQueueCreateInfos=pointer(queue),
            enabledExtensionCount=len(names),
            ppEnabledExtensionNames=pointer(names),
        )
        return instance.commands.made(
            "vkCreateDevice", physical.handle, pointer(create), None, dispatchable=True
        )

    def _make_tools(self) -> None:
        assert self.info.queue is not None
        if not self.runs:
            self.cache = self.made("PipelineCache", PipelineCacheCreateInfo())
            return
        self.pool = self.made(
            "CommandPool",
            CommandPoolCreateInfo(
                flags=CommandPoolCreate.RESET_COMMAND_BUFFER,
                queueFamilyIndex=self.info.queue.index,
            ),
        )
        self.fence = self.made("Fence", FenceCreateInfo())
        self._kept = cache.load(self.info)
        data = c.create_string_buffer(self._kept, len(self._kept))
        create = PipelineCacheCreateInfo(initialDataSize=len(self._kept))
        create.pInitialData = pointer(data)
        self.cache = self.made("PipelineCache", create)

    def made(self, kind: str, create: Chained) -> int:
        """Creates an object (`"Buffer"`: vkCreateBuffer), which `destroy` destroys. Returns it."""
        handle = self.call.made(f"vkCreate{kind}", self.handle, pointer(create), None)
        self.objects[kind] += 1
        return handle

    def destroy(self, kind: str, handle: int) -> None:
        if handle and not self.abandoned:
            self.call(f"vkDestroy{kind}", self.handle, handle, None)
            self.objects[kind] -= 1

    def allocate(self, create: Chained) -> int:
        """Allocates device memory. Returns its handle."""
        handle = self.call.made("vkAllocateMemory", self.handle, pointer(create), None)
        self.objects["Memory"] += 1
        return handle

    def free(self, memory: int) -> None:
        if memory and not self.abandoned:
            self.call("vkFreeMemory", self.handle, memory, None)
            self.objects["Memory"] -= 1

    def command_buffer(self) -> int:
        """Creates a command buffer in recording state."""
        create = CommandBufferAllocateInfo(commandPool=self.pool, commandBufferCount=1)
        handle = self.call.made(
            "vkAllocateCommandBuffers", self.handle, pointer(create), dispatchable=True
        )
        self.objects["CommandBuffer"] += 1
        return handle

    def begin(self, commands: int, once: bool = False) -> None:
        flags = CommandBufferUsage.ONE_TIME_SUBMIT if once else 0
        begin = CommandBufferBeginInfo(flags=flags)
        self.call("vkBeginCommandBuffer", commands, pointer(begin))

    def free_command_buffers(self, commands: Iterable[int]) -> None:
        live = [handle for handle in commands if handle]
        if live and not self.abandoned:
            handles = array(c.c_void_p, live)
            self.call("vkFreeCommandBuffers", self.handle, self.pool, len(live), pointer(handles))
            self.objects["CommandBuffer"] -= len(live)

    @property
    def live(self) -> dict[str, int]:
        """Number of objects of each kind that work created."""
        own = Counter(CommandPool=bool(self.pool), Fence=bool(self.fence))
        own["PipelineCache"] = bool(self.cache)
        return {kind: n - own[kind] for kind, n in self.objects.items() if n != own[kind]}

    def submit(
        self,
        commands: Iterable[int],
        timeout: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """
        Submits recorded command buffers, calls `meanwhile`, and waits until they are done.

        Raises `DeviceTimeoutError` after `timeout` seconds, `DeviceLostError` for a lost device.
        """
        self.check()
        handles = array(c.c_void_p, commands)
        submit = SubmitInfo(commandBufferCount=len(handles), pCommandBuffers=pointer(handles))
        try:
            self._enqueue(submit)
            if meanwhile is not None:
                meanwhile()
            if not self._wait(timeout):
                self.abandoned = True
                raise DeviceTimeoutError(
                    f"the device did not finish within {timeout:g} s",
                    self.info.name,
                    "a kernel may never end, or the work is too large: give more time "
                    "with --timeout, or run it on the interpreter with --max-steps",
                )
            self._reset()
        except DeviceLostError:
            self.lost = True
            raise

    def _enqueue(self, submit: SubmitInfo) -> None:
        # Set before the call, because an interrupt may follow immediately.
        self.pending = True
        try:
            self.call("vkQueueSubmit", self.queue, 1, pointer(submit), self.fence)
        except VulkanError:
            self.pending = False
            raise

    def _reset(self) -> None:
        fence = array(c.c_uint64, [self.fence])
        self.call("vkResetFences", self.handle, 1, pointer(fence))
        self.pending = False

    def _wait(self, timeout: float) -> bool:
        start = time.perf_counter()
        spin = min(SPIN_SECONDS_OF_CPU if self.info.kind == "CPU" else SPIN_SECONDS, timeout)
        while (past := time.perf_counter() - start) < spin:
            if self.call("vkGetFenceStatus", self.handle, self.fence) == Result.SUCCESS:
                return True
        fence = array(c.c_uint64, [self.fence])
        while True:
            left = max(0.0, min(SLICE_SECONDS, timeout - past))
            nanoseconds = int(left * 1e9)
            done = self.call("vkWaitForFences", self.handle, 1, pointer(fence), 1, nanoseconds)
            if done == Result.SUCCESS:
                return True
            past = time.perf_counter() - start
            if past >= timeout:
                return False

    def check(self) -> None:
        """Raises `DeviceLostError` if the device can no longer be used."""
        if self.lost or self.abandoned:
            why = "lost" if self.lost else "still running a kernel that did not end in time"
            raise DeviceLostError(f"the device is {why}", self.info.name, "open it again")
        if self.pending:
            # Work is still running after an interrupt.
            if not self._wait(GRACE_SECONDS):
                self.abandoned = True
                self.check()
            self._reset()

    def save_cache(self) -> None:
        """Writes the pipeline cache to disk, if it has new entries."""
        size = c.c_size_t()
        self.call("vkGetPipelineCacheData", self.handle, self.cache, pointer(size), None)
        data = c.create_string_buffer(size.value)
        self.call("vkGetPipelineCacheData", self.handle, self.cache, pointer(size), pointer(data))
        if data.raw[: size.value] != self._kept:
            self._kept = data.raw[: size.value]
            cache.save(self.info, self._kept)

    def close(self) -> None:
        """Destroys the device. An abandoned device exists until the end of the process."""
        if not self.handle:
            return
        try:
            if self.pending and not self.lost:
                self.check()
        except VulkanError:
            pass
        if not self.abandoned:
            if self.cache and self.runs and not self.lost:
                self.save_cache()
            for kind, handle in (
                ("PipelineCache", self.cache),
                ("Fence", self.fence),
                ("CommandPool", self.pool),
            ):
                self.destroy(kind, handle)
            self.call("vkDestroyDevice", self.handle, None)
        self.pool = self.cache = self.fence = 0
        self.handle = 0

    @property
    def usable(self) -> bool:
        return bool(self.handle) and not self.lost and not self.abandoned

    def covers(self, enabling: Enabling) -> bool:
        """True if the device has all features and extensions of `enabling` enabled."""
        return enabling.features <= self.features and enabling.extensions <= self.extensions
