"""
Joins the products that compute an attention's queries, keys and values from one operand.

    %q = %x * %wq + %bq                               %p = %x * [%wq, %wk, %wv] + [%bq, %bk, %bv]
    %k = %x * %wk + %bk                         ->    schedule.dispatch(%p, %p, %p) { attention }
    %v = %x * %wv + %bv
    schedule.dispatch(%q, %k, %v) { attention }

The index maps of the attention then select the columns of the queries, keys and values in %p. One
kernel with three times the columns uses a device better than three kernels, and reads the operand
once. The weights are concatenated when a program is loaded. Elementwise operations with one weight
for each column are joined too, if all products have equal operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import SCHEDULE, AttentionOp, DispatchOp
from xdsl_spirv.passes.analysis.contraction import as_contraction
from xdsl_spirv.passes.analysis.linalg_code import Code, make_generic, maps_of, tensor_type
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.values import erase_dead, is_weight, is_zero
from xdsl_spirv.upstream.equality import is_same

GenericOp: TypeAlias = linalg.ops.GenericOp


@dataclass(frozen=True)
class JoinProductsPass(ModulePass):
    """Joins products of one operand that compute the queries, keys and values of an attention."""

    name = "join-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            for dispatch in [o for o in function.walk() if isinstance(o, DispatchOp)]:
                _join_operands(dispatch)


@dataclass(frozen=True)
class _Chain:
    """A product with a weight, and the elementwise operations on its result."""

    argument: BlockArgument
    """Dispatch argument that receives the last result."""
    ops: tuple[GenericOp, ...]

    @property
    def columns(self) -> int:
        return _shape(self.ops[0].results[0])[-1]


def _are_alike(one: GenericOp, other: GenericOp) -> bool:
    """True if two operations are equal except for their weights and columns."""
    if one.indexing_maps != other.indexing_maps or not is_same(one.body, other.body):
        return False
    for number, (value, counterpart) in enumerate(zip(one.operands, other.operands, strict=True)):
        axis = _column_axis(one, number)
        if axis is None and value is not counterpart:
            return False
        if _type_without(axis, value) != _type_without(axis, counterpart):
            return False
    return True


def _type_without(axis: int | None, value: SSAValue) -> tuple[object, ...]:
    if axis is None or not isinstance(value.type, TensorType):
        return (value.type,)
    shape = value.type.get_shape()
    return value.type.element_type, shape[:axis], shape[axis + 1 :]


def _column_axis(op: GenericOp, operand: int) -> int | None:
    """Returns the operand dimension that the result's columns index; None if there is none."""
    maps = op.get_indexing_maps().data
    column = maps[-1].data.results[-1]
    axes = [axis for axis, e in enumerate(maps[operand].data.results) if e == column]
    return axes[0] if axes else None


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tensor_type(value).get_shape()


def _join_operands(dispatch: DispatchOp) -> None:
    attention = next((op for op in dispatch.body.block.ops if isinstance(op, AttentionOp)), None)
    if attention is None or dispatch.updates:
        return
    operands = (attention.query, attention.key, attention.value)
    arguments = dict.fromkeys(v for v in operands if isinstance(v, BlockArgument))
    chains = [chain for argument in arguments if (chain := _chain_of(dispatch, argument))]
    while chains:
        count = len(chains[0].ops)
        like = [
            chain
            for chain in chains
            if len(chain.ops) == count and all(map(_are_alike, chain.ops, chains[0].ops))
        ]
        chains = [chain for chain in chains if chain not in like]
        if len(like) > 1:
            _join(dispatch, attention, like)


