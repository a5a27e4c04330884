"""
Computes the elements of a unit of packed numbers, by the dequantizing operation's body.

Bytes remain bit fields of words. Factors and addends that adjacent elements share are applied
separately (see `bit_fields`). Four adjacent elements that binary16 can represent exactly are
computed in pairs of binary16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import FloatAttr, VectorType, f16, f32, i8, i32
from xdsl.ir import SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Plane, Unpacking
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.bit_fields import (
    BYTE,
    PAIR,
    Affine,
    Known,
    Scalar,
    ScalarCode,
    Whole,
    fields_of,
)
from xdsl_spirv.passes.kernel.elements import components_of

SIGNS = 0x80808080
"""Sign bit of each byte of a word."""

IN_EACH_HALF = 0x00010001

BIAS, BIASED = 1024, 0x64006400
"""The binary16 number 1024, whose last bit has the value 1, and a word of two such numbers."""


class ElementCode(ABC):
    """Code of the elements of a unit: `size` neighbouring weights along K."""

    size: int

    @abstractmethod
    def four(self, number: int) -> SSAValue:
        """Returns the elements 4 * `number` to 4 * `number` + 3."""

    def elements(self) -> list[SSAValue]:
        """Returns all elements in order, as vectors of four."""
        return [self.four(number) for number in range(self.size // VECTOR)]


class UnitCode(ElementCode):
    """
    Computes the elements of unit `unit` (neighbouring weights) along K, from loaded `planes`.

    A plane of bytes is loaded as words if a unit has whole words, else as single bytes.
    """

    def __init__(
        self,
        builder: KernelEmitter,
        unpacking: Unpacking,
        planes: Sequence[Sequence[SSAValue]],
        unit: Index,
    ):
        self.builder, self.unpacking, self.unit = builder, unpacking, unit
        self.size = unpacking.size
        known: Known = {}
        self.code = ScalarCode(builder, known, keeps=True)
        self.planes = [
            self._scalars(plane, loaded)
            for plane, loaded in zip(unpacking.planes, planes, strict=True)
        ]
        (self.result,) = yields_of(unpacking.op.body.block)
        owner = self.result.owner
        self.wide = owner.input if isinstance(owner, arith.TruncFOp) else self.result
        """The result of the unpacking body before it is narrowed to its type."""

    def _scalars(self, plane: Plane, loaded: Sequence[SSAValue]) -> Sequence[Scalar]:
        """Splits a plane into scalars. Marks the plane as shared if it lacks the innermost loop."""
        if len(self.unpacking.sizes) - 1 not in plane.loops:
            self.code.shared.update(loaded)
        if plane.element_type != i8 or loaded[0].type != i32:
            return loaded
        return [bits for word in loaded for bits in fields_of(word, BYTE)]

    def four(self, number: int) -> SSAValue:
        """Returns the elements 4 * `number` to 4 * `number` + 3 as a vector."""
        b, first = self.builder, number * VECTOR
        scalars = [self._element(first + i) for i in range(VECTOR)]
        four = self._halves(scalars) if self.result.type == f16 else None
        if four is None:
            values = [self.code.value(scalar, self.wide.type) for scalar in scalars]
            four = b.add(spv.CompositeConstructOp(values, VectorType(self.wide.type, [VECTOR])))
        to = VectorType(self.result.type, [VECTOR])
        return four if four.type == to else b.add(arith.TruncFOp(four, to))

    def _element(self, number: int) -> Scalar:
        at: list[int] = []
        for size in reversed(self.unpacking.sizes):
            number, place = divmod(number, size)
            at.insert(0, place)
        inputs = [
            scalars[self._place(plane, at)]
            for plane, scalars in zip(self.unpacking.planes, self.planes, strict=True)
        ]
        return self.code.body(self.unpacking.op, inputs, partial(self._counter, at), self.wide)

    def _place(self, plane: Plane, at: Sequence[int]) -> int:
        place = 0
        for loop in plane.loops:
            place = place * self.unpacking.sizes[loop] + at[loop]
        return place

    def _counter(self, at: Sequence[int], loop: int) -> Index:
        b, unpacking = self.builder, self.unpacking
        if loop in unpacking.counters:
            return at[unpacking.counters[loop]]
        number, outer = unpacking.around[loop], unpacking.outer
        index = self.unit
        for size in outer[:number:-1]:
            index = b.divided(index, size)
        return index if number == 0 else b.remainder(index, outer[number])

    # Numbers of binary16

    def _halves(self, scalars: Sequence[Scalar]) -> SSAValue | None:
        """
        Computes four elements in binary16; None if binary16 cannot represent their integers.

        Pairs are elements 0 and 2, and elements 1 and 3. Factor and addend are applied in binary16
        if it represents them exactly; products are exact in binary32, so a single rounding
        remains. Otherwise the numbers are widened to binary32 first.
        """
        b = self.builder
        elements = [x if isinstance(x, Affine) else Affine(x) for x in scalars]  # pyright: ignore[reportArgumentType]
        common = {(x.scale, x.addend) for x in elements}
        if len(common) > 1:
            return None
        scale, addend = common.pop()
        offset = _offset(scale, addend)
        pairs = self._numbers([x.value for x in elements], offset)
        if pairs is None:
            return None
        given = [x for x in (scale, None if offset else addend) if x is not None]
        halves = [_half_of(x) for x in given]
        exact = [half for half in halves if half is not None]
        if len(exact) == len(given):
            pairs = [self._affine(x, exact, scale is not None) for x in pairs]
        (first, third), (second, fourth) = (components_of(b, pair) for pair in pairs)
        parts = [first, second, third, fourth]
        four = b.add(spv.CompositeConstructOp(parts, VectorType(f16, [VECTOR])))
        if len(exact) == len(given):
            return four
        wide = b.add(arith.ExtFOp(four, VectorType(f32, [VECTOR])))
        return self._affine(wide, given, scale is not None)

    def _affine(self, x: SSAValue, factors: Sequence[SSAValue], is_scaled: bool) -> SSAValue:
        """Multiplies a vector by the first factor if `is_scaled`, then adds the last one."""
        b, type = self.builder, x.type
        others = [self.code.once(vector.BroadcastOp, factor, type) for factor in factors]
        match others:
            case [scale, addend]:
                return b.add(math.FmaOp(x, scale, addend))
            case [factor]:
                return b.add((arith.MulfOp if is_scaled else arith.AddfOp)(x, factor))
            case _:
                return x

    def _numbers(self, values: Sequence[SSAValue | Whole], more: int) -> list[SSAValue] | None:
        """
        Converts four integers plus `more` to two pairs of binary16; None if impossible.

        A byte combined with the exponent of 1024 is 1024 too large. A field that starts at bit
        `low` of its byte is 2^low times too large. A single multiply-add corrects both.
        """
        b = self.builder
        if not all(isinstance(value, Whole) for value in values):
            halves = [_half_of(value) for value in values if isinstance(value, SSAValue)]
            parts = [half for half in halves if half is not None]
            if len(parts) < VECTOR or more:
                return None
            return [b.add(spv.CompositeConstructOp(parts[i::2], PAIR)) for i in range(2)]
        wholes = [value for value in values if isinstance(value, Whole)]
        (bits, *others), signed = [whole.bits for whole in wholes], wholes[0].signed
        apart = [(other.word, other.low - bits.low) for other in others]
        if apart != [(bits.word, BYTE * i) for i in range(1, VECTOR)] or bits.count > BYTE:
            return None
        word, offset = bits.word, more - (1 << BYTE - 1 if signed else 0)
        if signed:
            word = b.pure(arith.XOrIOp, word, b.number(SIGNS, i32))
        mask = b.number(((1 << bits.count) - 1 << bits.low) * IN_EACH_HALF, i32)
        pairs: list[SSAValue] = []
        for source in (word, b.pure(arith.ShRUIOp, word, b.i32(BYTE))):
            bytes = b.add(arith.AndIOp(source, mask))
            biased = b.add(spv.BitcastOp(b.add(arith.OrIOp(bytes, b.number(BIASED, i32))), PAIR))
            least = b.number(float(offset - (BIAS >> bits.low)), PAIR)
            if bits.low:
                biased = b.add(math.FmaOp(biased, b.number(2.0**-bits.low, PAIR), least))
            else:
                biased = b.add(arith.AddfOp(biased, least))
            pairs.append(biased)
        return pairs


def _half_of(number: SSAValue) -> SSAValue | None:
    op = number.owner
    return op.input if isinstance(op, arith.ExtFOp) and op.input.type == f16 else None


def _offset(scale: SSAValue | None, addend: SSAValue | None) -> int:
    """Returns the integer that is added to the numbers before scaling; 0 if there is none."""
    if addend is not None and scale is not None and isinstance(addend.owner, arith.MulfOp):
        product = addend.owner
        addend = product.lhs if product.rhs is scale else None
    elif scale is not None:
        return 0
    constant = None if addend is None else addend.owner
    if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, FloatAttr):
        return 0
    number = constant.value.value.data
    return int(number) if number == int(number) and abs(number) < BIAS else 0
