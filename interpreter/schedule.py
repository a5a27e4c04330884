"""
Invocations in another order than lockstep: what a device may do, so that races change results.

A schedule shuffles the workgroups and cuts them into chunks of its own. Within a chunk the
workgroups' invocations are dealt out to parts, which run one after the other, each until the next
barrier of the workgroup or its end: whatever a part does before a barrier it does before another
part does anything, or after the other part has done it all. So a store that a barrier should keep
apart from a load falls on the wrong side of it in one of a few schedules.

Where a module has instructions over subgroups, a part has whole subgroups; where it has some over
workgroups beside barriers, there is one part. Each part is a wave of its own on a thread of its
own, of which one runs at a time: that is how compiled closures stop at a barrier. A part that runs
for long without reaching one, because it waits for what another part writes, lets the others run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.spirv.attributes import ScopeAttr
from xdsl_spirv.dialects.spirv.barrier import ControlBarrierOp, MemoryBarrierOp
from xdsl_spirv.dialects.spirv.enums import Scope
from xdsl_spirv.dialects.spirv.kernel import ControlBarrierArriveOp, ControlBarrierWaitOp
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.dialects.spirv.types_declared import CooperativeMatrixNVType
from xdsl_spirv.interpreter.code import Code
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.launch import chunk_size
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.steps import Steps
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave

BARRIERS = (ControlBarrierOp, ControlBarrierWaitOp)
PARTS = 4
"""Into how many parts a chunk's invocations are dealt."""
CHUNK = 4
"""The largest number of workgroups that a schedule runs together."""
QUANTUM = 2000
"""After so many blocks without a barrier others run."""
BLOCKS = 10_000_000
"""How many blocks a scheduled launch executes unless its options say otherwise (STEP-01)."""


@dataclass(frozen=True)
class Schedule:
    """An order of workgroups and of parts of them; equal seeds give equal orders."""

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InterpreterError(
                f"a schedule's seed of {self.seed}", "Schedule.seed", "give a number from 0 on"
            )


class Turns(Steps):
    """Counts blocks, and lets other parts run after many of them."""

    def __init__(self, limit: int):
        super().__init__(limit)
        self.quantum = QUANTUM
        self.part: Part | None = None

    def take(self, op: Operation) -> None:
        super().take(op)
        self.quantum -= 1
        if self.quantum <= 0 and self.part is not None:
            self.quantum = QUANTUM
            self.part.pause(waits=False)


class Stopped(BaseException):
    """Ends the thread of a part whose launch has failed."""


class Part:
    """
    Invocations that run in lockstep, on a thread that runs while `resume` waits for it.

    `waits` says that it has come to a barrier, `finished` that it has ended; `error` is what it
    raised.
    """

    def __init__(self, body: Callable[[], None]):
        self.body = body
        self.waits = False
        self.finished = False
        self.error: BaseException | None = None
        self.stopped = False
        """Whether the launch has failed and the thread is to end."""
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.stopped:
                with np.errstate(all="ignore"):
                    self.body()
        except Stopped:
            pass
        except BaseException as error:
            self.error = error
        self.finished = True
        self._back.release()

    def resume(self) -> None:
        """Run until the part pauses or ends; raises what it raised."""
        self.waits = False
        self._go.release()
        self._back.acquire()
        if self.error is not None:
            raise self.error

    def pause(self, waits: bool) -> None:
        """On the part's thread: let others run."""
        self.waits = waits
        self._back.release()
        self._go.acquire()
        if self.stopped:
            raise Stopped

    def stop(self) -> None:
        """End the thread wherever it is."""
        if not self.finished:
            self.stopped = True
            self._go.release()
            self._back.acquire()
        self._thread.join()


def parted_by(unit: Unit, function: Operation) -> Scope:
    """The least scope whose invocations stay together: Invocation, Subgroup or Workgroup."""
    if not isinstance(function, FuncOp):
        return Scope.Workgroup
    together = Scope.Invocation
    for op in unit.module.walk():
        scope = _scope(op, unit)
        if scope == Scope.Workgroup:
            return scope
        if scope is not None:
            together = scope
    return together


