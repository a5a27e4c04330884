"""Checks variables, access chains, loads, stores and copies."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_spirv.dialects.spirv import memory as ops
from xdsl_spirv.dialects.spirv import untyped_pointer as untyped
from xdsl_spirv.dialects.spirv.enums import StorageClass
from xdsl_spirv.dialects.spirv.glsl_forms import GLFrexpOp, GLModfOp, GLPointerForm
from xdsl_spirv.dialects.spirv.types import PointerType
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import PlainAccess, check_aligned_operand
from xdsl_spirv.interpreter.checks.shadow import (
    UNWRITTEN,
    Shadow,
    filled,
    largest,
    normal,
    shadow_form,
    whole,
)
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Composite, Mask, within
from xdsl_spirv.interpreter.layout import Layout, loader, storer
from xdsl_spirv.interpreter.memory import Pointer, Pointers
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.pointers import has_bytes, pointer_type
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.source.locals import read_by
from xdsl_spirv.interpreter.spirv.glsl import PARTS
from xdsl_spirv.interpreter.spirv.memory import (
    RESOURCES,
    accessed,
    copied_types,
    lengths_of,
    load_variable,
    placed,
    store_variable,
)
from xdsl_spirv.interpreter.variables import VariablePointer, read_part, write_part

BUFFERS = (StorageClass.StorageBuffer, StorageClass.Uniform, StorageClass.PhysicalStorageBuffer)
"""Storage classes that other invocations can read. Values stored there must be defined."""


@checked(ops.VariableOp)
def variable(op: ops.VariableOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Marks all parts of a new variable as undefined if it has no initializer."""
    form = shadow_form(compiler.context.form(pointer_type(op.result).pointee))
    undefined = compiler.checker.checks.undefined

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        pointer = function(batch, *values)
        if values:
            pointer.variable.shadow = shadows[0]
        elif undefined:
            pointer.variable.shadow = filled(form, UNWRITTEN)
        return pointer, None

    return call


def address(compiler: CheckedCompiler, op: Operation, shadow: Shadow, mask: Mask) -> Array | None:
    """Reports undefined addresses. Returns the mask of lanes with an undefined address, or None."""
    if shadow is None:
        return None
    compiler.checker.find_undefined(op, "the address", shadow, mask)
    return np.asarray(shadow) != 0


class Reader:
    """Reads a value and its mask of undefined parts from memory or from a variable."""

    def __init__(
        self, op: Operation, pointer: SSAValue, type: PointerType, compiler: CheckedCompiler
    ):
        self.op = op
        self.context: Context = compiler.context
        self.checker = compiler.checker
        self.bytes = has_bytes(type)
        if self.bytes:
            layout = Layout(self.context)
            self.plain = PlainAccess(self.checker, op)
            lying = placed(pointer, type.pointee, self.context)
            self.read = loader(lying, layout, self.plain.load)
            self.assemble = loader(lying, layout, self.plain.loaded)
            self.parts = isinstance(self.context.form(type.pointee), Composite)

    def __call__(
        self, batch: Batch, pointer: Any, astray: Array | None = None
    ) -> tuple[Any, Shadow]:
        """
        Returns the value and its mask of undefined parts. `astray` is the mask of lanes with an
        undefined address.
        """
        if self.bytes:
            self.plain.astray = astray
            shadows = self.plain.shadows
            shadows.clear()
            value = self.read(pointer, batch.mask)
            if all(shadow is None for shadow, _ in shadows):
                return value, None
            if len(shadows) == 1 and not self.parts:
                return value, shadows[0][0]
            return value, normal(self.assemble(pointer, batch.mask))
        value = load_variable(self.context, batch, pointer)
        shadow = pointer.variable.shadow
        if shadow is None:
            return value, None
        form = shadow_form(pointer.variable.form)
        mapping = self.context.options.component_mapping
        return value, self._named(read_part(form, mapping, batch, shadow, pointer.path))

    def _named(self, shadow: Any) -> Shadow:
        """
        Changes a mask of undefined parts so that it names this instruction as the cause of each
        part.
        """
        if normal(shadow) is None:
            return None
        name = read_by(self.op)
        variable = f"`{name}`" if name else "a variable"
        message = f"{variable} was read before it was set"
        number = self.checker.origin(self.op, "UNDEF-01", message)
        return _replace_origin(shadow, number)


def _replace_origin(shadow: Any, number: int) -> Any:
    if isinstance(shadow, tuple):
        return tuple(_replace_origin(part, number) for part in shadow)  # pyright: ignore
    octets = shadow.astype(np.uint8, copy=False)
    return np.where(octets == UNWRITTEN, np.uint8(number), octets)


def label_of(pointer: Pointer | Pointers) -> str:
    """Returns the name of the memory that a pointer refers to."""
    one = pointer if isinstance(pointer, Pointer) else pointer.cases[0][0]
    return one.memory.label or "a buffer"


