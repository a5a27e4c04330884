"""
Executes SPV_NV_cooperative_matrix2, and coordinates of SPV_EXT_cooperative_matrix_maintenance1.

An instruction that calls a function for each component is executed by one call, in which components
take the place of lanes. SPIR-V leaves the order of a reduction open. Here the two halves are
combined repeatedly until one component is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np

from xdsl_spirv.dialects.spirv import cooperative_matrix_2 as ops
from xdsl_spirv.dialects.spirv.enums import CooperativeMatrixReduce, Scope
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context, Runnable
from xdsl_spirv.interpreter.forms import CooperativeMatrix
from xdsl_spirv.interpreter.memory import first_active
from xdsl_spirv.interpreter.numbers import Array, DType
from xdsl_spirv.interpreter.semantics import Function, action, same, value_table
from xdsl_spirv.interpreter.spirv.control_flow import compile_function
from xdsl_spirv.interpreter.spirv.cooperative_matrix import matrix_form
from xdsl_spirv.interpreter.variables import component_position

Combine: TypeAlias = Callable[[Array, Array], Array]
"""A function that combines two arrays (workgroup, subgroup, component)."""


def scope_axes(form: CooperativeMatrix) -> tuple[int, ...]:
    """Returns the axes of (workgroup, subgroup, lane) whose invocations share one matrix."""
    return (1, 2) if form.scope == Scope.Workgroup else (2,)


def component_batch(batch: Batch, form: CooperativeMatrix, count: int) -> Batch:
    """Creates a batch in which each lane is one of the `count` components of a matrix."""
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
    """Reduces rows, columns, 2x2 blocks or the whole matrix by the function."""
    form, result = matrix_form(op.matrix.type, context), matrix_form(op.result.type, context)
    name, directions = op.combine_func.string_value(), op.reduce.data
    flags = CooperativeMatrixReduce

    def call(batch: Batch, matrix: Array) -> Array:
        combine = combination(context.code(name, compile_function), batch, form)
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


def combination(code: Runnable, batch: Batch, form: CooperativeMatrix) -> Combine:
    """
    Returns a function that combines two arrays of components by the module's function of two
    components.
    """

    def combine(a: Array, b: Array) -> Array:
        flat = a.reshape(*a.shape[:2], -1)
        inner = component_batch(batch, form, flat.shape[2])
        components = code(inner, [flat, b.reshape(flat.shape)])
        return np.broadcast_to(components, flat.shape).reshape(a.shape)

    return combine


def combined(matrix: Array, axis: int, combine: Combine) -> Array:
    """Reduces a matrix along an axis, by combining halves, until the axis has length 1."""
    while matrix.shape[axis] > 1:
        count = matrix.shape[axis] // 2
        low, high, rest = np.split(matrix, (count, 2 * count), axis)
        matrix = combine(np.ascontiguousarray(low), np.ascontiguousarray(high))
        if rest.size:
            matrix = np.concatenate([matrix, rest], axis)
    return matrix


@action(ops.CooperativeMatrixPerElementOp)
def per_element(op: ops.CooperativeMatrixPerElementOp, context: Context) -> Function:
    """
    Applies a function to every component. It gets the row, the column, the component, and further
    arguments.
    """
    name = op.func.string_value()
    kinds = [argument.type for argument in context.symbol(name).regions[0].block.args]
    form = matrix_form(op.matrix.type, context)
    given = [argument.type for argument in op.arguments]
    beside = [taken != type for taken, type in zip(kinds[3:], given, strict=True)]
    places = [context.plain(kind).dtype for kind in kinds[:2]]

    def call(batch: Batch, *operands: Any) -> Array:
        code = context.code(name, compile_function)
        return mapped(code, batch, form, places, beside, operands)

    return call


def mapped(
    code: Runnable,
    batch: Batch,
    form: CooperativeMatrix,
    places: Sequence[DType],
    beside: Sequence[bool],
    operands: Sequence[Any],
) -> Array:
    """
    Applies a function to each component of the matrix that is the first operand.

    The function gets the row and column (integers of the types `places`), the component, and one
    argument for each further operand. If `beside` is True for that operand, it is a matrix, and the
    function gets its component at the same position.
    """
    matrix, *arguments = operands
    count = form.rows * form.columns
    numbers = np.arange(count).reshape(1, 1, count)
    place = [numbers // form.columns, numbers % form.columns]
    row, column = (p.astype(dtype) for p, dtype in zip(place, places, strict=True))

    def flat(components: Array) -> Array:
        return components.reshape(*components.shape[:2], count)

    shared = [
        flat(argument) if is_beside else one_of_scope(argument, batch, form)
        for argument, is_beside in zip(arguments, beside, strict=True)
    ]
    own = flat(matrix).astype(form.dtype, copy=False)
    components = code(component_batch(batch, form, count), [row, column, own, *shared])
    lead = np.broadcast_shapes(components.shape[:2], own.shape[:2])
    components = np.broadcast_to(components, (*lead, count))
    return components.reshape(*lead, form.rows, form.columns).astype(form.carrier, copy=False)


def one_of_scope(argument: Any, batch: Batch, form: CooperativeMatrix) -> Any:
    """Returns the value of an argument in the first active invocation of each scope instance."""
    if isinstance(argument, np.ndarray):
        return first_active(argument, batch.mask, scope_axes(form))
    return argument


@action(ops.CooperativeMatrixGetCoordinateOp)
def coordinate(op: ops.CooperativeMatrixGetCoordinateOp, context: Context) -> Function:
    """Returns the row and column of an invocation's component under the mapping (CM-18)."""
    form, mapping = matrix_form(op.matrix.type, context), context.options.component_mapping
    dtype = context.plain(op.result.type).dtype

    def call(batch: Batch, matrix: Array, index: Array) -> Array:
        position, _ = component_position(form, mapping, batch, index)
        place = (position // form.columns, position % form.columns)
        return np.stack([p.astype(dtype) for p in place], axis=3)

    return call
