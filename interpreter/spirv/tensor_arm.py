"""
Executes SPV_ARM_tensors. A tensor is a buffer with the shape of the bound numpy array.

Reading outside of a tensor gives the value of an operand, or 0. Writing outside has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute

from xdsl_spirv.dialects.spirv import tensor_arm as ops
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.layout import PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memory import Memory, Pointer, start_of
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.semantics import Function, action, value


@dataclass(frozen=True)
class Tensor:
    """A packed, row-major tensor in memory."""

    memory: Memory
    shape: tuple[int, ...]

    def merge(self, mask: Mask, old: Tensor | None) -> Tensor:
        """Returns this tensor. Raises `InterpreterError` if `old` is another tensor."""
        if old is None or old is self:
            return self
        raise InterpreterError("invocations in divergent flow hold different tensors")

    def places(self, coordinates: Array, count: int, size: int) -> tuple[Pointer, Array]:
        """
        Returns pointers to `count` elements for each lane, and a mask of the elements in bounds.
        """
        index = coordinates.astype(I64)[..., None, :].repeat(count, axis=3)
        index[..., -1] += np.arange(count)
        inside = ((index >= 0) & (index < np.array(self.shape))).all(axis=4)
        steps = np.cumprod((1, *self.shape[:0:-1]))[::-1]
        element = np.where(inside, (index * steps).sum(axis=4), 0)
        return start_of(self.memory).plus(element, size, 0), inside


class Elements:
    """Accesses one element of a tensor, or consecutive elements along the last dimension."""

    def __init__(self, type: Attribute, context: Context):
        self.form = context.plain(type)
        self.element = Plain(self.form.dtype)
        self.count = self.form.shape[0] if self.form.shape else 1

    def places(
        self, batch: Batch, tensor: Tensor, coordinates: Array
    ) -> Iterator[tuple[Pointer, Array]]:
        """
        Yields a pointer to each element, and a mask of the active lanes whose element is in bounds.
        """
        pointer, inside = tensor.places(coordinates, self.count, self.form.dtype.itemsize)
        for number in range(self.count):
            index = pointer.index[..., number]
            place = Pointer(pointer.memory, index, pointer.scale, pointer.base)
            yield place, inside[..., number] & batch.active()

    def part(self, value: Array, number: int) -> Array:
        """Returns element `number` of a value."""
        return value[..., number] if self.form.shape else value

    def whole(self, parts: list[Array]) -> Array:
        """Joins the elements to one value."""
        return np.stack(parts, axis=3) if self.form.shape else parts[0]


@action(ops.TensorReadOp)
def read(op: ops.TensorReadOp, context: Context, load: PlainLoader = memory.load) -> Function:
    """Reads one element, or consecutive elements along the last dimension."""
    elements = Elements(op.result.type, context)
    dtype = elements.form.dtype

    def call(batch: Batch, tensor: Tensor, coordinates: Array, *outside: Array) -> Array:
        rest = outside[0] if outside else dtype.type(0)
        return elements.whole(
            [
                np.where(lanes, load(place, elements.element, lanes), rest).astype(dtype)
                for place, lanes in elements.places(batch, tensor, coordinates)
            ]
        )

    return call


@action(ops.TensorWriteOp)
def write(op: ops.TensorWriteOp, context: Context, store: PlainStorer = memory.store) -> Function:
    """Writes one element, or consecutive elements along the last dimension."""
    elements = Elements(op.object.type, context)

    def call(batch: Batch, tensor: Tensor, coordinates: Array, object: Array) -> None:
        places = elements.places(batch, tensor, coordinates)
        for number, (place, lanes) in enumerate(places):
            store(place, elements.element, elements.part(object, number), lanes)

    return call


@value(ops.TensorQuerySizeOp)
def size(op: ops.TensorQuerySizeOp, context: Context) -> Function:
    """Returns the size of a dimension."""
    dtype = context.plain(op.result.type).dtype
    return lambda tensor, dimension: np.full(
        (1, 1, 1), tensor.shape[int(dimension.reshape(-1)[0])], dtype
    )
