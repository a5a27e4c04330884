"""
Memory of a kernel: buffers, push constants, specialization constants, Workgroup memory, variables.

    @k.kernel(workgroup=64)
    def f(
        x=k.buffer(k.f32, None, 64, read_only=True),
        y=k.buffer(k.f32),
        n=k.push(k.u32),
        taps=k.specialization(k.u32, 3),
    ): ...

The default of a parameter gives its kind. `buffer` is a storage buffer in set 0, whose binding is
its index among the buffers. `push` is a member of the push-constant block. `specialization` is a
constant that a launch can change.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, cast

from xdsl.ir import Attribute, SSAValue

from xdsl_spirv.dialects import spv
from xdsl_spirv.kernels.tracer import KernelError, Tracer, current
from xdsl_spirv.kernels.types import Type, u32
from xdsl_spirv.kernels.values import Number, Value, of_one_type, value_of
from xdsl_spirv.passes.emit.spirv import free_symbol

Size = int | None


@dataclass(frozen=True)
class BufferType:
    """The declaration of a buffer parameter, made by `buffer(...)`."""

    element: Type
    sizes: tuple[Size, ...]
    read_only: bool

    @property
    def attribute(self) -> spv.StructType:
        """The buffer's block: a struct with a densely packed array of elements."""
        element, stride = self.element.attribute, self.element.bytes
        whole = None in self.sizes
        array: Attribute = (
            spv.RuntimeArrayType(element, stride)
            if whole
            else spv.ArrayType(prod(n or 0 for n in self.sizes), element, stride)
        )
        members = (
            [spv.MemberDecorationAttr(0, spv.Decoration.NonWritable)] if self.read_only else []
        )
        return spv.StructType([array], [0], members, [spv.Decoration.Block])


@dataclass(frozen=True)
class PushType:
    """The declaration of a push constant, made by `push(...)`."""

    type: Type


@dataclass(frozen=True)
class ConstantType:
    """The declaration of a specialization constant, made by `specialization(...)`."""

    type: Type
    default: float | bool


def _scalar(type: Any, what: str) -> Type:
    if not isinstance(type, Type) or type.lanes != 1:
        raise KernelError(
            f"{type!r} is not a type for {what}", "", "write a scalar type, for example k.f32"
        )
    return type


def _is_size(size: object) -> bool:
    return type(size) is int and 0 < size <= spv.WORD


def buffer(element: Type, *sizes: int | None, read_only: bool = False) -> Memory:
    """
    Declares a parameter that is a storage buffer: `x=buffer(f32)`.

    Sizes are constants. The first size may be None, which is the size of the bound array. Without
    sizes, the buffer has one dimension of the bound array's size.
    """
    if not isinstance(element, Type) or element.is_boolean:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelError(f"{element!r} is not a type for a buffer's elements", "", "write k.f32")
    for place, size in enumerate(sizes):
        if not (size is None and place == 0) and not _is_size(size):
            raise KernelError(
                f"{size!r} is not a size of a buffer",
                "",
                "write integers above 0; the first may be None, for any size",
            )
    return cast(Memory, BufferType(element, sizes or (None,), read_only))


def push(type: Type) -> Value:
    """Declares a parameter that is a push constant: `n=push(u32)`."""
    pushed = PushType(_scalar(type, "a push constant"))
    if pushed.type.is_boolean:
        raise KernelError("a push constant cannot be a Boolean", "", "push a u32, compare with 0")
    return cast(Value, pushed)


def specialization(type: Type, default: float | bool) -> Value:
    """Declares a specialization constant as a parameter: `n=specialization(u32, 4)`."""
    return cast(Value, ConstantType(_scalar(type, "a specialization constant"), default))