class Writer:
    """Writes a value and its mask of undefined parts to memory or to a variable."""

    def __init__(
        self, op: Operation, pointer: SSAValue, type: PointerType, compiler: CheckedCompiler
    ):
        self.op = op
        self.context: Context = compiler.context
        self.checker = compiler.checker
        self.bytes = has_bytes(type)
        self.form = self.context.form(type.pointee)
        self.visible = type.storage_class.data in BUFFERS
        if self.bytes:
            layout = Layout(self.context)
            self.plain = PlainAccess(self.checker, op)
            lying = placed(pointer, type.pointee, self.context)
            self.write = storer(lying, layout, self.plain.store)
            self.collect = storer(lying, layout, self.plain.to_store)

    def __call__(
        self, batch: Batch, pointer: Any, value: Any, shadow: Shadow, astray: Array | None = None
    ) -> None:
        """
        Writes the value, except in the lanes of the mask `astray`. Their address is undefined.
        """
        if self.bytes:
            self.plain.astray = astray
            self.plain.shadows.clear()
            if shadow is not None:
                if self.visible:
                    what = f"the value stored to {label_of(pointer)}"
                    self.checker.find_undefined(self.op, what, shadow, batch.mask, self.form)
                else:
                    self.collect(pointer, shadow, batch.mask)
            self.write(pointer, value, batch.mask)
            return
        store_variable(self.context, batch, pointer, value)
        self._keep(batch, pointer, shadow)

    def _keep(self, batch: Batch, pointer: VariablePointer, shadow: Shadow) -> None:
        holder = pointer.variable
        if holder.shadow is None and shadow is None:
            return
        form = shadow_form(holder.form)
        new = whole(shadow, shadow_form(self.form))
        old = whole(holder.shadow, form)
        mapping = self.context.options.component_mapping
        holder.shadow = normal(write_part(form, mapping, batch, old, pointer.path, new, batch.mask))


@checked(ops.LoadOp)
def load(op: ops.LoadOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a load: bounds, alignment, unwritten memory, and races."""
    if isinstance(op.results[0].type, RESOURCES):
        return lambda batch, values, shadows: (values[0], shadows[0])
    reader = Reader(op, op.pointer, accessed(op.pointer, op.results[0].type), compiler)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        astray = address(compiler, op, shadows[0], batch.mask)
        if reader.bytes:
            check_aligned_operand(compiler.checker, op, values[0], "alignment")
        return reader(batch, values[0], astray)

    return call


@checked(GLModfOp, GLFrexpOp)
def parts_by_pointer(op: GLPointerForm, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks an instruction that splits a float and stores the second part through a pointer."""
    pointee = pointer_type(op.pointer).pointee
    writer = Writer(op, op.pointer, accessed(op.pointer, pointee), compiler)
    split = PARTS[op.__class__]

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        astray = address(compiler, op, shadows[1], batch.mask)
        first, second = split(values[0])
        writer(batch, values[1], second, shadows[0], astray)
        return first, shadows[0]

    return call


@checked(ops.StoreOp)
def store(op: ops.StoreOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a store: bounds, alignment, a defined value, and races."""
    writer = Writer(op, op.pointer, accessed(op.pointer, op.object.type), compiler)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        astray = address(compiler, op, shadows[0], batch.mask)
        if writer.bytes:
            check_aligned_operand(compiler.checker, op, values[0], "alignment")
        writer(batch, values[0], values[1], shadows[1], astray)
        return None, None

    return call


@checked(ops.CopyMemoryOp)
def copy_memory(op: ops.CopyMemoryOp, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a memory copy as a load and a store."""
    target, source = copied_types(op)
    reader = Reader(op, op.source, source, compiler)
    writer = Writer(op, op.target, target, compiler)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        to, of = (address(compiler, op, shadow, batch.mask) for shadow in shadows)
        value, shadow = reader(batch, values[1], of)
        writer(batch, values[0], value, shadow, to)
        return None, None

    return call


@checked(
    ops.AccessChainOp,
    ops.InBoundsAccessChainOp,
    ops.PtrAccessChainOp,
    ops.InBoundsPtrAccessChainOp,
    untyped.UntypedAccessChainOp,
    untyped.UntypedInBoundsAccessChainOp,
    untyped.UntypedPtrAccessChainOp,
    untyped.UntypedInBoundsPtrAccessChainOp,
)
def access_chain(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks an access chain's indices. A use of an out-of-bounds pointer is reported later."""
    checker, context = compiler.checker, compiler.context
    first = len(op.operands) - len(op.indexes)
    base = op.properties.get("base_type")
    base = pointer_type(op.base).pointee if base is None else base
    lengths = lengths_of(base, op.indexes, context)
    limits = [(first + n, count, rule) for n, count, rule in lengths if checker.checks.bounds]

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        parts = [shadow for shadow in shadows if shadow is not None]
        robust = isinstance(values[0], Pointer) and values[0].memory.robust
        for place, count, rule in limits:
            if robust and rule == "BOUNDS-02":
                continue
            index = values[place]
            outside = (index < 0) | (index >= count)
            if not outside.any():
                continue
            values = [*values]
            values[place] = np.clip(index, 0, count - 1)
            outside = within(batch.mask, outside)
            if outside.any():
                parts.append(_outside(checker, op, count, rule, outside, index))
        pointer = function(*values)
        return pointer, normal(largest(parts)) if parts else None

    return call


def _outside(
    checker: Any, op: Operation, count: int, rule: str, outside: Array, index: Array
) -> Array:
    what = "a vector" if rule == "BOUNDS-03" else "an array"
    number = checker.origin(op, rule, f"an index outside {what} of {count}")
    checker.example(number, outside, {"index": index})
    return np.where(outside, np.uint8(number), np.uint8(0))
