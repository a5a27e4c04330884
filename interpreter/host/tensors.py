"""
`tensor`, `bufferization`, `memref`, `arith.constant`, `func` on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, bufferization, func, memref, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.schedule import PaddedViewOp
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host, host
from xdsl_spirv.interpreter.memory import UNWRITTEN
from xdsl_spirv.interpreter.numbers import Array, DType, scalar_dtype


def _shaped(type: Attribute, sizes: Sequence[Array] = ()) -> tuple[tuple[int, ...], DType]:
    """The shape and dtype of a tensor or memref type, dynamic sizes taken from operands."""
    if not isinstance(type, TensorType | MemRefType):
        raise InterpreterError(f"{type} is not a ranked tensor or memref")
    given = iter(sizes)
    shape = tuple(int(next(given)) if size == DYNAMIC_INDEX else size for size in type.get_shape())
    dtype = scalar_dtype(type.element_type)
    if dtype is None:
        raise InterpreterError(f"elements of type {type.element_type} are not executed on the host")
    return shape, dtype


def unwritten(shape: tuple[int, ...], dtype: DType) -> Array:
    """Elements that nobody has written: bytes of all ones, as in kernels."""
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.full(size, 1 if dtype.kind == "b" else UNWRITTEN, np.uint8)
    return data.view(dtype).reshape(shape)


@host(arith.ConstantOp)
def constant(machine: Host, op: arith.ConstantOp, operands: Sequence[Any]) -> list[Any]:
    """The constant's elements."""
    return [attribute_array(op.value)]


