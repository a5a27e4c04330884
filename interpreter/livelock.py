"""
What to say of a launch in which everybody waits: who waits in which loop, for which memory, and
which instructions would have to write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.suspension import Stopped
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.waiting import Watch

SHOWN = 4
"""How many loops, reads and instructions a message names."""

WRITERS = ("Store", "Atomic", "CopyMemory")
"""Parts of the names of instructions that write."""


class Described:
    """The lines about one launch."""

    def __init__(self, unit: Unit):
        self.unit = unit

    def loop(self, watch: Watch, stopped: Sequence[Stopped]) -> list[str]:
        """Who waits in a loop, and for what."""
        found = [f"{_who(stopped)} in the loop that {places.describe(watch.op)} repeats"]
        for value, slot in [*watch.pointers.items()][:SHOWN]:
            found += self.read(value, slot, stopped[0])
        return found

    def read(self, value: SSAValue, slot: int, stopped: Stopped) -> list[str]:
        """What an instruction of the loop reads, and who could write it."""
        op = value.owner
        assert isinstance(op, Operation)
        env = stopped.frames[0].env
        pointer, read = env[slot], env[self._slot_of(stopped, value)]
        if not isinstance(pointer, Pointer):
            return [f"  it reads at {places.describe(op)}"]
        name = pointer.memory.label or "memory"
        byte, number = _first(pointer.address(), stopped), _first(read, stopped)
        shown = f", which is {number}" if number is not None else ""
        return [
            f"  it reads byte {byte} of {name}{shown}, at {places.describe(op)}",
            *self.writers(op, value),
        ]

    def _slot_of(self, stopped: Stopped, value: SSAValue) -> int:
        frame: Any = stopped.frames[0]
        return frame.flow.compiler.slot(value)

    def writers(self, read: Operation, value: SSAValue) -> list[str]:
        """The instructions that write the variable which is read."""
        from xdsl_spirv.interpreter.checks.races import root_of

        pointer = next(o for o in read.operands if root_of(o) is not None or o is read.operands[0])
        root = root_of(pointer)
        if root is None:
            return []
        ops = [
            op
            for op in self.unit.module.walk()
            if any(part in op.name for part in WRITERS)
            and op is not read
            and op.operands
            and root_of(op.operands[0]) == root
            and not op.name.endswith("AtomicLoad")
        ]
        if not ops:
            return [f"  nothing else in the module writes @{root}"]
        more = f" and {len(ops) - SHOWN} more" if len(ops) > SHOWN else ""
        return ["  written by " + "; ".join(map(places.describe, ops[:SHOWN])) + more]


def _who(stopped: Sequence[Stopped]) -> str:
    """The invocations that have stopped: the first, and how many more."""
    here = [one.here() for one in stopped]
    count = sum(int(lanes.sum()) for lanes in here)
    wave = stopped[0].wave
    workgroup, subgroup, lane = np.argwhere(here[0])[0]
    place = places.place(wave, workgroup, subgroup, lane)
    more = f" and {count - 1} more wait" if count > 1 else " waits"
    return f"invocation {place.invocation} of workgroup {place.workgroup}{more}"


def _first(value: Any, stopped: Stopped) -> Any:
    """A value in the first lane that has stopped; None of what is no number."""
    if not isinstance(value, np.ndarray) or value.ndim != 3:
        return None
    array: Array = np.broadcast_to(value, stopped.wave.shape)  # pyright: ignore
    return array[tuple(np.argwhere(stopped.here())[0])]


def describe(
    unit: Unit,
    waiting: Sequence[tuple[Watch, Stopped]],
    barriers: Sequence[tuple[Operation, Stopped]],
    lanes_help: bool,
) -> InterpreterError:
    """The error of a launch whose waves wait in loops and at barriers."""
    described = Described(unit)
    lines: list[str] = []
    by_loop: dict[Watch, list[Stopped]] = {}
    for watch, stopped in waiting:
        by_loop.setdefault(watch, []).append(stopped)
    for watch, several in [*by_loop.items()][:SHOWN]:
        lines += described.loop(watch, several)
    for op, stopped in barriers[:SHOWN]:
        lines.append(f"{_who([stopped])} at the barrier {places.describe(op)}")
    watch = waiting[0][0]
    if lanes_help:
        cause = "WAIT-02: invocations wait for others of their own subgroup"
        remedy = (
            "invocations of a subgroup need not make progress independently (many devices run them "
            "in lockstep): let one invocation wait for all of them, or do what the others wait for "
            "inside the loop"
        )
    else:
        cause = "WAIT-01: everybody who is left waits for what nobody will write"
        remedy = "let somebody write it before waiting, and launch all who are waited for"
    return InterpreterError(cause + "".join(f"\n  {line}" for line in lines), watch.op, remedy)
