"""
Scaled dot-product attention found in a graph and made one operation, in a dispatch of its own.

    %s = contraction %q, %k                     %r = schedule.dispatch(%q, %k, %v) {
    %x = scale, mask                               schedule.attention ...
    %p = softmax %x: max, -, exp, sum, /   ->      schedule.yield }
    %r = contraction %p, %v

It is recognised by the values from which an element of the second contraction's first operand is
computed (see `element_trees`), so that reshapes, casts and the number of operations do not matter.
Queries, keys, values and mask are read where they lie, through transpositions and reshapes: see
`attention_forming`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.passes.analysis.target import find_target
from xdsl_spirv.passes.schedule.attention_forming import form


@dataclass(frozen=True)
class FormAttentionPass(ModulePass):
    """Makes each attention one `schedule.attention`, where the target has matrices for it."""

    name = "form-attention"

    target: str = ""
    """A device's name or target file; without it the module's, or any device."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = find_target(self.target, op, self.name)
        for function in functions_of(op):
            block = function.body.block
            if _may_attend(block):
                form(block, target)


def _may_attend(block: Block) -> bool:
    """True if the block computes an exponential."""
    names = {inner.name for op in block.ops for inner in op.walk()}
    return bool(names & {"math.exp", "math.exp2", "linalg.exp"})
