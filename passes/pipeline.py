"""
From `linalg` on tensors to SPIR-V: the list of the passes, in their order, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.graph.narrow_to_32_bits import NarrowTo32BitsPass
from xdsl_spirv.passes.graph.quantized_contractions import QuantizedContractionsPass
from xdsl_spirv.passes.graph.scalars_into_loops import ScalarsIntoLoopsPass
from xdsl_spirv.passes.kernel.attention_to_cooperative_matrix import (
    AttentionToCooperativeMatrixPass,
)
from xdsl_spirv.passes.kernel.contraction_to_cooperative_matrix import (
    ContractionToCooperativeMatrixPass,
)
from xdsl_spirv.passes.kernel.contraction_to_dot import ContractionToDotPass
from xdsl_spirv.passes.kernel.contraction_to_fma import ContractionToFMAPass
from xdsl_spirv.passes.kernel.contraction_to_rotate import ContractionToRotatePass
from xdsl_spirv.passes.kernel.outline_dispatches import OutlineDispatchesPass
from xdsl_spirv.passes.loops.to_invocations import LoopsToInvocationsPass
from xdsl_spirv.passes.schedule.assign_schedule import AssignSchedulePass
from xdsl_spirv.passes.schedule.form_attention import FormAttentionPass
from xdsl_spirv.passes.schedule.linalg_to_contraction import LinalgToContractionPass
from xdsl_spirv.passes.schedule.pack_operands import PackOperandsPass
from xdsl_spirv.passes.schedule.paths import UNLIMITED, Limits
from xdsl_spirv.passes.schedule.split_reductions import SplitReductionsPass
from xdsl_spirv.passes.spirv.fallback.bfloat16_to_bits import BFloat16ToBitsPass
from xdsl_spirv.passes.spirv.kernel_to_spirv import KernelToSPIRVPass
from xdsl_spirv.passes.spirv.share_kernels import ShareKernelsPass
from xdsl_spirv.passes.spirv.split_entry_points import SplitEntryPointsPass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass


def linalg_to_spirv(target: str, limits: Limits = UNLIMITED) -> tuple[ModulePass, ...]:
    """The passes that `linalg-to-spirv{target=... only=... barred=...}` runs."""
    only, barred = limits.only, limits.barred
    return (
        QuantizedContractionsPass(target=target),
        ScalarsIntoLoopsPass(),
        NarrowTo32BitsPass(target=target),
        LinalgToContractionPass(),
        FormAttentionPass(target=target),
        SplitReductionsPass(target=target, only=only, barred=barred),
        FormDispatchesPass(),
        AssignSchedulePass(target, only=only, barred=barred),
        PackOperandsPass(),
        OutlineDispatchesPass(),
        AttentionToCooperativeMatrixPass(),
        ContractionToCooperativeMatrixPass(),
        ContractionToDotPass(),
        ContractionToFMAPass(),
        ContractionToRotatePass(),
        LoopsToInvocationsPass(),
        KernelToSPIRVPass(),
        BFloat16ToBitsPass(as_needed=True),
        SplitEntryPointsPass(),
        ShareKernelsPass(),
        UpdateVCEPass(),
    )


@dataclass(frozen=True)
class LinalgToSPIRVPass(ModulePass):
    """linalg-quantized-to-contraction ... spirv-update-vce for one target."""

    name = "linalg-to-spirv"

    target: str = ""
    """A known device's name or the path of a target file."""

    only: tuple[str, ...] = ()
    """The layers that alone may take a path, each as PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """The layers that may not take a path, each as PATH=PATTERN."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in linalg_to_spirv(self.target, Limits(self.only, self.barred)):
            each.apply(ctx, op)
