"""Explains a launch in which all invocations wait: loops, awaited memory, and possible writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv.atomic import AtomicLoadOp
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.dialects.spirv.memory import AccessChainOp, InBoundsAccessChainOp
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.pointers import DIRECT_STORES, is_shared, root_of
from xdsl_spirv.interpreter.suspension import FlowFrame, Stopped
from xdsl_spirv.interpreter.waiting import Watch

SHOWN = 4
"""Maximum number of loops, reads and instructions that a message lists."""


class Described:
    """Writes the lines of an error message for one launch."""

    def __init__(self, context: Context):
        self.context = context

    def loop(self, watch: Watch, stopped: Sequence[Stopped]) -> list[str]:
        """Describes the invocations that wait in a loop, and their reads."""
        if not watch.pointers:
            return [f"{_who(stopped)} in the loop that ends at {places.describe(watch.op)}"]
        lines = [f"{_who(stopped)} in a loop:"]
        for value, slot in [*watch.pointers.items()][:SHOWN]:
            lines += self.read(value, slot, stopped[0])
        return lines

    def read(self, value: SSAValue, slot: int, stopped: Stopped) -> list[str]:
        """Describes a read in the loop, and the instructions that could write its memory."""
        op, frame = value.owner, stopped.frames[0]
        assert isinstance(op, Operation)
        assert isinstance(frame, FlowFrame)
        pointer, read = frame.env[slot], frame.env[frame.flow.slot(value)]
        where = places.describe(op)
        if not isinstance(pointer, Pointer):
            return [f"  it reads at {where}"]
        byte, number = _first(pointer.address(), stopped), _first(read, stopped)
        shown = f", which is {number}," if number is not None else ""
        name = pointer.memory.label or "memory"
        return [f"  it reads byte {byte} of {name}{shown} at {where}", *self.writers(op)]

    def writers(self, read: Operation) -> list[str]:
        """
        Lists the other instructions that may write the memory of a read. Returns no lines if the
        memory is not known.
        """
        pointer = next(operand for operand in read.operands if is_shared(operand))
        root, path = _path(pointer)
        if root is None:
            return []
        ops = [
            op for op in self.context.module.walk() if op is not read and _writes(op, root, path)
        ]
        if not ops:
            return ["  no other instruction in the module writes this memory"]
        lines = [f"  this memory is written at {places.describe(op)}" for op in ops[:SHOWN]]
        more = f"  and at {len(ops) - SHOWN} other instructions"
        return [*lines, more] if len(ops) > SHOWN else lines


def _writes(op: Operation, root: str, path: Sequence[int | None]) -> bool:
    if isinstance(op, AtomicLoadOp) or not isinstance(op, DIRECT_STORES) or not op.operands:
        return False
    other, other_path = _path(op.operands[0])
    pairs = zip(path, other_path, strict=False)
    return other == root and all(a is None or b is None or a == b for a, b in pairs)


def _path(pointer: SSAValue) -> tuple[str | None, list[int | None]]:
    """
    Returns the module variable that a pointer leads to (None if unknown), and the indices of its
    access chain (None for an unknown index).
    """
    path: list[int | None] = []
    owner = pointer.owner
    while isinstance(owner, AccessChainOp | InBoundsAccessChainOp):
        path = [*(constant_integer(index) for index in owner.indexes), *path]
        owner = owner.base.owner
    return root_of(pointer), path


def _who(stopped: Sequence[Stopped]) -> str:
    here = [one.here() for one in stopped]
    count = sum(int(lanes.sum()) for lanes in here)
    batch = stopped[0].batch
    workgroup, subgroup, lane = np.argwhere(here[0])[0]
    place = places.place(batch, workgroup, subgroup, lane)
    more = f" and {count - 1} more wait" if count > 1 else " waits"
    return f"invocation {place.invocation} of workgroup {place.workgroup}{more}"


def _first(value: Any, stopped: Stopped) -> Any:
    """Returns a value in the first stopped lane. Returns None for a value that is not a number."""
    if not isinstance(value, np.ndarray) or value.ndim != 3:
        return None
    array: Array = np.broadcast_to(value, stopped.batch.shape)  # pyright: ignore
    return array[tuple(np.argwhere(stopped.here())[0])]


def describe(
    context: Context,
    waiting: Sequence[tuple[Watch, Stopped]],
    barriers: Sequence[tuple[Operation, Stopped]],
    lanes_help: bool,
) -> InterpreterError:
    """Creates the error for a launch whose batches all wait in loops and at barriers."""
    described = Described(context)
    lines: list[str] = []
    by_loop: dict[Watch, list[Stopped]] = {}
    for watch, stopped in waiting:
        by_loop.setdefault(watch, []).append(stopped)
    for watch, several in [*by_loop.items()][:SHOWN]:
        lines += described.loop(watch, several)
    for op in [*dict.fromkeys(op for op, _ in barriers)][:SHOWN]:
        several = [stopped for other, stopped in barriers if other is op]
        lines.append(f"{_who(several)} at the barrier {places.describe(op)}")
    first = next(iter(waiting[0][0].pointers), None)
    place = waiting[0][0].op if first is None else first.owner
    assert isinstance(place, Operation)
    if lanes_help:
        cause = "WAIT-02: invocations wait for others of their own subgroup"
        remedy = (
            "invocations of a subgroup need not make progress independently (many "
            "devices run them in lockstep): let one invocation wait for all of them, or "
            "do the awaited work inside the loop"
        )
    else:
        cause = "WAIT-01: all invocations that are left wait for a write that will not come"
        remedy = "let invocations write before they wait, and launch every awaited invocation"
    return InterpreterError(cause + "".join(f"\n  {line}" for line in lines), place, remedy)
