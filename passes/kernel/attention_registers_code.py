"""
The code of an attention's kernel where it is known which invocation holds which component.

Accumulators of scores and the first operand of the second product have their components in the same
places, so that powers never leave the registers: no Workgroup memory, no barrier, and subgroups go
each their own way. A row's greatest score and its sum are one number in each invocation that has
components of it, exchanged among these only when a maximum moves, and at the end.

The words of keys and values are read ahead of the products that need them, as the schedule says:
one tile of keys is carried by the loop while the one before is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import inf

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import Float32Type, IndexType, MemRefType, UnitAttr, f32
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.schedule import KEEP_LOOP
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_lines import lines_of
from xdsl_spirv.passes.kernel.attention_numbers import (
    EXCESS,
    LOWEST,
    Fragment,
    FragmentAttention,
    State,
    Words,
)
from xdsl_spirv.passes.kernel.attention_operands import offset_along
from xdsl_spirv.passes.kernel.attention_parts import PartsMerge
from xdsl_spirv.passes.kernel.attention_result import RegisterResult
from xdsl_spirv.passes.kernel.matrix_values import lane_places
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.plan import ceil_div


class RegisterAttentionCode(FragmentAttention):
    """Writes the body of the kernel."""

    def __init__(self, b: KernelEmitter, plan: AttentionPlan):
        super().__init__(b, plan)
        schedule = plan.schedule
        self.key_parts = schedule.key_parts.data
        tile, self.batch = self._workgroup()
        subgroup = b.subgroup_id(schedule.subgroups.data)
        self.part = b.remainder(subgroup, self.key_parts)
        self.group = b.divided(subgroup, self.key_parts)
        self.lane = b.lane_id()
        self.tile_row = b.times(tile, schedule.query_tile.data)
        self.row = b.plus(self.tile_row, b.times(self.group, schedule.rows))
        self.first_row, self.last_row = self.row, schedule.rows - 1
        """The first row that bounds which tiles are read, and the number of rows after it."""
        fragment = plan.shared_places
        assert fragment is not None
        self.places = fragment.component.places
        self.group_rows, self.groups = zip(*fragment.component.groups(0).items(), strict=True)
        self.row_lanes = [1 << bit for bit, _ in fragment.lane.bits_along(1)]
        self.lane_row, self.lane_column = lane_places(b, fragment, self.lane)
        self.tile_count = ceil_div(plan.extents[1], self.keys)
        self.whole = plan.extents[1] // self.keys
        self.mask = self.view_mask()

    def _workgroup(self) -> tuple[Index, Index]:
        """The numbers of the workgroup's tile of queries and of its matrices."""
        b, plan = self.b, self.plan
        x, y = gpu.DimensionEnum.X, gpu.DimensionEnum.Y
        if plan.schedule.order.data == "batch":
            x, y = y, x
        tile: Index = b.block_id(x, "query_tile")
        if plan.causal is not None:
            # The last rows see most keys: they begin first.
            tile = b.add(arith.SubiOp(b.index(plan.tiles - 1), tile))
        batched = plan.sizes.batch != 1
        return tile, b.block_id(y, "batch") if batched else 0

    # Scalars and fragments

    @property
    def components(self) -> int:
        return len(self.places)

    def by_row(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Repeats each row's value for every component of the row."""
        return [values[self.group_rows.index(row)] for row, _ in self.places]

    def over_row(
        self, value: SSAValue, combine: Callable[[SSAValue, SSAValue], SSAValue]
    ) -> SSAValue:
        """Combines a number of all invocations that share a row."""
        for distance in self.row_lanes:
            value = exchanged(self.b, value, distance, 2 * distance, combine)
        return value

    # The loop over keys

    def write(self) -> None:
        """Writes the whole body."""
        self.q = self._queries() if self.plan.schedule.holds_queries else None
        self._open_sources()
        zero, low = self.number(0.0), self.number(LOWEST)
        empty = self.splat(0.0, self.accumulator)
        state = self.first_state(low, zero, empty, len(self.groups))
        begin, end = self._bounds()
        state = self._whole_tiles(begin, state)
        state = self._masked_tiles(begin, end, state)
        if self.key_parts == 1:
            self._finish(state)
        else:
            at = self.group, self.part, self.lane
            merge = PartsMerge(self, self.plan, state, at, self.by_row)
            self.b.when(self.b.below(self.part, 1), lambda: self._finish(merge.merged()))

    def _open_sources(self) -> None:
        """Prepares reading keys and values."""
        self.source_k = lines_of(self.b, self.plan, "k", self.batch, self.lane)
        self.source_v = lines_of(self.b, self.plan, "v", self.batch, self.lane)

    def _whole_tiles(self, upper: Index, state: State) -> State:
        """All tiles that every row sees whole."""
        if self.whole == 0 or self.plan.sizes.window is not None:
            return state
        # There may be none whole, which only the device knows.
        first: Index = 0
        if self.key_parts > 1:
            first = self.b.index_inside(self.b.below(self.part, self.whole), self.part)
        self._read_ahead(first, state, is_dynamic(self.whole))
        state = self._tiles(self.part, upper, state, masked=False)
        state.keys, state.values, state.scores = [], [], []
        return state

    def _read_ahead(self, first: Index, state: State, guarded: bool) -> None:
        """Reads ahead for the first whole tile."""
        schedule = self.plan.schedule
        if schedule.reads_ahead("keys"):
            state.keys = self._keys(first, guarded)
        if schedule.reads_ahead("both"):
            state.values = self._values(first, guarded)
        if schedule.scores_ahead:
            state.scores = self._scores(state.keys or self._keys(first, guarded))
            if state.keys:
                state.keys = self._keys(self._following(first), guarded)

    def _masked_tiles(self, lower: Index, upper: Index, state: State) -> State:
        """
        Runs the tiles that need a mask: they do not use data read ahead, because some of their rows
        lie outside the tensor.
        """
        if not self.plan.hides:
            return state
        if self.key_parts > 1:
            # The first of the part's own tiles from there on.
            b = self.b
            over = b.remainder(b.index(lower), self.key_parts)
            over = b.minus(b.plus(self.part, self.key_parts), over)
            lower = b.plus(lower, b.remainder(over, self.key_parts))
        return self._tiles(lower, upper, state, masked=True)

    def _bounds(self) -> tuple[Index, Index]:
        """The number of tiles that every row sees whole, and where tiles end that any row sees."""
        b = self.b
        plan, last = self.plan, self.last_row
        causal, window = plan.causal, plan.sizes.window
        begin: Index = self.whole
        end: Index = self.tile_count
        if causal is not None:
            begin = b.divided(self._up_to(causal + 1), self.keys)
            end = b.divided(b.plus(self._up_to(causal + (last + 1)), self.keys - 1), self.keys)
        if window is not None:
            # Two edges move along with rows: no tile is known to be whole.
            begin = b.divided(self._up_to(window), self.keys)
        return begin, end

    def _up_to(self, bound: Size) -> Index:
        """The number of keys below the first row plus `bound`, at least 0."""
        b, (_, keys, _, _) = self.b, self.plan.extents
        seen = b.add(arith.AddiOp(self.as_signed(self.first_row), b.i32(bound)))
        seen = b.add(arith.MinSIOp(seen, b.i32(keys)))
        seen = b.add(arith.MaxSIOp(seen, b.i32(0)))
        return b.add(arith.IndexCastOp(seen, IndexType()))

    def _tiles(self, lower: Index, upper: Index, state: State, masked: bool) -> State:
        def step(number: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._tile(number, state.like(carried), masked).flat()

        if isinstance(lower, int) and isinstance(upper, int) and upper == lower + 1:
            return state.like(step(lower, state.flat()))
        results = self.b.loop(upper, self.key_parts, state.flat(), step, "tile", lower)
        loop = results[0].owner
        assert isinstance(loop, Operation)
        loop.attributes[KEEP_LOOP] = UnitAttr()
        return state.like(results)

    def _tile(self, tile: Index, state: State, masked: bool) -> State:
        """The state after a tile; reads and computations ahead are for the next one."""
        schedule = self.plan.schedule
        keys, values, scores = state.keys, state.values, state.scores
        following = self._following(tile) if keys or values or scores else tile
        if not scores:
            scores = self._scores(keys or self._keys(tile, masked))
            keys = self._keys(following) if keys else []
        # Where scores are computed ahead, these are the following tile's.
        early = keys or (self._keys(following) if state.scores else [])
        if not values and schedule.reads_ahead("values"):
            values = self._values(tile, masked)
        components = self._components(scores, tile, masked)
        ahead: list[list[Fragment]] = []

        def score_ahead() -> None:
            if state.scores:
                ahead.extend(self._scores(early))

        kept, lefts, sums = self._weigh(components, state, score_ahead)
        if ahead and keys:
            keys = self._keys(self._following(following))
        self._add_values(values or self._values(tile, masked), lefts, kept.results)
        values = self._values(following) if state.values else []
        sums = self._totals(kept, sums)
        return State(kept.maxima, sums, kept.results, keys, values, ahead)

    def _weigh(
        self,
        components: list[list[list[SSAValue]]],
        state: State,
        beside: Callable[[], None] = lambda: None,
    ) -> tuple[State, list[list[Fragment]], list[list[SSAValue]]]:
        """
        Returns the state with maxima that hold for the scores, their powers as operands, and the
        powers' sums; `beside` writes what the device can compute meanwhile.
        """
        kept = State(state.maxima, state.sums, state.results)
        late = self.plan.schedule.rescale.data == "late"
        if not late:
            kept = self.rescale(components, kept)
        beside()
        lefts, sums = self._powers(components, kept.maxima)
        return self._corrected(components, kept, lefts, sums) if late else (kept, lefts, sums)

    def _totals(self, state: State, sums: list[list[SSAValue]]) -> list[list[SSAValue]]:
        return [list(map(self.plus, *pair)) for pair in zip(state.sums, sums, strict=True)]

    def _components(
        self, scores: list[list[Fragment]], tile: Index, masked: bool
    ) -> list[list[list[SSAValue]]]:
        """The invocation's own scores by strip and fragment, scaled and masked."""
        if self.raw:
            components = [[self.parts(fragment) for fragment in row] for row in scores]
        else:
            components = self._scaled(scores, tile)
        return self._masked(components, tile) if masked else components

    def _following(self, tile: Index, count: Size | None = None) -> Index:
        """Returns the next of `count` tiles (the whole ones), or the last if there is none."""
        b, count = self.b, self.whole if count is None else count
        after = b.plus(tile, self.key_parts)
        if isinstance(after, int) and isinstance(count, int):
            return min(after, count - 1)
        return b.select(b.below(after, count), after, count - 1)

    # Products

    def _queries(self) -> list[list[Fragment]]:
        """Loads the subgroup's rows of queries."""
        source = lines_of(self.b, self.plan, "q", self.batch, self.lane)
        read = source.at(self.b.divided(self.row, self.m), self.plan.ends_within)
        return [list(source.fragments(read(strip))) for strip in range(self.strips)]

    def _keys(self, tile: Index, masked: bool = False) -> list[Words]:
        count = self.plan.key_fragments
        read = self.source_k.at(self.b.times(tile, count), masked and self.plan.ragged)
        return [read(line) for line in range(count)]

    def _values(self, tile: Index, masked: bool = False) -> list[Words]:
        count = self.keys // self.k
        read = self.source_v.at(self.b.times(tile, count), masked and self.plan.ragged)
        return [read(line) for line in range(count)]

    def _scores(self, keys: list[Words]) -> list[list[Fragment]]:
        fragments = self.source_k.fragments
        queries = self.q or self._queries()
        return self.multiply_keys(queries, len(keys), lambda j: fragments(keys[j]))

    def _add_values(
        self, values: list[Words], lefts: list[list[Fragment]], results: list[list[Fragment]]
    ) -> None:
        """Adds the probabilities times values to the results."""
        fragments = self.source_v.fragments
        of_step = [[row[step] for row in lefts] for step in range(len(values))]
        self.add_values(
            len(values), lambda step: fragments(values[step]), of_step.__getitem__, results
        )

    # Scores

    def _difference(self, a: Index, c: Index) -> SSAValue:
        """Subtracts two indices as i32; the result may be negative."""
        return self.b.add(arith.SubiOp(self.as_signed(a), self.as_signed(c)))

    def _limits(self, tile: Index) -> list[list[SSAValue]]:
        """For each row the greatest number of a key of the tile that it sees, less the lane's."""
        b, plan, causal = self.b, self.plan, self.plan.causal
        first = b.plus(b.times(tile, self.keys), self.lane_column)
        of_all: SSAValue | None = None
        if plan.ragged:
            of_all = self._difference(plan.extents[1] - 1, first)
        if causal is None:
            of_all = b.i32(self.keys) if of_all is None else of_all
            return [[of_all] * len(self.groups) for _ in range(self.strips)]
        limits = self._diagonal(first, causal)
        if of_all is None:
            return limits
        return [[b.add(arith.MinSIOp(limit, of_all)) for limit in row] for row in limits]

    def _diagonal(self, first: Index, bound: Size) -> list[list[SSAValue]]:
        """For each row: row number + `bound` - `first`."""
        b = self.b
        diagonal = self._difference(b.plus(self.row, self.lane_row), first)
        return [
            [
                b.add(arith.AddiOp(diagonal, b.i32(bound + (strip * self.m + row))))
                for row in self.group_rows
            ]
            for strip in range(self.strips)
        ]

    def _masked(
        self, scores: list[list[list[SSAValue]]], tile: Index
    ) -> list[list[list[SSAValue]]]:
        """-inf for keys that do not exist, or that the row may not see."""
        window, first = self.plan.sizes.window, self.b.times(tile, self.keys)
        limits = self._limits(tile)
        lows = None
        if window is not None:
            lows = self._diagonal(self.b.plus(first, self.lane_column), window)
        return [
            [
                self._masked_part(part, j, limits[strip], lows[strip] if lows else None)
                for j, part in enumerate(row)
            ]
            for strip, row in enumerate(scores)
        ]

    def _masked_part(
        self,
        values: list[SSAValue],
        j: int,
        limits: list[SSAValue],
        lows: list[SSAValue] | None,
    ) -> list[SSAValue]:
        """Masks the components of one fragment of scores."""
        b, least = self.b, self.number(-inf)

        def masked(value: SSAValue, i: int, bounds: list[SSAValue], outside: str) -> SSAValue:
            number = b.i32(j * self.n + self.places[i][1])
            hidden = b.add(arith.CmpiOp(number, self.by_row(bounds)[i], outside))
            return b.add(arith.SelectOp(hidden, least, value))

        values = [masked(value, i, limits, "sgt") for i, value in enumerate(values)]
        if lows is None:
            return values
        return [masked(value, i, lows, "slt") for i, value in enumerate(values)]

    def _scaled(self, scores: list[list[Fragment]], tile: Index) -> list[list[list[SSAValue]]]:
        """Components of scores times the scale, capped, plus the mask."""
        b = self.b
        scale = self.splat(self.plan.op.scale.value.data, self.accumulator)
        cap = None if self.plan.op.cap is None else self.plan.op.cap.value.data
        first = b.times(tile, self.keys)
        scaled: list[list[list[SSAValue]]] = []
        for strip, row in enumerate(scores):
            scaled.append([])
            for j, fragment in enumerate(row):
                values = self.parts(self.times(fragment, scale))
                if cap is not None:
                    values = [self.times(b.add(math.TanhOp(x)), self.number(cap)) for x in values]
                if self.mask is not None:
                    added = self._mask(strip, b.plus(first, j * self.n))
                    values = [self.plus(x, y) for x, y in zip(values, added, strict=True)]
                scaled[-1].append(values)
        return scaled

    def _mask(self, strip: int, key: Index) -> list[SSAValue]:
        """Loads the mask's components as f32; -inf outside the mask."""
        b, plan, layout = self.b, self.plan, self.plan.layout("mask")
        assert self.mask is not None
        assert isinstance(self.mask.type, MemRefType)
        element = self.mask.type.element_type
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        rows, keys, _, _ = plan.extents
        values: list[SSAValue] = []
        for row, column in self.places:
            r = b.plus(b.plus(self.row, self.lane_row), strip * self.m + row)
            c = b.plus(b.plus(key, self.lane_column), column)
            exists = not plan.ends_within or b.below(r, rows)
            inside = b.both(exists, not plan.ragged or b.below(c, keys))
            if isinstance(inside, SSAValue):
                r, c = b.select(inside, r, 0), b.select(inside, c, 0)
            at = b.plus(offset_along(b, layout, 1, r), offset_along(b, layout, 2, c))
            value = b.load(self.mask, (b.plus(start, at),))
            if not isinstance(element, Float32Type):
                value = b.add(arith.ExtFOp(value, f32))
            if isinstance(inside, SSAValue):
                value = b.select(inside, value, self.number(-inf))
            values.append(value)
        return values

    # Softmax

    def greatest(self, scores: list[list[list[SSAValue]]]) -> list[list[SSAValue]]:
        """For each strip, of each row the greatest of the invocation's own scores."""
        return [
            [reduce(self.greater, [part[i] for part in row for i in own]) for own in self.groups]
            for row in scores
        ]

    def _corrected(
        self,
        scores: list[list[list[SSAValue]]],
        kept: State,
        lefts: list[list[Fragment]],
        sums: list[list[SSAValue]],
    ) -> tuple[State, list[list[Fragment]], list[list[SSAValue]]]:
        """Corrects powers and sums that use old maxima, if a sum shows that one grew."""
        totals = [total for row in sums for total in row]
        over = self.any_exceeds(totals, self.number(2.0**EXCESS), "ugt")
        whole = replace(kept, keys=lefts, values=sums)
        flat = whole.flat()

        def new() -> Sequence[SSAValue]:
            state = self.with_maxima(self.greatest(scores), scores, kept)
            lefts, sums = self._powers(scores, state.maxima)
            return replace(state, keys=lefts, values=sums).flat()

        types = [value.type for value in flat]
        chosen = whole.like(self.b.choose(over, types, new, lambda: flat))
        return replace(chosen, keys=[], values=[]), chosen.keys, chosen.values

    def exceeds(self, greatest: list[list[SSAValue]], state: State) -> SSAValue:
        """Whether any row of the subgroup needs another maximum."""
        excess = [
            self.exponent(value, maximum)
            for values, own in zip(greatest, state.maxima, strict=True)
            for value, maximum in zip(values, own, strict=True)
        ]
        return self.any_exceeds(excess, self.number(EXCESS))

    def renew(
        self,
        strip: int,
        greatest: list[SSAValue],
        score: list[SSAValue],
        before: list[SSAValue],
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        factor = self.number(self.factor)
        maxima: list[SSAValue] = []
        factors: list[SSAValue] = []
        for value, own in zip(greatest, before, strict=True):
            value = self.over_row(value, self.greater)
            if self.raw:
                value = self.times(value, factor)
            maxima.append(self.greater(own, value))
            factors.append(self.shrink(own, maxima[-1]))
        return maxima, factors

    def weigh(self, fragment: Fragment, factors: list[SSAValue]) -> Fragment:
        weighed = map(self.times, self.parts(fragment), self.by_row(factors))
        return self.put(list(weighed), fragment)

    def _powers(
        self, scores: list[list[list[SSAValue]]], maxima: list[list[SSAValue]]
    ) -> tuple[list[list[Fragment]], list[list[SSAValue]]]:
        """Computes exp(score - maximum) as operands of the second product, and row sums."""
        b, none = self.b, self.splat(0.0, self.left)
        lefts: list[list[Fragment]] = []
        sums: list[list[SSAValue]] = []
        for strip, row in enumerate(scores):
            tops = self.by_row(maxima[strip])
            powers = [list(map(self.power, map(self.exponent, part, tops))) for part in row]
            of_rows = ([part[i] for part in powers for i in own] for own in self.groups)
            sums.append([reduce(self.plus, row) for row in of_rows])
            lefts.append([])
            for part in powers:
                narrow = [b.add(arith.TruncFOp(p, self.plan.element)) for p in part]  # pyright: ignore
                lefts[-1].append(self.put(narrow, none))
        return lefts, sums

    # The result

    def _finish(self, state: State) -> None:
        """Stores the results divided by the sums."""
        b, guarded = self.b, self.plan.op.nan_to_zero is not None
        result = RegisterResult(b, self.plan, (self.batch, self.row), self.lane)
        for strip, sums in enumerate(state.sums):
            totals = [self.over_row(total, self.plus) for total in sums]
            inverse = [b.add(arith.DivfOp(self.number(1.0), total)) for total in totals]
            some = [b.add(arith.CmpfOp(total, self.number(0.0), "ogt")) for total in totals]
            columns: list[list[SSAValue]] = []
            for fragment in state.results[strip]:
                values = list(map(self.times, self.parts(fragment), self.by_row(inverse)))
                if guarded:
                    values = [
                        b.add(arith.SelectOp(exists, value, self.number(0.0)))
                        for exists, value in zip(self.by_row(some), values, strict=True)
                    ]
                columns.append(values)
            result.store(strip, columns)
