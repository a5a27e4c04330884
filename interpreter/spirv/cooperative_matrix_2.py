"""
SPV_NV_cooperative_matrix2 and the coordinates of SPV_EXT_cooperative_matrix_maintenance1.

A function that an instruction calls for components runs once for all of them: they stand where the
lanes of the scope do. The order in which a reduction combines components is the implementation's;
here neighbouring halves are combined until one is left.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_matrix_2 as ops
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixReduce, Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.memory import first_active
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, same, value_table
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.spirv.cooperative_matrix import matrix_form
from xdsl_spirv.interpreter.variables import component_position

Combine: TypeAlias = Callable[[Array, Array], Array]
"""A function of two arrays over (w, s, components)."""


def scope_axes(form: CooperativeMatrix) -> tuple[int, ...]:
    """The axes of invocations over which a matrix is one."""
    return (1, 2) if form.scope == Scope.Workgroup else (2,)


def component_batch(batch: Batch, form: CooperativeMatrix, count: int) -> Batch:
    """A batch in whose lanes `count` components of each matrix stand."""
    inner = copy(batch)
    inner.lanes = count
    inner.partial = inner.pauses = False
    if form.scope == Scope.Workgroup:
        inner.subgroups = 1
    if batch.mask is not None:
        inner.mask = batch.mask.any(axis=scope_axes(form), keepdims=True)
    inner.existing = inner.mask
    return inner


value_table(
    {
        ops.CooperativeMatrixConvertOp: same,
        ops.CooperativeMatrixTransposeOp: lambda matrix: matrix.swapaxes(2, 3),
    }
)


@action(ops.CooperativeMatrixReduceOp)
def reduce(op: ops.CooperativeMatrixReduceOp, context: Context) -> Function:
    """Rows, columns, all or squares of four combined by the function."""
    form, result = matrix_form(op.matrix.type, context), matrix_form(op.result.type, context)
    name, directions = op.combine_func.string_value(), op.reduce.data
    flags = CooperativeMatrixReduce

    def call(batch: Batch, matrix: Array) -> Array:
        def combine(a: Array, b: Array) -> Array:
            flat = a.reshape(*a.shape[:2], -1)
            inner = component_batch(batch, form, flat.shape[2])
            components = context.code(name, compile_function)(inner, [flat, b.reshape(flat.shape)])
            return np.broadcast_to(components, flat.shape).reshape(a.shape)

        matrix = matrix.astype(form.dtype, copy=False)
        if directions == flags.CooperativeMatrixReduce2x2:
            rows = combine(matrix[:, :, 0::2], matrix[:, :, 1::2])
            total = combine(rows[..., 0::2], rows[..., 1::2])
        else:
            total = matrix
            if directions & flags.Row:
                total = combined(total, 3, combine)
            if directions & flags.Column:
                total = combined(total, 2, combine)
        shape = (*total.shape[:2], result.rows, result.columns)
        return np.broadcast_to(total.astype(result.carrier, copy=False), shape)

    return call


def combined(matrix: Array, axis: int, combine: Combine) -> Array:
    """The matrix with an axis reduced to 1."""
    while matrix.shape[axis] > 1:
        count = matrix.shape[axis] // 2
        low, high, rest = np.split(matrix, (count, 2 * count), axis)
        matrix = combine(np.ascontiguousarray(low), np.ascontiguousarray(high))
        if rest.size:
            matrix = np.concatenate([matrix, rest], axis)
    return matrix


@action(ops.CooperativeMatrixPerElementOp)
def per_element(op: ops.CooperativeMatrixPerElementOp, context: Context) -> Function:
    """The function of (row, column, component, further arguments) for every component."""
    form, name = matrix_form(op.matrix.type, context), op.func.string_value()
    count = form.rows * form.columns
    numbers = np.arange(count).reshape(1, 1, count)

    def call(batch: Batch, matrix: Array, *arguments: Any) -> Array:
        flat = matrix.reshape(*matrix.shape[:2], count).astype(form.dtype, copy=False)
        place = [numbers // form.columns, numbers % form.columns]
        kinds = [argument.type for argument in context.symbol(name).regions[0].block.args[:2]]
        rows, columns = (
            p.astype(context.plain(kind).dtype) for p, kind in zip(place, kinds, strict=True)
        )
        shared = [one_of_scope(a, batch, form) for a in arguments]
        inner = component_batch(batch, form, count)
        components = context.code(name, compile_function)(inner, [rows, columns, flat, *shared])
        lead = np.broadcast_shapes(components.shape[:2], flat.shape[:2])
        components = np.broadcast_to(components, (*lead, count)).reshape(
            *lead, form.rows, form.columns
        )
        return components.astype(form.carrier, copy=False)

    return call


def one_of_scope(argument: Any, batch: Batch, form: CooperativeMatrix) -> Any:
    """An argument as the first active invocation of each scope instance has it."""
    if isinstance(argument, np.ndarray):
        return first_active(argument, batch.mask, scope_axes(form))
    return argument


@action(ops.CooperativeMatrixGetCoordinateOp)
def coordinate(op: ops.CooperativeMatrixGetCoordinateOp, context: Context) -> Function:
    """Row and column of the component that each lane holds under the mapping (CM-18)."""
    form, mapping = matrix_form(op.matrix.type, context), context.options.component_mapping
    dtype = context.plain(op.result.type).dtype

    def call(batch: Batch, matrix: Array, index: Array) -> Array:
        position, _ = component_position(form, mapping, batch, index)
        place = (position // form.columns, position % form.columns)
        return np.stack([p.astype(dtype) for p in place], axis=3)

    return call
