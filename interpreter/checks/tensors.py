"""Checks cooperative loads and stores with a tensor layout, where each component has an address."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_matrix_tensor as ops
from xdsl_spirv.interpreter import memory
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.accesses import Access
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.scopes import full_scope, uniform
from xdsl_spirv.interpreter.checks.shadow import UNWRITTEN, Shadow, normal
from xdsl_spirv.interpreter.checks.variables import BUFFERS, address
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Memory, Pointer
from xdsl_spirv.interpreter.numbers import Array, raw_dtype
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.tensor import TensorAccess


class Components:
    """Loads and stores components of matrices. Checks bounds, undefined values and races."""

    def __init__(self, op: Any, compiler: CheckedCompiler, store: bool):
        self.op = op
        self.checker = compiler.checker
        self.writes = store
        self.access = TensorAccess(op, compiler.context, self.load, self.store)
        self.form = self.access.form
        self.shadow: Shadow = None

    def check_operands(self, batch: Batch, values: list[Any]) -> None:
        """Checks that the whole scope is active, and that the operands are uniform (CM-27)."""
        if not self.checker.checks.rules:
            return
        full_scope(self.checker, self.op, self.form)
        uniform(self.checker, self.op, "CM-27", "the pointer", values[0], self.form)
        for name, state in zip(("layout", "view"), values[2:], strict=False):
            for field in fields(state):
                for number in getattr(state, field.name):
                    what = f"the tensor {name}'s {field.name}"
                    uniform(self.checker, self.op, "CM-27", what, number, self.form)

    def _inside(self, place: Pointer, form: Plain, mask: Mask) -> Array:
        """
        Returns a mask of the components in bounds. Reports the components out of bounds, unless the
        memory is robust.
        """
        length = place.memory.length(raw_dtype(form.dtype))
        items = place.items(form.dtype.itemsize)
        outside = (items.view(np.uint64) >= length) & mask
        if place.memory.robust:
            return mask & ~outside
        if outside.any() and self.checker.checks.bounds:
            self.checker.find(
                "BOUNDS-04",
                self.op,
                f"a component of a tensor outside {place.memory.label or 'its memory'}",
                where=outside.any(axis=2, keepdims=True),
                values={"elements there are": np.full((1, 1, 1), length)},
                remedy="check the layout's dimensions and strides, or give it a clamp mode",
            )
            return mask & ~outside
        return mask

    def _note(self, place: Pointer, form: Plain, mask: Array) -> None:
        """Records the access to the components of `mask` for the race check."""
        order = self.checker.races
        if order is None:
            return
        size = form.dtype.itemsize
        history = self.checker.shadow_of(place.memory).history(order.histories, size)
        some = mask.any(axis=2, keepdims=True)
        if history is None or not some.any():
            return
        items = place.items(size)
        lead = np.broadcast_shapes(items.shape, mask.shape)
        items, mask = np.broadcast_to(items, lead), np.broadcast_to(mask, lead)
        first = np.take_along_axis(items, mask.argmax(axis=2)[..., None], axis=2)
        items = np.where(mask, items, first)[:, :, None, :]
        outer = self.checker.batch.mask
        lanes = within(outer, some)
        order.note(
            history,
            Access(
                self.op,
                items,
                size,
                lanes,
                write=self.writes,
                scope=self.form.scope,
            ),
        )

    def load(self, place: Pointer, form: Plain, mask: Mask) -> Array:
        """Loads the components, and saves the mask of their undefined parts in `self.shadow`."""
        asked, mask = mask, self._inside(place, form, mask)
        components = memory.load(place, form, asked if place.memory.robust else mask)
        self._note(place, form, mask)
        self.shadow = None
        count = mask.size * form.dtype.itemsize
        undefined = self.checker.shadow_of(place.memory).to_read(count)
        if undefined is not None:
            octets = Plain(np.dtype(np.uint8), (form.dtype.itemsize,))
            parts = memory.load(_same(place, undefined), octets, mask).max(axis=3)
            if (parts * mask).any():
                message = f"{place.memory.label or 'memory'} was read before it was written"
                number = self.checker.origin(self.op, "UNDEF-01", message)
                parts = np.where(parts == UNWRITTEN, np.uint8(number), parts)
                self.shadow = np.where(mask, parts, np.uint8(0))
        return components

    def store(self, place: Pointer, form: Plain, value: Array, mask: Mask) -> None:
        """Stores the components, and the mask of their undefined parts."""
        mask = self._inside(place, form, mask)
        self._note(place, form, mask)
        memory.store(place, form, value, mask)
        undefined = self.checker.shadow_of(place.memory).to_store(self.shadow is None)
        if undefined is not None:
            flat = np.uint8(0) if self.shadow is None else self.shadow.reshape(*value.shape)
            size = form.dtype.itemsize
            octets = np.repeat(np.broadcast_to(flat, value.shape)[..., None], size, axis=3)
            memory.store(_same(place, undefined), Plain(octets.dtype, (size,)), octets, mask)


def _same(place: Pointer, other: Memory) -> Pointer:
    return Pointer(other, place.index, place.scale, place.base)


@checked(ops.CooperativeMatrixLoadTensorOp)
def load(
    op: ops.CooperativeMatrixLoadTensorOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Checks a load from a tensor. Components that a decode function computes count as defined."""
    components = Components(op, compiler, store=False)
    access, form = components.access, components.form

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        components.check_operands(batch, values)
        address(compiler, op, shadows[0], batch.mask)
        components.shadow = None
        if op.decode_func is not None:
            return function(batch, *values), None
        matrix = access.load(batch, *values)
        shape = (*matrix.shape[:2], form.rows, form.columns)
        loaded = components.shadow
        if loaded is None and shadows[1] is None:
            return matrix, None
        own = np.uint8(0) if loaded is None else loaded
        own = np.broadcast_to(own, (*matrix.shape[:2], form.rows * form.columns)).reshape(shape)
        if shadows[1] is not None:
            clipped = access.addressing.where(batch, *_states(values)).clipped
            clipped = np.broadcast_to(clipped, (*matrix.shape[:2], own[0, 0].size)).reshape(shape)
            own = np.where(clipped, shadows[1], own)
        return matrix, normal(own)

    return call


def _states(values: list[Any]) -> tuple[Any, Any]:
    return values[2], values[3] if len(values) > 3 else None


@checked(ops.CooperativeMatrixStoreTensorOp)
def store(
    op: ops.CooperativeMatrixStoreTensorOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Checks a store to a tensor. Values stored to a buffer must be defined."""
    components = Components(op, compiler, store=True)
    visible = op.pointer.type.storage_class.data in BUFFERS  # pyright: ignore

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        components.check_operands(batch, values)
        address(compiler, op, shadows[0], batch.mask)
        if visible:
            compiler.checker.find_undefined(
                op, "the matrix stored", shadows[1], batch.mask, components.form
            )
        components.shadow = None if visible else shadows[1]
        components.access.store(batch, *values)
        return None, None

    return call
