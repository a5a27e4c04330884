"""
The loop along K: tiles pass through the stages of the schedule's `Pipeline`.

An iteration multiplies as many tiles as it takes for each of them to name its buffer; values that
wait in registers, and fragments that were loaded ahead, are carried by the loop. Behind the last
tile the first one is read again, without use, unless it is known that there is none to read. Where
nothing runs ahead, a last tile that reaches beyond K is multiplied behind the loop, whose tiles
then need no look at where K ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic, static
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.staging import TileInMemory
from xdsl_spirv.passes.schedule.pipeline import Stage
from xdsl_spirv.passes.schedule.plan import Plan

if TYPE_CHECKING:
    from xdsl_spirv.passes.kernel.packed import PackedOperand
    from xdsl_spirv.passes.kernel.unpacked_fragments import UnpackedFragments

Operand: TypeAlias = "TileInMemory | PackedOperand | UnpackedFragments"

Values: TypeAlias = Sequence[SSAValue]


class Multiplier(Protocol):
    """The protocol of code that multiplies a K tile onto the accumulators."""

    def multiply(self, a: Operand, b: Operand, carried: Values) -> Values:
        """Returns the accumulators after one K tile."""
        ...


class FragmentMultiplier(Multiplier, Protocol):
    """A multiplier that can load fragments before it multiplies them."""

    def load(self, a: Operand, b: Operand) -> Iterable[Values]:
        """Loads the fragments of one K tile for each instruction along K."""
        ...

    def multiply_fragments(self, loaded: Iterable[Values], carried: Values) -> Values:
        """Multiplies the fragments of a K tile onto the accumulators."""
        ...


def multiply_tiles(
    builder: KernelEmitter,
    plan: Plan,
    core: Multiplier,
    operands: tuple[Operand, Operand],
    accumulators: Values,
) -> Values:
    """Writes the loop over K; returns the accumulators after it."""
    return _KLoop(builder, plan, core, operands, len(accumulators)).write(accumulators)


@dataclass
class _State:
    """Values carried to the next iteration, except those that operands carry."""

    totals: Values
    fragments: Values
    registers: list[SSAValue]


class _KLoop:
    def __init__(
        self,
        builder: KernelEmitter,
        plan: Plan,
        core: Multiplier,
        operands: tuple[Operand, Operand],
        totals: int,
    ):
        self.builder, self.plan, self.core, self.operands = builder, plan, core, operands
        self.pipeline, self.totals = plan.pipeline, totals
        self.size, self.tile = plan.contraction.k, plan.schedule.tile[2]
        self.staged = [operand for operand in operands if isinstance(operand, TileInMemory)]
        self.per_tile = sum(operand.waiting for operand in self.staged)
        self.per_step = sum(plan.schedule.fragments[:2])
        self.ahead = [
            operand
            for operand in operands
            if not isinstance(operand, TileInMemory) and operand.tile.ahead
        ]

    def write(self, accumulators: Values) -> Values:
        """Writes everything; returns the accumulators after the last tile."""
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
        self._within(True)
        state = self._loop(whole, state, 1)
        self._within(False)
        return self._multiply(whole, 0, state, 1, True).totals

    def _begin(self, accumulators: Values) -> _State:
        """Runs the stages that are ahead for the first tiles."""
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
        """Writes the loop up to `end`; each iteration has at least `room` tiles of K left."""
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
        """Lists the values that an iteration leaves to the next one."""
        read_ahead = [value for operand in self.ahead for value in operand.waiting]
        return [*state.totals, *read_ahead, *state.fragments, *state.registers]

    def _unpack(self, carried: Values, fragments: int) -> _State:
        """The inverse of `_pack`; gives operands the values that they read ahead."""
        values = list(carried)
        totals, values = values[: self.totals], values[self.totals :]
        for operand in self.ahead:
            operand.waiting, values = values[: operand.held], values[operand.held :]
        return _State(totals, values[:fragments], values[fragments:])

    def _multiply(
        self, k: Index, number: int, state: _State, room: int, last: bool = False
    ) -> _State:
        """
        Multiplies tile `number` behind `k`, and runs the other stages for the tiles ahead of it.

        K surely has `room` tiles from `k` on; if these are the `last`, it has no more.
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
                    core, size = cast("FragmentMultiplier", self.core), self.per_step
                    steps = range(0, len(fragments), size)
                    loaded_ahead = [fragments[at : at + size] for at in steps]
                    totals = core.multiply_fragments(loaded_ahead, totals)
                case Stage.MULTIPLY:
                    self._use(buffer)
                    self._enter(here, following)
                    totals = self.core.multiply(*self.operands, totals)
        return _State(totals, loaded, registers)

    def _place(self, k: Index, number: int) -> Index:
        """The K index of tile `number` after `k`."""
        return self.builder.plus(self._place(k, number - 1), self.tile) if number else k

    def _ahead(self, k: Index, number: int, room: int) -> Index:
        """The place of tile `number` behind `k`, or that of the first tile if there may be none."""
        b, place = self.builder, self._place(k, number)
        return place if number < room else b.select(b.below(place, self.size), place, 0)

    def _within(self, within: bool) -> None:
        """Tell the operands whether the tiles loaded from now on lie inside K."""
        for operand in self.operands:
            operand.within_k = within

    def _fragments(self) -> Values:
        steps = cast("FragmentMultiplier", self.core).load(*self.operands)
        return [fragment for step in steps for fragment in step]

    def _load(self, k: Index) -> list[SSAValue]:
        return [value for operand in self.staged for value in operand.load_all(k)]

    def _store(self, moved: Values, k: Index) -> None:
        waiting = list(moved)
        for operand in self.staged:
            operand.store_all([waiting.pop(0) for _ in range(operand.waiting)], k)

    def _use(self, buffer: int) -> None:
        for operand in self.staged:
            operand.use(buffer)

    def _enter(self, k: Index, following: Index | None) -> None:
        for operand in self.operands:
            if not isinstance(operand, TileInMemory):
                operand.enter(k, following)
