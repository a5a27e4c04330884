"""
Decides which values are the same in every run: constants, the arguments that are weights, and what
is computed of them alone.
"""

from __future__ import annotations

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.tensor import CollapseShapeOp, ConcatOp, ExpandShapeOp
from xdsl.ir import Block, BlockArgument, SSAValue

from xdsl_spirv.dialects.program import value_of
from xdsl_spirv.dialects.schedule import DispatchOp


def is_weight(value: SSAValue) -> bool:
    """Whether a value of a dispatch, or of a host function, is the same in every run."""
    while True:
        owner = value.owner
        if isinstance(owner, CollapseShapeOp | ExpandShapeOp):
            value = owner.operands[0]
            continue
        if isinstance(owner, ConcatOp | DispatchOp):
            # What only weights decide is computed once.
            return all(map(is_weight, owner.operands))
        if not isinstance(owner, Block):
            return isinstance(owner, ConstantOp)
        assert isinstance(value, BlockArgument)
        parent = owner.parent_op()
        if isinstance(parent, DispatchOp):
            value = parent.inputs[value.index]
            continue
        return isinstance(parent, FuncOp) and value_of(parent, value.index) is not None
