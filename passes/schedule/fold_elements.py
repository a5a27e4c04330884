"""
Few rows that are computed element by element become a part of the kernel of the product that reads
them.

    %h = f(%p[i, k], %p[i, k + n])   one dispatch        %r = contraction(f(...) * %w)  one dispatch
    %r = contraction(%h * %w)        another one   ->

A launch, and the memory traffic between the two, cost more than to compute the elements in each
workgroup. This is done only if a workgroup computes each element once: its invocations cover all of
K together, and make digits of the rows for all of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.schedule import DispatchOp, YieldOp
from xdsl_spirv.passes.analysis.linalg_code import maps_of, split_dimension, tensor_type
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, fuse_into_readers, part_of_columns
from xdsl_spirv.passes.schedule.rows import RowsPlan, dispatches_beside_rows, rows_plan
from xdsl_spirv.targets import Target

MOST = 1 << 15
"""Elements that every workgroup computes."""

Generic = linalg.ops.GenericOp


@dataclass(frozen=True)
class FoldElementsPass(ModulePass):
    """Computes few rows where products of few rows read them."""

    name = "fold-elements"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dispatch, target in dispatches_beside_rows(op, self.name):
            if _is_elementwise(dispatch):
                fold = partial(_fold_into_product, dispatch, target=target)
                fuse_into_readers(dispatch, fold, 1)


def _is_elementwise(dispatch: DispatchOp) -> bool:
    """Whether a dispatch computes one tensor, each element from elements of its operands."""
    if len(dispatch.outputs) != 1 or dispatch.updates:
        return False
    type = dispatch.outputs[0].type
    if not type.has_static_shape() or prod(type.get_shape()) > MOST:
        return False
    ops = [op for op in dispatch.body.block.ops if not isinstance(op, YieldOp)]
    return any(isinstance(op, Generic) for op in ops) and all(map(_is_computable, ops))


def _is_computable(op: Operation) -> bool:
    match op:
        case tensor.EmptyOp() | arith.ConstantOp():
            return True
        case tensor.ExtractSliceOp():
            return isinstance(op.source, BlockArgument) and part_of_columns(op) is not None
        case Generic():
            write = op.get_indexing_maps().data[-1].data
            return is_pointwise(op) and write == AffineMap.identity(write.num_dims)
        case _:
            return False


def _fold_into_product(
    elements: DispatchOp, product: DispatchOp, target: Target
) -> DispatchOp | None:
    """Returns the product with the elements in it; None if its schedule would not fit."""
    folded = fuse(elements, product, elements.outputs[0])
    views = _read_parts(folded)
    plan = rows_plan(folded, target)
    if plan is not None and _computes_once(plan):
        Rewriter.insert_op(views, InsertPoint.before(elements))
        return folded
    folded.erase()
    for view in views:
        view.erase()
    return None


def _read_parts(folded: DispatchOp) -> list[Operation]:
    """Replaces slices that are equal parts of operands by reads of the parts of their views."""
    views: dict[tuple[SSAValue, int], tensor.ExpandShapeOp] = {}
    arguments: dict[tuple[SSAValue, int], SSAValue] = {}
    for op in [o for o in folded.body.block.ops if isinstance(o, tensor.ExtractSliceOp)]:
        part = part_of_columns(op)
        if part is None or not isinstance(op.source, BlockArgument):
            continue
        (count, number), source = part, folded.inputs[op.source.index]
        if (key := (source, count)) not in views:
            rank = tensor_type(source).get_num_dims()
            views[key] = split_dimension(source, rank - 1, count)
            arguments[key] = folded.add_operand(views[key].result)
        for use in list(op.result.uses):
            assert isinstance(use.operation, Generic)
            maps = maps_of(use.operation)
            *outer, last = maps[use.index].results
            places = (*outer, AffineConstantExpr(number), last)
            maps[use.index] = AffineMap(maps[use.index].num_dims, 0, places)
            use.operation.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, maps))
            use.operation.operands[use.index] = arguments[key]
        folded.body.block.erase_op(op)
    folded.drop_unread_operands()
    return list(views.values())


def _computes_once(plan: RowsPlan) -> bool:
    """True if a workgroup computes each element of the rows once, to make digits of it."""
    once = plan.is_stationary and plan.row_tiles == 1 and plan.contraction.batch == 1
    return once and plan.schedule.digits.data > 0
