"""
Numbers of 64 bits in 32, where that changes none of them.

    %i = linalg.index 1                        %i = linalg.index 1
    %w = arith.index_cast %i : i64       ->    %n = arith.index_cast %i : i32
    %s = arith.addi %w, %c1 : i64              %s = arith.addi %n, %c1 : i32       [1, 80]

Importers compute indices, zero points and counts in i64 and some constants in f64; devices compute
those slowly, or not at all. The proof is an interval of every value (`value_ranges`); numbers
without a proof stay as they are: integers become pairs of words for a target that has no others
(`spirv-int64-to-words`), f64 is refused for one that cannot compute it. For f64 the rule is in
`narrow_floats`. Arguments and results of the function keep their types: they are the caller's.
`narrow_tensors` rewrites a function that has such numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from xdsl_spirv.passes.graph.narrow_tensors import narrow, refuse_f64
from xdsl_spirv.passes.graph.wide_numbers import FLOAT_FEATURE, PASS, touches
from xdsl_spirv.targets import load


@dataclass(frozen=True)
class NarrowTo32BitsPass(ModulePass):
    """Computes in 32 bits what provably fits, and refuses f64 that the target cannot compute."""

    name = PASS

    target: str = ""
    """A device. The pass refuses f64 that is left if the device has none; empty: no check."""

    addresses: bool = True
    """True if indices count as within their tensors, which ONNX and MLIR both require."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = load(self.target) if self.target else None
        for function in op.ops:
            if not isinstance(function, FuncOp) or len(function.body.blocks) != 1:
                continue
            if not any(touches(inner) for inner in function.body.block.ops):
                continue
            narrow(function, self.addresses)
            if target is not None and FLOAT_FEATURE not in target.features:
                refuse_f64(function, target)
