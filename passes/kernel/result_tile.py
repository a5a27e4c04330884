"""
Gives the place of an invocation, the places of the elements in its part of the result, and the
address for a walk's count.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import Size, is_multiple
from xdsl_spirv.passes.analysis.layout import Layout, Walk
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import BATCH, COLUMNS, ROWS


@dataclass(frozen=True)
class Address:
    """
    The offsets that walks add to the address and to each guarded coordinate.

    The address is `base` + `constant`, kept apart so that what several places share is computed
    once and the rest is an immediate of the load.
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
        Whether every guarded coordinate lies inside its dimension.

        A coordinate below 0 is a large number without a sign.
        """
        condition: Condition = True
        for coordinate, guard in zip(self.coordinates, layout.guards, strict=True):
            condition = b.both(condition, b.below(coordinate, guard.size))
        return condition


def origin(layout: Layout) -> Address:
    """Returns the address at which all walks begin."""
    return Address(0, layout.start, tuple(guard.start for guard in layout.guards))


def address_along(
    b: KernelEmitter, walk: Walk, number: Index, guards: int, ahead: Index = 0, constant: int = 0
) -> Address:
    """
    The address of element `number` + `constant` of a walk, relative to the walk's start.

    `ahead` moves along the last axis only, and must stay inside it.
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
    """Returns what the `number`-th place of a walk adds to an address."""
    return address_along(b, layout.walks[walk], number, 0).base


@dataclass(frozen=True)
class Place:
    """An invocation's position: workgroup tile, subgroup in its grid, lane and slice of K."""

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
    """The part of an operand that a subgroup multiplies, and the invocation that loads from it."""

    batch: Index
    tile: Index
    """The number of the workgroup's tile along M or N."""
    invocation: SSAValue
    invocations: int
    lane: SSAValue
    subgroup: Index = 0
    """The subgroup's row (for A) or column (for B) in the workgroup."""
    subgroups: int = 1
    """The number of these rows or columns."""
    count: int = 1
    """The subgroup's fragments along M or N."""
    slice: Index = 0
    """The number of the slice of a K tile that the subgroup multiplies."""
    depth: int = 0
    """Elements of a slice along K."""

    def first_fragment(self, b: KernelEmitter) -> Index:
        """Returns the number of the subgroup's first fragment along M or N."""
        tile = b.times(self.tile, self.subgroups * self.count)
        return b.plus(tile, b.times(self.subgroup, self.count))


class BatchTile:
    """Offsets of one batch's elements in the result and in other buffers along its loops."""

    def __init__(self, builder: KernelEmitter, batch: Index):
        self.builder, self.batch = builder, batch

    def view(self, memory: SSAValue, element: Attribute) -> SSAValue:
        """A buffer as one row of elements or vectors."""
        name = f"{memory.name_hint or 'result'}_elements"
        return self.builder.at_top(FlatViewOp(memory, element), name)

    def offset(self, row: Index, column: Index, layout: Layout) -> Index:
        """The offset of an element in a layout."""
        b = self.builder
        offset: Index = layout.start
        for walk, number in zip(layout.walks, (self.batch, row, column), strict=True):
            offset = b.plus(offset, address_along(b, walk, number, 0).base)
        return offset


class ResultTile(BatchTile):
    """A subgroup's part of the result: `row` and `column` are where it begins."""

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
        """The offset of an element in the result, or in another buffer along its loops."""
        b, layout = self.builder, layout or self.plan.result.layout
        rows, columns = (
            offset_along(b, layout, walk, number)
            for walk, number in ((ROWS, row), (COLUMNS, column))
        )
        start = b.plus(offset_along(b, layout, BATCH, self.place.batch), layout.start)
        return b.plus(b.plus(rows, columns), start)

    def inside(self, row: Index, column: Index) -> Condition:
        """Whether an element lies inside the result, as far as the shape leaves it open."""
        b, contraction = self.builder, self.plan.contraction
        tile_m, tile_n, _ = self.plan.schedule.tile
        inside = is_multiple(contraction.m, tile_m) or b.below(row, contraction.m)
        return b.both(inside, is_multiple(contraction.n, tile_n) or b.below(column, contraction.n))

    def fragment_inside(self, at: tuple[Index, Index]) -> Condition:
        """Whether a fragment lies inside the result, where its workgroup's tile may not."""
        row, column = self.builder.plus(at[0], self.m - 1), self.builder.plus(at[1], self.n - 1)
        return self.inside(row, column)
