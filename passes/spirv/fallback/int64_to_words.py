"""
`spirv-int64-to-words`: rewrites 64-bit integers as pairs of words, for devices without 64-bit
integers.

    %s = spirv.IAdd %a, %b : i64  ->  %low = spirv.IAddCarry %a[0], %b[0]
                                      %s = (%low[0], %a[1] + %b[1] + %low[1]) : vector<2xi32>

A number is a `vector<2xi32>`, the low word first, so that bytes in memory do not change; a vector
of numbers becomes an array of pairs. Operations that move values move the pairs; operations that
compute become code on words (words.py, word_conversions.py). Addresses keep their low word: no
buffer has 2^32 elements. Floats of 64 bits stay. Atomic operations on 64 bits and specialization
constants of them are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.spirv.fallback.int64_lowering import NAME, lower_int64

FEATURE = "int64"
"""The type's name in a target's file."""


@dataclass(frozen=True)
class Int64ToWordsPass(ModulePass):
    """Rewrites 64-bit integers as vectors of two words, and operations on them as code on words."""

    name = NAME

    as_needed: bool = False
    """Leave a module unchanged if its target has 64-bit integers."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        if self.as_needed and FEATURE in target_of(op, NAME).features:
            return
        for module in op.walk():
            if isinstance(module, ModuleOp):
                lower_int64(module)
