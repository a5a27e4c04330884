"""
Computes memory layouts of types, and loads and stores whole values.

Offsets and strides come from dialects/spirv/layout.py. Types without explicit layout (Workgroup
memory under logical addressing) are packed by scalar alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntAttr, VectorType
from xdsl.ir import Attribute

from xdsl_spirv.dialects import spv
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Form, Mask, Plain, merger
from xdsl_spirv.interpreter.memories import physical
from xdsl_spirv.interpreter.memory import Pointer, Pointers, by_case, cases
from xdsl_spirv.interpreter.numbers import I64, Array, scalar_dtype


@dataclass(frozen=True)
class Strided:
    """
    A matrix type, or an array of matrices, with the stride that a struct member declares for it.

    MatrixStride and RowMajor decorate members, not types. In a row-major matrix, a column also has
    a stride.
    """

    type: Attribute
    stride: int
    row_major: bool


Placed: TypeAlias = Attribute | Strided
"""A type. If it is the type of a struct member, it may include the matrix stride."""


def plain_type(type: Placed) -> Attribute:
    """Returns the type without the matrix stride of its struct member."""
    return type.type if isinstance(type, Strided) else type


class Layout:
    """Memory layout of types whose sizes may depend on specialization constants."""

    def __init__(self, context: Context):
        self.context = context

    def size(self, type: Placed) -> int:
        """Returns the size of a value in bytes."""
        if isinstance(type, Strided):
            return self.count(type.type) * self.stride(type)
        return spv.size_in_bytes(type, lengths=self.context.lengths)

    def extent(self, type: Placed) -> int:
        """
        Returns the number of bytes from the start of a value to the end of its last scalar, without
        padding after it.
        """
        plain = plain_type(type)
        if isinstance(plain, spv.StructType):
            members = range(len(plain.member_types))
            return max(self.offset(plain, n) + self.extent(self.member(plain, n)) for n in members)
        if isinstance(plain, spv.ArrayType | spv.MatrixType | VectorType):
            steps = self.count(plain) - 1
            return steps * self.stride(type) + self.extent(self.element(type))
        return self.size(type)

    def form(self, type: Placed) -> Form:
        """Returns the run-time representation of values of the type."""
        return self.context.form(plain_type(type))

    def member(self, struct: spv.StructType, number: int) -> Placed:
        """Returns a member's type. It includes the matrix stride that the struct declares."""
        type = inner = struct.member_types[number]
        while isinstance(inner, spv.ArrayType | spv.RuntimeArrayType):
            inner = inner.element_type
        said = {d.decoration.data: d.value for d in struct.decorations_of(number)}
        stride = said.get(spv.Decoration.MatrixStride)
        if not isinstance(inner, spv.MatrixType) or not isinstance(stride, IntAttr):
            return type
        return Strided(type, stride.data, spv.Decoration.RowMajor in said)

    def element(self, type: Placed) -> Placed:
        """Returns the type of an array's, vector's or matrix's elements."""
        if isinstance(type, Strided):
            element = plain_type(self.element(type.type))
            if isinstance(type.type, VectorType) or (
                isinstance(type.type, spv.MatrixType) and not type.row_major
            ):
                return element
            return Strided(element, type.stride, type.row_major)
        if isinstance(type, spv.ArrayType | spv.RuntimeArrayType | VectorType):
            return type.element_type
        if isinstance(type, spv.MatrixType):
            return type.column_type
        raise InterpreterError(f"{type} is not an array, vector or matrix, and has no elements")

    def count(self, type: Attribute) -> int:
        """
        Returns the number of elements of an array, vector or matrix. Returns 0 for a runtime array.
        """
        match type:
            case spv.ArrayType():
                return self.context.size(type.length)
            case spv.MatrixType():
                return type.columns.data
            case VectorType():
                return type.get_shape()[0]
            case spv.RuntimeArrayType():
                return 0
            case _:
                raise InterpreterError(
                    f"{type} is not an array, vector or matrix, and has no elements"
                )

    def stride(self, type: Placed) -> int:
        """Returns the bytes from one element of an array, vector or matrix to the next."""
        if isinstance(type, Strided):
            inner = type.type
            if isinstance(inner, spv.ArrayType | spv.RuntimeArrayType):
                return inner.stride.data or self.size(self.element(type))
            if isinstance(inner, spv.MatrixType) and type.row_major:
                return spv.scalar_bytes(inner.column_type.element_type)
            return type.stride
        if isinstance(type, spv.ArrayType | spv.RuntimeArrayType):
            return spv.array_stride(type, lengths=self.context.lengths)
        if isinstance(type, spv.MatrixType):
            return spv.matrix_stride(type)
        return spv.scalar_bytes(plain_type(self.element(type)))

    def offset(self, type: spv.StructType, number: int) -> int:
        """Returns the offset of a member in bytes."""
        return spv.member_offsets(type, lengths=self.context.lengths)[number]


