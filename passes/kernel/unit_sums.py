"""Adds the products of one load of the streamed operand to an invocation's sums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Protocol, TypeAlias

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import Affine, Known, ScalarCode
from xdsl_spirv.passes.kernel.computed_elements import ComputedOperand, Point
from xdsl_spirv.passes.kernel.integer_products import RowDigits, words_of

Common: TypeAlias = tuple[SSAValue | None, SSAValue | None]
"""Factor and addend that several elements share."""

NOTHING: Common = (None, None)


class Kernel(Protocol):
    """The kernel to which the code of the sums belongs."""

    b: HoistingEmitter
    type: Attribute
    """Type of the sums."""
    stream: ComputedOperand
    few: ComputedOperand
    count: tuple[int, int]
    """Number of rows and columns of an invocation."""

    def fused(self, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue: ...

    def plus(self, x: SSAValue, y: SSAValue) -> SSAValue: ...

    def digits(
        self, number: int, row: Point, places: Sequence[Point], unit: Index
    ) -> RowDigits: ...


class UnitSums:
    """
    Adds the products of a unit (neighbouring weights along K) to the sums of an invocation.

    Elements of a column may share a factor and an addend (scale and minimum of packed weights).
    The shared numbers are applied once, to the sum over the elements, if that takes fewer
    operations:

        sum of (q * d + m) * x = d * sum of q * x + m * sum of x
    """

    def __init__(self, kernel: Kernel, totals: list[SSAValue]):
        self.kernel, self.totals = kernel, totals
        self.known: Known = {}
        self.parts: dict[tuple[int, int, Common], SSAValue] = {}
        self.beside: dict[tuple[int, int, Common], tuple[SSAValue, ...]] = {}
        rows, columns = kernel.count
        self.sums_rows = rows < columns
        """
        True if there are fewer rows than columns, so that summing row elements saves operations.
        """

    def add(
        self, places: Sequence[Point], points: tuple[list[Point], list[Point]], unit: Index
    ) -> None:
        """Adds the products of elements at `places` (of one unit) to the partial sums."""
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
            self.totals[at] = kernel.fused(x, factor, self.totals[at])
            return
        key = i, j, common
        value = ScalarCode(kernel.b, self.known).value(element.value, kernel.type)
        if key in self.parts:
            self.parts[key] = kernel.fused(x, value, self.parts[key])
        else:
            self.parts[key] = kernel.b.add(arith.MulfOp(x, value))
        self.beside[key] = (*self.beside.get(key, ()), x)

    def _finish(self, columns: int) -> None:
        kernel = self.kernel
        for (i, j, common), part in self.parts.items():
            scale, addend = common
            total = self.totals[i * columns + j]
            total = kernel.plus(total, part) if scale is None else kernel.fused(part, scale, total)
            if addend is not None:
                total = kernel.fused(self._beside(i, j, common), addend, total)
            self.totals[i * columns + j] = total

    def _beside(self, i: int, j: int, common: Common) -> SSAValue:
        xs = self.beside[i, j, common]
        if xs not in self.known:
            self.known[xs] = reduce(self.kernel.plus, xs)
        return self.known[xs]


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
        """Multiplies every row by the elements of column `j` that share a factor and an addend."""
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
                product = self.kernel.fused(row.total(numbers), factor, product)
            self.parts[i, j, common] = product

    def _beside(self, i: int, j: int, common: Common) -> SSAValue:
        if (j, common) not in self.numbers:
            return super()._beside(i, j, common)
        return self.digits[i].total(self.numbers[j, common])
