"""Checks atomic instructions: bounds, alignment, undefined addresses and operands, and races."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import atomic as ops
from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.checker import Checker
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import CheckedAccess, PlainAccess, aligned
from xdsl_spirv.interpreter.checks.shadow import Shadow, largest
from xdsl_spirv.interpreter.checks.variables import address
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Pointer, by_case
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.pointers import has_bytes
from xdsl_spirv.interpreter.semantics import TABLE, Function
from xdsl_spirv.interpreter.spirv.atomic import atomic_type, merge_results

WRITES_ONLY = ops.AtomicStoreOp | kernel.AtomicFlagClearOp
ATOMICS = [op for op in TABLE if issubclass(op, ops.AtomicOperation | kernel.AtomicFlag)]


def note_atomic(checker: Checker, op: Any, access: CheckedAccess, mask: Mask, wrote: Array) -> None:
    """Records an atomic for the race check. A failed compare-exchange counts as a read."""
    if checker.races is None:
        return
    changed = within(mask, wrote)
    if changed.any():
        access.note(None if mask is None and wrote.all() else changed, write=True, atomic=True)
    failed = within(mask, ~wrote)
    if failed.any():
        access.note(mask if not wrote.any() else failed, write=False, atomic=True)
    names = ("equal_semantics", "unequal_semantics") if hasattr(op, "equal_semantics") else ("", "")
    checker.races.synchronize(access, mask, wrote, not isinstance(op, WRITES_ONLY), names)


@checked(*ATOMICS)
def atomic(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Returns the checked form of an atomic instruction."""
    type = atomic_type(op)
    if not has_bytes(type):
        return lambda batch, values, shadows: (function(batch, *values), None)
    return CheckedAtomic(op, compiler.context.plain(type.pointee), compiler, function)


class CheckedAtomic:
    """Runs an atomic on memory that has bytes, with checks."""

    def __init__(self, op: Any, form: Plain, compiler: CheckedCompiler, function: Function):
        self.op = op
        self.form = form
        self.compiler = compiler
        self.checker = compiler.checker
        self.function = function
        self.plain = PlainAccess(compiler.checker, op, atomic=True)
        operands = list(op.operands)
        self.place = operands.index(op.pointer)
        self.writes = not isinstance(op, ops.AtomicLoadOp)
        compares = isinstance(op, ops.AtomicCompare)
        self.comparator = operands.index(op.comparator) if compares else None

    def __call__(self, batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        op, checker = self.op, self.checker
        for number, shadow in enumerate(shadows):
            if number == self.place:
                address(self.compiler, op, shadow, batch.mask)
                continue
            form = checker.form(op, number)
            checker.find_undefined(op, "an operand of the atomic", shadow, batch.mask, form)

        def one_memory(pointer: Pointer, lanes: Mask) -> tuple[Any, Shadow]:
            outer, batch.mask = batch.mask, lanes
            result = self._update(batch, [*values], pointer)
            batch.mask = outer
            return result

        return by_case(values[self.place], batch.mask, one_memory, _merge)

    def _update(self, batch: Batch, values: list[Any], pointer: Pointer) -> tuple[Any, Shadow]:
        """
        Runs the atomic in the lanes whose address is in bounds. Reports the lanes whose address is
        not.
        """
        op, checker, mask = self.op, self.checker, batch.mask
        pointer = aligned(checker, op, pointer, self.form.dtype.itemsize, "an atomic")
        access = CheckedAccess(checker, op, pointer, self.form, mask, "an atomic access")
        access.note(mask, write=self.writes, atomic=True)
        values[self.place] = pointer
        outside = access.lost if access.outside is None else access.outside
        if outside is not None:
            batch.mask = within(mask, ~outside)
            if not batch.mask.any():
                return np.zeros((1, 1, 1), self.form.dtype), None
        shadow = self._shadow(access, batch.mask)
        result = self.function(batch, *values)
        wrote = np.full((1, 1, 1), self.writes)
        if self.comparator is not None:
            wrote = np.asarray(result == values[self.comparator])
        note_atomic(checker, op, access, batch.mask, wrote)
        return result, shadow

    def _shadow(self, access: CheckedAccess, mask: Mask) -> Shadow:
        """Returns the undefined parts of the value read. Marks the written memory as defined."""
        shadow = None
        if not isinstance(self.op, WRITES_ONLY):
            self.plain.shadows.clear()
            shadow = self.plain.read_shadow(access, mask)
        if not self.writes:
            return shadow
        self.plain.write_shadow(access, None, mask)
        if isinstance(self.op, ops.AtomicExchangeOp):
            # The written value does not depend on the value that is read.
            return shadow
        self.checker.find_undefined(self.op, "the value that the atomic writes", shadow, mask)
        return None


def _merge(lanes: Mask, new: tuple[Any, Shadow], old: tuple[Any, Shadow]) -> tuple[Any, Shadow]:
    shadows = [shadow for shadow in (new[1], old[1]) if shadow is not None]
    return merge_results(lanes, new[0], old[0]), largest(shadows) if shadows else None
