"""Builds composites of one repeated value, and constant arrays of words."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import replicated as ops
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.constants import constant_value
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Form, Plain
from xdsl_spirv.interpreter.numbers import raw_dtype
from xdsl_spirv.interpreter.semantics import Function, action, constant
from xdsl_spirv.interpreter.spirv.composite import filled_matrix


def repeated(part: Any, form: Form) -> Any:
    """Returns a composite whose constituents all equal `part`."""
    if isinstance(form, Composite):
        return (part,) * len(form.members)
    if isinstance(form, CooperativeMatrix):
        component = part.astype(form.carrier)[:, :, :1, None]
        return np.broadcast_to(component, (*component.shape[:2], form.rows, form.columns))
    assert isinstance(form, Plain)
    tail = form.shape[len(form.shape) - (part.ndim - 3) :] if part.ndim > 3 else ()
    lead = part.reshape(*part.shape[:3], *(1,) * (len(form.shape) - len(tail)), *part.shape[3:])
    return np.broadcast_to(lead, (*part.shape[:3], *form.shape))


@constant(ops.ConstantCompositeReplicateOp)
def constant_replicate(op: ops.ConstantCompositeReplicateOp, context: Context) -> Any:
    """Returns a composite constant of one repeated value, uniform over all invocations."""
    types = ops.repeated_types(op, op.value, op.result.type)
    value = constant_value(op.value, types[-1], context)
    for type in reversed(types[:-1]):
        value = repeated(value, context.form(type))
    return value


@action(ops.CompositeConstructReplicateOp)
def construct_replicate(op: ops.CompositeConstructReplicateOp, context: Context) -> Function:
    """
    Builds a composite in which all constituents equal the operand. For matrices, `filled_matrix`
    does this.
    """
    form = context.form(op.result.type)
    if isinstance(form, CooperativeMatrix):
        return filled_matrix(form)

    def call(batch: Batch, part: Any) -> Any:
        return repeated(part, form)

    return call


def data_array(op: ops.ConstantData, form: Form) -> Any:
    """Reads an array of integers from an operation's words, lowest bytes first."""
    assert isinstance(form, Plain)
    words = np.array([word & 0xFFFFFFFF for word in op.data.get_values()], "<u4")
    count = int(np.prod(form.shape))
    numbers = words.view(np.uint8)[: count * form.dtype.itemsize].view(raw_dtype(form.dtype))
    return numbers.view(form.dtype).reshape(1, 1, 1, *form.shape)


@constant(ops.ConstantDataOp)
def constant_data(op: ops.ConstantDataOp, context: Context) -> Any:
    """Returns a constant array of integers, uniform over all invocations."""
    return data_array(op, context.form(op.result.type))
