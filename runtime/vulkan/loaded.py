"""
Holds work that is ready to run: its buffers, pipelines and recorded commands.

A small run is one submission, recorded once: copies of inputs, all steps, copies of outputs. If
inputs and outputs exceed the staging buffer, they are copied in pieces of its size, each as a
separate submission, so that host memory stays within `STAGING_BYTES`. There is a barrier between
two steps only if the later step uses memory that the earlier step may have written.
"""

from __future__ import annotations

import ctypes as c
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from xdsl_spirv.progress import stage
from xdsl_spirv.runtime.phases import HOST, LOAD, HostClock, Phase, device_phases, length
from xdsl_spirv.runtime.vulkan.descriptors import Descriptors
from xdsl_spirv.runtime.vulkan.enums import (
    Access,
    PipelineBindPoint,
    PipelineStage,
    QueryResult,
    QueryType,
    ShaderStage,
)
from xdsl_spirv.runtime.vulkan.errors import VulkanError
from xdsl_spirv.runtime.vulkan.images import Images
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.logical import LogicalDevice
from xdsl_spirv.runtime.vulkan.memory import (
    Buffers,
    Copy,
    Staging,
    from_staging,
    pack,
    staged,
    to_staging,
)
from xdsl_spirv.runtime.vulkan.pipelines import Pipelines
from xdsl_spirv.runtime.vulkan.structures import BufferCopy, MemoryBarrier, QueryPoolCreateInfo
from xdsl_spirv.runtime.vulkan.work import Step, Work

STAGING_BYTES = 64 << 20
"""Limit of host memory in addition to the caller's arrays, in bytes."""
Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Time:
    """Duration of a step on the device in each run, in nanoseconds."""

    kernel: str
    entry_point: str
    nanoseconds: tuple[float, ...]

    @property
    def median(self) -> float:
        import statistics

        return statistics.median(self.nanoseconds)


