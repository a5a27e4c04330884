"""
Updates states in place.

    %k1 = schedule.dispatch(%new, %k)                 the same, with
      ^bb0(%n, %old):                           ->    schedule.updates = array<i64: 1>:
        tensor.insert_slice %n into %old ...          result 0 is written over operand 1
    return %k1

A kernel then writes only the inserted elements, into the state's memory; readers of the new value
read that memory. This is correct if nothing reads the old value later, and the dispatch only
inserts into it. Any other state gets its new value by a copy at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, OpResult, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import first_value_of, functions_of, is_step, states_of
from xdsl_spirv.dialects.schedule import UPDATES, DispatchOp, YieldOp
from xdsl_spirv.passes import refusals
from xdsl_spirv.passes.analysis.linalg_code import tensor_type
from xdsl_spirv.passes.graph.own_results import readers_of, source

PASS = "update-states"
refuse = refusals(PASS)

Update = tuple[DispatchOp, int, int]
"""A dispatch, the index of a result, and the index of the operand that this result overwrites."""


@dataclass(frozen=True)
class UpdateStatesPass(ModulePass):
    """Marks the dispatches that update a state's memory in place, and copies other new values."""

    name = PASS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            _update(function)


def _update(function: FuncOp) -> None:
    block, last = function.body.block, function.body.block.last_op
    states = states_of(function)
    if not states or not isinstance(last, func.ReturnOp):
        return
    copied: list[tuple[int, SSAValue]] = []
    for index, number in states.items():
        state = block.args[index]
        _check(function, state, number, last)
        updates = _updates(last.operands[number], state)
        if updates is None:
            copied.append((number, state))
            continue
        for dispatch, result, operand in updates:
            _mark(dispatch, result, operand)
    # The copies come last, so that all other operations read the old states.
    for number, state in copied:
        last.operands[number] = _copy_into_state(last.operands[number], state, last)


def _check(function: FuncOp, state: BlockArgument, number: int, last: func.ReturnOp) -> None:
    """Refuses a state whose argument and result cannot share memory."""
    what = f"argument {state.index}"
    if not 0 <= number < len(last.operands):
        refuse(
            function,
            f"{what} is a state, but the function has no result {number} for its new value",
        )
    open_sizes = isinstance(state.type, TensorType) and not state.type.has_static_shape()
    if not isinstance(state.type, TensorType) or (open_sizes and not is_step(function)):
        refuse(function, f"{what} is a state of type {state.type}: use a tensor of static sizes")
    if last.operands[number].type != state.type:
        given = last.operands[number].type
        refuse(
            function,
            f"{what} has type {state.type}, but its new value, result {number}, has type {given}",
        )
    if list(states_of(function).values()).count(number) > 1:
        refuse(function, f"result {number} is the new value of two states")
    if first_value_of(function, state.index) is None and not is_step(function):
        refuse(
            function, f"{what} is a state without an initial value: add the attribute program.value"
        )


def _updates(value: SSAValue, state: SSAValue) -> list[Update] | None:
    """Returns the dispatches that update a state in place; None if the new value must be copied."""
    updates: list[Update] = []
    value = source(value)
    while value is not state:
        if not isinstance(value, OpResult) or not isinstance(value.op, DispatchOp):
            return None
        operand = _inserted_into(value.op, value.index)
        if operand is None:
            return None
        updates.append((value.op, value.index, operand))
        old = source(value.op.inputs[operand])
        if not _is_last_reader(value.op, old):
            return None
        value = old
    return updates


def _inserted_into(dispatch: DispatchOp, number: int) -> int | None:
    """Returns the index of the operand into which a result is inserted; None if others read it."""
    value = dispatch.yielded[number]
    while isinstance(value, OpResult) and isinstance(value.op, tensor.InsertSliceOp):
        uses = list(value.uses)
        if len(uses) != 1:
            return None
        value = value.op.dest
    if not isinstance(value, BlockArgument) or len(list(value.uses)) != 1:
        return None
    whole = source(dispatch.inputs[value.index])
    if sum(source(operand) is whole for operand in dispatch.inputs) != 1:
        return None
    (use,) = value.uses
    inserts = isinstance(use.operation, tensor.InsertSliceOp) and use.index == 1
    return value.index if inserts else None


def _is_last_reader(dispatch: DispatchOp, value: SSAValue) -> bool:
    """True if no operation after the dispatch reads the tensor or a view of it."""
    block = dispatch.parent_block()
    assert block is not None
    readers = {block.find_ancestor_op_in_block(op) for op in readers_of(value)} - {dispatch}
    following = dispatch.next_op
    while following is not None and following not in readers:
        following = following.next_op
    return following is None


def _mark(dispatch: DispatchOp, result: int, operand: int) -> None:
    known = dispatch.attributes.get(UPDATES)
    operands = [-1] * len(dispatch.outputs)
    if isinstance(known, DenseArrayBase):
        operands = [int(number) for number in known.get_values()]
    operands[result] = operand
    dispatch.attributes[UPDATES] = DenseArrayBase.from_list(i64, operands)


def _copy_into_state(value: SSAValue, state: SSAValue, last: func.ReturnOp) -> SSAValue:
    type = tensor_type(state)
    block = Block(arg_types=[type, type])
    sizes: list[SSAValue] = []
    for dimension, size in enumerate(type.get_shape()):
        if size == DYNAMIC_INDEX:
            number = arith.ConstantOp(IntegerAttr(dimension, IndexType()))
            block.add_ops([number, open_size := tensor.DimOp(block.args[1], number)])
            sizes.append(open_size.result)
    whole = tensor.InsertSliceOp.get(block.args[0], block.args[1], type.get_shape(), sizes=sizes)
    block.add_ops([whole, YieldOp(whole.result)])
    dispatch = DispatchOp([value, state], [type], Region(block))
    dispatch.location = last.location
    _mark(dispatch, 0, 1)
    Rewriter.insert_op(dispatch, InsertPoint.before(last))
    return dispatch.outputs[0]
