"""
Lowers scheduled attentions to kernels of multiply-adds without cooperative matrices.

    schedule.collective {            scf.for %key = ... {
      schedule.attention ...    ->     scores: fma, exchanges; maximum, powers; values: fma
    }                                }

A group of lanes loops over the keys for a few rows of queries. Each lane computes a partial dot
product over its part of the head dimension. Exchanges add up the partial sums, so that each lane
ends with different complete scores (`Scores`). Each lane computes the powers of its scores and
sends them to the other lanes of the group. For each row the group carries the greatest score, the
sum of powers and the unnormalized result. If several groups share the rows, their states are merged
at the end: by exchanges in the subgroup, then through Workgroup memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from math import inf

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import VectorType, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import ceil_div
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.attention_elements import Elements
from xdsl_spirv.passes.kernel.attention_numbers import LOG2_E, LOWEST, Numbers, State
from xdsl_spirv.passes.kernel.elements import components_of, pack_elements
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged, reduce_by_halves
from xdsl_spirv.passes.schedule.attention_lanes import LanesPlan, N
from xdsl_spirv.passes.schedule.pipeline import READS

Values = list[SSAValue]


class LanesCode(Numbers[LanesPlan]):
    """Writes the body of an attention kernel without cooperative matrices."""

    def __init__(self, b: KernelEmitter, plan: LanesPlan):
        super().__init__(b, plan)
        self.rows = plan.schedule.rows.data
        lanes = plan.schedule.lanes.data
        self.scores = plan.scores
        self.tile = b.block_id(gpu.DimensionEnum.X, "tile")
        self.batch: Index = b.block_id(gpu.DimensionEnum.Y, "batch") if plan.batch != 1 else 0
        self.part: Index = b.block_id(gpu.DimensionEnum.Z, "part") if plan.parts > 1 else 0
        lane = b.lane_id()
        self.subgroup = b.subgroup_id(plan.schedule.subgroups.data)
        self.lane = b.remainder(lane, lanes)
        in_subgroup = b.divided(lane, lanes) if plan.groups_in_subgroup > 1 else 0
        self.first_lane = b.times(in_subgroup, lanes)
        self.group = b.plus(b.times(self.subgroup, plan.groups_in_subgroup), in_subgroup)
        self.first_row = b.times(self.tile, plan.tile)
        if plan.across_rows:
            self.first_row = b.plus(self.first_row, b.times(self.group, self.rows))
        self.elements = Elements(b, plan, self.batch)

    def distant(self, x: SSAValue, top: SSAValue) -> SSAValue:
        """Returns 2 to the power of `x - top`."""
        return self.power(self.b.add(arith.SubfOp(x, top)))

    # Rows

    def query_of(self, row: Index) -> Index:
        return self.b.divided(row, self.plan.heads)

    def last_row(self) -> Index:
        """Returns the subgroup's last row, which sees the most keys under a causal mask."""
        last = self.b.plus(self.subgroup_row(), self.plan.subgroup_rows - 1)
        return self.b.least(last, self.b.minus(self.plan.row_count, 1))

    def subgroup_row(self) -> Index:
        """Returns the index of the subgroup's first row."""
        b, plan = self.b, self.plan
        tile = b.times(self.tile, plan.tile)
        rows = plan.subgroup_rows if plan.across_rows else 0
        return b.plus(tile, b.times(self.subgroup, rows))

    # The loop over keys

    def write(self) -> None:
        """Writes the whole kernel body."""
        rows = [self.b.plus(self.first_row, i) for i in range(self.rows)]
        self.inside = [self.b.below(row, self.plan.row_count) for row in rows]
        places = [
            self.b.index_inside(inside, row) for inside, row in zip(self.inside, rows, strict=True)
        ]
        self.places = places
        if not self.plan.pipeline.reach:
            self.queries = self._queries()
        state = self._all_keys(self._start())
        if self.plan.across_rows:
            self._store_rows(rows, state)
        else:
            self._store_together(self._of_subgroup(state))

    def _start(self) -> State:
        """
        Returns the loop's state before the first key: maxima and sums for the lane's own rows, and
        results for all rows of the group.
        """
        b, scores, own = self.b, self.scores, self.scores.own_rows
        zero, low = self.number(0.0), self.number(LOWEST)
        width = self.plan.share("v") * self.plan.vector("v")
        state = State([[low] * own], [[zero] * own], [[zero] * width for _ in range(self.rows)])
        if self.plan.op.sink is None:
            return state
        # Only the first part, group and lane add the sink to a sum. All maxima may include it.
        first: Condition = b.below(self.part, 1)
        if not self.plan.across_rows:
            first = b.both(first, b.below(self.group, 1))
        if scores.pitch < scores.width:
            of_rows = b.below(b.remainder(self.lane, scores.width), scores.pitch)
            first = b.both(first, of_rows)
        for slot in range(own):
            sink = self.elements.number("sink", self._own_row(slot), 0)
            sink = self.times(sink, self.number(LOG2_E))
            state.maxima[0][slot] = top = self.greater(sink, low)
            state.sums[0][slot] = b.select(first, self.distant(sink, top), zero)
        return state

    def _own_row(self, slot: int) -> Index:
        """Returns the row of the lane's score with index `slot`; 0 if the row does not exist."""
        b, scores = self.b, self.scores
        width, (start, _) = min(scores.width, scores.pitch), scores.first(slot)
        row = b.plus(self.first_row, b.plus(b.remainder(self.lane, width), start))
        return b.select(b.below(row, self.plan.row_count), row, 0)

    def _queries(self) -> list[Values]:
        return [self.elements.query(row, self.lane) for row in self.places]

    def _all_keys(self, state: State) -> State:
        """
        Loops over the keys of a part, first over keys that need no mask. Returns the loop's final
        state.
        """
        b, plan = self.b, self.plan
        keys, step = plan.sizes.extents[N], plan.step
        start: Index = 0
        end: Index = keys
        if plan.parts > 1:
            # The last part may have fewer keys.
            length = ceil_div(keys, plan.parts)
            start = b.times(self.part, length)
            end = self.b.least(b.plus(start, length), keys)
        whole = end
        if plan.causal is not None:
            # Signed arithmetic: with more queries than keys, the first queries may see no key.
            seen = b.plus(plan.causal, 1)
            end = self.b.least(end, b.plus(self.query_of(self.last_row()), seen))
            whole = self.b.least(whole, b.plus(self.query_of(self.subgroup_row()), seen))
        if plan.sizes.window is not None:
            first = b.plus(self.query_of(self.subgroup_row()), plan.sizes.window)
            start = self.b.greatest(start, first)
            whole = start
        if isinstance(start, int) and isinstance(whole, int):
            middle: Index = start + max(whole - start, 0) // step * step
        else:
            length = self.b.greatest(self.b.minus(whole, start), 0)
            middle = b.plus(start, b.times(b.divided(length, step), step))
        if plan.pipeline.reach:
            middle = start
        if whole is not start and middle is not start and middle != start:
            state = self._steps(start, middle, state)
        if isinstance(middle, int) and middle == end:
            return state
        return self._steps(middle, self.b.greatest(middle, end), state, end)

    def _steps(self, lower: Index, upper: Index, state: State, end: Index | None = None) -> State:
        """
        Writes the loop from key `lower` to key `upper`; the pipeline may issue loads one step
        ahead.

        With loads ahead, queries are loaded after the first keys, so that the two loads overlap.
        Keys need no mask if there is no `end`.
        """
        b, self.end = self.b, end

        def steps() -> Sequence[SSAValue]:
            first = replace(state, words=self._load_ahead(lower, upper))
            if self.plan.pipeline.reach:
                self.queries = self._queries()

            def step(key: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                here = first.like(carried)
                following = self._load_ahead(b.plus(key, self.plan.step), upper)
                keys, values = (here.words[x] or self._load(x, key, end) for x in "kv")
                own = self._step(key, (keys, values), here)
                return replace(own, words=following).flat()

            loop = b.loop(upper, self.plan.step, first.flat(), step, "key", lower)
            return first.like(loop).carried.flat()

        some = b.less(lower, upper) if self.plan.pipeline.reach else True
        if isinstance(some, bool):
            return state.like(steps())
        return state.like(b.choose(some, steps, state.flat))

    def _load_ahead(self, first: Index, end: Index) -> dict[str, list[Values]]:
        """Loads the keys and values that the pipeline reads one step ahead."""
        ahead = {READS.get(stage) for stage, steps in self.plan.pipeline.steps if steps}
        return {x: self._load(x, first, end) if x in ahead else [] for x in "kv"}

    def _key(self, first: Index, number: Index) -> Index:
        """
        Returns the index of a key: key `number` of the group in the step that begins at `first`.
        """
        b, plan = self.b, self.plan
        if plan.across_rows:
            return b.plus(first, number)
        return b.plus(b.plus(first, b.times(number, plan.groups)), self.group)

    def _load(self, name: str, first: Index, end: Index | None) -> list[Values]:
        """Loads the lane's vectors of a step's keys or values. Keys from `end` on are undefined."""
        loaded: list[Values] = []
        for number in range(self.plan.schedule.keys.data):
            key = self._key(first, number)
            inside = True if end is None else self.b.less(key, end)
            key = self.b.index_inside(inside, key)
            loaded.append(self.elements.load(name, key, self.lane))
        return loaded

    def _step(self, first: Index, loaded: tuple[list[Values], list[Values]], state: State) -> State:
        """Computes the scores of a step's keys. Returns the loop's new state."""
        b, scores = self.b, self.scores
        keys, values = loaded
        own = self._scores(first, keys)
        slots = [
            [s for s in own[slot :: scores.row_slots] if s is not None]
            for slot in range(scores.own_rows)
        ]
        tops = [
            exchanged(b, reduce(self.greater, slot), scores.pitch, scores.width, self.greater)
            for slot in slots
        ]
        state = self._rise(state, tops)
        powers: list[SSAValue | None] = list(own)
        for number, score in enumerate(own):
            if score is not None:
                slot = number % scores.row_slots
                powers[number] = power = self.distant(score, state.maxima[0][slot])
                state.sums[0][slot] = self.plus(state.sums[0][slot], power)
        for key, vectors in enumerate(values):
            numbers = self.elements.numbers("v", vectors)
            for row in range(self.rows):
                slot, lane = scores.place(row, key)
                power = powers[slot]
                assert power is not None
                power = self._from(power, lane)
                state.results[row] = [
                    b.add(math.FmaOp(power, number, total))
                    for number, total in zip(numbers, state.results[row], strict=True)
                ]
        return state

    def _rise(self, state: State, tops: Values) -> State:
        """
        Returns the loop's state with maxima raised to `tops`, to which sums and results are
        rescaled.
        """
        new = [self.greater(own, top) for own, top in zip(state.maxima[0], tops, strict=True)]
        factors = [self.distant(own, top) for own, top in zip(state.maxima[0], new, strict=True)]
        sums = list(map(self.times, state.sums[0], factors))
        results: list[Values] = []
        for row, values in enumerate(state.results):
            factor = self._of_row(factors, row)
            results.append([self.times(value, factor) for value in values])
        return State([new], [sums], results)

    def _from(self, value: SSAValue, lane: int) -> SSAValue:
        b, lanes = self.b, self.plan.schedule.lanes.data
        if lanes == 1:
            return value
        place = b.plus(self.first_lane, lane)
        number = b.i32(place) if isinstance(place, int) else self.as_signed(place)
        return b.add(spv.GroupNonUniformShuffleOp(spv.Scope.Subgroup, value, number))

    def _of_row(self, own: Values, row: int) -> SSAValue:
        slot, lane = self.scores.place(row, 0)
        return self._from(own[slot], lane)

    def _scores(self, first: Index, loaded: list[Values]) -> list[SSAValue | None]:
        """Returns the lane's scores, scaled to exponents of 2; -inf for hidden keys."""
        scores = self.scores
        partial: list[SSAValue | None] = []
        for vectors in loaded:
            numbers = self.elements.numbers("k", vectors)
            own: list[SSAValue | None] = [self._dot(queries, numbers) for queries in self.queries]
            partial += [*own, *[None] * (scores.pitch - self.rows)]
        return [
            None if total is None else self._score(total, slot, first)
            for slot, total in enumerate(self._added_up(partial))
        ]

    def _dot(self, queries: Values, numbers: Values) -> SSAValue:
        total = self.times(queries[0], numbers[0])
        for query, number in zip(queries[1:], numbers[1:], strict=True):
            total = self.b.add(math.FmaOp(query, number, total))
        return total

    def _added_up(self, partial: list[SSAValue | None]) -> list[SSAValue | None]:
        """
        Adds up partial scores over all lanes. Returns the complete scores that this lane owns.
        """
        b, width, lanes = self.b, self.scores.width, self.plan.schedule.lanes.data
        slots = [partial[i : i + width] for i in range(0, len(partial), width)]
        return [
            None
            if slot[0] is None
            else exchanged(
                b, reduce_by_halves(b, slot, self.lane, width, self.plus), width, lanes, self.plus
            )
            for slot in slots
        ]

    def _score(self, total: SSAValue, slot: int, first: Index) -> SSAValue:
        """Returns the score for the dot product `total`, scaled, capped and masked."""
        b, plan, scores = self.b, self.plan, self.scores
        scale = plan.op.scale.value.data
        if plan.op.cap is None:
            score = self.times(total, self.number(scale * LOG2_E))
        else:
            bent = b.add(math.TanhOp(self.times(total, self.number(scale))))
            score = self.times(bent, self.number(plan.op.cap.value.data * LOG2_E))
        if plan.op.mask is None and self.end is None:
            return score
        row, (_, key) = self._own_row(slot), scores.first(slot)
        if scores.width > scores.pitch:
            apart = scores.width // scores.pitch
            key = b.plus(b.remainder(b.divided(self.lane, scores.pitch), apart), key)
        place = self._key(first, key)
        inside = True if self.end is None else self.b.less(place, self.end)
        if plan.op.mask is not None:
            mask = self.elements.number("mask", row, b.index_inside(inside, place))
            score = b.add(math.FmaOp(mask, self.number(LOG2_E), score))
        visible = inside if self.end is None else b.both(inside, self._visible(row, place))
        return score if visible is True else b.select(visible, score, self.number(-inf))

    def _visible(self, row: Index, key: Index) -> Condition:
        b, plan = self.b, self.plan
        visible: Condition = True
        query = self.query_of(row)
        if plan.causal is not None:
            visible = self.b.less(key, b.plus(query, b.plus(plan.causal, 1)))
        if plan.sizes.window is not None:
            first = b.index(b.plus(query, plan.sizes.window))
            visible = b.both(visible, b.add(arith.CmpiOp(first, b.index(key), "sle")))
        return visible

    # The end

    def _row_sums(self, state: State, size: int) -> Values:
        b, scores = self.b, self.scores
        sums = [exchanged(b, s, scores.pitch, scores.width, self.plus) for s in state.sums[0]]
        return [exchanged(b, s, self.plan.schedule.lanes.data, size, self.plus) for s in sums]

    def _of_subgroup(self, state: State) -> State:
        b, plan = self.b, self.plan
        lanes, size = plan.schedule.lanes.data, plan.target.subgroup_size
        if lanes < size:
            tops = [exchanged(b, top, lanes, size, self.greater) for top in state.maxima[0]]
            state = self._rise(state, tops)
            state.results = [
                [exchanged(b, value, lanes, size, self.plus) for value in row]
                for row in state.results
            ]
        state.sums = [self._row_sums(state, size)]
        return state

    def _store_together(self, state: State) -> None:
        """Merges the states of all subgroups through Workgroup memory and stores the result."""
        b, plan = self.b, self.plan
        width = plan.exchanged_at_a_time
        vectors = plan.op.extents[-1] // width
        rows = plan.schedule.subgroups.data * self.rows
        results, totals = (
            b.allocate(type, [size], name)
            for type, size, name in (
                (VectorType(f32, [width]) if width > 1 else f32, rows * vectors, "of_subgroups"),
                (VectorType(f32, [2]), rows, "totals"),
            )
        )
        first = b.below(b.lane_id(), plan.schedule.lanes.data)
        b.when(
            first if plan.groups_in_subgroup > 1 else True,
            lambda: self._put(results, totals, state, vectors),
        )
        b.barrier()
        count, invocations = self.rows * vectors, plan.invocations
        for begin in range(0, count, invocations):
            number = b.plus(b.thread_id(), begin)
            exists = b.below(number, count) if begin + invocations > count else True
            b.when(exists, lambda number=number: self._finish(results, totals, number, vectors))

    def _put(self, results: SSAValue, totals: SSAValue, state: State, vectors: int) -> None:
        b, width = self.b, self.plan.exchanged_at_a_time
        first = b.times(self.subgroup, self.rows)
        for row in range(self.rows):
            start = b.times(b.plus(first, row), vectors)
            for place, numbers, exists in self.elements.pieces("v", state.results[row], self.lane):
                b.when(exists, partial(self._put_vectors, results, start, place, numbers, width))
        lanes = min(self.scores.width, self.scores.pitch)
        for slot, own in enumerate(zip(state.sums[0], state.maxima[0], strict=True)):
            count = min(lanes, self.rows - slot * lanes)
            at = b.plus(first, b.plus(self.lane, slot * lanes))
            all_lanes = count == self.plan.schedule.lanes.data
            inside = True if all_lanes else b.below(self.lane, count)
            b.when(inside, partial(self._put_vectors, totals, at, 0, own, 2))

    def _put_vectors(
        self, memory: SSAValue, start: Index, place: Index, numbers: Sequence[SSAValue], width: int
    ) -> None:
        b = self.b
        for i in range(0, len(numbers), width):
            at = b.plus(start, b.plus(b.divided(place, width), i // width))
            b.store(pack_elements(b, numbers[i : i + width], f32), memory, (at,))

    def _finish(self, results: SSAValue, totals: SSAValue, number: Index, vectors: int) -> None:
        """Merges the subgroups' values of the result vector with index `number`, and stores it."""
        b, plan = self.b, self.plan
        row, vector = b.divided(number, vectors), b.remainder(number, vectors)
        subgroups = range(plan.schedule.subgroups.data)
        rows = [b.plus(row, subgroup * self.rows) for subgroup in subgroups]
        own = [components_of(b, b.load(totals, (place,))) for place in rows]
        top = reduce(self.greater, [top for _, top in own])
        factors = [self.distant(theirs, top) for _, theirs in own]
        total = self.weigh([[of_row] for of_row, _ in own], factors)[0]
        parts = [b.load(results, (b.plus(b.times(at, vectors), vector),)) for at in rows]
        values = self.weigh([components_of(b, part) for part in parts], factors)
        place = b.plus(self.first_row, row)
        column = b.times(vector, plan.exchanged_at_a_time)

        def store() -> None:
            if plan.op.parts is None:
                quotients = [self.quotient(value, total) for value in values]
                self.elements.store(place, column, quotients)
                return
            self.elements.store(place, column, values, self.part)
            b.when(b.below(vector, 1), store_totals)

        def store_totals() -> None:
            natural = self.times(top, self.number(1 / LOG2_E))
            width = plan.op.extents[-1]
            self.elements.store(place, width, [total, natural], self.part)

        b.when(b.below(place, plan.row_count), store)

    def _store_rows(self, rows: list[Index], state: State) -> None:
        b = self.b
        sums = self._row_sums(state, self.plan.schedule.lanes.data)
        for row, place in enumerate(rows):
            total = self._of_row(sums, row)
            numbers = [self.quotient(value, total) for value in state.results[row]]
            for column, piece, exists in self.elements.pieces("v", numbers, self.lane):
                store = partial(self.elements.store, place, column, piece)
                b.when(b.both(self.inside[row], exists), store)


class AttentionToFMAPass(KernelPass):
    """Writes the attention kernels without cooperative matrices."""

    name = "attention-to-fma"
    codes = {"attention_lanes": lambda b, plan, _: LanesCode(b, plan).write()}
