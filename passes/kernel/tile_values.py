"""
Represents tiles while code is written: computed when they are read, or held in registers.

A load, a range or an elementwise map is a function from a spot (a register of a layout) to a
scalar; its code is emitted at the first use. Results of products and reductions, and loop-carried
tiles, are held in a layout. Reads in another layout go through Workgroup memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv, tile
from xdsl_spirv.dialects.schedule import bit_width
from xdsl_spirv.passes.analysis.linalg_code import number_of_type
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import load_element
from xdsl_spirv.passes.kernel.matrix_values import (
    COLUMN_MAJOR,
    ROW_MAJOR,
    load_matrix,
    put_together,
    store_matrix,
)
from xdsl_spirv.passes.kernel.tile_code import Home, Layout, Matrices, Spot, TileEmitter

LAYOUTS = ROW_MAJOR, COLUMN_MAJOR
"""Memory layouts of cooperative loads: for a matrix, and for its transpose."""


@dataclass(frozen=True)
class View:
    """A view of a kernel buffer; `buffer` is the 1-D view of all its elements."""

    buffer: SSAValue
    offset: Index
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    is_written: bool

    @property
    def element(self) -> Attribute:
        """Element type."""
        return self.buffer.type.element_type  # pyright: ignore


class TileValue(ABC):
    """A tile of the program, while code is written."""

    def __init__(self, b: TileEmitter, type: tile.TileType, home: Layout | None):
        """
        `home` is the layout in which the tile is cheapest to read. None if all layouts cost the
        same.
        """
        self.b, self.type, self.home = b, type, home

    @abstractmethod
    def at(self, spot: Spot) -> SSAValue:
        """Returns the element in a register of a layout, which must have the tile's axes."""

    @property
    def layout(self) -> Layout:
        """The cheapest layout, or by default one that distributes elements over all invocations."""
        return self.home or self.b.schedule.spread(self.type.shape)

    def in_home(self, home: Home) -> list[SSAValue]:
        """Returns the SSA values that hold the tile as matrices or in a layout, as `home` says."""
        if isinstance(home, Matrices):
            return in_matrices(self, home)
        return [self.at(spot) for spot in spots_of(home)]


def spots_of(layout: Layout) -> list[Spot]:
    """Lists the registers of a layout."""
    return [Spot(layout, register) for register in range(layout.count)]


class Stored:
    """A tile in Workgroup memory, row by row. `pad` unused elements follow each row."""

    def __init__(self, value: TileValue, pad: int = 0):
        self.b, self.value = value.b, value
        self.shape = (*value.type.shape[:-1], value.type.shape[-1] + pad)
        self.memory = self.b.room(value.type.element, self.shape)

    def fill(self) -> Stored:
        """Stores all elements of the tile, and returns this object."""
        b, layout = self.b, self.value.layout
        values = self.value.in_home(layout)
        b.will_write(self.memory)
        places = [b.coordinates(spot) for spot in spots_of(layout)]

        def write() -> None:
            for place, element in zip(places, values, strict=True):
                b.store(element, self.memory, place)

        b.when(b.owner(layout), write)
        return self

    def matrix(self, matrices: Matrices, number: tuple[int, int], turned: bool) -> SSAValue:
        """
        Loads the matrix with index `number` from the tile, or from its transpose if `turned`. The
        caller must call `will_read` before.
        """
        b, first = self.b, corner_of(self.b, matrices, number)
        place, type = first[::-1] if turned else first, matrices.type_of(self.value.type.element)
        stride, layout = self.shape[-1], LAYOUTS[turned]
        return load_matrix(b, type, self.memory, place, stride, layout, shared=True)


