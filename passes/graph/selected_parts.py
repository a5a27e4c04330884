"""
Reads gathered parts of a tensor in place, through views.

    %s = linalg.generic ins(%n) outs(i, j) { tensor.extract %w[%n[i], j] }
      ->  %s = schedule.selected_view %w at %n

So each expert's weights are in memory once, and the expert index of each token selects them.
"""

from __future__ import annotations

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import SelectedViewOp
from xdsl_spirv.passes.analysis.contraction import Contraction
from xdsl_spirv.passes.analysis.linalg_code import maps_of, tensor_type
from xdsl_spirv.passes.analysis.values import erase_dead

CASTS = arith.IndexCastOp | arith.ExtSIOp | arith.ExtUIOp | arith.TruncIOp


def view_selected_parts(
    op: linalg.ops.GenericOp, contraction: Contraction, operand: int
) -> list[Operation]:
    """
    Replaces operands that gather parts of a tensor by views. Returns the views.

    `op` computes operand `operand` of a contraction. If all loops that count parts belong to the
    batch, a kernel of tiles finds a part by the index of the batch. They must then be the whole
    batch, in order.
    """
    views: list[Operation] = []
    batch, loops = contraction.groups[0], contraction.maps[operand].results
    for number, (value, map) in enumerate(zip(op.inputs, maps_of(op), strict=False)):
        selection = _selection_of(value)
        if selection is None:
            continue
        own = map.results[: len(tensor_type(selection[1]).get_shape())]
        counted = [loops[place.position] for place in own if isinstance(place, AffineDimExpr)]
        of_batch = [loop.position for loop in counted if isinstance(loop, AffineDimExpr)]
        if all(loop in batch for loop in of_batch) and of_batch != list(batch):
            continue
        view = SelectedViewOp(*selection, value.type)
        view.result.name_hint = value.name_hint
        Rewriter.insert_op(view, InsertPoint.before(op))
        op.operands[number] = view.result
        erase_dead(value)
        views.append(view)
    return views


def _selection_of(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """Returns the tensor and the part indices from which a value is gathered, else None."""
    op = value.owner
    if not isinstance(op, linalg.ops.GenericOp) or len(op.inputs) != 1 or len(op.outputs) != 1:
        return None
    read, write = (attribute.data for attribute in op.get_indexing_maps())
    rank, block = write.num_dims, op.body.block
    first = AffineMap(rank, 0, tuple(map(AffineDimExpr, range(len(read.results)))))
    if read != first or write != AffineMap.identity(rank) or block.last_op is None:
        return None
    extract = block.last_op.operands[0].owner
    if not isinstance(extract, tensor.ExtractOp) or not isinstance(extract.tensor.type, TensorType):
        return None
    places = [_origin(index) for index in extract.indices]
    loops = [
        p.owner.dim.value.data if isinstance(p.owner, linalg.ops.IndexOp) else -1 for p in places
    ]
    if places[0] is not block.args[0] or loops[1:] != list(range(len(first.results), rank)):
        return None
    inside = op.is_ancestor(extract.tensor.owner)
    return None if inside else (extract.tensor, op.inputs[0])


def _origin(index: SSAValue) -> SSAValue:
    while isinstance(index.owner, CASTS):
        index = index.owner.operands[0]
    return index
