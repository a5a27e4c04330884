"""
Keeps work on a device between runs, as routines that share weights and states.

Runs of a routine differ in the sizes of grids, and in the copied parts of its inputs and outputs. A
run is one submission of recorded commands. Commands are recorded again only if a grid or a copied
part has changed. Memory is reused while it is large enough. If the caller knows the likely next
run, the device starts it before the host has read the results of the present one.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from xdsl_spirv.runtime.vulkan.enums import Access, PipelineBindPoint, ShaderStage
from xdsl_spirv.runtime.vulkan.errors import MisfitError
from xdsl_spirv.runtime.vulkan.layout import array, pointer
from xdsl_spirv.runtime.vulkan.loaded import (
    COMPUTED,
    COMPUTING,
    COPIED,
    COPYING,
    READ_BY_HOST,
    STAGING_BYTES,
    LoadedWork,
    barriers,
)
from xdsl_spirv.runtime.vulkan.memory import Buffers, Copy, Staging, pack, staged, to_staging
from xdsl_spirv.runtime.vulkan.pipelines import Pipeline
from xdsl_spirv.runtime.vulkan.structures import BufferCopy, MemoryBarrier
from xdsl_spirv.runtime.vulkan.work import SHARED, Routine, Run, Step

Numbers = tuple[int, ...]

Listed: TypeAlias = list[tuple[Callable[..., None], tuple[object, ...]]]
"""The driver's functions with their arguments, in call order."""

CHANGED = (COMPUTED[0] | COPIED[0], COMPUTED[1] | COPIED[1])
"""Barrier for memory that the previous run wrote, and for copied inputs."""
READING = (COMPUTING[0], COMPUTING[1] | Access.UNIFORM_READ)


class Together(Buffers):
    """Presents shared buffers (`kept`) and buffers that may grow (`own`) as one collection."""

    def __init__(self, kept: Buffers, own: Buffers):
        self.kept, self.own = kept, own
        self.handles = kept.handles | own.handles

    def overlapping(self, name: str) -> list[str]:
        return (self.own if name in self.own.places else self.kept).overlapping(name)

    def address(self, name: str) -> int:
        return (self.own if name in self.own.places else self.kept).address(name)

    @property
    def allocated(self) -> int:
        return self.kept.allocated + self.own.allocated

    def close(self) -> None:
        self.own.close()


@dataclass
class Recording:
    """A command buffer for runs of a routine, and the staging memory of its copies."""

    name: str
    """Name of the command buffer in `LoadedWork.commands`."""
    staging: Staging
    inside: list[Copy] = field(default_factory=list[Copy])
    outside: list[Copy] = field(default_factory=list[Copy])
    """The copies from and to the staging memory."""
    recorded: tuple[object, ...] | None = None
    """Grids, copied bytes and carried inputs of the recorded commands."""
    listed: dict[frozenset[int], Listed] = field(default_factory=dict[frozenset[int], Listed])
    """Calls to record, by the set of steps with empty grids."""


@dataclass(frozen=True)
class Started:
    """A run that was submitted, with its recording and its fence."""

    run: Run
    recording: Recording
    fence: int
    submission: int
    """Number of the device's submissions up to this one."""