class Held(TileValue):
    """A tile held in `values`: scalars of a layout, or cooperative matrices, row by row."""

    def __init__(self, b: TileEmitter, type: tile.TileType, held: Home, values: Sequence[SSAValue]):
        super().__init__(b, type, held.layout)
        self.held, self.values = held, list(values)

    def at(self, spot: Spot) -> SSAValue:
        b, held = self.b, self.held
        if spot.layout != held.layout:
            make = lambda: self.through_memory(spot.layout)  # noqa: E731
            return b.remembered((self, spot.layout), b.depth, make)[spot.register]
        if isinstance(held, Layout):
            return self.values[spot.register]
        assert held.fragment is not None
        number, component = divmod(spot.register, held.fragment.components)
        extract = lambda: b.add(spv.CompositeExtractOp(self.values[number], [component]))  # noqa: E731
        return b.remembered((self, spot.register), b.depth, extract)

    def through_memory(self, layout: Layout) -> list[SSAValue]:
        """
        Stores the tile in Workgroup memory (matrices by cooperative stores), and reads the elements
        of `layout` from there.
        """
        b, held, place = self.b, self.held, Stored(self)
        if isinstance(held, Layout):
            place.fill()
        else:
            b.will_write(place.memory)
            for value, number in zip(self.values, held.numbers, strict=True):
                first = corner_of(b, held, number)
                store_matrix(b, value, place.memory, first, place.shape[-1], shared=True)
        b.will_read(place.memory)
        values = [b.load(place.memory, b.coordinates(spot)) for spot in spots_of(layout)]
        b.give_back(place.memory)
        return values


def corner_of(b: TileEmitter, matrices: Matrices, number: tuple[int, int]) -> list[Index]:
    """Returns first row and column of a subgroup's matrix in the tile."""
    subgroup = b.subgroup_id(b.schedule.subgroups)
    places = b.divided(subgroup, matrices.grid[1]), b.remainder(subgroup, matrices.grid[1])
    return [
        b.plus(b.times(place, step), n * size)
        for place, step, n, size in zip(places, matrices.steps, number, matrices.shape, strict=True)
    ]


def in_matrices(value: TileValue, matrices: Matrices) -> list[SSAValue]:
    """Converts a tile to cooperative matrices."""
    if isinstance(value, Held) and value.held == matrices:
        return value.values
    b, element = value.b, value.type.element
    if isinstance(value, Lazy) and value.splat is not None:
        return [b.at_top(spv.ConstantOp(value.splat, matrices.type_of(element)))] * matrices.count
    layout = matrices.layout
    if layout is None:
        place = Stored(value).fill()
        b.will_read(place.memory)
        parts = [place.matrix(matrices, number, False) for number in matrices.numbers]
        b.give_back(place.memory)
        return parts
    return join_matrices(value, matrices, layout)


def join_matrices(value: TileValue, matrices: Matrices, layout: Layout) -> list[SSAValue]:
    """Builds cooperative matrices from the invocation's own components."""
    b, result = value.b, list[SSAValue]()
    assert matrices.fragment is not None
    count = matrices.fragment.components
    type, zero = matrices.type_of(value.type.element), number_of_type(0.0, value.type.element)
    for number in range(matrices.count):
        whole = b.once(("zero", type), lambda: spv.ConstantOp(zero, type))
        spots = (Spot(layout, number * count + component) for component in range(count))
        result.append(put_together(b, map(value.at, spots), whole))
    return result


class Lazy(TileValue):
    """A tile whose elements are computed when read, once for each scope and register."""

    def __init__(
        self,
        b: TileEmitter,
        type: tile.TileType,
        element: Callable[[Spot], SSAValue],
        home: Layout | None = None,
        splat: IntegerAttr | FloatAttr | None = None,
    ):
        super().__init__(b, type, home)
        self._element, self.splat = element, splat

    def at(self, spot: Spot) -> SSAValue:
        return self.b.remembered((self, spot), self.b.depth, lambda: self._element(spot))


