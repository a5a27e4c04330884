"""
The loop along K: each tile staged, then multiplied.

    stages = 1                 stages = 2                    stages = 2, buffers = 2
      read tile k                read tile k + 1               read tile k + 1
      barrier; store; barrier    barrier; store k; barrier     multiply tile k
      multiply tile k            multiply tile k               store k + 1 in the other; barrier

    stages = 1 + n, buffers = 2, ahead = 1
      read tile k + 1 + n; store tile k + 1 in the other buffer; barrier
      load the fragments of tile k + 1; multiply those of tile k

With `first = store` a tile is stored before the next one is read. Values that wait for the next
tile in registers, for an operand that is staged or read directly, are carried by the loop. With two
buffers its body is two tiles long, so that each names its buffer. After the last tile the first one
is read again, without use. Where nothing is read ahead, a last tile that reaches beyond K is
multiplied behind the loop, whose tiles then need no look at where K ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div, static
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.staging import TileInMemory
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


@runtime_checkable
class FragmentMultiplier(Multiplier, Protocol):
    """A multiplier that can load fragments before it multiplies them."""

    def load(self, a: Operand, b: Operand) -> Values:
        """Loads all fragments of one K tile."""
        ...

    def multiply_fragments(self, fragments: Values, carried: Values) -> Values:
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
    loop = _KLoop(builder, plan, core, operands)
    if plan.pipelines and isinstance(core, FragmentMultiplier):
        return loop.pipelined(core, accumulators)
    return loop.alternating(accumulators) if plan.alternates else loop.plain(accumulators)


class _KLoop:
    def __init__(
        self,
        builder: KernelEmitter,
        plan: Plan,
        core: Multiplier,
        operands: tuple[Operand, Operand],
    ):
        self.builder, self.plan, self.operands = builder, plan, operands
        self.multiply = core.multiply
        self.size, self.tile = plan.contraction.k, plan.schedule.tile[2]
        self.staged = [operand for operand in operands if isinstance(operand, TileInMemory)]
        self.ahead = [
            operand
            for operand in operands
            if not isinstance(operand, TileInMemory) and operand.tile.ahead
        ]

    def plain(self, accumulators: Values) -> Values:
        """Multiplies one tile in each iteration."""
        waiting = self._first()
        staged = self._load(0) if self.plan.prefetches else []
        carried = [*accumulators, *waiting, *staged]
        if not self.plan.ends_apart:
            results = self.builder.loop(self.size, self.tile, carried, self._trip, "k")
            return results[: len(accumulators)]
        whole = self.size // self.tile * self.tile
        self._within(True)
        results = self.builder.loop(whole, self.tile, carried, self._trip, "k")
        self._within(False)
        return self._trip(whole, results)[: len(accumulators)]

    def _within(self, within: bool) -> None:
        """Tell the operands whether the tiles loaded from now on lie inside K."""
        for operand in self.operands:
            operand.within_k = within

    def _trip(self, k: Index, carried: Values) -> Values:
        b, plan = self.builder, self.plan
        needed = plan.prefetches or (plan.is_looped and self.ahead)
        following = self._following(k) if needed else None
        values = list(carried)
        moved: list[SSAValue] = []
        if plan.prefetches:
            assert following is not None
            count = sum(operand.waiting for operand in self.staged)
            moved = values[len(values) - count :]
            del values[len(values) - count :]
            ahead = [] if plan.stores_first else self._load(following)
        else:
            moved, ahead = self._load(k), []
        totals = self._take(values)
        if self.staged and plan.is_looped:
            b.barrier()
        self._store(moved, k)
        if self.staged:
            b.barrier()
        if plan.prefetches and plan.stores_first:
            assert following is not None
            ahead = self._load(following)
        self._enter(k, following)
        results = self.multiply(*self.operands, totals)
        return [*results, *self._left(), *ahead]

    def alternating(self, accumulators: Values) -> Values:
        """Multiplies two tiles in each iteration, each in its own buffer; an odd last one alone."""
        b, pair = self.builder, 2 * self.tile
        (size,) = static([self.size])
        count = ceil_div(size, self.tile)
        waiting = self._first()
        self._use(0)
        self._store(self._load(0), 0)
        b.barrier()

        def trip(k: Index, carried: Values) -> Values:
            middle = b.plus(k, self.tile)
            values = self._alternate(k, middle, 0, carried)
            more = count % 2 == 1
            after = b.plus(middle, self.tile) if more else self._following(middle)
            return self._alternate(middle, after, 1, values)

        results = b.loop(count // 2 * pair, pair, [*accumulators, *waiting], trip, "k")
        if count % 2:
            self._use(0)
            totals = self._take(list(results))
            self._enter((count - 1) * self.tile, None)
            return self.multiply(*self.operands, totals)
        return results[: len(accumulators)]

    def _alternate(self, k: Index, following: Index, buffer: int, carried: Values) -> Values:
        """Multiplies the tile at `k` from its buffer while the following tile is loaded."""
        totals = self._take(list(carried))
        moved = self._load(following)
        self._use(buffer)
        self._enter(k, following)
        results = self.multiply(*self.operands, totals)
        left = self._left()
        self._use(1 - buffer)
        self._store(moved, following)
        self.builder.barrier()
        return [*results, *left]

    def pipelined(self, core: FragmentMultiplier, accumulators: Values) -> Values:
        """
        Loads a tile's fragments while the previous tile is multiplied; registers hold later tiles.

        An iteration has as many tiles as it takes to use every buffer and register equally often.
        """
        b = self.builder
        (size,) = static([self.size])
        count, ahead = ceil_div(size, self.tile), self.plan.schedule.stages.data - 1
        per_tile = sum(operand.waiting for operand in self.staged)
        tiles = lcm(2, ahead)

        def step(k: Index, number: int, values: Values) -> Values:
            """Multiplies tile `number` after `k`; returns accumulators, fragments and places."""
            fragments = values[len(accumulators) : len(values) - ahead * per_tile]
            waiting = list(values[len(values) - ahead * per_tile :])
            self._use((number + 1) % 2)
            following = self._within_size(k, (number + 1 + ahead) * self.tile)
            if not self.plan.stores_first:
                waiting += self._load(following)
            self._store(waiting[:per_tile], k)
            if self.plan.stores_first:
                waiting += self._load(following)
            b.barrier()
            loaded = core.load(*self.operands)
            totals = core.multiply_fragments(fragments, values[: len(accumulators)])
            return [*totals, *loaded, *waiting[per_tile:]]

        def trip(k: Index, carried: Values) -> Values:
            for number in range(tiles):
                carried = step(k, number, carried)
            return carried

        self._use(0)
        self._store(self._load(0), 0)
        firsts = [n * self.tile if n < count else 0 for n in range(1, ahead + 1)]
        waiting = [value for first in firsts for value in self._load(first)]
        b.barrier()
        values: Values = [*accumulators, *core.load(*self.operands), *waiting]
        whole = count // tiles * tiles
        values = (
            b.loop(whole * self.tile, tiles * self.tile, values, trip, "k") if whole else values
        )
        for number in range(count - whole):
            values = step(whole * self.tile, number, values)
        return values[: len(accumulators)]

    def _within_size(self, k: Index, ahead: int) -> Index:
        """The tile `ahead` elements after `k`, or the first one if no such tile exists."""
        b = self.builder
        following = b.plus(k, ahead)
        return b.select(b.below(following, self.size), following, 0)

    def _following(self, k: Index) -> Index:
        b = self.builder
        following = b.plus(k, self.tile)
        return b.select(b.below(following, self.size), following, 0)

    def _first(self) -> list[SSAValue]:
        """Reads the first tile of the operands that are read ahead; returns its values."""
        for operand in self.ahead:
            operand.begin_ahead()
        return self._left()

    def _left(self) -> list[SSAValue]:
        """Returns the values that are read ahead for the next tile."""
        return [value for operand in self.ahead for value in operand.waiting]

    def _take(self, values: list[SSAValue]) -> Values:
        """Returns the accumulators among the carried values; gives the others to their operands."""
        for operand in reversed(self.ahead):
            operand.waiting = values[len(values) - operand.held :]
            del values[len(values) - operand.held :]
        return values

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
