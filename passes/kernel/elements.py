"""
Emits the epilogue of a contraction: computes a result's elements from their accumulators.

Every operation of an epilogue is elementwise, so the code of an element is the operations' bodies
in order. Operands are loaded at the positions that the index maps give; intermediate values stay
in registers. `EpilogueCode` evaluates the operations, here for elements and in `matrices` for
whole fragments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from xdsl.dialects import arith, linalg, math, tensor, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.epilogue import Epilogue, Placed, definition, operand_of
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.result_tile import BatchTile
from xdsl_spirv.passes.schedule.stored_result import moves_together
from xdsl_spirv.passes.schedule.tiles import StagedTile, vector_type

WORD_BITS, HIGH_HALF = 32, 16
PACKED_4X8 = spv.PackedVectorFormat.PackedVectorFormat4x8Bit

Accumulator: TypeAlias = "SSAValue | tuple[SSAValue, ...]"
"""The accumulator of a result element; a tuple if the result consists of several parts."""

Known: TypeAlias = Mapping[Placed, SSAValue]
"""Epilogue values that are already computed."""


def bfloat16_of_bits(b: KernelEmitter, bits: SSAValue, to: Attribute = f32) -> SSAValue:
    """Converts an i16 with the bits of a bfloat16 to a wider float type."""
    word = b.add(arith.ExtUIOp(bits, i32))
    single = b.add(arith.BitcastOp(b.add(arith.ShLIOp(word, b.i32(HIGH_HALF))), f32))
    return single if to == f32 else b.add(arith.ExtFOp(single, cast(AnyFloat, to)))


def convert_factor(b: KernelEmitter, value: SSAValue, to: Attribute, signed: bool) -> SSAValue:
    """
    Converts a factor to the type of the sum. An i16 that becomes a float holds a bfloat16's bits.
    """
    if value.type == to:
        return value
    if isinstance(to, IntegerType):
        return b.add((arith.ExtSIOp if signed else arith.ExtUIOp)(value, to))
    if isinstance(value.type, IntegerType):
        return bfloat16_of_bits(b, value, to)
    wider = bit_width(value.type) < bit_width(to)
    return b.add((arith.ExtFOp if wider else arith.TruncFOp)(value, cast(AnyFloat, to)))


def multiply_add(b: KernelEmitter, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    """Computes x * y + total for scalars or vectors."""
    type = total.type.element_type if isinstance(total.type, VectorType) else total.type
    if isinstance(type, IntegerType):
        return b.add(arith.AddiOp(total, b.add(arith.MuliOp(x, y))))
    return b.add(math.FmaOp(x, y, total))


def components_of(b: KernelEmitter, value: SSAValue) -> list[SSAValue]:
    """Splits a vector into scalars; a scalar gives a list of one."""
    type = value.type
    if not isinstance(type, VectorType):
        return [value]
    count = type.get_shape()[0]
    return [b.add(vector.ExtractOp(value, [i], type.element_type)) for i in range(count)]


def inline_body(b: KernelEmitter, op: linalg.ops.GenericOp, inputs: Sequence[SSAValue]) -> SSAValue:
    """Emits the body of an elementwise operation for one element of each input."""

    def write(body_op: Operation, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if isinstance(body_op, arith.ConstantOp):
            return [constant_of(b, body_op.result)]
        values = dict(zip(body_op.operands, operands, strict=True))
        copy = body_op.clone(values, clone_name_hints=False)
        b.insert(copy)
        return copy.results

    (result,) = run_body(op.body.block, inputs, lambda value: constant_of(b, value), write)[:1]
    return result


def run_body(
    block: Block,
    inputs: Sequence[SSAValue],
    outside: Callable[[SSAValue], SSAValue],
    write: Callable[[Operation, Sequence[SSAValue]], Sequence[SSAValue]],
) -> list[SSAValue]:
    """
    Evaluates a body and returns the values that it yields.

    `write` returns the results of one operation. `outside` returns the replacement of a value that
    is defined outside of the body.
    """
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, inputs, strict=False))

    def operands_of(op: Operation) -> list[SSAValue]:
        return [known[value] if value in known else outside(value) for value in op.operands]

    *body, last = block.ops
    for op in body:
        known |= zip(op.results, write(op, operands_of(op)), strict=True)
    return operands_of(last)


def constant_of(b: KernelEmitter, value: SSAValue) -> SSAValue:
    """Emits the constant that defines a scalar operand of a dispatch."""
    owner = value.owner
    assert isinstance(owner, arith.ConstantOp), "a scalar operand of a dispatch is not a constant"
    number = owner.value
    if isinstance(number, DenseIntOrFPElementsAttr):
        number = next(number.iter_attrs())
    assert isinstance(number, IntegerAttr | FloatAttr)
    return b.constant(number)


def apply_prologue(b: KernelEmitter, tile: StagedTile, loaded: SSAValue) -> SSAValue:
    """Applies the operand's prologue to a loaded element or vector, before staging."""
    count = 1 if tile.gathered else tile.vector
    flips = [flipped_bits(op) for op in tile.prologue]
    if len(components_of_type(loaded.type)) < count and None not in flips:
        for bits in flips:
            flip = repeat_bits(b, bits or 0, tile.stored_type, loaded.type)
            loaded = b.add(arith.XOrIOp(loaded, flip))
        return loaded
    values = unpack_elements(b, loaded, tile.stored_type, count)
    for op in reversed(tile.prologue):
        values = [inline_body(b, op, [value]) for value in values]
    return pack_elements(b, values, tile.element_type)


