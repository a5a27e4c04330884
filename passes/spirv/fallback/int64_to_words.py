"""
`spirv-int64-to-words`: rewrites 64-bit integers as pairs of 32-bit words.

    %s = spirv.IAdd %a, %b : i64  ->  %low = spirv.IAddCarry %a[0], %b[0]
                                      %s = (%low[0], %a[1] + %b[1] + %low[1]) : vector<2xi32>

An integer becomes a `vector<2xi32>` with the low word first, so that bytes in memory do not
change. A vector of integers becomes an array of pairs. Operations that move values move the pairs;
arithmetic becomes code on words (words.py, word_conversions.py). Addresses use only their low
word: no buffer has 2^32 elements. 64-bit floats do not change. The pass refuses 64-bit atomic
operations and 64-bit specialization constants.
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
"""The feature in a target file that stands for 64-bit integers."""


@dataclass(frozen=True)
class Int64ToWordsPass(ModulePass):
    """Rewrites 64-bit integers as vectors of two words, and their operations as code on words."""

    name = NAME

    as_needed: bool = False
    """Leaves a module unchanged if its target has 64-bit integers."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        if self.as_needed and FEATURE in target_of(op, NAME).features:
            return
        for module in op.walk():
            if isinstance(module, ModuleOp):
                lower_int64(module)
