"""Defines the semantics of `vector` in a kernel: loads, stores and rearrangements."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects import vector
from xdsl.ir import Attribute

from xdsl_spirv.dialects.scalars.meanings import fused_multiply_add
from xdsl_spirv.interpreter import elementwise as ew
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Plain
from xdsl_spirv.interpreter.kernel.memref import element_pointer, memref_type, static_strides
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, value, value_table

value_table({vector.FMAOp: fused_multiply_add})


def _contiguous(type: Attribute, last_stride: int, context: Context) -> Plain:
    form = context.plain(type)
    if len(form.shape) != 1 or last_stride != 1:
        raise InterpreterError(f"{type} is not contiguous in its memref")
    return form


@action(vector.LoadOp)
def load(op: vector.LoadOp, context: Context) -> Function:
    """Loads consecutive elements of the last dimension."""
    type = memref_type(op.base)
    form = _contiguous(op.result.type, static_strides(type)[-1], context)
    at = element_pointer(type, context)
    return lambda batch, base, *indices: memory.load(at(base, *indices), form, batch.mask)


@action(vector.StoreOp)
def store(op: vector.StoreOp, context: Context) -> Function:
    """Stores consecutive elements of the last dimension."""
    type = memref_type(op.base)
    form = _contiguous(op.vector.type, static_strides(type)[-1], context)
    at = element_pointer(type, context)

    def call(batch: Batch, value: Array, base: Pointer, *indices: Array) -> None:
        memory.store(at(base, *indices), form, value, batch.mask)

    return call


@value(vector.BroadcastOp)
def broadcast(op: vector.BroadcastOp, context: Context) -> Function:
    """Repeats a scalar or a vector along new leading dimensions."""
    form, source = context.plain(op.vector.type), context.plain(op.source.type)
    lead = (1,) * (len(form.shape) - len(source.shape))

    def call(a: Array) -> Array:
        a = a.reshape(a.shape[:3] + lead + a.shape[3:])
        return np.broadcast_to(a, a.shape[:3] + form.shape)

    return call


@value(vector.ExtractOp)
def extract(op: vector.ExtractOp, context: Context) -> Function:
    """Returns the component or sub-vector at static positions."""
    positions = op.static_position.get_values()
    if op.dynamic_position:
        raise InterpreterError("vector.extract at a dynamic position is not supported", op)
    index = (slice(None),) * 3 + tuple(positions)
    return lambda a: a[index]


@value(vector.InsertOp)
def insert(op: vector.InsertOp, context: Context) -> Function:
    """Returns the vector with the component or sub-vector at static positions replaced."""
    positions = op.static_position.get_values()
    if op.dynamic_position:
        raise InterpreterError("vector.insert at a dynamic position is not supported", op)
    index = (slice(None),) * 3 + tuple(positions)

    def call(source: Array, dest: Array) -> Array:
        lead = np.broadcast_shapes(source.shape[:3], dest.shape[:3])
        result = np.broadcast_to(dest, lead + dest.shape[3:]).copy()
        result[index] = source
        return result

    return call


@value(vector.BitcastOp)
def bitcast(op: vector.BitcastOp, context: Context) -> Function:
    """Reinterprets the bits. The size of the last dimension changes with the element type."""
    form = context.plain(op.result.type)

    def call(a: Array) -> Array:
        return np.ascontiguousarray(a).view(form.dtype)

    return call


@value(vector.ShuffleOp)
def shuffle(op: vector.ShuffleOp, context: Context) -> Function:
    """Selects components of two 1-D vectors by index."""
    numbers = np.array(op.mask.get_values())
    if len(context.plain(op.v1.type).shape) != 1:
        raise InterpreterError("vector.shuffle of several dimensions is not supported", op)

    def call(a: Array, b: Array) -> Array:
        lead = np.broadcast_shapes(a.shape[:3], b.shape[:3])
        both = [np.broadcast_to(x, lead + x.shape[3:]) for x in (a, b)]
        return np.concatenate(both, axis=3)[..., numbers]

    return call


_REDUCTIONS: dict[str, Function] = {
    "add": np.add,
    "mul": np.multiply,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minui": ew.on_unsigned(np.minimum),
    "maxui": ew.on_unsigned(np.maximum),
    "minimumf": np.minimum,
    "maximumf": np.maximum,
    "minnumf": np.fmin,
    "maxnumf": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@value(vector.ReductionOp)
def reduction(op: vector.ReductionOp, context: Context) -> Function:
    """Combines the components in order. Finally combines their total with the accumulator."""
    name = op.kind.data.value if hasattr(op.kind.data, "value") else str(op.kind.data)
    function = _REDUCTIONS[name]
    count = prod(context.plain(op.vector.type).shape)

    def call(a: Array, *accumulator: Array) -> Array:
        result = a[..., 0]
        for component in range(1, count):
            result = function(result, a[..., component])
        return function(result, accumulator[0]) if accumulator else result

    return call
