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
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, AffineMapAttr, ArrayAttr, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

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
from xdsl_spirv.passes.analysis.linalg_code import split_dimension
from xdsl_spirv.passes.analysis.pointwise import is_pointwise
from xdsl_spirv.passes.schedule.kinds import ScheduleDoesNotFit, check
from xdsl_spirv.passes.schedule.rows import RowsPlan, dispatches_beside_rows
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
                _fold(dispatch, target)


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
            return isinstance(op.source, BlockArgument) and _part_of(op) is not None
        case Generic():
            write = op.get_indexing_maps().data[-1].data
            return is_pointwise(op) and write == AffineMap.identity(write.num_dims)
        case _:
            return False


def _part_of(op: tensor.ExtractSliceOp) -> tuple[int, int] | None:
    """
    Returns the number of equal parts and the part's index if a slice is an equal part of the last
    dimension, else None.
    """
    source, result = op.source.type, op.result.type
    assert isinstance(source, TensorType)
    assert isinstance(result, TensorType)
    *outer, whole = source.get_shape()
    if DYNAMIC_INDEX in (*outer, whole) or len(outer) + 1 != result.get_num_dims():
        return None
    *begins, begin = op.static_offsets.iter_values()
    *sizes, size = op.static_sizes.iter_values()
    if sizes != outer or any(begins) or set(op.static_strides.iter_values()) != {1}:
        return None
    return (whole // size, begin // size) if whole % size == begin % size == 0 else None


def _fold(dispatch: DispatchOp, target: Target) -> None:
    """Moves the elements into the only product that reads them, or changes nothing."""
    (result,) = dispatch.outputs
    users = [use.operation for use in result.uses]
    user = users[0] if len(users) == 1 else None
    if not isinstance(user, DispatchOp):
        return
    folded = _fold_into_product(dispatch, user, target)
    if folded is None:
        return
    Rewriter.replace_op(user, folded)
    Rewriter.erase_op(dispatch)


def _fold_into_product(dispatch: DispatchOp, user: DispatchOp, target: Target) -> DispatchOp | None:
    """Returns the product with the elements in it; None if its schedule would not fit."""
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
    writer = _Writer(dispatch, body, list(copy.inputs))
    root.operands[uses[0].index] = writer.write()
    body.erase_arg(argument)
    inputs = [value for at, value in enumerate(writer.inputs) if at != number]
    region = copy.detach_region(copy.body)
    folded = DispatchOp(inputs, [value.type for value in user.outputs], region)
    folded.attributes.update(copy.attributes)
    folded.location = user.location
    copy.erase()
    if _fits(root, target):
        return folded
    folded.erase()
    for view in writer.views:
        view.detach()
        view.erase()
    return None


class _Writer:
    """Writes what one dispatch computes at the beginning of another dispatch's block."""

    def __init__(self, dispatch: DispatchOp, body: Block, inputs: list[SSAValue]):
        self.dispatch, self.body, self.inputs = dispatch, body, inputs
        self.inside: dict[SSAValue, SSAValue] = {}
        self.parts: dict[SSAValue, int] = {}
        self.views: list[Operation] = []
        self._arguments: dict[tuple[SSAValue, int], SSAValue] = {}

    def write(self) -> SSAValue:
        """
        The value that the dispatch yields; the operands that it needs are added to the other one's.
        """
        first = self.body.first_op
        assert first is not None
        for op in self.dispatch.body.block.ops:
            if isinstance(op, YieldOp):
                break
            if isinstance(op, tensor.ExtractSliceOp):
                part = _part_of(op)
                assert part is not None
                count, self.parts[op.result] = part
                self.inside[op.result] = self._argument(op.source, count)
                continue
            for value in op.operands:
                if isinstance(value, BlockArgument):
                    self.inside[value] = self._argument(value)
            copy = op.clone(self.inside)
            copy.attributes.pop(CONSIDERED, None)
            if isinstance(copy, Generic) and isinstance(op, Generic):
                self._read_parts(op, copy)
            self.body.insert_op_before(copy, first)
            self.inside.update(zip(op.results, copy.results, strict=True))
        return self.inside[self.dispatch.yielded[0]]

    def _argument(self, own: SSAValue, parts: int = 1) -> SSAValue:
        """The other dispatch's operand for an argument, with its last dimension in equal parts."""
        if (own, parts) in self._arguments:
            return self._arguments[own, parts]
        assert isinstance(own, BlockArgument)
        value = self.dispatch.inputs[own.index]
        if parts > 1:
            assert isinstance(value.type, TensorType)
            view = split_dimension(value, value.type.get_num_dims() - 1, parts)
            block = self.dispatch.parent_block()
            assert block is not None
            block.insert_op_before(view, self.dispatch)
            self.views.append(view)
            value = view.result
        self.inputs.append(value)
        argument = self.body.insert_arg(value.type, len(self.body.args))
        argument.name_hint = own.name_hint
        self._arguments[own, parts] = argument
        return argument

    def _read_parts(self, op: Generic, copy: Generic) -> None:
        """Replaces slices that are equal parts of their sources by reads of the parts."""
        reads = [attribute.data for attribute in op.get_indexing_maps()]
        for number, value in enumerate(op.inputs):
            if value in self.parts:
                *outer, last = reads[number].results
                places = (*outer, AffineConstantExpr(self.parts[value]), last)
                reads[number] = AffineMap(reads[number].num_dims, 0, places)
        copy.properties["indexing_maps"] = ArrayAttr(map(AffineMapAttr, reads))


def _fits(root: Generic, target: Target) -> bool:
    """True if a workgroup computes each element once, to make digits of it."""
    schedule = root.attributes[SCHEDULE]
    assert isinstance(schedule, RowsAttr)
    try:
        plan = RowsPlan(contraction_of(root), schedule, target)
        check(plan)
    except (NotAContraction, NotLinear, ScheduleDoesNotFit):
        return False
    once = plan.is_stationary and plan.row_tiles == 1 and plan.contraction.batch == 1
    return once and schedule.digits.data > 0
