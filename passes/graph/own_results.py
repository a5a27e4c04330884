"""
Every result of a host function in a buffer of its own that a kernel writes.

A result that is an argument, a constant, or another result (perhaps under another shape) is copied
by an elementwise operation: the caller's inputs and the weights must not be results. A state that a
function leaves as it is stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, linalg, tensor
from xdsl.dialects.builtin import AffineMapAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_spirv.dialects.program import functions_of, states_of
from xdsl_spirv.passes.analysis.pointwise import empty_like

VIEWS = (tensor.CastOp, tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ReshapeOp)
"""Operations whose result is their operand's elements in the same order."""


@dataclass(frozen=True)
class OwnResultsPass(ModulePass):
    """Copies results that no operation of the function computes for themselves alone."""

    name = "own-results"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions_of(op):
            _own(function)


def _own(function: FuncOp) -> None:
    last = function.body.block.last_op
    if not isinstance(last, func.ReturnOp):
        return
    taken: set[SSAValue] = set()
    states = {result: function.body.block.args[i] for i, result in states_of(function).items()}
    # A value that is a state and an output is made in the state's memory and copied out of it.
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


def source(value: SSAValue) -> SSAValue:
    """The value behind reshapes."""
    while isinstance(value, OpResult) and isinstance(value.op, VIEWS):
        value = value.op.operands[0]
    return value


def copy_before(value: SSAValue, last: func.ReturnOp) -> SSAValue:
    """Returns a copy of the elements, made by a `linalg.generic` if there are any."""
    type = value.type
    assert isinstance(type, TensorType)
    rank = type.get_num_dims()
    element = type.get_element_type()
    body = Block(arg_types=[element, element])
    body.add_op(linalg.ops.YieldOp(body.args[0]))
    empty = empty_like(value, last)
    if 0 in type.get_shape():
        return empty.tensor
    identity = AffineMapAttr(AffineMap.identity(rank))
    generic = linalg.ops.GenericOp(
        [value],
        [empty.tensor],
        Region(body),
        [identity, identity],
        [linalg.attrs.IteratorTypeAttr.parallel()] * rank,
        [type],
    )
    Rewriter.insert_op(generic, InsertPoint.before(last))
    return generic.results[0]
