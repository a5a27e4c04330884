"""
Few rows that are computed element by element become a part of the kernel of the product that reads
them.

    %h = f(%p[i, k], %p[i, k + n])   one dispatch        %r = contraction(f(...) * %w)  one dispatch
    %r = contraction(%h * %w)        another one   ->

A launch, and what is written and read between the two, cost more than to compute the elements in
each workgroup. So it is where a workgroup computes each of them once: where the schedule says that
its invocations have all of K between them, for all of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineMapAttr, ArrayAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.program import functions_of
from xdsl_spirv.dialects.schedule import (
    CONSIDERED,
    SCHEDULE,
    UPDATES,
    DispatchOp,
    RowsAttr,
    YieldOp,
)
from xdsl_spirv.passes.analysis.contraction import NotAContraction, contraction_of
from xdsl_spirv.passes.analysis.layout import NotLinear
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.analysis.target import target_of
from xdsl_spirv.passes.schedule.fit import ScheduleDoesNotFit
from xdsl_spirv.passes.schedule.rows import RowsPlan, check_rows
from xdsl_spirv.targets import Target

MOST = 1 << 15
"""Elements that every workgroup computes."""

Generic = linalg.ops.GenericOp


@dataclass(frozen=True)
class FoldElementsPass(ModulePass):
    """Computes few rows where products of few rows read them."""

    name = "fold-elements"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scheduled = [o for o in op.walk() if isinstance(o.attributes.get(SCHEDULE), RowsAttr)]
        if not scheduled:
            return
        target = target_of(op, self.name)
        for function in functions_of(op):
            for dispatch in [o for o in function.walk() if isinstance(o, DispatchOp)]:
                if _is_elementwise(dispatch):
                    _fold(dispatch, target)


def _is_elementwise(dispatch: DispatchOp) -> bool:
    """Whether a dispatch computes one tensor, each element from elements of its operands."""
    if len(dispatch.outputs) != 1 or dispatch.updates:
        return False
    type = dispatch.outputs[0].type
    if not isinstance(type, TensorType) or not type.has_static_shape():
        return False
    if prod(type.get_shape()) > MOST:
        return False
    ops = [op for op in dispatch.body.block.ops if not isinstance(op, YieldOp)]
    return any(isinstance(op, Generic) for op in ops) and all(map(_is_computable, ops))


def _is_computable(op: Operation) -> bool:
    match op:
        case tensor.EmptyOp() | arith.ConstantOp():
            return True
        case tensor.ExtractSliceOp():
            numbers = (*op.static_offsets.iter_values(), *op.static_sizes.iter_values())
            steps = tuple(op.static_strides.iter_values())
            whole = DYNAMIC_INDEX not in numbers and set(steps) == {1}
            same_rank = len(_shape(op.source)) == len(_shape(op.result))
            return whole and same_rank and isinstance(op.source, BlockArgument)
        case Generic():
            write = op.get_indexing_maps().data[-1].data
            return is_pointwise(op) and write == AffineMap.identity(write.num_dims)
        case _:
            return False


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.get_shape()


def _fold(dispatch: DispatchOp, target: Target) -> None:
    """Move the elements into the only product that reads them, or leave everything as it is."""
    (result,) = dispatch.outputs
    users = [use.operation for use in result.uses]
    if len(users) != 1 or not isinstance(users[0], DispatchOp):
        return
    (user,) = users
    folded = _folded(dispatch, user, target)
    block = user.parent_block()
    if folded is None or block is None:
        return
    block.insert_op_before(folded, user)
    for old, new in zip(user.outputs, folded.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    block.erase_op(user)
    block.erase_op(dispatch)


def _folded(dispatch: DispatchOp, user: DispatchOp, target: Target) -> DispatchOp | None:
    """The product with the elements in it, None where its schedule would not fit."""
    number = list(user.inputs).index(dispatch.outputs[0])
    if UPDATES in user.attributes:
        return None
    copy = user.clone()
    body = copy.body.block
    argument = body.args[number]
    uses = list(argument.uses)
    root = uses[0].operation if len(uses) == 1 else None
    if not isinstance(root, Generic) or not isinstance(root.attributes.get(SCHEDULE), RowsAttr):
        copy.erase()
        return None
    inputs = list(copy.inputs)
    given: dict[SSAValue, SSAValue] = {}
    for value, own in zip(dispatch.inputs, dispatch.body.block.args, strict=True):
        inputs.append(value)
        given[own] = body.insert_arg(own.type, len(body.args))
        given[own].name_hint = own.name_hint
    root.operands[uses[0].index] = _write(dispatch, body, given)
    body.erase_arg(argument)
    del inputs[number]
    region = copy.detach_region(copy.body)
    folded = DispatchOp(inputs, [value.type for value in user.outputs], region)
    folded.attributes.update(copy.attributes)
    folded.location = user.location
    copy.erase()
    if _fits(root, target):
        return folded
    folded.erase()
    return None


def _write(dispatch: DispatchOp, body: Block, given: dict[SSAValue, SSAValue]) -> SSAValue:
    """Clones of a dispatch's operations at a block's beginning, and what they yield."""
    inside = dict(given)
    begins: dict[SSAValue, tuple[int, ...]] = {}
    first = body.first_op
    assert first is not None
    for op in dispatch.body.block.ops:
        if isinstance(op, YieldOp):
            break
        if isinstance(op, tensor.ExtractSliceOp):
            inside[op.result] = given[op.source]
            begins[op.result] = tuple(op.static_offsets.iter_values())
            continue
        copy = op.clone(inside)
        copy.attributes.pop(CONSIDERED, None)
        if isinstance(copy, Generic) and isinstance(op, Generic):
            _shift(copy, [begins.get(value) for value in op.inputs])
        body.insert_op_before(copy, first)
        inside.update(zip(op.results, copy.results, strict=True))
    return inside[dispatch.yielded[0]]


def _shift(op: Generic, begins: list[tuple[int, ...] | None]) -> None:
    """Read operands from where they begin in what they are slices of."""
    reads = [attribute.data for attribute in op.get_indexing_maps()]
    for number, begin in enumerate(begins):
        if begin is not None:
            read = reads[number]
            places = tuple(
                place + AffineConstantExpr(first) if first else place
                for place, first in zip(read.results, begin, strict=True)
            )
            reads[number] = AffineMap(read.num_dims, 0, places)
    op.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, reads))


def _fits(root: Generic, target: Target) -> bool:
    """Whether a workgroup computes each element once."""
    try:
        plan = RowsPlan(contraction_of(root), root.attributes[SCHEDULE], target)  # pyright: ignore
        check_rows(plan)
        return plan.is_stationary and plan.row_tiles == 1 and plan.contraction.batch == 1
    except (NotAContraction, NotLinear, ScheduleDoesNotFit):
        return False
