"""Lists the passes of `compile` from `linalg` on tensors to SPIR-V, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.passes.analysis.target import load_target
from xdsl_spirv.passes.schedule.paths import UNLIMITED, LimitedPass, Limits
from xdsl_spirv.targets import TargetError, load
from xdsl_spirv.universe import GRANTED, NEEDS, UNIVERSE
from xdsl_spirv.upstream.passes_on_demand import PassOnDemand, run

Passes = Sequence[PassOnDemand | ModulePass]

MemberT = TypeVar("MemberT", PassOnDemand, ModulePass, PassOnDemand | ModulePass)


def _pass(name: str, **arguments: object) -> PassOnDemand:
    return PassOnDemand(name, UNIVERSE.all_passes[name], NEEDS.get(name), arguments)


def _as_needed(name: str, target: str) -> PassOnDemand:
    """Returns a pass that runs only if the target needs it."""
    member = _pass(name, as_needed=True)
    try:
        features = load(target).features
    except TargetError:
        # An unknown target raises an error with a place later, when the passes run.
        return member
    granted = {content for f, known in GRANTED[name].items() if f in features for content in known}
    return replace(member, needs=[need for need in member.needs or () if need not in granted])


def lowering(target: str, limits: Limits = UNLIMITED) -> tuple[PassOnDemand, ...]:
    """Returns the passes that `linalg-to-spirv{target=... only=... barred=...}` runs."""
    only, barred = limits.only, limits.barred
    return (
        _pass("lift-weights"),
        _pass("unroll-host-loops"),
        _pass("decompose-linalg", target=target),
        *([_pass("split-products", target=target)] if limits.allowed else []),
        _pass("fold-constants"),
        _pass("linalg-quantized-to-contraction", target=target),
        # Folds the sums of weights that quantized contractions need.
        _pass("fold-constants"),
        # A folded result is a weight, which must be copied to the result.
        _pass("own-results"),
        _pass(PREPARED),
        _pass("scalars-into-loops"),
        _pass("narrow-to-32-bits", target=target),
        _pass("linalg-to-contraction"),
        _pass("choose-layouts", target=target, only=only, barred=barred),
        _pass("form-attention", target=target),
        _pass("join-products"),
        _pass("split-reductions", target=target, only=only, barred=barred),
        _pass("form-dispatches"),
        _pass("update-states"),
        _pass("join-dispatches", target=target),
        _pass("turn-weights", target=target, only=only, barred=barred),
        _pass("assign-schedule", target=target, only=only, barred=barred),
        _pass("fold-norms"),
        _pass("fold-readers"),
        _pass("fold-elements"),
        _pass("fold-parts"),
        _pass(SCHEDULED),
        _pass(OUTLINED),
        _pass("attention-to-cooperative-matrix"),
        _pass("attention-to-fma"),
        _pass("contraction-to-cooperative-matrix"),
        _pass("contraction-to-dot"),
        _pass("contraction-to-fma"),
        _pass("contraction-to-rotate"),
        _pass("contraction-to-rows"),
        _pass("loops-to-invocations"),
        _pass("kernel-to-spirv"),
        _pass("spirv-bfloat16-to-bits", as_needed=True),
        _as_needed("spirv-int64-to-words", target),
        _as_needed("spirv-small-storage-to-words", target),
        _as_needed("spirv-small-integers-to-32-bits", target),
        _pass("spirv-split-entry-points"),
        _pass("spirv-share-kernels"),
        _pass("spirv-update-vce"),
    )


PREPARED = "note-ranges"
"""
Name of the last pass before fusion, layouts and schedules. After the pass, weights have values.
"""

SCHEDULED = "pack-operands"
"""Name of the last pass after which dispatches have schedules and are still on tensors."""

OUTLINED = "outline-dispatches"
"""Name of the last pass that processes the whole module. Kernels are then lowered one by one."""


def linalg_to_spirv(target: str, limits: Limits = UNLIMITED) -> tuple[ModulePass, ...]:
    """Returns the passes of `lowering`, and imports their modules."""
    return tuple(member.load() for member in lowering(target, limits))


def split_after(
    passes: Sequence[MemberT], last: str
) -> tuple[Sequence[MemberT], Sequence[MemberT]]:
    """Splits passes after the last one named `last`. Returns both parts."""
    cut = max(number for number, member in enumerate(passes) if member.name == last) + 1
    return passes[:cut], passes[cut:]


@dataclass(frozen=True)
class LinalgToSPIRVPass(LimitedPass):
    """Runs all passes from lift-weights to spirv-update-vce, for one target."""

    name = "linalg-to-spirv"

    target: str = ""
    """The name of a known device, or the path of a target file."""

    allow: str = ""
    """With `bf16x3`, three products of bf16 parts may replace a product of f32."""

    @property
    def passes(self) -> tuple[ModulePass, ...]:
        """Returns the passes of the pipeline, in their order."""
        return linalg_to_spirv(self.target, Limits(self.only, self.barred, self.allow))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.target:
            load_target(self.target, op, self.name)
        run(lowering(self.target, Limits(self.only, self.barred, self.allow)), ctx, op)


def expand_pipelines(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """Returns the passes, with `linalg-to-spirv` replaced by the passes that it runs."""
    members: list[ModulePass] = []
    for member in passes:
        members += member.passes if isinstance(member, LinalgToSPIRVPass) else [member]
    return members
