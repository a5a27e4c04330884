"""
Checked copies of bytes, subgroups' blocks and cooperative vectors: plain accesses, one after the
other, each with its shadow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import kernel, pointer
from xdsl_spirv.interpreter.checks.compiler import Checked, CheckedCompiler, checked
from xdsl_spirv.interpreter.checks.memory import PlainAccess
from xdsl_spirv.interpreter.checks.shadow import Shadow, normal
from xdsl_spirv.interpreter.checks.variables import address
from xdsl_spirv.interpreter.forms import Mask, Plain
from xdsl_spirv.interpreter.memory import Pointer
from xdsl_spirv.interpreter.numbers import I64, Array
from xdsl_spirv.interpreter.semantics import Function
from xdsl_spirv.interpreter.spirv.kernel import Block
from xdsl_spirv.interpreter.spirv.pointer import copy_bytes
from xdsl_spirv.interpreter.wave import Wave


class Moves:
    """Checked loads and stores of plain values, with the shadow of each at hand."""

    def __init__(self, op: Any, compiler: CheckedCompiler):
        self.access = PlainAccess(compiler.checker, op)
        self.shadow: Shadow = None

    def load(self, pointer: Pointer, form: Plain, mask: Mask) -> Array:
        """The value; `shadow` is its."""
        self.access.shadows.clear()
        found = self.access.load(pointer, form, mask)
        self.shadow = self.access.shadows.pop()[0]
        return found

    def store(self, pointer: Pointer, form: Plain, value: Array, mask: Mask) -> None:
        """Write a value whose shadow is `shadow`."""
        self.access.shadows[:] = [self.shadow]
        self.access.store(pointer, form, value, mask)


@checked(pointer.CopyMemorySizedOp)
def copy_sized(
    op: pointer.CopyMemorySizedOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """Bytes that may be undefined, from and to places inside."""
    moves = Moves(op, compiler)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        for shadow in shadows:
            address(compiler, op, shadow, wave.mask)
        to, origin, size = values
        copy_bytes(to, origin, size.astype(I64), wave.mask, moves.load, moves.store)
        return None, None

    return call


@checked(kernel.SubgroupBlockReadOp)
def block_read(
    op: kernel.SubgroupBlockReadOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """A load for each component."""
    moves, block = Moves(op, compiler), Block(op.result.type, compiler.unit)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        address(compiler, op, shadows[0], wave.mask)
        found: list[Array] = []
        parts: list[Array] = []
        for place in block.places(wave, values[0]):
            found.append(moves.load(place, block.element, wave.mask))
            own = np.uint8(0) if moves.shadow is None else moves.shadow
            parts.append(np.broadcast_to(own, found[-1].shape))
        if not block.form.shape:
            return found[0], normal(parts[0])
        return np.stack(found, axis=3), normal(np.stack(parts, axis=3))

    return call


@checked(kernel.SubgroupBlockWriteOp)
def block_write(
    op: kernel.SubgroupBlockWriteOp, compiler: CheckedCompiler, function: Function
) -> Checked:
    """A store for each component."""
    moves, block = Moves(op, compiler), Block(op.value.type, compiler.unit)

    def call(wave: Wave, values: list[Any], shadows: list[Any]) -> tuple[Any, Shadow]:
        address(compiler, op, shadows[0], wave.mask)
        for number, place in enumerate(block.places(wave, values[0])):
            part, shadow = values[1], shadows[1]
            if block.form.shape:
                part = part[..., number]
                shadow = None if shadow is None else shadow[..., number]
            moves.shadow = shadow
            moves.store(place, block.element, part, wave.mask)
        return None, None

    return call
