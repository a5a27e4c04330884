"""
Where an invocation finds itself, and where the elements of its part of the result lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects.schedule import FlatViewOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_multiple
from xdsl_spirv.passes.analysis.layout import Layout
from xdsl_spirv.passes.emit.emitter import Condition, Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.addresses import address_along
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import BATCH, COLUMNS, ROWS


@dataclass(frozen=True)
class Place:
    """An invocation's position: workgroup tile, subgroup in the grid of subgroups, lane, slice."""

    batch: Index
    tile_row: Index
    tile_column: Index
    invocation: SSAValue
    subgroup: Index
    lane: SSAValue
    subgroup_row: Index
    subgroup_column: Index
    slice: Index = 0


class ResultTile:
    """A subgroup's part of the result: `row` and `column` are where it begins."""

    def __init__(self, builder: KernelEmitter, plan: Plan, place: Place):
        self.builder, self.plan, self.place = builder, plan, place
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

    def view(self, memory: SSAValue, element: Attribute) -> SSAValue:
        """The result's buffer, or the initial value's, as one row of elements or vectors."""
        name = f"{memory.name_hint or 'result'}_elements"
        return self.builder.at_top(FlatViewOp(memory, element), name)

    def offset(self, row: Index, column: Index, layout: Layout | None = None) -> Index:
        """The offset of an element in the result, or in another buffer along its loops."""
        b, layout = self.builder, layout or self.plan.result
        rows, columns = (
            address_along(b, layout.walks[walk], number, 0).base
            for walk, number in ((ROWS, row), (COLUMNS, column))
        )
        start = b.plus(
            address_along(b, layout.walks[BATCH], self.place.batch, 0).base, layout.start
        )
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
