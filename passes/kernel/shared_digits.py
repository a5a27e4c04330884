"""
Computes the digits of row elements once for all subgroups of a workgroup, in Workgroup memory.

Digits are the bytes of floats that are scaled to integers (see `integer_products`). Several
subgroups multiply the same row elements by different columns. Each invocation computes the digits
of a few quads (four elements) and, after a barrier, reads the digits of its units (loads along K).

    words[row][digit][quad of the unit][unit], sums[row][quad of the unit][unit], scales[row][unit]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import IN_EACH_BYTE
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, Known, Point
from xdsl_spirv.passes.kernel.integer_products import RowDigits, Slots
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.rows import QUAD, RowsPlan

Elements = Callable[[], Sequence[SSAValue]]


class SharedDigits:
    """Stores the digits (bytes of scaled floats) of a workgroup's rows in Workgroup memory."""

    def __init__(
        self,
        b: HoistingEmitter,
        plan: RowsPlan,
        operand: ComputedOperand,
        places: Callable[[Index], Point],
    ):
        """`operand` reads four elements at a time; `places` maps a load's index to its position."""
        self.b, self.plan, self.operand, self.places = b, plan, operand, places
        rows, digits = plan.schedule.rows.data, plan.schedule.digits.data
        self.quads, self.stride = plan.digits.quads, plan.digits.stride
        count = rows * self.quads * self.stride
        self.words = b.allocate(i32, [digits * count], "digits")
        self.sums: SSAValue | None = None
        if plan.digits.keeps_sums:
            self.sums = b.allocate(f32, [count], "sums_of_quads")
        self.scales = b.allocate(f32, [rows * self.stride], "scales_of_digits")

    @cached_property
    def _shares(self) -> list[tuple[Index, Index, Condition]]:
        """Lists (load, quad, existence condition) for the invocation's quads of elements."""
        b, plan = self.b, self.plan
        units = plan.operands.units
        assert isinstance(units, int)
        count = units * self.quads
        invocation = b.thread_id(plan.invocations)
        shares: list[tuple[Index, Index, Condition]] = []
        for first in range(0, count, plan.invocations):
            number = b.plus(invocation, first)
            exists = b.below(number, count)
            number = number if exists is True else b.select(exists, number, 0)
            shares.append((b.divided(number, self.quads), b.remainder(number, self.quads), exists))
        return shares

    @cached_property
    def own(self) -> list[tuple[Sequence[Point], Condition]]:
        """(positions of the four elements, True if they exist) for each quad of the invocation."""
        return [
            (self._elements(self._place(unit, quad)), exists) for unit, quad, exists in self._shares
        ]

    def _place(self, unit: Index, quad: Index) -> Point:
        b, plan = self.b, self.plan
        counts = [plan.operands.unit.get(loop, 1) for loop in plan.operands.reduced]
        inside = b.delinearized(quad, [*counts[:-1], counts[-1] // QUAD])
        place = self.places(unit)
        for loop, index in zip(plan.operands.reduced, inside, strict=True):
            step = QUAD if loop == plan.operands.reduced[-1] else 1
            place[loop] = b.plus(place[loop][0], b.times(index, step)), 0
        return place

    def _elements(self, place: Point) -> list[Point]:
        last = self.plan.operands.reduced[-1]
        return [place | {last: (place[last][0], i)} for i in range(QUAD)]

    def write(self, rows: Sequence[Point]) -> None:
        """Computes and stores the 8-bit digits of the invocation's groups of four elements."""
        for (unit, quad, exists), (places, _) in zip(self._shares, self.own, strict=True):
            for number, row in enumerate(rows):
                known: Known = {}
                elements = [self.operand.element(row | place, known) for place in places]
                quad_digits = RowDigits(
                    self.b, elements, self.plan.schedule.digits.data, self._greatest_of_unit
                )
                self.b.when(
                    exists, lambda n=number, m=quad_digits, u=unit, q=quad: self._put(n, u, q, m)
                )

    def _greatest_of_unit(self, greatest: SSAValue) -> SSAValue:
        """Returns the maximum over the invocations that convert the elements of one load."""
        b = self.b
        return exchanged(b, greatest, 1, self.quads, lambda x, y: b.add(arith.MaxUIOp(x, y)))

    def _put(self, row: int, unit: Index, quad: Index, quad_digits: RowDigits) -> None:
        b, every = self.b, range(QUAD)
        for digit in range(quad_digits.digits):
            word = quad_digits.word(digit, tuple(every))
            at = self.index_of(row * quad_digits.digits + digit, quad, unit)
            b.store(word, self.words, (at,))
        if self.sums is not None:
            b.store(quad_digits.total(every), self.sums, (self.index_of(row, quad, unit),))
        scale = b.plus(unit, row * self.stride)
        b.when(b.below(quad, 1), lambda: b.store(quad_digits.scale, self.scales, (scale,)))

    def index_of(self, before: int, quad: Index, unit: Index) -> Index:
        """Returns the index of a load's quad (4 elements) in the memory row `before`."""
        b = self.b
        return b.plus(b.times(b.plus(quad, before * self.quads), self.stride), unit)


class KeptDigits(RowDigits):
    """Reads a load's digits (bytes of floats) from Workgroup memory, or computes them again."""

    def __init__(self, shared: SharedDigits, row: int, unit: Index, elements: Elements):
        self.shared, self.row, self.number, self._make = shared, row, unit, elements
        self.b, self.digits = shared.b, shared.plan.schedule.digits.data
        self.depth = self.b.depth
        self._known = {}
        self.scale = self.b.load(shared.scales, (self.b.plus(unit, row * shared.stride),))

    @cached_property
    def elements(self) -> Sequence[SSAValue]:  # pyright: ignore[reportIncompatibleVariableOverride]
        with self.b.at(self.depth):
            return self._make()

    @cached_property
    def _made(self) -> RowDigits:
        with self.b.at(self.depth):
            return RowDigits(self.b, self.elements, self.digits)

    def _word(self, digit: int, slots: Slots) -> SSAValue:
        quads = _quads([-1 if slot is None else slot for slot in slots])
        if quads is None:
            return self._made.word(digit, slots)
        at = self.shared.index_of(self.row * self.digits + digit, quads[0], self.number)
        return self.b.load(self.shared.words, (at,))

    def _total(self, numbers: Sequence[int]) -> SSAValue:
        b, quads = self.b, _quads(numbers)
        if quads is None:
            return super()._total(numbers)
        kept = self.shared.sums
        if kept is None:
            ones = b.number(IN_EACH_BYTE, i32)
            return self.product([(ones, tuple(range(q * QUAD, (q + 1) * QUAD))) for q in quads])
        row, unit = self.row, self.number
        sums = [b.load(kept, (self.shared.index_of(row, quad, unit),)) for quad in quads]
        return reduce(lambda x, y: b.add(arith.AddfOp(x, y)), sums)


def _quads(numbers: Sequence[int]) -> list[int] | None:
    """Returns the quads (four elements) that these element indices fill, in order; else None."""
    quads = [number // QUAD for number in numbers[::QUAD]]
    every = [quad * QUAD + i for quad in quads for i in range(QUAD)]
    return quads if list(numbers) == every else None
