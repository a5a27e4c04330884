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
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp, TensorType, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.schedule import CONSIDERED, SCHEDULE, UPDATES, DispatchOp, RowsAttr
from xdsl_spirv.dialects.schedule.symbolic_sizes import is_dynamic
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.epilogue import row_sum_of
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.analysis.linalg_code import Code, tensor_type
from xdsl_spirv.passes.analysis.pointwise import body_ops, is_pointwise
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.rows import RowsPlan, dispatches_beside_rows
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


Written: TypeAlias = tuple[SSAValue, list[Factor]]
"""The operand that a product reads instead of a norm, and the factors of its result."""


@dataclass(frozen=True)
class FoldNormsPass(ModulePass):
    """Computes norms of few rows in the kernels of the products that read them."""

    name = "fold-norms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for dispatch, target in dispatches_beside_rows(op, self.name):
            if not target.processor:
                _fold(dispatch, target)


def _fold(dispatch: DispatchOp, target: Target) -> None:
    """Moves a norm into all products that read it, or changes nothing."""
    norm = _Norm.of(dispatch)
    if norm is None:
        return
    (result,) = dispatch.outputs
    users = [use.operation for use in result.uses]
    if not users or len(users) > MOST_USERS or len(set(users)) < len(users):
        return
    pairs: list[tuple[DispatchOp, DispatchOp]] = []
    for user in users:
        if (
            isinstance(user, DispatchOp)
            and (folded := _fold_into_product(norm, user, target)) is not None
        ):
            pairs.append((user, folded))
    if len(pairs) < len(users):
        for _, folded in pairs:
            folded.erase()
        return
    for user, folded in pairs:
        Rewriter.replace_op(user, folded)
    Rewriter.erase_op(dispatch)


@dataclass(frozen=True)
class _Norm:
    """A dispatch whose result is `rest` of its last dimension, times factors of its rows."""

    dispatch: DispatchOp
    factors: tuple[Factor, ...]
    products: tuple[Generic, ...]
    """The multiplications by factors that vary within a row, the last one first."""
    source: SSAValue
    """The value that the factors and `products` multiply."""

    @staticmethod
    def of(dispatch: DispatchOp) -> _Norm | None:
        """The norm of a dispatch; None if it is not a norm of static shape in f32."""
        if len(dispatch.outputs) != 1 or dispatch.updates:
            return None
        (value,) = dispatch.yielded
        type = value.type
        assert isinstance(type, TensorType)
        if type.element_type != f32 or not type.has_static_shape() or type.get_num_dims() < 2:
            return None
        if prod(type.get_shape()) > MOST:
            return None
        factors: list[Factor] = []
        products: list[Generic] = []
        while isinstance(value.owner, Generic) and (factor := _factor_of_product(value.owner)):
            number, is_of_row = factor
            if is_of_row:
                map = value.owner.get_indexing_maps().data[number].data
                kind = _kind_of(value.owner)
                factors.append(Factor(value.owner.inputs[number], map, kind))
            else:
                products.append(value.owner)
            value = value.owner.inputs[1 - number]
        norm = _Norm(dispatch, tuple(factors), tuple(products), value)
        if not factors or not isinstance(value, BlockArgument) or value.type != type:
            return None
        return norm if all(norm._is_computable(op) for op in norm._ops_of_factors()) else None

    def _ops_of_factors(self) -> list[Operation]:
        """The operations that compute the factors, in order."""
        needed: set[Operation] = set()
        waiting = [factor.value for factor in self.factors]
        while waiting:
            owner = waiting.pop().owner
            if isinstance(owner, Operation) and owner not in needed:
                needed.add(owner)
                waiting += owner.operands
        return [op for op in self.dispatch.body.block.ops if op in needed]

    def _is_computable(self, op: Operation) -> bool:
        """True if a kernel of few rows can compute the operation once for each row."""
        match op:
            case tensor.EmptyOp() | linalg.ops.FillOp() | arith.ConstantOp():
                return True
            case tensor.ExpandShapeOp():
                return _adds_only_ones(op)
            case Generic():
                if row_sum_of(op) is not None:
                    return op.inputs[0] is self.source and _starts_from_zero(op)
                return is_pointwise(op)
            case _:
                return False

    def write(self, block: Block, given: dict[SSAValue, SSAValue]) -> Written:
        """Clones of all but the products by factors, at a block's beginning."""
        first = block.first_op
        assert first is not None
        inside = dict(given)

        def add(op: Operation) -> Operation:
            copy = op.clone(inside)
            copy.attributes.pop(CONSIDERED, None)
            block.insert_op_before(copy, first)
            inside.update(zip(op.results, copy.results, strict=True))
            return copy

        for op in self._ops_of_factors():
            if not isinstance(op, tensor.ExpandShapeOp):
                _read_through_ones(op, add(op), inside)
        value = inside[self.source]
        for op in reversed(self.products):
            for read in op.operands:
                if isinstance(read.owner, tensor.EmptyOp | arith.ConstantOp) and read not in inside:
                    add(read.owner)
            kept = _factor_of_product(op)
            assert kept is not None
            inside[op.inputs[1 - kept[0]]] = value
            value = add(op).results[0]
        return value, [replace(f, value=inside[f.value]) for f in self.factors]


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
    *reads, write = (attribute.data for attribute in op.get_indexing_maps())
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


