"""Chooses the home of each tile: the matrices or the layout that hold the tile's elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from xdsl_spirv.dialects import tile
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.kernel.tile_code import PASS, Schedule
from xdsl_spirv.passes.kernel.tile_layout import Home, Layout
from xdsl_spirv.passes.kernel.tile_products import Product, plan_product

MoveOp: TypeAlias = tile.BroadcastOp | tile.ReshapeOp | tile.TransposeOp
"""An operation that copies elements to other positions."""


def layout_of(home: Home | None) -> Layout | None:
    """Returns the layout in which a tile is held; None if component positions are unknown."""
    return home and home.layout


class Homes:
    """
    Chooses a home (matrices or a layout that hold the elements) for each tile.

    The plan of a product gives its home. A reduction has the home of its operand without the
    reduced axis. An elementwise map has the first home among its operands. Other tiles have no
    home.
    """

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self._plans: dict[Operation, Product | None] = {}
        self._known: dict[SSAValue, Home | None] = {}

    def plan(self, op: tile.MultiplyAddOp) -> Product | None:
        """Returns the plan of a product; None for multiply-adds without matrices."""
        if op not in self._plans:
            self._plans[op] = plan_product(op, self.schedule, lambda text: refuse(PASS, op, text))
        return self._plans[op]

    def find(self, value: SSAValue) -> Home | None:
        """Returns the matrices or the layout that hold a tile; None if neither is chosen."""
        if value not in self._known:
            self._known[value] = self._find(value, {})
        return self._known[value]

    def layout_of_reduction(self, op: tile.ReduceOp) -> Layout:
        """Returns the layout in which a reduction reads its operands."""
        return self._find_reduced(op, {})

    def _find_reduced(self, op: tile.ReduceOp, seen: dict[SSAValue, Home | None]) -> Layout:
        found = layout_of(self._find(op.tiles[0], seen))
        return found or self.schedule.spread(tile.tile_of(op.tiles[0]).shape)

    def _find(self, value: SSAValue, seen: dict[SSAValue, Home | None]) -> Home | None:
        if value not in seen:
            seen[value] = None
            seen[value] = self._derive(value, seen)
        return seen[value]

    def _derive(self, value: SSAValue, seen: dict[SSAValue, Home | None]) -> Home | None:
        owner = value.owner
        if isinstance(owner, Block):
            loop = owner.parent_op()
            if not isinstance(loop, scf.ForOp) or owner.args[0] is value:
                return None
            number = list(owner.args).index(value) - 1  # pyright: ignore[reportArgumentType]
            return self._find(_yield_operand(loop.body.block, number), seen) or self._find(
                loop.iter_args[number], seen
            )
        match owner:
            case tile.MultiplyAddOp():
                plan = self.plan(owner)
                return plan.c if plan else self.schedule.spread(tile.tile_of(value).shape)
            case tile.MapOp():
                homes = (self._find(operand, seen) for operand in owner.tiles)
                return next((home for home in homes if layout_of(home) is not None), None)
            case tile.ReduceOp():
                return self._find_reduced(owner, seen).drop_axis(owner.axis.value.data)
            case tile.TransposeOp() | tile.ReshapeOp():
                found, axes = layout_of(self._find(owner.tile, seen)), source_axes(owner)
                return found.select_axes(axes) if found and axes else None
            case scf.ForOp():
                number = list(owner.results).index(value)  # pyright: ignore[reportArgumentType]
                return self._find(owner.body.block.args[number + 1], seen)
            case scf.IfOp():
                number = list(owner.results).index(value)  # pyright: ignore[reportArgumentType]
                return self._find(_yield_operand(owner.true_region.block, number), seen)
            case _:
                return None


def source_axes(op: MoveOp) -> Sequence[int | None] | None:
    """
    Returns the source axis of each result axis (None: new axis); None for a reshape that changes
    sizes above 1.
    """
    before, after = tile.tile_of(op.tile).shape, tile.tile_of(op.result).shape
    if isinstance(op, tile.TransposeOp):
        return range(len(after))[::-1]
    if isinstance(op, tile.BroadcastOp):
        return [axis if size == after[axis] else None for axis, size in enumerate(before)]
    wide = [axis for axis, size in enumerate(before) if size != 1]
    if [before[axis] for axis in wide] != [size for size in after if size != 1]:
        return None
    left = iter(wide)
    return [None if size == 1 else next(left) for size in after]


def _yield_operand(block: Block, number: int) -> SSAValue:
    last = block.last_op
    assert isinstance(last, scf.YieldOp)
    return last.operands[number]
