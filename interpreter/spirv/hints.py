"""
Executes hints to compilers, which have no effect in the interpreter, and instructions on poison.

Poison is 0, like every undefined value. The checks report a poison value that has an effect.
Freezing poison gives 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.scalars import meanings
from xdsl_spirv.dialects.spirv import hints as ops
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import zeros
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import (
    Function,
    action,
    constant,
    nothing_happens,
    same,
    value_table,
)

nothing_happens(ops.NopOp, ops.AssumeTrueOp)  # Only the checks test an assumption.

value_table(
    {
        ops.ExpectOp: lambda a, expected: a,
        ops.FreezeOp: same,
        ops.ArithmeticFenceOp: same,
        ops.FmaOp: meanings.fused_multiply_add,
    }
)


@constant(ops.PoisonOp)
def poison(op: ops.PoisonOp, context: Context) -> Any:
    """Returns a value whose parts are all zero."""
    return zeros(context.form(op.result.type))


@action(ops.ReadClockOp)
def read_clock(op: ops.ReadClockOp, context: Context) -> Function:
    """
    Returns the number of earlier clock reads in the launch, which is monotonic and reproducible.
    """
    form = context.plain(op.result.type)

    def call(batch: Batch) -> Array:
        context.clock += 1
        now = np.full((1, 1, 1), context.clock, np.int64)
        return now[..., None].view(form.dtype) if form.shape else now

    return call
