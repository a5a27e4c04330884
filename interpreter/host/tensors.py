"""Runs `tensor`, `bufferization`, `memref`, `arith.constant`, `func` and `scf` on the host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith, bufferization, func, memref, scf, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Operation

from xdsl_spirv.dialects.schedule import PaddedViewOp, SelectedViewOp
from xdsl_spirv.interpreter.constants import attribute_array
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.host.machine import Host, host, on_arrays
from xdsl_spirv.interpreter.memory import UNWRITTEN
from xdsl_spirv.interpreter.numbers import Array, DType, scalar_dtype
from xdsl_spirv.upstream.forall import ForallOp


def _shape_and_dtype(type: Attribute, sizes: Sequence[Array] = ()) -> tuple[tuple[int, ...], DType]:
    """Returns the shape and dtype of a tensor or memref type. `sizes` are the dynamic sizes."""
    if not isinstance(type, TensorType | MemRefType):
        raise InterpreterError(f"{type} is not a ranked tensor or memref")
    dtype = scalar_dtype(type.element_type)
    if dtype is None:
        raise InterpreterError(
            f"elements of type {type.element_type} are not supported on the host"
        )
    return _numbers(type.get_shape(), iter(sizes)), dtype


def _numbers(static: Sequence[int], dynamic: Any) -> tuple[int, ...]:
    """Returns the static values. Fills in the dynamic ones from the operands."""
    return tuple(int(next(dynamic)) if n == DYNAMIC_INDEX else int(n) for n in static)


def _reshape(op: Operation, array: Array, shape: tuple[int, ...]) -> Array:
    if prod(shape) != array.size:
        given, wanted = ("x".join(map(str, sizes)) for sizes in (array.shape, shape))
        raise InterpreterError(
            f"{op.name} from {given} to {wanted} changes the number of elements", op
        )
    return array.reshape(shape)


def _place(indexes: Sequence[Array]) -> tuple[int, ...]:
    return tuple(int(index) for index in indexes)


def _unwritten(type: Attribute, sizes: Sequence[Array]) -> Array:
    """Returns an array that represents unwritten memory: all bits are set, as in kernels."""
    shape, dtype = _shape_and_dtype(type, sizes)
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.full(size, 1 if dtype.kind == "b" else UNWRITTEN, np.uint8)
    return data.view(dtype).reshape(shape)


on_arrays(arith.ConstantOp)(lambda op: attribute_array(op.value))
on_arrays(tensor.EmptyOp, memref.AllocOp, memref.AllocaOp)(
    lambda op, *sizes: _unwritten(op.results[0].type, sizes)
)
on_arrays(memref.DeallocOp)(lambda op, *_: None)
# Returns a copy, so that later writes to the source do not change the result.
on_arrays(bufferization.ToBufferOp, bufferization.ToTensorOp, bufferization.CloneOp)(
    lambda op, array, *_: array.copy()
)
on_arrays(bufferization.MaterializeInDestinationOp, memref.CopyOp)(lambda op, source, _: source)
on_arrays(memref.CastOp, tensor.CastOp, memref.MemorySpaceCastOp)(lambda op, array: array)
on_arrays(tensor.ExpandShapeOp, memref.ExpandShapeOp)(
    lambda op, array, *sizes: _reshape(op, array, _shape_and_dtype(op.results[0].type, sizes)[0])
)
on_arrays(tensor.ReshapeOp)(lambda op, array, shape: _reshape(op, array, _place(shape)))
on_arrays(tensor.DimOp, memref.DimOp)(
    lambda op, array, axis: np.asarray(array.shape[int(axis)], np.int64)
)
on_arrays(tensor.ExtractOp, memref.LoadOp)(
    lambda op, array, *indexes: np.asarray(array[_place(indexes)])
)
on_arrays(tensor.ConcatOp)(lambda op, *arrays: np.concatenate(arrays, axis=op.dim.value.data))


@on_arrays(bufferization.AllocTensorOp)
def alloc_tensor(op: bufferization.AllocTensorOp, *operands: Array) -> Array:
    """Returns a copy of the operand. Without an operand, returns a tensor of unwritten elements."""
    if op.copy is not None:
        return operands[list(op.operands).index(op.copy)].copy()
    return _unwritten(op.results[0].type, operands)


@on_arrays(tensor.CollapseShapeOp, memref.CollapseShapeOp)
def collapse(op: tensor.CollapseShapeOp | memref.CollapseShapeOp, array: Array) -> Array:
    """Reshapes an array so that each group of dimensions becomes one dimension."""
    groups = [[axis.value.data for axis in group] for group in op.reassociation]
    return array.reshape([prod(array.shape[axis] for axis in group) for group in groups])


@on_arrays(tensor.InsertOp)
def insert(op: Operation, element: Array, target: Array, *indexes: Array) -> Array:
    """Returns the tensor with one element replaced."""
    result = target.copy()
    result[_place(indexes)] = element
    return result


@on_arrays(memref.StoreOp)
def store(op: Operation, element: Array, target: Array, *indexes: Array) -> None:
    """Writes one element."""
    target[_place(indexes)] = element


@on_arrays(tensor.SplatOp)
def splat(op: tensor.SplatOp, number: Array, *sizes: Array) -> Array:
    """Returns a tensor whose elements all equal the operand."""
    shape, dtype = _shape_and_dtype(op.results[0].type, sizes)
    return np.full(shape, number, dtype)


@on_arrays(tensor.FromElementsOp)
def from_elements(op: Operation, *elements: Array) -> Array:
    """Returns a tensor of the operands, in row-major order."""
    shape, dtype = _shape_and_dtype(op.results[0].type)
    return np.array(elements, dtype).reshape(shape)


def _slices(
    op: Any, operands: Sequence[Array], whole: Array
) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """
    Returns the slice of each dimension, and the slice's sizes, of an extract_slice or insert_slice.

    Raises `InterpreterError` for a slice that is out of bounds.
    """
    dynamic = iter(operands)
    offsets, sizes, strides = (
        _numbers(static.get_values(), dynamic)
        for static in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    for axis, (o, n, s) in enumerate(zip(offsets, sizes, strides, strict=True)):
        # An empty slice may begin at the end of its dimension.
        last = o + (n - 1) * s if n else o - 1
        if min(o, n, last + 1) < 0 or last >= whole.shape[axis]:
            raise InterpreterError(
                f"{op.name} takes elements {o} to {last} of dimension {axis}, which has "
                f"only {whole.shape[axis]} elements",
                op,
            )
    return tuple(
        slice(o, o + (n - 1) * s + 1 if n else o, s)
        for o, n, s in zip(offsets, sizes, strides, strict=True)
    ), sizes


@on_arrays(memref.SubviewOp, tensor.ExtractSliceOp)
def part(op: Operation, array: Array, *operands: Array) -> Array:
    """Extracts a slice of a memref or tensor. Drops unit dimensions that the result type omits."""
    slices, _ = _slices(op, operands, array)
    view, shape = array[slices], op.results[0].type.get_shape()  # pyright: ignore
    if len(shape) != view.ndim:
        view = view.reshape([-1 if size == DYNAMIC_INDEX else size for size in shape])
    return view if isinstance(op, memref.SubviewOp) else view.copy()


@on_arrays(tensor.InsertSliceOp)
def insert_slice(op: Operation, source: Array, target: Array, *operands: Array) -> Array:
    """Returns the second tensor with a slice replaced by the first tensor."""
    slices, sizes = _slices(op, operands, target)
    result = target.copy()
    result[slices] = _reshape(op, source, sizes)
    return result


@on_arrays(PaddedViewOp)
def padded_view(op: PaddedViewOp, array: Array) -> Array:
    """Pads an array, with zeros by default."""
    widths = list(zip(op.low.get_values(), op.high.get_values(), strict=True))
    return np.pad(array, widths, constant_values=0 if op.fill is None else op.fill.value.data)


@on_arrays(SelectedViewOp)
def selected_view(op: SelectedViewOp, array: Array, numbers: Array) -> Array:
    """Selects elements of an array by index arrays."""
    return array[numbers]


@host(tensor.PadOp)
def pad(machine: Host, op: tensor.PadOp, operands: Sequence[Any]) -> list[Any]:
    """Pads a tensor with the value of the body, which must not depend on the position."""
    dynamic = iter(operands[1:])
    low, high = (_numbers(w.get_values(), dynamic) for w in (op.static_low, op.static_high))
    block = op.region.block
    if any(argument.uses for argument in block.args):
        raise InterpreterError(
            "tensor.pad with a value that depends on the position is not supported", op
        )
    (value,) = machine.run_nested(block, [np.int64(0)] * len(block.args))
    widths = list(zip(low, high, strict=True))
    if min((*low, *high), default=0) < 0:
        raise InterpreterError(f"a padding is negative: low {list(low)}, high {list(high)}", op)
    return [np.pad(operands[0], widths, constant_values=value.item())]


@host(func.CallOp)
def call(machine: Host, op: func.CallOp, operands: Sequence[Any]) -> list[Any]:
    """Runs the called function."""
    return machine.call(op.callee.string_value(), operands)


@host(scf.ForOp)
def for_loop(machine: Host, op: scf.ForOp, operands: Sequence[Any]) -> list[Any]:
    """Runs a loop of host operations."""
    low, high, step, *carried = operands
    if step <= 0:
        raise InterpreterError(f"a loop's step is {step}, but must be positive", op)
    for counter in range(int(low), int(high), int(step)):
        index = np.asarray(counter, low.dtype)
        carried = machine.run_nested(op.body.block, [index, *carried])
    return list(carried)


@host(ForallOp)
def parallel_loops(machine: Host, op: ForallOp, operands: Sequence[Any]) -> list[Any]:
    """
    Runs the iterations in order. Each iteration reads the tensors as they were before the loop.
    """
    given = iter(operands)
    bounds = [[n if isinstance(n, int) else int(next(given)) for n in b] for b in op.bounds()]
    before = list(given)
    results = [output.copy() for output in before]
    block, shared = op.body.block, op.body.block.args[op.rank :]
    for counters in product(*(range(*bound) for bound in zip(*bounds, strict=True))):
        env = machine.bind_values(block, [*map(np.asarray, counters), *before])
        machine.run(block, env)
        for store in op.stores():
            source, _, *rest = (env[value] for value in store.operands)
            at = shared.index(store.dest)
            results[at] = insert_slice(store, source, results[at], *rest)
    return results


@host(scf.WhileOp)
def while_loop(machine: Host, op: scf.WhileOp, operands: Sequence[Any]) -> list[Any]:
    """Runs the condition and body regions alternately until the condition fails."""
    carried = list(operands)
    while True:
        condition, *passed = machine.run_nested(op.before_region.block, carried)
        if not bool(condition):
            return passed
        carried = machine.run_nested(op.after_region.block, passed)


@host(scf.IfOp)
def if_else(machine: Host, op: scf.IfOp, operands: Sequence[Any]) -> list[Any]:
    """Runs the branch that the condition selects."""
    region = op.true_region if bool(operands[0]) else op.false_region
    return machine.run_nested(region.block, []) if region.blocks else []
