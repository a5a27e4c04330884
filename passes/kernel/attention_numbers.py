"""
The steps of every attention's kernel by matrices: arithmetic on f32 and on fragments, products, the
state of the loop over keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import log2
from typing import Any, TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, MemRefType, f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.matrix_values import matrix_type, put_together, take_apart
from xdsl_spirv.passes.schedule.attention import AttentionPlan

Fragment: TypeAlias = SSAValue

LOWEST = -3.4028234663852886e38
"""Initial maximum: greater than -inf, so that masked scores give powers of 0 instead of NaN."""

EXCESS = 8.0
"""Powers of two that a score may exceed its row's maximum by: f16 holds 2^15, times head sums."""

LOG2_E = log2(2.718281828459045)


Words = list[SSAValue]

Reader = Callable[[int], Iterable[Fragment]]
"""Yields the fragments of a line of keys or values, given its number."""


@dataclass
class State:
    """
    The values that the loop over keys carries: each strip's row maxima, row sums and part of the
    result; the following tile's words and scores.
    """

    maxima: list[list[SSAValue]]
    sums: list[list[SSAValue]]
    results: list[list[Fragment]]
    keys: list[Words] = field(default_factory=list[Words])
    values: list[Words] = field(default_factory=list[Words])
    scores: list[list[Fragment]] = field(default_factory=list[list[Fragment]])

    def _parts(self) -> list[list[list[SSAValue]]]:
        return [self.maxima, self.sums, self.results, self.keys, self.values, self.scores]

    def flat(self) -> list[SSAValue]:
        return [value for part in self._parts() for row in part for value in row]

    def like(self, values: Sequence[SSAValue]) -> State:
        """Builds a state from other values in the same order."""
        left = iter(values)
        return State(*([[next(left) for _ in row] for row in part] for part in self._parts()))


class Numbers:
    """Writes arithmetic on f32."""

    b: KernelEmitter

    def number(self, value: float) -> SSAValue:
        return self.b.constant(FloatAttr(value, f32))

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Adds two numbers, or two fragments."""
        kind = spv.FAddOp if isinstance(x.type, spv.CooperativeMatrixType) else arith.AddfOp
        return self.b.add(kind(x, y))

    def times(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Multiplies two numbers, or two fragments component by component."""
        kind = spv.FMulOp if isinstance(x.type, spv.CooperativeMatrixType) else arith.MulfOp
        return self.b.add(kind(x, y))

    def greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxnumfOp(x, y))

    def quotient(self, value: SSAValue, total: SSAValue, guarded: bool) -> SSAValue:
        """Divides by a row's sum; 0 if it is `guarded` and the row has no sum."""
        b = self.b
        quotient = b.add(arith.DivfOp(value, total))
        if not guarded:
            return quotient
        some = b.add(arith.CmpfOp(total, self.number(0.0), "ogt"))
        return b.select(some, quotient, self.number(0.0))

    def power(self, exponent: SSAValue) -> SSAValue:
        """Computes 2 to the power of the exponent."""
        return self.b.add(math.Exp2Op(exponent))


