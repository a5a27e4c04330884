"""
Represents small integers as bit fields of the loaded word, and delays their extraction.

    (byte >> 4) & 15 as a float   ->   bitcast(word & 0xf000 | 0x4b000000) * 2^-12 - 2^11

A shift or mask by a constant emits no instruction: it only changes the bit field. Bits below bit
23, combined with the exponent of 2^23, form a float that is 2^23 too large. A conversion to float
therefore takes two exact instructions; shift, mask, widening and conversion would take four.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from typing_extensions import TypeIs
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import BFloat16Type, IntegerAttr, IntegerType, VectorType, f16, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes import copy_with
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.pointwise import body_ops
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import bfloat16_of_bits, components_of, constant_of


class Known(dict[Hashable, Any]):
    """Maps operations and operands to values that were already emitted in this scope."""

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the value of a key; calls `make` if there is none."""
        if key not in self:
            self[key] = make()
        return self[key]


MANTISSA = 23
"""Number of mantissa bits of binary32."""

EXPONENT = 0x4B000000
"""Bit pattern of 2^23 in binary32."""

HALF_WORD = 16

WORD = 32

BYTE = 8

PAIR = VectorType(f16, [2])

IN_EACH_BYTE = 0x01010101


@dataclass(frozen=True)
class Bits:
    """
    An unsigned bit field: bits `low` to `low` + `count` - 1 of `word`, multiplied by 2^`up`.

    `width` is the bit width of the element's type.
    """

    word: SSAValue
    low: int
    count: int
    width: int
    up: int = 0

    @property
    def end(self) -> int:
        """The number of bits that the value needs: `up` + `count`."""
        return self.up + self.count

    @property
    def begin(self) -> int:
        """The lowest bit of the byte that contains bit `low`."""
        return self.low - self.low % BYTE


@dataclass(frozen=True)
class Whole:
    """An integer that is used as binary32. If `signed`, `bits` hold its two's complement."""

    bits: Bits
    signed: bool = False


@dataclass(frozen=True)
class Affine:
    """The number `value` * `scale` + `addend`. Neighbouring elements share `scale` and `addend`."""

    value: SSAValue | Whole
    scale: SSAValue | None = None
    addend: SSAValue | None = None


Scalar: TypeAlias = SSAValue | Bits | Whole | Affine | int
"""
A scalar in one of five forms: a value, a bit field, a bit field as a float, an affine expression,
or a compile-time integer.
"""


def fields_of(word: SSAValue, width: int) -> list[Bits]:
    """Splits a word into elements of `width` bits, lowest bits first."""
    return [Bits(word, low, width, width) for low in range(0, WORD, width)]


