"""
`spirv-small-integers-to-32-bits`: computes 8- and 16-bit integers in 32 bits.

    %s = spirv.IAdd %a, %b : i8  ->  %s = spirv.BitwiseAnd (spirv.IAdd %a, %b : i32), 255

An integer becomes a zero-extended i32. Signed operations sign-extend it first. Operations that may
set upper bits clear these bits afterwards. Buffers keep their bytes: loads are followed by an
extension and stores follow a truncation, which need no 8- or 16-bit arithmetic (SPIR-V 2.16.2). In
memory without a layout (Workgroup, Private, Function) each integer takes a 32-bit word.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.targets import Target

FEATURES = {8: "int8", 16: "int16"}
"""Maps a width in bits to the target feature that allows arithmetic on integers of this width."""


@dataclass(frozen=True)
class SmallIntegersTo32BitsPass(ModulePass):
    """Rewrites 8- and 16-bit integers outside of buffers as 32-bit integers."""

    name = "spirv-small-integers-to-32-bits"

    widths: tuple[int, ...] = (8, 16)
    """Widths in bits of the integers to rewrite."""

    as_needed: bool = False
    """Rewrites only integers of widths that the module's target cannot compute in."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        widths = frozenset(self.widths)
        if self.as_needed:
            widths &= frozenset(widths_not_computed(target_of(op, self.name)))
        if not widths:
            return
        from xdsl_spirv.passes.spirv.fallback.small_integers import lower_small_integers

        for module in op.walk():
            if isinstance(module, ModuleOp):
                lower_small_integers(module, widths)


def widths_not_computed(target: Target) -> tuple[int, ...]:
    """Returns the widths of integers that a target cannot compute in."""
    return tuple(w for w, feature in FEATURES.items() if feature not in target.features)