def _chain_of(dispatch: DispatchOp, argument: BlockArgument) -> _Chain | None:
    """Returns the chain that computes an operand which only this dispatch reads, else None."""
    value = dispatch.inputs[argument.index]
    ops: list[GenericOp] = []
    while isinstance(value, OpResult) and value.has_one_use():
        op = value.op
        if not isinstance(op, linalg.ops.GenericOp) or SCHEDULE in op.attributes:
            return None
        ops.append(op)
        columns = [v for n, v in enumerate(op.inputs) if _column_axis(op, n) is not None]
        others = [v for v in columns if not is_weight(v)]
        if _is_product(op):
            return None if others else _Chain(argument, tuple(reversed(ops)))
        written = op.get_indexing_maps().data[-1].data
        if not is_pointwise(op) or written != AffineMap.identity(written.num_dims):
            return None
        if len(others) != 1 or _column_axis(op, list(op.inputs).index(others[0])) is None:
            return None
        (value,) = others
    return None


def _is_product(op: GenericOp) -> bool:
    """True for a product without batch loops in which a single loop indexes the columns."""
    contraction, init = as_contraction(op), op.outputs[0].owner
    if not isinstance(init, linalg.ops.FillOp) or not is_zero(init.inputs[0]):
        return False
    if contraction is None:
        return False
    return (
        contraction.a is op.inputs[0] and contraction.counts[2] == 1 and not contraction.counts[0]
    )


def _join(dispatch: DispatchOp, attention: AttentionOp, chains: Sequence[_Chain]) -> None:
    """Inserts the joined operations before a dispatch, whose attention then reads their columns."""
    before: SSAValue | None = None
    for level in zip(*(chain.ops for chain in chains), strict=True):
        before = _join_chains(dispatch, level, before)
    assert before is not None
    maps = list(attention.maps)
    begins = accumulate((chain.columns for chain in chains), initial=0)
    for chain, begin in zip(chains, begins, strict=False):
        for number, operand in enumerate((attention.query, attention.key, attention.value)):
            if operand is chain.argument:
                *rows, column = (map := maps[number].data).results
                shifted = AffineMap(map.num_dims, map.num_symbols, (*rows, column + begin))
                maps[number] = AffineMapAttr(shifted)
        # One operand for each chain, because a kernel may view the buffer in different types.
        old = dispatch.inputs[chain.argument.index]
        dispatch.operands[chain.argument.index] = before
        Rewriter.replace_value_with_new_type(chain.argument, before.type)
        erase_dead(old)
    attention.properties["maps"] = ArrayAttr(maps)


def _join_chains(
    dispatch: DispatchOp, ops: Sequence[GenericOp], before: SSAValue | None
) -> SSAValue:
    """Joins one operation of each chain; `before` is the result of the previous join."""
    first, code = ops[0], Code(dispatch)
    inputs: list[SSAValue] = []
    for number, value in enumerate(first.inputs):
        axis = _column_axis(first, number)
        if axis is None:
            inputs.append(value)
        elif not is_weight(value):
            assert before is not None, "a product has weights"
            inputs.append(before)
        else:
            inputs.append(_concatenate_weights(code, [op.inputs[number] for op in ops], axis))
    result = tensor_type(first.results[0])
    columns = sum(_shape(op.results[0])[-1] for op in ops)
    type = TensorType(result.element_type, [*result.get_shape()[:-1], columns])
    out = _room(code, first.outputs[0], type)
    joined = make_generic(inputs, out, maps_of(first), first.body.clone())
    code.insert(joined)
    joined.location = first.location
    joined.results[0].name_hint = first.results[0].name_hint
    return joined.results[0]


def _room(code: Code, out: SSAValue, type: TensorType[Attribute]) -> SSAValue:
    owner = out.owner
    if isinstance(owner, linalg.ops.FillOp):
        return code.fill_with(owner.inputs[0], _room(code, owner.outputs[0], type))
    assert isinstance(owner, tensor.EmptyOp), "a destination is a fill or an empty tensor"
    return code.insert(tensor.EmptyOp(owner.dynamic_sizes, type))


def _concatenate_weights(code: Code, values: Sequence[SSAValue], axis: int) -> SSAValue:
    first = tensor_type(values[0])
    shape = list(first.get_shape())
    shape[axis] = sum(_shape(value)[axis] for value in values)
    return code.insert(tensor.ConcatOp(values, axis, TensorType(first.element_type, shape)))
