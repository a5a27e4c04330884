"""
Manages the buffers of a launch as one address space.

The physical address of a buffer is the address of its numpy array in this process
(`array.ctypes.data`), which a caller can write into other buffers or push constants. Other
addresses are invalid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from xdsl_spirv.interpreter.errors import InterpreterError
from xdsl_spirv.interpreter.forms import Mask
from xdsl_spirv.interpreter.memory import Memory, Pointer, Pointers, by_case, chosen, start_of
from xdsl_spirv.interpreter.numbers import I64, Array

T = TypeVar("T")

Place: TypeAlias = tuple[int, ...]
"""(descriptor set, binding) of a buffer, and its index in an array of buffers."""


def nothing() -> Memory:
    """Returns the memory of null and invalid pointers, which has no bytes."""
    return Memory(np.zeros((1, 0), np.uint8), label="no buffer")


def copy_buffers(buffers: Mapping[Place, Array]) -> dict[Place, Array]:
    """
    Copies the buffers. Where C-contiguous originals share bytes, their copies share bytes, too.
    """
    copies = {place: array.copy() for place, array in buffers.items()}
    spans = (
        (array.ctypes.data, array.ctypes.data + array.nbytes, place)
        for place, array in buffers.items()
        if array.flags.c_contiguous and array.nbytes
    )
    groups = overlapping(spans)
    for start, end, places in (group for group in groups if len(group[2]) > 1):
        octets = np.empty(end - start, np.uint8)
        for place in places:
            array = buffers[place]
            offset = array.ctypes.data - start
            octets[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
            copies[place] = np.ndarray(array.shape, array.dtype, octets, offset)
    return copies


def overlapping(spans: Iterable[tuple[int, int, T]]) -> list[tuple[int, int, list[T]]]:
    """
    Merges address ranges that overlap.

    Each range of `spans` has its first address, its end (exclusive) and its owner. A merged range
    has a list of all owners.
    """
    groups: list[tuple[int, int, list[T]]] = []
    for start, end, owner in sorted(spans, key=lambda span: span[:2]):
        if groups and start < groups[-1][1]:
            first, last, owners = groups[-1]
            groups[-1] = first, max(last, end), [*owners, owner]
        else:
            groups.append((start, end, [owner]))
    return groups


def null_pointer() -> Pointer:
    """Returns the pointer with physical address 0."""
    return Pointer(nothing(), np.zeros((1, 1, 1), np.int64), 1)


class Memories:
    """
    The buffers of a launch by (descriptor set, binding). Several variables may have the same
    buffer.
    """

    def __init__(self) -> None:
        self._by_place: dict[Place, Memory] = {}
        self._nothing = nothing()

    def bind(
        self,
        buffers: Mapping[Place, Array],
        originals: Mapping[Place, Array],
    ) -> None:
        """
        Creates a memory for every buffer, and discards memories of an earlier call.

        Buffers without a variable can be accessed through their address. If `buffers` are copies,
        programs see the addresses of `originals`.
        """
        self._by_place.clear()
        for place, array in buffers.items():
            if array.flags.c_contiguous:
                label = f"the buffer at set {place[0]}, binding {place[1]}"
                memory = self._by_place[place] = Memory.of_array(array, label)
                memory.address = originals[place].ctypes.data

    def buffer(self, place: Place, label: str) -> Memory:
        """Returns the buffer at `place`. Messages call it `label`."""
        memory = self._by_place[place]
        memory.label = label
        memory.names.add(label.partition("@")[2].partition(" ")[0])
        return memory

    def all(self) -> Iterable[Memory]:
        """Returns every bound buffer."""
        return self._by_place.values()

    def at(self, addresses: Array, mask: Mask) -> Pointer | Pointers:
        """Converts physical addresses, one for each lane, to a pointer."""
        rest = np.ones((1, 1, 1), np.bool_) if mask is None else mask
        places = (
            (Pointer(m, addresses - m.address, 1), (addresses >= m.address) & (addresses < m.end))
            for m in self._by_place.values()
        )
        return chosen(places, rest, Pointer(self._nothing, addresses, 1))


class Descriptors:
    """An array of buffers bound to one variable, by index."""

    def __init__(self, memories: Mapping[int, Memory], label: str):
        self.memories = memories
        self.missing = Memory(np.zeros((1, 0), np.uint8), label=f"the buffers of {label}")

    def at(self, index: Array) -> Pointer | Pointers:
        """Returns a pointer to a buffer. Each lane selects it by `index`."""
        bound = ((start_of(memory), index == n) for n, memory in self.memories.items())
        return chosen(bound, np.ones(index.shape, np.bool_), start_of(self.missing))


def physical(pointer: Any) -> Array:
    """
    Returns the physical address of each lane. The pointer must refer to memory that has bytes.
    """
    if isinstance(pointer, Pointer):
        memory = pointer.memory
        if not memory.data.shape[1]:
            return pointer.address()
        start = memory.address
        if memory.rows != "shared":
            return pointer.address() + (start + memory.row_starts(memory.data.shape[1]))
        return (pointer.address() + start).astype(I64, copy=False)
    if isinstance(pointer, Pointers):
        return by_case(pointer, None, lambda one, lanes: physical(one))
    raise InterpreterError(
        "a pointer into a variable without bytes has no address",
        remedy="take the address of a buffer or of Workgroup memory instead",
    )
