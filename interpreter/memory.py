"""
Implements memory that has bytes (buffers and Workgroup memory), and pointers into it.

A memory is an array of bytes with one row for all invocations (a buffer), a row for each running
workgroup (Workgroup memory), or a row for each invocation (an allocation in Function memory). A
pointer is `index * scale + base` bytes into its row. The scale is mostly the element's size, so
that the index is the element index and loads need no multiplication or division.

Memory that was never written has all bits set: NaN in every float format, -1 in every integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd, prod
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xdsl_spirv.images import Image, Sampler
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.numbers import Array, DType, raw_dtype

Rows: TypeAlias = Literal["shared", "workgroup", "lane"]

UNWRITTEN = 0xFF

ROOM = 16
"""
Row sizes are multiples of this number of bytes, so that any scalar type divides a row. An empty
buffer has a row of this size, because inactive lanes read some element.
"""

PIECES = (32, 16, 8)
"""Sizes in bytes of the blocks in which numpy copies a row or column of a matrix."""

_LOAD = "a cooperative load"


class Memory:
    """
    One memory object.

    - `data`: C-contiguous uint8 array (rows, bytes).
    - `label`: name in messages. `names`: the module variables that are bound to the memory.
    - `shadow`: state of the checks.
    - `address`: physical address that programs see.
    - `shape`: shape of the bound array.
    - `size`: bytes of a row that belong to the memory. Bytes from `defined` on start undefined.
    - `robust`: True if reads outside give 0 and writes outside are dropped (robustBufferAccess2).
    - `image`, `sampler`: an image's format, a sampler's settings.
    """

    def __init__(
        self, data: Array, rows: Rows = "shared", batch: Batch | None = None, label: str = ""
    ):
        self.data = data
        self.rows: Rows = rows
        self.batch = batch
        self.label = label
        self.names: set[str] = {label[1:]} if label.startswith("@") else set()
        self.views: dict[DType, Array] = {}
        self.shadow: Any = None
        self.address: int = data.ctypes.data
        self.shape: tuple[int, ...] = data.shape
        self.size: int = data.shape[1]
        self.defined = self.size if rows == "shared" else 0
        self.robust = False
        self.image: Image | None = None
        self.sampler: Sampler | None = None

    @classmethod
    def of_array(cls, array: Array, label: str = "") -> Memory:
        """Creates a buffer that shares the bytes of a C-contiguous array."""
        data = array.reshape(-1).view(np.uint8).reshape(1, array.nbytes)
        memory = cls(data if array.nbytes else np.zeros((1, ROOM), np.uint8), label=label)
        memory.shape, memory.size = array.shape, array.nbytes
        return memory

    @classmethod
    def unwritten(cls, size: int, rows: Rows, batch: Batch, label: str = "") -> Memory:
        """
        Creates a memory of `size` unwritten bytes for each workgroup or invocation of a batch.
        """
        count = batch.workgroups if rows == "workgroup" else prod(batch.shape)
        row = -(-max(size, 1) // ROOM) * ROOM
        memory = cls(np.full((count, row), UNWRITTEN, np.uint8), rows, batch, label)
        memory.size = size
        return memory

    @property
    def end(self) -> int:
        """Address after the last byte."""
        return self.address + self.size

    def view(self, dtype: DType) -> Array:
        """
        Returns the bytes as an array (rows, elements) of `dtype`. Leaves out an incomplete last
        element.
        """
        view = self.views.get(dtype)
        if view is None:
            size = self.data.shape[1]
            view = self.data[:, : size - size % dtype.itemsize].view(dtype)
            self.views[dtype] = view
        return view

    def length(self, dtype: DType) -> int:
        """Returns the number of elements of `dtype` in a row, without padding."""
        return self.size // dtype.itemsize

    def row_starts(self, length: int) -> Array:
        """
        Returns the index of the first element of each invocation's row, if a row has `length`
        elements.
        """
        assert self.batch is not None
        shape = self.batch.shape
        if self.rows == "workgroup":
            return (np.arange(shape[0]) * length)[:, None, None]
        return (np.arange(prod(shape)) * length).reshape(shape)


class Pointer:
    """A pointer `index * scale + base` bytes into each invocation's row of a memory."""

    __slots__ = ("base", "index", "memory", "scale")

    def __init__(self, memory: Memory, index: Array, scale: int, base: int = 0):
        self.memory = memory
        self.index = index
        self.scale = scale
        self.base = base

    def plus(self, index: Array, scale: int, base: int) -> Pointer:
        """Returns the pointer advanced by `index * scale + base` bytes."""
        index = index.astype(np.int64, copy=False)
        if self.scale == 0:
            return Pointer(self.memory, index, scale, self.base + base)
        if index.size == 1 and self.index.size > 1:
            base += int(index.item()) * scale
            return Pointer(self.memory, self.index, self.scale, self.base + base)
        if self.index.size == 1:
            base += int(self.index.item()) * self.scale
            return Pointer(self.memory, index, scale, self.base + base)
        context = gcd(self.scale, scale)
        total = self.index * (self.scale // context) + index * (scale // context)
        return Pointer(self.memory, total, context, self.base + base)

    def plus_bytes(self, count: int) -> Pointer:
        """Returns the pointer advanced by `count` bytes."""
        return Pointer(self.memory, self.index, self.scale, self.base + count)

    def items(self, size: int, mask: Mask = None) -> Array:
        """
        Returns the index, in its row, of the element of `size` bytes that is pointed to. Raises
        `InterpreterError` if an active lane's address is not a multiple of `size`.
        """
        if self.scale % size == 0 and self.base % size == 0:
            factor, offset = self.scale // size, self.base // size
            index = self.index if factor == 1 else self.index * factor
            return index + offset if offset else index
        address = self.index * self.scale + self.base
        rest = address % size != 0
        if (rest if mask is None else rest & mask).any():
            raise InterpreterError(
                f"a pointer into {self.memory.label or 'memory'} is not a multiple of {size} "
                "bytes, the size of its pointee",
                remedy="check the strides and offsets of the types",
            )
        return address // size

    def address(self) -> Array:
        """Returns the offset from the start of each row, in bytes."""
        return self.index * self.scale + self.base

    def merge(self, mask: Mask, old: Any) -> Pointer | Pointers:
        """Returns this pointer where the mask is set, otherwise `old`."""
        if old is None or old is self:
            return self
        if isinstance(old, Pointer) and old.memory is self.memory:
            return Pointer(self.memory, np.where(mask, self.address(), old.address()), 1)
        return Pointers.chosen(mask, self, old)


class Pointers:
    """A pointer to different memories in different lanes. `cases` are pairs (pointer, mask)."""

    __slots__ = ("cases",)

    def __init__(self, cases: Sequence[tuple[Pointer, Array]]):
        self.cases = cases

    @classmethod
    def chosen(cls, mask: Array, new: Pointer | Pointers, old: Pointer | Pointers) -> Pointers:
        """Returns a pointer that is `new` in the lanes of the mask and `old` in the other lanes."""
        by_memory: dict[int, tuple[Pointer, Array]] = {}
        for side, pointer in ((mask, new), (~mask, old)):
            for one, lanes in cases(pointer, side):
                before = by_memory.get(id(one.memory))
                if before is None:
                    by_memory[id(one.memory)] = one, lanes
                else:
                    total = np.where(lanes, one.address(), before[0].address())
                    by_memory[id(one.memory)] = Pointer(one.memory, total, 1), lanes | before[1]
        return cls(list(by_memory.values()))

    def plus(self, index: Array, scale: int, base: int) -> Pointers:
        """Returns the pointer advanced by `index * scale + base` bytes."""
        return Pointers([(pointer.plus(index, scale, base), m) for pointer, m in self.cases])

    def plus_bytes(self, count: int) -> Pointers:
        """Returns the pointer advanced by `count` bytes."""
        return Pointers([(pointer.plus_bytes(count), m) for pointer, m in self.cases])

    def merge(self, mask: Mask, old: Any) -> Pointers:
        """Returns this pointer where the mask is set, otherwise `old`."""
        return self if old is None or old is self else Pointers.chosen(mask, self, old)


def cases(pointer: Pointer | Pointers, mask: Mask) -> list[tuple[Pointer, Mask]]:
    """Splits a pointer by memory. Returns a pointer and a mask of active lanes for each memory."""
    if isinstance(pointer, Pointer):
        return [(pointer, mask)]
    active_cases = [(one, m if mask is None else m & mask) for one, m in pointer.cases]
    return [case for case in active_cases if case[1].any()] or active_cases[:1]


def by_case(
    pointer: Pointer | Pointers,
    mask: Mask,
    function: Callable[[Pointer, Mask], Any],
    merge: Callable[[Mask, Any, Any], Any] = np.where,
) -> Any:
    """
    Applies a function separately to each memory that a pointer refers to, and merges the results.
    """
    if isinstance(pointer, Pointer):
        return function(pointer, mask)
    (first, lanes), *others = cases(pointer, mask)
    result = function(first, lanes)
    for one, lanes in others:
        result = merge(lanes, function(one, lanes), result)
    return result


def chosen(pointers: Iterable[tuple[Pointer, Array]], rest: Array, other: Pointer) -> Any:
    """
    Joins pointers, each for the lanes of its mask. Returns `other` in the lanes of `rest` that no
    mask contains.
    """
    parts: list[tuple[Pointer, Array]] = []
    for pointer, lanes in pointers:
        if (lanes & rest).any():
            parts.append((pointer, lanes & rest))
            rest = rest & ~lanes
    if rest.any():
        parts.append((other, rest))
    return parts[0][0] if len(parts) == 1 else Pointers(parts)


def start_of(memory: Memory) -> Pointer:
    """Returns the pointer to a memory's first byte."""
    return Pointer(memory, np.zeros((1, 1, 1), np.int64), 0)


def check_items(
    memory: Memory, items: Array, width: int, length: int, what: str, mask: Mask = None
) -> None:
    """Raises `InterpreterError` if an active lane's element is beyond `length` elements."""
    if items.size and int(items.view(np.uint64).max()) > length - width:
        if mask is not None and not mask.any():
            return
        signed = items.reshape(-1)
        worst = int(signed[signed.view(np.uint64).argmax()])
        raise InterpreterError(
            f"{what} outside {memory.label or 'its memory'}: element {worst} of {length}",
            remedy="the program reads or writes out of bounds: check the index, or enlarge the "
            "buffer",
        )


class Access:
    """
    The elements accessed by a load or store of a tightly packed scalar, vector or array.

    If all addresses are multiples of the value's size, the value is moved as one element.
    Otherwise each of its `count` components is moved separately.
    """

    def __init__(self, pointer: Pointer, form: Plain, mask: Mask, what: str):
        memory = pointer.memory
        parts = prod(form.shape)
        whole = parts * form.dtype.itemsize
        # Several rows form one array of elements only if the element size divides a row.
        rest = 0 if memory.rows == "shared" else memory.data.shape[1] % whole
        packed = parts > 1 and not (pointer.scale % whole or pointer.base % whole or rest)
        self.count = 1 if packed else parts
        self.dtype: DType = np.dtype(f"V{whole}") if packed else raw_dtype(form.dtype)
        self.memory = memory
        self.form = form
        self.length = memory.length(self.dtype)
        self.lost: Array | None = None
        items = pointer.items(self.dtype.itemsize, mask)
        if memory.robust and self._reaches_outside(items, mask):
            self.lost, self.items = self._inside(pointer, mask)
            return
        items = self.settle(items, mask, what)
        self.items = items if self.count == 1 else items[..., None] + np.arange(self.count)

    def _reaches_outside(self, items: Array, mask: Mask) -> bool:
        outside = items.view(np.uint64) > self.length - self.count
        if self.length < self.count:
            outside = np.True_
        return bool((outside if mask is None else outside & mask).any())

    def _inside(self, pointer: Pointer, mask: Mask) -> tuple[Array, Array]:
        """
        Returns a mask of the components outside a robust memory, and the indices of all components.
        """
        self.count = prod(self.form.shape)
        self.dtype = raw_dtype(self.form.dtype)
        self.length = self.memory.length(self.dtype)
        items = pointer.items(self.dtype.itemsize, mask)
        if mask is not None:
            items = np.where(mask, items, 0)
        if self.count > 1:
            items = items[..., None] + np.arange(self.count)
        lost = items.view(np.uint64) >= self.length
        return lost, np.where(lost, 0, items)

    def settle(self, items: Array, mask: Mask, what: str) -> Array:
        """
        Checks element indices against the bounds. Returns them, with index 0 in inactive lanes.
        """
        if mask is not None:
            items = np.where(mask, items, 0)
        check_items(self.memory, items, self.count, self.length, what, mask)
        return items

    def in_rows(self) -> Array:
        """
        Returns the element indices counted from the start of the memory, instead of from the start
        of a row.
        """
        if self.memory.rows == "shared":
            return self.items
        starts = self.memory.row_starts(self.memory.view(self.dtype).shape[1])
        return self.items + (starts if self.count == 1 else starts[..., None])

    def give(self, gathered: Array) -> Array:
        """Converts gathered elements to a value of the accessed type."""
        form = self.form
        if not form.shape:
            return gathered.view(form.dtype)
        if self.count == 1:
            gathered = gathered[..., None]
        return gathered.view(form.dtype).reshape(*gathered.shape[:3], *form.shape)

    def take(self, value: Array) -> Array:
        """Converts a value of the accessed type to elements for `put`."""
        form = self.form
        if not form.shape:
            return value.view(self.dtype)
        flat = np.ascontiguousarray(value).reshape(*value.shape[:3], -1).view(self.dtype)
        return flat[..., 0] if self.count == 1 else flat

    def gather(self, view: Array) -> Array:
        """
        Returns the accessed elements of an array (rows, elements), which has the memory's values or
        its marks of undefined parts.
        """
        items = self.items
        if self.memory.rows == "workgroup" and items.shape[0] == 1:
            return view.take(items.reshape(-1), axis=1).reshape(view.shape[0], *items.shape[1:])
        if self.lost is not None and not view.size:
            return np.zeros(items.shape, view.dtype)
        return view.reshape(-1).take(self.in_rows())

    def load(self) -> Array:
        """Loads the value at each lane's address."""
        elements = self.gather(self.memory.view(self.dtype))
        if self.lost is not None:
            elements = np.where(self.lost, elements.dtype.type(0), elements)
        return self.give(elements)

    def store(self, value: Array, mask: Mask) -> None:
        """
        Stores the value at each active lane's address. If lanes have the same address, the last
        lane wins.
        """
        self.put(self.memory.view(self.dtype), self.take(value), mask)

    def put(self, view: Array, value: Array, mask: Mask) -> None:
        """
        Writes elements in active lanes to `view`, which is the memory or its marks of undefined
        parts.
        """
        items = self.in_rows()
        tail = items.shape[3:]
        lead = np.broadcast_shapes(items.shape[:3], value.shape[:3])
        if self.lost is not None:
            kept = ~np.broadcast_to(self.lost, items.shape)
            if mask is not None:
                kept = kept & mask.reshape(mask.shape + (1,) * len(tail))
            shape = np.broadcast_shapes(kept.shape, lead + tail)
            kept, items, value = (np.broadcast_to(a, shape) for a in (kept, items, value))
            view.reshape(-1)[items[kept]] = value[kept]
            return
        if mask is not None:
            lead = np.broadcast_shapes(lead, mask.shape)
            selected = np.broadcast_to(mask, lead)
            items = np.broadcast_to(items, lead + tail)[selected]
            value = np.broadcast_to(value, lead + tail)[selected]
        elif lead != items.shape[:3]:
            items = np.broadcast_to(items, lead + tail)
        view.reshape(-1)[items] = value


def load(pointer: Pointer, form: Plain, mask: Mask) -> Array:
    """Loads the tightly packed scalar, vector or array at each lane's address."""
    return Access(pointer, form, mask, "a load").load()


def store(pointer: Pointer, form: Plain, value: Array, mask: Mask) -> None:
    """Stores the value at each active lane's address."""
    Access(pointer, form, mask, "a store").store(value, mask)


def leaders(pointer: Pointer | Pointers, mask: Mask, axes: tuple[int, ...]) -> Pointer:
    """
    Returns the pointer of the first active lane along `axes`. An instruction that a whole scope
    executes together uses this pointer.
    """
    if isinstance(pointer, Pointers):
        raise InterpreterError(
            "the pointer of a cooperative access refers to several memories",
            remedy="branch on the selected memory, and access one memory in each branch",
        )
    index = pointer.index
    if all(index.shape[axis] == 1 for axis in axes):
        return pointer
    return Pointer(pointer.memory, first_active(index, mask, axes), pointer.scale, pointer.base)


def first_active(value: Array, mask: Mask, axes: tuple[int, ...]) -> Array:
    """Returns the value of the first active lane along `axes`, which must be in ascending order."""
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
    The memory locations of the matrices of a cooperative load or store.

    A line is a row or a column. `starts` is the index of each matrix's first element, `stride` the
    distance of its lines in elements, and `shape` is (lines, elements of a line).
    """

    def __init__(self, memory: Memory, starts: Array, stride: Array, shape: tuple[int, int]):
        self.memory = memory
        self.starts = starts
        self.stride = stride
        self.lines, self.width = shape

    def load(self, dtype: DType, mask: Mask) -> Array:
        """
        Loads the matrices as an array (workgroup, subgroup, line, element). The elements of
        inactive matrices are arbitrary.
        """
        memory = self.memory
        view = memory.view(raw_dtype(dtype))
        starts = self.starts
        if mask is not None:
            starts = np.where(mask.any(axis=2, keepdims=True), starts, 0)
        if memory.robust:
            items = self.items(starts)
            lost = items.view(np.uint64) >= memory.length(view.dtype)
            if lost.any():
                return self._load_inside(view, items, lost).view(dtype)
        if self.stride.size > 1:
            items = self.items(starts)
            check_items(memory, items, 1, memory.length(view.dtype), _LOAD, mask)
            if memory.rows == "workgroup":
                items = items + memory.row_starts(view.shape[1])[..., None]
            return view.reshape(-1).take(items).view(dtype)
        elements = self._in_pieces(dtype, memory.length(view.dtype), starts)
        if elements is not None:
            return elements
        windows = self._windows(view, starts, _LOAD)
        places = starts[..., 0]
        if memory.rows == "shared":
            elements = windows[0][places]
        elif places.shape[0] == 1:
            elements = windows[:, places[0]]
        else:
            elements = windows[np.arange(view.shape[0])[:, None], places]
        return elements.view(dtype)

    def store(self, dtype: DType, value: Array, mask: Mask) -> None:
        """
        Stores matrices, given as an array (workgroup, subgroup, line, element), one after the
        other.
        """
        memory = self.memory
        raw = raw_dtype(dtype)
        view = memory.view(raw)
        items = self.items(self.starts)
        value = value.view(raw)
        if mask is not None:
            chosen = mask.any(axis=2)
            shape = np.broadcast_shapes(chosen.shape, items.shape[:2], value.shape[:2])
            checked = np.broadcast_to(items, shape + items.shape[2:])
            checked = checked[np.broadcast_to(chosen, shape)]
        else:
            shape, chosen = np.broadcast_shapes(items.shape[:2], value.shape[:2]), None
            checked = items
        if not memory.robust:
            check_items(memory, checked, 1, memory.length(raw), "a cooperative store")
        if memory.rows == "workgroup":
            items = items + memory.row_starts(view.shape[1])[..., None]
            shape = np.broadcast_shapes(shape, items.shape[:2])
        items = np.broadcast_to(items, shape + items.shape[2:])
        value = np.broadcast_to(value, items.shape)
        if chosen is not None:
            chosen = np.broadcast_to(chosen, shape)
            items, value = items[chosen], value[chosen]
        if memory.robust:
            kept = items.view(np.uint64) < memory.length(raw)
            items, value = items[kept], value[kept]
        view.reshape(-1)[items] = value

    @staticmethod
    def _load_inside(view: Array, items: Array, lost: Array) -> Array:
        """Loads elements of a robust memory. Elements outside of it are 0."""
        if not view.size:
            return np.zeros(items.shape, view.dtype)
        elements = view.reshape(-1).take(np.where(lost, 0, items))
        return np.where(lost, view.dtype.type(0), elements)

    def items(self, starts: Array) -> Array:
        """
        Returns the index of every element of the matrices that begin at `starts`, as an array
        (workgroup, subgroup, line, element).
        """
        lines = np.arange(self.lines)[:, None] * self.stride.reshape(*self.stride.shape[:2], 1, 1)
        return starts[..., None] + (lines + np.arange(self.width))

    def _in_pieces(self, dtype: DType, length: int, starts: Array) -> Array | None:
        """
        Loads matrices in blocks of several components. Returns None if the matrices are not aligned
        to blocks of any size.
        """
        width, stride, memory = self.width, int(self.stride.item()), self.memory
        common = gcd(width, stride) * dtype.itemsize
        for size in PIECES:
            per = size // dtype.itemsize
            if common % size == 0 and not (starts % per).any():
                break
        else:
            return None
        check_items(memory, starts, (self.lines - 1) * stride + width, length, _LOAD)
        view = memory.view(np.dtype(f"V{size}"))
        within = np.arange(self.lines)[:, None] * (stride // per) + np.arange(width // per)
        items = starts[..., None] // per + within
        if memory.rows == "shared":
            pieces = view[0].take(items)
        elif items.shape[0] == 1:
            pieces = view.take(items[0], axis=1)
        else:
            rows = np.arange(view.shape[0]).reshape(-1, 1, 1, 1) * view.shape[1]
            pieces = view.reshape(-1).take(items + rows)
        return pieces.view(dtype)

    def _windows(self, view: Array, starts: Array, what: str) -> Array:
        """
        Returns a view with a tile for each element of a row at which the tile may begin. Its axes
        are (row, first element, line, element of the line).
        """
        stride = int(self.stride.item())
        extent = (self.lines - 1) * stride + self.width
        check_items(self.memory, starts, extent, self.memory.length(view.dtype), what)
        size = view.itemsize
        shape = (view.shape[0], view.shape[1] - extent + 1, self.lines, self.width)
        return as_strided(
            view, shape, (view.strides[0], size, stride * size, size), writeable=False
        )
