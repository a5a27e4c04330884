"""
Norms of the few rows that a product reads become a part of the product's kernel.

    %s = f(sum over k of g(%x[i, k]))               %p = contraction(%x * %w, %b), and the sum
    %y = %x * %s[i] * %w       one dispatch    ->   %r = %p * f(sum)          one dispatch
    %r = contraction(%y, %b)   another one

Factors that are the same for all elements of a row are taken out of the product: a launch, and the
memory traffic between the two, cost more than to add up the rows in each workgroup. This is done
for schedules of few rows, on devices that compute while they wait for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.schedule import DispatchOp, YieldOp
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.epilogue import row_sum_of
from xdsl_spirv.passes.analysis.linalg_code import Code, groups_of, maps_of, tensor_type
from xdsl_spirv.passes.analysis.pointwise import body_ops, is_pointwise
from xdsl_spirv.passes.analysis.values import erase_unused_ops, is_zero
from xdsl_spirv.passes.graph.fuse_dispatches import fuse, fuse_into_readers
from xdsl_spirv.passes.schedule.kinds import kind_of, root_of
from xdsl_spirv.passes.schedule.rows import RowsPlan, dispatches_beside_rows, rows_plan
from xdsl_spirv.targets import Target

MOST = 1 << 15
"""Elements that a workgroup adds up while it waits for the first loads of the streamed operand."""

MOST_USERS = 4
"""Products of one norm: each adds up its rows again."""

Generic = linalg.ops.GenericOp


@dataclass(frozen=True)
class Factor:
    """A factor or divisor of rows, and its map from the result's dimensions."""

    value: SSAValue
    map: AffineMap
    kind: type[arith.MulfOp | arith.DivfOp]


@dataclass(frozen=True)
class FoldNormsPass(ModulePass):
    """Computes norms of few rows in the kernels of the products that read them."""

    name = "fold-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dispatch, target in dispatches_beside_rows(op, self.name):
            if not target.processor and _is_norm(dispatch):
                fold = partial(_fold_into_product, dispatch, target=target)
                fuse_into_readers(dispatch, fold, MOST_USERS)


def _is_norm(dispatch: DispatchOp) -> bool:
    """True if a dispatch multiplies few rows in f32 by factors of the rows, and by others."""
    if len(dispatch.outputs) != 1 or dispatch.updates:
        return False
    (value,) = dispatch.yielded
    type = tensor_type(value)
    if type.element_type != f32 or not type.has_static_shape() or type.get_num_dims() < 2:
        return False
    products = list(_products(value))
    if prod(type.get_shape()) > MOST or not any(is_of_row for *_, is_of_row in products):
        return False
    op, number, _ = products[-1]
    source = op.inputs[1 - number]
    if not isinstance(source, BlockArgument) or source.type != type:
        return False
    return all(_is_computable(op, source) for op in dispatch.body.block.ops)


def _products(value: SSAValue) -> Iterator[tuple[Generic, int, bool]]:
    """Walks back through multiplications; yields the factor's number, and whether it is of rows."""
    while isinstance(op := value.owner, Generic) and (factor := _factor_of_product(op)):
        yield op, *factor
        value = op.inputs[1 - factor[0]]


def _is_computable(op: Operation, source: SSAValue) -> bool:
    """Whether a kernel of few rows computes it for a row of `source`."""
    match op:
        case tensor.EmptyOp() | linalg.ops.FillOp() | arith.ConstantOp() | YieldOp():
            return True
        case tensor.ExpandShapeOp():
            return _adds_only_ones(op)
        case Generic():
            if row_sum_of(op) is not None:
                return op.inputs[0] is source and is_zero(op.outputs[0])
            return is_pointwise(op)
        case _:
            return False


def _take_factors(value: SSAValue) -> list[Factor]:
    """Removes the multiplications by factors of rows from the computation of a value."""
    factors: list[Factor] = []
    for op, number, is_of_row in list(_products(value)):
        if is_of_row:
            factors.append(Factor(op.inputs[number], maps_of(op)[number], _kind_of(op)))
            op.results[0].replace_all_uses_with(op.inputs[1 - number])
    return factors


