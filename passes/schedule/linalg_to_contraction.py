"""
Rewrites every operation that computes a contraction to one canonical form.

    linalg.matmul ins(%a, %b) outs(%c)  ->  linalg.generic {maps (m,k) (k,n) (m,n)} ins(%a, %b)
                                              outs(%c) { c + ext(a) * ext(b) }
    linalg.conv_2d_... ins(%a, %f)      ->  a linalg.generic with several loops for M, N and K
    %b repeats a weight for each batch  ->  a product with the weight: more rows, no batch
    { c + ext(a) * (sitofp(b) * s) }    ->  elementwise b' = sitofp(b) * s, then { c + ext(a) * b' }
    %b collapses blocks of a weight     ->  one loop of K for each dimension of a block

Other operations, and operations in dispatches, are not changed. An attribute such as a given
schedule moves to the new operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.passes.analysis.contraction import (
    Contraction,
    NotAContraction,
    as_contraction,
    canonical_form,
    contraction_of,
)
from xdsl_spirv.passes.analysis.pointwise import factors_of

HIDDEN_ATTRIBUTES = ("linalg.memoized_indexing_maps",)


@dataclass(frozen=True)
class LinalgToContractionPass(ModulePass):
    """Recognises contractions by their computation and rewrites them to one `linalg.generic`."""

    name = "linalg-to-contraction"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        candidates = [
            linalg_op
            for linalg_op in op.walk()
            if isinstance(linalg_op, LinalgStructuredOperation)
            and not isinstance(linalg_op, FillOp)
            and not isinstance(linalg_op.parent_op(), DispatchOp)
        ]
        for candidate in candidates:
            try:
                contraction = contraction_of(_simplify_operation(candidate))
            except NotAContraction:
                continue
            form = _canonical(contraction)
            again = as_contraction(form) if _reads_computed(form) else None
            if again is None:
                # An "extension" to a narrower type is written as the conversion that it is.
                continue
            from xdsl_spirv.passes.graph.unpacked_operands import with_unpacked_operands

            unpacked = with_unpacked_operands(again)
            if unpacked is not None:
                _canonical(contraction_of(unpacked))


def _simplify_operation(op: LinalgStructuredOperation) -> LinalgStructuredOperation:
    """Returns a product whose factors are plain inputs, read without broadcasts."""
    if len(op.inputs) != 2 or not all(factor.is_pure for factor in factors_of(op.body.block)):
        from xdsl_spirv.passes.analysis.factors import with_pure_factors

        op = with_pure_factors(op)
    if _reads_computed(op):
        from xdsl_spirv.passes.schedule.broadcast_operands import without_broadcasts

        op = without_broadcasts(op)
    return op


def _reads_computed(op: LinalgStructuredOperation) -> bool:
    """True if another operation computes an input, for example repeats or unpacks it."""
    return any(isinstance(value.owner, Operation) for value in op.inputs)


def _canonical(contraction: Contraction) -> LinalgStructuredOperation:
    """Replaces a contraction by its canonical form."""
    form = canonical_form(contraction, contraction.a, contraction.b, contraction.init)
    form.attributes = {
        key: value
        for key, value in contraction.op.attributes.items()
        if key not in HIDDEN_ATTRIBUTES
    }
    form.location = contraction.op.location
    Rewriter.replace_op(contraction.op, form)
    return form