class Box(Lazy):
    """A tile that is loaded from a view, from indices `firsts` on."""

    def __init__(
        self,
        b: TileEmitter,
        type: tile.TileType,
        view: View,
        firsts: Sequence[Index],
        outside: IntegerAttr | FloatAttr | None,
        guarded: bool,
    ):
        super().__init__(b, type, self.load)
        self.view, self.firsts = view, firsts
        self.outside, self.guarded = outside, guarded

    def load(self, spot: Spot) -> SSAValue:
        """Loads a register's element; returns `outside` for an element outside of the view."""
        b = self.b
        number, inside = element_of(b, self.view, self.firsts, b.coordinates(spot))
        return guarded_load(b, self.view, number, inside if self.guarded else True, self.outside)

    def is_inside(self) -> bool:
        """True if every element is known to lie inside of the view."""
        shape = (*([1] * (len(self.firsts) - len(self.type.shape))), *self.type.shape)
        for first, count, size in zip(self.firsts, shape, self.view.sizes, strict=True):
            bound = self.b.bound(first)
            if bound is None or not isinstance(size, int) or bound - 1 + count > size:
                return False
        return True

    def matrix_stride(self, row: int) -> int | None:
        """Returns the row stride in elements if cooperative loads are possible, else None."""
        b, view = self.b, self.view
        if len(view.strides) < 2 or view.strides[-1] != 1:
            return None
        stride, bits = view.strides[-2], bit_width(self.type.element)
        unit = b.target.count_aligned(row, bits)
        start, _ = element_of(b, view, self.firsts, ())
        if not isinstance(stride, int) or stride % unit or b.multiple(start) % unit:
            return None
        return stride


class Moved(Lazy):
    """
    A tile that reads the source at index[n] for each n in `axes`, or at 0 for None: a broadcast, a
    transpose, or a reshape that adds or drops axes of size 1.
    """

    def __init__(
        self,
        source: TileValue,
        type: tile.TileType,
        axes: Sequence[int | None],
        home: Layout | None,
    ):
        super().__init__(source.b, type, lambda spot: source.at(self._spot(spot)), home)
        self.source, self.axes = source, tuple(axes)

    @property
    def is_transpose(self) -> bool:
        """True for the transpose of a tile with two axes."""
        return self.axes == (1, 0)

    def _spot(self, spot: Spot) -> Spot:
        """
        Returns the register of the source that corresponds to a register of this tile, each with
        its layout.
        """
        select = lambda: spot.layout.select_axes(self.axes)  # noqa: E731
        layout = self.b.remembered(("chosen", spot.layout, self.axes), 0, select)
        place = spot.layout.registers[spot.register]
        wanted = tuple(0 if axis is None else place[axis] for axis in self.axes)
        return Spot(layout, layout.numbers[wanted])


def element_of(
    b: TileEmitter, view: View, firsts: Sequence[Index], places: Sequence[Index]
) -> tuple[Index, Condition]:
    """
    Returns an element's index in the buffer, and the condition that it lies in the view.

    The element is at `places` in the box that begins at `firsts`. `places` may lack leading zeros.
    """
    places = (*([0] * (len(firsts) - len(places))), *places)
    number, inside = view.offset, True
    for first, place, size, stride in zip(firsts, places, view.sizes, view.strides, strict=True):
        index = b.plus(first, place)
        inside = b.both(inside, b.below(index, size))
        number = b.plus(number, b.times(index, stride))
    return number, inside


def guarded_load(
    b: TileEmitter,
    view: View,
    number: Index,
    inside: Condition,
    outside: IntegerAttr | FloatAttr | None,
) -> SSAValue:
    """Loads an element; returns `outside`, without an invalid access, if `inside` is false."""
    number = b.index_inside(inside, number)
    if inside is False:
        return b.constant(outside or number_of_type(0.0, view.element))
    free = not view.is_written
    value = (
        b.pure(load_element, view.buffer, b.index(number))
        if free
        else b.load(view.buffer, [number])
    )
    if inside is True or outside is None:
        return value
    return b.select(inside, value, b.constant(outside))


def reshape(value: TileValue, type: tile.TileType) -> Held:
    """Returns the tile in another shape: stores it in Workgroup memory, and reads it in order."""
    b, layout, stored = value.b, value.b.schedule.spread(type.shape), Stored(value).fill()
    b.will_read(stored.memory)
    elements: list[SSAValue] = []
    for spot in spots_of(layout):
        number: Index = 0
        for place, size in zip(b.coordinates(spot), type.shape, strict=True):
            number = b.plus(b.times(number, size), place)
        places: list[Index] = []
        for size in reversed(value.type.shape):
            places.insert(0, b.remainder(number, size))
            number = b.divided(number, size)
        elements.append(b.load(stored.memory, places))
    b.give_back(stored.memory)
    return Held(b, type, layout, elements)