class LoadedWork:
    """Work loaded on a device. `close` frees its resources."""

    def __init__(
        self,
        device: LogicalDevice,
        work: Work,
        free: Sequence[int],
        full_subgroups: Iterable[tuple[str, str]] = (),
        subgroup_size: int | None = None,
        statistics: bool = False,
    ):
        """
        Loads the work. `free` is the free memory of each heap in bytes.

        `subgroup_size` is required for all pipelines (None: the device chooses), and
        `full_subgroups` are the (kernel, entry point) pairs whose workgroups consist of full
        subgroups.
        """
        self.device, self.work = device, work
        self.buffers: Buffers | None = None
        self.images: Images | None = None
        self.staging: Staging | None = None
        self.descriptors: Descriptors | None = None
        self.queries = 0
        self.commands: dict[str, int] = {}
        self.prepared = False
        self.pipelines = Pipelines(device, subgroup_size, set(full_subgroups), statistics)
        try:
            self._load(free)
        except BaseException:
            self.close()
            raise

    def _load(self, free: Sequence[int]) -> None:
        work = self.work
        self.steps = self.pipelines.of(work.steps, work.kernels)
        sizes = {buffer.name: buffer.size for buffer in work.buffers}
        pictured = any(step.images for step in work.steps)
        buffers = self.buffers = Buffers(self.device, sizes, work.lifetimes(), free, pictured)
        self.images = Images(self.device, buffers, work) if pictured else None
        self._bind(buffers)
        inside, end = pack((b.name, b.size) for b in work.named("input", "state"))
        outside, moved = pack(((b.name, b.size) for b in work.named("output")), end)
        weights = max((b.size for b in work.named("weight")), default=0)
        self.staging = Staging(self.device, max(256, min(STAGING_BYTES, max(moved, weights))))
        self.in_one_go = moved <= self.staging.size
        self.inside, self.outside = (inside, outside) if self.in_one_go else ([], [])
        self.order = barriers(work, buffers.overlapping)

    def _bind(self, buffers: Buffers) -> None:
        bound = Descriptors(self.device, self.work, self.steps, buffers, self.images)
        self.descriptors, self.sets = bound, bound.sets

    def _recorded(self, name: str, record: Callable[[int], None]) -> int:
        """Returns the command buffer `name`. The first call records its commands by `record`."""
        if name not in self.commands:
            commands = self.commands[name] = self.device.command_buffer()
            self.device.begin(commands)
            record(commands)
            self.device.call("vkEndCommandBuffer", commands)
        return self.commands[name]

    def _barrier(self, commands: int, before: tuple[int, int], after: tuple[int, int]) -> None:
        """Records a barrier between accesses `before` and `after`, each as (stage, access)."""
        barrier = MemoryBarrier(srcAccessMask=before[1], dstAccessMask=after[1])
        self.device.call(
            "vkCmdPipelineBarrier",
            *(commands, before[0], after[0], 0, 1, pointer(barrier), 0, None, 0, None),
        )

    def _record_run(
        self, commands: int, copies: bool = True, stamp: Callable[[], None] | None = None
    ) -> None:
        """Records a run. Calls `stamp` after the copies of inputs, each step, and the whole run."""
        self._record_copies(commands, self.inside if copies else [], False)
        self._barrier(commands, COPIED, COMPUTING)
        if stamp is not None:
            stamp()
        self._record_steps(commands, stamp)
        self._barrier(commands, COMPUTED, COPYING)
        self._record_copies(commands, self.outside if copies else [], True)
        self._barrier(commands, COPIED, READ_BY_HOST)
        if stamp is not None:
            stamp()

    def _record_steps(
        self, commands: int, stamp: Callable[[], None] | None = None, once: bool = False
    ) -> None:
        """
        Records all steps. Steps that run only once are left out unless `once` is True.

        If `stamp` is given, it is called after every step, and every step waits for the previous
        one.
        """
        if self.images is not None:
            self.images.record(commands, False)
        waits = False
        for index, step in enumerate(self.work.steps):
            waits = waits or self.order[index] or (stamp is not None and index > 0)
            if step.once and not once:
                continue
            if waits:
                self._barrier(commands, COMPUTED, COMPUTING)
                waits = False
            self._record(commands, index)
            if stamp is not None:
                stamp()
        if self.images is not None:
            self.images.record(commands, True)
            self._barrier(commands, COPIED, COPYING)

    def _record(self, commands: int, index: int) -> None:
        """Records one step."""
        step, pipeline, sets = self.work.steps[index], self.steps[index], self.sets[index]
        call = self.device.call
        call("vkCmdBindPipeline", commands, PipelineBindPoint.COMPUTE, pipeline.handle)
        if sets:
            handles = array(c.c_uint64, sets)
            call(
                "vkCmdBindDescriptorSets",
                *(commands, PipelineBindPoint.COMPUTE, pipeline.layout, 0, len(sets)),
                *(pointer(handles), 0, None),
            )
        if step.push:
            push = c.create_string_buffer(self._push(step), len(step.push))
            call(
                "vkCmdPushConstants",
                *(commands, pipeline.layout, ShaderStage.COMPUTE, 0, len(step.push)),
                pointer(push),
            )
        call("vkCmdDispatch", commands, *step.grid)

    def _push(self, step: Step) -> bytes:
        assert self.buffers is not None
        block = bytearray(step.push)
        for offset, name in step.addresses:
            struct.pack_into("<Q", block, offset, self.buffers.address(name))
        return bytes(block)

    def _record_copies(
        self, commands: int, copies: Iterable[Copy], out: bool, staging: Staging | None = None
    ) -> None:
        assert self.buffers is not None
        staging = staging or self.staging
        assert staging is not None
        for copy in copies:
            region = BufferCopy(srcOffset=copy.staged, dstOffset=copy.offset, size=copy.size)
            pair = (staging.handle, self.buffers.handles[copy.name])
            if out:
                region = BufferCopy(srcOffset=copy.offset, dstOffset=copy.staged, size=copy.size)
                pair = pair[::-1]
            self.device.call("vkCmdCopyBuffer", commands, *pair, 1, pointer(region))

    def _pieces(self, name: str, size: int, first: int = 0) -> Iterator[Copy]:
        assert self.staging is not None
        for offset in range(0, size, self.staging.size):
            yield Copy(name, first + offset, 0, min(self.staging.size, size - offset))

    def _move(self, copy: Copy, out: bool, timeout: float) -> None:
        commands = self.device.command_buffer()
        try:
            self.device.begin(commands, once=True)
            self._record_copies(commands, [copy], out)
            if out:
                self._barrier(commands, COPIED, READ_BY_HOST)
            self.device.call("vkEndCommandBuffer", commands)
            self.device.submit([commands], timeout)
        finally:
            if not self.device.running:
                self.device.free_command_buffers([commands])

    def write(self, name: str, data: Bytes, timeout: float) -> None:
        """Fills a buffer. Raises `VulkanError` for data of another size."""
        self._write(name, checked(self.work, name, data), timeout)

    def _write(self, name: str, view: memoryview, timeout: float) -> None:
        assert self.staging is not None
        for piece in self._pieces(name, view.nbytes):
            to_staging(self.staging, piece, view)
            self._move(piece, False, timeout)

    def read(
        self, name: str, timeout: float, first: int = 0, count: int | None = None
    ) -> bytearray:
        """Returns `count` bytes of a buffer, from byte `first` on."""
        assert self.staging is not None
        data = bytearray(self.work.buffer(name).size - first if count is None else count)
        for piece in self._pieces(name, len(data), first):
            self._move(piece, True, timeout)
            part = slice(piece.offset - first, piece.offset - first + piece.size)
            memoryview(data)[part] = staged(self.staging, piece)
        return data

    @stage("running on the device")
    def run(self, inputs: Mapping[str, Bytes], timeout: float) -> dict[str, bytearray]:
        """
        Writes the inputs and states, runs every step and returns the outputs.

        Raises `DeviceTimeoutError` and `DeviceLostError`, after which the device must be closed.
        """
        views = self._check(inputs)
        self.prepare(timeout)
        self._upload(views, timeout)
        self.device.submit([self._recorded("run", self._record_run)], timeout)
        return self._download(timeout)

    def _check(self, inputs: Mapping[str, Bytes]) -> dict[str, memoryview]:
        named = self.work.named("input", "state")
        return {b.name: checked(self.work, b.name, inputs[b.name]) for b in named}

    def _upload(self, views: Mapping[str, memoryview], timeout: float) -> None:
        """Writes inputs and states to the staging memory, or to their buffers piece by piece."""
        assert self.staging is not None
        for copy in self.inside:
            to_staging(self.staging, copy, views[copy.name])
        for name in () if self.in_one_go else views:
            self._write(name, views[name], timeout)

    def _download(self, timeout: float) -> dict[str, bytearray]:
        """Returns the outputs from the staging memory, or from their buffers piece by piece."""
        assert self.staging is not None
        outputs = self.work.named("output")
        if not self.in_one_go:
            return {b.name: self.read(b.name, timeout) for b in outputs}
        results = {b.name: bytearray(b.size) for b in outputs}
        for copy in self.outside:
            from_staging(self.staging, copy, memoryview(results[copy.name]))
        return results

    def prepare(self, timeout: float) -> None:
        """Runs the steps marked `once`, at the first call only."""
        if self.prepared:
            return
        self.prepared = True
        if any(step.once for step in self.work.steps):
            self.device.submit([self._recorded("once", self._record_once)], timeout)

    def _record_once(self, commands: int) -> None:
        self._barrier(commands, COPIED, COMPUTING)
        for index, step in enumerate(self.work.steps):
            if step.once:
                self._record(commands, index)
                self._barrier(commands, COMPUTED, COMPUTING)

    def repeat(self, timeout: float) -> None:
        """Runs every step again on the present contents of the buffers, without copies."""
        self.prepare(timeout)
        record = partial(self._record_run, copies=False)
        self.device.submit([self._recorded("steps", record)], timeout)

    def step(self, index: int, timeout: float) -> None:
        """Runs one step in a separate submission."""
        record = partial(self._record, index=index)
        self.device.submit([self._recorded(f"step {index}", record)], timeout)

    @stage("timing on the device")
    def time(self, count: int, timeout: float, warm_up: float = 0.0) -> list[Time]:
        """
        Returns each step's times by the device's clock, in `count` runs on the present buffers.

        The steps first run for `warm_up` seconds, because an idle device has a low clock. Raises
        `VulkanError` if the queue has no timestamps.
        """
        stamps = len(self.work.steps) + 1
        rounds = self._rounds("timed", self._record_timed, stamps, count, timeout, warm_up)
        return [
            Time(step.kernel, step.entry_point, tuple(run[i] for run in rounds))
            for i, step in enumerate(self.work.steps)
        ]

    def time_runs(self, runs: int, count: int, timeout: float, warm_up: float = 0.0) -> list[float]:
        """
        Measures `runs` consecutive runs in one submission by the device's clock, `count` times.

        Every step waits for the previous one. There are no timestamps between steps, because each
        costs microseconds. Steps that run only once are left out. The steps first run for `warm_up`
        seconds.
        """
        steps = [index for index, step in enumerate(self.work.steps) if not step.once]
        chain = [(index, True) for index in steps * runs]
        return self.time_chain(f"{runs} runs", chain, count, timeout, warm_up)

    def time_chain(
        self,
        name: str,
        chain: Sequence[tuple[int, bool]],
        count: int,
        timeout: float,
        warm_up: float = 0.0,
    ) -> list[float]:
        """
        Measures some steps in one submission by the device's clock, `count` times, in nanoseconds.

        Each entry of the chain is (step index, True if the step waits for earlier steps). Chains of
        the same `name` must be equal. All steps first run for `warm_up` seconds.
        """

        def record(commands: int) -> None:
            stamp = self._start_stamps(commands, 2)
            for index, waits in chain:
                if waits:
                    self._barrier(commands, COMPUTED, COMPUTING)
                self._record(commands, index)
            self._barrier(commands, COMPUTED, COMPUTING)
            stamp()

        rounds = self._rounds(name, record, 2, count, timeout, warm_up)
        return [nanoseconds for (nanoseconds,) in rounds]

    def _rounds(
        self,
        name: str,
        record: Callable[[int], None],
        stamps: int,
        count: int,
        timeout: float,
        warm_up: float,
    ) -> list[list[float]]:
        """
        Submits the commands that `record` adds to a command buffer, `count` times.

        Returns the times between the `stamps` timestamps of each submission, in nanoseconds.
        Before, all steps run for `warm_up` seconds.
        """
        import time

        bits = self._timestamp_bits()
        if not bits:
            raise VulkanError(
                "the device's queue has no timestamps",
                self.device.info.name,
                "measure the time on the host",
            )
        end = time.perf_counter() + warm_up
        while time.perf_counter() < end:
            self.repeat(timeout)
        commands = self._recorded(name, record)
        rounds: list[list[float]] = []
        for _ in range(count):
            self.device.submit([commands], timeout)
            rounds.append(self._differences(stamps, bits))
        return rounds

    def _timestamp_bits(self) -> int:
        """Creates a query pool. Returns the valid bits of a timestamp, 0 if unsupported."""
        queue = self.device.info.queue
        if queue is None or not queue.timestamp_bits:
            return 0
        if not self.queries:
            create = QueryPoolCreateInfo(
                queryType=QueryType.TIMESTAMP, queryCount=len(self.work.steps) + 3
            )
            self.queries = self.device.made("QueryPool", create)
        return queue.timestamp_bits

    @stage("timing on the device")
    def phases(self, inputs: Mapping[str, Bytes], count: int, timeout: float) -> list[Phase]:
        """
        Returns the host and device phases of the run of median length among `count` runs.

        The phases of loading a program come first. The device's clock is shifted so that its last
        phase ends with the host's wait. Without timestamps, there are only the host's phases.
        """
        views = self._check(inputs)
        bits = self._timestamp_bits()
        load = HostClock(LOAD)
        load.begin("record")
        commands = self._recorded("phases", lambda commands: self._record_phases(commands, bits))
        if any(step.once for step in self.work.steps):
            load.begin("once")
        self.prepared = False
        self.prepare(timeout)
        load.end()
        runs = [self._phases_of_run(views, commands, bits, timeout) for _ in range(count)]
        return [*load.phases, *sorted(runs, key=length)[count // 2]]

    def _record_phases(self, commands: int, bits: int) -> None:
        """Records a run with timestamps around copies and steps, if the queue has timestamps."""
        steps = sum(not step.once for step in self.work.steps)
        stamp = self._start_stamps(commands, steps + 3) if bits else None
        self._record_run(commands, stamp=stamp)

    def _phases_of_run(
        self, views: Mapping[str, memoryview], commands: int, bits: int, timeout: float
    ) -> list[Phase]:
        host = HostClock(HOST)
        host.begin("upload")
        self._upload(views, timeout)
        host.begin("submit")
        self.device.submit([commands], timeout, meanwhile=lambda: host.begin("wait"))
        host.begin("download")
        self._download(timeout)
        host.end()
        if not bits:
            return host.phases
        end = next(phase.end for phase in host.phases if phase.name == "wait")
        steps = [(i, s.entry_point) for i, s in enumerate(self.work.steps) if not s.once]
        taken = self._differences(len(steps) + 3, bits)
        return [*host.phases, *device_phases(taken, steps, end, self.in_one_go)]

    def _start_stamps(self, commands: int, count: int) -> Callable[[], None]:
        """
        Resets `count` timestamps and records the first. Returns a function that records the next
        one.
        """
        self.device.call("vkCmdResetQueryPool", commands, self.queries, 0, count)
        self._barrier(commands, COMPUTED, COMPUTING)
        last, indices = PipelineStage.BOTTOM_OF_PIPE, iter(range(count))

        def stamp() -> None:
            self.device.call("vkCmdWriteTimestamp", commands, last, self.queries, next(indices))

        stamp()
        return stamp

    def _record_timed(self, commands: int) -> None:
        stamp = self._start_stamps(commands, len(self.work.steps) + 1)
        self._record_steps(commands, stamp, once=True)

    def _differences(self, count: int, valid_bits: int) -> list[float]:
        """Returns nanoseconds between consecutive timestamps, which may have wrapped once."""
        data = (c.c_uint64 * count)()
        self.device.call(
            "vkGetQueryPoolResults",
            *(self.device.handle, self.queries, 0, count, c.sizeof(data), pointer(data), 8),
            int(QueryResult._64 | QueryResult.WAIT),  # pyright: ignore[reportPrivateUsage]
        )
        mask = (1 << valid_bits) - 1
        period = self.device.info.timestamp_period
        return [((b - a) & mask) * period for a, b in pairwise(data)]

    def executables(self) -> list[list[dict[str, int | float | bool]]]:
        """Returns the driver's statistics of each step's code. Requires `statistics` at loading."""
        return [self.pipelines.executables(pipeline) for pipeline in self.steps]

    def close(self) -> None:
        """Waits for running work, then frees all resources."""
        device = self.device
        if device.running:
            with suppress(VulkanError):
                device.check()
        device.free_command_buffers(self.commands.values())
        self.commands.clear()
        device.destroy("QueryPool", self.queries)
        self.queries = 0
        for owned in (self.descriptors, self.staging, self.images, self.buffers):
            if owned is not None:
                owned.close()
        self.pipelines.close()
        self.staging = self.buffers = self.images = self.descriptors = None


COMPUTED = (PipelineStage.COMPUTE_SHADER, Access.SHADER_WRITE)
COMPUTING = (PipelineStage.COMPUTE_SHADER, Access.SHADER_READ | Access.SHADER_WRITE)
COPIED = (PipelineStage.TRANSFER, Access.TRANSFER_WRITE)
COPYING = (PipelineStage.TRANSFER, Access.TRANSFER_READ | Access.TRANSFER_WRITE)
READ_BY_HOST = (PipelineStage.HOST, Access.HOST_READ)


def barriers(work: Work, overlapping: Callable[[str], list[str]]) -> list[bool]:
    """
    Returns, for each step, True if a barrier must precede the step.

    Kernels write only outputs, states and temporaries. The manifest does not tell which of these a
    step only reads. Two steps that share such a buffer, or its memory (`overlapping`), are
    therefore kept in order.
    """
    written = {buffer.name for buffer in work.named("output", "state", "temporary")}
    shared = {name: set(overlapping(name)) for name in written}
    since: set[str] = set()
    needed: list[bool] = []
    for step in work.steps:
        mine: set[str] = set()
        for name in step.buffers:
            mine |= shared.get(name, set())
        needed.append(not mine.isdisjoint(since))
        since = set() if needed[-1] else since
        since |= mine
    return needed


def checked(work: Work, name: str, data: Bytes) -> memoryview:
    view = memoryview(data).cast("B")
    size = work.buffer(name).size
    if view.nbytes != size:
        raise VulkanError(
            f"the buffer {name!r} has {size} bytes, but the data has {view.nbytes}",
            "",
            "resize the data",
        )
    return view
