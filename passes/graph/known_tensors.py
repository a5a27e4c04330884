"""
Evaluates, with the interpreter, tensors that depend only on constants.

So a transposed or reshaped constant counts as a constant.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import BroadcastOp, TransposeOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.utils.hints import isa

from xdsl_spirv.passes.analysis.values import operands_of

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

_KNOWN = (
    LinalgStructuredOperation,
    TransposeOp,
    BroadcastOp,
    tensor.EmptyOp,
    tensor.CollapseShapeOp,
    tensor.ExpandShapeOp,
    tensor.CastOp,
)

LARGEST = 1 << 26
"""Maximum number of elements of a tensor that is evaluated at compile time."""


def known_tensor(value: SSAValue) -> Array | None:
    """Returns the elements of a tensor that depends only on constants, else None."""
    slice = _slice(value)
    return None if slice is None else _evaluate_slice(slice, value)


def _slice(value: SSAValue) -> list[Operation] | None:
    """Returns the operations that compute a value from constants only, else None."""
    if not isinstance(value, OpResult):
        return None
    op = value.op
    if isinstance(op, arith.ConstantOp):
        return None if isinstance(op.value, DenseResourceAttr) else [op]
    if not isinstance(op, _KNOWN):
        return None
    if isinstance(value.type, TensorType) and prod(map(abs, value.type.get_shape())) > LARGEST:
        return None
    ops: dict[Operation, None] = {}
    for operand in operands_of(op):
        before = _slice(operand)
        if before is None:
            return None
        ops |= dict.fromkeys(before)
    return [*ops, op]


def _evaluate_slice(slice: list[Operation], value: SSAValue) -> Array:
    from xdsl_spirv.interpreter import reference

    known: dict[SSAValue, SSAValue] = {}
    block = Block()
    for op in slice:
        block.add_op(op.clone(known))
    block.add_op(func.ReturnOp(known[value]))
    main = func.FuncOp("main", FunctionType.from_lists([], [value.type]), Region(block))
    return reference(ModuleOp([main]), [])[0]


def constant_of(array: Array, type: IntegerType) -> arith.ConstantOp:
    """Builds a constant tensor of integers from an array."""
    tensor_type = TensorType(type, array.shape)
    dtype = f"<i{type.width.data // 8}"
    return arith.ConstantOp(
        DenseIntOrFPElementsAttr(tensor_type, BytesAttr(array.astype(dtype).tobytes()))
    )


def known_integer(value: SSAValue) -> int | None:
    """Returns the integer that a scalar, or each element of a tensor, is known to be; else None."""
    if isinstance(value, BlockArgument) or not isinstance(value.owner, arith.ConstantOp):
        return None
    match value.owner.value:
        case IntegerAttr(value=number):
            return number.data
        case DenseIntOrFPElementsAttr() as dense if isa(dense, DenseIntElementsAttr):
            numbers = set(dense.get_values())
            return numbers.pop() if len(numbers) == 1 else None
        case _:
            return None
