"""
Writes the loop along K, in which tiles pass through the stages of the schedule's `Pipeline`.

With several buffers or register sets, an iteration multiplies several tiles, so that each tile has
a fixed buffer. The loop carries the values that wait in registers and the fragments that are
loaded ahead. If the number of tiles is dynamic, the loop reads the first tile again after the last
one and ignores the values. If no stage runs ahead, a last tile that exceeds K is multiplied after
the loop; the tiles in the loop then need no bounds check along K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, static
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.staging import TileInMemory
from xdsl_spirv.passes.schedule.pipeline import Stage
from xdsl_spirv.passes.schedule.plan import Plan

Values: TypeAlias = Sequence[SSAValue]


class DirectOperand(ABC):
    """
    An operand whose fragments are read directly from global memory.

    If `ahead` is not 0, the loop carries the `held` values of the next fragments in `waiting`.
    """

    within_k = False
    """True if the loaded tiles are known to lie inside of K, so that no bounds check is needed."""
    held: int

    def __init__(self, builder: KernelEmitter, ahead: int):
        self.builder, self.ahead = builder, ahead
        self.waiting: list[SSAValue] = []

    @abstractmethod
    def begin_ahead(self) -> None:
        """Reads the first fragments of the first K tile into `waiting`."""

    @abstractmethod
    def enter(self, k: Index, following: Index | None = None) -> None:
        """Selects the K tile at element `k`; `following` is the next tile to read ahead."""

    @abstractmethod
    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        """Returns the subgroup's `count` fragments at element `k` of the selected K tile."""


Operand: TypeAlias = TileInMemory | DirectOperand


class Core(ABC):
    """Multiplies tiles of the operands, for an invocation's or subgroup's part of the result."""

    @abstractmethod
    def begin(self) -> Values:
        """Returns the initial accumulators, which are 0."""

    @abstractmethod
    def multiply(self, a: Operand, b: Operand, carried: Values) -> Values:
        """Multiplies one K tile and returns the new accumulators."""

    @abstractmethod
    def end(self, totals: Values, operands: Sequence[Operand]) -> None:
        """Applies the epilogue and stores the results. May overwrite the operands' tiles."""


class FragmentCore(Core):
    """A core that can load fragments ahead of their multiplication."""

    @abstractmethod
    def load(self, a: Operand, b: Operand) -> Iterable[Values]:
        """Yields A's and B's fragments of a K tile, one instruction's step along K at a time."""

    @abstractmethod
    def multiply_fragments(self, loaded: Iterable[Values], carried: Values) -> Values:
        """Multiplies the fragments of a K tile and returns the new accumulators."""

    def multiply(self, a: Operand, b: Operand, carried: Values) -> Values:
        return self.multiply_fragments(self.load(a, b), carried)


@dataclass
class _State:
    """Loop-carried values that do not belong to an operand."""

    totals: Values
    fragments: Values
    registers: list[SSAValue]


