"""
Memory that has bytes: buffers and Workgroup memory, and pointers into them.

A memory is an array of bytes, one row for all invocations (a buffer), one for each workgroup of the
chunk (Workgroup memory) or one for each invocation (a kernel-level allocation in Function memory). A
pointer is `index * scale + base` bytes into its row: the scale is mostly the element's size, so
that the element's number is the index itself and no load multiplies and divides again.

Memory that was never written holds bytes of all ones: NaN in every float format, -1 in every integer.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain, spread
from xdsl_spirv.interpreter.numbers import Array, DType, raw_dtype
from xdsl_spirv.interpreter.wave import Wave

Rows: TypeAlias = Literal["shared", "workgroup", "lane"]

UNWRITTEN = 0xFF


class Memory:
    """
    One memory object. `data` is uint8 (rows, bytes), C-contiguous; `label` names it in messages.
    """

    __slots__ = ("data", "label", "rows", "views", "wave")

    def __init__(
        self, data: Array, rows: Rows = "shared", wave: Wave | None = None, label: str = ""
    ):
        self.data = data
        self.rows: Rows = rows
        self.wave = wave
        self.label = label
        self.views: dict[DType, Array] = {}

    @classmethod
    def of_array(cls, array: Array, label: str = "") -> Memory:
        """A buffer over the bytes of a C-contiguous array, which stores change in place."""
        return cls(array.reshape(-1).view(np.uint8).reshape(1, -1), label=label)

    @classmethod
    def unwritten(cls, size: int, rows: Rows, wave: Wave, label: str = "") -> Memory:
        """`size` bytes for each workgroup or each invocation of the chunk."""
        count = wave.workgroups if rows == "workgroup" else prod(wave.shape)
        return cls(np.full((count, max(size, 1)), UNWRITTEN, np.uint8), rows, wave, label)

    def view(self, dtype: DType) -> Array:
        """(rows, elements) of the bytes as `dtype`; bytes that fill no element are left out."""
        found = self.views.get(dtype)
        if found is None:
            size = self.data.shape[1]
            found = self.data[:, : size - size % dtype.itemsize].view(dtype)
            self.views[dtype] = found
        return found

    def row_starts(self, length: int) -> Array:
        """Where each invocation's row starts, in elements, when a row has `length` of them."""
        assert self.wave is not None
        shape = self.wave.shape
        if self.rows == "workgroup":
            return (np.arange(shape[0]) * length)[:, None, None]
        return (np.arange(prod(shape)) * length).reshape(shape)


