"""
Lowers scheduled attentions to kernels that multiply cooperative matrices, tile by tile.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: MulAdd; maximum, powers; values: MulAdd
    }                                }

Each subgroup loops over the keys for its own rows of queries. For each row the loop carries the
greatest score m so far, the sum of exp(s - m) over the scores s, and the unnormalized result. When
m grows, the sum and the result are multiplied by exp(m_before - m). Each row sum stays divided
among the row's components until the end. An exact maximum would need the whole row in every
iteration. A smaller value is allowed as long as no power overflows f16, so with `rescale = seldom`
a vote of the subgroup decides whether the maxima are updated.

`attention_rows` reduces rows and converts powers to operands. `attention_lines` reads queries,
keys and values. A tile of keys passes through the stages of the plan's pipeline. The loop carries
the values that are read or computed one or more iterations ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from math import inf

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import IndexType, UnitAttr, f32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import KEEP_LOOP, FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_lines import LINES, Lines
from xdsl_spirv.passes.kernel.attention_numbers import (
    EXCESS,
    LOG2_E,
    LOWEST,
    Fragment,
    Numbers,
    State,
    Words,
)
from xdsl_spirv.passes.kernel.attention_rows import (
    ROWS,
    AttentionResult,
    Cell,
    Place,
    exchange_parts,
)
from xdsl_spirv.passes.kernel.elements import convert_factor
from xdsl_spirv.passes.kernel.k_loop import write_pack
from xdsl_spirv.passes.kernel.matrix_values import multiply_matrices
from xdsl_spirv.passes.kernel.result_tile import offset_along
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.pipeline import FIRST_STAGES, READS, WRITES, Stage
from xdsl_spirv.passes.schedule.plan import ceil_div

Cells = list[list[list[Cell]]]
"""Cells (components or fragments, see `attention_rows`), in lists for each strip and fragment."""


class AttentionCode(Numbers[AttentionPlan]):
    """Writes the body of an attention kernel that uses cooperative matrices."""

    def __init__(self, b: KernelEmitter, plan: AttentionPlan):
        super().__init__(b, plan)
        schedule = plan.schedule
        self.m, self.n, self.k = schedule.instruction.sizes
        self.strips, self.keys = schedule.strips, schedule.key_tile.data
        # Without mask and cap, maxima include the factor, so that one multiply-add of a raw score
        # gives an exponent of 2. Otherwise scores are scaled first.
        scale = plan.op.scale.value.data
        self.raw = plan.op.mask is None and plan.op.cap is None and scale > 0
        self.factor = scale * LOG2_E if self.raw else LOG2_E
        self.key_parts = schedule.key_parts.data
        tile, self.batch = self._workgroup()
        subgroup = b.subgroup_id(schedule.subgroups.data)
        self.part = b.remainder(subgroup, self.key_parts)
        self.group = b.divided(subgroup, self.key_parts)
        self.lane = b.lane_id()
        self.tile_row = b.times(tile, schedule.query_tile.data)
        self.row = b.plus(self.tile_row, b.times(self.group, schedule.rows))
        self.rows = ROWS[schedule.probabilities.data](b, plan, self.lane, subgroup)
        self.first_row, self.last_row = self.row, schedule.rows - 1
        """
        First query row that determines the range of key tiles, and the distance to the last one.
        """
        if schedule.staged or self.rows.waits:
            # Drivers may treat a subgroup barrier as a workgroup barrier: all subgroups must
            # execute the same number of barriers.
            self.first_row, self.last_row = self.tile_row, schedule.query_tile.data - 1
        self.tile_count = ceil_div(plan.sizes.extents[1], self.keys)
        self.whole = plan.sizes.extents[1] // self.keys
        self.mask, self.sink = self._view("mask"), self._load_sink()
        self.is_filled = False
        """
        True after the first loop. Its Workgroup buffers may still be in use by other subgroups.
        """

    def _workgroup(self) -> tuple[Index, Index]:
        """Returns the index of the workgroup's query tile, and the index of the batch."""
        b, plan = self.b, self.plan
        x, y = gpu.DimensionEnum.X, gpu.DimensionEnum.Y
        if plan.schedule.order.data == "batch":
            x, y = y, x
        tile: Index = b.block_id(x, "query_tile")
        if plan.causal is not None:
            # The last rows see the most keys and take longest: they start first.
            tile = b.add(arith.SubiOp(b.index(plan.tiles - 1), tile))
        return tile, b.block_id(y, "batch") if plan.sizes.batch != 1 else 0

    def _view(self, name: str) -> SSAValue | None:
        value = self.plan.op.named.get(name)
        if value is None:
            return None
        return self.b.at_top(FlatViewOp(value, self.plan.element_of(name)), f"{name}_elements")

    def _load_sink(self) -> SSAValue | None:
        """Loads the attention sink of the batch, scaled like the row maxima; None without one."""
        b, view = self.b, self._view("sink")
        if view is None:
            return None
        layout = self.plan.layout("sink")
        place = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        sink = convert_factor(b, b.load(view, (place,)), f32, signed=True)
        return self.times(sink, self.number(LOG2_E)) if self.raw else sink

    # The loop over keys

    def write(self) -> None:
        """Writes the whole kernel body."""
        self.q = self._queries() if self.plan.schedule.holds_queries else None
        self.sources = {name: self._open(name) for name in "kv"}
        zero, low, empty = self.rows.number(0.0), self.rows.number(LOWEST), self.rows.splat(0.0)
        if (sink := self.sink) is not None:
            low = self.rows.each(lambda least: self.greater(sink, least), low)
        maxima, sums = (
            [[value] * len(self.rows.groups) for _ in range(self.strips)] for value in (low, zero)
        )
        state = State(maxima, sums, [[empty] * self.plan.columns for _ in range(self.strips)])
        begin, end = self._bounds()
        state = self._whole_tiles(begin, state)
        state = self._masked_tiles(begin, end, state)
        if self.key_parts == 1:
            self._finish(state)
        else:
            at, held = (self.group, self.part, self.lane), self._in_cells(state)
            load = exchange_parts(self.b, self.plan, at, held.flat())
            self.b.when(self.b.below(self.part, 1), lambda: self._finish(self._merge(state, load)))

    def _whole_tiles(self, upper: Index, state: State) -> State:
        if self.whole == 0 or self.plan.sizes.window is not None:
            return state
        # The count is dynamic and may be 0: then the first read is redirected to tile 0.
        first: Index = 0
        if self.key_parts > 1:
            first = self.b.index_inside(self.b.below(self.part, self.whole), self.part)
        return self._tiles(first, (self.part, upper), state, masked=False)

    def _masked_tiles(self, lower: Index, upper: Index, state: State) -> State:
        if not self.plan.hides:
            return state
        if self.key_parts > 1:
            # Rounds up to the next tile that belongs to this part.
            b = self.b
            over = b.remainder(b.index(lower), self.key_parts)
            over = b.minus(b.plus(self.part, self.key_parts), over)
            lower = b.plus(lower, b.remainder(over, self.key_parts))
        last, staged = self.tile_count - 1, self.plan.schedule.staged
        first = self.b.select(self.b.below(lower, last), lower, last) if staged else lower
        return self._tiles(first, (lower, upper), state, masked=True)

    def _bounds(self) -> tuple[Index, Index]:
        """Returns the end of the tiles visible to all rows, and of the tiles visible to any row."""
        b = self.b
        plan, last = self.plan, self.last_row
        causal, window = plan.causal, plan.sizes.window
        begin: Index = self.whole
        end: Index = self.tile_count
        if causal is not None:
            begin = b.divided(self._up_to(causal + 1), self.keys)
            end = b.divided(b.plus(self._up_to(causal + (last + 1)), self.keys - 1), self.keys)
        if window is not None:
            # Both ends of a sliding window depend on the row: no tile is known to be visible
            # to all rows.
            begin = b.divided(self._up_to(window), self.keys)
        return begin, end

    def _up_to(self, bound: Size) -> Index:
        """Returns the first row plus `bound`, clamped to 0 ... number of keys."""
        b, (_, keys, _, _) = self.b, self.plan.sizes.extents
        seen = b.add(arith.AddiOp(self.as_signed(self.first_row), b.i32(bound)))
        seen = b.add(arith.MinSIOp(seen, b.i32(keys)))
        seen = b.add(arith.MaxSIOp(seen, b.i32(0)))
        return b.add(arith.IndexCastOp(seen, IndexType()))

    def _tiles(
        self, first: Index, bounds: tuple[Index, Index], state: State, masked: bool
    ) -> State:
        """Loops over the tiles in `bounds`. Reads tile `first` ahead even if there are none."""
        self.masked, self.pipeline = masked, self.plan.pipeline(masked)
        self.count = self.tile_count if masked else self.whole
        """Exclusive upper bound of the indices of tiles that are read ahead."""

        def step(number: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._tile(number, state.like(carried)).flat()

        self._begin(first, state)
        lower, upper = bounds
        if isinstance(lower, int) and isinstance(upper, int) and upper == lower + 1:
            return state.like(step(lower, state.flat())).carried
        results = self.b.loop(upper, self.key_parts, state.flat(), step, "tile", lower)
        loop = results[0].owner
        assert isinstance(loop, Operation)
        loop.attributes[KEEP_LOOP] = UnitAttr()
        return state.like(results).carried

    def _begin(self, first: Index, state: State) -> None:
        """Writes the prologue of the pipeline for the first tiles of a loop."""
        pipeline, tiles = self.pipeline, [first]
        guarded = self.masked or is_dynamic(self.whole)
        self._buffer(first)
        for number in range(pipeline.reach):
            for stage in FIRST_STAGES:
                waits = stage is Stage.BARRIER and self.is_filled
                if number < pipeline.tiles_ahead(Stage.WRITE_KEYS if waits else stage):
                    self._move(stage, tiles, number, state, guarded)
        self.is_filled = True

    def _tile(self, tile: Index, state: State) -> State:
        """Writes an iteration for a tile. Returns the new values that the loop carries."""
        late, tiles, kept = self.plan.schedule.rescale.data == "late", [tile], state.carried
        for source in self.sources.values():
            source.buffer = self._buffer(tile)
        self._number(tiles, min(1, self.pipeline.reach))
        scores, cells, lefts, sums = list[list[Fragment]](), Cells(), list[Words](), list[Words]()
        for stage, ahead in self.pipeline.steps:
            match stage:
                case Stage.SCORES:
                    scores = self._scores(self._take("k", state))
                case Stage.MAXIMA:
                    cells = self._cells(scores, tile)
                    kept = kept if late else self._rescale(cells, kept)
                case Stage.POWERS:
                    lefts, sums = self._powers(cells, kept.maxima)
                    if late:
                        kept, lefts, sums = self._correct(cells, kept, lefts, sums)
                case Stage.MULTIPLY:
                    self._add_values(self._take("v", state), lefts, kept.results)
                case _:
                    self._move(stage, tiles, ahead, state, self.masked)
        sums = [list(map(self.plus, *pair)) for pair in zip(kept.sums, sums, strict=True)]
        return replace(state, maxima=kept.maxima, sums=sums, results=kept.results)

    def _move(
        self, stage: Stage, tiles: list[Index], ahead: int, state: State, guarded: bool
    ) -> None:
        """Writes a stage that moves operands, for the tile `ahead` iterations after `tiles[0]`."""
        name = READS.get(stage) or WRITES.get(stage, "k")
        if stage in READS:
            tile, guarded = self._number(tiles, ahead), guarded and self.plan.ragged
            state.words[name] = self.sources[name].read_tile(tile, guarded)
        elif stage in WRITES:
            (words,), state.words[name] = state.words[name], []
            self.sources[name].store(words, self._buffer(tiles[0], ahead))
        else:
            self.b.barrier()

    def _take(self, name: str, state: State) -> list[Words]:
        """Removes a tile's words (its elements in registers) from the state and returns them."""
        if self.plan.schedule.staged:
            return []
        words, state.words[name] = state.words[name], []
        return words

    def _number(self, tiles: list[Index], ahead: int) -> Index:
        """
        Returns the tile index `ahead` iterations after `tiles[0]`, but at most the last tile's.
        """
        b, count = self.b, self.count
        while len(tiles) <= ahead:
            after = b.plus(tiles[-1], self.key_parts)
            if isinstance(after, int) and isinstance(count, int):
                tiles.append(min(after, count - 1))
            else:
                tiles.append(b.select(b.below(after, count), after, count - 1))
        return tiles[ahead]

    def _buffer(self, tile: Index, ahead: int = 0) -> Index:
        """Returns the index of the Workgroup buffer for the tile `tile` + `ahead`."""
        count = self.plan.schedule.buffers.data
        return self.b.remainder(self.b.plus(tile, ahead), count) if count > 1 else 0

    # Products

    def _open(self, name: str) -> Lines:
        return LINES[self.plan.path(name)](self.b, self.plan, name, self.batch, self.lane)

    def _queries(self) -> list[list[Fragment]]:
        source = self._open("q")
        first = self.b.divided(self.row, self.m)
        lines = source.read(first, self.strips, self.plan.ends_within)
        return [list(source.fragments(words)) for words in lines]

    def _multiply(
        self, lefts: list[Fragment], right: Fragment, sums: list[list[Fragment]], at: int
    ) -> None:
        """Adds the product of each strip's left fragment and `right` to the strip's sum `at`."""
        totals = multiply_matrices(self.b, lefts, [right], [row[at] for row in sums])
        for row, total in zip(sums, totals, strict=True):
            row[at] = total

    def _scores(self, keys: list[Words]) -> list[list[Fragment]]:
        """Computes the scores of each strip (row of fragments) of queries for a tile of keys."""
        source, count = self.sources["k"], self.plan.key_fragments
        queries, zero = self.q or self._queries(), self.rows.splat(0.0)
        scores = [[zero] * count for _ in range(self.strips)]
        for block, j in product(range(source.blocks), range(count)):
            fragments = source.block(keys, j, block)
            for step, right in enumerate(fragments, block * source.block_fragments):
                self._multiply([line[step] for line in queries], right, scores, j)
        return scores

    def _add_values(
        self, values: list[Words], lefts: list[list[Fragment]], results: list[list[Fragment]]
    ) -> None:
        """Adds the product of probabilities (`lefts`) and values to the results, in place."""
        source = self.sources["v"]
        for step, block in product(range(self.keys // self.k), range(source.blocks)):
            fragments = source.block(values, step, block)
            for column, right in enumerate(fragments, block * source.block_fragments):
                self._multiply([left[step] for left in lefts], right, results, column)

    # Scores

    def _cells(self, scores: list[list[Fragment]], tile: Index) -> Cells:
        """Splits scores into components, by strip (row of fragments), after scaling and masking."""
        if self.raw:
            cells = [[self.rows.cells(fragment) for fragment in row] for row in scores]
        else:
            cells = self._scale(scores, tile)
        if not self.masked:
            return cells
        first = self.b.times(tile, self.keys)
        return [
            [
                self.rows.each_place(partial(self._hide, strip, first, j * self.n), part)
                for j, part in enumerate(row)
            ]
            for strip, row in enumerate(cells)
        ]

    def _scale(self, scores: list[list[Fragment]], tile: Index) -> Cells:
        """Splits scores into components after scaling, capping and adding the mask operand."""
        b, rows, cap = self.b, self.rows, self.plan.op.cap
        scale = rows.splat(self.plan.op.scale.value.data)
        first = b.times(tile, self.keys)

        scaled: Cells = []
        for strip, row in enumerate(scores):
            scaled.append([])
            for j, fragment in enumerate(row):
                cells = rows.cells(self.times(fragment, scale))
                if cap is not None:
                    cells = [rows.each(partial(self._cap, cap.value.data), x) for x in cells]
                if self.mask is not None:
                    key = b.plus(first, j * self.n)
                    added = rows.each_place(partial(self._mask_at, strip, key), cells)
                    cells = list(map(self.plus, cells, added))
                scaled[-1].append(cells)
        return scaled

    def _cap(self, cap: float, score: SSAValue) -> SSAValue:
        return self.times(self.b.add(math.TanhOp(score)), self.number(cap))

    def _mask_at(self, strip: int, key: Index, place: Place, score: SSAValue) -> SSAValue:
        """Loads an element of the mask operand as f32; -inf outside of the mask."""
        b, plan, layout = self.b, self.plan, self.plan.layout("mask")
        assert self.mask is not None
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        rows, keys, _, _ = plan.sizes.extents
        r: Index = b.plus(b.plus(self.row, place.lane_row), strip * self.m + place.row)
        c: Index = b.plus(b.plus(key, place.lane_column), place.column)
        exists = not plan.ends_within or b.below(r, rows)
        inside = b.both(exists, not plan.ragged or b.below(c, keys))
        r, c = b.index_inside(inside, r), b.index_inside(inside, c)
        at = b.plus(offset_along(b, layout, 1, r), offset_along(b, layout, 2, c))
        value = b.load(self.mask, (b.plus(start, at),))
        value = convert_factor(b, value, f32, signed=True)
        return b.select(inside, value, self.number(-inf))

    def _hide(
        self, strip: int, first: Index, column: int, place: Place, score: SSAValue
    ) -> SSAValue:
        """Replaces a score by -inf if its key does not exist or is hidden from the row."""
        b, plan = self.b, self.plan
        key = b.plus(first, place.lane_column)

        def limit(bound: Size) -> SSAValue:
            """Returns (row index + bound) - (index of the lane's first key), as i32."""
            diagonal = self.difference(b.plus(self.row, place.lane_row), key)
            return b.pure(arith.AddiOp, diagonal, b.i32(bound + (strip * self.m + place.row)))

        limits: list[tuple[SSAValue, str]] = []
        if plan.ragged:
            limits.append((self.difference(plan.sizes.extents[1] - 1, key), "sgt"))
        if plan.causal is not None:
            limits.append((limit(plan.causal), "sgt"))
        if len(limits) > 1:
            limits = [(b.pure(arith.MinSIOp, limits[1][0], limits[0][0]), "sgt")]
        if plan.sizes.window is not None:
            limits.append((limit(plan.sizes.window), "slt"))
        for bound, outside in limits:
            hides = b.add(arith.CmpiOp(b.i32(column + place.column), bound, outside))
            score = b.add(arith.SelectOp(hides, self.number(-inf), score))
        return score

    # Softmax

    def _greatest(self, scores: Cells) -> list[list[Cell]]:
        greater = partial(self.rows.each, self.greater)
        return [
            [reduce(greater, [part[i] for part in row for i in own]) for own in self.rows.groups]
            for row in scores
        ]

    def _rescale(self, scores: Cells, state: State) -> State:
        """
        Returns the state with raised maxima. With `rescale = seldom`, raises them only if a score
        exceeds its row's maximum by `EXCESS`.
        """
        greatest = self._greatest(scores)

        def new() -> Sequence[SSAValue]:
            return self._with_maxima(greatest, state).flat()

        if self.plan.schedule.rescale.data == "always":
            return state.like(new())
        kept = state.flat()
        excess = [
            self.rows.each(self.exponent, *pair)
            for values, own in zip(greatest, state.maxima, strict=True)
            for pair in zip(values, own, strict=True)
        ]
        over = self._any_exceeds(excess, EXCESS, "ogt")
        return state.like(self.b.choose(over, new, lambda: kept))

    def _any_exceeds(self, cells: list[Cell], limit: float, predicate: str) -> SSAValue:
        """
        True if, in any invocation, the greatest number compares with `limit` as `predicate` says.
        """
        greatest = reduce(self.greater, [x for cell in cells for x in self.rows.votes(cell)])
        over = self.b.add(arith.CmpfOp(greatest, self.number(limit), predicate))
        return self.b.add(spv.GroupNonUniformAnyOp(spv.Scope.Subgroup, over))

    def _with_maxima(self, greatest: list[list[Cell]], state: State) -> State:
        """Returns the loop's state with maxima raised to the greatest new scores."""
        risen, over_rows = partial(self.rows.each, self._risen), self.rows.over_rows
        pairs = zip(state.maxima, greatest, strict=True)
        maxima = (map(risen, own, over_rows(values, self.greater)) for own, values in pairs)
        return self._move_maxima(state, maxima)

    def _move_maxima(self, state: State, maxima: Iterable[Iterable[Cell]]) -> State:
        """Returns the loop's state with the given maxima, and with rescaled sums and results."""
        moved = State([], [], [])
        for strip, tops in enumerate(maxima):
            risen = zip(state.maxima[strip], tops, strict=True)
            pairs = [(top, self.rows.each(self.shrink, before, top)) for before, top in risen]
            factors = [factor for _, factor in pairs]
            moved.maxima.append([top for top, _ in pairs])
            moved.sums.append(list(map(self.times, state.sums[strip], factors)))
            results = state.results[strip]
            moved.results.append([self._by_row(fragment, factors) for fragment in results])
        return moved

    def _by_row(self, fragment: Fragment, factors: list[Cell]) -> Fragment:
        rows = self.rows
        return rows.replace_cells(
            list(map(self.times, rows.cells(fragment), rows.by_row(factors))), fragment
        )

    def _risen(self, maximum: SSAValue, score: SSAValue) -> SSAValue:
        """Scales a score like the maxima, and returns the greater of score and maximum."""
        if self.raw:
            score = self.times(score, self.number(self.factor))
        return self.greater(maximum, score)

    def _correct(
        self, scores: Cells, kept: State, lefts: list[list[Fragment]], sums: list[list[Cell]]
    ) -> tuple[State, list[list[Fragment]], list[list[Cell]]]:
        """Returns state, powers and row sums, recomputed with new maxima if a sum is too large."""
        totals = [total for row in sums for total in row]
        over = self._any_exceeds(totals, 2.0**EXCESS, "ugt")
        whole = replace(kept, words={"k": lefts, "v": sums})
        flat = whole.flat()

        def new() -> Sequence[SSAValue]:
            state = self._with_maxima(self._greatest(scores), kept)
            lefts, sums = self._powers(scores, state.maxima)
            return replace(state, words={"k": lefts, "v": sums}).flat()

        chosen = whole.like(self.b.choose(over, new, lambda: flat))
        return chosen.carried, chosen.words["k"], chosen.words["v"]

    def _powers(
        self, scores: Cells, maxima: list[list[Cell]]
    ) -> tuple[list[list[Fragment]], list[list[Cell]]]:
        """Returns exp(score - maximum) as left operands of the second product, and row sums."""
        rows, sums = self.rows, list[list[Cell]]()
        power = partial(rows.each, lambda x, top: self.power(self.exponent(x, top)))

        def strips() -> Iterator[list[list[Cell]]]:
            for row, own in zip(scores, maxima, strict=True):
                tops = rows.by_row(own)
                powers = [list(map(power, part, tops)) for part in row]
                of_rows = ([part[i] for part in powers for i in cells] for cells in rows.groups)
                sums.append([reduce(self.plus, values) for values in of_rows])
                yield powers

        return rows.operands(strips()), sums

    def exponent(self, score: SSAValue, maximum: SSAValue) -> SSAValue:
        """Returns the exponent of 2 that gives exp(score - maximum)."""
        b, factor = self.b, self.number(self.factor)
        if self.raw:
            return b.add(math.FmaOp(score, factor, b.add(arith.NegfOp(maximum))))
        return self.times(b.add(arith.SubfOp(score, maximum)), factor)

    def shrink(self, before: SSAValue, now: SSAValue) -> SSAValue:
        """Returns the factor for sums and results when a maximum grows from `before` to `now`."""
        lost = self.b.add(arith.SubfOp(before, now))
        return self.power(lost if self.raw else self.times(lost, self.number(self.factor)))

    # Parts of the keys

    def _in_cells(self, state: State) -> State:
        results = [[x for f in row for x in self.rows.cells(f)] for row in state.results]
        return State(state.maxima, state.sums, results)

    def _merge(self, state: State, load: Callable[[int], list[SSAValue]]) -> State:
        """Merges the states of all key parts: scales them to a common maximum and adds them."""
        empty, held = self.rows.splat(0.0), self._in_cells(state)
        for part in range(1, self.key_parts):
            other = held.like(load(part))
            width = len(other.results[0]) // self.plan.columns
            starts = range(0, self.plan.columns * width, width)
            other.results = [
                [self.rows.replace_cells(row[at : at + width], empty) for at in starts]
                for row in other.results
            ]
            pairs = zip(state.maxima, other.maxima, strict=True)
            maxima = [list(map(self.greater, *pair)) for pair in pairs]
            moved = (self._move_maxima(part, maxima) for part in (state, other))
            own, its = (replace(part, maxima=[]) for part in moved)
            total = own.like(list(map(self.plus, own.flat(), its.flat())))
            state = replace(total, maxima=maxima)
        return state

    # The result

    def _finish(self, state: State) -> None:
        """Divides the results by the row sums and stores the quotients."""
        rows, guarded = self.rows, self.plan.op.nan_to_zero is not None
        result = AttentionResult(self.b, self.plan, rows, (self.batch, self.row))
        for strip, sums in enumerate(state.sums):
            totals = list(rows.over_rows(sums, self.plus))
            if self.sink is not None:
                totals = list(map(partial(rows.each, self._with_sink), totals, state.maxima[strip]))
            one = self.number(1.0)
            inverse = [rows.each(lambda x: self.b.add(arith.DivfOp(one, x)), x) for x in totals]
            columns: list[list[Cell]] = []
            for fragment in state.results[strip]:
                cells = list(map(self.times, rows.cells(fragment), rows.by_row(inverse)))
                if guarded:
                    pairs = zip(cells, rows.by_row(totals), strict=True)
                    cells = [rows.each(self._or_zero, *pair) for pair in pairs]
                columns.append(cells)
            result.store(strip, columns)

    def _with_sink(self, total: SSAValue, maximum: SSAValue) -> SSAValue:
        assert self.sink is not None
        return self.plus(total, self.shrink(self.sink, maximum))

    def _or_zero(self, value: SSAValue, total: SSAValue) -> SSAValue:
        return self.b.select(self.has_sum(total), value, self.number(0.0))


class AttentionToCooperativeMatrixPass(KernelPass):
    """Writes the attention kernels that use cooperative matrices, and their packing kernels."""

    name = "attention-to-cooperative-matrix"
    codes = {"attention": lambda b, plan, _: AttentionCode(b, plan).write(), "pack": write_pack}
