"""
`spirv-small-storage-to-words`: rewrites buffers of 8- and 16-bit data as arrays of 32-bit words.

    %x = spirv.Load %p[%i] : i8          ->  %w = spirv.Load %words[%i >> 2] : i32
                                             %x = UConvert (%w >> (%i & 3) * 8)

    spirv.Store %p[%i], %x : i8          ->  spirv.AtomicAnd %words[%i >> 2], ~(255 << shift)
                                             spirv.AtomicOr %words[%i >> 2], %x << shift

The bytes of a buffer do not change; its size must be a multiple of 4. A store that covers whole
words remains a store. A store to a part of a word becomes two atomic operations that preserve the
other bits, because other invocations may store to them. Buffers with such stores are also loaded
atomically, so that no load races with a store to a neighbouring part of the word. small_storage.py
does the rewriting.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.spirv.module import ModuleOp
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.targets import Target

FEATURES = {8: "storage-8-bit", 16: "storage-16-bit"}
"""Maps a width in bits to the target feature that allows storage of scalars of this width."""


@dataclass(frozen=True)
class SmallStorageToWordsPass(ModulePass):
    """Rewrites buffers of 8- or 16-bit scalars as arrays of words."""

    name = "spirv-small-storage-to-words"

    widths: tuple[int, ...] = (8, 16)
    """Widths in bits of the scalars to rewrite."""

    as_needed: bool = False
    """Rewrites only scalars of widths that the module's target cannot store."""

    def apply(self, ctx: Context, op: BuiltinModuleOp) -> None:
        widths = frozenset(self.widths)
        if self.as_needed:
            widths &= frozenset(widths_not_stored(target_of(op, self.name)))
        if not widths:
            return
        from xdsl_spirv.passes.spirv.fallback.small_storage import lower_small_storage

        for module in op.walk():
            if isinstance(module, ModuleOp):
                lower_small_storage(module, widths)


def widths_not_stored(target: Target) -> tuple[int, ...]:
    """Returns the widths of scalars that a target cannot store."""
    return tuple(w for w, feature in FEATURES.items() if feature not in target.features)