class Pointer:
    """`index * scale + base` bytes into each invocation's row of a memory; `index` is int64 (w,s,l)."""

    __slots__ = ("base", "index", "memory", "scale")

    def __init__(self, memory: Memory, index: Array, scale: int, base: int = 0):
        self.memory = memory
        self.index = index
        self.scale = scale
        self.base = base

    def plus(self, index: Array | None, scale: int, base: int) -> Pointer:
        """The pointer `index * scale + base` bytes further; no index is an index of 0."""
        if index is None or scale == 0:
            return Pointer(self.memory, self.index, self.scale, self.base + base)
        index = index.astype(np.int64, copy=False)
        if self.scale == 0:
            return Pointer(self.memory, index, scale, self.base + base)
        if index.size == 1 and self.index.size > 1:
            base += int(index.item()) * scale
            return Pointer(self.memory, self.index, self.scale, self.base + base)
        if self.index.size == 1:
            base += int(self.index.item()) * self.scale
            return Pointer(self.memory, index, scale, self.base + base)
        unit = gcd(self.scale, scale)
        total = self.index * (self.scale // unit) + index * (scale // unit)
        return Pointer(self.memory, total, unit, self.base + base)

    def items(self, size: int) -> Array:
        """The number of the element of `size` bytes that is pointed at, in its row."""
        if self.scale % size == 0 and self.base % size == 0:
            factor, offset = self.scale // size, self.base // size
            index = self.index if factor == 1 else self.index * factor
            return index + offset if offset else index
        address = self.index * self.scale + self.base
        if (address % size).any():
            raise InterpreterError(
                f"a pointer into {self.memory.label or 'memory'} is not a multiple of {size} bytes, "
                "the size of what it points to",
                remedy="check the strides and offsets of the types",
            )
        return address // size

    def merge(self, mask: Mask, old: Any) -> Pointer:
        """This pointer where the mask is set, `old` elsewhere."""
        if old is None or old is self:
            return self
        if old.memory is not self.memory:
            raise InterpreterError(
                "invocations in divergent flow hold pointers into different variables",
                remedy="pointers that vary between variables are not executed",
            )
        new_bytes = self.index * self.scale + self.base
        old_bytes = old.index * old.scale + old.base
        return Pointer(self.memory, np.where(mask, new_bytes, old_bytes), 1)


def start_of(memory: Memory) -> Pointer:
    """The pointer to a memory's first byte."""
    return Pointer(memory, np.zeros((1, 1, 1), np.int64), 0)


def check_items(memory: Memory, items: Array, width: int, length: int, what: str) -> None:
    """Refuse an element whose `width` units do not all lie below `length`."""
    if items.size and int(items.view(np.uint64).max()) > length - width:
        signed = items.reshape(-1)
        worst = int(signed[signed.view(np.uint64).argmax()])
        raise InterpreterError(
            f"{what} outside {memory.label or 'its memory'}: element {worst} of {length}",
            remedy="the program reads or writes out of bounds",
        )


def _items(pointer: Pointer, form: Plain, mask: Mask) -> Array:
    """Element numbers of a plain value, its own axes included; 0 where no lane is active."""
    items = pointer.items(form.dtype.itemsize)
    if mask is not None:
        items = np.where(mask, items, 0)
    return items


def _spread_items(items: Array, form: Plain) -> Array:
    if not form.shape:
        return items
    return items[..., None] + np.arange(prod(form.shape))


def load(pointer: Pointer, form: Plain, mask: Mask) -> Array:
    """The plain, tightly packed value at each lane's address."""
    memory = pointer.memory
    view = memory.view(raw_dtype(form.dtype))
    count, length = prod(form.shape), view.shape[1]
    items = _items(pointer, form, mask)
    check_items(memory, items, count, length, "a load")
    items = _spread_items(items, form)
    if memory.rows == "workgroup" and items.shape[0] == 1:
        found = view.take(items.reshape(-1), axis=1).reshape(view.shape[0], *items.shape[1:])
    elif memory.rows == "shared":
        found = view.reshape(-1).take(items)
    else:
        starts = memory.row_starts(length)
        found = view.reshape(-1).take(items + (starts[..., None] if form.shape else starts))
    if len(form.shape) > 1:
        found = found.reshape(*found.shape[:3], *form.shape)
    return found.view(form.dtype)


def store(pointer: Pointer, form: Plain, value: Array, mask: Mask) -> None:
    """Write the value at each active lane's address, in the order of the lanes."""
    memory = pointer.memory
    raw = raw_dtype(form.dtype)
    view = memory.view(raw)
    count, length = prod(form.shape), view.shape[1]
    items = _items(pointer, form, mask)
    check_items(memory, items, count, length, "a store")
    if memory.rows != "shared":
        items = items + memory.row_starts(length)
    value = value.view(raw)
    if len(form.shape) > 1:
        value = value.reshape(*value.shape[:3], count)
    items = _spread_items(items, form)
    if mask is not None:
        shape = np.broadcast_shapes(mask.shape, items.shape[:3], value.shape[:3])
        selected = np.broadcast_to(mask, shape)
        tail = (count,) if form.shape else ()
        items = np.broadcast_to(items, shape + tail)[selected]
        value = np.broadcast_to(value, shape + tail)[selected]
    elif value.size > items.size:
        items = np.broadcast_to(items, np.broadcast_shapes(items.shape, value.shape))
    view.reshape(-1)[items] = value


def leaders(pointer: Pointer, mask: Mask, axes: tuple[int, ...]) -> Pointer:
    """The pointer of the first active lane along `axes`, for what a scope does as one (CM-27)."""
    index = pointer.index
    if all(index.shape[axis] == 1 for axis in axes):
        return pointer
    return Pointer(pointer.memory, first_active(index, mask, axes), pointer.scale, pointer.base)


def first_active(value: Array, mask: Mask, axes: tuple[int, ...]) -> Array:
    """Each scope instance's value in its first active lane, `axes` (ascending) reduced to 1."""
    if mask is None:
        return value[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(3))]
    shape = np.broadcast_shapes(value.shape[:3], mask.shape)
    value = np.broadcast_to(value, shape + value.shape[3:])
    mask = np.broadcast_to(mask, shape)
    for axis in reversed(axes):
        chosen = np.expand_dims(mask.argmax(axis=axis), axis)
        mask_at = np.take_along_axis(mask, chosen, axis)
        extra = value.ndim - 3
        value = np.take_along_axis(value, chosen.reshape(chosen.shape + (1,) * extra), axis)
        mask = mask_at
    return value