def components_of_type(type: Attribute) -> range:
    """Returns the range of component indices of a vector type; range(1) for a scalar type."""
    return range(type.get_shape()[0] if isinstance(type, VectorType) else 1)


def flipped_bits(op: linalg.ops.GenericOp) -> int | None:
    """Returns `mask` if an elementwise operation computes only `x xor mask`, otherwise None."""
    block = op.body.block
    value = yields_of(block)[0].owner
    if not isinstance(value, arith.XOrIOp) or value.lhs is not block.args[0]:
        return None
    constant = value.rhs.owner
    if not isinstance(constant, arith.ConstantOp) or not isinstance(constant.value, IntegerAttr):
        return None
    return constant.value.value.data


def repeat_bits(b: KernelEmitter, number: int, element: Attribute, type: Attribute) -> SSAValue:
    """Returns a word or a vector in which every element of type `element` has the same bits."""
    bits = bit_width(element)
    width = bit_width(type.element_type if isinstance(type, VectorType) else type)
    return b.number(sum((number % (1 << bits)) << at for at in range(0, width, bits)), type)


def unpack_elements(
    b: KernelEmitter, value: SSAValue, element: Attribute, count: int
) -> list[SSAValue]:
    """Splits a vector of elements or of 32-bit words into its `count` elements."""
    parts = components_of(b, value)
    if len(parts) == count:
        return parts
    part_type = vector_type(element, WORD_BITS // bit_width(element))
    return [x for part in parts for x in components_of(b, b.add(spv.BitcastOp(part, part_type)))]


def pack_elements(b: KernelEmitter, values: Sequence[SSAValue], element: Attribute) -> SSAValue:
    """Joins elements to one vector; a single element stays a scalar."""
    return as_one(b, values, vector_type(element, len(values)))


def as_one(b: KernelEmitter, pieces: Sequence[SSAValue], type: Attribute) -> SSAValue:
    """Joins consecutive elements or vectors (`pieces`) to one vector, or to 32-bit words."""
    if len(pieces) == 1 and pieces[0].type == type:
        return pieces[0]
    if isinstance(type, VectorType) and type.element_type == _element(pieces[0]):
        return b.add(spv.CompositeConstructOp(pieces, type))
    words: list[SSAValue] = []
    bits = bit_width(pieces[0].type)
    per_word = max(1, WORD_BITS // bits)
    for number in range(0, len(pieces), per_word):
        word = pieces[number]
        if per_word > 1:
            count = WORD_BITS // bit_width(_element(word))
            parts = pieces[number : number + per_word]
            word = b.add(spv.CompositeConstructOp(parts, VectorType(_element(word), [count])))
        count = max(1, bits // WORD_BITS)
        of_words = i32 if count == 1 else VectorType(i32, [count])
        words.append(word if word.type == of_words else b.add(spv.BitcastOp(word, of_words)))
    return words[0] if len(words) == 1 else b.add(spv.CompositeConstructOp(words, type))


def _element(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, VectorType) else value.type


@dataclass(frozen=True)
class Access:
    """A 1-D view of a buffer in vectors of `width` elements. Strides of `layout` count elements."""

    memory: SSAValue
    layout: Layout
    width: int


class EpilogueCode(ABC):
    """Evaluates the values of an epilogue from accumulators and operands in memory."""

    def __init__(self, builder: KernelEmitter, epilogue: Epilogue):
        self.builder, self.epilogue = builder, epilogue

    def evaluate(
        self,
        placed: Placed,
        accumulator: Accumulator,
        known: dict[Placed, SSAValue],
        read: Callable[[Placed], SSAValue],
    ) -> SSAValue:
        """
        Evaluates the value `placed` of an epilogue. `known` has the values that are already
        computed, so each is computed once. `read` loads operands.
        """
        if placed.value is self.epilogue.root.value:
            if isinstance(accumulator, tuple):
                return accumulator[self.epilogue.part_of(placed)]
            return accumulator
        if placed in known:
            return known[placed]
        op = definition(placed.value)
        match op:
            case None:
                value = read(placed)
            case linalg.ops.FillOp() | tensor.SplatOp():
                value = self.constant(op.operands[0])
            case linalg.ops.GenericOp():
                operands = (operand_of(placed, op, n) for n in range(len(op.inputs)))
                inputs = [self.evaluate(each, accumulator, known, read) for each in operands]
                value = self.body(op, inputs)
            case _:
                value = self.constant(placed.value)
        known[placed] = value
        return value

    @abstractmethod
    def constant(self, value: SSAValue) -> SSAValue:
        """Emits a scalar that is known at compile time."""

    @abstractmethod
    def body(self, op: linalg.ops.GenericOp, inputs: Sequence[SSAValue]) -> SSAValue:
        """Emits the body of an elementwise operation."""


class ElementCode(EpilogueCode):
    """
    Computes and stores `width` neighbouring elements of a result row.

    Operands and results are loaded and stored as vectors if their elements are contiguous.
    """

    def __init__(
        self,
        builder: KernelEmitter,
        contraction: Contraction,
        tile: BatchTile,
        width: int,
        stored: int | None = None,
    ):
        """`stored` is the vector width of the results in memory; default: `width`."""
        super().__init__(builder, contraction.epilogue)
        self.contraction, self.tile, self.width = contraction, tile, width
        self.results = [self._access(placed, stored or width) for placed in self.epilogue.results]
        self.operands = {placed: self._access(placed, width) for placed in self.epilogue.operands}

    def _access(self, placed: Placed, width: int) -> Access:
        layout = self.contraction.layout_of_result(placed.map, placed.shape)
        bits = bit_width(placed.element_type)
        once = sum(operand.value is placed.value for operand in self.epilogue.operands) <= 1
        if not (once and moves_together(layout, bits // 8, width)):
            width = 1
        type = vector_type(placed.element_type, width)
        return Access(self.builder.flat_view(placed.value, type, "result"), layout, width)

    def store(
        self,
        row: Index,
        column: Index,
        accumulators: Accumulator,
        known: Known | None = None,
    ) -> None:
        """
        Stores the results of accumulators: a scalar, a vector of `width` elements, or a tuple (one
        scalar for each part of the contraction's result).

        All elements must lie inside of the result. `known` holds epilogue values that are equal
        for all elements.
        """
        b = self.builder
        if isinstance(accumulators, tuple):
            elements = self._elements(row, column, [accumulators], known)
        elif self.epilogue.is_empty and self.results[0].width == self.width:
            self.store_vectors(self.results[0], [accumulators], row, column)
            return
        else:
            elements = self._elements(row, column, components_of(b, accumulators), known)
        for placed, access in zip(self.epilogue.results, self.results, strict=True):
            values = [element(placed) for element in elements]
            if access.width > 1:
                values = [pack_elements(b, values, placed.element_type)]
            self.store_vectors(access, values, row, column)

    def values(self, row: Index, column: Index, accumulator: Accumulator) -> list[SSAValue]:
        """Evaluates all results at one position."""
        (element,) = self._elements(row, column, [accumulator])
        return list(map(element, self.epilogue.results))

    def value(
        self, placed: Placed, row: Index, column: Index, accumulator: SSAValue, known: Known
    ) -> SSAValue:
        """
        Evaluates the value `placed` of an epilogue at a position inside of the result; see `store`.
        """
        (element,) = self._elements(row, column, [accumulator], known)
        return element(placed)

    def _elements(
        self,
        row: Index,
        column: Index,
        accumulators: Sequence[Accumulator],
        known: Known | None = None,
    ) -> list[Callable[[Placed], SSAValue]]:
        """
        Returns a function for each accumulator; the accumulators belong to neighbouring columns of
        one row. The function computes any value of the epilogue from its accumulator.
        """
        b, loaded = self.builder, dict[tuple[Placed, Index], list[SSAValue]]()
        columns = [b.plus(column, i) for i in range(len(accumulators))]

        def read(number: int, placed: Placed) -> SSAValue:
            """Loads an operand's element; contiguous neighbours are loaded as one vector."""
            access = self.operands[placed]
            first = column if access.width > 1 else columns[number]
            at = b.divided(self.tile.offset(row, first, access.layout), access.width)
            if (placed, at) not in loaded:
                loaded[placed, at] = components_of(b, b.load_once(access.memory, (at,)))
            own = loaded[placed, at]
            return own[number if len(own) > 1 else 0]

        def element(number: int, value: Accumulator) -> Callable[[Placed], SSAValue]:
            values, of = dict(known or {}), partial(read, number)
            return lambda placed: self.evaluate(placed, value, values, of)

        return [element(number, value) for number, value in enumerate(accumulators)]

    def store_vectors(
        self, access: Access, values: Sequence[SSAValue], row: Index, column: Index
    ) -> None:
        """Stores neighbours that begin at (row, column): one vector, or single elements."""
        b = self.builder
        for i, value in enumerate(values):
            at = self.tile.offset(row, b.plus(column, i), access.layout)
            b.store(value, access.memory, (b.divided(at, access.width),))

    def constant(self, value: SSAValue) -> SSAValue:
        return constant_of(self.builder, value)

    def body(self, op: linalg.ops.GenericOp, inputs: Sequence[SSAValue]) -> SSAValue:
        return inline_body(self.builder, op, inputs)
