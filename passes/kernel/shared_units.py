"""
Multiplies packed weights; all lanes of a subgroup load the same words of the weights.

    %w = load %q[number]             one load of the same word for all lanes
    %n = float(%w & %mask)           the lane's bits without a shift, too large by a power of two
    %sum += (%x * %power) * %n       %power is the inverse of this power

On a CPU, lanes are elements of a SIMD vector, and a load whose address differs by lane becomes one
load for each lane. Therefore all lanes load the same word, and each lane extracts different bits.
The bit positions of each lane become a mask, a power of two and an offset, which are computed
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial, reduce
from typing import Any, TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import CollectiveOp
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.bit_fields import WORD, Affine, Known, Scalar, ScalarCode, Whole
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, LeafCode, Point
from xdsl_spirv.passes.kernel.rows_code import RowsKernel, shifted
from xdsl_spirv.passes.schedule.rows import RowsPlan

Offset = dict[int, int]
"""Maps each loop to the offset of an element within one load."""


def _sum_of(x: Offset, y: Offset) -> Offset:
    return {loop: x.get(loop, 0) + y.get(loop, 0) for loop in (*x, *y)}


class WordsLeaf(LeafCode):
    """Reads one stored tensor; loads pairs of f16 as 32-bit words."""

    def _moved(self, bits: int) -> Attribute:
        is_word = bits == WORD and isinstance(self.type, Float16Type)
        return i32 if is_word else super()._moved(bits)


class LanesLeaf(LeafCode):
    """
    Reads a tensor of the operand with few rows; each lane needs a different element.

    All lanes load the elements of all lanes, and each lane selects its own. With constant
    positions, a single vector load is enough.
    """

    def __init__(self, kernel: SharedUnitsKernel, *given: Any):
        super().__init__(*given)
        self.kernel = kernel

    def element(self, point: Point, known: Known) -> Scalar:
        values = [self.load(place)[0] for place in self.kernel.lane_points]
        return self.kernel.by_lane(values)


class SharedUnitsKernel(RowsKernel):
    """Writes a kernel with few rows in which all lanes of a subgroup load the same weights."""

    lane_points: list[Point]
    """Position of each lane's element in a row."""

    def _operands(self) -> tuple[ComputedOperand, ComputedOperand]:
        b, plan, streamed = self.b, self.plan, self.plan.streamed
        few = ComputedOperand(b, plan, 1 - streamed, {}, code=partial(LanesLeaf, self))
        return ComputedOperand(b, plan, streamed, plan.unit, True, WordsLeaf), few

    def _multiply(
        self,
        units: Sequence[tuple[Index, Condition]],
        points: tuple[list[Point], list[Point]],
        totals: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        rows, columns = points
        results, offsets = list(totals), self._offsets()
        for unit, _ in units:
            known = Known()
            place = self.places_of(unit)
            elements = [self._elements(column, place, known) for column in columns]
            for i, row in enumerate(rows):
                xs = [self._own(row | shifted(place, offset)) for offset in offsets]
                sums = LaneSums(self, known, xs)
                for at, column in enumerate(elements, i * len(columns)):
                    results[at] = sums.add(column, results[at])
        return results

    def _elements(self, column: Point, place: Point, known: Known) -> list[list[Affine]]:
        """
        Returns, for each element of a load, a list of its values: one for each lane that shares
        the load. The load is at `place` along K, in the column at the position `column`.
        """
        return [
            [
                self.stream.apart(column | shifted(place, _sum_of(offset, lane)), known)
                for lane in self._lane_offsets
            ]
            for offset in self._offsets()
        ]

    def _own(self, point: Point) -> SSAValue:
        """Returns the lane's element of a row; `point` is the position for lane 0."""
        b, divisor = self.b, 1
        self.lane_points = [
            {loop: (first, added + lane.get(loop, 0)) for loop, (first, added) in point.items()}
            for lane in self._lane_offsets
        ]
        for digit in self.plan.lane_digits:
            number = b.remainder(b.divided(self.lane, divisor), digit.count)
            first, added = point[digit.loop]
            point = point | {digit.loop: (b.plus(first, b.times(number, digit.scale)), added)}
            divisor *= digit.count
        return self.few.element(point, Known())

    @cached_property
    def _lane_offsets(self) -> list[Offset]:
        return [self._offset_of(lane) for lane in range(self.plan.target.subgroup_size)]

    def _offset_of(self, lane: int) -> Offset:
        offset: Offset = {}
        for digit in self.plan.lane_digits:
            lane, number = divmod(lane, digit.count)
            offset[digit.loop] = offset.get(digit.loop, 0) + number * digit.scale
        return offset

    # Values that differ by lane

    def by_lane(self, values: Sequence[SSAValue], first: int = 0) -> SSAValue:
        """
        Selects each lane's value by binary search. `values` has one value for each lane from lane
        `first` on.
        """
        if len({*values}) == 1:
            return values[0]
        half = len(values) // 2
        low, high = self.by_lane(values[:half], first), self.by_lane(values[half:], first + half)
        return self.b.select(self.b.below(self.lane, first + half), low, high)

    def numbers_by_lane(self, numbers: Sequence[float], type: Attribute) -> SSAValue:
        return self.by_lane([self.b.number(number, type) for number in numbers])


class LaneSums:
    """Adds up the products of a unit (neighbouring weights) with the lane's row elements `xs`."""

    def __init__(self, kernel: SharedUnitsKernel, known: Known, xs: Sequence[SSAValue]):
        self.kernel, self.known, self.xs = kernel, known, xs
        self.code = ScalarCode(kernel.b, known)

    def add(self, elements: Sequence[Sequence[Affine]], total: SSAValue) -> SSAValue:
        """
        Returns `total` plus the products of a column. `elements` has, for each row element, the
        values of all lanes.

        A factor and an addend that several elements share are applied once, to the sum.
        """
        kernel = self.kernel
        sums: dict[tuple[SSAValue | None, SSAValue | None], list[Term]] = {}
        for x, lanes in zip(self.xs, elements, strict=True):
            scale = self._common([e.scale for e in lanes], 1.0)
            addend = self._common([e.addend for e in lanes], 0.0)
            sums.setdefault((scale, addend), []).append((x, [e.value for e in lanes]))
        for (scale, addend), terms in sums.items():
            part = self._products(terms)
            total = kernel.plus(total, part) if scale is None else kernel.fuse(part, scale, total)
            if addend is not None:
                total = kernel.fuse(self._sum(tuple(x for x, _ in terms)), addend, total)
        return total

    def _common(self, values: Sequence[SSAValue | None], neutral: float) -> SSAValue | None:
        """
        Returns the factor or addend of an element in each lane, where `neutral` replaces None.
        """
        if len({*values}) == 1:
            return values[0]
        number = self.kernel.b.number(neutral, f32)
        return self.kernel.by_lane([number if value is None else value for value in values])

    def _products(self, terms: Sequence[Term]) -> SSAValue:
        b, kernel = self.kernel.b, self.kernel
        pairs: list[tuple[SSAValue, SSAValue]] = []
        beyond: dict[tuple[int, ...], list[SSAValue]] = {}
        for x, lanes in terms:
            numbers = [value for value in lanes if isinstance(value, Whole)]
            if len(numbers) < len(lanes) or len({number.bits.count for number in numbers}) > 1:
                written = [self.code.value(value, f32) for value in lanes]
                pairs.append((x, kernel.by_lane(written)))
                continue
            places = tuple(number.bits.low for number in numbers)
            pairs.append((self._times_powers(x, places), self._float_in_place(numbers)))
            offsets = tuple(map(_offset, numbers))
            if any(offsets):
                beyond.setdefault(offsets, []).append(x)
        parts = [self._times_offsets(tuple(xs), offsets) for offsets, xs in beyond.items()]
        if not parts:
            parts = [b.add(arith.MulfOp(*pairs.pop(0)))]
        total = reduce(kernel.plus, parts)
        for x, number in pairs:
            total = kernel.fuse(x, number, total)
        return total

    def _float_in_place(self, numbers: Sequence[Whole]) -> SSAValue:
        """
        Converts each lane's bit field to a float, without a shift to bit 0: the float is 2^(lowest
        bit) times too large.
        """
        b, kernel = self.kernel.b, self.kernel
        word, bits = kernel.by_lane([x.bits.word for x in numbers]), [x.bits for x in numbers]
        mask = kernel.numbers_by_lane([((1 << x.count) - 1) << x.low for x in bits], i32)
        number = b.add(arith.AndIOp(word, mask))
        if any(turned := [_sign_bit_to_turn(x) for x in numbers]):
            # After the mask: a driver would compute an XOR of the uniform word in scalar registers.
            number = b.add(arith.XOrIOp(number, kernel.numbers_by_lane(turned, i32)))
        return b.add(arith.SIToFPOp(number, f32))

    def _times_powers(self, x: SSAValue, places: tuple[int, ...]) -> SSAValue:
        powers = self.kernel.numbers_by_lane([2.0**-place for place in places], f32)
        return self.code.once(arith.MulfOp, x, powers)

    def _times_offsets(self, xs: tuple[SSAValue, ...], offsets: tuple[int, ...]) -> SSAValue:
        numbers = self.kernel.numbers_by_lane(offsets, f32)
        return self.code.once(arith.MulfOp, self._sum(xs), numbers)

    def _sum(self, xs: tuple[SSAValue, ...]) -> SSAValue:
        return self.known.once(xs, lambda: reduce(self.kernel.plus, xs))


Term: TypeAlias = tuple[SSAValue, Sequence["SSAValue | Whole"]]
"""A row element, and its weight in each lane."""


def _sign_bit_to_turn(number: Whole) -> int:
    """Returns the top bit of a field that a signed conversion must flip; 0 if there is none."""
    bits = number.bits
    has_sign = bits.low + bits.count == WORD
    return 0 if number.signed == has_sign else 1 << (bits.low + bits.count - 1)


def _offset(number: Whole) -> int:
    """Returns the constant that the flipped sign bit adds to the number; 0 without a flip."""
    if not _sign_bit_to_turn(number):
        return 0
    sign_bit = 1 << (number.bits.count - 1)
    return -sign_bit if number.signed else sign_bit


def write_rows(builder: HoistingEmitter, plan: RowsPlan, collective: CollectiveOp) -> None:
    """Writes the kernel of a contraction with few rows."""
    kind = SharedUnitsKernel if plan.schedule.within.data > 1 else RowsKernel
    kind(builder, plan).emit()


class ContractionToRowsPass(KernelPass):
    """Writes the kernels of contractions with a `#schedule.rows`."""

    name = "contraction-to-rows"
    codes = {"rows": write_rows}
    emitter = HoistingEmitter