class FragmentAttention(Numbers, ABC):
    """
    Writes the steps of an attention by matrices that do not depend on how rows are held.

    A row's numbers are fragments, through memory or by instructions (`attention_code`), or numbers
    in registers (`attention_registers_code`).
    """

    def __init__(self, b: KernelEmitter, plan: AttentionPlan):
        self.b, self.plan = b, plan
        schedule = plan.schedule
        self.m, self.n, self.k = schedule.instruction.sizes
        self.strips, self.keys = schedule.strips, schedule.key_tile.data
        self.accumulator = matrix_type("Acc", self.m, self.n, f32)
        self.left = matrix_type("A", self.m, self.k, plan.element)
        # In units of the exponent of two where nothing is done to scores, so that one multiply-add
        # makes the exponent of a raw score; else scores are scaled first.
        scale = plan.op.scale.value.data
        self.raw = plan.op.mask is None and plan.op.cap is None and scale > 0
        self.factor = scale * LOG2_E if self.raw else LOG2_E

    @property
    @abstractmethod
    def components(self) -> int:
        """The number of components of an accumulator fragment in each invocation."""

    def splat(self, value: float, type: spv.CooperativeMatrixType | None = None) -> Fragment:
        """The number in every component, of the accumulator if no type is given."""
        type = type or self.accumulator
        element = type.element_type
        return self.b.at_top(spv.ConstantOp(FloatAttr(value, element), type))  # pyright: ignore

    def parts(self, fragment: Fragment) -> list[SSAValue]:
        """Splits a fragment into the invocation's components."""
        return take_apart(self.b, fragment, self.components)

    def put(self, values: Sequence[SSAValue], fragment: Fragment) -> Fragment:
        """Replaces the invocation's components of a fragment."""
        return put_together(self.b, values, fragment)

    def multiplied(self, left: Fragment, right: Fragment, total: Fragment) -> Fragment:
        return self.b.add(spv.CooperativeMatrixMulAddOp(left, right, total))

    def any_exceeds(
        self, values: Sequence[SSAValue], limit: SSAValue, predicate: str = "ogt"
    ) -> SSAValue:
        """Whether any value of the subgroup's invocations is above a limit."""
        over = self.b.add(arith.CmpfOp(reduce(self.greater, values), limit, predicate))
        return self.b.add(spv.GroupNonUniformAnyOp(spv.Scope.Subgroup, over))

    def as_signed(self, number: Index) -> SSAValue:
        """Converts an index to i32."""
        return self.b.add(arith.IndexCastOp(self.b.index(number), i32))

    def loss(self, before: SSAValue, now: SSAValue) -> SSAValue:
        """Returns the (negative) exponent of two by which sums shrink when a maximum grows."""
        lost = self.b.add(arith.SubfOp(before, now))
        return lost if self.raw else self.times(lost, self.number(self.factor))

    def shrink(self, before: SSAValue, now: SSAValue) -> SSAValue:
        """The factor of sums when a maximum grows."""
        return self.power(self.loss(before, now))

    def exponent(self, score: SSAValue, maximum: SSAValue) -> SSAValue:
        """Exponent of two for a score; the maximum is scaled already where scores are raw."""
        b, factor = self.b, self.number(self.factor)
        if self.raw:
            return b.add(math.FmaOp(score, factor, b.add(arith.NegfOp(maximum))))
        return self.times(b.add(arith.SubfOp(score, maximum)), factor)

    def view_mask(self) -> SSAValue | None:
        """Views the mask as a row of elements."""
        mask = self.plan.op.mask
        if mask is None:
            return None
        assert isinstance(mask.type, MemRefType)
        return self.b.at_top(FlatViewOp(mask, mask.type.element_type), "mask_elements")

    def first_state(self, low: SSAValue, zero: SSAValue, empty: Fragment, rows: int) -> State:
        """The state before the first key; a strip has `rows` maxima and sums."""
        strips = range(self.strips)
        results = [[empty] * self.plan.columns for _ in strips]
        maxima, sums = ([[value] * rows for _ in strips] for value in (low, zero))
        return State(maxima, sums, results)

    def multiply_keys(
        self, q: list[list[Fragment]], count: int, read: Reader
    ) -> list[list[Fragment]]:
        """Scores of `count` fragments of keys for each strip of queries."""
        zero = self.splat(0.0)
        scores = [[zero] * count for _ in range(self.strips)]
        for j in range(count):
            for step, right in enumerate(read(j)):
                for strip, row in enumerate(scores):
                    row[j] = self.multiplied(q[strip][step], right, row[j])
        return scores

    def add_values(
        self,
        count: int,
        read: Reader,
        lefts: Callable[[int], list[Fragment]],
        results: list[list[Fragment]],
    ) -> None:
        """Adds the strips' probabilities of each of `count` steps times values."""
        for step in range(count):
            left = lefts(step)
            for column, right in enumerate(read(step)):
                for strip, row in enumerate(results):
                    row[column] = self.multiplied(left[strip], right, row[column])

    def rescale(self, scores: list[list[Any]], state: State) -> State:
        """Updates the state to maxima that hold for these scores."""
        greatest = self.greatest(scores)

        def new() -> Sequence[SSAValue]:
            return self.with_maxima(greatest, scores, state).flat()

        if self.plan.schedule.rescale.data == "always":
            return state.like(new())
        kept = state.flat()
        types = [value.type for value in kept]
        chosen = self.b.choose(self.exceeds(greatest, state), types, new, lambda: kept)
        self.settle()
        return state.like(chosen)

    @abstractmethod
    def greatest(self, scores: list[list[Any]]) -> list[list[SSAValue]]:
        """For each strip, the maxima of the invocation's scores, in the form that rows have."""

    @abstractmethod
    def exceeds(self, greatest: list[list[SSAValue]], state: State) -> SSAValue:
        """Whether any row of the subgroup needs another maximum."""

    def with_maxima(
        self, greatest: list[list[SSAValue]], scores: list[list[Any]], state: State
    ) -> State:
        """The state with maxima that hold for these scores."""
        rescaled = State([], [], [])
        for strip, values in enumerate(greatest):
            maxima, factors = self.renew(strip, values, scores[strip][0], state.maxima[strip])
            rescaled.maxima.append(maxima)
            rescaled.sums.append(list(map(self.times, state.sums[strip], factors)))
            rescaled.results.append([self.weigh(row, factors) for row in state.results[strip]])
        return rescaled

    @abstractmethod
    def renew(
        self, strip: int, greatest: list[SSAValue], score: Any, before: list[SSAValue]
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """
        Returns a strip's maxima for these scores, and the factors of sums under the maxima before:
        numbers of rows, or one fragment with each row's in every component. `score` is any of them.
        """

    @abstractmethod
    def weigh(self, fragment: Fragment, factors: list[SSAValue]) -> Fragment:
        """Multiplies each row of a fragment by its factor."""

    def settle(self) -> None:
        """Hook after the maxima are updated and before probabilities are written."""
