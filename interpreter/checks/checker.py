"""
What a checked launch knows: its findings, the order of its accesses, and the memory's shadows.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.structure import ModuleVariable
from xdsl_spirv.interpreter.checks.counters import Counters
from xdsl_spirv.interpreter.checks.findings import Findings
from xdsl_spirv.interpreter.checks.history import MemoryShadow
from xdsl_spirv.interpreter.checks.races import Races
from xdsl_spirv.interpreter.checks.report import Checks
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN, filled, shadow_form
from xdsl_spirv.interpreter.memory import Memory
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.variables import VariablePointer
from xdsl_spirv.interpreter.wave import Wave


class Checker(Findings):
    """Looks on while the functions of one unit run."""

    def __init__(self, unit: Unit, checks: Checks):
        super().__init__(unit, checks)
        self.races = Races(self) if checks.races else None
        self.counters = Counters(checks.report) if checks.counters else None
        self.chunk: Wave = None  # pyright: ignore
        self.others: dict[Wave, tuple[dict[Operation, list[Array]], dict[str, Any] | None]] = {}
        """What was known of chunks that wait."""

    def resume(self, chunk: Wave, wave: Wave) -> None:
        """A wave of a chunk runs, perhaps after waves of others."""
        if self.chunk is not chunk:
            self.others[self.chunk] = self.partings, self.races and self.races.chunk()
            self.partings, races = self.others.pop(chunk)
            self.chunk = chunk
            if self.races is not None and races is not None:
                self.races.resume(races)
        self.wave = wave
        self.existing = wave.existing

    def start(self, wave: Wave) -> None:
        """A new chunk of workgroups."""
        if self.unit.waited:
            self.others[self.chunk] = self.partings, self.races and self.races.chunk()
            self.partings = {}
        self.chunk = self.wave = wave
        self.existing = wave.mask
        self.partings.clear()
        if self.races is not None:
            self.races.start(wave)
        if not self.checks.undefined:
            return
        for name, slot in self.unit.global_slots.items():
            op = self.unit.symbols[name]
            assert isinstance(op, ModuleVariable)
            pointer = wave.globals[slot]
            private = op.storage_class == StorageClass.Private
            if private and op.initializer is None and isinstance(pointer, VariablePointer):
                pointer.variable.shadow = filled(shadow_form(pointer.variable.form), UNWRITTEN)

    @contextmanager
    def of_whole_chunk(self, wave: Wave, lanes: Array) -> Generator[None]:
        """What follows is executed for these lanes, which may be in several waves of the chunk."""
        own = wave.mask
        wave.mask, self.existing = lanes, self.chunk.existing
        yield
        wave.mask, self.existing = own, wave.existing

    def shadow_of(self, memory: Memory) -> MemoryShadow:
        """What is known of a memory."""
        if memory.shadow is None:
            undefined = self.checks.undefined and not memory.defined
            memory.shadow = MemoryShadow(memory, undefined)
        return memory.shadow