class ResidentWork(LoadedWork):
    """
    Routines (functions of a program) that are loaded on a device. `close` frees their resources.
    """

    kept: Buffers | None = None
    ahead: Started | None = None
    """The run that was started before its caller asked for it."""
    results: Mapping[str, bytearray] = {}
    """The outputs of the last run."""

    def _load(self, free: Sequence[int]) -> None:
        work = self.work
        self.steps = self.pipelines.of(work.steps, work.kernels)
        once = {name for step in work.steps if step.once for name in step.buffers}
        staying = {b.name: b.size for b in work.buffers if b.kind in SHARED or b.name in once}
        self.kept = Buffers(self.device, staying, {}, free)
        self.sizes = {b.name: b.size for b in work.buffers if b.name not in staying}
        self.recorders = {name: Recorder(self, routine) for name, routine in work.routines.items()}
        self._arrange(free)

    def _arrange(self, free: Sequence[int]) -> None:
        """Allocates the buffers that may grow, and all objects that refer to them."""
        assert self.kept is not None
        work = replace(
            self.work,
            buffers=tuple(
                replace(b, size=self.sizes.get(b.name, b.size)) for b in self.work.buffers
            ),
        )
        lives = {name: life for name, life in work.lifetimes().items() if name in self.sizes}
        own = Buffers(self.device, self.sizes, lives, free)
        self.work, self.buffers = work, Together(self.kept, own)
        self._bind(self.buffers)
        _, moved = pack((b.name, b.size) for b in work.named("input", "output"))
        shared = max((b.size for b in work.named(*SHARED)), default=0)
        size = max(256, min(STAGING_BYTES, max(moved, shared)))
        if self.staging is None or self.staging.size < size:
            if self.staging is not None:
                self.staging.close()
            self.staging = Staging(self.device, size)
        self.order = barriers(work, self.buffers.overlapping)
        for recorder in self.recorders.values():
            recorder.arrange()

    def place(self, sizes: Mapping[str, int], free: Sequence[int]) -> None:
        """
        Enlarges buffers that are smaller than these sizes.

        Raises `OutOfMemoryError`. The memory is then unchanged.
        """
        before = dict(self.sizes)
        self.sizes |= {n: max(size, self.sizes[n]) for n, size in sizes.items()}
        if self.sizes == before:
            return
        self.device.check()
        self._forget()
        try:
            self._arrange(free)
        except BaseException:
            self._forget()
            self.sizes = before
            self._arrange(free)
            raise

    def _forget(self) -> None:
        """Frees the buffers that may grow, and all objects that refer to them."""
        self.ahead = None
        self.device.free_command_buffers(self.commands.values())
        self.commands.clear()
        if self.descriptors is not None:
            self.descriptors.close()
        self.descriptors = None
        if self.buffers is not None:
            self.buffers.close()
        self.buffers = None

    def run_routine(
        self, run: Run, timeout: float, following: Run | None = None
    ) -> dict[str, bytearray]:
        """
        Runs a routine. Returns its outputs by name.

        If the caller knows the likely next run, the device starts `following` before this run
        ends. If the next run is a different one, it starts after `following`, whose outputs are
        dropped. Raises `DeviceTimeoutError` and `DeviceLostError`, after which the device must be
        closed.
        """
        self.prepare(timeout)
        recorder = self.recorders[run.routine]
        started = self.ahead if self._was_started(run) else None
        self.ahead = None
        if not recorder.in_one_go:
            return self._run_in_pieces(recorder, run, timeout)
        if started is None:
            self.device.check(timeout)
            started = self._start(run, recorder.recordings[0])
        if following is not None:
            recording = recorder.recording_ahead(started.recording, following)
            self.ahead = self._start(following, recording)
        self.device.finish(started.fence, timeout)
        recording = started.recording
        copied = {c.name: bytearray(staged(recording.staging, c)) for c in recording.outside}
        results = {name: copied.get(name, bytearray()) for name in recorder.routine.outputs}
        self.results = results
        return results

    def _was_started(self, run: Run) -> bool:
        """True if a run was started ahead, and the device has run nothing else since."""
        if self.ahead is None or self.ahead.submission != self.device.submissions:
            return False
        ahead = self.ahead.run
        given = {c.input: self.results[c.output] for c in ahead.carried}
        return replace(ahead, inputs={**ahead.inputs, **given}, carried=()) == run

    def _start(self, run: Run, recording: Recording) -> Started:
        commands = self.recorders[run.routine].commands(recording, run)
        for copy in recording.inside:
            to_staging(recording.staging, copy, memoryview(run.inputs[copy.name]))
        fence = self.device.start([commands])
        return Started(run, recording, fence, self.device.submissions)

    def _run_in_pieces(self, recorder: Recorder, run: Run, timeout: float) -> dict[str, bytearray]:
        """Runs a routine whose inputs and outputs exceed the staging memory."""
        routine = recorder.routine
        for name in routine.inputs:
            self._write(name, memoryview(run.inputs[name]), timeout)
        self.device.submit([recorder.commands(recorder.recordings[0], run)], timeout)
        sizes = zip(routine.outputs, run.outputs, strict=True)
        return {name: self.read(name, timeout, count=size) for name, size in sizes}

    def close(self) -> None:
        super().close()
        for recorder in getattr(self, "recorders", {}).values():
            recorder.close()
        if self.kept is not None:
            self.kept.close()
        self.kept = None


