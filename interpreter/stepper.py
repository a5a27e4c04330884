"""
Controls a launch: stops before instructions, continues, and steps back.

The launch runs on its own thread. Before each instruction the thread calls a `Wish`, a function
that decides if the launch stops. At a stop, the thread calls a listener and waits for the next
`Wish`. To step back, the launch runs again from the start: since a launch is deterministic, the
same number of instructions leads to the same state. The first of two runs finds the target
instruction, and the second run stops there.

Invocations run in lockstep (batch.py), so all of them stop together. One of them is in focus. A
step ends where this invocation is active, or where any invocation of its subgroup or workgroup is
active (`follow`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from queue import SimpleQueue
from typing import Any, Literal, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation

from xdsl_spirv.dialects.spirv.control_flow import FunctionCallOp, SelectionOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks import places
from xdsl_spirv.interpreter.checks.report import Finding
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Step
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.source import source_of

Line: TypeAlias = tuple[str, int]
"""A source file ("" for the text of the module itself) and a line number."""

Follow: TypeAlias = Literal["invocation", "subgroup", "workgroup"]


class Abandoned(BaseException):
    """
    Exception that ends a run early. It derives from `BaseException`, so that error handlers do not
    catch it.
    """


def line_of(op: Operation) -> Line | None:
    """Returns the source file and line of an operation. Returns None if they are unknown."""
    source = source_of(op)
    if source is not None:
        return source.file, source.line
    number = places.line_of(op)
    return ("", number) if number else None


@dataclass(frozen=True)
class Frame:
    """A function that is being executed, with its current operation."""

    op: Operation
    env: Env
    compiler: Compiler


@dataclass(frozen=True)
class Moment:
    """
    The state of a run before its instruction `number`. `frames` begins with the innermost function.
    """

    number: int
    frames: tuple[Frame, ...]
    enters: bool
    """True if the instruction is the first one of a line."""
    finding: Finding | None = None

    @property
    def op(self) -> Operation:
        """The operation that runs next."""
        return self.frames[0].op

    @property
    def batch(self) -> Batch:
        """The invocations that run together."""
        return self.frames[0].env[WAVE]

    @property
    def depth(self) -> int:
        """Depth of the call stack."""
        return len(self.frames)

    def row(self, workgroup: int) -> int | None:
        """Returns the index of a workgroup in the batch, or None if it is in another batch."""
        row = workgroup - self.batch.first
        return row if 0 <= row < self.batch.workgroups else None

    def active(self, workgroup: int) -> Array:
        """Returns a mask of the workgroup's invocations that execute the instruction."""
        row, count = self.row(workgroup), self.batch.geometry.invocations
        if row is None:
            return np.zeros(count, np.bool_)
        full = np.broadcast_to(self.batch.active(), self.batch.shape)
        return full[row].reshape(-1)[:count]


Wish: TypeAlias = Callable[[Moment], str]
"""A function that decides if a run stops. Returns the reason for a stop, or "" to continue."""


@dataclass(frozen=True)
class End:
    """The end of a run. `error` is the reason why the launch failed, or None if it completed."""

    error: Exception | None = None


def follows(moment: Moment, focus: tuple[int, int], follow: Follow) -> bool:
    """
    True if a followed invocation is active. `follow` selects the invocation in focus, its subgroup,
    or its workgroup.
    """
    active, (_, invocation) = moment.active(focus[0]), focus
    if follow == "invocation":
        return bool(active[invocation])
    lanes = moment.batch.lanes
    first = invocation // lanes * lanes
    return bool((active if follow == "workgroup" else active[first : first + lanes]).any())


