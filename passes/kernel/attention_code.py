"""
The code of an attention's kernel: scores, softmax and values, one tile of keys after the other.

A subgroup goes through the keys with its own rows of queries. For each row it carries the greatest
score m so far, the sum of the powers exp(s - m), and the result times that sum. When m grows, both
are multiplied by exp(m_before - m). Sums stay spread over the components of a fragment until the
end: only the maximum needs a whole row at once, and it only has to be near enough that no power
leaves the range of f16. So with `rescale = seldom` a vote of the subgroup decides whether rows are
looked at at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import inf

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import Float32Type, MemRefType, f16, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.attention_numbers import (
    EXCESS,
    LOG2_E,
    LOWEST,
    Fragment,
    FragmentAttention,
    State,
)
from xdsl_spirv.passes.kernel.attention_operands import fragments_of, offset_along, stride_of
from xdsl_spirv.passes.kernel.matrix_values import load_matrix, matrix_type, store_matrix
from xdsl_spirv.passes.schedule.attention import AttentionPlan
from xdsl_spirv.passes.schedule.attention_result_rows import ResultRows
from xdsl_spirv.passes.schedule.plan import ceil_div

Store = Callable[[int, int, Fragment], None]
"""store(strip, column, fragment)"""


class AttentionCode(FragmentAttention):
    """
    Writes the body of the kernel.

    Subclasses define the operations on whole rows, on elements by their places, and on
    probabilities on their way to the second product: through Workgroup memory
    (`attention_memory_code`) or by instructions for it (`attention_converted_code`).
    """

    def __init__(self, b: KernelEmitter, plan: AttentionPlan):
        super().__init__(b, plan)
        schedule = plan.schedule
        self.carrier = matrix_type("Acc", self.m, self.n, f16)
        tile = b.block_id(gpu.DimensionEnum.X, "query_tile")
        self.batch: Index = b.block_id(gpu.DimensionEnum.Y, "batch") if plan.op.batch > 1 else 0
        subgroup = b.subgroup_id(schedule.subgroups.data)
        self.lane = b.lane_id()
        self.tile_row = b.times(tile, schedule.query_tile.data)
        self.row = b.plus(self.tile_row, b.times(subgroup, schedule.rows))
        self._prepare(subgroup)
        self.mask = self.view_mask()

    @property
    def components(self) -> int:
        return self.plan.components

    # The loop over keys

    def write(self) -> None:
        """Writes the whole body."""
        b, plan = self.b, self.plan
        self._count_places()
        self.q = self._queries()
        self.source_k = fragments_of(b, plan, "k", self.batch, self.lane)
        self.source_v = fragments_of(b, plan, "v", self.batch, self.lane)
        self._begin()
        zero, low = self.splat(0.0), self.splat(LOWEST)
        self._finish(self._all_keys(self.first_state(low, zero, zero, 1)))

    def _all_keys(self, state: State) -> State:
        """Loops over all tiles of keys: first those that every row sees whole, then the others."""
        _, keys, _, _ = self.plan.op.extents
        whole = keys // self.keys * self.keys
        if self.plan.op.offset is None:
            if whole:
                state = self._tiles(0, whole, state, masked=False)
            if whole < keys:
                state = self._tile(whole, state, masked=True)
            return state
        b = self.b
        seen = b.times(b.divided(self._seen(0), self.keys), self.keys)
        seen = b.select(b.below(seen, whole), seen, whole)
        last = b.plus(self._seen(self.plan.schedule.query_tile.data - 1), self.keys - 1)
        end = b.times(b.divided(last, self.keys), self.keys)
        most = ceil_div(keys, self.keys) * self.keys
        end = b.select(b.below(end, most), end, most)
        state = self._tiles(0, seen, state, masked=False)
        return self._tiles(seen, end, state, masked=True)

    def _seen(self, row: int) -> Index:
        """
        The number of keys that a row of the workgroup sees under the causal mask.

        All subgroups go as far, because some drivers implement a subgroup's barrier as the
        workgroup's.
        """
        b, offset = self.b, self.plan.op.offset
        assert offset is not None
        beyond = row + offset + 1
        if beyond >= 0:
            return b.plus(self.tile_row, beyond)
        none = b.below(self.tile_row, -beyond)
        return b.select(none, 0, b.plus(self.tile_row, beyond))

    def _tiles(self, lower: Index, upper: Index, state: State, masked: bool) -> State:
        def step(key: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._tile(key, state.like(carried), masked).flat()

        return state.like(self.b.loop(upper, self.keys, state.flat(), step, "key", lower))

    def _tile(self, key: Index, state: State, masked: bool) -> State:
        scores = self._scores(key)
        if not self.raw:
            scores = self._scaled(scores, key)
        if masked:
            scores = [
                [self._masked(fragment, strip, j, key) for j, fragment in enumerate(row)]
                for strip, row in enumerate(scores)
            ]
        state = self.rescale(scores, state)
        self._powers(scores, state)
        self._values(key, state)
        return state

    # Products

    def _queries(self) -> list[list[Fragment]]:
        """Loads the subgroup's rows of queries, which stay in registers."""
        source = fragments_of(self.b, self.plan, "q", self.batch, self.lane)
        first = self.b.divided(self.row, self.m)
        return [
            [source.load(self.b.plus(first, strip), step) for step in range(self.plan.steps)]
            for strip in range(self.strips)
        ]

    def _scores(self, key: Index) -> list[list[Fragment]]:
        b, first = self.b, self.b.divided(key, self.n)

        def read(j: int) -> Iterator[Fragment]:
            steps = range(self.plan.steps)
            return (self.source_k.load(b.plus(first, j), step) for step in steps)

        return self.multiply_keys(self.q, self.plan.key_fragments, read)

    def _values(self, key: Index, state: State) -> None:
        """Adds the probabilities times values to the results."""
        b, first = self.b, self.b.divided(key, self.k)

        def read(step: int) -> Iterator[Fragment]:
            columns = range(self.plan.columns)
            return (self.source_v.load(column, b.plus(first, step)) for column in columns)

        self.add_values(self.keys // self.k, read, self._lefts, state.results)

    # Scores

    def _scaled(self, scores: list[list[Fragment]], key: Index) -> list[list[Fragment]]:
        """Scales scores and adds the mask."""
        scale = self.splat(self.plan.op.scale.value.data)
        scaled: list[list[Fragment]] = []
        for strip, row in enumerate(scores):
            scaled.append([])
            for j, fragment in enumerate(row):
                value = self.times(fragment, scale)
                if self.mask is not None:
                    mask = self._mask(strip, self.b.plus(key, j * self.n))
                    value = self.plus(value, mask)
                scaled[-1].append(value)
        return scaled

    def _mask(self, strip: int, key: Index) -> Fragment:
        """Loads the mask's fragment as f32; -inf outside the mask."""
        b, layout = self.b, self.plan.layout("mask")
        assert self.mask is not None
        assert isinstance(self.mask.type, MemRefType)
        element = self.mask.type.element_type
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)
        row = b.plus(self.row, strip * self.m)
        if self.plan.mask_in_fragments:
            at = b.plus(offset_along(b, layout, 1, row), offset_along(b, layout, 2, key))
            type = self.accumulator if isinstance(element, Float32Type) else self.carrier
            place = (b.plus(start, at),)
            loaded = load_matrix(b, type, self.mask, place, stride_of(layout, 1))
            return loaded if type is self.accumulator else self._converted(loaded, self.accumulator)

        def element_at(i: Index, j: Index) -> SSAValue:
            rows, keys, _, _ = self.plan.op.extents
            r, c = b.plus(row, i), b.plus(key, j)
            inside = b.both(b.below(r, rows), b.below(c, keys))
            at = b.plus(
                offset_along(b, layout, 1, b.select(inside, r, 0)),
                offset_along(b, layout, 2, b.select(inside, c, 0)),
            )
            value = b.load(self.mask, (b.plus(start, at),))  # pyright: ignore[reportArgumentType]
            if not isinstance(element, Float32Type):
                value = b.add(arith.ExtFOp(value, f32))
            return b.select(inside, value, self.number(-inf))

        return self._of_places(element_at)

    def _converted(self, fragment: Fragment, type: spv.CooperativeMatrixType) -> Fragment:
        converted = spv.FConvertOp.create(operands=[fragment], result_types=[type])
        return self.b.add(converted)

    # Softmax

    def exceeds(self, greatest: list[list[SSAValue]], state: State) -> SSAValue:
        """Whether any row of the subgroup needs another maximum."""
        b = self.b
        exponent_factor = self.number(self.factor)
        excess: list[SSAValue] = []
        for values, maxima in zip(greatest, state.maxima, strict=True):
            for value, maximum in zip(values, self.parts(maxima[0]), strict=True):
                scaled = b.add(arith.MulfOp(value, exponent_factor)) if self.raw else value
                excess.append(b.add(arith.SubfOp(scaled, maximum)))
        limit = self.number(EXCESS if self.raw else EXCESS / LOG2_E)
        return self.any_exceeds(excess, limit)

    def weigh(self, fragment: Fragment, factors: list[SSAValue]) -> Fragment:
        return self.times(fragment, factors[0])

    def _as_maximum(self, score: SSAValue, factor: SSAValue) -> SSAValue:
        """Scales a score to the unit of the maxima; `factor` is that of the exponents."""
        return self.b.add(arith.MulfOp(score, factor)) if self.raw else score

    # The result

    def _finish(self, state: State) -> None:
        """Stores the results divided by the sums."""
        guarded = self.plan.op.nan_to_zero is not None
        store = self._storer()
        for strip in range(self.strips):
            factor = self._inverse(strip, state.sums[strip][0])
            for column, fragment in enumerate(state.results[strip]):
                value = self.times(fragment, factor)
                if guarded:
                    value = self._without_nan(value, factor)
                store(strip, column, value)

    def _inverted(self, total: SSAValue) -> SSAValue:
        """Returns the factor of a row's results, 1 / sum; NaN marks a row without a sum."""
        b = self.b
        value = b.add(arith.DivfOp(self.number(1.0), total))
        if self.plan.op.nan_to_zero is None:
            return value
        some = b.add(arith.CmpfOp(total, self.number(0.0), "ogt"))
        return b.select(some, value, self.number(float("nan")))

    def _zero_for_nan(self, value: SSAValue, factor: SSAValue) -> SSAValue:
        b = self.b
        nan = b.add(arith.CmpfOp(factor, factor, "uno"))
        return b.add(arith.SelectOp(nan, self.number(0.0), value))

    def _storer(self) -> Store:
        """Returns store(strip, column, fragment), which stores it whole or by elements."""
        b, plan = self.b, self.plan
        out = plan.op.out
        assert isinstance(out.type, MemRefType)
        element = out.type.element_type
        memory = b.at_top(FlatViewOp(out, element), "result_elements")
        layout = plan.layout("result")
        start = b.plus(offset_along(b, layout, 0, self.batch), layout.start)

        def place(row: Index, column: Index) -> Index:
            at = b.plus(offset_along(b, layout, 1, row), offset_along(b, layout, 2, column))
            return b.plus(start, at)

        def directly(strip: int, column: int, value: Fragment) -> None:
            if not isinstance(element, Float32Type):
                value = self._converted(value, self.carrier)
            at = place(b.plus(self.row, strip * self.m), column * self.n)
            store_matrix(b, value, memory, (at,), stride_of(layout, 1) or plan.op.extents[3])

        def by_elements(strip: int, column: int, value: Fragment) -> None:
            rows, _, _, width = plan.op.extents

            def store(i: Index, j: Index, number: Callable[[], SSAValue]) -> None:
                r = b.plus(b.plus(self.row, strip * self.m), i)
                c = b.plus(j, column * self.n)
                inside = b.below(r, rows) if rows % plan.schedule.query_tile.data else True
                if width % self.n:
                    inside = b.both(inside, b.below(c, width))
                b.when(inside, lambda: store_one(r, c, number()))

            def store_one(r: Index, c: Index, number: SSAValue) -> None:
                if not isinstance(element, Float32Type):
                    number = b.add(arith.TruncFOp(number, element))  # pyright: ignore
                b.store(number, memory, (place(r, c),))

            self._each_place(value, store)

        return self._store_of(directly, by_elements)

    # By rows, by places, and from one product to the other

    @abstractmethod
    def _prepare(self, subgroup: Index) -> None:
        """Writes code that comes before everything else, if a subclass needs it."""

    def _count_places(self) -> None:
        """Computes the places of components in a fragment, if a subclass needs them."""

    def _begin(self) -> None:
        """Writes code that comes right before the loop over keys, if a subclass needs it."""

    @abstractmethod
    def _masked(self, fragment: Fragment, strip: int, j: int, key: Index) -> Fragment:
        """Masks scores: -inf beyond the last key, or where the causal mask hides the key."""

    @abstractmethod
    def _of_places(self, element: Callable[[Index, Index], SSAValue]) -> Fragment:
        """Builds the fragment whose elements are element(row, column)."""

    @abstractmethod
    def _powers(self, scores: list[list[Fragment]], state: State) -> None:
        """Computes exp(score - maximum), adds it to the sums, rounds it for the second product."""

    @abstractmethod
    def _lefts(self, step: int) -> list[Fragment]:
        """Returns the strips' probabilities for one step of the second product."""

    @abstractmethod
    def _inverse(self, strip: int, sums: Fragment) -> Fragment:
        """Applies `_inverted` to each row's sum, in every component of the row."""

    @abstractmethod
    def _without_nan(self, value: Fragment, factor: Fragment) -> Fragment:
        """Applies `_zero_for_nan` to every component."""

    def _store_of(self, directly: Store, by_elements: Store) -> Store:
        """Selects the way to store a fragment."""
        return directly if ResultRows(self.plan).stored_in_fragments else by_elements

    @abstractmethod
    def _each_place(
        self,
        value: Fragment,
        body: Callable[[Index, Index, Callable[[], SSAValue]], None],
    ) -> None:
        """Calls body(row, column, getter of the element) for each element of a fragment."""