@dataclass
class Call:
    """The arguments of a step's commands, converted to the driver's types."""

    handle: int
    """Handle of the pipeline."""
    pipeline: tuple[object, ...]
    sets: tuple[object, ...]
    push: tuple[object, ...]
    grid: tuple[c.c_uint32, c.c_uint32, c.c_uint32]
    is_ordered: bool
    kept: tuple[object, ...]
    """Python objects that own the memory at the addresses, and must stay alive."""


class Recorder:
    """Records the commands of one routine for the grids and copied bytes of a run."""

    def __init__(self, work: ResidentWork, routine: Routine):
        self.work, self.routine = work, routine
        self.device = work.device
        call = self.device.call
        self._bind = call.quick("vkCmdBindPipeline")
        self._bind_sets = call.quick("vkCmdBindDescriptorSets")
        self._push = call.quick("vkCmdPushConstants")
        self._dispatch = call.quick("vkCmdDispatch")
        self._barrier = call.quick("vkCmdPipelineBarrier")
        steps = work.work.steps[routine.first : routine.end]
        self.blocks = [c.create_string_buffer(step.push, len(step.push)) for step in steps]
        barrier = MemoryBarrier(srcAccessMask=COMPUTED[1], dstAccessMask=COMPUTING[1])
        self._memory_barrier = barrier
        ordered = (COMPUTED[0], COMPUTING[0], 0, 1, pointer(barrier), 0, None, 0, None)
        self._ordered = call.convert("vkCmdPipelineBarrier", *ordered)
        self.calls: list[Call] = []
        self.in_one_go = False
        self.recordings: list[Recording] = []
        """The recording of runs that the caller waits for, and two for runs started ahead."""
        self._empty: frozenset[int] = frozenset()
        """Indices of the steps whose grids are empty at the latest sizes."""

    def arrange(self) -> None:
        """Updates the calls for new descriptor sets and sizes. Discards all recorded commands."""
        self.close()
        work, first = self.work, self.routine.first
        self.calls = [
            self._call(work.work.steps[n], work.steps[n], work.sets[n], self.blocks[n - first], n)
            for n in range(first, self.routine.end)
        ]
        names = (*self.routine.inputs, *self.routine.outputs)
        _, total = pack((name, work.sizes[name]) for name in names)
        assert work.staging is not None
        self.in_one_go = total <= work.staging.size
        self.recordings = [Recording(f"routine {first}", work.staging)]

    def close(self) -> None:
        for recording in self.recordings[1:]:
            recording.staging.close()
        self.recordings = []

    def recording_ahead(self, running: Recording, run: Run) -> Recording:
        """Returns a recording for a run that starts while another one is running."""
        size = max(256, self._pack(self._count_moved(run))[2])
        for recording in self.recordings[1:]:
            if recording is not running:
                if recording.staging.size < size:
                    recording.staging.close()
                    recording.staging, recording.recorded = Staging(self.device, size), None
                return recording
        name = f"{self.recordings[0].name} ahead {len(self.recordings)}"
        self.recordings.append(Recording(name, Staging(self.device, size)))
        return self.recordings[-1]

    def _count_moved(self, run: Run) -> Numbers:
        """Returns the bytes that a run copies of each input and output through staging memory."""
        inputs = (len(run.inputs.get(name, b"")) for name in self.routine.inputs)
        return (*inputs, *run.outputs)

    def _call(
        self, step: Step, pipeline: Pipeline, sets: list[int], block: object, number: int
    ) -> Call:
        handles = array(c.c_uint64, sets)
        point, convert = int(PipelineBindPoint.COMPUTE), self.device.call.convert
        bound = (point, pipeline.layout, 0, len(sets), pointer(handles), 0, None)
        stage, size = int(ShaderStage.COMPUTE), len(step.push)
        push = (pipeline.layout, stage, 0, size, pointer(block))  # pyright: ignore
        x, y, z = map(c.c_uint32, step.grid)
        return Call(
            pipeline.handle,
            convert("vkCmdBindPipeline", point, pipeline.handle),
            convert("vkCmdBindDescriptorSets", *bound) if sets else (),
            convert("vkCmdPushConstants", *push) if size else (),
            (x, y, z),
            number > self.routine.first and self.work.order[number],
            (handles,),
        )

    def _pack(self, moved: Sequence[int]) -> tuple[list[Copy], list[Copy], int]:
        """
        Returns copies of all inputs, copies of all outputs, and the end of the last copy in the
        staging buffer.

        `moved` has the number of bytes to copy for each input and output.
        """
        inputs = self.routine.inputs
        inside, end = pack(zip(inputs, moved, strict=False))
        outside, end = pack(zip(self.routine.outputs, moved[len(inputs) :], strict=True), end)
        return inside, outside, end

    def commands(self, recording: Recording, run: Run) -> int:
        """Returns the commands of a run, which are recorded if they differ from the last ones."""
        work, device, name = self.work, self.work.device, recording.name
        moved = self._count_moved(run) if self.in_one_go else ()
        key = tuple(run.numbers[number] for *_, number in self.routine.grids), moved, run.carried
        if key == recording.recorded:
            return work.commands[name]
        recording.recorded = None
        self._fill(run.numbers)
        if name not in work.commands:
            work.commands[name] = device.command_buffer()
        commands = work.commands[name]
        device.begin(commands)
        copy = partial(
            work._record_copies,  # pyright: ignore[reportPrivateUsage]
            commands,
            staging=recording.staging,
        )
        barrier = partial(work._barrier, commands)  # pyright: ignore[reportPrivateUsage]
        recording.inside, recording.outside, _ = self._pack(moved) if moved else ([], [], 0)
        # If the previous run is still running, the barrier before its last copies keeps its kernels
        # before these copies.
        self._carry(commands, run)
        copy(recording.inside, False)
        barrier(CHANGED, READING)
        self._write_calls(commands, recording)
        barrier(COMPUTED, COPYING)
        copy(recording.outside, True)
        barrier(COPIED, READ_BY_HOST)
        device.call("vkEndCommandBuffer", commands)
        recording.recorded = key
        return commands

    def _carry(self, commands: int, run: Run) -> None:
        """Records the copies of the previous run's outputs to inputs."""
        assert self.work.buffers is not None
        handles = self.work.buffers.handles
        for carried in run.carried:
            region = BufferCopy(size=carried.size)
            pair = handles[carried.output], handles[carried.input]
            self.device.call("vkCmdCopyBuffer", commands, *pair, 1, pointer(region))

    def _fill(self, numbers: Numbers) -> None:
        """Writes the sizes of a run (`numbers`) into grids and push constants."""
        first, most = self.routine.first, self.device.info.max_grid
        grids = self.routine.grids
        self._empty = frozenset(step - first for step, _, number in grids if numbers[number] < 1)
        for step, axis, number in grids:
            count = numbers[number]
            if count > most[axis]:
                raise MisfitError(
                    f"a grid has {count} workgroups, but {self.device.info.name} supports "
                    f"{most[axis]}",
                    f"dispatch of {self.work.work.steps[step].entry_point!r}",
                    "give smaller inputs, in several runs",
                )
            self.calls[step - first].grid[axis].value = max(count, 0)

    def _write_calls(self, commands: int, recording: Recording) -> None:
        if self._empty not in recording.listed:
            recording.listed[self._empty] = self._list_calls(c.c_void_p(commands))
        for function, arguments in recording.listed[self._empty]:
            function(*arguments)

    def _list_calls(self, commands: c.c_void_p) -> Listed:
        """Lists the driver calls (function, arguments) of the steps whose grids are not empty."""
        listed: Listed = []
        steps = self.work.work.steps[self.routine.first : self.routine.end]
        waits = False
        bound = None
        for number, (step, call) in enumerate(zip(steps, self.calls, strict=True)):
            waits = waits or call.is_ordered
            if step.once or number in self._empty:
                continue
            if waits:
                listed.append((self._barrier, self._ordered))
                waits = False
            if call.handle != bound:
                listed.append((self._bind, call.pipeline))
                bound = call.handle
            if call.sets:
                listed.append((self._bind_sets, call.sets))
            if call.push:
                listed.append((self._push, call.push))
            listed.append((self._dispatch, call.grid))
        return [(function, (commands, *arguments)) for function, arguments in listed]