@dataclass
class Stepper:
    """
    Debugs `launch` (`Options.debug`). Runs the launch again to go back.

    The launch has its own thread, which calls `listen` with the state and the reason at each stop,
    and with an `End` at the end of the run.
    """

    launch: Callable[[Stepper], None]
    listen: Callable[[Moment | End, str], None]
    breaks_on_findings: bool = True
    at_instructions: bool = False
    """
    True to stop before any instruction. False to stop only where the line or the frame changes.
    """
    _count: int = 0
    _calls: list[Frame] = field(default_factory=list[Frame])
    _now: Frame | None = None
    _wish: Wish = lambda moment: ""
    _quiet: float = 0
    """Findings at instructions before this number do not stop the launch."""
    _entered: dict[int, tuple[Batch, Line, Operation]] = field(
        default_factory=dict[int, tuple[Batch, Line, Operation]]
    )
    _lines: dict[Block, Line] = field(default_factory=dict[Block, Line])
    _thread: threading.Thread | None = None
    _wishes: SimpleQueue[Wish | None] = field(default_factory=SimpleQueue["Wish | None"])
    last: dict[int, Array] = field(default_factory=dict[int, Array])
    """
    Maps the first workgroup of a batch to an array with one entry for each invocation: the index in
    `ops` of the last operation that began a line, or -1.
    """
    ops: list[Operation] = field(default_factory=list[Operation])
    _numbers: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def start(self, wish: Wish, quiet: float = 0) -> None:
        """
        Begins a run that stops where `wish` decides. Ignores findings before instruction `quiet`.
        """
        self._reset(wish, quiet)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go(self, wish: Wish) -> None:
        """Continues after a stop, until `wish` decides to stop again."""
        self._wishes.put(wish)

    def now(self) -> Moment | None:
        """
        Returns the state at the latest instruction. Returns None before the first instruction.
        """
        return None if self._now is None else self._moment(False)

    def end(self) -> None:
        """Ends a stopped run, if there is one."""
        if self._thread is not None:
            self._wishes.put(None)
            self._thread.join()
            self._thread = None

    def back(self, before: float, wish: Wish) -> None:
        """
        Goes back to the last instruction before instruction `before` at which `wish` stops. If
        there is none, goes back to the first line.
        """
        self.end()
        target, reason = 0, "entry"

        def note(moment: Moment) -> str:
            nonlocal target, reason
            if moment.number >= before:
                raise Abandoned
            if why := wish(moment) or (not target and moment.enters and reason):
                target, reason = moment.number, why
            return ""

        self._reset(note, inf)
        try:
            self.launch(self)
        except (Abandoned, Exception):
            pass  # The run fails as before.
        self.at_instructions = True
        target = target or (int(before) if before < inf else 1)
        self.start(lambda moment: reason if moment.number >= target else "", target)

    def _reset(self, wish: Wish, quiet: float) -> None:
        self._count, self._wish, self._now, self._quiet = 0, wish, None, quiet
        self._calls, self._entered, self._lines, self.last = [], {}, {}, {}
        self._wishes = SimpleQueue()

    def _run(self) -> None:
        try:
            self.launch(self)
        except Abandoned:
            return
        except Exception as error:  # The listener reports the failure.
            self.listen(End(error), "")
        else:
            self.listen(End(), "")

    def _stop(self, moment: Moment, reason: str) -> None:
        self.listen(moment, reason)
        wish = self._wishes.get()
        if wish is None:
            raise Abandoned
        self._wish = wish

    def attach(self, op: Operation, step: Step, compiler: Compiler) -> Step:
        """Wraps an operation's step so that it first decides about a stop."""
        line, begins = line_of(op), False
        assert op.parent is not None
        if line is not None:
            around = op.parent_op()
            outer = line_of(around) if isinstance(around, SelectionOp) else None
            begins = self._lines.get(op.parent, outer) != line
            self._lines[op.parent] = line
        is_call = isinstance(op, FunctionCallOp)

        def ask_before(env: Env) -> Any:
            self._count += 1
            frame = self._now = Frame(op, env, compiler)
            self._ask(line if begins else None)
            if not is_call:
                return step(env)
            self._calls.append(frame)
            self._entered.pop(len(self._calls), None)
            try:
                return step(env)
            finally:
                self._calls.pop()

        return ask_before

    attach_end = attach

    def check_reached(self) -> None:
        """Does nothing. Breakpoints were resolved before the launch."""

    def _ask(self, begun: Line | None) -> None:
        """
        Stops if the current `Wish` decides so. Records the current line of the active invocations.
        """
        frame, depth = self._now, len(self._calls)
        assert frame is not None
        enters = False
        if begun is not None:
            batch: Batch = frame.env[WAVE]
            before = self._entered.get(depth)
            enters = before is None or before[:2] != (batch, begun) or before[2] is frame.op
            if enters:
                self._entered[depth] = batch, begun, frame.op
                self._note_position(batch, frame.op)
        if not enters and not self.at_instructions:
            return
        moment = self._moment(enters)
        if reason := self._wish(moment):
            self._stop(moment, reason)

    def _moment(self, enters: bool, finding: Finding | None = None) -> Moment:
        assert self._now is not None
        return Moment(self._count, (self._now, *reversed(self._calls)), enters, finding)

    def _note_position(self, batch: Batch, op: Operation) -> None:
        last = self.last.get(batch.first)
        if last is None:
            last = self.last[batch.first] = np.full(batch.shape, -1, np.int32)
        number = self._numbers.setdefault(op, len(self.ops))
        if number == len(self.ops):
            self.ops.append(op)
        last[np.broadcast_to(batch.active(), batch.shape)] = number

    def report(self, finding: Finding, op: object) -> None:
        """Stops the launch at a finding of a check (`Checks.found`)."""
        if self.breaks_on_findings and self._now is not None and self._count >= self._quiet:
            self._stop(self._moment(False, finding), "exception")
