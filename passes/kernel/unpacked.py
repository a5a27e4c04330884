"""
Dequantizes an operand while copying it from packed planes into Workgroup memory.

An invocation copies units: elements along K that are dequantized together. It loads a unit's part
of each plane, up to 16 bytes at a time. The elements are computed four at a time, immediately
before their store, so packed data, not elements, waits in registers for the next tile. Factors
that are equal for all elements of a unit (a scale, or the product of two) are computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, i32
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.schedule import FlatViewOp, PackedViewOp, SelectedViewOp, bit_width
from xdsl_spirv.passes.analysis.unpacking import VECTOR, Plane, Units, Unpacking
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.elements import WORD_BITS, as_one, components_of
from xdsl_spirv.passes.kernel.result_tile import Address, Part, address_along, origin
from xdsl_spirv.passes.kernel.staging import TileInMemory
from xdsl_spirv.passes.kernel.unit_code import ElementCode, UnitCode
from xdsl_spirv.passes.schedule.tiles import BATCH, INNER, OUTER, StagedTile, vector_type

MOST_BITS = 128


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
            number = builder.load_once(memory.owner.numbers, (batch,))
            self.batch = builder.add(arith.IndexCastOp(number, IndexType()))
            memory = memory.owner.source
        elif isinstance(memory.owner, PackedViewOp):
            memory = memory.owner.source
        name = memory.name_hint or "plane"
        self.view = builder.at_top(FlatViewOp(memory, self.type), f"{name}_elements")

    def load(self, place: Address, part: Index) -> list[SSAValue]:
        """Loads part `part` of the unit at `place`, which is an address in units."""
        b = self.builder
        loads_per_run = self.loads // self.runs
        first = b.times(place.offset(b), self.loads * self.split)
        if self.split > 1:
            first = b.plus(first, b.times(part, loads_per_run))
        return [
            b.load(self.view, (b.plus(first, run * loads_per_run * self.split + number),))
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
        """Loads all planes for the unit with index `unit` along K and `outer` along M or N."""
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
    """Place of elements that one invocation dequantizes together: row, and index in the row."""

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
            outer = b.select(b.below(outer, tile.extent[0]), outer, 0)
        return Move(row, column, exists, outer)

    def _unit(self, move: Move, k: Index) -> tuple[Index, Condition]:
        """Returns the index along K of a move's unit, and the condition that the unit exists."""
        b = self.builder
        unit = b.plus(b.divided(k, self.unpacking.size), move.column)
        if self.within_k or not self.tile.guarded[1]:
            return unit, True
        return unit, b.below(unit, self.unpacking.units)

    def _load(self, move: Move, begin: Index) -> list[SSAValue]:
        """Loads the planes of the unit that a move copies; unit 0 if the unit does not exist."""
        b = self.builder
        unit, inside = self._unit(move, begin)
        if inside is not True:
            unit = b.select(inside, unit, 0)
        return self.source.load(move.outer, unit)

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
