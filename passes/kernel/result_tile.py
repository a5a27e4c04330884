"""Computes positions of invocations and elements, and addresses along walks (groups of loops)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.layout import Layout, Walk
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import BATCH, COLUMNS, ROWS


@dataclass(frozen=True)
class Address:
    """
    An offset in memory, `base` + `constant`, and the coordinates of the element to check.

    The constant is separate, so that neighbouring accesses share `base` and use the constant as an
    immediate.
    """

    base: Index
    constant: Size
    coordinates: tuple[Index, ...]

    def plus(self, b: KernelEmitter, other: Address) -> Address:
        return Address(
            b.plus(self.base, other.base),
            self.constant + other.constant,
            tuple(map(b.plus, self.coordinates, other.coordinates)),
        )

    def offset(self, b: KernelEmitter) -> Index:
        return b.plus(self.base, self.constant)

    def inside(self, b: KernelEmitter, layout: Layout) -> Condition:
        """
        True if every coordinate with a bounds check lies inside of its dimension.

        Coordinates are compared as unsigned numbers, so a negative coordinate lies outside.
        """
        condition: Condition = True
        for coordinate, guard in zip(self.coordinates, layout.guards, strict=True):
            condition = b.both(condition, b.below(coordinate, guard.size))
        return condition


def origin(layout: Layout) -> Address:
    """Returns the start address of a layout."""
    return Address(0, layout.start, tuple(guard.start for guard in layout.guards))


def address_along(
    b: KernelEmitter, walk: Walk, number: Index, guards: int, ahead: Index = 0, constant: int = 0
) -> Address:
    """
    Returns the address of element `number` + `constant` along a walk (group of loops).

    `ahead` is added to the last axis's index and must not leave this axis.
    """
    if len(walk) > 1 or guards:
        number, constant = b.plus(number, constant), 0
    offset: Index = 0
    coordinates: list[Index] = [0] * guards
    for position in reversed(range(len(walk))):
        axis = walk[position]
        index = number if position == 0 else b.remainder(number, axis.size)
        number = b.divided(number, axis.size) if position else 0
        if position == len(walk) - 1:
            index = b.plus(index, ahead)
        offset = b.plus(offset, b.times(index, axis.stride))
        for i, step in enumerate(axis.steps):
            coordinates[i] = b.plus(coordinates[i], b.times(index, step))
    return Address(offset, constant * walk[0].stride if walk else 0, tuple(coordinates))


def offset_along(b: KernelEmitter, layout: Layout, walk: int, number: Index) -> Index:
    """Returns the memory offset of element `number` along a layout's walk (group of loops)."""
    return address_along(b, layout.walks[walk], number, 0).base


@dataclass(frozen=True)
class Place:
    """
    The position of an invocation: its workgroup's tile, its subgroup, its lane and its slice of K.
    """

    batch: Index
    tile_row: Index
    tile_column: Index
    invocation: SSAValue
    subgroup: Index
    lane: SSAValue
    subgroup_row: Index
    subgroup_column: Index
    slice: Index = 0


@dataclass(frozen=True)
class Part:
    """The part of an operand that a subgroup multiplies, and the invocation's position."""

    batch: Index
    tile: Index
    """Index of the workgroup's tile along M (for A) or N (for B)."""
    invocation: SSAValue
    invocations: int
    lane: SSAValue
    subgroup: Index = 0
    """Index of the subgroup along M or N in the workgroup."""
    subgroups: int = 1
    """Number of subgroups along M or N in the workgroup."""
    count: int = 1
    """Number of the subgroup's fragments along M or N."""
    slice: Index = 0
    """Index of the subgroup's slice of a K tile."""
    depth: int = 0
    """Size of a slice along K, in elements."""

    def first_fragment(self, b: KernelEmitter, is_only_tile: bool = False) -> Index:
        """Returns the index of the subgroup's first fragment along M or N."""
        tile = 0 if is_only_tile else b.times(self.tile, self.subgroups * self.count)
        return b.plus(tile, b.times(self.subgroup, self.count))


class BatchTile:
    """Computes the memory offsets of one batch's elements, in the result and epilogue operands."""

    def __init__(self, builder: KernelEmitter, batch: Index):
        self.builder, self.batch = builder, batch

    def offset(self, row: Index, column: Index, layout: Layout) -> Index:
        """Returns the offset of a result element's position in a layout."""
        b = self.builder
        offset: Index = layout.start
        for walk, number in zip(layout.walks, (self.batch, row, column), strict=True):
            offset = b.plus(offset, address_along(b, walk, number, 0).base)
        return offset


class ResultTile(BatchTile):
    """A subgroup's part of the result, which starts at `row` and `column`."""

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        super().__init__(builder, place.batch)
        self.plan, self.place = plan, place
        self.m, self.n, _ = plan.schedule.instruction.sizes
        tile_m, tile_n, _ = plan.schedule.tile
        rows, columns = plan.schedule.grid
        b = builder
        self.row = b.plus(
            b.times(place.tile_row, tile_m), b.times(place.subgroup_row, tile_m // rows)
        )
        self.column = b.plus(
            b.times(place.tile_column, tile_n), b.times(place.subgroup_column, tile_n // columns)
        )

    def offset(self, row: Index, column: Index, layout: Layout | None = None) -> Index:
        """Returns an element's offset in a layout; default: the result's layout."""
        b, layout = self.builder, layout or self.plan.result.layout
        rows, columns = (
            offset_along(b, layout, walk, number)
            for walk, number in ((ROWS, row), (COLUMNS, column))
        )
        start = b.plus(offset_along(b, layout, BATCH, self.place.batch), layout.start)
        return b.plus(b.plus(rows, columns), start)

    def inside(self, row: Index, column: Index) -> Condition:
        """
        Returns the condition that an element lies inside of the result. It is True where whole
        tiles divide the result.
        """
        b, contraction = self.builder, self.plan.contraction
        tile_m, tile_n, _ = self.plan.schedule.tile
        inside = is_multiple(contraction.m, tile_m) or b.below(row, contraction.m)
        return b.both(inside, is_multiple(contraction.n, tile_n) or b.below(column, contraction.n))

    def fragment_inside(self, at: tuple[Index, Index]) -> Condition:
        """True if the fragment at this corner lies completely inside of the result."""
        row, column = self.builder.plus(at[0], self.m - 1), self.builder.plus(at[1], self.n - 1)
        return self.inside(row, column)
