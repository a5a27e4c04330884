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
from xdsl_spirv.runtime.vulkan.layout import Chained, array, pointer
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
        self.running: list[int] = []
        """Fences of submissions whose end is not known yet, in order of submission."""
        self._idle: list[int] = []
        """Fences for further submissions."""
        self.submissions = 0
        """Number of submissions so far."""
        if self.info.queue is None:
            raise MisfitError(f"{self.info.name} has no compute queue", "", "use another device")
        self.handle = self._create(instance, physical)
        self.call = instance.loader.of_device(instance.handle, self.handle)
        queue = c.c_void_p()
        self.call("vkGetDeviceQueue", self.handle, self.info.queue.index, 0, pointer(queue))
        self.queue = queue.value
        self.pool = self.cache = 0
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
        queue = DeviceQueueCreateInfo(
            queueFamilyIndex=self.info.queue.index, pQueuePriorities=c.c_float(1)
        )
        create = DeviceCreateInfo(
            pNext=chain.address,
            pQueueCreateInfos=queue,
            ppEnabledExtensionNames=sorted(self.extensions),
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
        self._kept = cache.load(self.info)
        create = PipelineCacheCreateInfo(pInitialData=self._kept)
        self.cache = self.made("PipelineCache", create)

    def made(self, kind: str, create: Chained) -> int:
        """Creates an object, such as a `Buffer` by vkCreateBuffer. Returns the handle."""
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
        own = Counter(CommandPool=bool(self.pool), Fence=len(self.running) + len(self._idle))
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

        Earlier submissions are waited for first. Raises `DeviceTimeoutError` after `timeout`
        seconds, and `DeviceLostError` for a lost device.
        """
        self.check(max(timeout, GRACE_SECONDS))
        fence = self.start(commands)
        if meanwhile is not None:
            meanwhile()
        self.finish(fence, timeout)

    def start(self, commands: Iterable[int]) -> int:
        """Submits recorded command buffers. Returns the fence for `finish`."""
        self._refuse_unusable()
        if not self._idle:
            self._idle.append(self.made("Fence", FenceCreateInfo()))
        submit = SubmitInfo(pCommandBuffers=array(c.c_void_p, commands))
        # The fence counts as running before the call, because an interrupt may follow immediately.
        fence = self._idle.pop()
        self.running.append(fence)
        self.submissions += 1
        try:
            self.call("vkQueueSubmit", self.queue, 1, pointer(submit), fence)
        except VulkanError as error:
            self._idle.append(self.running.pop())
            self.lost = self.lost or isinstance(error, DeviceLostError)
            raise
        return fence

    def finish(self, fence: int, timeout: float) -> None:
        """
        Waits for a submission.

        Raises `DeviceTimeoutError` after `timeout` seconds, and `DeviceLostError` for a lost
        device.
        """
        try:
            if not self._wait(fence, timeout):
                self.abandoned = True
                raise DeviceTimeoutError(
                    f"the device did not finish within {timeout:g} s",
                    self.info.name,
                    "a kernel may never end, or the work is too large: give more time "
                    "with --timeout, or run it on the interpreter with --max-steps",
                )
            self._reset(fence)
        except DeviceLostError:
            self.lost = True
            raise

    def _reset(self, fence: int) -> None:
        fences = array(c.c_uint64, [fence])
        self.call("vkResetFences", self.handle, 1, pointer(fences))
        self.running.remove(fence)
        self._idle.append(fence)

    def _wait(self, fence: int, timeout: float) -> bool:
        start = time.perf_counter()
        spin = min(SPIN_SECONDS_OF_CPU if self.info.kind == "CPU" else SPIN_SECONDS, timeout)
        while (past := time.perf_counter() - start) < spin:
            if self.call("vkGetFenceStatus", self.handle, fence) == Result.SUCCESS:
                return True
        fences = array(c.c_uint64, [fence])
        while True:
            left = max(0.0, min(SLICE_SECONDS, timeout - past))
            nanoseconds = int(left * 1e9)
            done = self.call("vkWaitForFences", self.handle, 1, pointer(fences), 1, nanoseconds)
            if done == Result.SUCCESS:
                return True
            past = time.perf_counter() - start
            if past >= timeout:
                return False

    def check(self, seconds: float = GRACE_SECONDS) -> None:
        """
        Waits for work that is still running: interrupted work, or a run that was started early.

        Raises `DeviceLostError` if the device can no longer be used.
        """
        self._refuse_unusable()
        for fence in list(self.running):
            try:
                self.finish(fence, seconds)
            except DeviceTimeoutError:
                self._refuse_unusable()

    def _refuse_unusable(self) -> None:
        if self.lost or self.abandoned:
            why = "lost" if self.lost else "still running a kernel that did not end in time"
            raise DeviceLostError(f"the device is {why}", self.info.name, "open it again")

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
            if self.running and not self.lost:
                self.check()
        except VulkanError:
            pass
        if not self.abandoned:
            if self.cache and self.runs and not self.lost:
                self.save_cache()
            fences = [("Fence", fence) for fence in (*self.running, *self._idle)]
            for kind, handle in (
                ("PipelineCache", self.cache),
                *fences,
                ("CommandPool", self.pool),
            ):
                self.destroy(kind, handle)
            self.call("vkDestroyDevice", self.handle, None)
        self.pool = self.cache = self.handle = 0
        self.running, self._idle = [], []

    @property
    def usable(self) -> bool:
        return bool(self.handle) and not self.lost and not self.abandoned

    def covers(self, enabling: Enabling) -> bool:
        """True if the device has all features and extensions of `enabling` enabled."""
        return enabling.features <= self.features and enabling.extensions <= self.extensions
