"""
Writes the code that all contractions on tiles share: K loop, staging and tile positions.

    schedule.collective {                      scf.for %k = 0 to K step TK iter_args(accumulators)
      linalg.fill ins(%0) outs(%d)      ->       stage A and B in Workgroup memory; gpu.barrier
      linalg.generic ins(%a, %b) ...             add the product of A and B to the accumulators
    }                                          store the accumulators

A `Core` multiplies tiles and assigns parts of the result to invocations. There is one core for
each instruction that a schedule may name. The schedule makes all choices; a contraction that does
not fit its schedule is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects import gpu
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import CollectiveOp, PackOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.passes.analysis.contraction import storage
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.k_loop import Core, KLoop, Operand
from xdsl_spirv.passes.kernel.result_tile import Part, Place
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.schedule.plan import Plan
from xdsl_spirv.passes.schedule.tiles import StagedTile, UnitTile

if TYPE_CHECKING:
    from xdsl_spirv.passes.schedule.packing import PackPlan


MakeCore = Callable[[KernelEmitter, Plan, Place], Core]


def write_contraction(
    make_core: MakeCore, builder: KernelEmitter, plan: Plan, collective: CollectiveOp
) -> None:
    """
    Writes the kernel of a contraction whose schedule names an instruction: a * b, and the epilogue.
    """
    place, contraction = _place(builder, plan), plan.contraction
    core = make_core(builder, plan, place)
    a, b = (
        _operand(builder, plan, place, number, storage(value)[0])
        for number, value in enumerate((contraction.a, contraction.b))
    )
    totals = core.begin()
    core.end(KLoop(builder, plan, core, (a, b)).write(totals), (a, b))


def write_pack(builder: KernelEmitter, plan: PackPlan, collective: CollectiveOp) -> None:
    """Writes the kernel that packs an operand."""
    from xdsl_spirv.passes.kernel.packed import pack

    op = collective.body.block.last_op
    assert isinstance(op, PackOp)
    pack(builder, op, plan)


def _operand(b: KernelEmitter, plan: Plan, place: Place, number: int, stored: SSAValue) -> Operand:
    """Creates the object that loads A (`number` 0) or B (1) for multiplication."""
    tile, buffers = (plan.a, plan.b)[number], plan.pipeline.buffers
    part = Part(
        place.batch,
        (place.tile_row, place.tile_column)[number],
        place.invocation,
        plan.invocations,
        place.lane,
        (place.subgroup_row, place.subgroup_column)[number],
        plan.schedule.grid[number],
        plan.schedule.fragments[number],
        place.slice,
        plan.slice_depth,
    )
    if isinstance(tile, UnitTile):
        from xdsl_spirv.passes.kernel.unpacked_fragments import UnitFragments

        return UnitFragments(b, tile, part)
    if not isinstance(tile, StagedTile):
        from xdsl_spirv.passes.kernel.packed import PackedOperand

        return PackedOperand(b, stored, tile, part)
    if tile.in_fragments:
        from xdsl_spirv.passes.kernel.packed import StagedFragments

        return StagedFragments(b, stored, tile, part, buffers)
    if tile.unpacking is not None:
        from xdsl_spirv.passes.kernel.unpacked import UnpackedOperand

        return UnpackedOperand(b, tile.unpacking, tile, part, buffers)
    return StagedOperand(b, stored, tile, part, buffers)


def _place(b: KernelEmitter, plan: Plan) -> Place:
    along, across = _tile_place(b, plan)
    row, column = (across, along) if plan.schedule.raster.data == "rows" else (along, across)
    rows, columns = plan.schedule.grid
    subgroup = b.subgroup_id(plan.schedule.subgroup_count)
    in_slice, slice = subgroup, 0
    if plan.schedule.slices > 1:
        in_slice, slice = b.remainder(subgroup, rows * columns), b.divided(subgroup, rows * columns)
    batched = plan.contraction.batch != 1
    return Place(
        batch=b.block_id(gpu.DimensionEnum.Z, "batch") if batched else 0,
        tile_row=row,
        tile_column=column,
        invocation=b.thread_id(),
        subgroup=subgroup,
        lane=b.lane_id(),
        subgroup_row=b.divided(in_slice, columns),
        subgroup_column=b.remainder(in_slice, columns),
        slice=slice,
    )


def _tile_place(b: KernelEmitter, plan: Plan) -> tuple[Index, Index]:
    """
    Returns the workgroup's tile indices: along the raster dimension, and across it.

    With raster groups, consecutive workgroups fill a group across the raster dimension first, so
    that concurrent workgroups read the same parts of both operands.
    """
    by_rows = plan.schedule.raster.data == "rows"
    names = ("tile_column", "tile_row") if by_rows else ("tile_row", "tile_column")
    dimensions = gpu.DimensionEnum.X, gpu.DimensionEnum.Y
    x, y = (b.block_id(*axis) for axis in zip(dimensions, names, strict=True))
    length, width, _ = plan.grid
    group = plan.raster_group
    if group == 1:
        return x, y
    number = b.plus(b.times(y, length), x)
    before = b.times(b.divided(number, group * length), group)
    within = b.remainder(number, group * length)
    along, across = b.divided(within, group), b.remainder(within, group)
    # Groups above 1 require static sizes.
    (width,) = static([width])
    if last := width % group:
        whole = b.below(before, width - last)
        along = b.select(whole, along, b.divided(within, last))
        across = b.select(whole, across, b.remainder(within, last))
    return along, b.plus(before, across)
