"""
Adds the products of one load of the streamed operand to an invocation's sums.

Products of small integers and floats are computed as packed dot products of integers:

    sum of q * x   ->   2^-e * sum over d of 256^d * (sum of q * digit d of round(2^e * x))

A dot product multiplies four bytes at once, while a conversion to float takes two or three
instructions for each byte. The floats of one load share the exponent e, which scales the greatest
magnitude below 2^(8 * digits - 3). The error of each float is therefore below the greatest
magnitude times 2^(3 - 8 * digits). With three digits this is at most one rounding of the greatest
magnitude to binary32. An infinite or NaN element makes the sum of its load NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from typing import TypeAlias

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, f32, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import (
    BYTE,
    IN_EACH_BYTE,
    MANTISSA,
    Affine,
    Known,
    ScalarCode,
    Whole,
)
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, Point
from xdsl_spirv.passes.kernel.elements import PACKED_4X8, multiply_add
from xdsl_spirv.passes.kernel.subgroup_reduction import exchanged
from xdsl_spirv.passes.schedule.rows import QUAD, RowsPlan

Common: TypeAlias = tuple[SSAValue | None, SSAValue | None]
"""Factor and addend that several elements share."""

NOTHING: Common = (None, None)


class RowsCode:
    """Arithmetic on the elements and sums of a kernel with few rows."""

    b: HoistingEmitter
    plan: RowsPlan
    type: Attribute
    """Type of the sums."""
    stream: ComputedOperand
    few: ComputedOperand
    count: tuple[int, int]
    """Number of rows and number of columns that an invocation computes."""

    def places_of(self, unit: Index) -> Point:
        """Returns the index of each loop of K at which a unit (the elements of one load) begins."""
        b, plan = self.b, self.plan
        indices = b.delinearized(unit, plan.steps_along)
        return {
            loop: (b.times(index, plan.unit.get(loop, 1)), 0)
            for loop, index in zip(plan.reduced, indices, strict=True)
        }

    @cached_property
    def shared_digits(self) -> SharedDigits:
        return SharedDigits(self)

    def digits(self, number: int, row: Point, places: Sequence[Point], unit: Index) -> RowDigits:
        """
        Returns a row's elements in one load as digits (see `RowDigits`), and hoists their code.
        `places` are the positions along K.
        """
        b = self.b
        depth = b.fenced(b.depth_of(*(x for point in (row, places[0]) for x, _ in point.values())))

        def elements() -> list[SSAValue]:
            known = Known()
            return [self.few.element(row | place, known) for place in places]

        def make() -> RowDigits:
            with b.at(depth):
                if self.plan.digits.are_shared:
                    return KeptDigits(self.shared_digits, number, unit, elements)
                return RowDigits(b, elements(), self.plan.schedule.digits.data)

        key = RowDigits, *sorted(row.items()), *sorted(places[0].items())
        return b.remembered(key, depth, make)

    def fuse(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
        return multiply_add(self.b, x, y, total)

    @property
    def _addition(self) -> type[arith.AddiOp | arith.AddfOp]:
        return arith.AddiOp if isinstance(self.type, IntegerType) else arith.AddfOp

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(self._addition(x, y))


class UnitSums:
    """
    Adds the products of a unit (neighbouring weights along K) to the sums of an invocation.

    Elements of a column may share a factor and an addend (scale and minimum of packed weights).
    The shared numbers are applied once, to the sum over the elements, if that takes fewer
    operations:

        sum of (q * d + m) * x = d * sum of q * x + m * sum of x
    """

    def __init__(self, kernel: RowsCode, totals: list[SSAValue]):
        self.kernel, self.totals = kernel, totals
        self.known = Known()
        self.parts: dict[tuple[int, int, Common], SSAValue] = {}
        self.beside: dict[tuple[int, int, Common], tuple[SSAValue, ...]] = {}
        rows, columns = kernel.count
        self.sums_rows = rows < columns
        """
        True if there are fewer rows than columns. Then it saves operations to add up the row
        elements whose weights share an addend.
        """

    def add(
        self, places: Sequence[Point], points: tuple[list[Point], list[Point]], unit: Index
    ) -> None:
        """
        Adds the products of one unit's elements to the partial sums of all rows and columns.

        `places` are the elements' positions along K. `points` are the positions of the rows and of
        the columns.
        """
        kernel, (rows, columns) = self.kernel, points
        for place in places:
            elements = [kernel.stream.apart(point | place, self.known) for point in columns]
            for i, row in enumerate(rows):
                x = kernel.few.element(row | place, self.known)
                for j, element in enumerate(elements):
                    self._add(i, j, x, element)
        self._finish(len(columns))

    def _add(self, i: int, j: int, x: SSAValue, element: Affine) -> None:
        kernel, common = self.kernel, (element.scale, element.addend)
        if common == NOTHING or (element.addend is not None and not self.sums_rows):
            at = i * self.kernel.count[1] + j
            factor = ScalarCode(kernel.b, self.known).whole(element)
            self.totals[at] = kernel.fuse(x, factor, self.totals[at])
            return
        key = i, j, common
        value = ScalarCode(kernel.b, self.known).value(element.value, kernel.type)
        if key in self.parts:
            self.parts[key] = kernel.fuse(x, value, self.parts[key])
        else:
            self.parts[key] = kernel.b.add(arith.MulfOp(x, value))
        self.beside[key] = (*self.beside.get(key, ()), x)

    def _finish(self, columns: int) -> None:
        kernel = self.kernel
        for (i, j, common), part in self.parts.items():
            scale, addend = common
            total = self.totals[i * columns + j]
            total = kernel.plus(total, part) if scale is None else kernel.fuse(part, scale, total)
            if addend is not None:
                total = kernel.fuse(self._beside(i, j, common), addend, total)
            self.totals[i * columns + j] = total

    def _beside(self, i: int, j: int, common: Common) -> SSAValue:
        xs = self.beside[i, j, common]
        return self.known.once(xs, lambda: reduce(self.kernel.plus, xs))


class DigitSums(UnitSums):
    """Adds the products of small integers and the rows' digits (bytes of scaled floats)."""

    def add(
        self, places: Sequence[Point], points: tuple[list[Point], list[Point]], unit: Index
    ) -> None:
        kernel, (rows, columns) = self.kernel, points
        code = ScalarCode(kernel.b, self.known)
        self.digits = [kernel.digits(n, row, places, unit) for n, row in enumerate(rows)]
        self.numbers: dict[tuple[int, Common], list[int]] = {}
        for j, column in enumerate(columns):
            elements = [kernel.stream.apart(column | place, self.known) for place in places]
            commons: dict[Common, list[tuple[int, Affine]]] = {}
            for number, element in enumerate(elements):
                commons.setdefault((element.scale, element.addend), []).append((number, element))
            for common, numbered in commons.items():
                self._add_common(code, j, common, numbered)
        self._finish(len(columns))

    def _add_common(
        self, code: ScalarCode, j: int, common: Common, numbered: list[tuple[int, Affine]]
    ) -> None:
        """
        Multiplies every row by the elements of column `j` that share the factor and addend
        `common`. `numbered` are these elements with their indices in the load.
        """
        common_words = words_of(code, numbered)
        for i, row in enumerate(self.digits):
            if common_words is None:
                for number, element in numbered:
                    self._add(i, j, row.elements[number], element)
                continue
            words, more = common_words
            numbers = self.numbers[j, common] = [number for number, _ in numbered]
            product = row.product(words)
            if more:
                factor = self.kernel.b.number(float(more), self.kernel.type)
                product = self.kernel.fuse(row.total(numbers), factor, product)
            self.parts[i, j, common] = product

    def _beside(self, i: int, j: int, common: Common) -> SSAValue:
        if (j, common) not in self.numbers:
            return super()._beside(i, j, common)
        return self.digits[i].total(self.numbers[j, common])


