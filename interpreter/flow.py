"""
Compiles regions with branches. Blocks run for all lanes while lanes agree, and under masks after
divergence.

A block has a higher number than its predecessors. The blocks after a loop have higher numbers than
all blocks of the loop. While all lanes take the same branches, running a region means following
block numbers. After a divergent branch, each lane waits at its next block. The lowest-numbered
block with waiting lanes runs next, for these lanes only. Lanes therefore join again where the
branches merge, and lanes that leave a loop wait until the other lanes leave it.

A branch's operands become the arguments of the target block (SPIR-V uses phis for this).

A break or continue may leave several nested regions at once. Its lanes are then recorded at the
region of the target block. They continue there when the construct that contains the branch is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from xdsl_spirv.dialects.spirv.control_flow import Construct
from xdsl_spirv.dialects.spirv.exits import ExitOp
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.code import WAVE, Compiler, Env, Step, Steps
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, merger
from xdsl_spirv.interpreter.semantics import TABLE
from xdsl_spirv.interpreter.suspension import FlowFrame, Suspended
from xdsl_spirv.interpreter.waiting import watches

LEAVE = -1
"""Block number that stands for leaving the region with its results."""

RETURN = -2
"""Block number that stands for returning from the function."""

Leaving: TypeAlias = int | list[tuple[int, Mask]]
"""
Next blocks after a terminator: one block number for all active lanes, or a list of block numbers
with masks of their lanes.
"""

Terminator: TypeAlias = Callable[[Env], Leaving]


class Flow:
    """A compiled region. A terminator that leaves the region writes the slots `results`."""

    def __init__(self, compiler: Compiler, region: Region, results: Sequence[SSAValue] = ()):
        self.compiler = compiler
        self.results = tuple(compiler.new_slot() for _ in results)
        self.trackers: list[int] = []
        merges = [merger(compiler.context.form(result.type)) for result in results]
        self.assign_results = compiler.assigner(self.results, merges)
        self.exits = compiler.new_slot()
        compiler.flows[region] = self
        order = block_order(region)
        self.numbers = {block: number for number, block in enumerate(order)}
        self.watches = watches(order, compiler)
        self.trackers += [watch.slot for watch in self.watches.values()]
        for block in order[1:]:
            for argument in block.args:
                compiler.keep(argument)
        self.blocks: list[Steps] = []
        self.terminators: list[Terminator] = []
        for block in order:
            steps, ended = compiler.block(block)
            self.blocks.append(steps)
            self.terminators.append(self._terminator(block, steps))
            compiler.release(ended)
        for watch in self.watches.values():
            watch.locate(compiler)

    def _terminator(self, block: Block, steps: Steps) -> Terminator:
        op = block.last_op
        semantics = None if op is None else TABLE.get(type(op))
        if op is None or semantics is None or semantics.kind != "terminator":
            name = "an empty block" if op is None else op.name
            raise InterpreterError(f"{name} ends a block but is not a branch", op)
        steps.ops.append(op)
        terminate = self.compiler.terminator(op, semantics.stage(op, self))
        watch = self.watches.get(op)
        return terminate if watch is None else watch.before(terminate)

    def edge(
        self, target: Block, operands: Sequence[SSAValue]
    ) -> tuple[int, Callable[[Env], Any], Callable[[Env, Any], None]]:
        """
        Compiles the edge to a block. Returns the block's number, a function that reads the
        operands, and a function that assigns them to the block's arguments.
        """
        slots = self.compiler.slots(target.args)
        assign = self.compiler.assigner(slots, self.compiler.merges(target.args))
        return self.numbers[target], self.compiler.mover(operands, target.args), assign

    def run(self, env: Env) -> None:
        """Runs the region for the active lanes. Sets the mask to the lanes that left the region."""
        batch: Batch = env[WAVE]
        if batch.resuming:
            self._resume(env, batch)
            return
        outer_partial, batch.partial = batch.partial, False
        env[self.exits] = None
        if self.trackers:
            self.forget(env)
        self._follow(env, batch, 0, self.blocks[0].run, outer_partial)

    def _follow(
        self, env: Env, batch: Batch, number: int, block: Step, outer_partial: bool
    ) -> None:
        """
        Runs blocks until all lanes have left the region. `block` runs the rest of block `number`.
        """
        exits = self.exits
        try:
            while True:
                block(env)
                if env[exits]:
                    number = self._rejoin(env, batch, number)
                elif batch.nobody:
                    break
                else:
                    leaving = self.terminators[number](env)
                    if isinstance(leaving, int):
                        number = leaving
                    else:
                        number = self._run_parted(env, batch, leaving, batch.mask)
                if number < 0:
                    break
                block = self.blocks[number].run
        except Suspended as suspended:
            suspended.leave(self, env, number, outer_partial)
            raise
        self._end(batch, number, outer_partial)

    @staticmethod
    def _end(batch: Batch, number: int, outer_partial: bool) -> None:
        if number == RETURN:
            batch.nobody = True
            batch.departures += 1
        batch.partial = outer_partial

    def _resume(self, env: Env, batch: Batch) -> None:
        frame = batch.resuming.pop()
        assert isinstance(frame, FlowFrame)
        batch.partial = frame.waiting is not None
        if frame.waiting is None:
            rest: Step = lambda env: frame.proceed(env, batch)  # noqa: E731
            self._follow(env, batch, frame.number, rest, frame.outer_partial)
            return
        try:
            number = self._meet(env, batch, frame.waiting, frame.whole, frame.departures, frame)
        except Suspended as suspended:
            suspended.leave(self, env, frame.number, frame.outer_partial)
            raise
        if number < 0:
            self._end(batch, number, frame.outer_partial)
        else:
            self._follow(env, batch, number, self.blocks[number].run, frame.outer_partial)

    def slot(self, value: SSAValue) -> int:
        """Returns the slot of a value of the function."""
        return self.compiler.slot(value)

    def forget(self, env: Env) -> None:
        """
        Discards the recorded iterations of loops. They serve to detect loops that wait for other
        invocations.
        """
        for slot in self.trackers:
            env[slot] = None

    def exit(self, env: Env, number: int) -> int:
        """Sends the active lanes, which leave an inner region, to a block of this region."""
        batch: Batch = env[WAVE]
        env[self.exits] = [*(env[self.exits] or ()), (number, batch.mask)]
        return RETURN

    def _left(self, env: Env, batch: Batch, number: int) -> list[tuple[int, Mask]]:
        """
        Returns the next block of each lane. Either the terminator or an exit from an inner
        construct determines this block.
        """
        pending, env[self.exits] = env[self.exits] or [], None
        if batch.nobody:
            batch.nobody = False
            return pending
        # Block arguments of other lanes must not overwrite the values of lanes that left earlier.
        batch.partial = batch.partial or bool(pending)
        try:
            going = self.terminators[number](env)
        except Suspended:
            env[self.exits] = pending
            raise
        return [*([(going, batch.mask)] if isinstance(going, int) else going), *pending]

    def _rejoin(self, env: Env, batch: Batch, number: int) -> int:
        """
        Continues after a block, also for lanes that left an inner construct. Returns the block at
        which all lanes meet.
        """
        leaving = self._left(env, batch, number)
        batch.partial = False
        if len(leaving) == 1:
            ((number, batch.mask),) = leaving
            return number
        whole = reduce(or_, [mask for _, mask in leaving])
        if _covers(whole, batch.existing):
            whole = batch.existing
        return self._run_parted(env, batch, leaving, whole)

    def _run_parted(
        self, env: Env, batch: Batch, leaving: list[tuple[int, Mask]], whole: Mask
    ) -> int:
        """
        Runs diverged lanes until all remaining lanes are at one block. Returns the block's number.
        """
        departures = batch.departures
        waiting: dict[int, Mask] = {}
        batch.partial = True
        self._send(batch, leaving, waiting)
        return self._meet(env, batch, waiting, whole, departures)

    def _meet(
        self,
        env: Env,
        batch: Batch,
        waiting: dict[int, Mask],
        whole: Mask,
        departures: int,
        frame: FlowFrame | None = None,
    ) -> int:
        """
        Runs blocks until all waiting lanes are at one block, and returns its number. If `frame` is
        given, first resumes it.
        """
        number = 0 if frame is None else frame.number
        try:
            if frame is not None:
                frame.proceed(env, batch)
                self._send(batch, self._left(env, batch, number), waiting)
            while len(waiting) > 1:
                number = min(waiting, key=_priority)
                batch.mask = waiting.pop(number)
                self.blocks[number].run(env)
                self._send(batch, self._left(env, batch, number), waiting)
        except Suspended as suspended:
            suspended.leave_parted(self, env, number, waiting, whole, departures)
            raise
        batch.partial = False
        if not waiting:
            return RETURN
        ((number, batch.mask),) = waiting.items()
        if batch.departures == departures or _covers(batch.mask, whole):
            batch.mask = whole
        return number

    @staticmethod
    def _send(batch: Batch, leaving: Sequence[tuple[int, Mask]], waiting: dict[int, Mask]) -> None:
        for target, mask in leaving:
            if target == RETURN:
                batch.departures += 1
            elif target in waiting:
                waiting[target] = waiting[target] | mask
            else:
                waiting[target] = mask


def _covers(mask: Mask, whole: Mask) -> bool:
    return bool(np.all(mask if whole is None else mask | ~whole))


def _priority(number: int) -> int:
    """
    Returns the sort key of a block number. Negative numbers, which stand for exits, come last.
    """
    return number if number >= 0 else 1 << 60


def block_order(region: Region) -> list[Block]:
    """
    Returns reachable blocks in reverse post-order. The blocks of a loop precede the blocks after
    it.
    """
    if len(region.blocks) == 1:
        return list(region.blocks)
    leads = {block: _successors(block) for block in region.blocks}
    reach = {block: _reachable(block, leads) for block in region.blocks}
    # Visits successors that cannot loop back first, which gives them higher numbers.
    after = {
        block: sorted(successors, key=lambda successor: block in reach[successor])
        for block, successors in leads.items()
    }
    finished: list[Block] = []
    seen: set[Block] = set()

    def visit(block: Block) -> None:
        stack = [(block, after[block])]
        seen.add(block)
        while stack:
            current, successors = stack[-1]
            following = next((s for s in successors if s not in seen), None)
            if following is None:
                finished.append(current)
                stack.pop()
                continue
            seen.add(following)
            stack.append((following, after[following]))

    visit(region.blocks[0])
    return finished[::-1]


def _successors(block: Block) -> Sequence[Block]:
    """
    Returns the blocks that may follow a block, through its terminator or through breaks inside of
    it.
    """
    if block.last_op is None:
        return ()
    successors = list(block.last_op.successors)
    for op in block.ops:
        if isinstance(op, Construct):
            successors += [
                inner.target
                for inner in op.walk()
                if isinstance(inner, ExitOp)
                and inner.target is not None
                and inner.target.parent is block.parent
                and inner.target not in successors
            ]
    return successors


def _reachable(block: Block, leads: Mapping[Block, Sequence[Block]]) -> set[Block]:
    reachable: set[Block] = set()
    pending = list(leads[block])
    while pending:
        current = pending.pop()
        if current not in reachable:
            reachable.add(current)
            pending += leads[current]
    return reachable
