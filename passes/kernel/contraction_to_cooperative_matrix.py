"""
The body of a scheduled contraction: workgroup tiles, staging, cooperative matrices, edges.

    schedule.collective {                      scf.for %k = 0 to K step TK iter_args(accumulators)
      linalg.fill ins(%0) outs(%d)      ->       stage A and B in Workgroup memory; gpu.barrier
      linalg.generic ins(%a, %b) ...             spirv.KHR.CooperativeMatrixMulAdd ...
    }                                          spirv.KHR.CooperativeMatrixStore or guarded stores

The schedule decides everything that has a choice; what it does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import gpu, linalg
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, ContractionAttr
from xdsl_spirv.dialects.spirv.cooperative_matrix import CooperativeMatrixMulAddOp
from xdsl_spirv.dialects.spirv.enums import (
    CooperativeMatrixOperands,
    CooperativeMatrixUse,
    Scope,
)
from xdsl_spirv.dialects.spirv.types import CooperativeMatrixType
from xdsl_spirv.passes.kernel.builder import Index, KernelBuilder
from xdsl_spirv.passes.kernel.epilogue import Place, ResultTile
from xdsl_spirv.passes.kernel.staging import StagedOperand
from xdsl_spirv.passes.refusal import refuse
from xdsl_spirv.passes.schedule.contraction import NotAContraction, contraction_of, storage
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.plan import Plan, plan
from xdsl_spirv.passes.schedule.target import target_of

SIGNED = (
    CooperativeMatrixOperands.MatrixASignedComponentsKHR,
    CooperativeMatrixOperands.MatrixBSignedComponentsKHR,
    CooperativeMatrixOperands.MatrixCSignedComponentsKHR
    | CooperativeMatrixOperands.MatrixResultSignedComponentsKHR,
)


@dataclass(frozen=True)
class ContractionToCooperativeMatrixPass(ModulePass):
    """Writes out the body of every kernel that holds a scheduled contraction."""

    name = "contraction-to-cooperative-matrix"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        collectives = [c for c in op.walk() if isinstance(c, CollectiveOp)]
        for collective in collectives:
            lower_collective(self.name, op, collective)


def lower_collective(pass_name: str, module: ModuleOp, collective: CollectiveOp) -> None:
    """Replace the collective by the code of all invocations."""
    *before, root = collective.body.block.ops
    if not isinstance(root, linalg.ops.GenericOp):
        refuse(pass_name, root, "a collective ends with a linalg.generic contraction")
    schedule = root.attributes.get(SCHEDULE)
    if not isinstance(schedule, ContractionAttr):
        refuse(pass_name, root, "it has no #schedule.contraction: run assign-schedule first")
    try:
        made = plan(contraction_of(root), schedule, target_of(module, pass_name))
        check(made)
    except (NotAContraction, ScheduleDoesNotFit) as error:
        refuse(pass_name, root, str(error))
    init: SSAValue | None = None
    for op in before:
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
    emit(builder, made, *values)
    builder.finish()
    block.add_ops(after)


def emit(
    builder: KernelBuilder,
    made: Plan,
    a: SSAValue,
    b: SSAValue,
    init: SSAValue | None,
    result: SSAValue,
) -> None:
    """result = a * b + init, the whole kernel body; a missing init is 0."""
    schedule = made.schedule
    place = _place(builder, made)
    staged_a, staged_b = (
        StagedOperand(
            builder, storage(value)[0], tile, place.batch, index, place.invocation, made.invocations
        )
        for value, tile, index in ((a, made.a, place.tile_row), (b, made.b, place.tile_column))
    )
    types = _fragment_types(made)
    tile = ResultTile(builder, made, place, types[2])
    accumulators = tile.zeros() if init is None else tile.load(tile.flat(init))
    _, _, tile_k = schedule.tile
    looped = made.contraction.k > tile_k

    def step(k: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        values_a, values_b = staged_a.load_all(k), staged_b.load_all(k)
        if looped:
            builder.barrier()
        staged_a.store_all(values_a, k)
        staged_b.store_all(values_b, k)
        builder.barrier()
        return _multiply(builder, made, place, (staged_a, staged_b), carried)

    totals = builder.loop(made.contraction.k, tile_k, accumulators, step, "k")
    tile.store(totals, tile.flat(result))


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


def _fragment_types(
    made: Plan,
) -> tuple[CooperativeMatrixType, CooperativeMatrixType, CooperativeMatrixType]:
    m, n, k = made.schedule.instruction.sizes
    a, b, result = made.contraction.element_types
    use, scope = CooperativeMatrixUse, Scope.Subgroup
    return (
        CooperativeMatrixType(m, k, a, scope, use.MatrixAKHR),
        CooperativeMatrixType(k, n, b, scope, use.MatrixBKHR),
        CooperativeMatrixType(m, n, result, scope, use.MatrixAccumulatorKHR),
    )


def _multiply(
    b: KernelBuilder,
    made: Plan,
    place: Place,
    operands: tuple[StagedOperand, StagedOperand],
    carried: Sequence[SSAValue],
) -> list[SSAValue]:
    """The MulAdds of one K tile in Workgroup memory."""
    m, n, k = made.schedule.instruction.sizes
    count_m, count_n, count_k = made.schedule.fragments
    type_a, type_b, _ = _fragment_types(made)
    flags = CooperativeMatrixOperands(0)
    for name, flag in zip(made.contraction.types, SIGNED, strict=True):
        flags |= flag if name.startswith("s") else 0
    results = list(carried)
    staged_a, staged_b = operands
    for step in range(count_k):
        rows = [
            staged_a.fragment(place.subgroup_row, count_m * m, i * m, step * k, type_a)
            for i in range(count_m)
        ]
        columns = [
            staged_b.fragment(place.subgroup_column, count_n * n, j * n, step * k, type_b)
            for j in range(count_n)
        ]
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                at = i * count_n + j
                results[at] = b.add(
                    CooperativeMatrixMulAddOp(row, column, results[at], flags or None)
                )
    return results
