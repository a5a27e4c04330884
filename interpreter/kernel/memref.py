"""
Defines the semantics of `memref` in a kernel, and of pointers that `schedule` creates.

A memref is a `Pointer` to its first element. Its type has the shape and the strides. Elements are
stored without padding, also vectors. An i1 takes a byte.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects.schedule import ElementPtrOp, FlatViewOp
from xdsl_spirv.dialects.spirv.attributes import StorageClassAttr
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.memory import Memory, Pointer, Rows
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, same, value, value_table


def memref_type(value: SSAValue) -> MemRefType[Any]:
    """Returns the type of a value that the verifier requires to be a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type


def element_form(type: MemRefType[Any], context: Context) -> Plain:
    """Returns the run-time representation of a memref's elements."""
    return context.plain(type.element_type)


def element_bytes(form: Plain) -> int:
    """Returns the bytes from one element to the next."""
    return prod(form.shape) * form.dtype.itemsize


def static_strides(type: MemRefType[Any]) -> list[int]:
    """Returns the strides of a memref, in elements. Raises `InterpreterError` if not static."""
    strides = type.get_strides()
    known = [] if strides is None else [stride for stride in strides if stride is not None]
    if len(known) != type.get_num_dims():
        raise InterpreterError(
            f"the strides of {type} are not known", remedy="use a memref of static shape and layout"
        )
    return known


def element_pointer(type: MemRefType[Any], context: Context) -> Callable[..., Pointer]:
    """Returns a function `at(base, *indices)` that computes the pointer to an element."""
    size = element_bytes(element_form(type, context))
    strides = static_strides(type)

    def at(base: Pointer, *indices: Array) -> Pointer:
        total = None
        for index, stride in zip(indices, strides, strict=True):
            term = index if stride == 1 else index * stride
            total = term if total is None else total + term
        return base if total is None else base.plus(total, size, 0)

    return at


def gathered(points: Any, array: Array, *indexes: Array) -> Array:
    """Gathers elements of a whole array. Masked lanes or points read an arbitrary element."""
    if points.mask is not None:
        bounds = zip(indexes, array.shape, strict=True)
        indexes = tuple(np.clip(index, 0, size - 1) for index, size in bounds)
    for dimension, (index, size) in enumerate(zip(indexes, array.shape, strict=True)):
        if index.size and not (0 <= index.min() and index.max() < size):
            raise InterpreterError(
                f"dimension {dimension} has {size} elements, but is read at indices "
                f"{index.min()} to {index.max()}"
            )
    return array[indexes] if indexes else array.reshape(1, 1, 1)


@action(memref.LoadOp)
def load(op: memref.LoadOp, context: Context) -> Function:
    """Loads the element at the indices. In a host function, gathers from the whole array."""
    type = memref_type(op.memref)
    form, at = element_form(type, context), element_pointer(type, context)

    def call(batch: Batch, base: Pointer | Array, *indices: Array) -> Any:
        if isinstance(base, np.ndarray):
            return gathered(batch, base, *indices)
        return memory.load(at(base, *indices), form, batch.mask)

    return call


@action(memref.StoreOp)
def store(op: memref.StoreOp, context: Context) -> Function:
    """Stores the element at the indices."""
    type = memref_type(op.memref)
    form, at = element_form(type, context), element_pointer(type, context)

    def call(batch: Batch, value: Array, base: Pointer, *indices: Array) -> None:
        memory.store(at(base, *indices), form, value, batch.mask)

    return call


def _storage(space: Attribute) -> StorageClass:
    """Returns the storage class of a kernel's allocation. Without a memory space it is Function."""
    if isinstance(space, StorageClassAttr):
        storage = space.data
    elif isinstance(space, NoneAttr) or "private" in str(space):
        storage = StorageClass.Function
    else:
        storage = StorageClass.Workgroup if "workgroup" in str(space) else StorageClass.Generic
    if storage not in (StorageClass.Workgroup, StorageClass.Function, StorageClass.Private):
        raise InterpreterError(f"a kernel cannot allocate memory in {space}")
    return storage


@action(memref.AllocOp, memref.AllocaOp)
def allocate(op: memref.AllocOp | memref.AllocaOp, context: Context) -> Function:
    """
    Allocates unwritten memory: for Workgroup memory once per workgroup, otherwise once per
    invocation.
    """
    type = memref_type(op.results[0])
    space = type.memory_space
    storage = _storage(space)
    rows: Rows = "workgroup" if storage == StorageClass.Workgroup else "lane"
    if not type.has_static_shape():
        raise InterpreterError(f"the size of {type} is not known", op)
    size = element_bytes(element_form(type, context)) * prod(type.get_shape())
    if rows == "workgroup":
        context.workgroup_bytes += size
    else:
        context.workgroup_bytes += size * context.geometry.subgroups * context.geometry.lanes
    label = f"the {storage.name} memory {op.results[0].name_hint or type}"
    return lambda batch, *_: memory.start_of(Memory.unwritten(size, rows, batch, label))


@action(memref.DeallocOp, memref.AssumeAlignmentOp)
def nothing(op: Operation, context: Context) -> Function:
    """Returns a function without effect. Used for deallocation and alignment assumptions."""
    if op.results:
        return lambda batch, base, *_: base
    return lambda batch, *_: None


# Casts change only the type.
value_table(dict.fromkeys((memref.CastOp, memref.MemorySpaceCastOp, FlatViewOp), same))


@value(ElementPtrOp)
def element_ptr(op: ElementPtrOp, context: Context) -> Function:
    """Returns the pointer to the element at the indices."""
    return element_pointer(memref_type(op.memref), context)


@value(memref.DimOp)
def dim(op: memref.DimOp, context: Context) -> Function:
    """
    Returns a dimension: its static size, or the size of the array that was passed to the launch.
    """
    type = memref_type(op.source)
    sizes = np.array(type.get_shape(), np.int64)
    if type.has_static_shape():
        return lambda base, index: sizes[index]
    return lambda base, index: np.array(base.memory.shape, np.int64)[index]


@action(memref.SubviewOp)
def subview(op: memref.SubviewOp, context: Context) -> Function:
    """Returns a pointer to the view's first element. The result type has the view's strides."""
    type = memref_type(op.source)
    strides, size = static_strides(type), element_bytes(element_form(type, context))
    offsets = op.static_offsets.get_values()
    dynamic = [axis for axis, offset in enumerate(offsets) if offset == DYNAMIC_INDEX]
    base = sum(
        offset * stride
        for offset, stride in zip(offsets, strides, strict=True)
        if offset != DYNAMIC_INDEX
    )

    def call(batch: Batch, source: Pointer, *operands: Array) -> Pointer:
        total = np.full((1, 1, 1), base, np.int64)
        for axis, operand in zip(dynamic, operands, strict=False):
            total = total + operand * strides[axis]
        return source.plus(total, size, 0)

    return call
