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
from xdsl.ir import SSAValue

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, ContractionAttr
from xdsl_spirv.passes.kernel.builder import Index, KernelBuilder
from xdsl_spirv.passes.kernel.result import Place
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.contraction import NotAContraction, contraction_of, storage
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.plan import Plan, plan
from xdsl_spirv.passes.schedule.target import target_of


class Core(Protocol):
    """What an invocation, or a subgroup, does with its part of the result."""

    def begin(self, init: SSAValue | None) -> Sequence[SSAValue]:
        """The accumulators: the initial value's elements, or 0."""
        ...

    def multiply(
        self, a: StagedOperand, b: StagedOperand, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """The accumulators after one K tile in Workgroup memory."""
        ...

    def end(self, totals: Sequence[SSAValue], result: SSAValue) -> None:
        """The accumulators into the result, and nothing outside it."""
        ...


MakeCore = Callable[[KernelBuilder, Plan, Place], Core]


def lower_collectives(pass_name: str, module: ModuleOp, instruction: str, core: MakeCore) -> None:
    """Write out the body of each kernel whose schedule names the instruction."""
    collectives = [c for c in module.walk() if isinstance(c, CollectiveOp)]
    for collective in collectives:
        root = collective.body.block.last_op
        if not isinstance(root, linalg.ops.GenericOp):
            refuse(pass_name, root or collective, "a collective ends with a linalg.generic")
        schedule = root.attributes.get(SCHEDULE)
        if not isinstance(schedule, ContractionAttr):
            refuse(pass_name, root, "it has no #schedule.contraction: run assign-schedule first")
        if schedule.instruction.kind.data == instruction:
            _lower(pass_name, module, collective, root, schedule, core)


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
        if isinstance(op, linalg.ops.CopyOp):
            init = op.inputs[0]
    block = collective.parent_block()
    assert block is not None
    after = list(block.ops)
    after = after[after.index(collective) + 1 :]
    for op in after:
        op.detach()
    result = root.outputs[0]
    values = (made.contraction.a, made.contraction.b, init, result)
    collective.detach()
    collective.erase()
    builder = KernelBuilder(block)
    _emit(builder, made, core, *values)
    builder.finish()
    block.add_ops(after)


def _emit(
    builder: KernelBuilder,
    made: Plan,
    make_core: MakeCore,
    a: SSAValue,
    b: SSAValue,
    init: SSAValue | None,
    result: SSAValue,
) -> None:
    """result = a * b + init, the whole kernel body; a missing init is 0."""
    place = _place(builder, made)
    staged_a, staged_b = (
        StagedOperand(
            builder, storage(value)[0], tile, place.batch, index, place.invocation, made.invocations
        )
        for value, tile, index in ((a, made.a, place.tile_row), (b, made.b, place.tile_column))
    )
    core = make_core(builder, made, place)
    accumulators = core.begin(init)
    _, _, tile_k = made.schedule.tile
    looped = made.contraction.k > tile_k

    def step(k: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        values_a, values_b = staged_a.load_all(k), staged_b.load_all(k)
        if looped:
            builder.barrier()
        staged_a.store_all(values_a, k)
        staged_b.store_all(values_b, k)
        builder.barrier()
        return core.multiply(staged_a, staged_b, carried)

    totals = builder.loop(made.contraction.k, tile_k, accumulators, step, "k")
    core.end(totals, result)


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
