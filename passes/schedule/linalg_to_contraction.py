"""
Rewrites every operation that computes a contraction to one canonical form.

    linalg.matmul ins(%a, %b) outs(%c)  ->  linalg.generic {maps (m,k) (k,n) (m,n)} ins(%a, %b)
                                              outs(%c) { c + ext(a) * ext(b) }
    linalg.conv_2d_... ins(%a, %f)      ->  a linalg.generic with several loops for M, N and K
    %b repeats a weight for each batch  ->  a product with the weight: more rows, no batch
    { c + ext(a) * (sitofp(b) * s) }    ->  elementwise b' = sitofp(b) * s, then { c + ext(a) * b' }
    %b collapses blocks of a weight     ->  one loop of K for each dimension of a block

Importers repeat weights for each batch if an MLIR operation requires operands of equal rank. A
repetition is removed if the rows of the result remain contiguous.

Other operations, and operations in dispatches, are not changed. An attribute such as a given
schedule moves to the new operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import DispatchOp
from xdsl_spirv.passes.analysis.contraction import (
    NotAContraction,
    as_contraction,
    contraction_of,
    rewrite_canonically,
)
from xdsl_spirv.passes.analysis.linalg_code import drop_units, make_generic, maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import factors_of, is_pointwise, loops_of, moves_only
from xdsl_spirv.passes.analysis.values import erase_dead
from xdsl_spirv.passes.schedule.stored_result import row_stride


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
            form = rewrite_canonically(contraction)
            again = as_contraction(form) if _reads_computed(form) else None
            if again is None:
                # An "extension" to a narrower type is a truncation, and is written as one.
                continue
            from xdsl_spirv.passes.graph.unpacked_operands import with_unpacked_operands

            unpacked = with_unpacked_operands(again)
            if unpacked is not None:
                rewrite_canonically(contraction_of(unpacked))


def _simplify_operation(op: LinalgStructuredOperation) -> LinalgStructuredOperation:
    """Returns a product whose factors are plain inputs, read without broadcasts."""
    if len(op.inputs) != 2 or not all(factor.is_pure for factor in factors_of(op.body.block)):
        from xdsl_spirv.passes.analysis.factors import with_pure_factors

        op = with_pure_factors(op)
    if _reads_computed(op):
        op = without_broadcasts(op)
    return op


def _reads_computed(op: LinalgStructuredOperation) -> bool:
    """True if another operation computes an input, for example repeats or unpacks it."""
    return any(isinstance(value.owner, Operation) for value in op.inputs)


Dims: TypeAlias = list[AffineExpr | None]


def without_broadcasts(op: LinalgStructuredOperation) -> LinalgStructuredOperation:
    """
    Replaces an operation by one that reads the sources of repeated operands.

    Returns the new operation, or the unchanged one.
    """
    if len(op.inputs) != 2 or len(op.results) != 1:
        return op
    *maps, written = maps_of(op)
    places = [_source(value, map) for value, map in zip(op.inputs, maps, strict=True)]
    pairs = zip(places, maps, strict=True)
    if not any(read.used_dims() < map.used_dims() for (_, read), map in pairs):
        return op
    views: list[Operation] = []
    places = [_without_units(*place, views) for place in places]
    values, reads = zip(*places, strict=True)
    kinds, body = op.get_iterator_types(), op.body.clone()
    folded = make_generic(values, op.outputs[0], (*reads, written), body, kinds, op)
    contraction = as_contraction(folded)
    if contraction is None or row_stride(contraction.layouts[2]) is None:
        for unused in (folded, *views):
            unused.drop_all_references()
        return op
    inputs = list(op.inputs)
    Rewriter.insert_op(views, InsertPoint.before(op))
    Rewriter.replace_op(op, folded)
    for value in inputs:
        erase_dead(value)
    return folded


def _without_units(
    value: SSAValue, map: AffineMap, views: list[Operation]
) -> tuple[SSAValue, AffineMap]:
    """
    Drops dimensions of size 1 that no loop indexes from a value and its map. Appends the operation
    that drops them to `views`.
    """
    view = drop_units(value, map) if isinstance(value.type, TensorType) else None
    if view is None:
        return value, map
    views.append(view)
    kept = [e for e in map.results if not isinstance(e, AffineConstantExpr)]
    return view.result, AffineMap(map.num_dims, 0, tuple(kept))


def _source(value: SSAValue, map: AffineMap) -> tuple[SSAValue, AffineMap]:
    source, dims = value, list[AffineExpr | None](map.results)
    while (before := _before(source, dims)) is not None:
        source, dims = before
        if (known := [e for e in dims if e is not None]) and len(known) == len(dims):
            value, map = source, AffineMap(map.num_dims, 0, tuple(known))
    return value, map


def _before(value: SSAValue, dims: Dims) -> tuple[SSAValue, Dims] | None:
    """
    Returns the value that `value` broadcasts, transposes or reshapes, and the indices into it.

    The indices of dimensions that a reshape merges are None (unknown).
    """
    match value.owner:
        case linalg.ops.BroadcastOp(dimensions=added) as op:
            axes = set(added.get_values())
            return op.input, [e for axis, e in enumerate(dims) if axis not in axes]
        case linalg.ops.GenericOp() as op if is_pointwise(op) and moves_only(op):
            yielded = yields_of(op.body.block)[0]
            if not isinstance(yielded, BlockArgument):
                return None
            *reads, written = maps_of(op)
            own = loops_of(written, dims)
            read = reads[yielded.index].results
            dims = [own[e.position] if isinstance(e, AffineDimExpr) else e for e in read]
            return op.inputs[yielded.index], dims
        case tensor.CollapseShapeOp() as op:
            parts: Dims = []
            for group, expression in zip(op.reassociation, dims, strict=True):
                parts += [expression] if len(group) == 1 else [None] * len(group)
            return op.src, parts
        case _:
            return None
