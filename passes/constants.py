"""
What is known of a value before the program runs.
"""

from __future__ import annotations

from math import copysign

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.dialects.linalg.ops import FillOp
from xdsl.ir import SSAValue


def is_zero(value: SSAValue) -> bool:
    """Whether a tensor or scalar is known to be (positive) zero everywhere."""
    if isinstance(value.owner, FillOp):
        return is_zero(value.owner.inputs[0])
    if not isinstance(value.owner, arith.ConstantOp):
        return False
    match value.owner.value:
        case IntegerAttr(value=number):
            return number.data == 0
        case FloatAttr(value=number):
            return number.data == 0.0 and copysign(1.0, number.data) > 0
        case DenseIntOrFPElementsAttr() as dense:
            return not any(dense.data.data)
        case _:
            return False
