"""An attention's row statistics, places and probabilities in Workgroup memory, for any device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, f16, f32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.attention_code import AttentionCode
from xdsl_spirv.passes.kernel.attention_numbers import LOWEST, Fragment, State
from xdsl_spirv.passes.kernel.attention_scratch import Scratch
from xdsl_spirv.passes.kernel.matrix_values import COLUMN_MAJOR, load_matrix, store_matrix, zeros


class MemoryAttentionCode(AttentionCode):
    """Writes the body of a kernel that exchanges the numbers of rows through a `Scratch`."""

    def _prepare(self, subgroup: Index) -> None:
        self.scratch = Scratch(self.b, self.plan, subgroup, self.lane, self.accumulator)

    def _begin(self) -> None:
        b = self.b

        def lowest(number: Index) -> None:
            for strip in range(self.strips):
                at = b.plus(self.scratch.at_rows, b.plus(number, strip * self.m))
                b.store(self.number(LOWEST), self.scratch.maxima, (at,))

        self.scratch.each_row(lowest)

    def settle(self) -> None:
        # Reads of the last tile's probabilities come before the next writes.
        self.b.subgroup_barrier()

    def _lefts(self, step: int) -> list[Fragment]:
        return [
            load_matrix(
                self.b,
                self.left,
                self.scratch.probabilities,
                (self.scratch.probability(strip, step * self.k),),
                self.plan.schedule.probability_row,
                shared=True,
            )
            for strip in range(self.strips)
        ]

    # Scores

    def _count_places(self) -> None:
        """Stores indices in memory, from which components learn their column and diagonal."""
        if not self.plan.counts:
            return
        b = self.b
        size, invocations = max(self.m, self.n), self.plan.invocations
        memory = b.allocate(f32, [size], "indices")
        thread = b.thread_id()
        for first in range(0, size, invocations):
            number = b.plus(thread, first)
            inside = b.below(thread, size - first) if size - first < invocations else True
            b.when(inside, lambda number=number: self._write_index(memory, number))
        b.barrier()
        load = partial(load_matrix, b, self.accumulator, memory, (0,), 0, shared=True)
        columns = load()
        self.columns = columns
        if self.plan.op.offset is not None:
            rows = load(layout=COLUMN_MAJOR)
            self.beyond = b.add(spv.FSubOp(columns, rows))

    def _write_index(self, memory: SSAValue, number: Index) -> None:
        self.b.store(self._float(number), memory, (number,))

    def _float(self, number: Index) -> SSAValue:
        """An index, or a difference of two, as f32."""
        if isinstance(number, int):
            return self.number(float(number))
        return self.b.add(arith.SIToFPOp(self.as_signed(number), f32))

    def _masked(self, fragment: Fragment, strip: int, j: int, key: Index) -> Fragment:
        """Masks scores: -inf beyond the last key, or where the causal mask hides the key."""
        b, plan = self.b, self.plan
        _, keys, _, _ = plan.op.extents
        first = b.plus(key, j * self.n)
        values = self.parts(fragment)
        least = self.number(-inf)
        if plan.ragged and not (isinstance(first, int) and first + self.n <= keys):
            left = self._float(keys - first) if isinstance(first, int) else self._left(keys, first)
            values = [
                b.add(arith.SelectOp(b.add(arith.CmpfOp(column, left, "olt")), value, least))
                for column, value in zip(self.parts(self.columns), values, strict=True)
            ]
        if plan.op.offset is not None:
            # key + column > row + offset, as column - row > what is uniform.
            limit = self._difference(b.plus(self.row, strip * self.m + plan.op.offset), first)
            values = [
                b.add(arith.SelectOp(b.add(arith.CmpfOp(beyond, limit, "ogt")), least, value))
                for beyond, value in zip(self.parts(self.beyond), values, strict=True)
            ]
        return self.put(values, fragment)

    def _left(self, keys: int, first: Index) -> SSAValue:
        return self._difference(keys, first)

    def _difference(self, a: Index, b: Index) -> SSAValue:
        """Difference of two indices, as f32; it may be negative."""
        one, other = self.b.index(a), self.b.index(b)
        return self._float(self.b.add(arith.SubiOp(one, other)))

    def _of_places(self, element: Callable[[Index, Index], SSAValue]) -> Fragment:
        b, scratch = self.b, self.scratch
        b.subgroup_barrier()
        scratch.each_element(lambda i, j, at: b.store(element(i, j), scratch.exchange, (at,)))
        b.subgroup_barrier()
        return scratch.spread()

    # Softmax

    def greatest(self, scores: list[list[Fragment]]) -> list[list[SSAValue]]:
        """Returns for each strip the maximum of its fragments, component by component."""
        maxima: list[list[SSAValue]] = []
        for row in scores:
            components = [self.parts(fragment) for fragment in row]
            maxima.append(
                [reduce(self.greater, values) for values in zip(*components, strict=True)]
            )
        return maxima

    def renew(
        self, strip: int, greatest: list[SSAValue], score: Fragment, before: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        b, scratch = self.b, self.scratch
        factor = self.number(self.factor)

        def replace(value: SSAValue, at: Index) -> None:
            value = self._as_maximum(value, factor)
            kept = b.load(scratch.maxima, (at,))
            now = self.greater(kept, value)
            lost = self.loss(kept, now)
            b.store(now, scratch.maxima, (at,))
            b.store(self.power(lost), scratch.factors, (at,))

        scratch.reduced(strip, self.put(greatest, score), self.greater, replace)
        return [scratch.of_rows(scratch.maxima, strip)], [scratch.of_rows(scratch.factors, strip)]

    def _powers(self, scores: list[list[Fragment]], state: State) -> None:
        """Computes exp(score - maximum), adds it to the sums, rounds it into Workgroup memory."""
        for strip, row in enumerate(scores):
            maxima = self.parts(state.maxima[strip][0])
            for j, fragment in enumerate(row):
                pairs = zip(self.parts(fragment), maxima, strict=True)
                values = [self.power(self.exponent(score, top)) for score, top in pairs]
                powers = self.put(values, fragment)
                state.sums[strip] = [self.plus(state.sums[strip][0], powers)]
                place = (self.scratch.probability(strip, j * self.n),)
                store_matrix(
                    self.b,
                    self._carried(values, powers),
                    self.scratch.probabilities,
                    place,
                    self.plan.schedule.probability_row,
                    shared=True,
                )
        self.b.subgroup_barrier()

    def _carried(self, values: Sequence[SSAValue], powers: Fragment) -> Fragment:
        """Powers in 16 bits: bf16 as the bits of f16, of which there are accumulators."""
        if not isinstance(self.plan.element, BFloat16Type):
            return self._converted(powers, self.carrier)
        b = self.b
        narrow = [b.add(arith.TruncFOp(value, self.plan.element)) for value in values]
        bits = [b.add(spv.BitcastOp(value, f16)) for value in narrow]
        return self.put(bits, zeros(b, self.carrier))

    # The result

    def _inverse(self, strip: int, sums: Fragment) -> Fragment:
        b, scratch = self.b, self.scratch

        def invert(total: SSAValue, at: Index) -> None:
            b.store(self._inverted(total), scratch.factors, (at,))

        b.subgroup_barrier()
        scratch.reduced(strip, sums, self.plus, invert)
        return scratch.of_rows(scratch.factors, strip)

    def _without_nan(self, value: Fragment, factor: Fragment) -> Fragment:
        pairs = zip(self.parts(value), self.parts(factor), strict=True)
        return self.put([self._zero_for_nan(v, f) for v, f in pairs], value)

    def _each_place(
        self,
        value: Fragment,
        body: Callable[[Index, Index, Callable[[], SSAValue]], None],
    ) -> None:
        b, scratch = self.b, self.scratch
        b.subgroup_barrier()
        scratch.collect(value)
        b.subgroup_barrier()
        scratch.each_element(lambda i, j, at: body(i, j, lambda: b.load(scratch.exchange, (at,))))
