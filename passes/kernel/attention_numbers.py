"""
Emits arithmetic on f32 for all attention kernels, and defines the values that their loop over keys
carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import log2
from typing import Generic, TypeAlias, TypeVar

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, VectorType, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import WORD_BITS, convert_factor
from xdsl_spirv.passes.schedule.attention import OfAttention

Fragment: TypeAlias = SSAValue

LOWEST = -3.4028234663852886e38
"""Initial row maximum. It is finite, because -inf - -inf would make powers of masked scores NaN."""

EXCESS = 8.0
"""Exponent of 2 by which a score may exceed its row's maximum. f16 holds at most 2^15."""

LOG2_E = log2(2.718281828459045)

AS_I32 = partial(arith.IndexCastOp, target_type=i32)
IS_GREATER = partial(arith.CmpfOp, arg="ogt")

Words = list[SSAValue]

PlanT = TypeVar("PlanT", bound=OfAttention)


@dataclass
class State:
    """
    The values that the loop over keys carries: maxima, sums and results of the rows, and words of
    keys and values that were read ahead.
    """

    maxima: list[list[SSAValue]]
    sums: list[list[SSAValue]]
    results: list[list[Fragment]]
    words: dict[str, list[Words]] = field(default_factory=lambda: {"k": [], "v": []})

    @property
    def carried(self) -> State:
        """A copy without the words that were read ahead."""
        return State(self.maxima, self.sums, self.results)

    def _parts(self) -> list[list[list[SSAValue]]]:
        return [self.maxima, self.sums, self.results, *self.words.values()]

    def flat(self) -> list[SSAValue]:
        return [value for part in self._parts() for row in part for value in row]

    def like(self, values: Sequence[SSAValue]) -> State:
        """Builds a state from loop-carried values, which have the order that `flat` returns."""
        left = iter(values)
        maxima, sums, results, k, v = (
            [[next(left) for _ in row] for row in part] for part in self._parts()
        )
        return State(maxima, sums, results, {"k": k, "v": v})


def round_numbers(
    b: KernelEmitter, values: Sequence[SSAValue], element: Attribute
) -> list[SSAValue]:
    """Converts f32 numbers to an element type."""
    return [convert_factor(b, value, element, signed=True) for value in values]


def moved_type(element: Attribute, count: int) -> Attribute:
    """Returns the load type of `count` elements: 32-bit words for narrower elements."""
    if count == 1:
        return element
    bits = bit_width(element)
    words = count * bits // WORD_BITS
    word = i32 if bits < WORD_BITS else element
    return VectorType(word, [words]) if words > 1 else word


class Numbers(Generic[PlanT]):
    """Base class of attention code writers: emits arithmetic on f32 numbers and f32 fragments."""

    def __init__(self, b: KernelEmitter, plan: PlanT):
        self.b, self.plan = b, plan

    def number(self, value: float) -> SSAValue:
        return self.b.constant(FloatAttr(value, f32))

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Adds two numbers or two fragments."""
        kind = spv.FAddOp if isinstance(x.type, spv.CooperativeMatrixType) else arith.AddfOp
        return self.b.add(kind(x, y))

    def times(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """Multiplies two numbers, or two fragments componentwise."""
        kind = spv.FMulOp if isinstance(x.type, spv.CooperativeMatrixType) else arith.MulfOp
        return self.b.add(kind(x, y))

    def greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxnumfOp(x, y))

    def as_signed(self, number: Index) -> SSAValue:
        """Converts an index to i32."""
        return self.b.pure(AS_I32, self.b.index(number))

    def difference(self, a: Index, c: Index) -> SSAValue:
        """Subtracts two indices as i32; the result may be negative."""
        return self.b.pure(arith.SubiOp, self.as_signed(a), self.as_signed(c))

    def has_sum(self, total: SSAValue) -> SSAValue:
        """True if the row's sum is above 0. The sum is 0 if every score is -inf."""
        return self.b.pure(IS_GREATER, total, self.number(0.0))

    def quotient(self, value: SSAValue, total: SSAValue) -> SSAValue:
        """Divides by a row's sum. With `nan_to_zero`, division by 0 gives 0."""
        quotient = self.b.add(arith.DivfOp(value, total))
        if self.plan.op.nan_to_zero is None:
            return quotient
        return self.b.select(self.has_sum(total), quotient, self.number(0.0))

    def weigh(
        self, parts: Iterable[Sequence[SSAValue]], factors: Iterable[SSAValue]
    ) -> list[SSAValue]:
        """Returns the weighted sum of vectors: each vector is multiplied by its factor."""
        totals: list[SSAValue] = []
        for values, factor in zip(parts, factors, strict=True):
            if not totals:
                totals = [self.times(value, factor) for value in values]
                continue
            pairs = zip(values, totals, strict=True)
            totals = [self.b.add(math.FmaOp(value, factor, total)) for value, total in pairs]
        return totals

    def power(self, exponent: SSAValue) -> SSAValue:
        """Computes 2 to the power of `exponent`."""
        return self.b.add(math.Exp2Op(exponent))
