"""
Transposes weights that are not contiguous along K, for products with few rows.

    %r = schedule.dispatch(%x, %w) {    %t = schedule.dispatch(%w) { linalg.transpose }
      ... %x[m, k] * %w[k, n]       ->  %r = schedule.dispatch(%x, %t) { ... %x[m, k] * %t[n, k] }
    }

A 16-byte load along K has elements of one sum, which one invocation adds up. A load across K has
elements of several sums, which many invocations share. Weights are transposed once, before the
first run. The pass requires a measured memory rate in the target file, and a schedule of few rows
for the new product.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.hints import isa

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, DispatchOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import typical
from xdsl_spirv.passes.analysis.contraction import Contraction, as_contraction
from xdsl_spirv.passes.analysis.linalg_code import maps_of, set_operand
from xdsl_spirv.passes.analysis.values import is_weight
from xdsl_spirv.passes.schedule.assign_schedule import try_plan
from xdsl_spirv.passes.schedule.paths import ROWS, LimitedPass, Limits
from xdsl_spirv.passes.schedule.tuned import lookup
from xdsl_spirv.targets import Target

Turned = dict[tuple[SSAValue, tuple[int, ...]], SSAValue]
"""Maps (weight, order of its dimensions) to the result of the dispatch that transposes it."""


@dataclass(frozen=True)
class TurnWeightsPass(LimitedPass):
    """Transposes weights of products with few rows, so that they are contiguous along K."""

    name = "turn-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = self.find_target(op)
        if target is None or target.measured_copy is None or target.processor:
            return
        limits = self.limits
        for function in functions_of(op):
            turned: Turned = {}
            for dispatch in [o for o in function.body.block.ops if isinstance(o, DispatchOp)]:
                for root in list(dispatch.body.block.ops):
                    if isinstance(root, linalg.ops.GenericOp) and SCHEDULE not in root.attributes:
                        _turn(dispatch, root, target, limits, turned)


def _turn(
    dispatch: DispatchOp,
    root: linalg.ops.GenericOp,
    target: Target,
    limits: Limits,
    turned: Turned,
) -> None:
    """Transposes the weight of a product if the product then has a schedule of few rows."""
    contraction = as_contraction(root)
    if contraction is None:
        return
    order = _order(contraction, target.model.rows.much)
    if order is None or lookup(contraction, target) is not None:
        return
    weight = contraction.b
    assert isinstance(weight, BlockArgument)
    source, block = dispatch.inputs[weight.index], dispatch.body.block
    number, maps = list(root.inputs).index(weight), root.indexing_maps
    # Modifies the product for the trial: schedules depend on the contents of its dispatch.
    argument = dispatch.add_operand(source)
    Rewriter.replace_value_with_new_type(argument, _turned_type(weight.type, order))
    argument = block.args[-1]
    places = maps_of(root)[number].results
    set_operand(root, number, argument, [places[n] for n in order])
    if try_plan(root, target, limits, (ROWS,)) is not None:
        key = source, order
        if key not in turned:
            turned[key] = _turning(dispatch, source, order)
        argument.name_hint = turned[key].name_hint
        dispatch.operands = [*dispatch.operands[:-1], turned[key]]
    else:
        root.operands[number] = weight
        root.properties["indexing_maps"] = maps
    dispatch.drop_unread_operands()


def _order(contraction: Contraction, much: int) -> tuple[int, ...] | None:
    """
    Returns an order of B's dimensions in which the dimensions of K come last.

    Returns None if B is already contiguous along K, is not a weight, has a dimension that is not
    indexed by a single loop, or has fewer than `much` columns for each row of A.
    """
    weight, map = contraction.b, contraction.maps[1]
    few, many = typical(contraction.m), typical(contraction.n)
    if not isinstance(weight, BlockArgument) or not is_weight(weight) or many < much * few:
        return None
    if not isa(weight.type, TensorType) or not weight.type.has_static_shape():
        return None
    loops = [e.position if isinstance(e, AffineDimExpr) else -1 for e in map.results]
    reduced = contraction.groups[3]
    if -1 in loops or len({*loops}) < len(loops) or loops[-1] in reduced:
        return None
    along = [n for n, loop in enumerate(loops) if loop in reduced]
    if not along:
        return None
    return (*(n for n in range(len(loops)) if n not in along), *along)


def _turned_type(type: Attribute, order: tuple[int, ...]) -> TensorType:
    assert isinstance(type, TensorType)
    shape = type.get_shape()
    return TensorType(type.element_type, [shape[n] for n in order])


def _turning(dispatch: DispatchOp, source: SSAValue, order: tuple[int, ...]) -> SSAValue:
    from xdsl_spirv.passes.graph.fuse_dispatches import copy_to_dispatch

    type = _turned_type(source.type, order)
    empty, permutation = tensor.EmptyOp((), type), DenseArrayBase.from_list(i64, order)
    transpose = linalg.ops.TransposeOp(source, empty.tensor, permutation, type)
    turning = copy_to_dispatch([empty, transpose])
    transpose.drop_all_references()
    turning.location = dispatch.location
    turning.outputs[0].name_hint = f"{source.name_hint or 'weight'}_turned"
    Rewriter.insert_op(turning, InsertPoint.before(dispatch))
    return turning.outputs[0]
