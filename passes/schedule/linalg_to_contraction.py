"""
Every operation that computes a contraction takes its one form.

    linalg.matmul ins(%a, %b) outs(%c)  ->  linalg.generic {maps (m,k) (k,n) (m,n)} ins(%a, %b)
                                              outs(%c) { c + ext(a) * ext(b) }
    linalg.conv_2d_... ins(%a, %f)      ->  the same over batch, M, N and K of several loops each

    ... b is a weight, repeated         ->  a and the weight: rows instead of a batch

    ... ext(a) * (sitofp(b) * s)        ->  b' = sitofp(b) * s before it, elementwise

    ... b is collapsed from blocks      ->  K is as many loops as a block has (`unpacked_operands`)

Operations that are not contractions stay as they are; an attribute (a schedule written by hand,
say) moves along.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    canonical_form,
    contraction_of,
)
from xdsl_spirv.passes.analysis.factors import with_pure_factors
from xdsl_spirv.passes.graph.unpacked_operands import with_unpacked_operands
from xdsl_spirv.passes.schedule.broadcast_operands import without_broadcasts

HIDDEN_ATTRIBUTES = ("linalg.memoized_indexing_maps",)


@dataclass(frozen=True)
class LinalgToContractionPass(ModulePass):
    """Recognises contractions by what they compute and rewrites them to one `linalg.generic`."""

    name = "linalg-to-contraction"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        candidates = [
            linalg_op
            for linalg_op in op.walk()
            if isinstance(linalg_op, LinalgStructuredOperation)
            and not isinstance(linalg_op, FillOp)
        ]
        for candidate in candidates:
            try:
                contraction = contraction_of(without_broadcasts(with_pure_factors(candidate)))
            except NotAContraction:
                continue
            unpacked = with_unpacked_operands(contraction_of(_canonical(contraction)))
            if unpacked is not None:
                _canonical(contraction_of(unpacked))


def _canonical(contraction: Contraction) -> LinalgStructuredOperation:
    """The one form of a contraction, in its place."""
    form = canonical_form(contraction, contraction.a, contraction.b, contraction.init)
    form.attributes = {
        key: value
        for key, value in contraction.op.attributes.items()
        if key not in HIDDEN_ATTRIBUTES
    }
    form.location = contraction.op.location
    Rewriter.replace_op(contraction.op, form)
    return form
