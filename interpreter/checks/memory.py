"""
Checks loads and stores: bounds, alignment, overlapping stores, undefined bytes, and races.

Memory that starts undefined (Workgroup memory) has one shadow byte for each of its bytes; buffers
start defined. The shadow is itself a memory, read and written by the same accesses.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.checks.accesses import Access
from xdsl_spirv.interpreter.checks.checker import Checker
from xdsl_spirv.interpreter.checks.history import History
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN, Shadow, normal
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import Array


def aligned(checker: Checker, op: Operation, pointer: Pointer, size: int, what: str) -> Pointer:
    """
    Rounds a pointer's addresses down to multiples of `size`. Reports addresses that are not
    multiples.
    """
    if pointer.scale % size == 0 and pointer.base % size == 0:
        return pointer
    address = pointer.address()
    wrong = checker.find_active(
        "ALIGN-01",
        op,
        f"{what} has an address that is not a multiple of {size} bytes",
        address % size != 0,
        checker.batch.mask,
        values={"address": address},
        remedy="check the offsets and strides of the types, and the indexes",
    )
    return Pointer(pointer.memory, address // size, size) if wrong else pointer


def check_aligned_operand(
    checker: Checker, op: Any, pointer: Pointer | memory.Pointers, name: str
) -> None:
    """Checks every address of a pointer against the memory operand Aligned."""
    if isinstance(pointer, memory.Pointers):
        for one, _ in pointer.cases:
            check_aligned_operand(checker, op, one, name)
        return
    attribute = op.properties.get(name)
    if attribute is None or not checker.checks.alignment:
        return
    size = attribute.value.data
    if pointer.scale % size == 0 and pointer.base % size == 0:
        return
    address = pointer.address()
    checker.find_active(
        "ALIGN-02",
        op,
        f"the memory operand says Aligned {size}, but the address is not a multiple of {size}",
        address % size != 0,
        checker.batch.mask,
        values={"address": address},
        remedy="state an alignment that all addresses have",
    )


class CheckedAccess(memory.Access):
    """Access that reports lanes with an address out of bounds, and does not execute them."""

    def __init__(
        self, checker: Checker, op: Operation, pointer: Pointer, form: Plain, mask: Mask, what: str
    ):
        self.checker = checker
        self.op = op
        self.outside: Array | None = None
        pointer = aligned(checker, op, pointer, form.dtype.itemsize, what)
        super().__init__(pointer, form, mask, what)

    def settle(self, items: Array, mask: Mask, what: str) -> Array:
        """Returns the element indices. Lanes that are inactive or out of bounds get index 0."""
        if not self.checker.checks.bounds:
            return super().settle(items, mask, what)
        if mask is not None:
            items = np.where(mask, items, 0)
        limit = self.length - self.count
        if items.size and int(items.view(np.uint64).max()) > limit:
            outside = self.outside = items.view(np.uint64) > limit
            self.checker.find(
                "BOUNDS-01",
                self.op,
                f"{what} outside {self.memory.label or 'its memory'}",
                where=self.outside,
                values={
                    f"element of {self.dtype.itemsize} bytes": items,
                    "elements there are": np.full((1, 1, 1), self.length),
                },
                notes=lambda: self._named(items, outside),
                remedy="check the index against the number of elements, or make the buffer larger",
            )
            if self.memory.view(self.dtype).shape[1] < self.count:
                return super().settle(items, mask, what)
            items = np.where(outside, 0, items)
        return items

    def _named(self, items: Array, outside: Array) -> list[str]:
        number = int(np.broadcast_to(items, outside.shape)[outside][0])
        name = self.checker.part(self.memory, number * self.dtype.itemsize) if number >= 0 else ""
        return [f"the first element is `{name}`"] if name else []

    def note(
        self, mask: Mask, *, write: bool, atomic: bool = False, value: Array | None = None
    ) -> tuple[History, Access] | None:
        """
        Records an access for the race check. `value` is the value that a store will write.

        Returns the memory's history and the access, or None if the memory cannot have races.
        """
        order = self.checker.races
        if order is None:
            return None
        granule = self.dtype.itemsize
        history = self.checker.shadow_of(self.memory).history(order.histories, granule)
        if history is None:
            return None
        items = self.items
        if self.outside is not None:
            mask = within(mask, ~self.outside)
        if self.lost is not None:
            items, some = self._inside_only(items, self.lost)
            mask = within(mask, some)
        access = Access(
            self.op,
            items,
            granule,
            mask,
            write=write,
            atomic=atomic,
        )
        if value is not None:
            access.new = lambda: self.take(value)
            access.old = lambda: self.gather(self.memory.view(self.dtype))
        order.note(history, access)
        return history, access

    @staticmethod
    def _inside_only(items: Array, lost: Array) -> tuple[Array, Array]:
        """
        Replaces out-of-bounds elements by in-bounds elements of the same lane. Also returns a mask
        of the lanes that have an in-bounds element.
        """
        if items.ndim == 3:
            return items, ~lost
        some = ~lost.all(axis=3)
        first = np.take_along_axis(items, lost.argmin(axis=3)[..., None], axis=3)
        return np.where(lost, first, items), some


class PlainAccess:
    """Checked loads and stores of scalars, vectors and arrays of these."""

    def __init__(self, checker: Checker, op: Operation, atomic: bool = False):
        self.checker = checker
        self.op = op
        self.atomic = atomic
        self.name = f"an access by {op.name}"
        self.shadows: list[Any] = []
        self.astray: Array | None = None
        """Mask of the lanes whose address is undefined."""

    def placed(self, mask: Mask) -> Mask:
        """Returns the mask of active lanes whose address is defined."""
        return mask if self.astray is None else within(mask, ~self.astray)

    def load(self, pointer: Pointer, form: Plain, mask: Mask) -> Array:
        """
        Loads the value, which is 0 in lanes out of bounds. Appends its mask of undefined parts to
        `shadows`.
        """
        checker = self.checker
        access = CheckedAccess(checker, self.op, pointer, form, mask, "a load")
        value = access.load()
        access.note(self.placed(mask), write=False, atomic=self.atomic)
        shadow = self.read_shadow(access, mask)
        outside = access.outside
        if outside is not None:
            tail = (1,) * len(form.shape)
            value = np.where(outside.reshape(outside.shape + tail), 0, value).astype(value.dtype)
            if checker.checks.undefined:
                number = checker.origin(self.op, "UNDEF-07", "a load outside of its memory")
                lost = np.where(outside, np.uint8(number), np.uint8(0))
                lost = np.broadcast_to(
                    lost.reshape(lost.shape + tail), lost.shape + tuple(form.shape)
                )
                shadow = lost if shadow is None else np.maximum(shadow, lost)
        self.shadows.append((shadow, value.shape))
        return value

    def loaded(self, pointer: Pointer, form: Plain, mask: Mask) -> Array:
        """
        Returns the mask of undefined parts that the matching `load` recorded. Replaces `load` when
        an instruction runs on masks.
        """
        shadow, shape = self.shadows.pop(0)
        return np.broadcast_to(np.uint8(0) if shadow is None else shadow, shape)

    def to_store(self, pointer: Pointer, form: Plain, shadow: Array, mask: Mask) -> None:
        """
        Records the mask of undefined parts of the stored value. Replaces `store` when an
        instruction runs on masks.
        """
        self.shadows.append(shadow)

    def read_shadow(self, access: CheckedAccess, mask: Mask) -> Shadow:
        """Returns the marks of undefined bytes in the memory that an access reads."""
        count = access.items.size * access.dtype.itemsize
        undefined = self.checker.shadow_of(access.memory).to_read(count)
        if undefined is None:
            return None
        octets = np.ascontiguousarray(access.gather(undefined.view(access.dtype)))
        octets = octets.view(np.uint8)
        if not octets.any():
            return None
        form = access.form
        lead = access.items.shape[:3]
        if access.memory.rows == "workgroup" and lead[0] == 1:
            lead = (access.memory.data.shape[0], *lead[1:])
        elif access.memory.rows != "shared":
            lead = np.broadcast_shapes(lead, (access.memory.data.shape[0], 1, 1))
        parts = octets.reshape(*lead, *form.shape, form.dtype.itemsize).max(axis=-1)
        if mask is not None:
            parts = np.where(mask.reshape(mask.shape + (1,) * len(form.shape)), parts, 0)
        number = self.checker.origin(
            self.op, "UNDEF-01", f"{access.memory.label or 'memory'} was read before it was written"
        )
        parts = np.where(parts == UNWRITTEN, np.uint8(number), parts)
        return normal(parts.astype(np.uint8))

    def store(self, pointer: Pointer, form: Plain, value: Array, mask: Mask) -> None:
        """
        Stores the value in active lanes within bounds. Takes its mask of undefined parts from
        `shadows`.
        """
        checker = self.checker
        mask = self.placed(mask)
        access = CheckedAccess(checker, self.op, pointer, form, mask, "a store")
        noted = access.note(mask, write=True, atomic=self.atomic, value=value)
        if access.outside is not None:
            mask = within(mask, ~access.outside)
        access.store(value, mask)
        if checker.checks.overlap and not self.atomic and not (noted and noted[1].apart):
            self._check_overlap(access, value, mask)
        self.write_shadow(access, self.shadows.pop(0) if self.shadows else None, mask)

    def write_shadow(self, access: CheckedAccess, shadow: Shadow, mask: Mask) -> None:
        """Marks the bytes that an access writes as defined or undefined, by `shadow`."""
        undefined = self.checker.shadow_of(access.memory).to_store(shadow is None)
        if undefined is None:
            return
        form = access.form
        if shadow is None:
            octets = np.zeros((1, 1, 1) if access.count == 1 else (1, 1, 1, 1), access.dtype)
        else:
            wide = np.repeat(shadow[..., None], form.dtype.itemsize, axis=-1)
            octets = np.ascontiguousarray(wide.reshape(*shadow.shape[:3], -1)).view(access.dtype)
            octets = octets[..., 0] if access.count == 1 else octets
        access.put(undefined.view(access.dtype), octets, mask)

    def _check_overlap(self, access: CheckedAccess, value: Array, mask: Mask) -> None:
        """Reports a store in which two lanes write the same location, so that a value is lost."""
        if access.items.shape[2] == 1 and value.shape[2] == 1:
            return
        stored = access.gather(access.memory.view(access.dtype))
        raw = access.take(value)
        different = stored != raw if stored.dtype.kind != "V" else _bytes_differ(stored, raw)
        if access.lost is not None:
            different = different & ~access.lost
        if different.ndim > 3:
            different = different.any(axis=3)
        self.checker.find_active(
            "OVERLAP-01",
            self.op,
            f"several invocations write one location of {access.memory.label or 'memory'} with "
            "different values",
            different,
            mask,
            values={"element": access.items, "value": value},
            remedy="let one invocation write each location, or use an atomic",
        )


def _bytes_differ(a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    x, y = (np.ascontiguousarray(v).view(np.uint8).reshape(*v.shape, -1) for v in (a, b))
    return (x != y).any(axis=-1)


def step_of(pointer: Pointer, *strides: int) -> int:
    """Returns a common divisor of a pointer's addresses and strides, in bytes."""
    step = gcd(pointer.base, *strides)
    if pointer.index.size == 1:
        return gcd(step, int(pointer.index.item()) * pointer.scale) or 1
    return gcd(step, pointer.scale) or 1
