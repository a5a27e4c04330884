"""
Computes the elements of an operand from stored tensors, in the invocation that multiplies them.

    %w[n, k] = (%q[n, k / 32, k % 16] >> ...) * %d[n, k / 32]

Each load, and each operation on equal values, is emitted once for all elements that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import BFloat16Type, IndexType, IntegerType, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_spirv.dialects.schedule import PaddedViewOp, SelectedViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.epilogue import Placed, definition, operand_of
from xdsl_spirv.passes.analysis.layout import Linear, linear
from xdsl_spirv.passes.analysis.leaves import Leaf, read_through_padding, selecting_loops
from xdsl_spirv.passes.analysis.linalg_code import maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import loops_of
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.bit_fields import (
    WORD,
    Affine,
    Known,
    Scalar,
    ScalarCode,
    Whole,
    fields_of,
)
from xdsl_spirv.passes.kernel.elements import (
    components_of,
    constant_of,
    convert_factor,
    repeat_bits,
    unpack_elements,
)
from xdsl_spirv.passes.schedule.rows import RowsPlan
from xdsl_spirv.passes.schedule.tiles import vector_type

MOST_BYTES = 16
"""Largest size of one load in bytes."""

Point: TypeAlias = dict[int, tuple[Index, int]]
"""Position of an element or load: for each loop, an index plus a constant."""


def stored_type(element: Attribute) -> Attribute:
    """Returns an element's type in memory: i16 for bfloat16, otherwise the element type."""
    return IntegerType(16) if isinstance(element, BFloat16Type) else element