def _factor_of_product(op: Generic) -> tuple[int, bool] | None:
    """
    For a product of two tensors: which of them is the factor, and whether of rows; None for others.

    The other one is read in the place of the result. The divisor of rows is a factor, too.
    """
    if not is_pointwise(op) or len(op.inputs) != 2:
        return None
    ops = body_ops(op.body.block)
    if len(ops) != 1 or not isinstance(ops[0], arith.MulfOp | arith.DivfOp):
        return None
    if set(ops[0].operands) != set(op.body.block.args[:2]):
        return None
    divisor = None
    if isinstance(ops[0], arith.DivfOp):
        divisor = list(op.body.block.args).index(ops[0].rhs)  # pyright: ignore
    *reads, write = maps_of(op)
    identity = AffineMap.identity(write.num_dims)
    if write != identity:
        return None
    last = AffineDimExpr(write.num_dims - 1)
    for number in (0, 1):
        of_row = reads[1 - number] == identity and last not in reads[number].results
        if of_row and divisor in (number, None):
            return number, True
    for number in (0, 1) if divisor is None else ():
        stored = isinstance(op.inputs[number].owner, Block | arith.ConstantOp)
        if reads[1 - number] == identity and stored:
            return number, False
    return None


def _kind_of(op: Generic) -> type[arith.MulfOp | arith.DivfOp]:
    """Returns whether an operation multiplies or divides."""
    (product,) = body_ops(op.body.block)
    return arith.DivfOp if isinstance(product, arith.DivfOp) else arith.MulfOp


def _adds_only_ones(op: tensor.ExpandShapeOp) -> bool:
    return all(len(kept) <= 1 for kept in _kept_dimensions(op))


def _kept_dimensions(op: tensor.ExpandShapeOp) -> list[list[int]]:
    """For each dimension of the source, the dimensions of the result above size 1."""
    shape = tensor_type(op.result).get_shape()
    return [[n for n in group if shape[n] != 1] for group in groups_of(op)]


def _read_through_ones(block: Block) -> None:
    """Operations that read a tensor with added dimensions of 1 read the tensor itself."""
    for op in [o for o in block.ops if isinstance(o, Generic)]:
        maps = maps_of(op)
        for number, value in enumerate(op.inputs):
            expand, read = value.owner, maps[number]
            if not isinstance(expand, tensor.ExpandShapeOp) or not _adds_only_ones(expand):
                continue
            places: list[AffineExpr] = [
                read.results[kept[0]] if kept else AffineConstantExpr(0)
                for kept in _kept_dimensions(expand)
            ]
            maps[number] = AffineMap(read.num_dims, 0, tuple(places))
            op.operands[number] = expand.src
        op.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, maps))


def _fold_into_product(norm: DispatchOp, product: DispatchOp, target: Target) -> DispatchOp | None:
    """Returns the product with the norm in it; None if its schedule would not fit."""
    (result,) = norm.outputs
    uses = list(product.body.block.args[list(product.inputs).index(result)].uses)
    read = uses[0].operation
    if len(uses) != 1 or not isinstance(read, Generic) or kind_of(read) != "rows":
        return None
    rows = _places_of_rows(read, uses[0].index)
    if rows is None or product.updates:
        return None
    folded = fuse(norm, product, result)
    root = root_of(folded)
    assert isinstance(root, Generic)
    for factor in _take_factors(root.operands[uses[0].index]):
        map = factor.map.replace_dims_and_symbols(rows, [], len(rows), 0)
        _multiply(root, replace(factor, map=map))
    _read_through_ones(folded.body.block)
    erase_unused_ops(folded.body.block, lambda _: True)
    plan = rows_plan(folded, target)
    if plan is not None and _is_few(plan) and plan.contraction.epilogue.reductions:
        return folded
    folded.erase()
    return None


def _is_few(plan: RowsPlan) -> bool:
    return (
        plan.row_tiles == 1 and not is_dynamic(plan.operands.rows) and plan.contraction.batch == 1
    )


def _places_of_rows(root: Generic, operand: int) -> list[AffineExpr] | None:
    """
    The result dimensions of a product for each dimension of an operand; its last one is summed.
    """
    maps = [attribute.data for attribute in root.get_indexing_maps()]
    result = list(maps[-1].results)
    *rows, last = maps[operand].results
    kept = {e.position for e in result if isinstance(e, AffineDimExpr)}
    if any(isinstance(e, AffineDimExpr) and e.position in kept for e in last.dfs()):
        return None
    if any(row not in result for row in rows):
        return None
    places: list[AffineExpr] = [AffineDimExpr(result.index(row)) for row in rows]
    # The dimension that is summed: no factor of a row asks for it.
    return [*places, AffineConstantExpr(0)]


def _multiply(root: Generic, factor: Factor) -> None:
    """Multiplies or divides the product's result by a factor of its rows."""
    (result,) = root.results
    identity = AffineMap.identity(tensor_type(result).get_num_dims())
    read = AffineMap(identity.num_dims, 0, factor.map.results)
    scaled = Code.open_behind(result).elementwise(
        [result, factor.value],
        f32,
        lambda b, v: b.insert(factor.kind(v[0], v[1])),
        [identity, read],
    )
    result.replace_uses_with_if(scaled, lambda use: use.operation is not scaled.owner)
