"""
Checks instructions that consist of plain loads and stores: copies of bytes, block accesses of
subgroups, cooperative vectors, elements of tensors.

Such an instruction runs with checked loads and stores in place of plain ones. If a part is
undefined, the instruction runs a second time on the masks of undefined parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl_spirv.dialects.spirv import kernel, pointer
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import PlainAccess
from xdsl_spirv.interpreter.checks.shadow import Shadow, by_lane, normal, octets, shadow_form, whole
from xdsl_spirv.interpreter.checks.variables import address
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.layout import PlainLoader, PlainStorer
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.kernel import block_read, block_write
from xdsl_spirv.interpreter.spirv.pointer import copy_bytes

Stage: TypeAlias = Callable[[Any, Any, Any], Function]
"""
Builds an instruction's function from the operation, a context, and a function that loads or stores.
"""


def addresses(
    compiler: CheckedCompiler, op: Any, shadows: list[Any], numbers: Sequence[int], mask: Mask
) -> None:
    """
    Reports undefined addresses. `numbers` are the indices of the operands that form the address.
    """
    for number in numbers:
        shadow = shadows[number]
        if shadow is not None:
            address(compiler, op, by_lane(shadow, compiler.checker.form(op, number)), mask)


def loading(
    op: Any, compiler: CheckedCompiler, stage: Stage, placing: Sequence[int], moved: int | None
) -> Checked:
    """
    Checks an instruction that loads from memory.

    `stage` builds the instruction's function. `placing` are the indices of the address operands.
    `moved` is the index of an operand whose elements remain where nothing is loaded, or None.
    """
    context, plain = compiler.context, PlainAccess(compiler.checker, op)
    load: PlainLoader = plain.load
    run, again = stage(op, context, load), stage(op, context, plain.loaded)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        addresses(compiler, op, shadows, placing, batch.mask)
        plain.shadows.clear()
        result = run(batch, *values)
        other = moved is not None and moved < len(values)
        given = shadows[moved] if other and moved is not None else None
        if given is None and all(shadow is None for shadow, _ in plain.shadows):
            return result, None
        if other and moved is not None:
            form = shadow_form(compiler.checker.form(op, moved))
            values = [*values[:moved], whole(given, form), *values[moved + 1 :]]
        return result, normal(octets(again(batch, *values)))

    return call


def storing(
    op: Any,
    compiler: CheckedCompiler,
    stage: Stage,
    placing: Sequence[int],
    stored: int,
    report: Callable[[list[Any]], str] | None = None,
) -> Checked:
    """
    Checks an instruction that stores its operand of index `stored`.

    `stage` builds the instruction's function. `placing` are the indices of the address operands. If
    other invocations can see the memory, an undefined value is a finding, and `report` describes
    the value. Otherwise the memory is marked as undefined.
    """
    context, checker = compiler.context, compiler.checker
    plain = PlainAccess(checker, op)
    store: PlainStorer = plain.store
    run, collect = stage(op, context, store), stage(op, context, plain.to_store)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        addresses(compiler, op, shadows, placing, batch.mask)
        plain.shadows.clear()
        shadow = shadows[stored]
        if shadow is not None and report is not None:
            form = checker.form(op, stored)
            checker.find_undefined(op, report(values), shadow, batch.mask, form)
        elif shadow is not None:
            collect(batch, *values[:stored], shadow, *values[stored + 1 :])
        run(batch, *values)
        return None, None

    return call


@checked(kernel.SubgroupBlockReadOp)
def read_block(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a subgroup block read as one load for each component."""
    return loading(op, compiler, block_read, (0,), None)


@checked(kernel.SubgroupBlockWriteOp)
def write_block(op: Any, compiler: CheckedCompiler, function: Function) -> Checked:
    """Checks a subgroup block write as one store for each component."""
    return storing(op, compiler, block_write, (0,), 1)


class Moves:
    """Checked loads and stores of numbers that also copy the marks of undefined parts."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.access = PlainAccess(compiler.checker, op)
        self.shadow: Shadow = None

    def load(self, pointer: Pointer, form: Plain, mask: Mask) -> Array:
        """Loads a value, and saves the mask of its undefined parts in `self.shadow`."""
        self.access.shadows.clear()
        value = self.access.load(pointer, form, mask)
        self.shadow = self.access.shadows.pop()[0]
        return value

    def store(self, pointer: Pointer, form: Plain, value: Array, mask: Mask) -> None:
        """Stores a value, and the mask of its undefined parts from `self.shadow`."""
        self.access.shadows[:] = [self.shadow]
        self.access.store(pointer, form, value, mask)


@checked(pointer.CopyMemorySizedOp)
def copy_sized(
    op: pointer.CopyMemorySizedOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Checks the bounds of a byte copy, and copies the marks of undefined bytes."""
    moves = Moves(op, compiler)

    def call(batch: Batch, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        for shadow in shadows:
            address(compiler, op, shadow, batch.mask)
        to, origin, size = values
        copy_bytes(to, origin, size.astype(I64), batch.mask, moves.load, moves.store)
        return None, None

    return call
