"""
Removes repetitions of operands: a contraction reads the source of a repeated operand.

    %c = broadcast %w : 384x1536 -> 32x384x1536        a product of %x and %w without a batch:
    %r = batch_matmul %x : 32x128x384, %c        ->    4096 rows of one product, not 32 products

Importers repeat weights in this way if an MLIR operation requires operands of equal rank. The pass
removes a repetition if the rows of the result remain contiguous.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import drop_units, make_generic, maps_of, yields_of
from xdsl_spirv.passes.analysis.pointwise import is_pointwise, moves_only
from xdsl_spirv.passes.analysis.values import erase_dead
from xdsl_spirv.passes.schedule.stored_result import row_stride

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
    kinds = op.get_iterator_types()
    folded = make_generic(values, op.outputs[0], (*reads, written), op.body.clone(), kinds)
    if not _has_rows(folded):
        for unused in (folded, *views):
            unused.drop_all_references()
        return op
    folded.attributes |= op.attributes
    folded.location = op.location
    inputs = list(op.inputs)
    Rewriter.insert_op(views, InsertPoint.before(op))
    Rewriter.replace_op(op, folded)
    for value in inputs:
        erase_dead(value)
    return folded


def _without_units(
    value: SSAValue, map: AffineMap, views: list[Operation]
) -> tuple[SSAValue, AffineMap]:
    """Returns value and map without dimensions of size 1 that no loop indexes; adds to `views`."""
    view = drop_units(value, map) if isinstance(value.type, TensorType) else None
    if view is None:
        return value, map
    views.append(view)
    kept = [e for e in map.results if not isinstance(e, AffineConstantExpr)]
    return view.result, AffineMap(map.num_dims, 0, tuple(kept))


def _has_rows(op: LinalgStructuredOperation) -> bool:
    contraction = as_contraction(op)
    return contraction is not None and row_stride(contraction.layouts[2]) is not None


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
            own: Dims = [None] * written.num_dims
            for result, expression in zip(written.results, dims, strict=True):
                assert isinstance(result, AffineDimExpr), "an elementwise result permutes loops"
                own[result.position] = expression
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