def _scope(op: Operation, unit: Unit) -> Scope | None:
    """The scope whose invocations execute an operation as one; None for a single invocation."""
    if isinstance(op, MemoryBarrierOp | ControlBarrierArriveOp):
        return None
    scope = op.properties.get("execution_scope")
    if scope is None:
        for value in (*op.operands, *op.results):
            if isinstance(value.type, CooperativeMatrixType | CooperativeMatrixNVType):
                scope = value.type.scope
    if scope is None:
        return None
    found = unit.scope(scope) if not isinstance(scope, ScopeAttr) else scope.data
    if found == Scope.Invocation or (isinstance(op, BARRIERS) and found != Scope.Subgroup):
        return None
    return Scope.Subgroup if found == Scope.Subgroup else Scope.Workgroup


def run_scheduled(
    unit: Unit, function: Operation, arguments: Sequence[Any], workgroups: int | None
) -> None:
    """Run a function for the first workgroups of the launch, or all, as the options' schedule."""
    schedule = unit.options.schedule
    assert schedule is not None
    unit.steps = Turns(unit.options.max_steps or BLOCKS)
    code = compile_function(function, unit)
    random, total = np.random.default_rng(schedule.seed), unit.geometry.workgroups
    order = random.permutation(total if workgroups is None else min(workgroups, total))
    together = parted_by(unit, function)
    largest, at = min(CHUNK, chunk_size(unit, code)), 0
    while at < order.size:
        size = int(random.integers(1, largest + 1))
        wave = Wave.of(unit.geometry, np.sort(order[at : at + size]))
        at += size
        with np.errstate(all="ignore"):
            _run_chunk(unit, code, arguments, wave, together, random)


def _run_chunk(
    unit: Unit,
    code: Code,
    arguments: Sequence[Any],
    wave: Wave,
    together: Scope,
    random: np.random.Generator,
) -> None:
    wave.globals = unit.wave_globals(wave)
    waves = [wave]
    if together == Scope.Subgroup:
        waves = [wave.subgroups_only(chosen) for chosen in _dealt(random, wave.subgroups)]
    elif together == Scope.Invocation:
        waves = [wave.lanes_only(lanes) for lanes in _lanes(random, wave)]
    for each in waves:
        if each is not wave:
            each.globals = _globals(unit, wave, each)
    parts = [Part(lambda each=each: code(each, arguments)) for each in waves]
    for part, each in zip(parts, waves, strict=True):
        each.part = part
    try:
        _take_turns(parts, unit.steps, random)
    finally:
        for part in parts:
            part.stop()


def _take_turns(parts: list[Part], steps: Steps | None, random: np.random.Generator) -> None:
    """Run all parts to the next barrier, in an order that is another each time, until all end."""
    while left := [part for part in parts if not part.finished]:
        while ready := [part for part in left if not part.waits and not part.finished]:
            for number in random.permutation(len(ready)):
                if isinstance(steps, Turns):
                    steps.part, steps.quantum = ready[number], QUANTUM
                ready[number].resume()
        for part in left:
            part.waits = False


def _dealt(random: np.random.Generator, count: int) -> list[Array]:
    """Numbers below `count`, in at most PARTS ascending lists, none empty."""
    numbers = random.permutation(count)
    return [np.sort(chosen) for chosen in np.array_split(numbers, min(PARTS, count))]


def _lanes(random: np.random.Generator, wave: Wave) -> list[Array]:
    """Masks (1, s, l) that part a workgroup's invocations."""
    masks: list[Array] = []
    for chosen in _dealt(random, wave.geometry.invocations):
        lanes = np.zeros(wave.subgroups * wave.lanes, np.bool_)
        lanes[chosen] = True
        masks.append(lanes.reshape(1, wave.subgroups, wave.lanes))
    return masks


def _globals(unit: Unit, whole: Wave, part: Wave) -> list[Any]:
    """A part's variables: Workgroup memory is that of the whole workgroup."""
    found: list[Any] = []
    for create, made in zip(unit.creators, whole.globals, strict=True):
        shared = isinstance(made, Pointer) and made.memory.rows == "workgroup"
        found.append(made if shared else create(part))
    return found