Index: TypeAlias = int | None
"""
The value of a constant index of an access chain, or None for an index that is computed at run time.
"""


class Chain:
    """
    The offset that an access chain adds to a pointer.

    Constant indices add `offset` bytes. `dynamic` lists the other indices: the position of each one
    in the chain, and the bytes that it is multiplied by. `type` is the type of the part that the
    chain leads to.
    """

    def __init__(self, layout: Layout, type: Placed, indexes: Sequence[Index]):
        self.offset = 0
        self.dynamic: list[tuple[int, int]] = []
        for number, index in enumerate(indexes):
            if isinstance(type, spv.StructType):
                if index is None:
                    raise InterpreterError("the index into a struct must be a constant")
                self.offset += layout.offset(type, index)
                type = layout.member(type, index)
                continue
            stride = layout.stride(type)
            if index is None:
                self.dynamic.append((number, stride))
            else:
                self.offset += index * stride
            type = layout.element(type)
        self.type = type

    def follow(self, base: Pointer | Pointers, indexes: Sequence[Array]) -> Pointer | Pointers:
        """
        Returns the pointer that the chain computes from the pointer `base` and the values of all
        indices.
        """
        pointer = base.plus_bytes(self.offset) if self.offset else base
        for number, stride in self.dynamic:
            pointer = pointer.plus(indexes[number], stride, 0)
        return pointer


Loader: TypeAlias = Callable[[Any, Mask], Any]
Storer: TypeAlias = Callable[[Any, Any, Mask], None]
PlainLoader: TypeAlias = Callable[[Pointer, Plain, Mask], Array]
PlainStorer: TypeAlias = Callable[[Pointer, Plain, Array, Mask], None]


def loader(type: Placed, layout: Layout, load: PlainLoader = memory.load) -> Loader:
    """
    Returns a function that reads a value of a type. It calls `load` for each scalar or vector.
    """
    read, merge = _loader(type, layout, load), merger(layout.form(type))

    return lambda pointer, mask: by_case(pointer, mask, read, merge)


def _loader(type: Placed, layout: Layout, load: PlainLoader) -> Loader:
    form = layout.form(type)
    if isinstance(type, spv.PointerType | spv.UntypedPointerType):
        memories = layout.context.memories
        return lambda pointer, mask: memories.at(load(pointer, Plain(I64), mask), mask)
    if isinstance(form, Plain) and _is_packed(type, layout):
        return lambda pointer, mask: load(pointer, form, mask)
    parts = [(offset, loader(part, layout, load)) for offset, part in _parts(type, layout)]

    def load_parts(pointer: Pointer, mask: Mask) -> Any:
        values = [read(pointer.plus_bytes(offset), mask) for offset, read in parts]
        return np.stack(values, axis=3) if isinstance(form, Plain) else tuple(values)

    return load_parts


def storer(type: Placed, layout: Layout, store: PlainStorer = memory.store) -> Storer:
    """
    Returns a function that writes a value of a type. It calls `store` for each scalar or vector.
    """
    write = _storer(type, layout, store)

    def store_to(pointer: Pointer | Pointers, value: Any, mask: Mask) -> None:
        for one, lanes in cases(pointer, mask):
            write(one, value, lanes)

    return store_to


def _storer(type: Placed, layout: Layout, store: PlainStorer) -> Storer:
    form = layout.form(type)
    if isinstance(type, spv.PointerType | spv.UntypedPointerType):
        return lambda pointer, value, mask: store(pointer, Plain(I64), physical(value), mask)
    if isinstance(form, Plain) and _is_packed(type, layout):
        return lambda pointer, value, mask: store(pointer, form, value, mask)
    parts = [(offset, storer(part, layout, store)) for offset, part in _parts(type, layout)]

    def store_parts(pointer: Pointer, value: Any, mask: Mask) -> None:
        for number, (offset, write) in enumerate(parts):
            part = value[:, :, :, number] if isinstance(form, Plain) else value[number]
            write(pointer.plus_bytes(offset), part, mask)

    return store_parts


def _is_packed(type: Placed, layout: Layout) -> bool:
    while isinstance(type, Strided) or scalar_dtype(type) is None:
        element = layout.element(type)
        scalar = None if isinstance(element, Strided) else scalar_dtype(element)
        if layout.stride(type) != (layout.size(element) if scalar is None else scalar.itemsize):
            return False
        type = element
    return True


def _parts(type: Placed, layout: Layout) -> list[tuple[int, Placed]]:
    if isinstance(type, spv.StructType):
        numbers = range(len(type.member_types))
        return [(layout.offset(type, n), layout.member(type, n)) for n in numbers]
    if isinstance(plain_type(type), spv.RuntimeArrayType):
        raise InterpreterError(f"a value of type {type} cannot be loaded or stored as a whole")
    stride, element = layout.stride(type), layout.element(type)
    return [(number * stride, element) for number in range(layout.count(plain_type(type)))]
