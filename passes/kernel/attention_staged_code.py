"""
The code of an attention whose keys and values go through Workgroup memory.

Long heads leave a subgroup registers for one strip of rows only, so that every subgroup of a
workgroup would read all keys and values for itself. Here the workgroup moves each tile of them
once. There are two barriers a tile: while the keys of a tile are multiplied its values arrive, and
while these are multiplied the next tile's keys. All subgroups go through the same tiles.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.attention_code import AttentionCode
from xdsl_spirv.passes.kernel.attention_lines import StagedLines
from xdsl_spirv.passes.kernel.attention_numbers import Fragment, State, Words


class StagedAttentionCode(AttentionCode):
    """Writes the body of the kernel."""

    def _open_sources(self) -> None:
        b, plan = self.b, self.plan
        self.staged_k = StagedLines(b, plan, "k", self.batch, self.lane)
        self.staged_v = StagedLines(b, plan, "v", self.batch, self.lane)
        self.is_filled = False
        self.buffers = plan.schedule.buffers.data
        self.buffer: Index = 0

    def _read_ahead(
        self, first: Index, state: State, guarded: bool, count: Size | None = None
    ) -> None:
        """Moves the first tile's keys, or the whole tile; the next words are on their way."""
        schedule, buffer = self.plan.schedule, self._buffer(first)
        keys = self.staged_k.load(first, guarded)
        values = self.staged_v.load(first, guarded) if schedule.reads_ahead("values") else []
        if self.is_filled:
            self.b.barrier()
        self.is_filled = True
        self.staged_k.store(keys, buffer)
        state.values = [values] if values else []
        if self.buffers > 1:
            self.staged_v.store(values, buffer)
            self._fetch(self._following(first, count), state, guarded)

    def _fetch(self, tile: Index, state: State, guarded: bool) -> None:
        state.keys = [self.staged_k.load(tile, guarded)]
        state.values = [self.staged_v.load(tile, guarded)]

    def _buffer(self, tile: Index) -> Index:
        return self.b.remainder(tile, self.buffers)

    def _masked_tiles(self, lower: Index, upper: Index, state: State) -> State:
        if not self.plan.hides:
            return state
        last = self.tile_count - 1
        first = self.b.select(self.b.below(lower, last), lower, last)
        self._read_ahead(first, state, self.plan.ragged, self.tile_count)
        state = self._tiles(lower, upper, state, masked=True)
        state.keys, state.values = [], []
        return state

    def _tile(self, tile: Index, state: State, masked: bool) -> State:
        b, keys, values, twice = self.b, self.staged_k, self.staged_v, self.buffers > 1
        guarded, self.buffer = masked and self.plan.ragged, self._buffer(tile)
        count = self.tile_count if masked else self.whole
        following, ahead = self._following(tile, count), state.like(state.flat())
        b.barrier()
        if twice:
            other = self._buffer(b.plus(tile, 1))
            keys.store(state.keys[0], other)
            values.store(state.values[0], other)
            self._fetch(self._following(following, count), ahead, guarded)
        else:
            own = state.values[0] if state.values else values.load(tile, guarded)
            values.store(own, self.buffer)
            if self.plan.schedule.reads_ahead("keys"):
                ahead.keys = [keys.load(following, guarded)]
        cells = self._cells(self._scores([]), tile, masked)
        kept, lefts, sums = self._weigh(cells, state)
        if not twice:
            b.barrier()
            moved = ahead.keys[0] if ahead.keys else keys.load(following, guarded)
            keys.store(moved, self.buffer)
            ahead.keys = []
            ahead.values = [values.load(following, guarded) for _ in state.values]
        lines = (values.line_of(step, self.buffer) for step in range(self.keys // self.k))
        self._add_values(lines, lefts, kept.results)
        sums = self._totals(kept, sums)
        return replace(kept, sums=sums, keys=ahead.keys, values=ahead.values)

    def _scores(self, keys: list[Words]) -> list[list[Fragment]]:
        """
        Computes the scores of the tile in Workgroup memory, block by block of the head.

        One fragment of scores is summed as two, so that a product need not wait for the last.
        """
        source, queries, count = self.staged_k, self.q or self._queries(), self.plan.key_fragments
        chains = 2 if self.strips * count == 1 else 1
        scores = [[[self.splat(0.0)] * chains for _ in range(count)] for _ in range(self.strips)]
        for block in range(source.deal.blocks):
            for j in range(count):
                first = block * source.deal.fragments
                for step, right in enumerate(source.block(j, block, self.buffer), first):
                    for strip, row in enumerate(scores):
                        sums, own = row[j], step % chains
                        sums[own] = self._multiply(queries[strip][step], right, sums[own])
        return [[reduce(self.plus, sums) for sums in row] for row in scores]
