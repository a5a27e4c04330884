"""
Keeps work on a device between runs, as routines that share weights and states.

Runs of a routine differ in the sizes of grids, and in the copied parts of its inputs and outputs.
A run is one submission of commands, which are recorded again only if one of these changes. Memory
is reused while it is large enough.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    Bytes,
    LoadedWork,
    barriers,
)
from xdsl_spirv.runtime.vulkan.memory import (
    Buffers,
    Copy,
    Staging,
    from_staging,
    staged,
    to_staging,
)
from xdsl_spirv.runtime.vulkan.pipelines import Pipeline
from xdsl_spirv.runtime.vulkan.structures import MemoryBarrier
from xdsl_spirv.runtime.vulkan.work import SHARED, Routine, Step

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


class ResidentWork(LoadedWork):
    """Routines loaded on a device. `close` frees their resources."""

    kept: Buffers | None = None

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
        moved = sum(-(-b.size // 16) * 16 for b in work.named("input", "output"))
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
        self.device.free_command_buffers(self.commands.values())
        self.commands.clear()
        if self.descriptors is not None:
            self.descriptors.close()
        self.descriptors = None
        if self.buffers is not None:
            self.buffers.close()
        self.buffers = None

    def run_routine(
        self,
        name: str,
        numbers: Numbers,
        inputs: Mapping[str, Bytes],
        outputs: Numbers,
        timeout: float,
    ) -> dict[str, bytearray]:
        """
        Runs a routine; `numbers` are the sizes and push constants that differ between runs, and
        `outputs` the number of bytes to return of each output.

        Raises `DeviceTimeoutError` and `DeviceLostError`, after which the device must be closed.
        """
        assert self.staging is not None
        self.prepare(timeout)
        recorder = self.recorders[name]
        routine = recorder.routine
        views = {n: memoryview(inputs[n]).cast("B") for n in routine.inputs}
        moved = (*(views[n].nbytes for n in routine.inputs), *outputs)
        if not recorder.in_one_go:
            results = {n: bytearray(s) for n, s in zip(routine.outputs, outputs, strict=True)}
            for n, view in views.items():
                self._write_pieces(n, view, timeout)
            self.device.submit([recorder.commands(numbers, ())], timeout)
            for n, data in results.items():
                self._read_pieces(n, data, timeout)
            return results
        commands = recorder.commands(numbers, moved)
        for copy in recorder.inside:
            to_staging(self.staging, copy, views[copy.name])
        self.device.submit([commands], timeout)
        copied = {copy.name: bytearray(staged(self.staging, copy)) for copy in recorder.outside}
        return {name: copied.get(name, bytearray()) for name in routine.outputs}

    def _write_pieces(self, name: str, view: memoryview, timeout: float) -> None:
        assert self.staging is not None
        for piece in self._pieces(name, view.nbytes):
            to_staging(self.staging, piece, view)
            self._move(piece, False, timeout)

    def _read_pieces(self, name: str, data: bytearray, timeout: float) -> None:
        assert self.staging is not None
        for piece in self._pieces(name, len(data)):
            self._move(piece, True, timeout)
            from_staging(self.staging, piece, memoryview(data))

    def close(self) -> None:
        super().close()
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
    """Records the commands of one routine, which depend on numbers."""

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
        self._name = f"routine {routine.first}"
        self._recorded: tuple[Numbers, Numbers] | None = None
        """Grids and copied bytes of the recorded commands."""
        self.inside: list[Copy] = []
        self.outside: list[Copy] = []
        """The copies from and to the staging buffer."""
        self._empty: frozenset[int] = frozenset()
        """Indices of the steps whose grids are empty for the latest numbers."""
        self._listed: dict[frozenset[int], Listed] = {}
        """Recorded calls, by the set of empty steps."""

    def arrange(self) -> None:
        """Updates the calls for new descriptor sets and sizes. Discards all recorded commands."""
        self._recorded = None
        self._listed.clear()
        work, first = self.work, self.routine.first
        self.calls = [
            self._call(work.work.steps[n], work.steps[n], work.sets[n], self.blocks[n - first], n)
            for n in range(first, self.routine.end)
        ]
        names = (*self.routine.inputs, *self.routine.outputs)
        total = sum(-(-work.sizes[name] // 16) * 16 for name in names)
        assert work.staging is not None
        self.in_one_go = total <= work.staging.size

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

    def copies(self, moved: Sequence[int]) -> tuple[list[Copy], list[Copy]]:
        """Returns copies through the staging buffer, with offsets for the largest sizes."""
        inside: list[Copy] = []
        outside: list[Copy] = []
        at = 0
        names = (*self.routine.inputs, *self.routine.outputs)
        for number, (name, size) in enumerate(zip(names, moved, strict=True)):
            copies = inside if number < len(self.routine.inputs) else outside
            if size:
                copies.append(Copy(name, 0, at, size))
            at += -(-self.work.sizes[name] // 16) * 16
        return inside, outside

    def commands(self, numbers: Numbers, moved: Numbers) -> int:
        """Returns the commands of a run that copies this many bytes of each input and output."""
        work, device, name = self.work, self.work.device, self._name
        key = tuple(numbers[number] for *_, number in self.routine.grids), moved
        if key == self._recorded:
            return work.commands[name]
        self._recorded = None
        self._fill(numbers)
        if name not in work.commands:
            work.commands[name] = device.command_buffer()
        commands = work.commands[name]
        device.begin(commands)
        self.inside, self.outside = self.copies(moved) if moved else ([], [])
        work._record_copies(commands, self.inside, False)  # pyright: ignore[reportPrivateUsage]
        work._barrier(commands, CHANGED, READING)  # pyright: ignore[reportPrivateUsage]
        self._write_calls(commands)
        work._barrier(commands, COMPUTED, COPYING)  # pyright: ignore[reportPrivateUsage]
        work._record_copies(commands, self.outside, True)  # pyright: ignore[reportPrivateUsage]
        work._barrier(commands, COPIED, READ_BY_HOST)  # pyright: ignore[reportPrivateUsage]
        device.call("vkEndCommandBuffer", commands)
        self._recorded = key
        return commands

    def _fill(self, numbers: Numbers) -> None:
        """Writes the numbers into grids and push constants."""
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

    def _write_calls(self, commands: int) -> None:
        if self._empty not in self._listed:
            self._listed[self._empty] = self._list_calls(c.c_void_p(commands))
        for function, arguments in self._listed[self._empty]:
            function(*arguments)

    def _list_calls(self, commands: c.c_void_p) -> Listed:
        """Lists the driver's functions with arguments, without steps that have empty grids."""
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