class LeafCode:
    """Reads the elements of one stored tensor."""

    def __init__(self, b: HoistingEmitter, leaf: Leaf, unit: dict[int, int], fast: int | None):
        self.b, self.leaf = b, leaf
        self.is_shared = fast is not None and leaf.strides[fast] == 0
        """True if neighbouring elements of the operand read the same element of this tensor."""
        self.width = leaf.width(unit, MOST_BYTES)
        self.type = stored_type(leaf.element)
        memory = leaf.placed.value
        self.selected: tuple[SSAValue, list[int]] | None = None
        """If a `SelectedViewOp` is read: its part indices, and its loops over parts."""
        if isinstance(memory.owner, SelectedViewOp):
            loops, numbers = selecting_loops(leaf.placed), memory.owner.numbers
            self.selected, memory = (b.elements_of(numbers), loops), memory.owner.source
        bits = self.width * bit_width(self.type)
        narrow = isinstance(leaf.element, IntegerType) and bit_width(leaf.element) < WORD
        self.in_words = narrow and bits % WORD == 0
        self.memory = b.flat_view(memory, self._moved(bits))
        # Adds loop-invariant terms first, so that their sum is hoisted out of the K loop.
        self.order = sorted(leaf.loops)

    def _moved(self, bits: int) -> Attribute:
        return (
            vector_type(i32, bits // WORD) if self.in_words else vector_type(self.type, self.width)
        )

    def load(self, point: Point) -> tuple[SSAValue, int]:
        """Loads the vector that contains a point; also returns the element's index in it."""
        number, place = self.place(point)
        vector = self.b.load_once(self.memory, (number,))
        inside = self._inside(point)
        if inside is True:
            return vector, place
        fill = self.leaf.fill
        outside = (
            repeat_bits(self.b, fill, self.type, vector.type)
            if self.in_words
            else self.b.number(fill, vector.type)
        )
        return self.b.select(inside, vector, outside), place

    def _inside(self, point: Point) -> Condition:
        b = self.b
        inside: Condition = True
        for index, size in self.leaf.guards:
            inside = b.both(inside, b.below(index_at(b, index, point), size))
        return inside

    def place(self, point: Point) -> tuple[Index, int]:
        """Returns the memory index of the vector that contains a point, and the index in it."""
        b, leaf, width = self.b, self.leaf, self.width
        base: Index = leaf.start // width if width > 1 else leaf.start
        constant = 0
        for loop in self.order:
            first, added = self._select_part(loop, point)
            stride = leaf.strides[loop]
            if width == 1:
                base = b.plus(base, b.times(b.plus(first, added), stride))
                continue
            assert not added or isinstance(stride, int)
            constant += added * stride if isinstance(stride, int) else 0
            base = b.plus(base, self._in_vectors(first, stride))
        number, place = divmod(constant, width)
        return b.index_inside(self._inside(point), b.plus(base, number)), place

    def _select_part(self, loop: int, point: Point) -> tuple[Index, int]:
        """
        Returns a loop's index. If loops select parts by data, the last of them has the loaded part
        index, and the others have 0.
        """
        if self.selected is None or loop not in self.selected[1]:
            return point[loop]
        numbers, loops = self.selected
        if loop != loops[-1]:
            return 0, 0
        b, sizes = self.b, self.leaf.placed.shape
        place: Index = 0
        for counted, size in zip(loops, sizes, strict=False):
            first, added = point[counted]
            place = b.plus(b.times(place, size), b.plus(first, added))
        return b.pure(_as_index, b.load_once(numbers, (place,))), 0

    def _in_vectors(self, first: Index, stride: Size) -> Index:
        """Returns `first` * `stride` in vectors. One factor is a multiple of the vector width."""
        b = self.b
        if is_multiple(stride, self.width):
            return b.times(first, stride // self.width)
        return b.divided(b.times(first, stride), self.width)

    def element(self, point: Point, known: Known) -> Scalar:
        """Returns the element at a point; `known` caches emitted values."""
        vector, place = self.load(point)
        return known.once(vector, lambda: self._elements(vector, known))[place]

    def _elements(self, vector: SSAValue, known: Known) -> Sequence[Scalar]:
        """Splits a loaded vector into elements. Small integers are bit fields of loaded words."""
        bits, shared = bit_width(self.type), set[SSAValue]()
        if self.is_shared:
            shared = ScalarCode(self.b, known).shared
        if self.in_words:
            words = components_of(self.b, vector)
            shared.update([vector, *words])
            return [e for word in words for e in fields_of(word, bits)]
        elements = unpack_elements(self.b, vector, self.type, self.width)
        shared.update([vector, *elements])
        return elements


class ComputedOperand:
    """
    Computes single elements of an operand, A (0) or B (1), at points of the contraction's loops.

    With `keeps`, small integers are converted to float late. `code` constructs the reader of a
    tensor.
    """

    def __init__(
        self,
        b: HoistingEmitter,
        plan: RowsPlan,
        number: int,
        unit: dict[int, int],
        keeps: bool = False,
        code: Callable[[HoistingEmitter, Leaf, dict[int, int], int | None], LeafCode] = LeafCode,
    ):
        contraction, fast = plan.contraction, plan.main.fast_loop
        self.b, self.type, self.keeps = b, plan.sums.type, keeps
        self.signed = contraction.types[number].startswith("s")
        self.root = Placed((contraction.a, contraction.b)[number], contraction.maps[number])
        leaves = plan.leaves[number]
        self.leaves = {leaf.placed: code(b, leaf, unit, fast) for leaf in leaves}
        self.loops = sorted(self.root.map.used_dims())

    def sources(self, point: Point) -> list[tuple[SSAValue, Index]]:
        """
        Returns the loads that the element at a point needs, as pairs of memory and vector index.
        """
        return [(leaf.memory, leaf.place(point)[0]) for leaf in self.leaves.values()]

    def element(self, point: Point, known: Known) -> SSAValue:
        """Returns the element at a point in type `type`; `known` caches emitted values."""
        return ScalarCode(self.b, known).whole(self.apart(point, known))

    def apart(self, point: Point, known: Known) -> Affine:
        """Returns the element at a point as `Affine`, whose scale and addend neighbours share."""

        def make() -> Affine:
            value = self._value(self.root, point, known)
            if isinstance(value, Affine) and self.type == f32:
                return value
            value = ScalarCode(self.b, known).value(value, self.root.element_type)
            return Affine(convert_factor(self.b, value, self.type, self.signed))

        return known.once((self, *(point[loop] for loop in self.loops)), make)

    def _value(self, placed: Placed, point: Point, known: Known) -> Scalar:
        op = definition(placed.value)
        match op:
            case None if placed in self.leaves:
                return self.leaves[placed].element(point, known)
            case tensor.PadOp() | PaddedViewOp() if (
                inner := read_through_padding(placed)
            ) is not None:
                return self._value(inner, point, known)
            case linalg.ops.FillOp() | tensor.SplatOp():
                return constant_of(self.b, op.operands[0])
            case linalg.ops.GenericOp():
                operands = (operand_of(placed, op, n) for n in range(len(op.inputs)))
                inputs = [self._value(operand, point, known) for operand in operands]
                places = loops_of(maps_of(op)[-1], placed.map.results)
                return self._body(op, inputs, places, point, known)
            case _:
                return constant_of(self.b, placed.value)

    def _body(
        self,
        op: linalg.ops.GenericOp,
        inputs: Sequence[Scalar],
        places: Sequence[AffineExpr | None],
        point: Point,
        known: Known,
    ) -> Scalar:
        """
        Computes an elementwise operation at the position `point` of the contraction.

        `inputs` are the elements of the operands. `places` has each loop of the operation as an
        expression of the contraction's loops; None stands for 0. `known` caches computed values.
        """
        code = ScalarCode(self.b, known, self.keeps)
        result = code.body(op, inputs, lambda loop: self._index(places[loop], point))
        if isinstance(result, Affine):
            return result
        if isinstance(result, Whole):
            return Affine(result)
        return code.value(result, yields_of(op.body.block)[0].type)

    def _index(self, place: AffineExpr | None, point: Point) -> Index:
        if place is None:
            return 0
        return index_at(self.b, linear(place, max(point) + 1), point)


def _as_index(number: SSAValue) -> arith.IndexCastOp:
    return arith.IndexCastOp(number, IndexType())


def index_at(b: HoistingEmitter, index: Linear, point: Point) -> Index:
    """Emits the value of a linear function of loops at a point."""
    total: Index = index.start
    for loop, (first, added) in point.items():
        total = b.plus(total, b.times(b.plus(first, added), index.factors[loop]))
    return total