class Tiles:
    """
    Where the matrices of a cooperative load or store lie: every row `stride` elements after the last.

    `starts` are element numbers over (w, s, 1), `stride` is one number for the chunk or one for each
    matrix; `shape` is (lines, elements of a line).
    """

    def __init__(self, memory: Memory, starts: Array, stride: Array, shape: tuple[int, int]):
        self.memory = memory
        self.starts = starts
        self.stride = stride
        self.lines, self.width = shape

    def load(self, dtype: DType, mask: Mask) -> Array:
        """(w, s, lines, width) of the tiles at their places; matrices without lanes hold anything."""
        memory = self.memory
        view = memory.view(raw_dtype(dtype))
        starts = self.starts
        if mask is not None:
            starts = np.where(mask.any(axis=2, keepdims=True), starts, 0)
        if self.stride.size > 1:
            items = self._items(starts)
            check_items(memory, items, 1, view.shape[1], "a cooperative load")
            if memory.rows == "workgroup":
                items = items + memory.row_starts(view.shape[1])[..., None]
            return view.reshape(-1).take(items).view(dtype)
        windows = self._windows(view, starts, "a cooperative load")
        places = starts[..., 0]
        if memory.rows == "shared":
            found = windows[0][places]
        elif places.shape[0] == 1:
            found = windows[:, places[0]]
        else:
            found = windows[np.arange(view.shape[0])[:, None], places]
        return found.view(dtype)

    def store(self, dtype: DType, value: Array, mask: Mask) -> None:
        """Write (w, s, lines, width) to the tiles' places, whole matrices in order."""
        memory = self.memory
        raw = raw_dtype(dtype)
        view = memory.view(raw)
        items = self._items(self.starts)
        value = value.view(raw)
        if mask is not None:
            chosen = mask.any(axis=2)
            shape = np.broadcast_shapes(chosen.shape, items.shape[:2], value.shape[:2])
            checked = np.broadcast_to(items, shape + items.shape[2:])
            checked = checked[np.broadcast_to(chosen, shape)]
        else:
            shape, chosen = np.broadcast_shapes(items.shape[:2], value.shape[:2]), None
            checked = items
        check_items(memory, checked, 1, view.shape[1], "a cooperative store")
        if memory.rows == "workgroup":
            items = items + memory.row_starts(view.shape[1])[..., None]
            shape = np.broadcast_shapes(shape, items.shape[:2])
        items = np.broadcast_to(items, shape + items.shape[2:])
        value = np.broadcast_to(value, items.shape)
        if chosen is not None:
            chosen = np.broadcast_to(chosen, shape)
            items, value = items[chosen], value[chosen]
        view.reshape(-1)[items] = value

    def _items(self, starts: Array) -> Array:
        lines = np.arange(self.lines)[:, None] * self.stride.reshape(*self.stride.shape[:2], 1, 1)
        return starts[..., None] + (lines + np.arange(self.width))

    def _windows(self, view: Array, starts: Array, what: str) -> Array:
        """(rows, places, lines, width): the tile at every place, without copying one."""
        stride = int(self.stride.item())
        extent = (self.lines - 1) * stride + self.width
        check_items(self.memory, starts, extent, view.shape[1], what)
        size = view.itemsize
        shape = (view.shape[0], view.shape[1] - extent + 1, self.lines, self.width)
        return as_strided(
            view, shape, (view.strides[0], size, stride * size, size), writeable=False
        )


def lane_mask(mask: Mask, form: Plain) -> Mask:
    """The mask shaped for a plain value, None if all lanes are active."""
    return None if mask is None else spread(mask, form)
