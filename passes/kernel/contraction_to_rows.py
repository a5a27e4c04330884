"""Contractions with few rows, written out by the kind of kernel that their schedule asks for."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, RowsAttr
from xdsl_spirv.passes import rewrite_once
from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel import KernelPattern, scheduled_by
from xdsl_spirv.passes.kernel.collective import init_of
from xdsl_spirv.passes.kernel.rows_code import RowsKernel
from xdsl_spirv.passes.kernel.shared_units import SharedUnitsKernel
from xdsl_spirv.passes.schedule.rows import RowsPlan, check_rows


@dataclass(frozen=True)
class ContractionToRowsPass(ModulePass):
    """Writes out every kernel whose contraction has a `#schedule.rows`."""

    name = "contraction-to-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_once(op, RowsPattern(self.name, op))


class RowsPattern(KernelPattern[GenericOp]):
    """Writes out the kernels of contractions with few rows."""

    def scheduled(self, collective: CollectiveOp) -> GenericOp | None:
        return scheduled_by(collective, GenericOp, RowsAttr)

    def write(self, collective: CollectiveOp, op: GenericOp) -> None:
        schedule = op.attributes[SCHEDULE]
        assert isinstance(schedule, RowsAttr)
        plan = RowsPlan(contraction_of(op), schedule, self.target)
        check_rows(plan)
        kind = SharedUnitsKernel if schedule.within.data > 1 else RowsKernel
        builder = HoistingEmitter(InsertPoint.before(collective))
        kind(builder, plan, init_of(collective, op)).emit()
