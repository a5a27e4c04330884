"""
Dequantizes an operand: while its tiles are copied into Workgroup memory, or directly in the
invocations that hold its fragments.

A plane is a tensor with one part of the packed weights, and a unit is the elements along K that an
invocation dequantizes together. The dequantizing operation's body computes the elements. Bytes
remain bit fields of words. Factors and addends that adjacent elements share are applied separately
(see `bit_fields`). Four adjacent elements that binary16 can represent exactly are computed in pairs
of binary16.

An invocation copies whole units. It loads a unit's part of each plane, up to 16 bytes at a time.
The elements are computed four at a time, immediately before their store, so packed data, not
elements, waits in registers for the next tile. Factors that are equal for all elements of a unit (a
scale, or the product of two) are computed once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerType, VectorType, f16, f32, i8, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import PackedViewOp, SelectedViewOp, bit_width
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.linalg_code import yields_of
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Plane, Units, Unpacking
from xdsl_spirv.passes.emit.emitter import Condition, Index
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
from xdsl_spirv.passes.kernel.elements import WORD_BITS, as_one, components_of
from xdsl_spirv.passes.kernel.matrix_values import moved_bits, put_together, zeros
from xdsl_spirv.passes.kernel.result_tile import Address, Part, address_along, origin
from xdsl_spirv.passes.kernel.staging import DirectOperand, TileInMemory
from xdsl_spirv.passes.schedule.k_order import inner_axis
from xdsl_spirv.passes.schedule.kinds import MOST_BITS
from xdsl_spirv.passes.schedule.tiles import BATCH, INNER, OUTER, StagedTile, UnitTile, vector_type

SIGNS = 0x80808080
"""Sign bit of each byte of a word."""

IN_EACH_HALF = 0x00010001

BIAS, BIASED, MANTISSA = 1024, 0x6400, 10
"""1024, its binary16 bit pattern, and its number of fraction bits. Its last bit is worth 1."""

EXPONENT = 0x7C00
"""All bits of a binary16 number's exponent."""


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
        self.code = ScalarCode(builder, Known(), keeps=True)
        self.planes = [
            self._scalars(plane, loaded)
            for plane, loaded in zip(unpacking.planes, planes, strict=True)
        ]
        (self.result,) = yields_of(unpacking.op.body.block)
        owner = self.result.owner
        self.wide = owner.input if isinstance(owner, arith.TruncFOp) else self.result
        """
        The value that the unpacking body yields, before a final conversion to a narrower type if
        there is one.
        """

    def _scalars(self, plane: Plane, loaded: Sequence[SSAValue]) -> Sequence[Scalar]:
        """
        Splits a loaded plane into scalars. Marks them as shared if the innermost loop does not
        index the plane.
        """
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
        given = scale, None if offset else addend
        halves = [x and _half_of(x) for x in given]
        is_exact = [x is None for x in halves] == [x is None for x in given]
        if is_exact:
            pairs = [self._affine(x, halves) for x in pairs]
        (first, third), (second, fourth) = (components_of(b, pair) for pair in pairs)
        parts = [first, second, third, fourth]
        four = b.add(spv.CompositeConstructOp(parts, VectorType(f16, [VECTOR])))
        if is_exact:
            return four
        return self._affine(b.add(arith.ExtFOp(four, VectorType(f32, [VECTOR]))), given)

    def _affine(self, x: SSAValue, factors: Sequence[SSAValue | None]) -> SSAValue:
        """Multiplies a vector by the first factor, and adds the second; None stands for neither."""
        once, type = self.code.once, x.type
        return self.code.affine(x, *(f and once(vector.BroadcastOp, f, type) for f in factors))

    def _numbers(self, values: Sequence[SSAValue | Whole], more: int) -> list[SSAValue] | None:
        """
        Converts four integers to two pairs of binary16, with `more` added to each. Returns None if
        binary16 cannot represent them.

        A field that starts at bit `low` of its byte is combined with the exponent of the number
        2^(10 - low), in which this bit has the value 1. The result is that number too large. The
        fields of a word share the operation that sets all bits of the exponents.
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
        kept = BIASED - (bits.low << MANTISSA) | (1 << bits.count) - 1 << bits.low
        mask, exponents = (b.number(each * IN_EACH_HALF, i32) for each in (kept, EXPONENT))
        pairs: list[SSAValue] = []
        for source in (word, b.pure(arith.ShRUIOp, word, b.i32(BYTE))):
            bytes = b.add(arith.AndIOp(b.pure(arith.OrIOp, source, exponents), mask))
            biased = b.add(spv.BitcastOp(bytes, PAIR))
            pairs.append(self.code.correct_float(biased, 0, float(offset - (BIAS >> bits.low))))
        return pairs


def _half_of(number: SSAValue) -> SSAValue | None:
    op = number.owner
    return op.input if isinstance(op, arith.ExtFOp) and op.input.type == f16 else None


def _offset(scale: SSAValue | None, addend: SSAValue | None) -> int:
    """
    Returns the integer c if `addend` is c * `scale`, or c without a scale. It can be added before
    scaling. Returns 0 for other addends.
    """
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


class PlaneSource:
    """
    Reads a plane by units (elements that are dequantized together), in loads of `type`.

    Bytes are loaded as words if possible, other numbers one by one. With `split` above 1, a load
    reads a part of a unit: `runs` contiguous ranges along the innermost loop, one for each
    iteration of the outer loops.
    """

    def __init__(
        self,
        builder: KernelEmitter,
        plane: Plane,
        batch: Index,
        inner: int,
        split: int = 1,
        in_words: bool = False,
    ):
        self.builder, self.plane = builder, plane
        element = plane.element_type
        self.split = split if inner in plane.loops else 1
        self.runs = 1 if self.split == 1 else plane.count // plane.inner
        share = plane.count // self.split
        bits = share // self.runs * bit_width(element)
        in_words |= element == IntegerType(8)
        self.in_words = in_words and bits % WORD_BITS == 0
        together = min(bits & -bits, MOST_BITS) // WORD_BITS
        self.type = vector_type(i32, together) if self.in_words else element
        self.loads = share * bit_width(element) // bit_width(self.type)
        memory = plane.value
        self.batch = batch
        """Index of the part of the plane to read: the batch, or a loaded index."""
        if isinstance(memory.owner, SelectedViewOp):
            numbers = builder.elements_of(memory.owner.numbers)
            number = builder.load_once(numbers, (batch,))
            self.batch = builder.add(arith.IndexCastOp(number, IndexType()))
            memory = memory.owner.source
        elif isinstance(memory.owner, PackedViewOp):
            memory = memory.owner.source
        self.view = builder.flat_view(memory, self.type, "plane")

    def load(self, place: Address, part: Index) -> list[SSAValue]:
        """
        Loads part `part` of a unit (elements that are dequantized together). `place` is the unit's
        address, counted in units.
        """
        b = self.builder
        loads_per_run = self.loads // self.runs
        step = self.plane.apart or 1
        first = b.times(place.offset(b), 1 if self.plane.apart else self.loads * self.split)
        if self.split > 1:
            first = b.plus(first, b.times(part, loads_per_run))
        return [
            b.load(self.view, (b.plus(first, (run * loads_per_run * self.split + number) * step),))
            for run in range(self.runs)
            for number in range(loads_per_run)
        ]


class RowCode(ElementCode):
    """Elements of an unpacked operand, loaded as words."""

    def __init__(self, builder: KernelEmitter, words: Sequence[SSAValue], element: Attribute):
        self.builder, self.words = builder, words
        self.type = vector_type(element, VECTOR)
        self.width = VECTOR * bit_width(element) // WORD_BITS
        """Number of words that hold four elements."""
        self.size = len(words) // self.width * VECTOR

    def four(self, number: int) -> SSAValue:
        b, first = self.builder, number * self.width
        words = self.words[first : first + self.width]
        return b.add(spv.BitcastOp(as_one(b, words, vector_type(i32, self.width)), self.type))


class UnitSource:
    """Reads planes by units (elements that are dequantized together), or by parts of units."""

    def __init__(
        self, builder: KernelEmitter, units: Units, batch: Index, split: int = 1, part: Index = 0
    ):
        self.builder, self.part = builder, part
        inner, is_row = len(units.sizes) - 1, not isinstance(units, Unpacking)
        self.planes = [
            PlaneSource(builder, plane, batch, inner, split, is_row) for plane in units.planes
        ]
        self.units = units.part(split)
        self.loads = sum(plane.loads for plane in self.planes)

    def load(self, outer: Index, unit: Index) -> list[SSAValue]:
        """
        Loads all planes of one unit: the unit with index `unit` along K, in row or column `outer`.
        """
        b = self.builder
        values: list[SSAValue] = []
        for source in self.planes:
            layout = source.plane.layout
            place = origin(layout)
            for walk, number in ((BATCH, source.batch), (OUTER, outer), (INNER, unit)):
                place = place.plus(b, address_along(b, layout.walks[walk], number, 0))
            values += source.load(place, self.part)
        return values

    def code(self, loaded: Sequence[SSAValue], unit: Index) -> ElementCode:
        """Returns the code that computes the elements of one unit from loaded planes."""
        b = self.builder
        rest = list(loaded)
        planes: list[list[SSAValue]] = []
        for source in self.planes:
            own, rest = rest[: source.loads], rest[source.loads :]
            planes.append([part for value in own for part in components_of(b, value)])
        if isinstance(self.units, Unpacking):
            return UnitCode(b, self.units, planes, unit)
        (words,), (plane,) = planes, self.units.planes
        return RowCode(b, words, plane.element_type)


@dataclass(frozen=True)
class Move:
    """
    The elements that one invocation dequantizes together: their row, and the index of their unit in
    the row.
    """

    row: Index
    column: Index
    exists: Condition
    outer: Index


class UnpackedOperand(TileInMemory):
    """Copies packed numbers into Workgroup memory, and dequantizes them before the store."""

    def __init__(
        self,
        builder: KernelEmitter,
        unpacking: Unpacking,
        tile: StagedTile,
        part: Part,
        buffers: int,
    ):
        super().__init__(builder, tile, part, unpacking.planes[0].value.name_hint or "operand")
        self.unpacking = unpacking
        self.source = UnitSource(builder, unpacking, part.batch)
        self.allocate(buffers)
        self.values_of_move = self.source.loads
        self.outer = builder.times(part.tile, tile.shape[0])
        self.row_units = tile.shape[1] // unpacking.size
        self.divide_moves()

    def _move(self, number: Index) -> Move:
        b, tile, width = self.builder, self.tile, self.row_units
        beyond, position = self._is_beyond(number), self._position(number)
        row, column = b.divided(position, width), b.remainder(position, width)
        exists = b.below(row, tile.shape[0]) if beyond else True
        outer = b.plus(self.outer, row)
        if tile.guarded[0] or beyond:
            outer = b.index_inside(b.below(outer, tile.extent[0]), outer)
        return Move(row, column, exists, outer)

    def _unit(self, move: Move, k: Index) -> tuple[Index, Condition]:
        """
        Returns the index along K of the unit that a move copies, and the condition that such a unit
        exists.
        """
        b = self.builder
        unit = b.plus(b.divided(k, self.unpacking.size), move.column)
        return unit, _exists(self, self.unpacking, unit)

    def _load(self, move: Move, begin: Index) -> list[SSAValue]:
        """
        Loads the planes of the unit (elements dequantized together) that a move copies. Loads unit
        0 if that does not exist.
        """
        b = self.builder
        unit, inside = self._unit(move, begin)
        return self.source.load(move.outer, b.index_inside(inside, unit))

    def _store(self, move: Move, values: Sequence[SSAValue], begin: Index) -> None:
        self.builder.when(move.exists, lambda: self._store_elements(move, values, begin))

    def _store_elements(self, move: Move, loaded: Sequence[SSAValue], k: Index) -> None:
        b, tile = self.builder, self.tile
        unit, inside = self._unit(move, k)
        values = self._elements(loaded, unit)
        if inside is not True:
            values = [b.select(inside, value, b.zero(value.type)) for value in values]
        first = b.times(move.column, self.unpacking.size // tile.vector)
        for number, value in enumerate(values):
            b.store(value, self.memory, (self._in_tile(move.row, first, 0, number),))

    def _elements(self, loaded: Sequence[SSAValue], unit: Index) -> list[SSAValue]:
        b, tile = self.builder, self.tile
        fours = self.source.code(loaded, unit).elements()
        together = max(1, tile.vector // VECTOR)
        if tile.vector < VECTOR:
            parts = [x for four in fours for x in components_of(b, four)]
            groups = [parts[i : i + tile.vector] for i in range(0, len(parts), tile.vector)]
        else:
            groups = [fours[i : i + together] for i in range(0, len(fours), together)]
        if tile.as_bits:
            return [b.add(spv.BitcastOp(group[0], tile.moved_type)) for group in groups]
        return [as_one(b, group, tile.moved_type) for group in groups]


def _exists(operand: UnpackedOperand | UnitFragments, units: Units, unit: Index) -> Condition:
    """
    Returns the condition that the operand has a unit (elements dequantized together) with this
    index along K.
    """
    guarded = operand.tile.guarded[1] and not operand.within_k
    return operand.builder.below(unit, units.units) if guarded else True


class UnitFragments(DirectOperand):
    """
    Computes a subgroup's fragments from packed planes. Planes that are read ahead stay packed.

    Each invocation reads its rows of A, or columns of B, by units of elements, in the order of
    `schedule/k_order`. The target's component positions determine which element each component
    holds. Neither Workgroup memory nor exchanges are needed.
    """

    def __init__(self, builder: KernelEmitter, tile: UnitTile, part: Part):
        assert tile.fragment is not None
        assert tile.order is not None
        super().__init__(builder, tile.ahead)
        self.tile = tile
        self.map, self.order, self.lane = tile.fragment, tile.order, part.lane
        is_one = not is_dynamic(tile.extent[0]) and tile.extent[0] <= tile.shape[0]
        first = part.first_fragment(builder, is_one)
        self.axis = inner_axis(tile.fragment)
        self.groups = part.depth // self.order.group
        first_unit = builder.times(part.slice, part.depth // tile.unpacking.size)
        share, split = self._of_lane(self.axis), self.order.split
        self.source = UnitSource(
            builder, tile.unpacking, part.batch, split, builder.remainder(share, split)
        )
        self.own = builder.plus(builder.divided(share, split), first_unit)
        outer = 1 - self.axis
        self.slots = [place[outer] for place in tile.fragment.component.places]
        self.lines = self._lines(first, part.count, outer)
        self.held = self.groups * len(self.lines) * self.source.loads
        self._units: dict[tuple[int, int, int], tuple[ElementCode, Condition]] = {}

    def _of_lane(self, axis: int) -> Index:
        b, bits = self.builder, self.map.lane.bits_along(axis)
        if axis == self.axis:
            bits = [(bit, 1 << rank) for rank, (bit, _) in enumerate(bits)]
        place: Index = 0
        for bit in bits:
            place = moved_bits(b, self.lane, [bit], place)
        return place

    def _lines(self, first: Index, count: int, axis: int) -> dict[tuple[int, int], Index]:
        """
        Maps (number of a fragment, row in it) to the operand's row, for each row that this
        invocation holds. With `axis` 1, the rows are columns. `count` is the number of fragments.
        """
        b, tile = self.builder, self.tile
        size = (self.map.rows, self.map.columns)[axis]
        own = b.plus(b.times(first, size), self._of_lane(axis))
        lines: dict[tuple[int, int], Index] = {}
        # In the only tile, some lines are known to lie inside of the operand, or outside.
        known = tile.extent[0] if first == 0 and not is_dynamic(tile.extent[0]) else None
        lanes = sum(place for _, place in self.map.lane.bits_along(axis))
        for number, slot in product(range(count), self.slots):
            least = number * size + slot
            if known is not None and least >= known:
                continue
            place = b.plus(own, least)
            if tile.guarded[0] and (known is None or least + lanes >= known):
                place = b.select(b.below(place, tile.extent[0]), place, 0)
            lines[number, slot] = place
        return lines

    def begin_ahead(self) -> None:
        self.waiting = self.read(0)

    def enter(self, k: Index, following: Index | None = None) -> None:
        values = self.waiting if self.tile.ahead else self.read(k)
        if following is not None and self.tile.ahead:
            self.waiting = self.read(following)
        rest = iter(values)
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            for line in self.lines:
                loaded = list(islice(rest, self.source.loads))
                self._units[group, *line] = self.source.code(loaded, unit), inside

    def read(self, k: Index) -> list[SSAValue]:
        """Loads the packed planes of the invocation's elements in the K tile at element `k`."""
        values: list[SSAValue] = []
        for group in range(self.groups):
            unit, inside = self._unit(k, group)
            unit = self.builder.index_inside(inside, unit)
            for place in self.lines.values():
                values += self.source.load(place, unit)
        return values

    def _unit(self, k: Index, group: int) -> tuple[Index, Condition]:
        """
        Returns the index along K of the unit that the invocation dequantizes in a group, and the
        condition that the unit exists.
        """
        b, unpacking = self.builder, self.tile.unpacking
        first = b.plus(b.divided(k, unpacking.size), self.own)
        unit = b.plus(first, group * (self.order.group // unpacking.size))
        return unit, _exists(self, unpacking, unit)

    def fragments(self, count: int, k: int, type: spv.CooperativeMatrixType) -> list[SSAValue]:
        return [self.fragment(number, k, type) for number in range(count)]

    def fragment(self, number: int, k: int, type: spv.CooperativeMatrixType) -> SSAValue:
        """Builds fragment `number` along M or N, at element `k` of the current K tile."""
        group, within = divmod(k, self.order.group)
        depth = self.order.parts * self.order.count
        first = within // depth * self.order.count
        b = self.builder
        none = zeros(b, type, "none")
        fours: dict[tuple[int, int], list[SSAValue]] = {}
        rest = {slot: iter(self.order.elements) for slot in self.slots}

        def component(slot: int) -> SSAValue:
            if (number, slot) not in self.lines:
                return b.zero(type.element_type)
            at = first + next(rest[slot])
            key = slot, at // VECTOR
            if key not in fours:
                code, inside = self._units[group, number, slot]
                four = code.four(at // VECTOR)
                if inside is not True:
                    four = b.select(inside, four, b.zero(four.type))
                fours[key] = components_of(b, four)
            return fours[key][at % VECTOR]

        return put_together(b, map(component, self.slots), none)
