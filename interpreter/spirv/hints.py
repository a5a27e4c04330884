"""
Hints to compilers, which change nothing here, and values by name.

Poison is 0, as everything undefined: the checks say where it matters. Freezing it gives that 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xdsl_spirv.dialects.scalars import meanings
from xdsl_spirv.dialects.spirv import hints as ops
from xdsl_spirv.interpreter.forms import zeros
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, constant, value
from xdsl_spirv.interpreter.unit import Unit
from xdsl_spirv.interpreter.wave import Wave


@action(ops.NopOp, ops.AssumeTrueOp)
def nothing(op: Operation, unit: Unit) -> Function:
    """No effect; the checks look at what is assumed."""
    return lambda wave, *operands: None


@value(ops.ExpectOp)
def expect(op: ops.ExpectOp, unit: Unit) -> Function:
    """The value, whatever was expected."""
    return lambda a, expected: a


@value(ops.FreezeOp, ops.ArithmeticFenceOp)
def same(op: Operation, unit: Unit) -> Function:
    """The value."""
    return lambda a: a


@constant(ops.PoisonOp)
def poison(op: ops.PoisonOp, unit: Unit) -> Any:
    """Zero in every part."""
    return zeros(unit.form(op.result.type))


@value(ops.FmaOp)
def fused(op: ops.FmaOp, unit: Unit) -> Function:
    """a * b + c, rounded once."""
    return meanings.fused_multiply_add


@action(ops.ReadClockOp)
def read_clock(op: ops.ReadClockOp, unit: Unit) -> Function:
    """How often a clock was read before in the launch: it never runs backwards, and runs repeat."""
    form = unit.plain(op.result.type)

    def call(wave: Wave) -> Array:
        unit.clock += 1
        now = np.full((1, 1, 1), unit.clock, np.int64)
        return now[..., None].view(form.dtype) if form.shape else now

    return call
