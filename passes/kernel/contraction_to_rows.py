"""Lowers contractions with few rows to the kernel kind that their schedule names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl_spirv.dialects.schedule import CollectiveOp
from xdsl_spirv.passes.emit.hoisting import HoistingEmitter
from xdsl_spirv.passes.kernel import KernelPass
from xdsl_spirv.passes.kernel.rows_code import RowsKernel
from xdsl_spirv.passes.kernel.shared_units import SharedUnitsKernel
from xdsl_spirv.passes.schedule.rows import RowsPlan


def write_rows(builder: HoistingEmitter, plan: RowsPlan, collective: CollectiveOp) -> None:
    """Writes the kernel of a contraction with few rows."""
    kind = SharedUnitsKernel if plan.schedule.within.data > 1 else RowsKernel
    kind(builder, plan).emit()


@dataclass(frozen=True)
class ContractionToRowsPass(KernelPass):
    """Writes the kernels of contractions with a `#schedule.rows`."""

    name = "contraction-to-rows"
    codes = {"rows": write_rows}
    emitter = HoistingEmitter