class ScalarCode:
    """
    Emits scalar operations. With `keeps`, bit fields are converted to float as late as possible.
    """

    def __init__(self, b: KernelEmitter, known: Known, keeps: bool = False):
        self.b, self.known, self.keeps = b, known, keeps
        self.shared: set[SSAValue] = known.setdefault("shared", set[SSAValue]())
        """Values that are equal for neighbouring elements."""

    def body(
        self,
        op: linalg.ops.GenericOp,
        inputs: Sequence[Scalar],
        index: Callable[[int], Index],
        wanted: SSAValue | None = None,
    ) -> Scalar:
        """
        Computes the result of an elementwise operation for one element of each input. `wanted`
        selects another value of the body. `index` returns the index of a loop.
        """
        b, block = self.b, op.body.block
        wanted = wanted or yields_of(block)[0]
        values: dict[SSAValue, Scalar] = dict(zip(block.args, inputs, strict=False))

        def scalar_of(value: SSAValue) -> Scalar:
            return values[value] if value in values else known_number(b, value)

        for body_op in body_ops(block):
            if wanted in values:
                break
            if isinstance(body_op, arith.ConstantOp):
                continue
            if isinstance(body_op, linalg.ops.IndexOp):
                place = index(body_op.dim.value.data)
                values[body_op.result] = place if isinstance(place, int) else b.index(place)
                continue
            operands = [scalar_of(value) for value in body_op.operands]
            first = operands[0]
            if isinstance(body_op, arith.ExtFOp) and _is_bfloat16(first):
                values[body_op.result] = bfloat16_of_bits(b, first, body_op.result.type)
            else:
                floats = map(self._as_float, operands, body_op.operands)
                values[body_op.results[0]] = self.copied(body_op, list(floats))
        return scalar_of(wanted)

    def _as_float(self, scalar: Scalar, operand: SSAValue) -> Scalar:
        if isinstance(operand.type, BFloat16Type) and _is_bfloat16(scalar):
            return self.b.add(arith.BitcastOp(scalar, operand.type))
        return scalar

    def copied(self, op: Operation, operands: Sequence[Scalar]) -> Scalar:
        """Emits an operation with new operands, folded if possible; emits equal operations once."""

        def make() -> Scalar:
            result = self._apart(op, operands) or self._copied(op, operands)
            if isinstance(result, SSAValue) and all(map(self.is_shared, operands)):
                self.shared.add(result)
            return result

        key = (op.name, *operands, *op.result_types, str(op.properties))
        return self.known.once(key, make)

    def is_shared(self, scalar: Scalar) -> bool:
        """True if neighbouring elements have this scalar in common."""
        if isinstance(scalar, Bits):
            return scalar.word in self.shared
        if isinstance(scalar, Whole):
            return False
        if isinstance(scalar, SSAValue):
            return scalar in self.shared or isinstance(scalar.owner, arith.ConstantOp)
        return isinstance(scalar, int)

    def _apart(self, op: Operation, operands: Sequence[Scalar]) -> Affine | None:
        """
        Returns the result of an f32 addition, subtraction or multiplication as `Affine`, if exactly
        one operand is the same for neighbouring elements. Returns None for other operations.
        """
        if not isinstance(op, arith.MulfOp | arith.AddfOp | arith.SubfOp):
            return None
        if op.result.type != f32 or self.is_shared(operands[0]) == self.is_shared(operands[1]):
            return None
        first = self.is_shared(operands[1])
        varying, shared = operands if first else operands[::-1]
        if not isinstance(varying, SSAValue | Whole | Affine) or not isinstance(shared, SSAValue):
            return None
        apart = varying if isinstance(varying, Affine) else Affine(varying)
        scale, addend = apart.scale, apart.addend
        if isinstance(op, arith.MulfOp):
            scale = shared if scale is None else self._shared(arith.MulfOp, scale, shared)
            addend = None if addend is None else self._shared(arith.MulfOp, addend, shared)
        elif isinstance(op, arith.AddfOp):
            addend = shared if addend is None else self._shared(arith.AddfOp, addend, shared)
        elif first:
            addend = self.b.zero(f32) if addend is None else addend
            addend = self._shared(arith.SubfOp, addend, shared)
        else:
            scale = self.b.number(1.0, f32) if scale is None else scale
            scale = self._shared(arith.SubfOp, self.b.zero(f32), scale)
            addend = shared if addend is None else self._shared(arith.SubfOp, shared, addend)
        return Affine(apart.value, scale, addend)

    def once(self, kind: type[Any], *operands: SSAValue | Attribute) -> SSAValue:
        """Emits an operation on these operands, or returns the result of an equal operation."""
        return self.known.once((kind, *operands), lambda: self.b.add(kind(*operands)))

    def _shared(self, kind: type[Any], x: SSAValue, y: SSAValue) -> SSAValue:
        constants = [value.owner for value in (x, y)]
        if kind is arith.SubfOp and all(isinstance(c, arith.ConstantOp) for c in constants):
            first, second = (float(c.value.value.data) for c in constants)  # pyright: ignore
            return self.b.number(first - second, f32)
        result = self.once(kind, x, y)
        self.shared.add(result)
        return result

    def whole(self, number: Affine) -> SSAValue:
        """Emits an affine expression as one f32 value."""
        return self.known.once(
            number, lambda: self.affine(self.value(number.value, f32), number.scale, number.addend)
        )

    def affine(self, value: SSAValue, scale: SSAValue | None, addend: SSAValue | None) -> SSAValue:
        """
        Computes value * scale + addend for scalars or vectors; None stands for no scale or addend.
        """
        b = self.b
        if scale is not None and addend is not None:
            return b.add(math.FmaOp(value, scale, addend))
        if scale is not None:
            return b.add(arith.MulfOp(value, scale))
        return value if addend is None else b.add(arith.AddfOp(value, addend))

    def value(self, scalar: Scalar, type: Attribute) -> SSAValue:
        """Emits a scalar of any form as an SSA value of type `type`."""
        b = self.b
        if isinstance(scalar, int):
            return b.number(scalar, type)
        if isinstance(scalar, SSAValue):
            return scalar
        if isinstance(scalar, Affine):
            return self.whole(scalar)
        if isinstance(scalar, Whole):
            return self._converted(scalar)
        bits = self._remembered(arith.ShRUIOp, scalar.word, scalar.low)
        if scalar.low + scalar.count < WORD:
            bits = self._remembered(arith.AndIOp, bits, (1 << scalar.count) - 1)
        number = self._remembered(arith.ShLIOp, bits, scalar.up)
        assert isinstance(type, IntegerType)
        if type == i32:
            return number
        narrow = type.width.data < WORD
        return b.add((arith.TruncIOp if narrow else arith.ExtUIOp)(number, type))

    def _remembered(self, kind: type[Any], x: SSAValue, number: int) -> SSAValue:
        """Emits an i32 operation with a constant operand once; returns `x` for a shift by 0."""
        if number == 0 and kind in (arith.ShRUIOp, arith.ShLIOp):
            return x
        return self.once(kind, x, self.b.number(number, i32))

    def _copied(self, op: Operation, operands: Sequence[Scalar]) -> Scalar:
        numbers = [x for x in operands if isinstance(x, int)]
        folded: Scalar | None = None
        if len(numbers) == len(operands):
            folded = _fold_integers(op, numbers)
        elif isinstance(operands[0], Bits):
            folded = self._of_bits(op, operands[0], operands[1:])
        if folded is not None:
            return folded
        values = [self.value(x, v.type) for x, v in zip(operands, op.operands, strict=True)]
        return self.b.add(copy_with(op, values))

    def _of_bits(self, op: Operation, bits: Bits, others: Sequence[Scalar]) -> Scalar | None:
        match op, others:
            case arith.OrIOp(), [Bits() as other]:
                return self._joined(bits, other)
            case arith.ShLIOp(), [int(distance)] if bits.end + distance <= bits.width:
                return replace(bits, up=bits.up + distance)
            case arith.ExtUIOp(), _:
                return replace(bits, width=bit_width(op.result.type))
            case arith.BitcastOp(), _ if op.result.type == f16:
                return self._half(bits)
            case _ if bits.up:
                return None
            case arith.ShRUIOp(), [SSAValue() as distance] if bits.count == bits.width == BYTE:
                return replace(bits, word=self._shifted(bits.word, distance))
            case arith.ShRUIOp(), [int(distance)] if distance < bits.count:
                return replace(bits, low=bits.low + distance, count=bits.count - distance)
            case arith.AndIOp(), [int(mask)] if _is_run_of_ones(mask):
                first = (mask & -mask).bit_length() - 1
                count = min(bits.count, mask.bit_length()) - first
                moved = replace(bits, low=bits.low + first, count=count, up=first)
                return moved if count > 0 else 0
            case ((arith.UIToFPOp() | arith.SIToFPOp()), _) if op.result.type == f32:
                signed = isinstance(op, arith.SIToFPOp) and bits.count == bits.width
                if bits.count > (HALF_WORD if signed else MANTISSA):
                    return None
                whole = Whole(bits, signed)
                stays = self.keeps and not self.is_shared(bits)
                return whole if stays else self._converted(whole)
            case _:
                return None

    def _joined(self, x: Bits, y: Bits) -> Bits | None:
        lower, upper = (x, y) if x.up < y.up else (y, x)
        if lower.end > upper.up or x.width != BYTE or y.width != BYTE or x.begin != y.begin:
            return None
        word = self.once(arith.OrIOp, self.in_cells(lower), self.in_cells(upper))
        return Bits(word, lower.begin, upper.end, BYTE)

    def in_cells(self, bits: Bits, size: int = BYTE) -> SSAValue:
        """
        Shifts and masks the field's word. Each group of `size` bits then holds, right-aligned, the
        bits at the field's position in this group.
        """
        distance = bits.low % size - bits.up
        kind = arith.ShRUIOp if distance >= 0 else arith.ShLIOp
        word = self._remembered(kind, bits.word, abs(distance))
        if bits.count == size:
            return word
        ones = sum(1 << place for place in range(0, WORD, size))
        return self._remembered(arith.AndIOp, word, ((1 << bits.count) - 1 << bits.up) * ones)

    def _half(self, bits: Bits) -> SSAValue:
        """Reinterprets a 16-bit field as binary16; one bitcast serves both halves of the word."""
        b, halves = self.b, self.in_cells(bits, HALF_WORD)
        split = lambda: components_of(b, b.add(spv.BitcastOp(halves, PAIR)))  # noqa: E731
        return self.known.once((spv.BitcastOp, halves), split)[bits.low // HALF_WORD]

    def _shifted(self, word: SSAValue, distance: SSAValue) -> SSAValue:
        b, once = self.b, self.once
        amount = once(arith.ExtUIOp, distance, i32)
        mask = once(arith.ShRUIOp, b.number((1 << BYTE) - 1, i32), amount)
        spread = once(arith.MuliOp, mask, b.number(IN_EACH_BYTE, i32))
        return once(arith.AndIOp, once(arith.ShRUIOp, word, amount), spread)

    def _converted(self, number: Whole) -> SSAValue:
        bits = number.bits
        return self.known.once(
            number, lambda: self._signed(bits) if number.signed else self._float(bits, 0)
        )

    def _signed(self, bits: Bits) -> SSAValue:
        signs = sum(1 << n for n in range(bits.width - 1, WORD, bits.width))
        word = self._remembered(arith.XOrIOp, bits.word, signs)
        return self._float(replace(bits, word=word), 1 << (bits.width - 1))

    def _float(self, bits: Bits, beyond: int) -> SSAValue:
        """Converts a bit field to a float and subtracts `beyond`."""
        b, word, low = self.b, bits.word, bits.low
        if low + bits.count > MANTISSA:
            shift = HALF_WORD if 0 <= low - HALF_WORD else low
            word, low = self._remembered(arith.ShRUIOp, word, shift), low - shift
        masked = b.add(arith.AndIOp(word, b.number(((1 << bits.count) - 1) << low, i32)))
        number = b.add(arith.BitcastOp(b.add(arith.OrIOp(masked, b.number(EXPONENT, i32))), f32))
        return self.correct_float(number, low, -float((1 << (MANTISSA - low)) + beyond))

    def correct_float(self, number: SSAValue, low: int, offset: float) -> SSAValue:
        """
        Corrects a float that was made of a field at bit `low`: divides the float by 2^low, and adds
        an offset.
        """
        b, type = self.b, number.type
        added = b.number(offset, type)
        return self.affine(number, b.number(2.0**-low, type) if low else None, added)


def _is_bfloat16(scalar: Scalar) -> TypeIs[SSAValue]:
    return isinstance(scalar, SSAValue) and scalar.type == IntegerType(16)


def _is_run_of_ones(mask: int) -> bool:
    return mask > 0 and (above := mask + (mask & -mask)) & above - 1 == 0


def _fold_integers(op: Operation, numbers: Sequence[int]) -> int | None:
    """Evaluates an operation on unsigned constants; None for unsupported operations."""
    width = 64
    if isinstance(result := op.results[0].type, IntegerType):
        width = result.width.data
    mask = (1 << width) - 1
    match op, numbers:
        case arith.IndexCastOp() | arith.TruncIOp() | arith.ExtUIOp(), [x]:
            return x & mask
        case arith.AddiOp() | arith.MuliOp() | arith.AndIOp() | arith.OrIOp(), [x, y]:
            result = op.py_operation(x, y)
            return None if result is None else result & mask
        case arith.ShLIOp(), [x, y] if y < width:
            return x << y & mask
        case arith.ShRUIOp(), [x, y] if y < width:
            return x >> y
        case _:
            return None


def known_number(b: KernelEmitter, value: SSAValue) -> Scalar:
    """Returns a constant of a body: an integer as an unsigned int, a float as an SSA value."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        if isinstance(type := owner.value.type, IntegerType):
            return owner.value.value.data & ((1 << type.width.data) - 1)
        return owner.value.value.data
    return constant_of(b, value)
