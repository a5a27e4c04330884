"""
The code of an attention's kernel without matrices.

A group of lanes goes through keys with a few rows of queries. For each row it carries the greatest
score so far in powers of two, the sum of the powers of what scores lie below it, and the result
times that sum. Each lane has a part of the head: scores are summed across the group, after which
all of its lanes know all of them. Groups that lie across keys put together what they have at the
end, by exchanges in a subgroup and through Workgroup memory between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, log2

from xdsl.dialects import arith, gpu, math
from xdsl.dialects.builtin import FloatAttr, MemRefType, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_dynamic
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_elements import Elements
from xdsl_spirv.passes.kernel.staging import WORKGROUP
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.attention_lanes import E, LanesPlan, N

LOWEST = -3.4028234663852886e38
"""The maximum of no scores: scores of -inf stay below it, so that their powers are 0, not NaN."""

LOG2_E = log2(2.718281828459045)

Values = list[SSAValue]


@dataclass
class State:
    """What the loop over keys carries: of each row the maximum, the sum, and a part of a result."""

    tops: Values
    sums: Values
    results: list[Values]

    def flat(self) -> Values:
        return [*self.tops, *self.sums, *(value for row in self.results for value in row)]

    @classmethod
    def of(cls, values: Sequence[SSAValue], rows: int) -> State:
        rest = list(values[2 * rows :])
        width = len(rest) // rows
        results = [rest[i * width : (i + 1) * width] for i in range(rows)]
        return cls(list(values[:rows]), list(values[rows : 2 * rows]), results)


class LanesCode:
    """Writes the body of the kernel."""

    def __init__(self, b: KernelEmitter, plan: LanesPlan):
        self.b, self.plan = b, plan
        self.rows = plan.schedule.rows.data
        lanes = plan.schedule.lanes.data
        self.tile = b.block_id(gpu.DimensionEnum.X, "tile")
        self.batch: Index = b.block_id(gpu.DimensionEnum.Y, "batch") if plan.batch != 1 else 0
        self.part: Index = b.block_id(gpu.DimensionEnum.Z, "part") if plan.parts > 1 else 0
        lane = b.lane_id()
        self.subgroup = b.subgroup_id(plan.schedule.subgroups.data)
        self.lane = b.remainder(lane, lanes)
        in_subgroup = b.divided(lane, lanes)
        self.group = b.plus(b.times(self.subgroup, plan.groups_in_subgroup), in_subgroup)
        self.first_row = b.times(self.tile, plan.tile)
        if plan.across_rows:
            self.first_row = b.plus(self.first_row, b.times(self.group, self.rows))
        self.elements = Elements(b, plan, self.batch)

    # Scalars

    def number(self, value: float) -> SSAValue:
        return self.b.constant(FloatAttr(value, f32))

    def sum(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.AddfOp(x, y))

    def product(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MulfOp(x, y))

    def greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxnumfOp(x, y))

    def power(self, x: SSAValue, top: SSAValue) -> SSAValue:
        """2 to the distance of a score and the maximum."""
        return self.b.add(math.Exp2Op(self.b.add(arith.SubfOp(x, top))))

    def least(self, a: Index, b: Index) -> Index:
        """Of two numbers that may be negative."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.b.add(arith.MinSIOp(self.b.index(a), self.b.index(b)))

    def greatest(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.b.add(arith.MaxSIOp(self.b.index(a), self.b.index(b)))

    def minus(self, a: Index, b: Index) -> Index:
        """A difference that may be negative."""
        if not isinstance(a, SSAValue) and not isinstance(b, SSAValue):
            return a - b
        return self.b.add(arith.SubiOp(self.b.index(a), self.b.index(b)))

    # Rows

    def query_of(self, row: Index) -> Index:
        return self.b.divided(row, self.plan.heads)

    def last_row(self) -> Index:
        """The subgroup's last row that is one, from which on no query sees more keys."""
        b, plan = self.b, self.plan
        count = self.rows * (plan.groups_in_subgroup if plan.across_rows else 1)
        last = b.plus(self.subgroup_row(), count - 1)
        return self.least(last, self.minus(plan.row_count, 1))

    def subgroup_row(self) -> Index:
        """The first row of the subgroup."""
        b, plan = self.b, self.plan
        tile = b.times(self.tile, plan.tile)
        if not plan.across_rows:
            return tile
        return b.plus(tile, b.times(self.subgroup, self.rows * plan.groups_in_subgroup))

    # The loop over keys

    def write(self) -> None:
        """The whole body."""
        rows = [self.b.plus(self.first_row, i) for i in range(self.rows)]
        self.inside = [self.b.below(row, self.plan.row_count) for row in rows]
        places = [
            self.b.select(inside, row, 0) if isinstance(inside, SSAValue) else row
            for inside, row in zip(self.inside, rows, strict=True)
        ]
        self.places = places
        self.queries = [self.elements.query(row, self.lane) for row in places]
        zero, low = self.number(0.0), self.number(LOWEST)
        width = self.plan.share("v") * self.plan.vector("v")
        state = State(
            [low] * self.rows, [zero] * self.rows, [[zero] * width for _ in range(self.rows)]
        )
        state = self._all_keys(state)
        if self.plan.across_rows:
            self._store_rows(rows, state)
        else:
            self._store_together(rows, self._of_subgroup(state))

    def _all_keys(self, state: State) -> State:
        """All keys of the part: steps of which every row sees every key, then the others."""
        b, plan = self.b, self.plan
        keys, step = plan.sizes.extents[N], plan.step
        start: Index = 0
        end: Index = keys
        if plan.parts > 1:
            start = b.times(self.part, plan.part_length)
            end = self.least(b.plus(start, plan.part_length), keys)
        whole = end
        if plan.causal is not None:
            # Signed: more queries than keys may leave the first of them without any.
            seen = b.plus(plan.causal, 1)
            end = self.least(end, b.plus(self.query_of(self.last_row()), seen))
            whole = self.least(whole, b.plus(self.query_of(self.subgroup_row()), seen))
        if plan.sizes.window is not None:
            first = b.plus(self.query_of(self.subgroup_row()), plan.sizes.window)
            start = self.greatest(start, first)
            whole = start
        if isinstance(start, int) and isinstance(whole, int):
            middle: Index = start + max(whole - start, 0) // step * step
        else:
            length = self.greatest(self.minus(whole, start), 0)
            middle = b.plus(start, b.times(b.divided(length, step), step))
        if whole is not start and middle != start:
            state = self._steps(start, middle, state, masked=False)
        if isinstance(middle, int) and middle == end:
            return state
        return self._steps(middle, self.greatest(middle, end), state, masked=True, end=end)

    def _steps(
        self, lower: Index, upper: Index, state: State, masked: bool, end: Index = 0
    ) -> State:
        def step(key: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._step(key, State.of(carried, self.rows), masked, end).flat()

        loop = self.b.loop(upper, self.plan.step, state.flat(), step, "key", lower)
        return State.of(loop, self.rows)

    def _step(self, first: Index, state: State, masked: bool, end: Index) -> State:
        """A few keys and values: all are loaded, then scores, then what they make of the state."""
        b, plan = self.b, self.plan
        keys: list[Index] = []
        exists: list[Condition] = []
        for i in range(plan.schedule.keys.data):
            if plan.across_rows:
                key = b.plus(first, i)
            else:
                key = b.plus(b.plus(first, i * plan.groups), self.group)
            inside = self._below(key, end) if masked else True
            exists.append(inside)
            keys.append(b.select(inside, key, 0) if isinstance(inside, SSAValue) else key)
        loaded = [self.elements.load("k", key, self.lane) for key in keys]
        values = [self.elements.load("v", key, self.lane) for key in keys]
        scores = [
            [
                self._score(row, key, inside, self.elements.numbers("k", vectors), masked)
                for row in range(self.rows)
            ]
            for key, inside, vectors in zip(keys, exists, loaded, strict=True)
        ]
        for row in range(self.rows):
            own = [score[row] for score in scores]
            top = reduce(self.greater, own, state.tops[row])
            factor = self.power(state.tops[row], top)
            powers = [self.power(score, top) for score in own]
            state.tops[row] = top
            kept = self.product(state.sums[row], factor)
            state.sums[row] = reduce(self.sum, powers, kept)
            results = [self.product(value, factor) for value in state.results[row]]
            for power, vectors in zip(powers, values, strict=True):
                numbers = self.elements.numbers("v", vectors)
                results = [
                    b.add(math.FmaOp(power, number, total))
                    for number, total in zip(numbers, results, strict=True)
                ]
            state.results[row] = results
        return state

    def _below(self, a: Index, limit: Index) -> Condition:
        """a < limit, where the limit may be negative."""
        if isinstance(a, int) and isinstance(limit, int):
            return a < limit
        return self.b.add(arith.CmpiOp(self.b.index(a), self.b.index(limit), "slt"))

    def _score(
        self, row: int, key: Index, inside: Condition, numbers: Values, masked: bool
    ) -> SSAValue:
        """A score in powers of two, known to the whole group; -inf where it is hidden."""
        b, plan = self.b, self.plan
        products = list(zip(self.queries[row], numbers, strict=True))
        total = self.product(*products[0])
        for query, number in products[1:]:
            total = b.add(math.FmaOp(query, number, total))
        total = exchanged(b, total, 1, plan.schedule.lanes.data, self.sum)
        scale = plan.op.scale.value.data
        if plan.op.cap is None:
            score = self.product(total, self.number(scale * LOG2_E))
        else:
            bent = b.add(math.TanhOp(self.product(total, self.number(scale))))
            score = self.product(bent, self.number(plan.op.cap.value.data * LOG2_E))
        if plan.op.mask is not None:
            mask = self.elements.mask(self.places[row], key)
            score = b.add(math.FmaOp(mask, self.number(LOG2_E), score))
        visible = b.both(inside, self._visible(row, key)) if masked else inside
        return score if visible is True else b.select(visible, score, self.number(-inf))

    def _visible(self, row: int, key: Index) -> Condition:
        """Whether the mask by index shows a key to a row."""
        b, plan = self.b, self.plan
        visible: Condition = True
        query = self.query_of(self.places[row])
        if plan.causal is not None:
            visible = self._below(key, b.plus(query, b.plus(plan.causal, 1)))
        if plan.sizes.window is not None:
            first = b.index(b.plus(query, plan.sizes.window))
            visible = b.both(visible, b.add(arith.CmpiOp(first, b.index(key), "sle")))
        return visible

    # The end

    def _of_subgroup(self, state: State) -> State:
        """What all groups of a subgroup have."""
        b, plan = self.b, self.plan
        lanes, size = plan.schedule.lanes.data, plan.target.subgroup_size
        if lanes == size:
            return state
        for row in range(self.rows):
            top = exchanged(b, state.tops[row], lanes, size, self.greater)
            factor = self.power(state.tops[row], top)

            def whole(value: SSAValue, factor: SSAValue = factor) -> SSAValue:
                return exchanged(b, self.product(value, factor), lanes, size, self.sum)

            state.tops[row] = top
            state.sums[row] = whole(state.sums[row])
            state.results[row] = [whole(value) for value in state.results[row]]
        return state

    def _store_together(self, rows: list[Index], state: State) -> None:
        """Each subgroup's through Workgroup memory, then what they make together to the result."""
        b, plan = self.b, self.plan
        width = self._static(plan.sizes.extents[E])
        subgroups = plan.schedule.subgroups.data
        pitch = width + 2
        size = subgroups * self.rows * pitch
        memory = b.allocate(MemRefType(f32, [size], memory_space=WORKGROUP), "of_subgroups")
        start = b.times(self.subgroup, self.rows * pitch)
        first = b.below(b.lane_id(), plan.schedule.lanes.data)
        b.when(
            first if plan.groups_in_subgroup > 1 else True,
            lambda: self._put(memory, start, state, pitch),
        )
        b.barrier()
        count, invocations = self.rows * width, plan.invocations
        for begin in range(0, count, invocations):
            number = b.plus(b.thread_id(), begin)
            exists = b.below(number, count) if begin + invocations > count else True
            b.when(exists, lambda number=number: self._finish(memory, number, rows, pitch))

    def _put(self, memory: SSAValue, start: Index, state: State, pitch: int) -> None:
        b, width = self.b, pitch - 2
        for row in range(self.rows):
            at = b.plus(start, row * pitch)
            for place, numbers, exists in self.elements.pieces("v", state.results[row], self.lane):

                def store(place: Index = place, numbers: Values = numbers, at: Index = at) -> None:
                    for i, number in enumerate(numbers):
                        b.store(number, memory, (b.plus(at, b.plus(place, i)),))

                b.when(exists, store)

            def totals(row: int = row, at: Index = at) -> None:
                b.store(state.sums[row], memory, (b.plus(at, width),))
                b.store(state.tops[row], memory, (b.plus(at, width + 1),))

            b.when(b.below(self.lane, 1), totals)

    def _finish(self, memory: SSAValue, number: Index, rows: list[Index], pitch: int) -> None:
        """One element of the workgroup's result from those of its subgroups."""
        b, plan, width = self.b, self.plan, pitch - 2
        row, column = b.divided(number, width), b.remainder(number, width)

        def load(subgroup: int, at: Index) -> SSAValue:
            place = b.plus(b.plus(b.times(row, pitch), at), subgroup * self.rows * pitch)
            return b.load(memory, (place,))

        subgroups = range(plan.schedule.subgroups.data)
        tops = [load(s, width + 1) for s in subgroups]
        top = reduce(self.greater, tops)
        factors = [self.power(own, top) for own in tops]
        total, value = (
            reduce(self.sum, [self.product(load(s, at), f) for s, f in enumerate(factors)])
            for at in (width, column)
        )
        place = b.plus(self.first_row, row)

        def store() -> None:
            if plan.op.parts is None:
                self.elements.store(place, column, [self._quotient(value, total)])
                return
            self.elements.store(place, column, [value], self.part)
            b.when(b.below(column, 1), store_totals)

        def store_totals() -> None:
            natural = self.product(top, self.number(1 / LOG2_E))
            self.elements.store(place, width, [total], self.part)
            self.elements.store(place, width + 1, [natural], self.part)

        b.when(b.below(place, plan.row_count), store)

    def _quotient(self, value: SSAValue, total: SSAValue) -> SSAValue:
        b = self.b
        quotient = b.add(arith.DivfOp(value, total))
        if self.plan.op.nan_to_zero is None:
            return quotient
        some = b.add(arith.CmpfOp(total, self.number(0.0), "ogt"))
        return b.select(some, quotient, self.number(0.0))

    def _store_rows(self, rows: list[Index], state: State) -> None:
        """Each group its own rows."""
        b = self.b
        for row, place in enumerate(rows):
            numbers = [self._quotient(value, state.sums[row]) for value in state.results[row]]
            for column, piece, exists in self.elements.pieces("v", numbers, self.lane):

                def store(
                    place: Index = place, column: Index = column, piece: Values = piece
                ) -> None:
                    self.elements.store(place, column, piece)

                b.when(b.both(self.inside[row], exists), store)

    def _static(self, size: Size) -> int:
        assert not is_dynamic(size)
        return size
