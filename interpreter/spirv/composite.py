"""
Builds composites, and extracts and replaces their parts at static or dynamic indices.

A cooperative matrix has one constituent. An invocation accesses the components that the option
`component_mapping` assigns to it (CM-08, CM-18).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdsl_spirv.dialects.spirv import composite as ops
from xdsl_spirv.interpreter.batch import Batch
from xdsl_spirv.interpreter.context import Context
from xdsl_spirv.interpreter.forms import Composite, CooperativeMatrix, Plain
from xdsl_spirv.interpreter.memory import first_active
from xdsl_spirv.interpreter.numbers import Array
from xdsl_spirv.interpreter.semantics import Function, action, same, value, value_table
from xdsl_spirv.interpreter.variables import put_element, read_part, take_element, write_part


def filled_matrix(form: CooperativeMatrix) -> Function:
    """
    Returns a function that fills a matrix with the value of the first active lane in each scope
    instance (CM-09).
    """
    axes = (2,) if form.scope.name == "Subgroup" else (1, 2)

    def fill(batch: Batch, component: Array) -> Array:
        chosen = first_active(component, batch.mask, axes)[..., None].astype(form.carrier)
        return np.broadcast_to(chosen, (*chosen.shape[:2], form.rows, form.columns))

    return fill


@action(ops.CompositeConstructOp)
def construct(op: ops.CompositeConstructOp, context: Context) -> Function:
    """Builds a composite from its constituents. A vector may be built from scalars and vectors."""
    form = context.form(op.result.type)
    if isinstance(form, CooperativeMatrix):
        return filled_matrix(form)
    if isinstance(form, Composite):
        return lambda batch, *parts: parts
    assert isinstance(form, Plain)
    inner = [context.plain(constituent.type).shape for constituent in op.constituents]
    joined = len(form.shape) == 1 and any(inner)

    def join(batch: Batch, *parts: Array) -> Array:
        first = parts[0]
        if not joined and all(part is first for part in parts):
            return np.broadcast_to(
                np.expand_dims(first, 3), (*first.shape[:3], len(parts), *first.shape[3:])
            )
        lead = np.broadcast_shapes(*(part.shape[:3] for part in parts))
        pieces = [np.broadcast_to(part, lead + part.shape[3:]) for part in parts]
        if joined:
            pieces = [p if p.ndim == 4 else p[..., None] for p in pieces]
            return np.concatenate(pieces, axis=3)
        return np.stack(pieces, axis=3)

    return join


def _indexes(op: ops.CompositeExtractOp | ops.CompositeInsertOp) -> Sequence[int]:
    return [index.value.data for index in op.indices]


@action(ops.CompositeExtractOp)
def extract(op: ops.CompositeExtractOp, context: Context) -> Function:
    """Returns the part at static indices."""
    form, path, mapping = (
        context.form(op.composite.type),
        _indexes(op),
        context.options.component_mapping,
    )
    if isinstance(form, Plain) and len(path) == 1:
        number = path[0]
        return lambda batch, composite: composite[:, :, :, number]
    return lambda batch, composite: read_part(form, mapping, batch, composite, path)


@action(ops.CompositeInsertOp)
def insert(op: ops.CompositeInsertOp, context: Context) -> Function:
    """Returns the composite with the part at static indices replaced."""
    form, path, mapping = (
        context.form(op.composite.type),
        _indexes(op),
        context.options.component_mapping,
    )

    def call(batch: Batch, part: Any, composite: Any) -> Any:
        return write_part(form, mapping, batch, composite, path, part, None)

    return call


value_table({ops.VectorExtractDynamicOp: take_element, ops.CopyLogicalOp: same})


@value(ops.VectorInsertDynamicOp)
def insert_dynamic(op: ops.VectorInsertDynamicOp, context: Context) -> Function:
    """Returns the vector with one component replaced, at an index that may differ by lane."""
    names = [operand for operand in op.operands]
    order = [names.index(v) for v in (op.vector, op.component, op.index)]

    def call(*operands: Array) -> Array:
        vector, component, index = (operands[number] for number in order)
        return put_element(vector, index, component, ())

    return call


@value(ops.VectorShuffleOp)
def shuffle(op: ops.VectorShuffleOp, context: Context) -> Function:
    """Selects components of two vectors by index. Index -1, undefined in SPIR-V, gives 0."""
    numbers = np.array([component.value.data for component in op.components])
    undefined = (numbers < 0) | (numbers == 0xFFFFFFFF)
    taken = np.where(undefined, 0, numbers)

    def call(a: Array, b: Array) -> Array:
        lead = np.broadcast_shapes(a.shape[:3], b.shape[:3])
        both = [np.broadcast_to(x, lead + x.shape[3:]) for x in (a, b)]
        components = np.concatenate(both, axis=3)[..., taken]
        return np.where(undefined, 0, components).astype(a.dtype) if undefined.any() else components

    return call
