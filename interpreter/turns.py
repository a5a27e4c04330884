"""
Chooses the next batch to run, so that batches that wait let others run. Raises an error if all wait
forever.

A chunk of workgroups is one batch. It runs to its end before the next chunk begins, unless an
iteration of a loop makes no progress (waiting.py). Then the batch stops. Its workgroups without a
lane in the loop become a new batch that continues, and other batches take their turns. If no batch
makes progress, subgroups without a lane in the loop are split off. They run to the next barrier and
wait there. If this does not help, the next chunk begins.

Workgroups and subgroups therefore make progress independently, as on devices. Invocations of one
subgroup do not: Vulkan guarantees them no independent progress, and many devices run them in
lockstep. An error (WAIT-02) is raised if a loop waits for another invocation of its subgroup, but
that invocation can only continue after the loop.

The launch waits forever (WAIT-01) if all chunks have begun, and in a whole round no batch makes
progress and no byte of memory changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.structure import FuncOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context, Runnable
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.livelock import describe
from xdsl_spirv.interpreter.memory import Memory, Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.suspension import Stopped, Suspended
from xdsl_spirv.interpreter.waiting import Watch

PATIENCE = 4
"""Number of rounds without progress before the next chunk begins."""

GROUPS, SUBGROUPS, LANES = (1, 2), (2,), ()
"""
Ways to split a batch: into workgroups, subgroups or single invocations. Each way is the tuple of
the axes of (workgroup, subgroup, lane) that are not split.
"""


BARRIERS = (spv.ControlBarrierOp, spv.ControlBarrierWaitOp)


def parted_by(context: Context, function: Operation) -> spv.Scope:
    """Returns the smallest scope whose invocations must stay in one batch."""
    if not isinstance(function, FuncOp):
        return spv.Scope.Workgroup
    together = spv.Scope.Invocation
    for op in context.module.walk():
        scope = _scope(op, context)
        if scope == spv.Scope.Workgroup:
            return scope
        if scope is not None:
            together = scope
    return together


def _scope(op: Operation, context: Context) -> spv.Scope | None:
    """
    Returns the scope whose invocations must execute an operation together. Returns None if there is
    no such scope.
    """
    if isinstance(op, spv.MemoryBarrierOp | spv.ControlBarrierArriveOp):
        return None
    scope = op.properties.get("execution_scope")
    if scope is None:
        for value in (*op.operands, *op.results):
            if isinstance(value.type, spv.CooperativeMatrixType | spv.CooperativeMatrixNVType):
                scope = value.type.scope
    if scope is None:
        return None
    data = context.scope(scope) if not isinstance(scope, spv.ScopeAttr) else scope.data
    if data == spv.Scope.Invocation or (isinstance(op, BARRIERS) and data != spv.Scope.Subgroup):
        return None
    return spv.Scope.Subgroup if data == spv.Scope.Subgroup else spv.Scope.Workgroup


def chunk_size(context: Context, code: Runnable) -> int:
    """Returns the number of workgroups that fit the memory budget, but at least 1."""
    lanes = context.geometry.subgroups * context.geometry.lanes
    per_workgroup = code.lane_bytes * lanes + context.workgroup_bytes
    return max(1, int(context.options.memory.bytes // max(per_workgroup, 1)))


class Turn:
    """A batch that has not ended. `stopped` is None until the batch has stopped once."""

    def __init__(self, chunk: Batch, batch: Batch, stopped: Stopped | None = None):
        self.chunk = chunk
        self.batch = batch
        self.stopped = stopped
        self.reason: object = None
        self.repeats = False
        """True if the batch is in a loop that ends only after another batch writes."""
        self.others_ran = False
        """True if other batches of the same workgroups have run since the last stop."""

    @property
    def watch(self) -> Watch | None:
        """The loop in which the batch waits, or None."""
        return self.reason if isinstance(self.reason, Watch) else None

    @property
    def barrier(self) -> Operation | None:
        """The barrier at which the batch waits, or None."""
        return self.reason if isinstance(self.reason, Operation) else None

    def workgroups(self) -> Array:
        """Returns a mask of the workgroups that have lanes in this batch."""
        if self.stopped is None:
            return np.ones(self.batch.workgroups, np.bool_)
        return self.stopped.alive().any(axis=(1, 2))


class Turns:
    """The batches of a launch that have begun and not ended."""

    def __init__(
        self,
        context: Context,
        code: Runnable,
        arguments: Sequence[Any],
        together: Callable[[], spv.Scope],
        random: np.random.Generator | None = None,
    ):
        self.context = context
        self.code = code
        self.arguments = arguments
        self.together = together
        self.random = random
        self.turns: list[Turn] = []
        context.waited = False
        self.open_end = False
        """True if a stopped batch may progress although no other batch writes."""

    def run(self, chunk: Batch, batches: Sequence[Batch] = ()) -> None:
        """Starts the batches of a chunk. Runs until all batches have ended or wait."""
        for batch in batches or (chunk,):
            batch.pauses = True
            self.turns.append(Turn(chunk, batch))
        if self.context.checker is not None:
            self.context.checker.start(chunk)
        left = PATIENCE
        while self.turns and left:
            if not self._round():
                left = left - 1 if self.open_end else 0

    def finish(self) -> None:
        """Runs until all batches have ended. Raises `InterpreterError` if they wait forever."""
        before: list[Array] | None = None
        while self.turns:
            if self._round() or self.open_end:
                before = None
                continue
            memories = [memory.data for memory in self._memories()]
            if before is not None and all(map(np.array_equal, before, memories)):
                raise self._livelock()
            before = [data.copy() for data in memories]

    def _round(self) -> bool:
        """Runs each batch that is not at a barrier. Returns True if any batch progressed."""
        further = self.open_end = False
        turns = [turn for turn in self.turns if turn.barrier is None]
        if self.random is not None:
            turns = [turns[number] for number in self.random.permutation(len(turns))]
        for turn in turns:
            further |= self._go(turn)
        return bool(further or self._open_barriers() or self._part(SUBGROUPS))

    def _go(self, turn: Turn) -> bool:
        """Runs a batch until it ends or stops. Returns True if it progressed."""
        batch = turn.batch if turn.stopped is None else turn.stopped.resume()
        watch = turn.watch if turn.repeats and not turn.others_ran else None
        lanes = None if watch is None or turn.stopped is None else turn.stopped.here()
        if self.context.checker is not None:
            self.context.checker.resume(turn.chunk, batch)
            for other in self.turns if batch.apart else ():
                if other is not turn and other.chunk is turn.chunk:
                    other.others_ran |= bool((other.workgroups() & turn.workgroups()).any())
        try:
            self.code(batch, self.arguments)
        except Suspended as suspended:
            self.context.waited = True
            turn.batch, turn.reason = batch, suspended.reason
            turn.repeats, turn.others_ran = suspended.repeats, False
            if not suspended.idle:
                self._report_release(watch, lanes)
            turn.stopped = Stopped(batch, suspended)
            parted = turn.watch is not None and self._part_one(turn, GROUPS)
            self.open_end |= not suspended.repeats
            return bool(parted or (suspended.repeats and not suspended.idle))
        self.turns.remove(turn)
        self._report_release(watch, lanes)
        return True

    def _report_release(self, watch: Watch | None, lanes: Array | None) -> None:
        """
        Reports the wait of `lanes` in a loop, which ended because another workgroup wrote
        (PROGRESS-01).
        """
        checker = self.context.checker
        if checker is None or watch is None or lanes is None or not watch.decisive.for_workgroups():
            return
        read = next((value.owner for value in watch.pointers), watch.op)
        if isinstance(read, Operation) and self.context.geometry.workgroups > 1:
            checker.report_release(read, lanes)

    def _part(self, axes: tuple[int, ...]) -> bool:
        """
        Splits each waiting batch into the lanes that wait and the other lanes. Does not split along
        `axes`. Returns True if any batch was split.
        """
        if axes == SUBGROUPS and self.together() == spv.Scope.Workgroup:
            return False
        waiting = [turn for turn in self.turns if turn.watch is not None]
        return bool([turn for turn in waiting if self._part_one(turn, axes)])

    def _part_one(self, turn: Turn, axes: tuple[int, ...]) -> bool:
        assert turn.stopped is not None
        here = turn.stopped.here()
        stay = here.any(axis=axes, keepdims=True) if axes else here
        if not (turn.stopped.alive() & ~stay).any():
            return False
        stay = np.broadcast_to(stay, here.shape)
        others = self._split(turn, stay)
        others.reason = None
        if axes != GROUPS:
            turn.batch.apart = others.batch.apart = True
        return True

    def _split(self, turn: Turn, stay: Array) -> Turn:
        """Splits a turn: it retains the lanes `stay`. Returns a new turn with the other lanes."""
        assert turn.stopped is not None
        stopped = turn.stopped.part(~stay)
        turn.stopped = turn.stopped.part(stay)
        turn.batch = turn.stopped.batch
        others = Turn(turn.chunk, stopped.batch, stopped)
        others.reason = turn.reason
        self.turns.insert(self.turns.index(turn), others)
        return others

    def _open_barriers(self) -> bool:
        """
        Releases the workgroups whose lanes are all at barriers. Returns True if there are any.
        """
        released: list[Turn] = []
        for turn in [turn for turn in self.turns if turn.barrier is not None]:
            blocked = np.zeros(turn.batch.workgroups, np.bool_)
            for other in self.turns:
                if other.chunk is turn.chunk and other.barrier is None and other not in released:
                    blocked |= other.workgroups()
            own = turn.workgroups()
            if (own & ~blocked).any():
                if (own & blocked).any():
                    self._split(turn, np.broadcast_to(~blocked[:, None, None], turn.batch.shape))
                released.append(turn)
        for turn in released:
            self._meet(turn, released)
        for turn in released:
            turn.reason = None
        return bool(released)

    @staticmethod
    def _meet(turn: Turn, released: Sequence[Turn]) -> None:
        """
        Prepares a released batch to execute its barrier. The first batch at the barrier executes it
        for all of them.
        """
        all_here = [other for other in released if other.chunk is turn.chunk]
        same = [other for other in all_here if other.barrier is turn.barrier]
        assert turn.stopped is not None
        lanes = turn.stopped.here()
        if same[0] is not turn:
            turn.batch.meets = np.zeros_like(lanes)
            return
        for other in same[1:]:
            assert other.stopped is not None
            if other.batch.shape == turn.batch.shape:
                lanes = lanes | other.stopped.here()
        turn.batch.meets = lanes

    def _memories(self) -> list[Memory]:
        """Returns all memory that batches share."""
        variables = [one for turn in self.turns for one in turn.chunk.globals]
        local = {id(one.memory): one.memory for one in variables if isinstance(one, Pointer)}
        buffers = {id(memory): memory for memory in self.context.memories.all()}
        return [*{**local, **buffers}.values()]

    def _livelock(self) -> InterpreterError:
        turns = [(turn, turn.stopped) for turn in self.turns if turn.stopped is not None]
        waiting = [(turn.watch, stopped) for turn, stopped in turns if turn.watch is not None]
        barriers = [(turn.barrier, stopped) for turn, stopped in turns if turn.barrier is not None]
        return describe(self.context, waiting, barriers, self._lanes_help())

    def _lanes_help(self) -> bool:
        """True if running the invocations of a subgroup separately would allow progress."""
        waiting = [turn for turn in self.turns if turn.watch is not None]
        if not self._part(LANES):
            return False
        try:
            for turn in [turn for turn in self.turns if turn.reason is None]:
                self._go(turn)
            return any([self._go(turn) for turn in waiting])
        except InterpreterError:
            return False
