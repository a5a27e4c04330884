"""
Stores the state of a checked launch: findings, order of accesses, and masks of undefined memory.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import ModuleVariable
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.counters import Counters
from xdsl_spirv.interpreter.checks.findings import Findings
from xdsl_spirv.interpreter.checks.history import MemoryShadow
from xdsl_spirv.interpreter.checks.races import Races
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN, filled, shadow_form
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.variables import VariablePointer


class Checker(Findings):
    """State of the checks of one module while its functions run."""

    def __init__(self, context: Context, checks: Checks):
        super().__init__(context, checks)
        self.races = Races(self) if checks.races else None
        self.counters = Counters(checks.report) if checks.counters else None
        self.chunk: Batch = None  # pyright: ignore
        self.others: dict[Batch, tuple[dict[Operation, list[Array]], dict[str, Any] | None]] = {}
        """Maps a suspended batch to its divergent branches and the state of its race check."""

    def resume(self, chunk: Batch, batch: Batch) -> None:
        """
        Switches the checks to the batch that runs next. If its workgroups (`chunk`) are not the
        current ones, saves the state of the current workgroups and restores the state of `chunk`.
        """
        if self.chunk is not chunk:
            self.others[self.chunk] = self.partings, self.races and self.races.chunk()
            self.partings, races = self.others.pop(chunk)
            self.chunk = chunk
            if self.races is not None and races is not None:
                self.races.resume(races)
        self.batch = batch
        self.existing = batch.existing

    def report_release(self, op: Operation, lanes: Array) -> None:
        """Reports a load in a loop that waits for another workgroup to write (rule PROGRESS-01)."""
        self.find(
            "PROGRESS-01",
            op,
            "this read is polled in a loop until another workgroup writes: Vulkan does "
            "not promise that other workgroups make progress while one waits",
            where=lanes,
            remedy="split the work into two launches, or allow this rule if every device that "
            "the kernel is for schedules workgroups fairly",
        )

    def start(self, batch: Batch) -> None:
        """Begins the next group of workgroups that run together."""
        if self.context.waited:
            self.others[self.chunk] = self.partings, self.races and self.races.chunk()
            self.partings = {}
        self.chunk = self.batch = batch
        self.existing = batch.mask
        self.partings.clear()
        if self.races is not None:
            self.races.start(batch)
        if not self.checks.undefined:
            return
        for name, slot in self.context.global_slots.items():
            op = self.context.symbols[name]
            assert isinstance(op, ModuleVariable)
            pointer = batch.globals[slot]
            private = op.storage_class == StorageClass.Private
            if private and op.initializer is None and isinstance(pointer, VariablePointer):
                pointer.variable.shadow = filled(shadow_form(pointer.variable.form), UNWRITTEN)

    @contextmanager
    def of_whole_chunk(self, batch: Batch, lanes: Array) -> Generator[None]:
        """
        Context manager that makes `lanes` active, even if some of them belong to other batches.
        """
        own = batch.mask
        batch.mask, self.existing = lanes, self.chunk.existing
        yield
        batch.mask, self.existing = own, batch.existing

    def shadow_of(self, memory: Memory) -> MemoryShadow:
        """Returns the record of a memory's undefined bytes, and creates it on first use."""
        if memory.shadow is None:
            undefined = self.checks.undefined and memory.defined < memory.size
            memory.shadow = MemoryShadow(memory, undefined)
        return memory.shadow
