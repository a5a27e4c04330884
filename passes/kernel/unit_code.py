"""
The elements of a unit of packed numbers: a body run on four neighbours at a time.

A value of the body that depends on no plane along the innermost loop is a scalar, computed once for
all vectors that share it, and at compile time if it counts iterations of the unit. Bytes stay in
words of four for shifts and masks, and become vectors where they are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects import arith, linalg, math, vector
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    VectorType,
    f16,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Unpacking
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.bit_fields import PAIR
from xdsl_spirv.passes.kernel.elements import components_of, constant_of

FOUR_BYTES = VectorType(i8, [VECTOR])

ALL_BITS = 0xFF

BYTE_BITS, HALF_BITS = 8, 16

IN_EACH_BYTE = 0x01010101

INDEX_BITS = 64

SIGNS = 0x80808080
"""The first bit of each byte of a word."""

IN_EACH_HALF = 0x00010001

BIAS, BIASED = 1024, 0x64006400
"""A number of binary16 whose last bit is 1, and two of them in a word."""


@dataclass(frozen=True)
class Bytes:
    """Four bytes in a word, the first element's lowest; none is greater than `most`."""

    word: SSAValue
    most: int = ALL_BITS


Value: TypeAlias = "int | SSAValue | Bytes"
"""A number that the compiler knows, without sign; a scalar or vector; bytes in a word."""

ON_NUMBERS: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y,
    arith.AndIOp: lambda x, y: x & y,
    arith.OrIOp: lambda x, y: x | y,
    arith.XOrIOp: lambda x, y: x ^ y,
    arith.ShLIOp: lambda x, y: x << y,
    arith.ShRUIOp: lambda x, y: x >> y,
}

CONVERSIONS: dict[type[Operation], type[Operation]] = {
    arith.UIToFPOp: spv.ConvertUToFOp,
    arith.SIToFPOp: spv.ConvertSToFOp,
    arith.ExtUIOp: spv.UConvertOp,
    arith.ExtSIOp: spv.SConvertOp,
}


def _width(type: Attribute) -> int:
    return type.width.data if isinstance(type, IntegerType) else INDEX_BITS


