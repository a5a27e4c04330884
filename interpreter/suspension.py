"""
Suspends and resumes batches. The position of a suspended batch in the program is stored as data.

Compiled code consists of closures that call each other, so the position of a running batch is
Python's stack. A batch stops by raising `Suspended`: while the exception propagates, each function
call and each region adds a frame with its position. To continue, the function is called again with
these frames (`Batch.resuming`). Each call and region takes its frame and continues there, which
rebuilds the same Python stack. A batch that never stops only pays for testing an empty list.

Since the position is data, a batch can also be split (`Stopped.part`): some lanes continue and the
others remain stopped. Each part gets the frames that contain its lanes. The parts share all values
and variables: a value is never changed in place, and a variable only in active lanes.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from xdsl.ir import Block, SSAValue

from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.forms import Mask, within
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Env


class RunningRegion(Protocol):
    """Interface of the running region that a frame refers to (flow.py)."""

    numbers: dict[Block, int]
    blocks: list[Any]
    exits: int

    def forget(self, env: Env) -> None:
        """
        Discards the recorded iterations of loops. They serve to detect loops that wait for other
        invocations.
        """
        ...

    def exit(self, env: Env, number: int) -> int:
        """Sends the active lanes, which leave inner regions, to a block of this region."""
        ...

    def slot(self, value: SSAValue) -> int:
        """Returns the slot of a value of the function."""
        ...


@dataclass(frozen=True)
class CallFrame:
    """A call of a function by the lanes `mask`. `finished` is True if all of them have returned."""

    env: Env
    mask: Mask
    partial: bool
    finished: bool = False


@dataclass(frozen=True)
class FlowFrame:
    """
    Saved position of a region in execution: step `at` of block `number`.

    If `at` is behind the last step, the terminator is next. `abandoned` is True if no lanes of the
    block are left. After a divergence, `waiting` maps blocks to the lanes that wait there.
    Otherwise, it is None.
    """

    flow: RunningRegion
    env: Env
    number: int
    at: int
    outer_partial: bool = False
    waiting: dict[int, Mask] | None = None
    whole: Mask = None
    departures: int = 0
    abandoned: bool = False

    def proceed(self, env: Env, batch: Batch) -> None:
        """Runs the rest of the block."""
        if self.abandoned:
            batch.nobody = True
        else:
            self.flow.blocks[self.number].run_from(env, self.at)


class Suspended(BaseException):
    """
    Exception that stops a batch before a barrier, or in a loop that waits.

    `reason` is the barrier's operation or the `Watch` of the loop. `idle` is True if nothing
    changed since the last stop at this point. `repeats` is True if nothing will change until other
    invocations write.
    """

    def __init__(self, reason: object, idle: bool = False, repeats: bool = True):
        super().__init__()
        self.reason = reason
        self.idle = idle
        self.repeats = repeats
        self.frames: list[CallFrame | FlowFrame] = []
        self.at: int | None = None

    def leave_call(self, env: Env, mask: Mask, partial: bool) -> None:
        """Saves the position in a function call. Called when the exception leaves the call."""
        self.frames.append(CallFrame(env, mask, partial))

    def leave_parted(
        self,
        flow: RunningRegion,
        env: Env,
        number: int,
        waiting: dict[int, Mask],
        whole: Mask,
        since: int,
    ) -> None:
        """
        Saves the position in a region whose lanes have diverged. Called when the exception leaves
        the region.
        """
        self.frames.append(
            FlowFrame(flow, env, number, self._at(flow, number), False, waiting, whole, since)
        )

    def leave(self, flow: RunningRegion, env: Env, number: int, outer_partial: bool) -> None:
        """
        Saves the position in a region, which will continue in block `number`. Called when the
        exception leaves the region.
        """
        last = self.frames[-1] if self.frames else None
        if isinstance(last, FlowFrame) and last.flow is flow and last.env is env:
            self.frames[-1] = replace(last, outer_partial=outer_partial)
        else:
            at = self._at(flow, number)
            self.frames.append(FlowFrame(flow, env, number, at, outer_partial))

    def _at(self, flow: RunningRegion, number: int) -> int:
        at, self.at = self.at, None
        return len(flow.blocks[number].steps) if at is None else at


class Stopped:
    """A batch that has stopped, with its frames. The innermost frame is first."""

    def __init__(self, batch: Batch, suspended: Suspended):
        self.batch = batch
        self.mask = batch.mask
        self.frames = suspended.frames

    def resume(self) -> Batch:
        """Prepares the batch so that calling its function continues execution, and returns it."""
        batch = self.batch
        batch.mask, batch.nobody = self.mask, False
        batch.resuming = [*self.frames]
        return batch

    def here(self) -> Array:
        """Returns a mask of the lanes that stopped at the innermost frame."""
        return _full(self.mask, self.batch)

    def alive(self) -> Array:
        """Returns a mask of the lanes that have not returned from the entry point."""
        batch, held = self.batch, self.here()
        for frame in self.frames[:-1]:
            if isinstance(frame, CallFrame):
                held = held | _full(frame.mask, batch)
                continue
            exits = frame.env[frame.flow.exits] or ()
            for mask in (*(frame.waiting or {}).values(), *(mask for _, mask in exits)):
                held = held | mask
        return held

    def part(self, lanes: Array) -> Stopped:
        """Returns a copy that contains only the lanes of the mask `lanes`."""
        part = copy(self)
        part.batch = copy(self.batch)
        part.mask = within(self.mask, lanes)
        part.batch.existing = within(self.batch.existing, lanes)
        stay = bool(part.mask.any())
        envs: dict[int, Env] = {}
        part.frames = []
        for frame in self.frames:
            env = envs.setdefault(id(frame.env), [*frame.env])
            env[0] = part.batch
            kept = _part_of(frame, env, lanes, stay)
            if kept is not None and (stay or frame is not self.frames[-1]):
                part.frames.append(kept)
                stay = True
        return part


def _part_of(
    frame: CallFrame | FlowFrame, env: Env, lanes: Array, stay: bool
) -> CallFrame | FlowFrame | None:
    """Returns a copy of a frame that contains only `lanes`. Returns None if no lane is left."""
    if isinstance(frame, CallFrame):
        mask = within(frame.mask, lanes)
        if not mask.any():
            return None
        return replace(frame, env=env, mask=mask, finished=frame.finished or not stay)
    if not stay:
        frame.flow.forget(env)
    slot = frame.flow.exits
    exits = [(number, mask & lanes) for number, mask in env[slot] or ()]
    env[slot] = exits = [(number, mask) for number, mask in exits if mask.any()] or None
    waiting = frame.waiting
    if waiting is not None:
        waiting = {number: within(mask, lanes) for number, mask in waiting.items()}
        waiting = {number: mask for number, mask in waiting.items() if mask.any()}
    if not (stay or exits or waiting):
        return None
    return replace(
        frame,
        env=env,
        waiting=waiting,
        whole=within(frame.whole, lanes),
        abandoned=frame.abandoned or not stay,
    )


def _full(mask: Mask, batch: Batch) -> Array:
    return np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
