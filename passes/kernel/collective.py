"""
What the bodies of all scheduled contractions share: the K loop, staging, and where everybody is.

    schedule.collective {                      scf.for %k = 0 to K step TK iter_args(accumulators)
      linalg.fill ins(%0) outs(%d)      ->       stage A and B in Workgroup memory; gpu.barrier
      linalg.generic ins(%a, %b) ...             multiply what is staged onto the accumulators
    }                                          store the accumulators

What multiplies, and who holds which part of the result, is a `Core`'s: one for each instruction
that a schedule may name. The schedule decides everything that has a choice; what it does not fit
is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from xdsl.dialects import gpu, linalg
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import CopyOp, GenericOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import (
    FOR_ATTENTION,
    SCHEDULE,
    AttentionMergeOp,
    AttentionOp,
    CollectiveOp,
    ContractionAttr,
    PackOp,
    RowsAttr,
    WindowAttr,
)
from xdsl_spirv.dialects.schedule.symbolic_sizes import static
from xdsl_spirv.passes import refuse
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of, storage
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.emit.emitter import Index
from xdsl_spirv.passes.emit.kernel import KernelEmitter
from xdsl_spirv.passes.kernel.k_loop import Multiplier, Operand, multiply_tiles
from xdsl_spirv.passes.kernel.result_tile import Place
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.plan import Plan, plan
from xdsl_spirv.passes.schedule.tiles import StagedTile, UnpackedTile


class Core(Multiplier, Protocol):
    """Computes the part of the result that an invocation, or a subgroup, has."""

    def begin(self, init: SSAValue | None) -> Sequence[SSAValue]:
        """The accumulators: the initial value's elements, or 0."""
        ...

    def end(self, totals: Sequence[SSAValue]) -> None:
        """Store what the epilogue makes of the accumulators, nothing outside the results."""
        ...


MakeCore = Callable[[KernelEmitter, Plan, Place], Core]


def lower_collectives(pass_name: str, module: ModuleOp, instruction: str, core: MakeCore) -> None:
    """Write out the body of each kernel whose schedule names the instruction."""
    collectives = [c for c in module.walk() if isinstance(c, CollectiveOp)]
    for collective in collectives:
        last = collective.body.block.last_op
        own = PackOp | AttentionOp | AttentionMergeOp
        if SCHEDULE in collective.attributes or isinstance(last, own):
            continue
        root = scheduled_root(collective)
        if root is None:
            refuse(pass_name, collective, "nothing in it is scheduled: run assign-schedule first")
        schedule = root.attributes[SCHEDULE]
        if isinstance(schedule, WindowAttr | RowsAttr):
            continue
        if not isinstance(schedule, ContractionAttr):
            refuse(pass_name, root, f"{schedule} is not a #schedule.contraction")
        if schedule.instruction.kind.data == instruction:
            _lower(pass_name, module, collective, root, schedule, core)


def lower_packs(pass_name: str, module: ModuleOp, for_attention: bool = False) -> None:
    """
    Write out the body of each kernel that packs an operand into fragments.

    What is packed for an attention is lowered with it, as which element lies where is decided anew.
    """
    for collective in [c for c in module.walk() if isinstance(c, CollectiveOp)]:
        op = collective.body.block.last_op
        if isinstance(op, PackOp) and (FOR_ATTENTION in op.attributes) == for_attention:
            from xdsl_spirv.passes.kernel.packed import lower_pack
            from xdsl_spirv.passes.schedule.packing import plan_packing

            packing_plan = plan_packing(op, target_of(module, pass_name))
            source, destination = op.source, op.destination
            lower_pack(
                KernelEmitter(InsertPoint.before(collective)), source, destination, packing_plan
            )
            Rewriter.erase_op(collective)


def scheduled_root(collective: CollectiveOp) -> linalg.ops.GenericOp | None:
    """The scheduled contraction."""
    for op in collective.body.block.ops:
        if isinstance(op, linalg.ops.GenericOp) and SCHEDULE in op.attributes:
            return op
    return None