MIDDLE, MIDDLE_BITS = 1.5 * 2**MANTISSA, 0x4B400000
"""A float to which integers below 2^22 can be added exactly, and its bit pattern."""

WITHOUT_SIGN, INFINITE, NO_NUMBER = 0x7FFFFFFF, 0x7F800000, 0x7FC00000

GREATEST_EXPONENT = 254

LEAST_EXPONENT = 40
"""Lower bound of the greatest magnitude's exponent, so that binary32 can represent the scale."""

SIGNS = 0x80 * IN_EACH_BYTE

FULL = 0xFFFFFFFF

Slots: TypeAlias = tuple[int | None, ...]
"""For each byte of a word: the index of its element in one load, or None if the byte is unused."""


class RowDigits:
    """
    Elements of a row as integers of `digits` signed bytes with a common power-of-two scale.

    Words and sums are emitted once, in the scope of the elements.
    """

    def __init__(
        self,
        b: HoistingEmitter,
        elements: Sequence[SSAValue],
        digits: int,
        of_unit: Callable[[SSAValue], SSAValue] | None = None,
    ):
        """
        `of_unit` reduces the greatest magnitude of `elements` over all invocations that share the
        scale. `digits` is the number of bytes of an integer.
        """
        self.b, self.elements, self.digits = b, elements, digits
        greatest = reduce(self._greater, map(self._magnitude, elements))
        if of_unit is not None:
            greatest = of_unit(greatest)
        exponent = b.add(arith.ShRUIOp(greatest, b.i32(MANTISSA)))
        exponent = b.add(arith.MaxUIOp(exponent, b.i32(LEAST_EXPONENT)))
        exponent = b.add(arith.MinUIOp(exponent, b.i32(GREATEST_EXPONENT)))
        bits = BYTE * digits - 3
        up = arith.SubiOp(b.i32(GREATEST_EXPONENT + bits), exponent)
        self._factor = self._power(b.add(up))
        down = self._power(b.add(arith.SubiOp(exponent, b.i32(bits))))
        finite = b.add(arith.CmpiOp(greatest, b.i32(INFINITE), "ult"))
        nothing = b.add(arith.BitcastOp(b.i32(NO_NUMBER), f32))
        self.scale = b.select(finite, down, nothing)
        """Factor that converts the integers back to floats; NaN if an element is not finite."""
        self._integers = [self._integer(x) for x in elements]

    def _magnitude(self, x: SSAValue) -> SSAValue:
        bits = self.b.add(arith.BitcastOp(x, i32))
        return self.b.add(arith.AndIOp(bits, self.b.i32(WITHOUT_SIGN)))

    def _greater(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.add(arith.MaxUIOp(x, y))

    def _power(self, exponent: SSAValue) -> SSAValue:
        bits = self.b.add(arith.ShLIOp(exponent, self.b.i32(MANTISSA)))
        return self.b.add(arith.BitcastOp(bits, f32))

    def _integer(self, x: SSAValue) -> SSAValue:
        """
        Returns the integer of an element with 128 added to each byte, so that all bytes are
        unsigned.
        """
        b = self.b
        rounded = b.add(math.FmaOp(x, self._factor, b.number(MIDDLE, f32)))
        added = sum(0x80 << BYTE * digit for digit in range(self.digits))
        number = b.add(arith.BitcastOp(rounded, i32))
        return b.add(arith.AddiOp(number, b.number(added - MIDDLE_BITS, i32)))

    def word(self, digit: int, slots: Slots) -> SSAValue:
        """Returns a word with byte `digit` of each of four integers; 0 for an unused byte."""
        b, turned = self.b, SIGNS
        word: SSAValue | None = None
        for slot, number in enumerate(slots):
            if number is None:
                turned &= ~(0x80 << BYTE * slot)
                continue
            moved = self._shift(self._integers[number], BYTE * (slot - digit))
            byte = self._mask(moved, 0xFF << BYTE * slot)
            word = byte if word is None else b.pure(arith.OrIOp, word, byte)
        assert word is not None
        return b.pure(arith.XOrIOp, word, b.number(turned, i32))

    def _mask(self, x: SSAValue, mask: int) -> SSAValue:
        return self.b.pure(arith.AndIOp, x, self.b.number(mask & FULL, i32))

    def _shift(self, x: SSAValue, left: int) -> SSAValue:
        if left == 0:
            return x
        kind = arith.ShLIOp if left > 0 else arith.ShRUIOp
        return self.b.pure(kind, x, self.b.i32(abs(left)))

    def total(self, numbers: Sequence[int]) -> SSAValue:
        """Returns the float sum of the elements with these indices."""
        terms = [self.elements[number] for number in numbers]
        return reduce(partial(self.b.pure, arith.AddfOp), terms)

    def product(self, words: Sequence[tuple[SSAValue, Slots]]) -> SSAValue:
        """Returns the sum of the products of elements and the signed bytes in `words`."""
        b = self.b
        result: SSAValue | None = None
        for digit in reversed(range(self.digits)):
            dots = b.i32(MIDDLE_BITS)
            for word, slots in words:
                dot = b.add(spv.SDotOp(self.word(digit, slots), word, i32, PACKED_4X8))
                dots = b.add(arith.AddiOp(dots, dot))
            number = b.add(arith.BitcastOp(dots, f32))
            number = b.add(arith.AddfOp(number, b.number(-MIDDLE, f32)))
            base = b.number(float(1 << BYTE), f32)
            result = number if result is None else b.add(math.FmaOp(result, base, number))
        assert result is not None
        return b.add(arith.MulfOp(result, self.scale))


def words_of(
    code: ScalarCode, elements: Sequence[tuple[int, Affine]]
) -> tuple[list[tuple[SSAValue, Slots]], int] | None:
    """
    Packs a column's elements as words of four signed bytes, with the element index of each byte.

    Also returns the offset that was subtracted from each element: 0 or 128. Returns None if an
    element is not a byte of a word.
    """
    slots: dict[SSAValue, list[int | None]] = {}
    unsigned: set[bool] = set()
    for number, element in elements:
        whole = element.value
        if not isinstance(whole, Whole):
            return None
        bits = whole.bits
        if bits.up or bits.low % BYTE + bits.count > BYTE:
            return None
        unsigned.add(bits.count == BYTE and not whole.signed)
        own = slots.setdefault(code.in_cells(bits), [None] * 4)
        if own[bits.low // BYTE] is not None:
            return None
        own[bits.low // BYTE] = number
    if len(unsigned) != 1:
        return None
    if not unsigned.pop():
        return [(word, tuple(own)) for word, own in slots.items()], 0
    signs = code.b.number(SIGNS, i32)
    words = [(code.b.add(arith.XOrIOp(word, signs)), tuple(own)) for word, own in slots.items()]
    return words, 0x80


Elements = Callable[[], Sequence[SSAValue]]


class SharedDigits:
    """
    Stores the digits (bytes of scaled floats) of a workgroup's rows in Workgroup memory.

    Several subgroups multiply the same row elements by different columns. Each invocation computes
    the digits of a few quads (four elements) and, after a barrier, reads the digits of its units
    (loads along K).

        words[row][digit][quad of the unit][unit]
        sums[row][quad of the unit][unit], scales[row][unit]
    """

    def __init__(self, kernel: RowsCode):
        self.kernel, self.b, self.plan = kernel, kernel.b, kernel.plan
        b, plan = kernel.b, kernel.plan
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
        """
        Returns (load, quad, existence condition) for each quad of four elements that the invocation
        converts.
        """
        b, plan = self.b, self.plan
        units = plan.units
        assert isinstance(units, int)
        count = units * self.quads
        invocation = b.thread_id(plan.invocations)
        shares: list[tuple[Index, Index, Condition]] = []
        for first in range(0, count, plan.invocations):
            number = b.plus(invocation, first)
            exists = b.below(number, count)
            number = b.index_inside(exists, number)
            shares.append((b.divided(number, self.quads), b.remainder(number, self.quads), exists))
        return shares

    @cached_property
    def own(self) -> list[tuple[Sequence[Point], Condition]]:
        """
        For each quad that the invocation converts: the positions of its four elements, and True if
        they exist.
        """
        return [
            (self._elements(self._place(unit, quad)), exists) for unit, quad, exists in self._shares
        ]

    def _place(self, unit: Index, quad: Index) -> Point:
        b, plan = self.b, self.plan
        counts = [plan.unit.get(loop, 1) for loop in plan.reduced]
        inside = b.delinearized(quad, [*counts[:-1], counts[-1] // QUAD])
        place = self.kernel.places_of(unit)
        for loop, index in zip(plan.reduced, inside, strict=True):
            step = QUAD if loop == plan.reduced[-1] else 1
            place[loop] = b.plus(place[loop][0], b.times(index, step)), 0
        return place

    def _elements(self, place: Point) -> list[Point]:
        last = self.plan.reduced[-1]
        return [place | {last: (place[last][0], i)} for i in range(QUAD)]

    def write(self, rows: Sequence[Point]) -> None:
        """Computes and stores the 8-bit digits of the invocation's groups of four elements."""
        for (unit, quad, exists), (places, _) in zip(self._shares, self.own, strict=True):
            for number, row in enumerate(rows):
                known = Known()
                elements = [self.kernel.few.element(row | place, known) for place in places]
                quad_digits = RowDigits(
                    self.b, elements, self.plan.schedule.digits.data, self._greatest_of_unit
                )
                self.b.when(
                    exists,
                    lambda n=number, m=quad_digits, u=unit, q=quad: self._store_quad(n, u, q, m),
                )

    def _greatest_of_unit(self, greatest: SSAValue) -> SSAValue:
        """Returns the maximum over the invocations that convert the elements of one load."""
        b = self.b
        return exchanged(b, greatest, 1, self.quads, lambda x, y: b.add(arith.MaxUIOp(x, y)))

    def _store_quad(self, row: int, unit: Index, quad: Index, quad_digits: RowDigits) -> None:
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
    """
    Reads the digits (bytes of scaled floats) of one load from Workgroup memory. If a word mixes
    elements of several quads, computes its digits again.
    """

    def __init__(self, shared: SharedDigits, row: int, unit: Index, elements: Elements):
        self.shared, self.row, self.number, self._make = shared, row, unit, elements
        self.b, self.digits = shared.b, shared.plan.schedule.digits.data
        self.depth = self.b.depth
        self.scale = self.b.load(shared.scales, (self.b.plus(unit, row * shared.stride),))

    @cached_property
    def elements(self) -> Sequence[SSAValue]:  # pyright: ignore[reportIncompatibleVariableOverride]
        with self.b.at(self.depth):
            return self._make()

    @cached_property
    def _made(self) -> RowDigits:
        with self.b.at(self.depth):
            return RowDigits(self.b, self.elements, self.digits)

    def word(self, digit: int, slots: Slots) -> SSAValue:
        quads = _quads([-1 if slot is None else slot for slot in slots])
        if quads is None:
            return self._made.word(digit, slots)
        before = self.row * self.digits + digit
        return self._once((digit, slots), lambda: self._load(self.shared.words, before, quads[0]))

    def total(self, numbers: Sequence[int]) -> SSAValue:
        quads = _quads(numbers)
        if quads is None:
            return super().total(numbers)
        return self._once(tuple(numbers), lambda: self._total_of(quads))

    def _total_of(self, quads: Sequence[int]) -> SSAValue:
        b, kept = self.b, self.shared.sums
        if kept is None:
            ones = b.number(IN_EACH_BYTE, i32)
            return self.product([(ones, tuple(range(q * QUAD, (q + 1) * QUAD))) for q in quads])
        sums = [self._load(kept, self.row, quad) for quad in quads]
        return reduce(lambda x, y: b.add(arith.AddfOp(x, y)), sums)

    def _load(self, memory: SSAValue, before: int, quad: int) -> SSAValue:
        return self.b.load(memory, (self.shared.index_of(before, quad, self.number),))

    def _once(self, key: object, load: Callable[[], SSAValue]) -> SSAValue:
        """Loads a value once, where the object is created: after the barrier."""

        def make() -> SSAValue:
            with self.b.at(self.depth):
                return load()

        return self.b.remembered((self, key), self.depth, make)


def _quads(numbers: Sequence[int]) -> list[int] | None:
    """
    Returns the quads (four consecutive elements) that consist of the elements with these indices,
    in order. Returns None if they fill no whole quads.
    """
    quads = [number // QUAD for number in numbers[::QUAD]]
    every = [quad * QUAD + i for quad in quads for i in range(QUAD)]
    return quads if list(numbers) == every else None
