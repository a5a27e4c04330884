"""Defines the semantics of operations on pointers, of byte copies, and of sizes in bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import conversion
from xdsl_spirv.dialects.spirv import pointer as ops
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.layout import Layout, PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memories import physical
from xdsl_spirv.interpreter.memory import Pointer, Pointers, cases
from xdsl_spirv.interpreter.numbers import I64, Array, integer_dtype, integer_to_integer
from xdsl_spirv.interpreter.pointers import pointer_type
from xdsl_spirv.interpreter.semantics import Function, action, constant, value, value_table
from xdsl_spirv.interpreter.spirv.memory import element_stride
from xdsl_spirv.interpreter.variables import VariablePointer

OCTET = integer_dtype(8)


def equal(a: Any, b: Any) -> Array:
    """Returns a mask of the lanes in which both pointers are equal."""
    if not isinstance(a, VariablePointer):
        return physical(a) == physical(b)
    same = a.variable is b.variable and len(a.path) == len(b.path)
    result = np.full((1, 1, 1), same)
    for x, y in zip(a.path, b.path, strict=False):
        result = result & (x == y)
    return result


value_table({ops.PtrEqualOp: equal, ops.PtrNotEqualOp: lambda a, b: ~equal(a, b)})


@value(ops.PtrDiffOp)
def difference(op: ops.PtrDiffOp, context: Context) -> Function:
    """Returns the distance of two pointers into one array, in elements."""
    type = pointer_type(op.operand_1)
    stride = element_stride(type, context)
    dtype = context.plain(op.result.type).dtype
    return lambda a, b: ((physical(a) - physical(b)) // stride).astype(dtype)


@constant(ops.SizeOfOp)
def size_of(op: ops.SizeOfOp, context: Context) -> Array:
    """Returns the size of the pointee in bytes."""
    return np.full((1, 1, 1), Layout(context).size(pointer_type(op.pointer).pointee), np.int32)


@value(ops.RawAccessChainNVOp)
def raw_chain(op: ops.RawAccessChainNVOp, context: Context) -> Function:
    """Returns the pointer advanced by `element * stride + offset` bytes."""
    stride = constant_integer(op.byte_stride)

    def call(base: Pointer | Pointers, step: Array, element: Array, offset: Array) -> Any:
        if stride is not None:
            return base.plus(element, stride, 0).plus(offset, 1, 0)
        return base.plus(step.astype(I64) * element + offset, 1, 0)

    return call


@value(conversion.ConvertPtrToUOp)
def pointer_to_number(op: conversion.ConvertPtrToUOp, context: Context) -> Function:
    """Returns the physical address."""
    dtype = context.plain(op.result.type).dtype
    return lambda pointer: physical(pointer).astype(dtype)


@action(conversion.ConvertUToPtrOp)
def number_to_pointer(op: conversion.ConvertUToPtrOp, context: Context) -> Function:
    """Returns the pointer to the memory at a physical address."""
    extend, memories = integer_to_integer(I64, sign=False), context.memories
    return lambda batch, address: memories.at(extend(address), batch.mask)


def copy_bytes(
    to: Any,
    origin: Any,
    size: Array,
    mask: Mask,
    load: PlainLoader = memory.load,
    store: PlainStorer = memory.store,
) -> None:
    """Copies `size` bytes between two pointers. The number of bytes may differ between lanes."""
    lead = size.shape if mask is None else np.broadcast_shapes(size.shape, mask.shape)
    active = np.broadcast_to(True if mask is None else mask, lead)
    for count in np.unique(np.broadcast_to(size, lead)[active]).tolist():
        form = Plain(OCTET, (count,))
        for source, lanes in cases(origin, mask if size.size == 1 else active & (size == count)):
            octets = load(source, form, lanes)
            for target, some in cases(to, lanes):
                store(target, form, octets, some)


@action(ops.CopyMemorySizedOp)
def copy_sized(op: ops.CopyMemorySizedOp, context: Context) -> Function:
    """Copies bytes from the source to the target."""

    def call(batch: Batch, to: Any, origin: Any, size: Array) -> None:
        if isinstance(to, VariablePointer) or isinstance(origin, VariablePointer):
            raise InterpreterError(
                f"{op.name} cannot copy a variable that is not stored as bytes",
                op,
                "declare the variable as untyped, or copy all of it by spirv.CopyMemory",
            )
        copy_bytes(to, origin, size.astype(I64), batch.mask)

    return call
