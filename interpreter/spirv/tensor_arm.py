"""
SPV_ARM_tensors: a tensor is a buffer with a shape, the shape of the numpy array that is bound.

What is read outside of a tensor is the operand that says so, or 0; what is written there is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xdsl_spirv.dialects.spirv import tensor_arm as ops
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.memory import Memory, Pointer, start_of
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.semantics import Function, action, value
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory, packed, its last dimension the fastest."""

    memory: Memory
    shape: tuple[int, ...]

    def merge(self, mask: Mask, old: Tensor | None) -> Tensor:
        """A tensor is the same for all invocations."""
        if old is None or old is self:
            return self
        raise InterpreterError("invocations in divergent flow hold different tensors")

    def places(self, coordinates: Array, count: int, size: int) -> tuple[Pointer, Array]:
        """
        The pointers to `count` elements along the last dimension (w, s, l, count), and which of
        them are inside.
        """
        index = coordinates.astype(I64)[..., None, :].repeat(count, axis=3)
        index[..., -1] += np.arange(count)
        inside = ((index >= 0) & (index < np.array(self.shape))).all(axis=4)
        steps = np.cumprod((1, *self.shape[:0:-1]))[::-1]
        element = np.where(inside, (index * steps).sum(axis=4), 0)
        return start_of(self.memory).plus(element, size, 0), inside


def _count(form: Plain) -> int:
    return form.shape[0] if form.shape else 1


@action(ops.TensorReadOp)
def read(op: ops.TensorReadOp, unit: Unit) -> Function:
    """An element, or a run of them along the last dimension."""
    form = unit.plain(op.result.type)
    element, count = Plain(form.dtype), _count(form)

    def call(wave: Wave, tensor: Tensor, coordinates: Array, *outside: Array) -> Array:
        pointer, inside = tensor.places(coordinates, count, form.dtype.itemsize)
        parts: list[Array] = []
        for number in range(count):
            place = Pointer(pointer.memory, pointer.index[..., number], pointer.scale, pointer.base)
            found = memory.load(place, element, wave.mask)
            rest = outside[0] if outside else form.dtype.type(0)
            parts.append(np.where(inside[..., number], found, rest).astype(form.dtype))
        return np.stack(parts, axis=3) if form.shape else parts[0]

    return call


@action(ops.TensorWriteOp)
def write(op: ops.TensorWriteOp, unit: Unit) -> Function:
    """An element, or a run of them along the last dimension."""
    form = unit.plain(op.object.type)
    element, count = Plain(form.dtype), _count(form)

    def call(wave: Wave, tensor: Tensor, coordinates: Array, object: Array) -> None:
        pointer, inside = tensor.places(coordinates, count, form.dtype.itemsize)
        for number in range(count):
            place = Pointer(pointer.memory, pointer.index[..., number], pointer.scale, pointer.base)
            lanes = inside[..., number] & wave.active()
            memory.store(place, element, object[..., number] if form.shape else object, lanes)

    return call


@value(ops.TensorQuerySizeOp)
def size(op: ops.TensorQuerySizeOp, unit: Unit) -> Function:
    """The extent of a dimension."""
    dtype = unit.plain(op.result.type).dtype
    return lambda tensor, dimension: np.full(
        (1, 1, 1), tensor.shape[int(dimension.reshape(-1)[0])], dtype
    )
