"""
Which values are the same in every run: constants, and the arguments that a function calls weights.
"""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import FuncOp
from xdsl.dialects.tensor import CollapseShapeOp, ExpandShapeOp
from xdsl.ir import Block, BlockArgument, SSAValue

from xdsl_spirv.dialects.schedule import DispatchOp

WEIGHTS = "schedule.weights"
"""A function's attribute: the numbers of the arguments that are the same in every run."""


def is_weight(value: SSAValue) -> bool:
    """Whether a value of a dispatch, or of a host function, is the same in every run."""
    while True:
        owner = value.owner
        if isinstance(owner, CollapseShapeOp | ExpandShapeOp):
            value = owner.operands[0]
            continue
        if not isinstance(owner, Block):
            return isinstance(owner, ConstantOp)
        assert isinstance(value, BlockArgument)
        parent = owner.parent_op()
        if isinstance(parent, DispatchOp):
            value = parent.inputs[value.index]
            continue
        weights = parent.attributes.get(WEIGHTS) if isinstance(parent, FuncOp) else None
        return isinstance(weights, DenseArrayBase) and value.index in weights.get_values()
