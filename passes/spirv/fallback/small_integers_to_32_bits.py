"""
`spirv-small-integers-to-32-bits`: computes 8- and 16-bit integers in 32 bits.

    %s = spirv.IAdd %a, %b : i8  ->  %s = spirv.BitwiseAnd (spirv.IAdd %a, %b : i32), 255

A number is an i32 with zeros above its bits. Operations that depend on the sign extend it first,
operations that may set a bit above clear these bits again. Buffers keep their bytes: a load is
followed by an extension and a store follows a truncation, which need no arithmetic of 8 or 16 bits
(SPIR-V 2.16.2). Memory without a layout (Workgroup, Private, Function) has a word for each number.
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
"""Widths of integers, and the target file's name for arithmetic on each."""


@dataclass(frozen=True)
class SmallIntegersTo32BitsPass(ModulePass):
    """8- and 16-bit integers become 32-bit integers outside of buffers."""

    name = "spirv-small-integers-to-32-bits"

    widths: tuple[int, ...] = (8, 16)
    """Widths of the integers to rewrite."""

    as_needed: bool = False
    """Rewrite only integers of a width that the module's target cannot compute in."""

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
    """The widths of integers that a target cannot compute in."""
    return tuple(w for w, feature in FEATURES.items() if feature not in target.features)