def _lower(
    pass_name: str,
    module: ModuleOp,
    collective: CollectiveOp,
    root: linalg.ops.GenericOp,
    schedule: ContractionAttr,
    core: MakeCore,
) -> None:
    """Replace the collective by the code of all invocations."""
    try:
        contraction_plan = plan(contraction_of(root), schedule, target_of(module, pass_name))
        check(contraction_plan)
    except (NotAContraction, ScheduleDoesNotFit) as error:
        refuse(pass_name, root, str(error))
    init: SSAValue | None = None
    for op in collective.body.block.ops:
        if isinstance(op, linalg.ops.CopyOp) and op.outputs[0] is root.outputs[0]:
            init = op.inputs[0]
    a, b = (
        storage(value)[0]
        for value in (contraction_plan.contraction.a, contraction_plan.contraction.b)
    )
    _emit(KernelEmitter(InsertPoint.before(collective)), contraction_plan, core, a, b, init)
    Rewriter.erase_op(collective)


def _emit(
    builder: KernelEmitter,
    plan: Plan,
    make_core: MakeCore,
    a: SSAValue,
    b: SSAValue,
    init: SSAValue | None,
) -> None:
    """The whole kernel body: a * b + init, and what follows; a missing init is 0."""
    place = _place(builder, plan)
    core = make_core(builder, plan, place)
    operands = _operand(builder, plan, place, 0, a), _operand(builder, plan, place, 1, b)
    core.end(multiply_tiles(builder, plan, core, operands, core.begin(init)))


def _operand(b: KernelEmitter, plan: Plan, place: Place, number: int, stored: SSAValue) -> Operand:
    """The code that brings A (0) or B (1) to where it is multiplied."""
    tile = (plan.a, plan.b)[number]
    index = (place.tile_row, place.tile_column)[number]
    subgroup = (place.subgroup_row, place.subgroup_column)[number]
    if isinstance(tile, StagedTile):
        at = place.batch, index, place.invocation, plan.invocations, subgroup
        buffers = 2 if plan.alternates or plan.pipelines else 1
        if tile.in_fragments:
            from xdsl_spirv.passes.kernel.packed import StagedFragments

            operand = StagedFragments(b, stored, tile, at, place.lane, buffers)
        elif tile.unpacking is not None:
            from xdsl_spirv.passes.kernel.unpacked import UnpackedOperand

            operand = UnpackedOperand(b, tile.unpacking, tile, *at, buffers)
        else:
            operand = StagedOperand(b, stored, tile, *at, buffers)
        operand.slice, operand.depth = place.slice, plan.slice_depth
        return operand
    count = plan.schedule.fragments[number]
    in_tile = plan.schedule.tile[number] // plan.schedule.instruction.sizes[number]
    first = b.plus(b.times(index, in_tile), b.times(subgroup, count))
    part = count, plan.slice_depth
    if isinstance(tile, UnpackedTile):
        from xdsl_spirv.passes.kernel.unpacked_fragments import UnpackedFragments

        return UnpackedFragments(b, tile, place.batch, first, place.lane, part, place.slice)
    from xdsl_spirv.passes.kernel.packed import PackedOperand

    return PackedOperand(b, stored, tile, place.batch, first, place.lane, part, place.slice)


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
    The workgroup's tile along the raster's dimension, and across it.

    In groups, workgroups that follow each other go across a group before they go along it, so that
    those which run at a time share what they read of both operands.
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
    # Where a size is not known, groups are of one.
    (width,) = static([width])
    if last := width % group:
        whole = b.below(before, width - last)
        along = b.select(whole, along, b.divided(within, last))
        across = b.select(whole, across, b.remainder(within, last))
    return along, b.plus(before, across)


def lower_roots(
    name: str,
    module: ModuleOp,
    schedule: type[Attribute],
    emit: Callable[[CollectiveOp, GenericOp, SSAValue | None], None],
) -> None:
    """
    Write out every collective whose contraction has a schedule of a kind, for the pass `name`.

    `emit` is given the collective, its contraction and what the result starts from, and writes the
    code before the collective, which is gone then. Raises what `refuse` does for what does not fit.
    """
    for collective in [c for c in module.walk() if isinstance(c, CollectiveOp)]:
        root = scheduled_root(collective)
        if root is None or not isinstance(root.attributes[SCHEDULE], schedule):
            continue
        init: SSAValue | None = None
        for op in collective.body.block.ops:
            if isinstance(op, CopyOp) and op.outputs[0] is root.outputs[0]:
                init = op.inputs[0]
        try:
            emit(collective, root, init)
        except (NotAContraction, ScheduleDoesNotFit) as error:
            refuse(name, root, str(error))
        Rewriter.erase_op(collective)
