"""
Lists the passes from `linalg` on tensors to SPIR-V, in their order: what `compile` runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.compiler.fold import FoldConstantsPass
from xdsl_spirv.compiler.weights import LiftWeightsPass, NoteRangesPass
from xdsl_spirv.passes.graph.form_dispatches import FormDispatchesPass
from xdsl_spirv.passes.graph.narrow_to_32_bits import NarrowTo32BitsPass
from xdsl_spirv.passes.graph.own_results import OwnResultsPass
from xdsl_spirv.passes.graph.quantized_contractions import QuantizedContractionsPass
from xdsl_spirv.passes.graph.scalars_into_loops import ScalarsIntoLoopsPass
from xdsl_spirv.passes.graph.unroll_host_loops import UnrollHostLoopsPass
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
from xdsl_spirv.passes.spirv.fallback.int64_to_words import Int64ToWordsPass
from xdsl_spirv.passes.spirv.kernel_to_spirv import KernelToSPIRVPass
from xdsl_spirv.passes.spirv.share_kernels import ShareKernelsPass
from xdsl_spirv.passes.spirv.split_entry_points import SplitEntryPointsPass
from xdsl_spirv.passes.spirv.update_vce import UpdateVCEPass


def linalg_to_spirv(target: str, limits: Limits = UNLIMITED) -> tuple[ModulePass, ...]:
    """The passes that `linalg-to-spirv{target=... only=... barred=...}` runs."""
    only, barred = limits.only, limits.barred
    return (
        LiftWeightsPass(),
        UnrollHostLoopsPass(),
        FoldConstantsPass(),
        QuantizedContractionsPass(target=target),
        # The sums of weights that quantized contractions ask for.
        FoldConstantsPass(),
        # A result that was folded is a weight, and has to be copied.
        OwnResultsPass(),
        NoteRangesPass(),
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
        Int64ToWordsPass(as_needed=True),
        SplitEntryPointsPass(),
        ShareKernelsPass(),
        UpdateVCEPass(),
    )


Passes = Sequence[ModulePass]

PREPARED: type[ModulePass] = NoteRangesPass
"""After it weights are known, and operations stand as they did in the model."""

SCHEDULED: type[ModulePass] = PackOperandsPass
"""After it every dispatch has its schedule, and still computes on tensors."""

OUTLINED: type[ModulePass] = OutlineDispatchesPass
"""After it kernels are lowered one by one."""


def split_after(passes: Passes, last: type[ModulePass]) -> tuple[Passes, Passes]:
    """The passes up to the last one of a kind, that one included, and those behind it."""
    cut = max(number for number, member in enumerate(passes) if isinstance(member, last)) + 1
    return passes[:cut], passes[cut:]


@dataclass(frozen=True)
class LinalgToSPIRVPass(ModulePass):
    """lift-weights ... spirv-update-vce for one target: what a program's kernels are made by."""

    name = "linalg-to-spirv"

    target: str = ""
    """A known device's name or the path of a target file."""

    only: tuple[str, ...] = ()
    """The layers that alone may take a path, each as PATH=PATTERN."""

    barred: tuple[str, ...] = ()
    """The layers that may not take a path, each as PATH=PATTERN."""

    @property
    def passes(self) -> Passes:
        """The list that it is."""
        return linalg_to_spirv(self.target, Limits(self.only, self.barred))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for member in self.passes:
            member.apply(ctx, op)


def expanded(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """The passes, and in the place of `linalg-to-spirv` its own."""
    members: list[ModulePass] = []
    for member in passes:
        members += member.passes if isinstance(member, LinalgToSPIRVPass) else [member]
    return members
