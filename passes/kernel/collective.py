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
from typing import Protocol, TypeAlias

from xdsl.dialects import gpu, linalg
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.schedule import (
    FOR_ATTENTION,
    SCHEDULE,
    AttentionOp,
    CollectiveOp,
    ContractionAttr,
    PackOp,
    WindowAttr,
)
from xdsl_spirv.passes.kernel.builder import Index, KernelBuilder
from xdsl_spirv.passes.kernel.packed import PackedOperand, lower_pack
from xdsl_spirv.passes.kernel.result import Place
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.contraction import NotAContraction, contraction_of, storage
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.packing import plan_packing
from xdsl_spirv.passes.schedule.plan import Plan, StagedTile, plan
from xdsl_spirv.passes.schedule.target import target_of

Operand: TypeAlias = StagedOperand | PackedOperand


class Core(Protocol):
    """What an invocation, or a subgroup, does with its part of the result."""

    def begin(self, init: SSAValue | None) -> Sequence[SSAValue]:
        """The accumulators: the initial value's elements, or 0."""
        ...

    def multiply(self, a: Operand, b: Operand, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The accumulators after one K tile."""
        ...

    def end(self, totals: Sequence[SSAValue]) -> None:
        """What is made of the accumulators into the results, and nothing outside them."""
        ...


MakeCore = Callable[[KernelBuilder, Plan, Place], Core]


def lower_collectives(pass_name: str, module: ModuleOp, instruction: str, core: MakeCore) -> None:
    """Write out the body of each kernel whose schedule names the instruction."""
    collectives = [c for c in module.walk() if isinstance(c, CollectiveOp)]
    for collective in collectives:
        last = collective.body.block.last_op
        if SCHEDULE in collective.attributes or isinstance(last, PackOp | AttentionOp):
            continue
        root = scheduled_root(collective)
        if root is None:
            refuse(pass_name, collective, "nothing in it is scheduled: run assign-schedule first")
        schedule = root.attributes[SCHEDULE]
        if isinstance(schedule, WindowAttr):
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
            made = plan_packing(op.source, op.packing, target_of(module, pass_name))
            source, destination = op.source, op.destination
            builder, after = builder_in_place_of(collective)
            lower_pack(builder, source, destination, made)
            builder.finish()
            collective.erase()
            builder.entry.add_ops(after)


def builder_in_place_of(collective: CollectiveOp) -> tuple[KernelBuilder, list[Operation]]:
    """A builder in the place of a collective, and what follows it, for the time being detached."""
    block = collective.parent_block()
    assert block is not None
    after = list(block.ops)
    after = after[after.index(collective) + 1 :]
    for op in after:
        op.detach()
    collective.detach()
    return KernelBuilder(block), after


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
        made = plan(contraction_of(root), schedule, target_of(module, pass_name))
        check(made)
    except (NotAContraction, ScheduleDoesNotFit) as error:
        refuse(pass_name, root, str(error))
    init: SSAValue | None = None
    for op in collective.body.block.ops:
        if isinstance(op, linalg.ops.CopyOp) and op.outputs[0] is root.outputs[0]:
            init = op.inputs[0]
    a, b = (storage(value)[0] for value in (made.contraction.a, made.contraction.b))
    builder, after = builder_in_place_of(collective)
    _emit(builder, made, core, a, b, init)
    builder.finish()
    collective.erase()
    builder.entry.add_ops(after)


def _emit(
    builder: KernelBuilder,
    made: Plan,
    make_core: MakeCore,
    a: SSAValue,
    b: SSAValue,
    init: SSAValue | None,
) -> None:
    """The whole kernel body: a * b + init, and what follows; a missing init is 0."""
    place = _place(builder, made)
    core = make_core(builder, made, place)
    operands = _operand(builder, made, place, 0, a), _operand(builder, made, place, 1, b)
    totals = _multiply(builder, made, core, operands, core.begin(init))
    core.end(totals)


def _operand(b: KernelBuilder, made: Plan, place: Place, number: int, stored: SSAValue) -> Operand:
    """The code that brings A (0) or B (1) to where it is multiplied."""
    tile = (made.a, made.b)[number]
    index = (place.tile_row, place.tile_column)[number]
    if isinstance(tile, StagedTile):
        invocations = made.invocations
        return StagedOperand(b, stored, tile, place.batch, index, place.invocation, invocations)
    fragments = made.schedule.tile[number] // made.schedule.instruction.sizes[number]
    return PackedOperand(b, stored, tile, place.batch, b.times(index, fragments), place.lane)


def _multiply(
    builder: KernelBuilder,
    made: Plan,
    core: Core,
    operands: tuple[Operand, Operand],
    accumulators: Sequence[SSAValue],
) -> Sequence[SSAValue]:
    """The K loop: each tile staged, then multiplied."""
    a, b = operands
    size, tile = made.contraction.k, made.schedule.tile[2]
    staged = [each for each in operands if isinstance(each, StagedOperand)]

    def load(k: Index) -> list[list[SSAValue]]:
        return [each.load_all(k) for each in staged]

    def multiply(
        k: Index, moved: Sequence[Sequence[SSAValue]], carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        if staged and made.is_looped:
            builder.barrier()
        for each, values in zip(staged, moved, strict=True):
            each.store_all(values, k)
        if staged:
            builder.barrier()
        for each in operands:
            each.enter(k)
        return core.multiply(a, b, carried)

    def step(k: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return multiply(k, load(k), carried)

    def step_ahead(k: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        totals, waiting = carried[: len(accumulators)], list(carried[len(accumulators) :])
        moved = [[waiting.pop(0) for _ in each.moves] for each in staged]
        following = builder.plus(k, tile)
        # After the last tile the first one is read again, for nothing.
        ahead = load(builder.select(builder.below(following, size), following, 0))
        results = multiply(k, moved, totals)
        return [*results, *(value for each in ahead for value in each)]

    if not made.prefetches:
        return builder.loop(size, tile, accumulators, step, "k")
    first = [value for each in load(0) for value in each]
    results = builder.loop(size, tile, [*accumulators, *first], step_ahead, "k")
    return results[: len(accumulators)]


def _place(b: KernelBuilder, made: Plan) -> Place:
    by_rows = made.schedule.raster.data == "rows"
    along, across = gpu.DimensionEnum.X, gpu.DimensionEnum.Y
    column = b.block_id(along if by_rows else across, "tile_column")
    row = b.block_id(across if by_rows else along, "tile_row")
    _, columns = made.schedule.grid
    many = made.schedule.subgroup_count > 1
    subgroup: Index = b.at_top(gpu.SubgroupIdOp(), "subgroup") if many else 0
    batched = made.contraction.batch > 1
    return Place(
        batch=b.block_id(gpu.DimensionEnum.Z, "batch") if batched else 0,
        tile_row=row,
        tile_column=column,
        invocation=b.thread_id(),
        subgroup=subgroup,
        lane=b.at_top(gpu.LaneIdOp(), "lane"),
        subgroup_row=b.divided(subgroup, columns),
        subgroup_column=b.remainder(subgroup, columns),
    )
