"""
An attention's rows, places and probabilities by instructions of SPV_NV_cooperative_matrix2.

A row's maximum and sum are reductions of the matrix, a value that depends on a place is a function
of each element, and probabilities are the accumulator converted to the second product's operand. So
nothing goes through memory, on devices whose places of components are not known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from math import inf

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.kernel.attention_code import AttentionCode, Store
from xdsl_spirv.passes.kernel.attention_numbers import Fragment, State
from xdsl_spirv.passes.kernel.matrix_functions import each_element, reduce_rows
from xdsl_spirv.passes.schedule.attention_result_rows import ResultRows


class ConvertedAttentionCode(AttentionCode):
    """Writes the body of a kernel whose probabilities are converted."""

    def _prepare(self, subgroup: Index) -> None:
        self.probabilities: list[list[Fragment]] = []

    def _each(self, body: Callable[..., SSAValue], matrix: Fragment, *others: Fragment) -> Fragment:
        """Builds a matrix from body(element, elements of the others) at each place."""
        return each_element(self.b, lambda row, column, *values: body(*values), matrix, *others)

    # Scores

    def _masked(self, fragment: Fragment, strip: int, j: int, key: Index) -> Fragment:
        """Masks scores: -inf beyond the last key, or where the causal mask hides the key."""
        b, plan = self.b, self.plan
        _, keys, _, _ = plan.op.extents
        first = b.plus(key, j * self.n)
        row = b.plus(self.row, strip * self.m)

        def masked(i: SSAValue, j: SSAValue, score: SSAValue) -> SSAValue:
            number = b.plus(first, j)
            hidden: list[SSAValue] = []
            if plan.ragged:
                hidden.append(b.add(arith.CmpiOp(self.as_signed(number), b.i32(keys - 1), "sgt")))
            if plan.op.offset is not None:
                last = b.add(arith.AddiOp(self.as_signed(b.plus(row, i)), b.i32(plan.op.offset)))
                hidden.append(b.add(arith.CmpiOp(self.as_signed(number), last, "sgt")))
            if not hidden:
                return score
            either = reduce(lambda x, y: b.add(arith.OrIOp(x, y)), hidden)
            return b.add(arith.SelectOp(either, self.number(-inf), score))

        return each_element(b, masked, fragment)

    def _of_places(self, element: Callable[[Index, Index], SSAValue]) -> Fragment:
        return each_element(self.b, lambda i, j, _: element(i, j), self.splat(0.0))

    # Softmax

    def greatest(self, scores: list[list[Fragment]]) -> list[list[SSAValue]]:
        """Returns one fragment for each strip: the maximum of its fragments, place by place."""
        return [[reduce(lambda x, y: self._each(self.greater, x, y), row)] for row in scores]

    def exceeds(self, greatest: list[list[SSAValue]], state: State) -> SSAValue:
        return super().exceeds([self.parts(fragment) for (fragment,) in greatest], state)

    def renew(
        self, strip: int, greatest: list[SSAValue], score: Fragment, before: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        factor = self.number(self.factor)
        of_rows = reduce_rows(self.b, self.greater, greatest[0])

        def risen(kept: SSAValue, value: SSAValue) -> SSAValue:
            return self.greater(kept, self._as_maximum(value, factor))

        now = self._each(risen, before[0], of_rows)
        return [now], [self._each(self.shrink, before[0], now)]

    def _powers(self, scores: list[list[Fragment]], state: State) -> None:
        """Computes exp(score - maximum), adds it to the sums and converts it."""
        self.probabilities = []
        for strip, row in enumerate(scores):
            self.probabilities.append([])
            for fragment in row:
                powers = self._each(self._power_of, fragment, *state.maxima[strip])
                state.sums[strip] = [self.plus(state.sums[strip][0], powers)]
                self.probabilities[-1].append(self._converted(powers, self.left))

    def _power_of(self, score: SSAValue, maximum: SSAValue) -> SSAValue:
        return self.power(self.exponent(score, maximum))

    def _lefts(self, step: int) -> list[Fragment]:
        return [row[step] for row in self.probabilities]

    # The result

    def _inverse(self, strip: int, sums: Fragment) -> Fragment:
        return self._each(self._inverted, reduce_rows(self.b, self.plus, sums))

    def _without_nan(self, value: Fragment, factor: Fragment) -> Fragment:
        return self._each(self._zero_for_nan, value, factor)

    def _store_of(self, directly: Store, by_elements: Store) -> Store:
        """Stores fragments that lie inside the result whole, the others by elements."""
        b, plan = self.b, self.plan
        if not (plan.ends_within and ResultRows(plan).fragments_are_stored):
            return super()._store_of(directly, by_elements)

        def store(strip: int, column: int, value: Fragment) -> None:
            last = b.plus(self.row, strip * self.m + self.m - 1)
            given = strip, column, value
            b.when(
                b.below(last, plan.op.extents[0]),
                partial(directly, *given),
                partial(by_elements, *given),
            )

        return store

    def _each_place(
        self,
        value: Fragment,
        body: Callable[[Index, Index, Callable[[], SSAValue]], None],
    ) -> None:
        def element(i: SSAValue, j: SSAValue, number: SSAValue) -> SSAValue:
            body(i, j, lambda: number)
            return number

        each_element(self.b, element, value)