class UnitCode:
    """
    The code of one unit: the `unit`-th along K, of which `planes` are what was loaded.

    The values of a plane of bytes are words if a unit has whole words, else single numbers.
    """

    def __init__(
        self,
        builder: KernelEmitter,
        unpacking: Unpacking,
        planes: Sequence[Sequence[SSAValue]],
        unit: Index,
    ):
        self.builder, self.unpacking, self.planes = builder, unpacking, planes
        self.block = unpacking.op.body.block
        self.in_halves = self.block.args[-1].type == f16
        """Whether the elements are numbers of binary16, and the target so computes in it."""
        self.unit = unit
        self._loops: dict[SSAValue, frozenset[int]] = {}
        self._values: dict[tuple[SSAValue, tuple[int, ...]], Value] = {}
        self._spread: dict[tuple[SSAValue, Attribute], SSAValue] = {}

    def elements(self) -> list[SSAValue]:
        """Returns all elements in order, in vectors of four."""
        return [self.four(number) for number in range(self.unpacking.size // VECTOR)]

    def four(self, number: int) -> SSAValue:
        """Returns the elements 4 * `number` to 4 * `number` + 3."""
        last = self.block.last_op
        assert last is not None
        result = last.operands[0]
        at: list[int] = []
        rest = number * VECTOR
        for size in reversed(self.unpacking.sizes):
            rest, place = divmod(rest, size)
            at.insert(0, place)
        return self._as_vector(self._value(result, (*at,)), result.type)

    def loops_of(self, value: SSAValue) -> frozenset[int]:
        """The loops of the unit on which a value of the body depends."""
        if value not in self._loops:
            self._loops[value] = self._found_loops(value)
        return self._loops[value]

    def _found_loops(self, value: SSAValue) -> frozenset[int]:
        if isinstance(value, BlockArgument):
            is_plane = value.owner is self.block
            return frozenset(self.unpacking.planes[value.index].loops if is_plane else ())
        op = value.owner
        assert isinstance(op, Operation)
        if isinstance(op, linalg.ops.IndexOp):
            counter = self.unpacking.counters.get(op.dim.value.data)
            return frozenset(() if counter is None else (counter,))
        return frozenset[int]().union(*map(self.loops_of, op.operands))

    def _value(self, value: SSAValue, at: tuple[int, ...]) -> Value:
        """A value of the body at one iteration, or a vector of four from there on."""
        key = value, tuple(at[loop] for loop in sorted(self.loops_of(value)))
        if key not in self._values:
            self._values[key] = self._computed(value, at)
        return self._values[key]

    def _computed(self, value: SSAValue, at: tuple[int, ...]) -> Value:
        if isinstance(value, BlockArgument):
            return self._read(value.index, at)
        op = value.owner
        assert isinstance(op, Operation)
        match op:
            case arith.ConstantOp(value=IntegerAttr(value=number)):
                return number.data & ((1 << _width(value.type)) - 1)
            case arith.ConstantOp():
                return constant_of(self.builder, value)
            case linalg.ops.IndexOp():
                return self._counter(op.dim.value.data, at)
            case arith.BitcastOp() if (halves := self._halves_of_bytes(op, at)) is not None:
                return halves
            case arith.TruncFOp() if (narrowed := self._narrowed(op, at)) is not None:
                return narrowed
            case _:
                return self._operation(op, [self._value(operand, at) for operand in op.operands])

    def _read(self, number: int, at: tuple[int, ...]) -> Value:
        """The value of a plane for an iteration."""
        b, plane, parts = self.builder, self.unpacking.planes[number], self.planes[number]
        place = 0
        for loop in plane.loops:
            place = place * self.unpacking.sizes[loop] + at[loop]
        in_words = plane.element_type == i8 and parts[0].type == i32
        if len(self.unpacking.sizes) - 1 not in plane.loops:
            if not in_words:
                return parts[place]
            four = b.add(spv.BitcastOp(parts[place // VECTOR], FOUR_BYTES))
            return b.add(vector.ExtractOp(four, [place % VECTOR], i8))
        if in_words:
            return Bytes(parts[place // VECTOR])
        type = VectorType(plane.element_type, [VECTOR])
        return b.add(spv.CompositeConstructOp(parts[place : place + VECTOR], type))

    def _counter(self, loop: int, at: tuple[int, ...]) -> Value:
        """The iteration of a loop of K."""
        b, unpacking = self.builder, self.unpacking
        if loop in unpacking.counters:
            return at[unpacking.counters[loop]]
        number, outer = unpacking.around[loop], unpacking.outer
        index = self.unit
        for size in outer[:number:-1]:
            index = b.divided(index, size)
        counter = index if number == 0 else b.remainder(index, outer[number])
        return counter if isinstance(counter, int) else b.index(counter)

    # Operations

    def _operation(self, op: Operation, operands: Sequence[Value]) -> Value:
        (result,) = op.results
        if all(isinstance(x, int) for x in operands):
            known = self._known(op, [x for x in operands if isinstance(x, int)])
            if known is not None:
                return known
        if any(isinstance(x, Bytes) for x in operands):
            kind = CONVERSIONS.get(type(op))
            if kind is None:
                return self._on_bytes(op, operands)
            if self.in_halves and result.type == f32 and isinstance(operands[0], Bytes):
                return self._widened(operands[0], isinstance(op, arith.SIToFPOp))
            operands = [self._four(x) for x in operands]
        if not any(isinstance(x, SSAValue) and isinstance(x.type, VectorType) for x in operands):
            scalars = map(self._scalar, operands, (x.type for x in op.operands))
            copy = op.clone(dict(zip(op.operands, scalars, strict=True)), clone_name_hints=False)
            return self.builder.add(copy)
        kind = CONVERSIONS.get(type(op), type(op))
        vectors = map(self._as_vector, operands, (x.type for x in op.operands))
        properties = op.properties if kind is type(op) else {}
        types = [VectorType(result.type, [VECTOR])]
        return self.builder.add(
            kind.create(operands=list(vectors), result_types=types, properties=properties)
        )

    def _known(self, op: Operation, numbers: Sequence[int]) -> int | None:
        """The result of an operation on known integers."""
        (result,) = op.results
        if not isinstance(result.type, IntegerType | IndexType):
            return None
        if isinstance(op, arith.IndexCastOp | arith.TruncIOp | arith.ExtUIOp):
            number = numbers[0]
        elif type(op) in ON_NUMBERS:
            number = ON_NUMBERS[type(op)](*numbers)
        else:
            return None
        return number & ((1 << _width(result.type)) - 1)

    def _on_bytes(self, op: Operation, operands: Sequence[Value]) -> Bytes:
        """Shifts and masks of four bytes as shifts and masks of a word."""
        x, y = operands
        if isinstance(op, arith.ShRUIOp | arith.ShLIOp):
            assert isinstance(x, Bytes)
            assert not isinstance(y, Bytes)
            return self._shifted(x, y, isinstance(op, arith.ShLIOp))
        first, second = (x, y) if isinstance(x, Bytes) else (y, x)
        assert isinstance(first, Bytes)
        if isinstance(op, arith.AndIOp) and isinstance(second, int):
            return self._masked(first, second)
        other = second if isinstance(second, Bytes) else self._in_each_byte(second)
        word = self.builder.add(type(op)(first.word, other.word))  # pyright: ignore
        most = max(first.most, other.most)
        return Bytes(word, (1 << most.bit_length()) - 1)

    def _shifted(self, x: Bytes, places: int | SSAValue, left: bool) -> Bytes:
        """Shifts each byte by itself; masks the bits that leave one byte and enter another."""
        b = self.builder
        if isinstance(places, int):
            if places == 0:
                return x
            if left:
                within = ALL_BITS >> places
                x = x if x.most <= within else self._masked(x, within)
                return Bytes(b.add(arith.ShLIOp(x.word, b.i32(places))), x.most << places)
            word = b.add(arith.ShRUIOp(x.word, b.i32(places)))
            return self._masked(Bytes(word, ALL_BITS), x.most >> places)
        amount = b.add(arith.ExtUIOp(places, i32))
        within = b.add(arith.ShRUIOp(b.i32(ALL_BITS), amount))
        mask = b.add(arith.MuliOp(within, b.i32(IN_EACH_BYTE)))
        if left:
            return Bytes(b.add(arith.ShLIOp(b.add(arith.AndIOp(x.word, mask)), amount)))
        return Bytes(b.add(arith.AndIOp(b.add(arith.ShRUIOp(x.word, amount)), mask)))

    def _masked(self, x: Bytes, mask: int) -> Bytes:
        b = self.builder
        if mask == ALL_BITS:
            return x
        # Two masks on the same bytes become one.
        word, inner = x.word, x.word.owner
        if isinstance(inner, arith.AndIOp) and (known := self._mask_of(inner)) is not None:
            mask, word = mask & known, inner.lhs
        return Bytes(b.add(arith.AndIOp(word, b.number(mask * IN_EACH_BYTE, i32))), mask)

    def _mask_of(self, op: arith.AndIOp) -> int | None:
        """Returns the byte mask that a constant repeats in each byte; None for other constants."""
        constant = op.rhs.owner
        if not isinstance(constant, arith.ConstantOp) or not isinstance(
            constant.value, IntegerAttr
        ):
            return None
        number = constant.value.value.data & 0xFFFFFFFF
        return number & ALL_BITS if number == (number & ALL_BITS) * IN_EACH_BYTE else None

    def _in_each_byte(self, x: int | SSAValue) -> Bytes:
        b = self.builder
        if isinstance(x, int):
            return Bytes(b.number(x * IN_EACH_BYTE, i32), x)
        return Bytes(b.add(arith.MuliOp(b.add(arith.ExtUIOp(x, i32)), b.i32(IN_EACH_BYTE))))

    # Half the width

    def _narrowed(self, op: arith.TruncFOp, at: tuple[int, ...]) -> SSAValue | None:
        """
        Computes a product of binary16 numbers, or its sum with one, directly in binary16.

        The product in binary32 is exact, so a product is the same number; a sum is rounded once
        instead of twice.
        """
        inner = op.operands[0].owner
        if op.result.type != f16:
            return None
        if isinstance(inner, arith.MulfOp):
            return self._in_pairs(arith.MulfOp, inner.operands, at)
        if not isinstance(inner, arith.AddfOp):
            return None
        for first, addend in (inner.operands, inner.operands[::-1]):
            if isinstance(first.owner, arith.MulfOp):
                return self._in_pairs(math.FmaOp, (*first.owner.operands, addend), at)
        return None

    def _in_pairs(
        self, kind: Callable[..., Operation], values: Sequence[SSAValue], at: tuple[int, ...]
    ) -> SSAValue | None:
        """Computes an operation in binary16, two elements at a time; None if that is not exact."""
        if any(self._half_kind(value) is None for value in values):
            return None
        pairs = zip(*(self._pairs(value, at) for value in values), strict=True)
        return self._four_of([self.builder.add(kind(*pair)) for pair in pairs])

    def _half_kind(self, value: SSAValue) -> str | None:
        """Says why binary16 has a value: `half` for an f16, `integer` for a small integer."""
        op = value.owner
        match op:
            case arith.ExtFOp() if op.input.type == f16:
                return "half"
            case arith.UIToFPOp() | arith.SIToFPOp() if op.input.type == i8:
                return "integer"
            case arith.SubfOp() if self._small(op.rhs) is not None:
                return "integer" if self._half_kind(op.lhs) == "integer" else None
            case _:
                return None

    def _small(self, value: SSAValue) -> int | None:
        """Returns the value of a constant integer whose magnitude fits a byte, else None."""
        owner = value.owner
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, FloatAttr):
            return None
        number = owner.value.value.data
        return int(number) if number == int(number) and abs(number) <= ALL_BITS else None

    def _pairs(self, value: SSAValue, at: tuple[int, ...]) -> list[SSAValue]:
        """Returns four binary16 numbers as two pairs: first and third, second and fourth."""
        b, op = self.builder, value.owner
        if isinstance(op, arith.ExtFOp):
            source = self._value(op.input, at)
            if isinstance(source, SSAValue) and not isinstance(source.type, VectorType):
                return [self._spread_to(source, PAIR)] * 2
            return self._pairs_of(self._as_vector(source, f16))
        offset = 0
        while isinstance(op, arith.SubfOp):
            offset += self._small(op.rhs) or 0
            op = op.lhs.owner
        assert isinstance(op, arith.UIToFPOp | arith.SIToFPOp)
        integers = self._value(op.input, at)
        if isinstance(integers, Bytes):
            return self._pairs_of_bytes(integers, isinstance(op, arith.SIToFPOp), offset)
        single = self._as_vector(self._operation(op, [integers]), f32)
        rest = b.add(arith.SubfOp(single, b.number(float(offset), single.type)))
        return self._pairs_of(b.add(arith.TruncFOp(rest, VectorType(f16, [VECTOR]))))

    def _pairs_of_bytes(self, x: Bytes, signed: bool, offset: int) -> list[SSAValue]:
        """
        Bytes as numbers of binary16, less an offset.

        A byte below the exponent of 1024 is a number that is 1024 too large. Bits that a shift has
        brought to the bottom of their byte may as well stay where they were, of so many times the
        value: the number that they are beside 1024 is then brought down by one multiply-add.
        """
        b = self.builder
        word, mask, places = self._where_they_lie(x)
        if signed:
            word = b.pure(arith.XOrIOp, x.word, b.number(SIGNS, i32))
            mask, places = ALL_BITS, 0
            offset += 1 << 7
        pairs: list[SSAValue] = []
        for source in (word, b.pure(arith.ShRUIOp, word, b.i32(8))):
            bytes = b.add(arith.AndIOp(source, b.number(mask * IN_EACH_HALF, i32)))
            biased = b.add(spv.BitcastOp(b.add(arith.OrIOp(bytes, b.number(BIASED, i32))), PAIR))
            least = b.number(float((BIAS >> places) + offset), PAIR)
            if places:
                scale, least = b.number(2.0**-places, PAIR), b.add(arith.NegfOp(least))
                pairs.append(b.add(math.FmaOp(biased, scale, least)))
            else:
                pairs.append(b.add(arith.SubfOp(biased, least)))
        return pairs

    def _halves_of_bytes(self, op: arith.BitcastOp, at: tuple[int, ...]) -> SSAValue | None:
        """Builds binary16 numbers from their high bytes, two in each word."""
        shift = op.input.owner
        if op.result.type != f16 or not isinstance(shift, arith.ShLIOp):
            return None
        distance, widening = self._value(shift.rhs, at), shift.lhs.owner
        if distance != HALF_BITS - BYTE_BITS or not isinstance(widening, arith.ExtUIOp):
            return None
        x, b = self._value(widening.input, at), self.builder
        if not isinstance(x, Bytes):
            return None
        upper = b.number(ALL_BITS * IN_EACH_HALF << BYTE_BITS, i32)
        words = b.add(arith.ShLIOp(x.word, b.i32(BYTE_BITS))), x.word
        return self._four_of(
            [b.add(spv.BitcastOp(b.add(arith.AndIOp(w, upper)), PAIR)) for w in words]
        )

    def _widened(self, x: Bytes, signed: bool) -> SSAValue:
        """Converts bytes to binary32 by way of binary16, as GPUs convert integers slowly."""
        four = self._four_of(self._pairs_of_bytes(x, signed, 0))
        return self.builder.add(arith.ExtFOp(four, VectorType(f32, [VECTOR])))

    def _where_they_lie(self, x: Bytes) -> tuple[SSAValue, int, int]:
        """Returns the unshifted word that contains the bytes, their mask in it, and their shift."""
        masked = x.word.owner
        mask = self._mask_of(masked) if isinstance(masked, arith.AndIOp) else None
        if mask is None:
            return x.word, ALL_BITS, 0
        assert isinstance(masked, arith.AndIOp)
        shift = masked.lhs.owner
        if isinstance(shift, arith.ShRUIOp) and isinstance(shift.rhs.owner, arith.ConstantOp):
            number = shift.rhs.owner.value
            assert isinstance(number, IntegerAttr)
            if mask << number.value.data <= ALL_BITS:
                return shift.lhs, mask << number.value.data, number.value.data
        return masked.lhs, mask, 0

    def _pairs_of(self, four: SSAValue) -> list[SSAValue]:
        b = self.builder
        parts = components_of(b, four)
        return [b.add(spv.CompositeConstructOp(parts[first::2], PAIR)) for first in range(2)]

    def _four_of(self, pairs: Sequence[SSAValue]) -> SSAValue:
        b = self.builder
        (first, third), (second, fourth) = (components_of(b, pair) for pair in pairs)
        parts = [first, second, third, fourth]
        return b.add(spv.CompositeConstructOp(parts, VectorType(f16, [VECTOR])))

    # Forms of values

    def _four(self, x: Value) -> Value:
        return self.builder.add(spv.BitcastOp(x.word, FOUR_BYTES)) if isinstance(x, Bytes) else x

    def _scalar(self, x: Value, type: Attribute) -> SSAValue:
        assert not isinstance(x, Bytes)
        return self.builder.number(x, type) if isinstance(x, int) else x

    def _as_vector(self, x: Value, type: Attribute) -> SSAValue:
        """Repeats a scalar in each place of a vector; returns a vector unchanged."""
        value = self._four(x)
        scalar = self._scalar(value, type)
        if isinstance(scalar.type, VectorType):
            return scalar
        return self._spread_to(scalar, VectorType(type, [VECTOR]))

    def _spread_to(self, scalar: SSAValue, type: VectorType) -> SSAValue:
        key = scalar, type
        if key not in self._spread:
            self._spread[key] = self.builder.add(vector.BroadcastOp(scalar, type))
        return self._spread[key]
