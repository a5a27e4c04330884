"""
The code of an attention's kernel without matrices.

A group of lanes goes through keys with a few rows of queries. Each lane has a part of the head: the
lanes' partial sums of a step's scores are added up so that each lane ends with scores of its own
(`Scores`), of which it makes powers of two; the others get these by exchanges. For each row the
group carries the greatest score so far, the sum of the powers of the other scores below it, and the
result times that sum. Groups that lie across keys put together what they have at the end, by
exchanges in a subgroup and through Workgroup memory between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from math import inf

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import VectorType, f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, ceil_div, is_dynamic
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_elements import Elements
from xdsl_spirv.passes.kernel.attention_numbers import LOG2_E, LOWEST, Numbers
from xdsl_spirv.passes.kernel.elements import components_of
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged, given_away
from xdsl_spirv.passes.schedule.attention_lanes import E, LanesPlan, N

Values = list[SSAValue]


@dataclass
class State:
    """
    The values that the loop over keys carries.

    A lane has the maximum and the sum of its own powers for its own rows, and its part of the
    result for all rows.
    """

    tops: Values
    sums: Values
    results: list[Values]

    def flat(self) -> Values:
        return [*self.tops, *self.sums, *(value for row in self.results for value in row)]

    @classmethod
    def of(cls, values: Sequence[SSAValue], own: int, rows: int) -> State:
        rest = list(values[2 * own :])
        width = len(rest) // rows
        results = [rest[i * width : (i + 1) * width] for i in range(rows)]
        return cls(list(values[:own]), list(values[own : 2 * own]), results)


class LanesCode(Numbers):
    """Writes the body of the kernel."""

    def __init__(self, b: KernelEmitter, plan: LanesPlan):
        self.b, self.plan = b, plan
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
        """Returns 2 to the power of the score minus the maximum."""
        return self.power(self.b.add(arith.SubfOp(x, top)))

    # Rows

    def query_of(self, row: Index) -> Index:
        return self.b.divided(row, self.plan.heads)

    def last_row(self) -> Index:
        """The subgroup's last existing row: under a causal mask it sees the most keys."""
        b, plan = self.b, self.plan
        count = self.rows * (plan.groups_in_subgroup if plan.across_rows else 1)
        last = b.plus(self.subgroup_row(), count - 1)
        return self.b.least(last, self.b.minus(plan.row_count, 1))

    def subgroup_row(self) -> Index:
        """The first row of the subgroup."""
        b, plan = self.b, self.plan
        tile = b.times(self.tile, plan.tile)
        if not plan.across_rows:
            return tile
        return b.plus(tile, b.times(self.subgroup, self.rows * plan.groups_in_subgroup))

    # The loop over keys

    def write(self) -> None:
        """Writes the whole body."""
        rows = [self.b.plus(self.first_row, i) for i in range(self.rows)]
        self.inside = [self.b.below(row, self.plan.row_count) for row in rows]
        places = [
            self.b.index_inside(inside, row) for inside, row in zip(self.inside, rows, strict=True)
        ]
        self.places = places
        if not self.plan.ahead:
            self.queries = self._queries()
        zero, low = self.number(0.0), self.number(LOWEST)
        width = self.plan.share("v") * self.plan.vector("v")
        own = self.scores.own_rows
        state = State([low] * own, [zero] * own, [[zero] * width for _ in range(self.rows)])
        state = self._all_keys(state)
        if self.plan.across_rows:
            self._store_rows(rows, state)
        else:
            self._store_together(self._of_subgroup(state))

    def _queries(self) -> list[Values]:
        return [self.elements.query(row, self.lane) for row in self.places]

    def _all_keys(self, state: State) -> State:
        """Loops over all keys of the part: first steps that need no mask, then masked steps."""
        b, plan = self.b, self.plan
        keys, step = plan.sizes.extents[N], plan.step
        start: Index = 0
        end: Index = keys
        if plan.parts > 1:
            # The last part may have fewer.
            length = ceil_div(keys, plan.parts)
            start = b.times(self.part, length)
            end = self.b.least(b.plus(start, length), keys)
        whole = end
        if plan.causal is not None:
            # Signed: more queries than keys may leave the first of them without any.
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
        if plan.ahead:
            middle = start
        if whole is not start and middle is not start and middle != start:
            state = self._steps(start, middle, state, masked=False)
        if isinstance(middle, int) and middle == end:
            return state
        return self._steps(middle, self.b.greatest(middle, end), state, masked=True, end=end)

    def _steps(
        self, lower: Index, upper: Index, state: State, masked: bool, end: Index = 0
    ) -> State:
        own = self.scores.own_rows
        if self.plan.ahead:
            return self._steps_ahead(lower, upper, state, masked, end)

        def step(key: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            loaded = self._load("k", key, masked, end), self._load("v", key, masked, end)
            return self._step(key, loaded, State.of(carried, own, self.rows), masked, end).flat()

        loop = self.b.loop(upper, self.plan.step, state.flat(), step, "key", lower)
        return State.of(loop, own, self.rows)

    def _steps_ahead(
        self, lower: Index, upper: Index, state: State, masked: bool, end: Index
    ) -> State:
        """
        Runs the steps from `lower` to `upper`; each step's loads are issued in the step before.

        Queries are loaded after the first keys, so that no load waits for another one.
        """

        def steps() -> Values:
            first = self._vectors(lower, upper)
            self.queries = self._queries()

            def step(key: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                here, rest = list(carried[: len(first)]), carried[len(first) :]
                following = self._vectors(self.b.plus(key, self.plan.step), upper)
                loaded = self._by_key(here, key, masked, end)
                state = State.of(rest, self.scores.own_rows, self.rows)
                state = self._step(key, loaded, state, masked, end)
                return [*following, *state.flat()]

            carried = [*first, *state.flat()]
            loop = self.b.loop(upper, self.plan.step, carried, step, "key", lower)
            return list(loop[len(first) :])

        some = self.b.less(lower, upper)
        if isinstance(some, bool):
            return State.of(steps(), self.scores.own_rows, self.rows)
        types = [value.type for value in state.flat()]
        values = self.b.choose(some, types, steps, state.flat)
        return State.of(values, self.scores.own_rows, self.rows)

    def _vectors(self, first: Index, end: Index) -> Values:
        """Loads the vectors of a step ahead of it: keys, and values if the schedule says so."""
        names = "kv"[: self.plan.ahead]
        return [v for name in names for key in self._load(name, first, True, end) for v in key]

    def _by_key(
        self, loaded: Values, first: Index, masked: bool, end: Index
    ) -> tuple[list[Values], list[Values]]:
        """Sorts a step's vectors by key; loads values now if they were not loaded ahead."""
        plan = self.plan
        widths = [plan.share(n) for n in "kv"[: plan.ahead] for _ in range(plan.schedule.keys.data)]
        ends = list(accumulate(widths, initial=0))
        pieces = [loaded[a:b] for a, b in pairwise(ends)]
        if plan.ahead == 1:
            pieces += self._load("v", first, masked, end)
        return pieces[: plan.schedule.keys.data], pieces[plan.schedule.keys.data :]

    def _key(self, first: Index, number: Index) -> Index:
        """The number of the key that the group reads as the `number`-th of a step."""
        b, plan = self.b, self.plan
        if plan.across_rows:
            return b.plus(first, number)
        return b.plus(b.plus(first, b.times(number, plan.groups)), self.group)

    def _load(self, name: str, first: Index, masked: bool, end: Index) -> list[Values]:
        """Loads the lane's vectors of a step's keys or values; undefined beyond the end."""
        loaded: list[Values] = []
        for number in range(self.plan.schedule.keys.data):
            key = self._key(first, number)
            inside = self.b.less(key, end) if masked else True
            key = self.b.index_inside(inside, key)
            loaded.append(self.elements.load(name, key, self.lane))
        return loaded

    def _step(
        self,
        first: Index,
        loaded: tuple[list[Values], list[Values]],
        state: State,
        masked: bool,
        end: Index,
    ) -> State:
        """A few keys and values: scores, then the new state."""
        b, scores = self.b, self.scores
        keys, values = loaded
        own = self._scores(first, keys, masked, end)
        slots = [
            [s for s in own[slot :: scores.row_slots] if s is not None]
            for slot in range(scores.own_rows)
        ]
        tops = [
            exchanged(b, reduce(self.greater, slot), scores.pitch, scores.width, self.greater)
            for slot in slots
        ]
        state = self._risen(state, tops)
        powers: list[SSAValue | None] = list(own)
        for number, score in enumerate(own):
            if score is not None:
                slot = number % scores.row_slots
                powers[number] = power = self.distant(score, state.tops[slot])
                state.sums[slot] = self.plus(state.sums[slot], power)
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

    def _risen(self, state: State, tops: Values) -> State:
        """Rescales the state to the greater of its maxima and `tops`."""
        new = [self.greater(own, top) for own, top in zip(state.tops, tops, strict=True)]
        factors = [self.distant(own, top) for own, top in zip(state.tops, new, strict=True)]
        sums = [self.times(own, f) for own, f in zip(state.sums, factors, strict=True)]
        results: list[Values] = []
        for row, values in enumerate(state.results):
            factor = self._of_row(factors, row)
            results.append([self.times(value, factor) for value in values])
        return State(new, sums, results)

    def _from(self, value: SSAValue, lane: int) -> SSAValue:
        """Broadcasts the value of one lane to its group."""
        b, lanes = self.b, self.plan.schedule.lanes.data
        if lanes == 1:
            return value
        place = b.plus(self.first_lane, lane)
        number = b.i32(place) if isinstance(place, int) else b.pure(_as_i32, b.index(place))
        return b.add(spv.GroupNonUniformShuffleOp(spv.Scope.Subgroup, value, number))

    def _of_row(self, own: Values, row: int) -> SSAValue:
        """Broadcasts a row's number from the lane that owns the row."""
        slot, lane = self.scores.place(row, 0)
        return self._from(own[slot], lane)

    def _scores(
        self, first: Index, loaded: list[Values], masked: bool, end: Index
    ) -> list[SSAValue | None]:
        """Returns the lane's scores as exponents of two; hidden keys have -inf."""
        scores = self.scores
        partial: list[SSAValue | None] = []
        for vectors in loaded:
            numbers = self.elements.numbers("k", vectors)
            own: list[SSAValue | None] = [self._dot(queries, numbers) for queries in self.queries]
            partial += [*own, *[None] * (scores.pitch - self.rows)]
        return [
            None if total is None else self._score(total, slot, first, masked, end)
            for slot, total in enumerate(self._added_up(partial))
        ]

    def _dot(self, queries: Values, numbers: Values) -> SSAValue:
        total = self.times(queries[0], numbers[0])
        for query, number in zip(queries[1:], numbers[1:], strict=True):
            total = self.b.add(math.FmaOp(query, number, total))
        return total

    def _added_up(self, partial: list[SSAValue | None]) -> list[SSAValue | None]:
        """
        Adds the lanes' partial sums, so that each lane ends with the scores that it owns.

        Lanes exchange halves of their sums: n sums over n lanes take n - 1 exchanges.
        """
        b, width = self.b, self.scores.width
        slots = [partial[i : i + width] for i in range(0, len(partial), width)]
        distance = width // 2
        while distance:
            keeps_first = b.below(b.remainder(b.divided(self.lane, distance), 2), 1)
            slots = [
                [
                    self._half(*pair, keeps_first, distance)
                    for pair in zip(slot[:distance], slot[distance:], strict=True)
                ]
                for slot in slots
            ]
            distance //= 2
        lanes = self.plan.schedule.lanes.data
        return [
            None if total is None else exchanged(b, total, width, lanes, self.plus)
            for (total,) in slots
        ]

    def _half(
        self, first: SSAValue | None, second: SSAValue | None, keeps_first: Condition, distance: int
    ) -> SSAValue | None:
        b = self.b
        if first is None:
            return None
        kept = sent = first
        if second is not None:
            kept = b.select(keeps_first, first, second)
            sent = b.select(keeps_first, second, first)
        return given_away(b, kept, sent, distance, self.plus)

    def _score(
        self, total: SSAValue, slot: int, first: Index, masked: bool, end: Index
    ) -> SSAValue:
        """Computes the lane's own score from a product of query and key."""
        b, plan, scores = self.b, self.plan, self.scores
        scale = plan.op.scale.value.data
        if plan.op.cap is None:
            score = self.times(total, self.number(scale * LOG2_E))
        else:
            bent = b.add(math.TanhOp(self.times(total, self.number(scale))))
            score = self.times(bent, self.number(plan.op.cap.value.data * LOG2_E))
        if plan.op.mask is None and not masked:
            return score
        width = min(scores.width, scores.pitch)
        start, key = scores.first(slot)
        row = b.plus(self.first_row, b.plus(b.remainder(self.lane, width), start))
        row = b.select(b.below(row, plan.row_count), row, 0)
        if scores.width > scores.pitch:
            apart = scores.width // scores.pitch
            key = b.plus(b.remainder(b.divided(self.lane, scores.pitch), apart), key)
        place = self._key(first, key)
        inside = self.b.less(place, end) if masked else True
        if plan.op.mask is not None:
            mask = self.elements.mask(row, b.index_inside(inside, place))
            score = b.add(math.FmaOp(mask, self.number(LOG2_E), score))
        visible = b.both(inside, self._visible(row, place)) if masked else inside
        return score if visible is True else b.select(visible, score, self.number(-inf))

    def _visible(self, row: Index, key: Index) -> Condition:
        """True if the mask by index shows the key to the row."""
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
        """Adds the lanes' partial row sums over all groups of `size` neighbouring lanes."""
        b, scores = self.b, self.scores
        sums = [exchanged(b, s, scores.pitch, scores.width, self.plus) for s in state.sums]
        return [exchanged(b, s, self.plan.schedule.lanes.data, size, self.plus) for s in sums]

    def _of_subgroup(self, state: State) -> State:
        """Combines the states of all groups of a subgroup."""
        b, plan = self.b, self.plan
        lanes, size = plan.schedule.lanes.data, plan.target.subgroup_size
        if lanes < size:
            tops = [exchanged(b, top, lanes, size, self.greater) for top in state.tops]
            factors = [self.distant(own, top) for own, top in zip(state.tops, tops, strict=True)]
            state.tops = tops
            pairs = zip(state.sums, factors, strict=True)
            state.sums = [self.times(own, factor) for own, factor in pairs]
            for row in range(self.rows):
                factor = self._of_row(factors, row)
                state.results[row] = [
                    exchanged(b, self.times(value, factor), lanes, size, self.plus)
                    for value in state.results[row]
                ]
        state.sums = self._row_sums(state, size)
        return state

    def _store_together(self, state: State) -> None:
        """Exchanges subgroups' sums through Workgroup memory, then stores their joint result."""
        b, plan = self.b, self.plan
        width = plan.exchanged_at_a_time
        vectors = self._static(plan.sizes.extents[E]) // width
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

                def store(
                    place: Index = place, numbers: Values = numbers, start: Index = start
                ) -> None:
                    for i in range(0, len(numbers), width):
                        at = b.plus(b.divided(place, width), i // width)
                        b.store(self._vector(numbers[i : i + width]), results, (b.plus(start, at),))

                b.when(exists, store)
        lanes = min(self.scores.width, self.scores.pitch)
        for slot, (own, top) in enumerate(zip(state.sums, state.tops, strict=True)):
            count = min(lanes, self.rows - slot * lanes)
            at = b.plus(first, b.plus(self.lane, slot * lanes))

            def store_totals(own: SSAValue = own, top: SSAValue = top, at: Index = at) -> None:
                b.store(self._vector([own, top]), totals, (at,))

            all_lanes = count == self.plan.schedule.lanes.data
            b.when(True if all_lanes else b.below(self.lane, count), store_totals)

    def _vector(self, numbers: Values) -> SSAValue:
        if len(numbers) == 1:
            return numbers[0]
        return self.b.add(spv.CompositeConstructOp(numbers, VectorType(f32, [len(numbers)])))

    def _finish(self, results: SSAValue, totals: SSAValue, number: Index, vectors: int) -> None:
        """Computes some elements of the workgroup's result from its subgroups' results."""
        b, plan = self.b, self.plan
        row, vector = b.divided(number, vectors), b.remainder(number, vectors)
        subgroups = range(plan.schedule.subgroups.data)
        rows = [b.plus(row, subgroup * self.rows) for subgroup in subgroups]
        own = [components_of(b, b.load(totals, (place,))) for place in rows]
        top = reduce(self.greater, [top for _, top in own])
        factors = [self.distant(theirs, top) for _, theirs in own]
        total = self._weighted([[of_row] for of_row, _ in own], factors)[0]
        parts = [b.load(results, (b.plus(b.times(at, vectors), vector),)) for at in rows]
        values = self._weighted([components_of(b, part) for part in parts], factors)
        place = b.plus(self.first_row, row)
        column = b.times(vector, plan.exchanged_at_a_time)

        guarded = plan.op.nan_to_zero is not None

        def store() -> None:
            if plan.op.parts is None:
                quotients = [self.quotient(value, total, guarded) for value in values]
                self.elements.store(place, column, quotients)
                return
            self.elements.store(place, column, values, self.part)
            b.when(b.below(vector, 1), store_totals)

        def store_totals() -> None:
            natural = self.times(top, self.number(1 / LOG2_E))
            width = self._static(plan.sizes.extents[E])
            self.elements.store(place, width, [total, natural], self.part)

        b.when(b.below(place, plan.row_count), store)

    def _weighted(self, parts: list[Values], factors: Values) -> Values:
        """The sums of vectors, each times its factor."""
        totals = [self.times(value, factors[0]) for value in parts[0]]
        for values, factor in zip(parts[1:], factors[1:], strict=True):
            pairs = zip(values, totals, strict=True)
            totals = [self.b.add(math.FmaOp(value, factor, total)) for value, total in pairs]
        return totals

    def _store_rows(self, rows: list[Index], state: State) -> None:
        """Stores the rows of each group."""
        b = self.b
        sums = self._row_sums(state, self.plan.schedule.lanes.data)
        for row, place in enumerate(rows):
            total = self._of_row(sums, row)
            guarded = self.plan.op.nan_to_zero is not None
            numbers = [self.quotient(value, total, guarded) for value in state.results[row]]
            for column, piece, exists in self.elements.pieces("v", numbers, self.lane):

                def store(
                    place: Index = place, column: Index = column, piece: Values = piece
                ) -> None:
                    self.elements.store(place, column, piece)

                b.when(b.both(self.inside[row], exists), store)

    def _static(self, size: Size) -> int:
        assert not is_dynamic(size)
        return size


def _as_i32(value: SSAValue) -> arith.IndexCastOp:
    return arith.IndexCastOp(value, i32)
