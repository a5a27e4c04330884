"""
Checked atomics: bounds, alignment, defined addresses and operands; the race check's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import atomic as ops
from xdsl_spirv.dialects.spirv import kernel
from xdsl_spirv.interpreter.checks.checker import Checker
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import CheckedAccess, PlainAccess, aligned
from xdsl_spirv.interpreter.checks.shadow import Shadow, largest
from xdsl_spirv.interpreter.checks.variables import address
from xdsl_spirv.interpreter.forms import Mask, Plain, within
from xdsl_spirv.interpreter.memory import Pointer, Pointers, cases
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.pointers import has_bytes
from xdsl_spirv.interpreter.semantics import TABLE, Function
from xdsl_spirv.interpreter.spirv.atomic import atomic_type
from xdsl_spirv.interpreter.wave import Wave

WRITES_ONLY = ops.AtomicStoreOp | kernel.AtomicFlagClearOp
ATOMICS = [op for op in TABLE if issubclass(op, ops.AtomicOperation | kernel.AtomicFlag)]


def note_atomic(checker: Checker, op: Any, access: CheckedAccess, mask: Mask, wrote: Array) -> None:
    """Give an atomic to the race check; a comparison that failed has only read."""
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
    """One access that other atomics of the location may meet."""
    checker = compiler.checker
    type = atomic_type(op)
    if not has_bytes(type):
        return lambda wave, values, shadows: (function(wave, *values), None)
    form = compiler.unit.form(type.pointee)
    assert isinstance(form, Plain)
    forms = [compiler.unit.form(operand.type) for operand in op.operands]
    place = list(op.operands).index(op.pointer)
    plain = PlainAccess(checker, op, atomic=True)
    writes = not isinstance(op, ops.AtomicLoadOp)
    compares = isinstance(op, ops.AtomicCompare)

    def wrote(result: Any, values: list[Any]) -> Array:
        if not compares:
            return np.full((1, 1, 1), writes)
        return np.asarray(result == values[list(op.operands).index(op.comparator)])

    def each_memory(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        outer, result, shadow = wave.mask, None, None
        for pointer, lanes in cases(values[place], outer):
            wave.mask = lanes
            one = [*values[:place], pointer, *values[place + 1 :]]
            found, own = call(wave, one, [None] * len(shadows))
            result = found if result is None else np.where(lanes, found, result)
            shadow = largest([part for part in (shadow, own) if part is not None] or [None])
        wave.mask = outer
        return result, shadow

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        for number, shadow in enumerate(shadows):
            if shadow is None:
                continue
            if number == place:
                address(compiler, op, shadow, wave.mask)
            else:
                checker.find_undefined(
                    op, "an operand of the atomic", shadow, wave.mask, forms[number]
                )
        if isinstance(values[place], Pointers):
            return each_memory(wave, values, shadows)
        pointer: Pointer = aligned(checker, op, values[place], form.dtype.itemsize, "an atomic")
        access = CheckedAccess(checker, op, pointer, form, wave.mask, "an atomic access")
        access.note(wave.mask, write=writes, atomic=True)
        values = [*values]
        values[place] = pointer
        mask = wave.mask
        outside = access.lost if access.outside is None else access.outside
        if outside is not None:
            wave.mask = within(mask, ~outside)
            if not wave.mask.any():
                wave.mask = mask
                return np.zeros((1, 1, 1), form.dtype), None
        undefined = checker.shadow_of(access.memory).undefined
        shadow = None
        if undefined is not None:
            if not isinstance(op, WRITES_ONLY):
                plain.shadows.clear()
                shadow = plain.read_shadow(access, undefined, wave.mask)
                if shadow is not None and writes:
                    checker.find_undefined(op, "what the atomic changes", shadow, wave.mask)
                    shadow = None
            if writes:
                plain.write_shadow(access, undefined, None, wave.mask)
        result = function(wave, *values)
        note_atomic(checker, op, access, wave.mask, wrote(result, values))
        wave.mask = mask
        return result, shadow

    return call