@host(tensor.EmptyOp, memref.AllocOp, memref.AllocaOp)
def empty(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Elements that are still to be written."""
    return [unwritten(*_shaped(op.results[0].type, operands))]


@host(bufferization.AllocTensorOp)
def alloc_tensor(
    machine: Host, op: bufferization.AllocTensorOp, operands: Sequence[Any]
) -> list[Any]:
    """A copy of the operand if there is one, else elements that are still to be written."""
    if op.copy is not None:
        return [operands[list(op.operands).index(op.copy)].copy()]
    return [unwritten(*_shaped(op.results[0].type, operands))]


@host(memref.DeallocOp)
def dealloc(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Nothing."""
    return []


@host(bufferization.ToBufferOp, bufferization.ToTensorOp, bufferization.CloneOp)
def change_hands(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """A copy: what is written later to the one does not show in the other."""
    return [operands[0].copy()]


@host(bufferization.MaterializeInDestinationOp)
def materialize(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The source, written into a destination that is a memref."""
    source, destination = operands
    if op.results:
        return [source]
    destination[...] = source
    return []


@host(memref.CopyOp)
def copy(machine: Host, op: memref.CopyOp, operands: Sequence[Any]) -> list[Any]:
    """Write the source's elements into the target."""
    source, target = operands
    target[...] = source
    return []


@host(memref.CastOp, tensor.CastOp, memref.MemorySpaceCastOp)
def cast(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The same elements under a type that knows more or less of the shape."""
    return [operands[0]]


@host(tensor.CollapseShapeOp, tensor.ExpandShapeOp, memref.CollapseShapeOp, memref.ExpandShapeOp)
def reshape(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The same elements in row-major order in another shape."""
    if isinstance(op, tensor.ExpandShapeOp | memref.ExpandShapeOp):
        shape, _ = _shaped(op.results[0].type, operands[1:])
        return [operands[0].reshape(shape)]
    assert isinstance(op, tensor.CollapseShapeOp | memref.CollapseShapeOp)
    sizes = operands[0].shape
    groups = [[each.value.data for each in group] for group in op.reassociation]
    return [operands[0].reshape([prod(sizes[axis] for axis in group) for group in groups])]


@host(tensor.ReshapeOp)
def reshape_to(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The same elements in the shape that the second operand holds."""
    return [operands[0].reshape([int(size) for size in operands[1]])]


@host(tensor.DimOp, memref.DimOp)
def dim(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The size of a dimension."""
    return [np.asarray(operands[0].shape[int(operands[1])], np.int64)]


@host(tensor.ExtractOp, memref.LoadOp)
def extract(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """One element."""
    return [np.asarray(operands[0][tuple(int(index) for index in operands[1:])])]


@host(tensor.InsertOp)
def insert(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The tensor with one element replaced."""
    element, target, *indexes = operands
    result = target.copy()
    result[tuple(int(index) for index in indexes)] = element
    return [result]


@host(memref.StoreOp)
def store(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Write one element."""
    element, target, *indexes = operands
    target[tuple(int(index) for index in indexes)] = element
    return []


@host(tensor.SplatOp)
def splat(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Every element is the operand."""
    shape, dtype = _shaped(op.results[0].type, operands[1:])
    return [np.full(shape, operands[0], dtype)]


@host(tensor.FromElementsOp)
def from_elements(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The operands as elements, in row-major order."""
    shape, dtype = _shaped(op.results[0].type)
    return [np.array(operands, dtype).reshape(shape)]


def _slices(op: Any, operands: Sequence[Any]) -> tuple[list[slice], list[int]]:
    """The slice of each dimension, and the sizes, of an extract_slice or insert_slice."""
    dynamic = iter(operands)

    def values(static: Any) -> list[int]:
        return [int(next(dynamic)) if v == DYNAMIC_INDEX else int(v) for v in static.get_values()]

    offsets, sizes, strides = (
        values(static) for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    return [
        slice(o, o + (n - 1) * s + 1 if n else o, s)
        for o, n, s in zip(offsets, sizes, strides, strict=True)
    ], sizes


@host(tensor.ExtractSliceOp)
def extract_slice(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """Part of a tensor, unit dimensions dropped as the result's type has it."""
    slices, _ = _slices(op, operands[1:])
    part = operands[0][tuple(slices)]
    shape = op.results[0].type.get_shape()  # pyright: ignore
    if len(shape) != part.ndim:
        part = part.reshape([-1 if size == DYNAMIC_INDEX else size for size in shape])
    return [part.copy()]


@host(memref.SubviewOp)
def subview(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The same memory; unit dimensions dropped as the result's type has it."""
    slices, _ = _slices(op, operands[1:])
    part = operands[0][tuple(slices)]
    shape = op.results[0].type.get_shape()  # pyright: ignore
    return [part if len(shape) == part.ndim else part.reshape(shape)]


@host(tensor.InsertSliceOp)
def insert_slice(machine: Host, op: Operation, operands: Sequence[Any]) -> list[Any]:
    """The second tensor with part of it replaced by the first."""
    source, target, *rest = operands
    slices, sizes = _slices(op, rest)
    result = target.copy()
    result[tuple(slices)] = source.reshape(sizes)
    return [result]


@host(tensor.ConcatOp)
def concat(machine: Host, op: tensor.ConcatOp, operands: Sequence[Any]) -> list[Any]:
    """The operands one after the other along a dimension."""
    return [np.concatenate(list(operands), axis=op.dim.value.data)]


@host(tensor.PadOp)
def pad(machine: Host, op: tensor.PadOp, operands: Sequence[Any]) -> list[Any]:
    """The tensor surrounded by what the body yields, which must not depend on the place."""
    dynamic = iter(operands[1:])

    def values(static: Any) -> list[int]:
        return [int(next(dynamic)) if v == DYNAMIC_INDEX else int(v) for v in static.get_values()]

    low, high = values(op.static_low), values(op.static_high)
    block = op.region.block
    if any(argument.uses for argument in block.args):
        raise InterpreterError("tensor.pad with a value that depends on the place", op)
    (value,) = machine.run_nested(block, [np.int64(0)] * len(block.args))
    widths = list(zip(low, high, strict=True))
    return [np.pad(operands[0], widths, constant_values=value.item())]


@host(PaddedViewOp)
def padded_view(machine: Host, op: PaddedViewOp, operands: Sequence[Any]) -> list[Any]:
    """The memory with zeros, or another number, around it."""
    widths = list(zip(op.low.get_values(), op.high.get_values(), strict=True))
    fill = 0 if op.fill is None else op.fill.value.data
    return [np.pad(operands[0], widths, constant_values=fill)]


@host(func.CallOp)
def call(machine: Host, op: func.CallOp, operands: Sequence[Any]) -> list[Any]:
    """Run the function."""
    return machine.call(op.callee.string_value(), operands)


@host(scf.ForOp)
def for_loop(machine: Host, op: scf.ForOp, operands: Sequence[Any]) -> list[Any]:
    """A loop over the host's operations."""
    low, high, step, *carried = operands
    block = op.body.block
    for counter in range(int(low), int(high), int(step)):
        index = np.asarray(counter, low.dtype)
        carried = machine.run_nested(block, [index, *carried])
    return list(carried)


@host(scf.IfOp)
def if_else(machine: Host, op: scf.IfOp, operands: Sequence[Any]) -> list[Any]:
    """One side."""
    region = op.true_region if bool(operands[0]) else op.false_region
    return machine.run_nested(region.block, []) if region.blocks else []