class Memory:
    """
    An array in memory: `x[i]` loads, `x[i] = value` stores; `x[i, j]` with two sizes.

    Indices are 32-bit integers and are not checked. The interpreter detects accesses out of
    bounds.
    """

    def __init__(
        self,
        name: str,
        base: SSAValue,
        element: Type,
        sizes: tuple[Size, ...],
        storage: spv.StorageClass,
        read_only: bool = False,
    ):
        self.name, self.base, self.element, self.sizes = name, base, element, sizes
        self.storage, self.read_only = storage, read_only

    @property
    def length(self) -> Value | int:
        """Number of elements in the first dimension: a constant, or the size of the bound array."""
        if self.sizes[0] is not None:
            return self.sizes[0]
        count = Value(current().add(spv.ArrayLengthOp(self.base, 0)), u32)
        rest = prod(n or 1 for n in self.sizes[1:])
        return count // rest if rest > 1 else count

    def pointer(self, index: Any) -> SSAValue:
        """Returns the pointer to an element."""
        linear = self._linear(index if isinstance(index, tuple) else (index,))
        path = [linear.ssa]
        if self.storage == spv.StorageClass.StorageBuffer:
            path.insert(0, current().code.number(0))
        return current().add(spv.AccessChainOp(self.base, path))

    def _linear(self, indices: tuple[Any, ...]) -> Value:
        if len(indices) != len(self.sizes):
            raise KernelError(
                f"{self.name} has {len(self.sizes)} dimensions, but {len(indices)} indices",
                self.name,
                "give an index for each dimension; a buffer without sizes has one dimension",
            )
        linear: Number = indices[0]
        for index, size in zip(indices[1:], self.sizes[1:], strict=True):
            assert size is not None
            linear = linear * size + index
        if not isinstance(linear, Value):
            linear = value_of(linear, u32)
        type = linear.type
        if type.is_float or type.is_boolean or type.width != 32 or type.lanes != 1:
            raise KernelError(
                f"{self.name} cannot be indexed by a {type}", self.name, "convert it: .to(u32)"
            )
        return linear

    def __getitem__(self, index: Any) -> Value:
        return Value(current().add(spv.LoadOp(self.pointer(index))), self.element)

    def __setitem__(self, index: Any, value: Number) -> None:
        if self.read_only:
            raise KernelError(
                f"{self.name} is read_only, so stores are not allowed",
                self.name,
                "remove read_only",
            )
        stored = value_of(value, self.element)
        current().insert(spv.StoreOp(self.pointer(index), stored.ssa))

    def __iter__(self) -> Any:
        raise KernelError(
            f"{self.name} cannot be iterated", self.name, "loop over indices with kernels.range"
        )


class Variable:
    """A variable that each invocation has for itself: `v.value`, `v.value = x`, `v.value += x`."""

    def __init__(self, pointer: SSAValue, type: Type):
        self._pointer, self.type = pointer, type

    @property
    def value(self) -> Value:
        """The current value of the variable."""
        return Value(current().add(spv.LoadOp(self._pointer)), self.type)

    @value.setter
    def value(self, value: Number) -> None:
        current().insert(spv.StoreOp(self._pointer, value_of(value, self.type).ssa))


def variable(initial: Number, type: Type | None = None) -> Variable:
    """
    Makes a variable that each invocation has for itself. If the initial value is a Python number,
    `type` is required.
    """
    tracer = current()
    if type is None and not isinstance(initial, Value):
        raise KernelError(
            f"the type of a variable with the initial value {initial!r} is unknown",
            "",
            f"write variable({initial}, f32)",
        )
    first = value_of(initial, type) if type is not None else of_one_type(initial)[0]
    of = spv.PointerType(first.type.attribute, spv.StorageClass.Function)
    declared = Variable(tracer.first(lambda: spv.VariableOp(of)), first.type)
    declared.value = first
    return declared


def shared(element: Type, *sizes: int) -> Memory:
    """
    Declares an array in Workgroup memory, which all invocations of a workgroup share. Its contents
    are undefined at first. Reports use the name of the Python variable for the array.
    """
    tracer = current()
    if not sizes or not all(map(_is_size, sizes)) or prod(sizes) > spv.WORD:
        raise KernelError(
            f"Workgroup memory cannot have the sizes {sizes}", "", "write shared(f32, 64)"
        )
    name = free_symbol(tracer.module, tracer.code.lines.assigned() or "shared")
    pointer = spv.PointerType(
        spv.ArrayType(prod(sizes), element.attribute), spv.StorageClass.Workgroup
    )
    address = tracer.declare(spv.GlobalVariableOp(name, pointer))
    return Memory(name, address, element, sizes, spv.StorageClass.Workgroup)


def bind_buffer(tracer: Tracer, name: str, binding: int, type: BufferType) -> Memory:
    """Declares the buffer of a parameter."""
    pointer = spv.PointerType(type.attribute, spv.StorageClass.StorageBuffer)
    address = tracer.declare(spv.GlobalVariableOp(name, pointer, bind=(0, binding)))
    storage = spv.StorageClass.StorageBuffer
    return Memory(name, address, type.element, type.sizes, storage, type.read_only)