def _starts_from_zero(op: Generic) -> bool:
    from xdsl_spirv.passes.analysis.values import is_zero

    return is_zero(op.outputs[0])


def _adds_only_ones(op: tensor.ExpandShapeOp) -> bool:
    assert isinstance(op.result.type, TensorType)
    return all(len(kept) <= 1 for kept in _kept_dimensions(op))


def _kept_dimensions(op: tensor.ExpandShapeOp) -> Iterator[list[int]]:
    """For each dimension of the source, the dimensions of the result above size 1."""
    assert isinstance(op.result.type, TensorType)
    shape = op.result.type.get_shape()
    for group in op.reassociation:
        numbers = [n.value.data for n in group]  # pyright: ignore
        yield [n for n in numbers if shape[n] != 1]


def _read_through_ones(op: Operation, copy: Operation, inside: dict[SSAValue, SSAValue]) -> None:
    """Lets an operation read a tensor directly instead of a copy with dimensions of size 1."""
    if not isinstance(op, Generic) or not isinstance(copy, Generic):
        return
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    for number, value in enumerate(op.inputs):
        if not isinstance(value.owner, tensor.ExpandShapeOp):
            continue
        read = maps[number]
        places: list[AffineExpr] = [
            read.results[kept[0]] if kept else AffineConstantExpr(0)
            for kept in _kept_dimensions(value.owner)
        ]
        maps[number] = AffineMap(read.num_dims, 0, tuple(places))
        copy.operands[number] = inside[value.owner.src]
    copy.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, maps))


def _fold_into_product(norm: _Norm, user: DispatchOp, target: Target) -> DispatchOp | None:
    """Returns the product with the norm in it; None if its schedule would not fit."""
    (result,) = norm.dispatch.outputs
    number = list(user.inputs).index(result)
    copy = user.clone()
    body = copy.body.block
    argument = body.args[number]
    root = next((op for op in body.ops if isinstance(op.attributes.get(SCHEDULE), RowsAttr)), None)
    uses = list(argument.uses)
    if not isinstance(root, Generic) or len(uses) != 1 or uses[0].operation is not root:
        copy.erase()
        return None
    rows = _places_of_rows(root, uses[0].index)
    if rows is None or UPDATES in copy.attributes:
        copy.erase()
        return None
    inner = norm.dispatch.body.block
    inputs = list(copy.inputs)
    given: dict[SSAValue, SSAValue] = {}
    for value, own in zip(norm.dispatch.inputs, inner.args, strict=True):
        if own is norm.source:
            inputs[number] = value
            given[own] = argument
        else:
            inputs.append(value)
            given[own] = body.insert_arg(own.type, len(body.args))
            given[own].name_hint = own.name_hint
    root.operands[uses[0].index], factors = norm.write(body, given)
    for factor in factors:
        map = factor.map.replace_dims_and_symbols(rows, [], len(rows), 0)
        _multiply(root, replace(factor, map=map))
    region = copy.detach_region(copy.body)
    dispatch = DispatchOp(inputs, [value.type for value in user.outputs], region)
    dispatch.attributes.update(copy.attributes)
    dispatch.location = user.location
    copy.erase()
    try:
        plan = RowsPlan(contraction_of(root), root.attributes[SCHEDULE], target)  # pyright: ignore
        check(plan)
        fits = _is_few(plan) and plan.contraction.epilogue.reductions
    except (NotAContraction, NotLinear, ScheduleDoesNotFit):
        fits = False
    if fits:
        return dispatch
    dispatch.erase()
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
