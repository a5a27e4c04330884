"""
Gives every result of a host function a separate buffer that a kernel writes.

An elementwise operation copies a result that is an argument, a constant, or a view of another
result, because a result must not alias the caller's inputs or the weights. A state that a function
does not change is not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, scf, tensor
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from xdsl_spirv.dialects.program import VALUE, functions_of, states_of, value_of
from xdsl_spirv.passes.analysis.linalg_code import Code, tensor_type

VIEWS = (tensor.CastOp, tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ReshapeOp)
"""Operations whose result has the operand's elements in the same order."""


def readers_of(value: SSAValue) -> Iterator[Operation]:
    """Yields the operations that read a value or a view of the value."""
    for use in value.uses:
        if isinstance(use.operation, VIEWS):
            yield from readers_of(use.operation.results[0])
        else:
            yield use.operation


@dataclass(frozen=True)
class OwnResultsPass(ModulePass):
    """Copies a result that is an argument, a constant, or shared with another result."""

    name = "own-results"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {function.sym_name.data: function for function in functions_of(op)}
        for function in functions.values():
            _own(function)
            for loop in [o for o in function.body.block.ops if isinstance(o, scf.ForOp)]:
                _own_initial(loop)
                for call in [o for o in loop.body.block.ops if isinstance(o, func.CallOp)]:
                    _note_weights(call, function, functions[call.callee.string_value()])


def _own(function: FuncOp) -> None:
    last = function.body.block.last_op
    if not isinstance(last, func.ReturnOp):
        return
    taken: set[SSAValue] = set()
    states = {result: function.body.block.args[i] for i, result in states_of(function).items()}
    # States first: a value that is both a state and an output is computed in the state's memory,
    # and copied from there.
    for index in sorted(range(len(last.operands)), key=lambda index: index not in states):
        value = last.operands[index]
        root = source(value)
        computed = isinstance(root, OpResult) and not isinstance(root.op, arith.ConstantOp)
        if root is states.get(index):
            continue
        if computed and root not in taken:
            taken.add(root)
        elif isinstance(value.type, TensorType):
            last.operands[index] = copy_before(value, last)


def _own_initial(loop: scf.ForOp) -> None:
    """
    Copies the initial tensors of a loop to separate memory, because each step overwrites the
    tensors of the previous step.
    """
    for number, value in enumerate(loop.iter_args):
        root = source(value)
        if isinstance(root.owner, tensor.EmptyOp):
            # An empty tensor needs separate memory, and no copy.
            loop.operands[3 + number] = Code(loop).empty_like(value)
            continue
        computed = isinstance(root, OpResult) and not isinstance(root.op, arith.ConstantOp)
        alone = len(list(root.uses)) == 1 and len(list(value.uses)) == 1
        if computed and alone and not isinstance(root.op, scf.ForOp):  # pyright: ignore
            continue
        loop.operands[3 + number] = copy_before(value, loop)


def _note_weights(call: func.CallOp, function: FuncOp, step: FuncOp) -> None:
    """Marks the arguments of a loop's step function that are weights of the function."""
    entries = list(step.arg_attrs or ())
    for number, value in enumerate(call.arguments):
        if isinstance(value, BlockArgument) and value.owner is function.body.block:
            first = value_of(function, value.index)
            if first is not None:
                entries[number] = DictionaryAttr({**entries[number].data, VALUE: first})
    step.properties["arg_attrs"] = ArrayAttr(entries)


def source(value: SSAValue) -> SSAValue:
    """Returns the tensor behind a view; returns any other value unchanged."""
    while isinstance(value, OpResult) and isinstance(value.op, VIEWS):
        value = value.op.operands[0]
    return value


def copy_before(value: SSAValue, last: Operation) -> SSAValue:
    """Inserts a copy of a tensor before `last` and returns it. A tensor of size 0 is not copied."""
    code = Code(last)
    empty = code.empty_like(value)
    if 0 in tensor_type(value).get_shape():
        return empty
    return code.generic([value], empty, None, lambda b, v: v[0])