class KLoop:
    """Writes the code that multiplies all K tiles."""

    def __init__(
        self, builder: KernelEmitter, plan: Plan, core: Core, operands: tuple[Operand, Operand]
    ):
        self.builder, self.plan, self.core, self.operands = builder, plan, core, operands
        self.pipeline = plan.pipeline
        self.size, self.tile = plan.contraction.k, plan.schedule.tile[2]
        self.staged = [operand for operand in operands if isinstance(operand, TileInMemory)]
        self.direct = [operand for operand in operands if isinstance(operand, DirectOperand)]
        self.ahead = [operand for operand in self.direct if operand.ahead]
        self.per_tile = sum(operand.waiting for operand in self.staged)
        self.per_step = sum(plan.schedule.fragments[:2])

    def write(self, accumulators: Values) -> Values:
        """Writes prologue, loop and remainder; returns the final accumulators."""
        self.totals = len(accumulators)
        state, unroll = self._begin(accumulators), self.pipeline.unroll
        if unroll > 1:
            (size,) = static([self.size])
            count = ceil_div(size, self.tile)
            whole = count // unroll * unroll
            if whole:
                state = self._loop(whole * self.tile, state, count - whole + unroll)
            for number in range(count - whole):
                state = self._multiply(whole * self.tile, number, state, count - whole, True)
            return state.totals
        if not self.plan.ends_apart:
            return self._loop(self.size, state, 1).totals
        whole = self.size // self.tile * self.tile
        for operand in self.operands:
            operand.within_k = True
        state = self._loop(whole, state, 1)
        for operand in self.operands:
            operand.within_k = False
        return self._multiply(whole, 0, state, 1, True).totals

    def _begin(self, accumulators: Values) -> _State:
        """Writes the prologue, which loads and copies the first tiles before the loop."""
        pipeline = self.pipeline
        for operand in self.ahead:
            operand.begin_ahead()
        if pipeline.write:
            self._use(0)
            self._store(self._load(0), 0)
        places = [n * self.tile for n in range(pipeline.write, pipeline.read)]
        within = [at if is_dynamic(self.size) or at < self.size else 0 for at in places]
        registers = [value for at in within for value in self._load(at)]
        if pipeline.write:
            self.builder.barrier()
        return _State(accumulators, self._fragments() if pipeline.load else (), registers)

    def _loop(self, end: Size, state: _State, room: int) -> _State:
        """Writes the loop up to `end`. In each iteration, at least `room` tiles are left."""
        pipeline, tile = self.pipeline, self.tile
        fragments = len(state.fragments)

        def trip(k: Index, carried: Values) -> Values:
            now = self._unpack(carried, fragments)
            for number in range(pipeline.unroll):
                now = self._multiply(k, number, now, room)
            return self._pack(now)

        step = pipeline.unroll * tile
        carried = self.builder.loop(end, step, self._pack(state), trip, "k")
        return self._unpack(carried, fragments)

    def _pack(self, state: _State) -> list[SSAValue]:
        read_ahead = [value for operand in self.ahead for value in operand.waiting]
        return [*state.totals, *read_ahead, *state.fragments, *state.registers]

    def _unpack(self, carried: Values, fragments: int) -> _State:
        """Returns the state that `_pack` packed; also restores the operands' `waiting` values."""
        values = list(carried)
        totals, values = values[: self.totals], values[self.totals :]
        for operand in self.ahead:
            operand.waiting, values = values[: operand.held], values[operand.held :]
        return _State(totals, values[:fragments], values[fragments:])

    def _multiply(
        self, k: Index, number: int, state: _State, room: int, last: bool = False
    ) -> _State:
        """
        Multiplies the tile that is `number` tiles after `k`, and runs the stages that are ahead
        for later tiles.

        From `k` on, at least `room` tiles remain; exactly `room` if `last`.
        """
        b, pipeline = self.builder, self.pipeline
        here, following = self._place(k, number), None
        if (pipeline.read or (self.ahead and self.plan.is_looped)) and not (
            last and number + max(1, pipeline.read) >= room
        ):
            following = self._ahead(k, number + max(1, pipeline.read), room)
        registers, fragments, totals = list(state.registers), state.fragments, state.totals
        loaded: Values = ()
        for stage in pipeline.stages:
            ahead = pipeline.tiles_ahead(stage)
            if last and ahead and number + ahead >= room:
                continue
            buffer = (number + ahead) % pipeline.buffers
            match stage:
                case Stage.READ:
                    registers += self._load(following if ahead and following is not None else here)
                case Stage.WRITE:
                    self._use(buffer)
                    moved, registers = registers[: self.per_tile], registers[self.per_tile :]
                    self._store(moved, self._ahead(k, number + ahead, room) if ahead else here)
                case Stage.BARRIER:
                    b.barrier()
                case Stage.LOAD:
                    self._use(buffer)
                    loaded = self._fragments()
                case Stage.MULTIPLY if pipeline.load:
                    assert isinstance(self.core, FragmentCore)
                    size, starts = self.per_step, range(0, len(fragments), self.per_step)
                    steps = [fragments[at : at + size] for at in starts]
                    totals = self.core.multiply_fragments(steps, totals)
                case Stage.MULTIPLY:
                    self._use(buffer)
                    for operand in self.direct:
                        operand.enter(here, following)
                    totals = self.core.multiply(*self.operands, totals)
                case _:
                    raise AssertionError(f"the K loop cannot run the stage {stage}")
        return _State(totals, loaded, registers)

    def _place(self, k: Index, number: int) -> Index:
        return self.builder.plus(self._place(k, number - 1), self.tile) if number else k

    def _ahead(self, k: Index, number: int, room: int) -> Index:
        b, place = self.builder, self._place(k, number)
        return place if number < room else b.select(b.below(place, self.size), place, 0)

    def _fragments(self) -> Values:
        assert isinstance(self.core, FragmentCore)
        return [fragment for step in self.core.load(*self.operands) for fragment in step]

    def _load(self, k: Index) -> list[SSAValue]:
        return [value for operand in self.staged for value in operand.load_all(k)]

    def _store(self, moved: Values, k: Index) -> None:
        waiting = list(moved)
        for operand in self.staged:
            operand.store_all([waiting.pop(0) for _ in range(operand.waiting)], k)

    def _use(self, buffer: int) -> None:
        for operand in self.staged:
            operand.use(buffer)
