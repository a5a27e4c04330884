"""
Executes variables, access chains, loads and stores.

The storage class decides statically which of two kinds of memory a pointer refers to. Function,
Private and Input variables are values (variables.py). All others are bytes (memory.py). Memory
operands have no effect, because lockstep execution always reads the latest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.dialects.spirv.constants import constant_integer
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Opaque, zeros
from xdsl_spirv.interpreter.layout import Chain, Layout, Placed, loader, plain_type, storer
from xdsl_spirv.interpreter.memory import Memory, Pointer, by_case, start_of
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.pointers import VALUE_CLASSES, has_bytes, pointer_type
from xdsl_spirv.interpreter.semantics import Function, action, nothing_happens, value
from xdsl_spirv.interpreter.variables import Variable, VariablePointer, read_part, write_part


def accessed(pointer: SSAValue, data: Attribute) -> spv.PointerType:
    """
    Returns the type of `pointer`. An untyped pointer is given a type that points to `data`.

    An untyped variable of an invocation is stored as bytes, like Workgroup memory.
    """
    if not isinstance(pointer.type, spv.UntypedPointerType):
        return pointer_type(pointer)
    storage = pointer.type.storage_class.data
    return spv.PointerType(
        data, spv.StorageClass.Workgroup if storage in VALUE_CLASSES else storage
    )


CHAINS = (spv.AccessChain, spv.PtrAccessChain)
UNTYPED_CHAINS = (spv.UntypedAccessChain, spv.UntypedPtrAccessChain)


def placed(pointer: SSAValue, type: Attribute, context: Context) -> Placed:
    """
    Returns `type`, which a pointer refers to, with the matrix layout that the pointer's access
    chain determines.
    """
    owner, part = pointer.owner, type
    if isinstance(owner, spv.CopyObjectOp):
        part = placed(owner.operand, type, context)
    elif isinstance(owner, (*CHAINS, *UNTYPED_CHAINS)):
        part = Chain(
            Layout(context), _chained_type(owner, context), _known_indexes(owner.indexes)
        ).type
    return part if plain_type(part) == type else type


def _chained_type(op: Any, context: Context) -> Placed:
    """Returns the type to which the indices of an access chain lead."""
    if isinstance(op, CHAINS):
        return placed(op.base, pointer_type(op.base).pointee, context)
    return op.base_type


def _known_indexes(indexes: Sequence[SSAValue]) -> list[int | None]:
    return [constant_integer(index) for index in indexes]


def lengths_of(
    type: Attribute, indexes: Sequence[SSAValue], context: Context
) -> list[tuple[int, int, str]]:
    """
    Returns the bounds that an access path may exceed. Each entry belongs to an index into a vector
    or an array of fixed length that is dynamic, or a constant out of bounds: its position in
    `indexes`, the length that it must be below, and the id of the rule that it breaks otherwise.
    """
    lengths: list[tuple[int, int, str]] = []
    for number, known in enumerate(_known_indexes(indexes)):
        if isinstance(type, spv.StructType):
            type = type.member_types[known or 0]
            continue
        count, rule = None, "BOUNDS-03" if isinstance(type, VectorType) else "BOUNDS-02"
        if isinstance(type, spv.ArrayType):
            count, type = context.size(type.length), type.element_type
        elif isinstance(type, VectorType):
            count, type = type.get_shape()[0], type.element_type
        elif isinstance(type, spv.MatrixType):
            count, type = type.columns.data, type.column_type
        elif isinstance(type, spv.RuntimeArrayType):
            type = type.element_type
        if count is not None and (known is None or not 0 <= known < count):
            lengths.append((number, count, rule))
    return lengths


@action(spv.VariableOp)
def variable(op: spv.VariableOp, context: Context) -> Function:
    """
    Creates a variable for each invocation. Its value is the initializer, or null without an
    initializer.
    """
    form = context.form(pointer_type(op.result).pointee)
    return lambda batch, *initial: VariablePointer(
        Variable(form, initial[0] if initial else None if isinstance(form, Opaque) else zeros(form))
    )


@action(spv.AddressOfOp)
def address_of(op: spv.AddressOfOp, context: Context) -> Function:
    """Returns the pointer to a variable of the module."""
    slot = context.global_slots.get(op.variable.string_value())
    if slot is None:
        raise InterpreterError(f"@{op.variable.string_value()} is not a variable of the module", op)
    return lambda batch: batch.globals[slot]


@action(spv.LoadOp)
def load(op: spv.LoadOp, context: Context) -> Function:
    """Loads the value at the pointer."""
    type = accessed(op.pointer, op.results[0].type)
    if isinstance(type.pointee, RESOURCES):
        return lambda batch, pointer: pointer
    if has_bytes(type):
        read = loader(placed(op.pointer, type.pointee, context), Layout(context))
        return lambda batch, pointer: read(pointer, batch.mask)
    return lambda batch, pointer: load_variable(context, batch, pointer)


def load_variable(context: Context, batch: Batch, pointer: VariablePointer) -> Any:
    """Loads the part of a variable at the pointer."""
    holder = pointer.variable
    if holder.value is None:
        raise InterpreterError(
            "a variable is read before it is set", remedy="initialize the variable"
        )
    if not pointer.path:
        return holder.value
    return read_part(
        holder.form, context.options.component_mapping, batch, holder.value, pointer.path
    )


def store_variable(context: Context, batch: Batch, pointer: VariablePointer, new: Any) -> None:
    """Replaces the part of a variable at the pointer, in the active lanes."""
    holder = pointer.variable
    holder.value = write_part(
        holder.form,
        context.options.component_mapping,
        batch,
        holder.value,
        pointer.path,
        new,
        batch.mask,
    )


@action(spv.StoreOp)
def store(op: spv.StoreOp, context: Context) -> Function:
    """Stores the object at the pointer."""
    type = accessed(op.pointer, op.object.type)
    if has_bytes(type):
        write = storer(placed(op.pointer, type.pointee, context), Layout(context))
        return lambda batch, pointer, object: write(pointer, object, batch.mask)
    return lambda batch, pointer, object: store_variable(context, batch, pointer, object)


def copied_types(op: spv.CopyMemoryOp) -> tuple[spv.PointerType, spv.PointerType]:
    """
    Returns the types of the target and source pointers. An untyped pointer is given the pointee of
    the other one.
    """
    typed = op.source if isinstance(op.target.type, spv.UntypedPointerType) else op.target
    pointee = pointer_type(typed).pointee
    return accessed(op.target, pointee), accessed(op.source, pointee)


@action(spv.CopyMemoryOp)
def copy_memory(op: spv.CopyMemoryOp, context: Context) -> Function:
    """Loads from the source and stores to the target."""
    target, source = copied_types(op)
    layout = Layout(context)
    from_type = placed(op.source, source.pointee, context)
    to_type = placed(op.target, target.pointee, context)
    read = loader(from_type, layout) if has_bytes(source) else None
    write = storer(to_type, layout) if has_bytes(target) else None

    def call(batch: Batch, to: Any, origin: Any) -> None:
        moved = read(origin, batch.mask) if read else load_variable(context, batch, origin)
        if write:
            write(to, moved, batch.mask)
        else:
            store_variable(context, batch, to, moved)

    return call


def _chain(
    base: spv.PointerType, indexes: Sequence[SSAValue], context: Context, op: Operation
) -> Function:
    known = _known_indexes(indexes)
    for number, _, _ in lengths_of(base.pointee, indexes, context):
        known[number] = None
    if not has_bytes(base):
        return lambda pointer, *values: VariablePointer(
            pointer.variable,
            pointer.path + tuple(v if k is None else k for k, v in zip(known, values, strict=True)),
        )
    layout, whole = Layout(context), _chained_type(op, context)
    descriptor = descriptor_of(plain_type(whole))
    try:
        chain = Chain(layout, whole, known) if descriptor is None else None
        inner = None if descriptor is None else Chain(layout, descriptor, known[1:])
    except InterpreterError as error:
        raise error.at(op) from None
    if inner is not None:
        return lambda buffers, first, *values: inner.follow(buffers.at(first), values)
    assert chain is not None
    return lambda pointer, *values: chain.follow(pointer, values)


RESOURCES = (spv.ImageType, spv.SampledImageType, spv.SamplerType)
"""Types whose values are pointers to the memory of an image or a sampler."""


def descriptor_of(type: Attribute) -> Attribute | None:
    """
    Returns the element type if a type is an array of descriptors (blocks or images), otherwise
    None.
    """
    element = type.element_type if isinstance(type, spv.ArrayType | spv.RuntimeArrayType) else None
    if isinstance(element, RESOURCES):
        return element
    if not isinstance(element, spv.StructType):
        return None
    blocks = (spv.Decoration.Block, spv.Decoration.BufferBlock)
    return element if any(map(element.has_decoration, blocks)) else None


@value(spv.AccessChainOp, spv.InBoundsAccessChainOp)
def access_chain(op: spv.AccessChainOp, context: Context) -> Function:
    """Returns the pointer to the part that the indices select."""
    return _chain(pointer_type(op.base), op.indexes, context, op)


@value(spv.UntypedAccessChainOp, spv.UntypedInBoundsAccessChainOp)
def untyped_chain(op: spv.UntypedAccessChain, context: Context) -> Function:
    """
    Returns the pointer to the part of an object that the indices select. An operand gives the
    object's type.
    """
    return _chain(accessed(op.base, op.base_type), op.indexes, context, op)


@value(spv.PtrAccessChainOp, spv.InBoundsPtrAccessChainOp)
def ptr_access_chain(op: spv.PtrAccessChainOp, context: Context) -> Function:
    """Advances the pointer by `element` array elements, then follows the access chain."""
    base = pointer_type(op.base)
    if not has_bytes(base):
        raise InterpreterError(
            f"{op.name} needs byte-addressed memory, not {base.storage_class.data.name} memory",
            op,
            "use spirv.AccessChain for this storage class",
        )
    stride = element_stride(base, context)
    chain = _chain(base, op.indexes, context, op)

    def call(pointer: Pointer, element: Array, *indexes: Array) -> Pointer:
        return chain(pointer.plus(element, stride, 0), *indexes)

    return call


def element_stride(type: spv.PointerType, context: Context) -> int:
    """
    Returns the bytes from the element at a pointer to the next element.

    ArrayStride has no effect in Workgroup memory whose variables are not Blocks.
    """
    explicit = type.storage_class.data is not spv.StorageClass.Workgroup or any(
        isinstance(op, spv.GlobalVariableOp)
        and op.storage_class is spv.StorageClass.Workgroup
        and is_block(op.object_type)
        for op in context.symbols.values()
    )
    return (type.stride.data if explicit else 0) or Layout(context).size(type.pointee)


def is_block(type: Attribute) -> bool:
    """True if a type is a struct decorated as Block."""
    return isinstance(type, spv.StructType) and type.has_decoration(spv.Decoration.Block)


@value(spv.UntypedPtrAccessChainOp, spv.UntypedInBoundsPtrAccessChainOp)
def untyped_ptr_chain(op: spv.UntypedPtrAccessChain, context: Context) -> Function:
    """Advances the pointer by `element` objects of the type, then follows the access chain."""
    stride = Layout(context).size(op.base_type)
    chain = _chain(accessed(op.base, op.base_type), op.indexes, context, op)
    return lambda pointer, element, *indexes: chain(pointer.plus(element, stride, 0), *indexes)


@action(spv.UntypedVariableOp)
def untyped_variable(op: spv.UntypedVariableOp, context: Context) -> Function:
    """Creates a variable of bytes for each invocation."""
    layout = Layout(context)
    size, write = layout.size(op.data_type), storer(op.data_type, layout)

    def call(batch: Batch, *initial: Any) -> Pointer:
        pointer = start_of(Memory.unwritten(size, "lane", batch, "an untyped variable"))
        for one in initial:
            write(pointer, one, batch.mask)
        return pointer

    return call


nothing_happens(spv.UntypedPrefetchOp)


@value(spv.ArrayLengthOp)
def array_length(op: spv.ArrayLengthOp, context: Context) -> Function:
    """
    Returns the number of elements of a buffer's runtime array, which is the last member of its
    struct.
    """
    return _length(pointer_type(op.structure).pointee, op.array_member.value.data, context)


@value(spv.UntypedArrayLengthOp)
def untyped_array_length(op: spv.UntypedArrayLengthOp, context: Context) -> Function:
    """
    Returns the number of elements of a runtime array. An operand gives the struct type, whose last
    member is the array.
    """
    struct = accessed(op.pointer, op.structure).pointee
    return _length(struct, op.array_member.value.data, context)


def _length(struct: Attribute, number: int, context: Context) -> Function:
    assert isinstance(struct, spv.StructType)
    array = struct.member_types[number]
    assert isinstance(array, spv.RuntimeArrayType)
    layout = Layout(context)
    start, stride = layout.offset(struct, number), layout.stride(array)

    def length(pointer: Pointer, lanes: Mask) -> Array:
        # A buffer may end before the block's array begins.
        count = max(0, pointer.memory.size - pointer.base - start) // stride
        return np.full((1, 1, 1), count, np.int32)

    return lambda pointer: by_case(pointer, None, length)
