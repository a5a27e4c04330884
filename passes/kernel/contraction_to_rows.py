"""
Contractions with few rows, written out by the kind of kernel that their schedule asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from xdsl_spirv.dialects.schedule import SCHEDULE, CollectiveOp, RowsAttr
from xdsl_spirv.passes.analysis.contraction import contraction_of
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel.collective import lower_roots
from xdsl_spirv.passes.kernel.rows_code import RowsKernel
from xdsl_spirv.passes.kernel.shared_units import SharedUnitsKernel
from xdsl_spirv.passes.schedule.rows import RowsPlan, check_rows

NAME = "contraction-to-rows"


@dataclass(frozen=True)
class ContractionToRowsPass(ModulePass):
    """Writes out every kernel whose contraction has a `#schedule.rows`."""

    name = NAME

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        def emit(collective: CollectiveOp, root: GenericOp, init: SSAValue | None) -> None:
            schedule = root.attributes[SCHEDULE]
            assert isinstance(schedule, RowsAttr)
            plan = RowsPlan(contraction_of(root), schedule, target_of(op, NAME))
            check_rows(plan)
            kind = SharedUnitsKernel if schedule.within.data > 1 else RowsKernel
            kind(HoistingEmitter(InsertPoint.before(collective)), plan, init).emit()

        lower_roots(NAME, op, RowsAttr, emit)
